//! `kiln run` end to end.

use crate::command::{arg, kiln};
use crate::onnx_file;

#[test]
fn a_run_on_a_file_computes_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("dense.onnx"), onnx_file::dense()).unwrap();
    std::fs::write(path("x.pb"), onnx_file::tensor("", &[1, 2], &[1.0, 2.0])).unwrap();
    let out = path("out");
    let arguments = ["run", &arg(&path("dense.onnx")), "--input", &arg(&path("x.pb")), "--output-dir", &arg(&out)];
    let printed = kiln(arguments.into_iter().chain(["--cache-mode", "memory"])).ok();
    // [1, 2] W + b = [9 - 10, 12, 15 + 10]
    let line = printed.lines().find(|line| line.trim_start().starts_with("y ")).expect("a line about y");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells, ["y", "float32", "[1,3]", "0.0000", "25.0000", "12.3333"]);
    let file = npyz::NpyFile::new(std::fs::File::open(out.join("y.npy")).unwrap()).unwrap();
    assert_eq!(file.shape(), &[1, 3]);
    assert_eq!(file.into_vec::<f32>().unwrap(), [0.0, 12.0, 25.0]);
}

#[test]
fn random_inputs_are_the_same_for_the_same_seed_and_say_what_was_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("dense.onnx");
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let outputs = |seed: &str| {
        let printed = kiln(["run", &arg(&model), "--seed", seed, "--cache-mode", "memory"]).ok();
        assert!(printed.contains("notice: dimensions without a size are 1: N"), "{printed}");
        printed.lines().find(|line| line.trim_start().starts_with("y ")).expect("a line about y").to_owned()
    };
    assert_eq!(outputs("1"), outputs("1"));
    assert_ne!(outputs("1"), outputs("2"));
}

#[test]
fn files_and_shapes_can_be_mixed_and_share_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("sum.onnx"), onnx_file::sum_of_two()).unwrap();
    std::fs::write(path("a.pb"), onnx_file::tensor("", &[3], &[1.0, 2.0, 3.0])).unwrap();
    let model = arg(&path("sum.onnx"));
    let file = format!("a={}", arg(&path("a.pb")));
    let printed = kiln(["run", &model, "--input", &file, "--cache-mode", "memory"]).ok();
    assert!(printed.contains("input b: float32 [3], random"), "{printed}");
    assert!(!printed.contains("notice"), "{printed}");
}

#[test]
fn a_request_or_a_load_that_takes_longer_than_it_may_fails_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("dense.onnx");
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let run = |flag: &str, limit: &str| kiln(["run", &arg(&model), flag, limit, "--cache-mode", "memory"]);
    run("--time-limit", "0").fails(1, &["node '", "the time limit of 0ns has passed"]);
    run("--load-time-limit", "0").fails(1, &["dense.onnx: loading ended: the time limit of 0ns has passed"]);
    for flag in ["--time-limit", "--load-time-limit"] {
        run(flag, "3600000").ok();
    }
}
