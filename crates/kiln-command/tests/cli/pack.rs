//! `kiln pack`: files that every command accepts in place of the model.

use kiln_model::GraphBuilder;
use kiln_model::ir::Dim;
use kiln_model::onnx;
use kiln_tensor::{DType, Tensor};

use crate::command::{arg, kiln};

#[test]
fn a_table_may_stay_in_the_models_file_which_is_named_once_it_has_gone() {
    let mut build = GraphBuilder::new("table", 17);
    let ids = build.input("ids", DType::I64, [Dim::Any]);
    let table = build.constant(Tensor::from_vec([500, 64], (0..500 * 64).map(|at| at as f32).collect()).unwrap());
    let y = build.op("Gather", &[table, ids], &[]);
    build.output("y", y);
    let folder = tempfile::tempdir().unwrap();
    let [model, packed, whole] = ["model.onnx", "model.kpk", "whole.kpk"].map(|name| folder.path().join(name));
    std::fs::write(&model, onnx::write(&build.finish()).unwrap()).unwrap();

    let printed = kiln(["pack", &arg(&model), "-o", &arg(&packed), "--weightless"]).ok();
    assert!(printed.contains("128000 bytes stay in the model's files"), "{printed}");
    assert!(!kiln(["pack", &arg(&model), "-o", &arg(&whole)]).ok().contains("stay"));
    let size = |path: &std::path::Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&whole) - size(&packed) > 120_000);
    let run = |path: &std::path::Path| kiln(["run", &arg(path), "--shape", "ids[3]", "--pack-verify", "each"]);
    run(&packed).ok();

    let elsewhere = tempfile::tempdir().unwrap();
    let away = arg(&elsewhere.path().join("model.kpk"));
    kiln(["pack", &arg(&model), "-o", &away, "--weightless"]).fails(2, &["model.onnx", "not below"]);
    std::fs::remove_file(&model).unwrap();
    run(&packed).fails(2, &["model.onnx", "No such file"]);
    run(&whole).ok();
}
