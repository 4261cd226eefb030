//! Files of tensors: npy and npz of numpy, pb of ONNX test data. Depends on no session.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use kiln_tensor::Tensor;
use zip::{ZipArchive, ZipWriter};

use crate::failure::{Failure, Outcome, WithCode};
use crate::npy;

/// The tensors in a file, by the file's extension, with their names where the file has names.
pub(crate) fn read(path: &Path) -> Outcome<Vec<(Option<String>, Tensor)>> {
    let shown = path.display();
    let open = || File::open(path).usage(|| format!("cannot read {}", path.display()));
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => {
            let tensor = npy::read(BufReader::new(open()?)).usage(|| format!("{}", path.display()))?;
            Ok(vec![(None, tensor)])
        }
        Some("npz") => read_npz(open()?).map_err(|failure| failure.context(format!("{}", path.display()))),
        Some("pb") => {
            let bytes = std::fs::read(path).usage(|| format!("cannot read {}", path.display()))?;
            let tensor = kiln_model::onnx::read_tensor(bytes).usage(|| format!("{}", path.display()))?;
            Ok(vec![(None, tensor)])
        }
        _ => Err(Failure::usage(format!("{shown} is neither .npy, .npz nor .pb"))),
    }
}

fn read_npz(file: File) -> Outcome<Vec<(Option<String>, Tensor)>> {
    let mut archive = ZipArchive::new(BufReader::new(file)).usage(|| "no npz archive")?;
    let names: Vec<String> =
        archive.file_names().filter_map(|file| file.strip_suffix(".npy")).map(str::to_owned).collect();
    let mut arrays = Vec::with_capacity(names.len());
    for name in names {
        let entry = archive.by_name(&format!("{name}.npy"));
        let entry = entry.usage(|| format!("array '{name}'"))?;
        let tensor = npy::read(entry).usage(|| format!("array '{name}'"))?;
        arrays.push((Some(name), tensor));
    }
    Ok(arrays)
}

/// Writes one tensor as npy.
pub(crate) fn write_npy(path: &Path, tensor: &Tensor) -> Outcome {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).failed(context)?);
    npy::write(tensor, &mut file).failed(context)?;
    file.flush().failed(context)
}

/// Writes tensors by name as an npz archive.
pub(crate) fn write_npz(path: &Path, arrays: &[(String, Tensor)]) -> Outcome {
    let context = || format!("cannot write {}", path.display());
    let mut zip = ZipWriter::new(BufWriter::new(File::create(path).failed(context)?));
    for (name, tensor) in arrays {
        zip.start_file(format!("{name}.npy"), Default::default()).failed(context)?;
        npy::write(tensor, &mut zip).failed(context)?;
    }
    zip.finish().failed(context)?.flush().failed(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_survive_an_npz_file_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.npz");
        let arrays = [
            ("0:last_hidden_state".to_owned(), Tensor::from_slice([2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap()),
            ("1:a/b".to_owned(), Tensor::from_slice([3], &[1i64, 2, 3]).unwrap()),
        ];
        write_npz(&path, &arrays).unwrap();
        let mut found = read(&path).unwrap();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(found.len(), 2);
        for ((name, tensor), (expected_name, expected)) in found.iter().zip(&arrays) {
            assert_eq!(name.as_ref(), Some(expected_name));
            assert!(tensor.same(expected));
        }
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, message) in [
            ("missing.npy", None, "cannot read"),
            ("bad.npy", Some("text"), "no npy data"),
            ("bad.npz", Some("text"), "no npz archive"),
            ("x.txt", Some("1 2 3"), "is neither .npy, .npz nor .pb"),
        ] {
            let path = folder.path().join(name);
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let line = read(&path).unwrap_err().line().unwrap();
            assert!(line.contains(name) && line.contains(message), "{line}");
        }
    }
}
