//! `kiln check` on cases written here: each verdict, the totals, the JSON and the exit code.

use std::path::Path;

use crate::command::{arg, kiln};
use crate::onnx_file;

fn verdicts(json: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
}

fn write_passing(folder: &Path) {
    let input = onnx_file::tensor("x", &[1, 2], &[1.0, 2.0]);
    onnx_file::write_case(folder, &onnx_file::dense(), &input, &onnx_file::tensor("y", &[1, 3], &[0.0, 12.0, 25.0]));
}

#[test]
fn cases_that_pass_end_with_success() {
    let folder = tempfile::tempdir().unwrap();
    write_passing(&folder.path().join("suite/good"));
    // A second data set of another shape, through the same session.
    let second = folder.path().join("suite/good/test_data_set_1");
    std::fs::create_dir(&second).unwrap();
    std::fs::write(second.join("input_0.pb"), onnx_file::tensor("", &[2, 2], &[0.0, 0.0, 1.0, 2.0])).unwrap();
    let expected = [0.0, 0.0, 10.0, 0.0, 12.0, 25.0];
    std::fs::write(second.join("output_0.pb"), onnx_file::tensor("", &[2, 3], &expected)).unwrap();
    let printed = kiln(["check", &arg(folder.path())]).ok();
    assert!(printed.contains("suite/good: passed"), "{printed}");
}

#[test]
fn a_wrong_output_is_shown_by_its_worst_element_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    write_passing(&folder.path().join("suite/good"));
    let input = onnx_file::tensor("x", &[1, 2], &[1.0, 2.0]);
    let expected = onnx_file::tensor("y", &[1, 3], &[0.5, 12.0, 27.0]);
    onnx_file::write_case(&folder.path().join("suite/bad"), &onnx_file::dense(), &input, &expected);
    onnx_file::write_case(&folder.path().join("other/odd"), &onnx_file::unknown_operators(), &input, &expected);
    let finished = kiln(["check", &arg(folder.path()), "--json", &arg(&json)]);
    assert_eq!((finished.code, finished.stderr.as_str()), (1, ""), "{finished:?}");
    let verdicts = verdicts(&json);
    assert_eq!(verdicts["suite/good"], "passed");
    assert_eq!(
        verdicts["suite/bad"],
        "wrong: output 'y': element [0,2]: expected 27.0, got 25.0 (2 of 3 elements differ)"
    );
    let refused = verdicts["other/odd"].as_str().unwrap();
    assert!(refused.starts_with("refused: ") && refused.contains("Frobnicate"), "{refused}");
    let rows: Vec<Vec<&str>> = finished.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["suite", "1", "1", "0", "0", "2"]), "{}", finished.stdout);
    assert!(rows.contains(&vec!["other", "0", "0", "1", "0", "1"]), "{}", finished.stdout);
    assert!(finished.stdout.contains("not supported, with cases:"), "{}", finished.stdout);
}

#[test]
fn tolerances_of_a_case_are_honoured() {
    let folder = tempfile::tempdir().unwrap();
    let input = onnx_file::tensor("x", &[1, 2], &[1.0, 2.0]);
    let expected = onnx_file::tensor("y", &[1, 3], &[0.0, 12.0, 27.0]);
    onnx_file::write_case(folder.path(), &onnx_file::dense(), &input, &expected);
    assert_eq!(kiln(["check", &arg(folder.path())]).code, 1);
    std::fs::write(folder.path().join("tolerance.json"), r#"{"rtol": 0.1, "atol": 0}"#).unwrap();
    kiln(["check", &arg(folder.path())]).ok();
}

#[test]
fn refusals_alone_end_with_the_code_for_unsupported_models() {
    let folder = tempfile::tempdir().unwrap();
    write_passing(&folder.path().join("good"));
    let tensor = onnx_file::tensor("x", &[1], &[1.0]);
    onnx_file::write_case(&folder.path().join("odd"), &onnx_file::unknown_operators(), &tensor, &tensor);
    assert_eq!(kiln(["check", &arg(folder.path())]).code, 3);
    kiln(["check", &arg(folder.path()), "--filter", "good"]).ok();
    kiln(["check", &arg(folder.path()), "--filter", "nothing"]).fails(2, &["no case"]);
}

#[test]
fn damaged_data_refuses_its_case_and_not_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    write_passing(&folder.path().join("b_good"));
    write_passing(&folder.path().join("a_damaged"));
    std::fs::write(folder.path().join("a_damaged/test_data_set_0/input_0.pb"), [0xff; 7]).unwrap();
    assert_eq!(kiln(["check", &arg(folder.path()), "--json", &arg(&json)]).code, 3);
    let verdicts = verdicts(&json);
    assert!(verdicts["a_damaged"].as_str().unwrap().starts_with("refused: input_0.pb"), "{verdicts}");
    assert_eq!(verdicts["b_good"], "passed");
}

#[test]
fn a_case_that_takes_too_long_is_named_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    write_passing(&folder.path().join("suite/slow"));
    let finished = kiln(["check", &arg(folder.path()), "--limit", "0"]);
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stderr.contains("suite/slow: hangs"), "{finished:?}");
}
