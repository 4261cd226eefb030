//! The uses of a packed model, and its limits.

use std::sync::Arc;

use kiln::packed::{PackedError, PackedFile};
use kiln::session::{Precision, Session, SessionError, SessionOptions};
use kiln_model::GraphBuilder;
use kiln_model::ir::Dim;
use kiln_tensor::{DType, Tensor};

use crate::{load, models, options, packed};

fn error(result: Result<Session, SessionError>) -> SessionError {
    result.err().expect("it is refused")
}

#[test]
fn a_file_for_other_options_is_refused_by_the_option() {
    let (_folder, path) = packed(&models::products().graph, &options());
    let without = kiln_model::passes::PassOptions::default().without("chain");
    for (other, fact) in [
        (SessionOptions { max_isa: Some(kiln_kernels::Isa::Portable), ..options() }, "isa"),
        (SessionOptions { precision: Precision::Int8, ..options() }, "precision"),
        (SessionOptions { numerics: kiln::session::Numerics::Strict, ..options() }, "numerics"),
        (SessionOptions { passes: without, ..options() }, "passes"),
    ] {
        let error = error(Session::load(&path, &other));
        let SessionError::Packed(PackedError::Other { fact: found, .. }) = &error else { panic!("{error}") };
        // The type of the weights' elements follows from the precision.
        assert!(found == fact || found == "elements", "{error}");
    }
}

#[test]
fn sessions_of_one_process_share_the_file_until_it_is_another_one() {
    let model = models::products();
    let (_folder, path) = packed(&model.graph, &options());
    let open = || PackedFile::open(&path).unwrap();
    let first = open();
    assert!(Arc::ptr_eq(&first, &open()));
    Session::pack_graph(model.graph, &path, &options()).unwrap();
    assert!(!Arc::ptr_eq(&first, &open()));
}

#[test]
fn ports_and_metadata_are_those_of_the_model() {
    let model = models::images();
    let (_folder, path) = packed(&model.graph, &options());
    let (plain, mapped) = (Session::from_graph(model.graph, &options()).unwrap(), load(&path));
    for (expected, found) in [(plain.inputs(), mapped.inputs()), (plain.outputs(), mapped.outputs())] {
        assert_eq!(format!("{expected:?}"), format!("{found:?}"));
    }
    assert_eq!(plain.metadata(), mapped.metadata());
    assert!(mapped.is_packed() && !plain.is_packed());
}

#[test]
fn a_default_cannot_be_replaced_and_a_tap_cannot_be_had() {
    let mut build = GraphBuilder::new("default", 17);
    let x = build.input("x", DType::F32, [Dim::Any]);
    let offset = build.input("offset", DType::F32, [1.into()]);
    let y = build.op("Add", &[x, offset], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    graph.set_constant(offset, Tensor::from_slice([1], &[2f32]).unwrap());
    let (_folder, path) = packed(&graph, &options());
    let session = load(&path);
    let x = Tensor::from_slice([2], &[1f32, 5.0]).unwrap();
    assert_eq!(session.run(&[("x", x.clone())]).unwrap()[0].1.as_slice::<f32>().unwrap(), [3.0, 7.0]);
    let given = session.run(&[("x", x), ("offset", Tensor::from_slice([1], &[9f32]).unwrap())]);
    assert!(matches!(given, Err(SessionError::Input { name, .. }) if name == "offset"));
    let taps = SessionOptions { taps: vec!["y".to_owned()], ..options() };
    assert!(matches!(error(Session::load(&path, &taps)), SessionError::Packed(PackedError::Unsupported(_))));
}

#[test]
fn weights_are_not_kept_twice() {
    let model = models::products();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.kpk");
    let report = Session::pack_graph(model.graph, &path, &options()).unwrap();
    // The matrix in two layouts, one shared by two nodes; the bias as it is.
    assert!(report.bytes < 4096 + 3 * (70 * 96 * 4 + 4096) + 16_384, "{report:?}");
    assert_eq!((report.panels, report.packed_only), (3, 1), "{report:?}");
}

#[test]
fn equal_models_are_equal_files() {
    for model in models::all() {
        let (_first, first) = packed(&model.graph, &options());
        let (_second, second) = packed(&model.graph, &SessionOptions { threads: 2, ..options() });
        assert!(std::fs::read(first).unwrap() == std::fs::read(second).unwrap(), "{}", model.name);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let report = Session::pack_graph(models::products().graph, "/proc/none/model.kpk".as_ref(), &options());
    assert!(report.unwrap_err().to_string().contains("/proc/none"));
}
