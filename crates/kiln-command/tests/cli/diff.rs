//! `kiln diff` and `kiln run --dump` end to end.

use std::fs::File;
use std::path::{Path, PathBuf};

use kiln_model::GraphBuilder;
use kiln_tensor::{DType, Tensor};

use crate::command::{arg, kiln};
use crate::onnx_file;

/// A folder with `dense.onnx`, and `x.pb` for it.
fn dense() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = (folder.path().join("dense.onnx"), folder.path().join("x.pb"));
    std::fs::write(&model, onnx_file::dense()).unwrap();
    std::fs::write(&input, onnx_file::tensor("", &[2, 2], &[1.0, 2.0, -3.0, 4.0])).unwrap();
    (folder, arg(&model), arg(&input))
}

fn dump(model: &str, input: &str, into: &Path, more: &[&str]) -> String {
    let into = arg(into);
    let arguments = ["run", model, "--input", input, "--dump", &into, "--cache-mode", "memory"];
    kiln(arguments.iter().chain(more)).ok()
}

fn index(folder: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    index["values"].as_array().unwrap().clone()
}

fn floats(path: PathBuf) -> Vec<f32> {
    npyz::NpyFile::new(File::open(path).unwrap()).unwrap().into_vec().unwrap()
}

/// The file of a value in a folder.
fn file(folder: &Path, value: &str) -> PathBuf {
    let values = index(folder);
    let entry = values.iter().find(|entry| entry["name"] == value).expect("the value is there");
    folder.join(entry["file"].as_str().unwrap())
}

/// Writes arrays of rows of three by name.
fn archive(path: &Path, arrays: &[(&str, &[f32])]) {
    use npyz::WriterBuilder;
    let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, values) in arrays {
        archive.start_file(format!("{name}.npy"), zip::write::FileOptions::default()).unwrap();
        let options = npyz::WriteOptions::new().default_dtype().shape(&[values.len() as u64 / 3, 3]);
        let mut writer = options.writer(&mut archive).begin_nd().unwrap();
        writer.extend(values.iter().copied()).unwrap();
        writer.finish().unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn a_dump_has_a_file_a_value_and_says_which_node_made_it() {
    let (folder, model, input) = dense();
    let into = folder.path().join("dump");
    assert!(dump(&model, &input, &into, &["--all-values"]).contains("wrote 4 values to"));
    let names: Vec<String> = index(&into).iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["x", "product", "sum", "y"]);
    let entry = &index(&into)[2];
    assert_eq!((&entry["node"], &entry["operator"]), (&"node_sum".into(), &"Add".into()));
    assert_eq!((&entry["type"], &entry["shape"]), (&"float32".into(), &serde_json::json!([2, 3])));
    assert_eq!(floats(file(&into, "product")), [9.0, 12.0, 15.0, 13.0, 14.0, 15.0]);
    assert_eq!(floats(file(&into, "sum")), [-1.0, 12.0, 25.0, 3.0, 14.0, 25.0]);

    // A value that passes fuse away is written only where it is asked for, by its own name or its node's.
    for (more, expected) in [
        (&[][..], &["x", "y"][..]),
        (&["--node", "node_sum"], &["x", "sum", "y"]),
        (&["--node", "product", "--node", "node_sum"], &["x", "product", "sum", "y"]),
    ] {
        let into = folder.path().join(format!("dump{}", more.len()));
        dump(&model, &input, &into, more);
        let names: Vec<String> = index(&into).iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, expected);
        assert_eq!(floats(file(&into, "y")), [0.0, 12.0, 25.0, 3.0, 14.0, 25.0]);
    }
}

#[test]
fn a_lower_precision_is_measured_at_the_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let mut build = GraphBuilder::new("wide", 20);
    let x = build.input("x", DType::F32, ["n".into(), 64.into()]);
    let numbers = (0..64 * 24).map(|at| (at * 37 % 101) as f32 / 101.0 - 0.5).collect();
    let w = build.constant(Tensor::from_vec([64, 24], numbers).unwrap());
    let y = build.op("MatMul", &[x, w], &[]);
    build.output("y", y);
    let model = folder.path().join("wide.onnx");
    std::fs::write(&model, kiln_model::onnx::write(&build.finish()).unwrap()).unwrap();
    let model = arg(&model);
    let printed = |precision: &str| kiln(["diff", &model, "--shape", "x[3,64]", "--precision", precision]).ok();
    assert!(!printed("f32").contains("is off by"));
    let share = |precision: &str| -> f64 {
        let printed = printed(precision);
        assert!(printed.contains("all agree"), "{printed}");
        let line = printed.lines().find_map(|line| line.split_once("'y' is off by ")).unwrap().1;
        line.split(' ').next().unwrap().parse().unwrap()
    };
    let (eight, four) = (share("int8"), share("int4"));
    assert!(0.0 < eight && eight < 0.01 && 4.0 * eight < four && four < 0.2, "{eight} and {four}");
}

#[test]
fn networks_of_16_bits_agree_with_their_reference_rounded_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut build = GraphBuilder::new("halves", 20);
    let mut value = build.input("x", DType::F16, ["n".into(), 64.into()]);
    for layer in 0..6 {
        let numbers = (0..64 * 64).map(|at| half::f16::from_f32((at * 37 % (101 + layer)) as f32 / 400.0 - 0.125));
        let w = build.constant(Tensor::from_vec([64, 64], numbers.collect()).unwrap());
        let product = build.op("MatMul", &[value, w], &[]);
        value = build.op("Tanh", &[product], &[]);
    }
    build.output("y", value);
    let model = folder.path().join("halves.onnx");
    std::fs::write(&model, kiln_model::onnx::write(&build.finish()).unwrap()).unwrap();
    for against in ["reference", "portable", "without-passes"] {
        for more in [&[][..], &["--all-values"], &["--without-pass", "widen"]] {
            let arguments = ["diff", &arg(&model), "--shape", "x[3,64]", "--against", against];
            let printed = kiln(arguments.iter().chain(more)).ok();
            assert!(printed.contains("all agree"), "{printed}");
        }
    }
}

#[test]
fn configurations_that_agree_are_no_failure() {
    let (folder, model, input) = dense();
    let values = folder.path().join("dump");
    dump(&model, &input, &values, &["--all-values"]);
    for against in ["reference", "portable", "without-passes", &arg(&values)] {
        for more in [&[][..], &["--all-values"], &["--node", "node_sum"]] {
            let arguments = ["diff", &model, "--input", &input, "--against", against];
            let printed = kiln(arguments.iter().chain(more)).ok();
            assert!(printed.contains("all agree"), "{printed}");
            // The product and the sum are fused away unless they are asked for. An output is always compared.
            let compared = match (against, more) {
                (_, []) => "1 values compared",
                (_, ["--all-values"]) => "3 values compared",
                _ => "2 values compared",
            };
            assert!(printed.contains(compared), "{against} {more:?}: {printed}");
        }
    }
    let printed = kiln(["diff", &model, "--seed", "3", "--dim", "N=5"]).ok();
    assert!(printed.contains("against reference"), "{printed}");
}

#[test]
fn the_first_value_that_departs_is_named_with_its_node_and_key() {
    let (folder, model, input) = dense();
    let path = folder.path().join("values.npz");
    let product: &[f32] = &[9.0, 12.0, 15.0, 13.0, 14.0, 15.0];
    let next = f32::from_bits(14f32.to_bits() + 20_000);
    archive(
        &path,
        &[
            ("product", product),
            ("sum", &[-1.0, 12.0, 25.0, 3.0, next, 50.0]),
            ("y", &[0.0, 12.0, 25.0, 3.0, 14.0, 50.0]),
            ("of another model", product),
        ],
    );
    let arguments = ["diff", &model, "--input", &input, "--all-values", "--against", &arg(&path)];
    let found = kiln(arguments);
    assert_eq!((found.code, found.stderr.as_str()), (1, ""), "{found:?}");
    for part in [
        "3 values compared",
        "first departs: node 'node_sum' (Add), value 'sum', float32 [2,3]",
        "first element [1,1]: 14.0, expected 14.0190735 (20000 ulps)",
        "worst element [1,2]: 25.0, expected 50.0 (8388608 ulps)",
        "2 of 6 elements are off",
        "computed from product by",
        "instruction set",
        "key ",
        "then depart\n",
        "2 of 3 values depart, 1 agree",
    ] {
        assert!(found.stdout.contains(part), "'{part}' is not in: {}", found.stdout);
    }

    let found = kiln(arguments.iter().chain(&["--json"]));
    assert_eq!(found.code, 1);
    let view: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    let first = &view["departures"][0];
    assert_eq!((&first["node"], &first["value"]), (&"node_sum".into(), &"sum".into()));
    assert_eq!(first["first"]["ulps"], 20000);
    assert_eq!(first["worst"]["index"], serde_json::json!([1, 2]));
    assert!(!view["computed_by"][0]["run"]["keys"].as_array().unwrap().is_empty(), "{view}");

    // The caller may set the tolerance.
    let loose = arguments.iter().chain(&["--rtol", "1"]);
    assert!(kiln(loose).ok().contains("all agree"));
    let found = kiln(arguments.iter().chain(&["--atol", "1", "--node", "node_y"]).filter(|a| **a != "--all-values"));
    assert!(found.code == 1 && found.stdout.contains("node 'node_y' (Relu)"), "{found:?}");
}

#[test]
fn a_value_of_another_shape_departs() {
    let (folder, model, input) = dense();
    let path = folder.path().join("values.npz");
    archive(&path, &[("y", &[0.0, 12.0, 25.0])]);
    let found = kiln(["diff", &model, "--input", &input, "--against", &arg(&path)]);
    assert_eq!(found.code, 1);
    assert!(found.stdout.contains("expected float32 [1,3], got float32 [2,3]"), "{}", found.stdout);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let (folder, model, input) = dense();
    let path = folder.path().join("values.npz");
    archive(&path, &[("other", &[0.0, 12.0, 25.0])]);
    let path = arg(&path);
    let diff = |more: &[&str]| kiln(["diff", &model, "--input", &input].iter().chain(more));
    diff(&["--against", "refrence"]).fails(2, &["refrence"]);
    diff(&["--against", &path]).fails(2, &["no value of the model is in", &path]);
    diff(&["--node", "node_sun"]).fails(2, &["no node or value 'node_sun'", "node_sum"]);
    diff(&["--rtol=-1"]).fails(2, &["--rtol must not be less than 0"]);
    diff(&["--against", &arg(folder.path())]).fails(2, &["index.json"]);
    kiln(["run", &model, "--node", "node_sum"]).fails(2, &["--dump"]);
    kiln(["run", &model, "--dump", &input]).fails(2, &["--dump", "x.pb"]);
}
