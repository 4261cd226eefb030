//! Packed models that sessions make and find by themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln::session::{Pack, Session, SessionError, SessionOptions};
use kiln_model::ir::Dim;
use kiln_model::onnx;
use kiln_model::{Graph, GraphBuilder};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor};

use crate::{expect_same, models};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn model(&self, name: &str, graph: &Graph) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, onnx::write(graph).unwrap()).unwrap();
        path
    }

    fn options(&self) -> SessionOptions {
        let cache_dir = Some(self.path().join("records"));
        SessionOptions { threads: 1, cache_dir, pack: Pack::Auto, ..SessionOptions::default() }
    }

    /// Loads a model, and waits until it is packed in its place.
    fn load(&self, path: &Path) -> Session {
        let session = Session::load(path, &self.options()).unwrap_or_else(|error| panic!("{error}"));
        assert!(session.settle(Duration::from_secs(60)));
        session
    }

    fn packed(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("records/packed")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "kpk")).collect()
    }
}

#[test]
fn the_second_load_of_a_model_is_that_of_its_packed_form_with_the_same_bits() {
    for model in models::all() {
        let place = Place::new();
        let path = place.model("model.onnx", &model.graph);
        let (first, second) = (place.load(&path), place.load(&path));
        assert!(!first.is_packed() && second.is_packed(), "{}", model.name);
        expect_same(&first, &second, &model.requests, model.name);
    }
}

#[test]
fn a_model_that_was_changed_is_packed_anew_and_a_copy_is_not() {
    let place = Place::new();
    let path = place.model("model.onnx", &models::products().graph);
    drop(place.load(&path));
    let copy = place.path().join("copy.onnx");
    std::fs::copy(&path, &copy).unwrap();
    assert!(!place.load(&copy).is_packed(), "nobody has looked at the copy yet");
    assert!(place.load(&copy).is_packed());
    assert_eq!(place.packed().len(), 1);
    std::thread::sleep(Duration::from_millis(20));
    place.model("model.onnx", &models::images().graph);
    assert!(!place.load(&path).is_packed());
    let again = place.load(&path);
    assert!(again.is_packed() && again.inputs()[0].dims.as_ref().unwrap().len() == 4);
    assert_eq!(place.packed().len(), 2);
}

#[test]
fn a_damaged_packed_model_costs_a_load_and_is_made_anew() {
    let place = Place::new();
    let model = models::products();
    let path = place.model("model.onnx", &model.graph);
    let first = place.load(&path);
    let kept = place.packed().remove(0);
    for at in [9, 4096 + 80] {
        let mut bytes = std::fs::read(&kept).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&kept, bytes).unwrap();
        let session = place.load(&path);
        assert!(!session.is_packed(), "byte {at}");
        expect_same(&first, &session, &model.requests, "of the ONNX file");
        assert!(place.load(&path).is_packed(), "byte {at}");
    }
}

#[test]
fn sessions_that_may_not_write_make_none_and_use_what_is_there() {
    let place = Place::new();
    let path = place.model("model.onnx", &models::products().graph);
    let load = |cache_mode: CacheMode| {
        let session = Session::load(&path, &SessionOptions { cache_mode, ..place.options() }).unwrap();
        assert!(session.settle(Duration::from_secs(60)));
        session.is_packed()
    };
    for mode in [CacheMode::Read, CacheMode::Memory, CacheMode::Off] {
        assert!(!load(mode), "{mode:?}");
        assert!(place.packed().is_empty(), "{mode:?}");
    }
    assert!(!load(CacheMode::ReadWrite));
    assert!(load(CacheMode::Read) && !load(CacheMode::Memory));
}

#[test]
fn defaults_are_replaced_and_names_differ_by_the_onnx_file() {
    let mut build = GraphBuilder::new("default", 17);
    let x = build.input("x", DType::F32, [Dim::Named("n".to_owned())]);
    let z = build.input("z", DType::F32, [Dim::Named("n".to_owned())]);
    let offset = build.input("offset", DType::F32, [1.into()]);
    let sum = build.op("Add", &[x, z], &[]);
    let y = build.op("Add", &[sum, offset], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    graph.set_constant(offset, Tensor::from_slice([1], &[2f32]).unwrap());
    let place = Place::new();
    let path = place.model("model.onnx", &graph);
    drop(place.load(&path));
    let session = place.load(&path);
    assert!(session.is_packed());
    let of = |values: &[f32]| Tensor::from_slice([values.len()], values).unwrap();
    let run =
        |inputs: &[(&str, Tensor)]| session.run(inputs).map(|outputs| outputs[0].1.as_slice::<f32>().unwrap().to_vec());
    assert_eq!(run(&[("x", of(&[1.0, 2.0])), ("z", of(&[3.0, 4.0]))]).unwrap(), [6.0, 8.0]);
    assert_eq!(run(&[("x", of(&[1.0])), ("z", of(&[3.0])), ("offset", of(&[9.0]))]).unwrap(), [13.0]);
    assert_eq!(run(&[("x", of(&[1.0])), ("z", of(&[3.0, 5.0]))]).unwrap(), [6.0, 8.0], "one name, two sizes");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run(&[("x", of(&[1.0])), ("z", of(&[3.0])), ("offset", of(&[9.0]))]).unwrap(), [13.0], "made before");
    let fresh = place.model("other.onnx", &graph);
    drop(place.load(&fresh));
    let session = place.load(&fresh);
    std::fs::remove_file(&fresh).unwrap();
    let given = session.run(&[("x", of(&[1.0])), ("z", of(&[3.0])), ("offset", of(&[9.0]))]);
    assert!(matches!(given, Err(SessionError::Packed(_))), "the file has gone");
}

#[test]
fn what_was_used_least_recently_goes_where_there_is_no_room() {
    let place = Place::new();
    let paths = [models::products(), models::images()].map(|model| place.model(model.name, &model.graph));
    paths.iter().for_each(|path| drop(place.load(path)));
    let sizes = place.packed().iter().map(|path| path.metadata().unwrap().len()).sum::<u64>();
    std::fs::remove_dir_all(place.path().join("records")).unwrap();
    let room = SessionOptions { pack_bytes: sizes - 1, ..place.options() };
    for path in &paths {
        let session = Session::load(path, &room).unwrap();
        assert!(session.settle(Duration::from_secs(60)));
        assert_eq!(place.packed().len(), 1, "{path:?}");
    }
    assert!(Session::load(&paths[1], &room).unwrap().is_packed());
    assert!(!Session::load(&paths[0], &room).unwrap().is_packed());
}

/// A field of a protobuf message that has a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

#[test]
fn a_model_with_weights_in_a_file_beside_it_is_packed_and_found_until_that_is_another_one() {
    let mut build = GraphBuilder::new("beside", 17);
    let x = build.input("x", DType::F32, [4.into()]);
    let w = build.input("w", DType::F32, [4.into()]);
    let y = build.op("Add", &[x, w], &[]);
    build.output("y", y);
    let entry = [field(1, b"location"), field(2, b"weights.bin")].concat();
    // Four numbers of type 1, stored elsewhere. Protobuf merges a message into an equal field before it.
    let tensor = [&[1 << 3, 4, 2 << 3, 1][..], &field(8, b"w"), &field(13, &entry), &[14 << 3, 1]].concat();
    let model = [onnx::write(&build.finish()).unwrap(), field(7, &field(5, &tensor))].concat();
    let place = Place::new();
    let folder = place.path().join("inner");
    std::fs::create_dir(&folder).unwrap();
    let (path, weights) = (folder.join("model.onnx"), folder.join("weights.bin"));
    std::fs::write(&path, model).unwrap();
    let write = |number: f32| std::fs::write(&weights, [number.to_le_bytes(); 4].concat()).unwrap();
    let run = |session: &Session| {
        let x = Tensor::from_slice([4], &[1f32; 4]).unwrap();
        session.run(&[("x", x)]).unwrap()[0].1.as_slice::<f32>().unwrap()[0]
    };
    write(2.0);
    let (first, second) = (place.load(&path), place.load(&path));
    assert!(!first.is_packed() && second.is_packed());
    assert_eq!((run(&first), run(&second)), (3.0, 3.0));
    std::thread::sleep(Duration::from_millis(20));
    write(5.0);
    let (third, fourth) = (place.load(&path), place.load(&path));
    assert!(!third.is_packed() && fourth.is_packed());
    assert_eq!((run(&third), run(&fourth)), (6.0, 6.0));
}
