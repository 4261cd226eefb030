//! Help texts, and the answer to each mistake: an exit code and one line that names the thing.

use crate::command::{arg, kiln};
use crate::onnx_file;

#[test]
fn every_subcommand_explains_itself_and_its_exit_codes() {
    let commands: [&[&str]; 11] = [
        &[],
        &["demo"],
        &["run"],
        &["bench"],
        &["check"],
        &["inspect"],
        &["cache"],
        &["cache", "stats"],
        &["devices"],
        &["machine"],
        &["knobs"],
    ];
    for command in commands {
        let help = kiln(command.iter().copied().chain(["--help"])).ok();
        assert!(help.contains("Usage: kiln"), "{command:?}: {help}");
        assert!(command.len() > 1 || help.contains("Exit codes: 0 success"), "{command:?}: {help}");
    }
    assert!(kiln(["--version"]).ok().starts_with("kiln "));
}

#[test]
fn a_command_line_that_cannot_be_read_is_a_usage_error() {
    let cases: [&[&str]; 14] = [
        &[],
        &["run", "m.onnx", "--device", "toaster"],
        &["run", "m.onnx", "--device", "cuda:first"],
        &["dance"],
        &["run"],
        &["run", "m.onnx", "--frequency", "3"],
        &["run", "m.onnx", "--shape", "x"],
        &["run", "m.onnx", "--threads", "many"],
        &["bench", "m.onnx", "--trace", "t.json", "--shape", "x[1]"],
        &["bench", "m.onnx", "--data", "case", "--trace", "t.json"],
        &["run", "m.onnx", "--cache-mode", "sometimes"],
        &["machine", "--threads", "all"],
        &["machine", "--json"],
        &["machine", "model.onnx"],
    ];
    for arguments in cases {
        let finished = kiln(arguments);
        assert_eq!(finished.code, 2, "{arguments:?}: {finished:?}");
        assert!(!finished.stderr.is_empty());
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| arg(&folder.path().join(name));
    std::fs::write(path("dense.onnx"), onnx_file::dense()).unwrap();
    let whole = onnx_file::dense();
    std::fs::write(path("short.onnx"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(path("text.onnx"), "this is no model").unwrap();
    std::fs::write(path("bad.npy"), "this is no array").unwrap();
    std::fs::write(path("trace.json"), r#"{"other": {"inputs": [], "requests": [{}]}}"#).unwrap();
    std::fs::write(path("bad.json"), "{").unwrap();
    let (empty, damaged) = (folder.path().join("empty"), folder.path().join("damaged/test_data_set_3"));
    std::fs::create_dir(&empty).unwrap();
    std::fs::create_dir_all(&damaged).unwrap();
    std::fs::write(damaged.join("input_0.pb"), [0xff; 9]).unwrap();
    let dense = path("dense.onnx");
    let data = |case: &str| vec!["bench".into(), path("dense.onnx"), "--data".into(), path(case)];
    let cases: [(Vec<String>, &[&str]); 12] = [
        (vec!["run".into(), path("missing.onnx")], &["missing.onnx"]),
        (vec!["inspect".into(), path("missing.onnx")], &["missing.onnx"]),
        (vec!["run".into(), path("short.onnx")], &["short.onnx"]),
        (vec!["run".into(), path("text.onnx")], &["text.onnx"]),
        (vec!["run".into(), dense.clone(), "--input".into(), path("bad.npy")], &["bad.npy", "no npy data"]),
        (vec!["run".into(), dense.clone(), "--input".into(), path("gone.npy")], &["gone.npy"]),
        (
            vec!["bench".into(), dense.clone(), "--trace".into(), path("trace.json")],
            &["trace.json", "'dense'", "other"],
        ),
        (vec!["bench".into(), dense, "--trace".into(), path("bad.json")], &["bad.json", "is no trace file"]),
        (data("gone"), &["--data", "gone"]),
        (data("empty"), &["empty", "no test_data_set_* folder"]),
        (data("damaged"), &["test_data_set_3", "input_0.pb"]),
        (vec!["check".into(), path("nowhere")], &["nowhere"]),
    ];
    for (arguments, parts) in cases {
        kiln(&arguments).fails(2, parts);
    }
}

#[test]
fn inputs_that_do_not_fit_the_model_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("dense.onnx");
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let pb = folder.path().join("wide.pb");
    std::fs::write(&pb, onnx_file::tensor("", &[1, 5], &[0.0; 5])).unwrap();
    let wide = arg(&pb);
    let cases: [(&[&str], &[&str]); 7] = [
        (&["--without-pass", "magic"], &["no pass is named 'magic'", "fold"]),
        (&["--shape", "z[1,2]"], &["no input 'z'", "x float32 [N,2]"]),
        (&["--shape", "x[1,2,3]"], &["input 'x'", "2 dimensions"]),
        (&["--shape", "x[1,7]"], &["input 'x'", "is 2 in the model, not 7"]),
        (&["--dim", "M=3"], &["no dimension 'M'"]),
        (&["--input", &wide], &["input 'x'", "[1, 5]"]),
        (&["--cache-mode", "off", "--cache-dir", "d"], &["--cache-dir has no use with --cache-mode off"]),
    ];
    for (arguments, parts) in cases {
        kiln(["run", &arg(&model)].into_iter().chain(arguments.iter().copied())).fails(2, parts);
    }
}

#[test]
fn a_model_with_unknown_operators_is_refused_with_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.onnx");
    std::fs::write(&model, onnx_file::unknown_operators()).unwrap();
    for command in ["run", "bench", "inspect"] {
        kiln([command, &arg(&model)]).fails(3, &["m.onnx", "Frobnicate", "Discombobulate"]);
    }
}

#[test]
fn a_remote_store_that_cannot_be_used_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let model = arg(&folder.path().join("dense.onnx"));
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let run = |flags: &[&str]| kiln(["run", &model].iter().copied().chain(flags.iter().copied()));
    let place = arg(folder.path());
    run(&["--cache-dir", &place, "--remote-cache", "http://cache"]).fails(2, &["--remote-cache", "redis://", "s3://"]);
    let hidden = run(&["--cache-dir", &place, "--remote-cache", "redis://me:opensesame@cache"]);
    hidden.fails(2, &["KILN_REMOTE_PASSWORD"]);
    assert!(!hidden.stderr.contains("opensesame"), "{hidden:?}");
    run(&["--cache-mode", "memory", "--remote-cache", "redis://cache"]).fails(2, &["--cache-dir"]);
    if cfg!(not(feature = "remote")) {
        run(&["--cache-dir", &place, "--remote-cache", "redis://cache"]).fails(2, &["--features remote"]);
    }
}
