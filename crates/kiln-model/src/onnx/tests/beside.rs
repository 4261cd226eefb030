//! Tensors in files beside the model: only whole ones, only from below the model's folder. Links are in `links`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;

use super::super::proto::StringStringEntryProto;
use super::*;

/// A model with an initialiser of four floats whose bytes are where `entries` say.
pub(super) fn model_with(entries: &[(&str, &str)]) -> ModelProto {
    let mut message = model(vec![node("Add", &["x", "w"], &["y"])]);
    let external_data = entries
        .iter()
        .map(|(key, value)| StringStringEntryProto { key: Some((*key).to_owned()), value: Some((*value).to_owned()) });
    message.graph.as_mut().unwrap().initializer.push(TensorProto {
        name: Some("w".to_owned()),
        data_type: Some(DataType::Float as i32),
        dims: vec![4],
        data_location: Some(1),
        external_data: external_data.collect(),
        ..Default::default()
    });
    message
}

/// A folder with the model's files in `model/`, and a file outside of that.
pub(super) fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("model");
    fs::create_dir_all(folder.join("below")).unwrap();
    let bytes: Vec<u8> = (0..8).flat_map(|i| (i as f32).to_le_bytes()).collect();
    fs::write(folder.join("w.bin"), &bytes).unwrap();
    fs::write(folder.join("below/w.bin"), &bytes).unwrap();
    fs::write(root.path().join("secret"), &bytes).unwrap();
    root
}

pub(super) fn load_in(root: &Path, entries: &[(&str, &str)]) -> Result<Graph, ModelError> {
    let file = root.join("model/model.onnx");
    fs::write(&file, model_with(entries).encode_to_vec()).unwrap();
    load(&file, &Limits::default())
}

pub(super) type Expected = fn(&ExternalProblem) -> bool;

pub(super) fn problem(result: Result<Graph, ModelError>) -> ExternalProblem {
    match result {
        Err(ModelError::Tensor { problem: TensorProblem::External(problem), .. }) => problem,
        other => panic!("expected trouble with external data, got {other:?}"),
    }
}

#[test]
fn the_part_that_the_model_names_is_read() {
    let root = folder();
    let cases: [(&[(&str, &str)], f32); 5] = [
        (&[("location", "w.bin")], 0.0),
        (&[("location", "w.bin"), ("offset", "16")], 4.0),
        (&[("location", "below/w.bin"), ("offset", "4"), ("length", "16")], 1.0),
        (&[("location", "./below//w.bin"), ("checksum", "anything")], 0.0),
        (&[("length", "16"), ("location", "w.bin"), ("offset", "0")], 0.0),
    ];
    for (entries, first) in cases {
        let graph = load_in(root.path(), entries).unwrap_or_else(|error| panic!("{entries:?}: {error}"));
        let tensor = graph.constant_input(&graph.nodes[0], 1).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [first, first + 1.0, first + 2.0, first + 3.0], "{entries:?}");
    }
}

#[test]
fn data_beyond_two_gigabytes_is_read() {
    let root = folder();
    let file = fs::OpenOptions::new().write(true).open(root.path().join("model/w.bin")).unwrap();
    // A hole, but for the numbers behind it.
    let offset = (5u64 << 30) + 16;
    let bytes: Vec<u8> = (3..7).flat_map(|i| (i as f32).to_le_bytes()).collect();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, offset).unwrap();
    let graph = load_in(root.path(), &[("location", "w.bin"), ("offset", &offset.to_string())]).unwrap();
    let tensor = graph.constant_input(&graph.nodes[0], 1).unwrap();
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_model_may_be_named_by_a_url() {
    let root = folder();
    load_in(root.path(), &[("location", "w.bin")]).unwrap();
    let url = format!("file://{}/m%6fdel/model.onnx", root.path().display());
    assert_eq!(load(Path::new(&url), &Limits::default()).unwrap().nodes.len(), 1);
    let other = format!("file://elsewhere{}/model/model.onnx", root.path().display());
    assert!(matches!(load(Path::new(&other), &Limits::default()), Err(ModelError::Url { .. })));
}

#[test]
fn nothing_outside_the_folder_is_read() {
    let root = folder();
    let inside = root.path().join("model");
    symlink("../secret", inside.join("link")).unwrap();
    symlink("..", inside.join("up")).unwrap();
    fs::hard_link(root.path().join("secret"), inside.join("hard")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, inside.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let absolute = root.path().join("secret").display().to_string();
    let cases: [(&str, Expected); 13] = [
        ("", |p| matches!(p, ExternalProblem::Location(_))),
        (".", |p| matches!(p, ExternalProblem::Location(_))),
        ("..", |p| matches!(p, ExternalProblem::Location(_))),
        ("../secret", |p| matches!(p, ExternalProblem::Location(_))),
        ("below/../../secret", |p| matches!(p, ExternalProblem::Location(_))),
        ("w.bin\0", |p| matches!(p, ExternalProblem::Location(_))),
        (&absolute, |p| matches!(p, ExternalProblem::Location(_))),
        ("link", |p| matches!(p, ExternalProblem::Outside(location) if location == "\"link\"")),
        ("up/secret", |p| matches!(p, ExternalProblem::Outside(location) if location == "\"up/secret\"")),
        ("missing", |p| matches!(p, ExternalProblem::Io { .. })),
        ("hard", |p| matches!(p, ExternalProblem::HardLink(_))),
        ("below", |p| matches!(p, ExternalProblem::NotAFile(_))),
        ("pipe", |p| matches!(p, ExternalProblem::NotAFile(_))),
    ];
    for (location, expected) in cases {
        let problem = problem(load_in(root.path(), &[("location", location)]));
        assert!(expected(&problem), "{location:?}: {problem}");
    }
}

#[test]
fn only_bytes_that_are_there_are_read() {
    let root = folder();
    let cases: [(&str, &str, Expected); 6] = [
        ("offset", "20", |p| matches!(p, ExternalProblem::Range { size: 32, .. })),
        ("offset", "18446744073709551615", |p| matches!(p, ExternalProblem::Range { .. })),
        ("offset", "1152921504606846976", |p| matches!(p, ExternalProblem::Range { .. })),
        ("offset", "-4", |p| matches!(p, ExternalProblem::Number { key: "offset", .. })),
        ("length", "sixteen", |p| matches!(p, ExternalProblem::Number { key: "length", .. })),
        ("length", "99999999999999999999", |p| matches!(p, ExternalProblem::Number { key: "length", .. })),
    ];
    for (key, value, expected) in cases {
        let problem = problem(load_in(root.path(), &[("location", "w.bin"), (key, value)]));
        assert!(expected(&problem), "{key} {value}: {problem}");
    }
    let short = load_in(root.path(), &[("location", "w.bin"), ("length", "12")]);
    assert!(matches!(
        short,
        Err(ModelError::Tensor { problem: TensorProblem::Length { need: 16, found: 12, .. }, .. })
    ));
}

#[test]
fn a_small_file_does_not_make_much_memory() {
    let root = folder();
    let mut message = model_with(&[("location", "w.bin")]);
    let graph = message.graph.as_mut().unwrap();
    let tensor = graph.initializer[0].clone();
    graph.initializer.extend((0..100).map(|i| TensorProto { name: Some(format!("w{i}")), ..tensor.clone() }));
    let folder = root.path().join("model");
    let result = load_bytes(message.encode_to_vec().into(), Some(&folder), &Limits::default());
    assert!(matches!(problem(result), ExternalProblem::Repeated(_)));
}

/// Reads were counted by location once, so that each spelling of a file's path could read it eight times.
#[test]
fn names_of_one_file_count_together() {
    let root = folder();
    let folder = root.path().join("model");
    let mut message = model_with(&[("location", "w.bin")]);
    let graph = message.graph.as_mut().unwrap();
    let tensor = graph.initializer[0].clone();
    for number in 0..40 {
        let name = format!("link{number}");
        symlink("w.bin", folder.join(&name)).unwrap();
        for location in [name, format!("{}w.bin", "./".repeat(number))] {
            let mut tensor = tensor.clone();
            tensor.name = Some(format!("t{location}"));
            tensor.external_data[0].value = Some(location);
            graph.initializer.push(tensor);
        }
    }
    let result = load_bytes(message.encode_to_vec().into(), Some(&folder), &Limits::default());
    assert!(matches!(problem(result), ExternalProblem::Repeated(_)));
}

#[test]
fn a_model_in_memory_has_no_files() {
    let result = load_message(&model_with(&[("location", "w.bin")]));
    assert!(matches!(problem(result), ExternalProblem::NoFolder(location) if location == "\"w.bin\""));
}

#[test]
fn files_that_are_handed_over_are_read_where_they_are() {
    let bytes: Vec<u8> = (0..8).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let data: ExternalData = [("./sub//w.bin", bytes.clone()), ("unused", Vec::new())].into_iter().collect();
    let load = |entries: &[(&str, &str)]| {
        load_bytes_with(model_with(entries).encode_to_vec().into(), data.clone(), &Limits::default())
    };
    let graph = load(&[("location", "sub/w.bin"), ("offset", "8")]).unwrap();
    let tensor = graph.constant_input(&graph.nodes[0], 1).unwrap();
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [2.0, 3.0, 4.0, 5.0]);
    let cases: [(&[(&str, &str)], Expected); 6] = [
        (&[("location", "w.bin")], |p| matches!(p, ExternalProblem::NotHanded(name) if name == "\"w.bin\"")),
        (&[("location", "/sub/w.bin")], |p| matches!(p, ExternalProblem::NotHanded(_))),
        (&[("location", "")], |p| matches!(p, ExternalProblem::NotHanded(_))),
        (&[("location", "unused")], |p| matches!(p, ExternalProblem::Range { size: 0, .. })),
        (&[("location", "sub/w.bin"), ("offset", "20")], |p| matches!(p, ExternalProblem::Range { size: 32, .. })),
        (&[("location", "sub/w.bin"), ("offset", "18446744073709551615")], |p| {
            matches!(p, ExternalProblem::Range { .. })
        }),
    ];
    for (entries, expected) in cases {
        let problem = problem(load(entries));
        assert!(expected(&problem), "{entries:?}: {problem}");
    }
    // Spellings of one name count together, as files' do.
    let mut message = model_with(&[("location", "sub/w.bin")]);
    let graph = message.graph.as_mut().unwrap();
    let tensor = graph.initializer[0].clone();
    graph.initializer.extend((0..40).map(|number| {
        let mut tensor = TensorProto { name: Some(format!("w{number}")), ..tensor.clone() };
        tensor.external_data[0].value = Some(format!("{}sub/w.bin", "./".repeat(number)));
        tensor
    }));
    let result = load_bytes_with(message.encode_to_vec().into(), data, &Limits::default());
    assert!(matches!(problem(result), ExternalProblem::Repeated(_)));
}

#[test]
fn files_that_were_not_handed_over_are_fetched_once_by_paths_below_the_folder() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (seen, bytes) = (asked.clone(), Bytes::from_owner([0u8; 16]));
    let mut data: ExternalData = [("here.bin", vec![0; 16])].into_iter().collect();
    data.fetch_others(move |location, most| {
        seen.lock().unwrap().push((location.to_owned(), most));
        match location {
            "sub/w.bin" => Ok(Some(bytes.clone())),
            "broken" => Err(std::io::Error::other("no such luck")),
            _ => Ok(None),
        }
    });
    let limits = Limits { tensor_bytes: 1000, ..Limits::default() };
    let load = |location: &str| {
        let mut message = model_with(&[("location", location)]);
        let graph = message.graph.as_mut().unwrap();
        let again = graph.initializer[0].clone();
        graph.initializer.push(TensorProto { name: Some("again".to_owned()), ..again });
        load_bytes_with(message.encode_to_vec().into(), data.clone(), &limits)
    };
    assert!(load("./here.bin").is_ok() && load(".//sub/./w.bin").is_ok());
    let missing = problem(load("w.bin"));
    assert!(matches!(&missing, ExternalProblem::NotHanded(name) if name == "\"w.bin\""), "{missing}");
    let broken = problem(load("broken"));
    assert!(matches!(&broken, ExternalProblem::Io { source, .. } if source.to_string() == "no such luck"), "{broken}");
    let wanted = ["sub/w.bin", "w.bin", "broken"].map(|location| (location.to_owned(), 1000));
    assert_eq!(*asked.lock().unwrap(), wanted);
    for outside in ["", ".", "/sub/w.bin", "../w.bin", "sub/../../w.bin"] {
        let problem = problem(load(outside));
        assert!(matches!(problem, ExternalProblem::Location(_)), "{outside}: {problem}");
    }
    assert_eq!(*asked.lock().unwrap(), wanted, "none of these is asked for");
}

#[test]
fn an_archive_is_no_model_and_its_error_says_so() {
    for start in [b"PK\x03\x04", b"PK\x05\x06"] {
        let archive = [start.as_slice(), &[0; 40]].concat();
        let loaded = load_bytes(archive.clone().into(), None, &Limits::default());
        assert!(matches!(loaded, Err(ModelError::Archive { .. })));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), archive).unwrap();
        let error = load(file.path(), &Limits::default()).unwrap_err().to_string();
        let named = format!("{:?} is a zip archive", file.path());
        assert!(error.starts_with(&named), "{error}");
    }
}

#[test]
fn an_initialiser_is_replaced_without_a_look_at_its_own_data() {
    let bytes = Bytes::from(model_with(&[("location", "nowhere")]).encode_to_vec());
    let load = |tensor: Tensor| {
        let mut data = ExternalData::new();
        data.replace("w", tensor);
        data.replace("no such name", Tensor::scalar(1f32));
        load_bytes_with(bytes.clone(), data, &Limits::default())
    };
    let graph = load(Tensor::from_slice([4], &[1f32, 2.0, 3.0, 4.0]).unwrap()).unwrap();
    let tensor = graph.constant_input(&graph.nodes[0], 1).unwrap();
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    for other in [Tensor::from_slice([3], &[1f32; 3]).unwrap(), Tensor::from_slice([4], &[1i32; 4]).unwrap()] {
        let Err(ModelError::Malformed { place, reason }) = load(other) else { panic!("it is of another spec") };
        assert!(place.contains("\"w\"") && reason.contains("[4] of type float32"), "{place}: {reason}");
    }
}
