//! Packed models that a session saves as the kind `fusion`, and that are given to later sessions of their model.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln::packed::{PackedError, PackedFile, Verify};
use kiln::session::{CacheError, CacheKind, Numerics, Pack, Session, SessionError, SessionOptions};
use kiln_model::Graph;
use kiln_model::onnx;

use crate::{expect_same, models, options};

/// A model's file in a folder of its own.
fn stored(graph: &Graph) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, onnx::write(graph).unwrap()).unwrap();
    (folder, path)
}

fn load(path: &Path, options: &SessionOptions) -> Session {
    Session::load(path, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Why a packed model is refused.
fn refusal(session: &Session, packed: &Path) -> PackedError {
    match session.load_cache(packed, CacheKind::Fusion) {
        Err(CacheError::Packed(SessionError::Packed(error))) => error,
        other => panic!("it is refused: {other:?}"),
    }
}

#[test]
fn later_sessions_of_a_model_use_the_packed_model_that_was_given() {
    for model in models::all() {
        let (folder, path) = stored(&model.graph);
        let packed = folder.path().join("saved.kpk");
        let plain = load(&path, &options());
        let saved = plain.save_cache(&packed, CacheKind::Fusion).unwrap();
        assert_eq!((saved.written, saved.path.as_deref()), (1, Some(packed.as_path())), "{}", model.name);
        assert_eq!(saved.bytes, std::fs::metadata(&packed).unwrap().len());
        assert!(!load(&path, &options()).is_packed(), "it was not given yet");
        assert_eq!(plain.load_cache(&packed, CacheKind::Fusion).unwrap().taken, 1);
        assert!(!plain.is_packed(), "this session stays as it is");
        let later = load(&path, &options());
        assert!(later.is_packed(), "{}", model.name);
        expect_same(&plain, &later, &model.requests, model.name);
    }
}

#[test]
fn a_session_of_a_packed_model_saves_that_one() {
    let model = models::products();
    let (folder, path) = stored(&model.graph);
    let [first, second] = ["first.kpk", "second.kpk"].map(|name| folder.path().join(name));
    load(&path, &options()).save_cache(&first, CacheKind::Fusion).unwrap();
    load(&first, &options()).save_cache(&second, CacheKind::Fusion).unwrap();
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
    // Also in its own place: it is written aside first.
    load(&first, &options()).save_cache(&first, CacheKind::Fusion).unwrap();
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
}

#[test]
fn a_packed_model_of_other_weights_options_or_no_file_is_refused_by_name() {
    let graph = models::products().graph;
    let (folder, path) = stored(&graph);
    let session = load(&path, &options());
    let place = |name: &str| folder.path().join(name);

    // The same structure with one weight that differs.
    let mut other = graph.clone();
    let weights = other.constants.values_mut().find(|tensor| tensor.shape() == [70, 70]).unwrap();
    let mut bytes = weights.clone();
    bytes.bytes_mut()[0] ^= 1;
    *weights = bytes;
    let (_other_folder, other) = stored(&other);
    let foreign = place("foreign.kpk");
    load(&other, &options()).save_cache(&foreign, CacheKind::Fusion).unwrap();
    let error = refusal(&session, &foreign);
    assert!(matches!(&error, PackedError::Other { fact, .. } if fact.starts_with("model than")), "{error}");
    assert!(error.to_string().contains("foreign.kpk"), "{error}");

    // From memory: it does not say from which file.
    let unsaid = place("unsaid.kpk");
    Session::pack_graph(graph, &unsaid, &options()).unwrap();
    let error = refusal(&session, &unsaid);
    assert!(matches!(&error, PackedError::Other { found, .. } if found == "not said"), "{error}");

    let strict = SessionOptions { numerics: Numerics::Strict, ..options() };
    let strictly = place("strict.kpk");
    Session::pack(&path, &strictly, &strict).unwrap();
    let error = refusal(&session, &strictly);
    assert!(matches!(&error, PackedError::Other { fact, .. } if fact == "numerics"), "{error}");

    assert!(matches!(refusal(&session, &place("gone.kpk")), PackedError::Io { .. }));
    assert!(matches!(refusal(&session, &path), PackedError::Damaged { .. }));
    assert!(!load(&path, &options()).is_packed(), "none of them is used");
}

#[test]
fn a_damaged_packed_model_is_refused_wherever_it_is_damaged() {
    let (folder, path) = stored(&models::halves().graph);
    // Also where no load looks at the data: a given model is checked once.
    let session = load(&path, &SessionOptions { pack_verify: Verify::Never, ..options() });
    let packed = folder.path().join("saved.kpk");
    session.save_cache(&packed, CacheKind::Fusion).unwrap();
    let bytes = std::fs::read(&packed).unwrap();
    for at in (8..bytes.len()).step_by(bytes.len() / 97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&packed, damaged).unwrap();
        let error = refusal(&session, &packed);
        assert!(matches!(error, PackedError::Damaged { .. } | PackedError::Other { .. }), "byte {at}: {error}");
    }
    assert!(!load(&path, &options()).is_packed());
}

#[test]
fn a_given_packed_model_is_left_once_it_or_its_model_is_changed() {
    let model = models::products();
    let (folder, path) = stored(&model.graph);
    let session = load(&path, &options());
    let packed = folder.path().join("saved.kpk");
    session.save_cache(&packed, CacheKind::Fusion).unwrap();
    session.load_cache(&packed, CacheKind::Fusion).unwrap();
    std::fs::remove_file(&packed).unwrap();
    let later = load(&path, &options());
    assert!(!later.is_packed());
    expect_same(&session, &later, &model.requests, "of the ONNX file");

    session.save_cache(&packed, CacheKind::Fusion).unwrap();
    session.load_cache(&packed, CacheKind::Fusion).unwrap();
    assert!(load(&path, &options()).is_packed());
    std::thread::sleep(Duration::from_millis(20));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    assert!(!load(&path, &options()).is_packed(), "written anew, it may be another model");
    // And a session of the model before the change cannot save any more.
    let error = session.save_cache(&packed, CacheKind::Fusion).unwrap_err();
    assert!(error.to_string().contains("was changed since the session was loaded"), "{error}");
    assert!(PackedFile::open(&packed).is_ok(), "what was there is there");
}

#[test]
fn a_model_from_memory_has_nothing_to_save_or_to_be_given() {
    let session = Session::from_graph(models::products().graph, &options()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.kpk");
    for error in [
        session.save_cache(&path, CacheKind::Fusion).unwrap_err(),
        session.load_cache(&path, CacheKind::Fusion).unwrap_err(),
    ] {
        assert!(error.to_string().contains("was not loaded from an ONNX file"), "{error}");
    }
    assert!(!path.exists());
}

#[test]
fn it_is_kept_for_later_processes_beside_records_that_are_written() {
    let (folder, path) = stored(&models::products().graph);
    let cache_dir = Some(folder.path().join("records"));
    let own = SessionOptions { threads: 1, cache_dir, ..SessionOptions::default() };
    let session = load(&path, &own);
    let packed = folder.path().join("saved.kpk");
    session.save_cache(&packed, CacheKind::Fusion).unwrap();
    session.load_cache(&packed, CacheKind::Fusion).unwrap();
    // The caller's copy is gone, as in a process that was not given it.
    std::fs::remove_file(&packed).unwrap();
    assert!(!load(&path, &own).is_packed());
    assert!(load(&path, &SessionOptions { pack: Pack::Auto, ..own }).is_packed());
}
