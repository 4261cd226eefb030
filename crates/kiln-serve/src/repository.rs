//! The files of models in Triton's layout: `NAME/VERSION/model.onnx`, where the highest version counts; also
//! `NAME/model.onnx` and `NAME.onnx`, which are version 1. A folder with a `genai_config.json` is a language model.
//! Folders in the layouts of optimum and transformers.js have `decoder_model_merged.onnx` in place of `model.onnx`, or
//! their ONNX files in a folder `onnx`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The source of models.
#[derive(Clone, Debug)]
pub enum Source {
    /// A folder of models.
    Folder(PathBuf),
    /// One model, by its name and its file or folder.
    Named(String, PathBuf),
}

/// The file that marks the folder of a language model, as onnxruntime-genai's builder writes it; the ONNX file in it
/// may have any name.
const LANGUAGE: &str = "genai_config.json";

/// The file that marks the folders of other models.
const MODEL: &str = "model.onnx";

/// Decoders of optimum and transformers.js, if there is no encoder beside them.
const MERGED: &str = "decoder_model_merged.onnx";
const ENCODER: &str = "encoder_model.onnx";

/// The folder of ONNX files in a folder of transformers.js.
const FILES: &str = "onnx";

/// The file that marks a model's folder, if it is one.
fn known_by(folder: &Path) -> Option<PathBuf> {
    let language = folder.join(LANGUAGE);
    let models = [folder.to_owned(), folder.join(FILES)].into_iter().flat_map(|place| {
        let merged = place.join(MERGED);
        [Some(place.join(MODEL)), (!place.join(ENCODER).is_file()).then_some(merged)]
    });
    std::iter::once(language).chain(models.flatten()).find(|file| file.is_file())
}

/// The state of a file: its name, bytes, and when it was last written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    name: PathBuf,
    bytes: u64,
    written: Option<SystemTime>,
}

/// The files that a model is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature(Vec<FileState>);

/// A model that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) version: u64,
    pub(crate) file: PathBuf,
    pub(crate) signature: Signature,
}

/// The models of all sources by their names. Of two models with one name the first counts.
pub(crate) fn find(sources: &[Source]) -> io::Result<BTreeMap<String, Found>> {
    let mut models = BTreeMap::new();
    for source in sources {
        match source {
            Source::Named(name, path) => {
                let found = if path.is_dir() { in_folder(path)? } else { Some(version_one(path)?) };
                let missing =
                    || io::Error::new(io::ErrorKind::NotFound, format!("model '{name}': no {MODEL} or {LANGUAGE}"));
                models.entry(name.clone()).or_insert(found.ok_or_else(missing)?);
            }
            Source::Folder(folder) => {
                for entry in fs::read_dir(folder)? {
                    let path = entry?.path();
                    let Some((name, found)) = entry_of(&path)? else { continue };
                    models.entry(name).or_insert(found);
                }
            }
        }
    }
    Ok(models)
}

/// The model in an entry of a folder, if it is one.
fn entry_of(path: &Path) -> io::Result<Option<(String, Found)>> {
    let text = |name: Option<&std::ffi::OsStr>| name.and_then(|name| name.to_str()).map(str::to_owned);
    if path.is_dir() {
        let Some(name) = text(path.file_name()).filter(|name| !name.starts_with('.')) else { return Ok(None) };
        return Ok(in_folder(path)?.map(|found| (name, found)));
    }
    let is_model = path.extension().is_some_and(|extension| extension == "onnx") && path.is_file();
    let Some(name) = text(path.file_stem()).filter(|_| is_model) else { return Ok(None) };
    Ok(Some((name, version_one(path)?)))
}

fn version_one(file: &Path) -> io::Result<Found> {
    Ok(Found { version: 1, file: file.to_owned(), signature: Signature(vec![state(file)?]) })
}

/// The newest version in a model's folder.
fn in_folder(folder: &Path) -> io::Result<Option<Found>> {
    let mut newest: Option<(u64, PathBuf, PathBuf)> = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_number = !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit());
        let Some(version) = is_number.then(|| name.parse::<u64>().ok()).flatten() else { continue };
        if newest.as_ref().is_none_or(|(highest, ..)| version > *highest)
            && let Some(file) = known_by(&path)
        {
            newest = Some((version, path, file));
        }
    }
    let Some((version, folder, file)) = newest.or_else(|| Some((1, folder.to_owned(), known_by(folder)?))) else {
        return Ok(None);
    };
    // Weights may be in files beside the model.
    let places = [Some(folder.as_path()), file.parent().filter(|&place| place != folder)];
    let mut files = Vec::new();
    for place in places.into_iter().flatten() {
        for entry in fs::read_dir(place)? {
            let path = entry?.path();
            if path.is_file() {
                files.push(state(&path)?);
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(Found { version, file, signature: Signature(files) }))
}

fn state(file: &Path) -> io::Result<FileState> {
    let found = fs::metadata(file)?;
    Ok(FileState { name: file.to_owned(), bytes: found.len(), written: found.modified().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_counts_and_other_folders_do_not() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/2/model.onnx", "a/10/model.onnx", "a/011/model.onnx", "a/x/model.onnx", "b/model.onnx"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        for path in ["c.onnx", "d.txt", "a/99"] {
            fs::write(folder.path().join(path), "").unwrap();
        }
        for path in ["f/3", "g"] {
            let path = folder.path().join(path);
            fs::create_dir_all(&path).unwrap();
            for file in ["model.onnx", "genai_config.json"] {
                fs::write(path.join(file), "").unwrap();
            }
        }
        fs::create_dir_all(folder.path().join("e/1")).unwrap();
        let exported = ["h/onnx/model.onnx", "i/decoder_model_merged.onnx", "j/2/onnx/decoder_model_merged.onnx"];
        let encoded = ["k/onnx/encoder_model.onnx", "k/onnx/decoder_model_merged.onnx"];
        for path in exported.iter().chain(&encoded) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = find(&[Source::Folder(folder.path().to_owned())]).unwrap();
        assert!(["f", "g"].iter().all(|&name| found[name].file.ends_with(LANGUAGE)));
        let ends = |name: &str, file: &str| found[name].file.ends_with(file);
        assert!(["h", "i", "j"].iter().zip(exported).all(|(name, file)| ends(name, file)));
        let found: Vec<(&str, u64)> = found.iter().map(|(name, found)| (name.as_str(), found.version)).collect();
        assert_eq!(found, [("a", 10), ("b", 1), ("c", 1), ("f", 3), ("g", 1), ("h", 1), ("i", 1), ("j", 2)]);
        let named = [Source::Named("n".to_owned(), folder.path().join("a"))];
        assert_eq!(find(&named).unwrap()["n"].version, 10);
        assert!(find(&[Source::Named("n".to_owned(), folder.path().join("e"))]).is_err());
    }
}
