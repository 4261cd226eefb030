//! The example in C, compiled by the system's compiler against `kiln.h` and the shared library, as programs are.

#![allow(clippy::print_stdout, reason = "says what was not tested")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kiln::{DType, GraphBuilder, Tensor};

/// A folder with libkiln.so, the compiled example and a model.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    /// `None`, and a line that says so, where there is no C compiler.
    fn new() -> Option<Built> {
        if Command::new("cc").arg("--version").output().is_err() {
            println!("NOT TESTED: there is no C compiler, so that the example in C was not compiled");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Cargo builds the library beside the tests.
        let library = std::env::current_exe().unwrap().with_file_name("libkiln_c.so");
        std::os::unix::fs::symlink(&library, folder.path().join("libkiln.so")).unwrap();
        let built = Built { folder };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let compiled = Command::new("cc")
            .args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"])
            .arg(root.join("examples/changing_shapes.c"))
            .arg("-I")
            .arg(root.join("include"))
            .arg("-L")
            .arg(built.folder.path())
            .arg(format!("-Wl,-rpath,{}", built.folder.path().display()))
            .args(["-lkiln", "-lpthread", "-o"])
            .arg(built.program())
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        std::fs::write(built.model(), scores()).unwrap();
        Some(built)
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("changing_shapes")
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("scores.onnx")
    }

    fn run(&self, model: &Path) -> Output {
        Command::new(self.program()).arg(model).arg(self.folder.path().join("records")).output().unwrap()
    }
}

/// `softmax(x @ weights)` of `x` of `[1, length, 8]`.
fn scores() -> Vec<u8> {
    let mut graph = GraphBuilder::new("scores", 17);
    let x = graph.input("x", DType::F32, [1.into(), "length".into(), 8.into()]);
    let weights = (0..128).map(|i| (i as f32).sin()).collect();
    let weights = graph.constant(Tensor::from_vec([8, 16], weights).unwrap());
    let product = graph.op("MatMul", &[x, weights], &[]);
    let scores = graph.op("Softmax", &[product], &[("axis", (-1).into())]);
    graph.output_of("scores", scores, DType::F32, [1.into(), "length".into(), 16.into()]);
    kiln_model::onnx::write(&graph.finish()).unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

/// The number after a word of a line.
fn count(lines: &[String], word: &str) -> u64 {
    let line = lines.iter().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word} in {lines:?}"));
    let rest = line.split(word).nth(1).unwrap().trim_start();
    rest.split([',', ' ']).next().unwrap().parse().unwrap()
}

#[test]
fn the_example_runs_at_changing_shapes_is_cancelled_and_counts() {
    let Some(built) = Built::new() else { return };
    let first = lines(&built.run(&built.model()));
    assert_eq!(first[0], format!("kiln {}", env!("CARGO_PKG_VERSION")));
    assert_eq!(first[1], "refused: tune=sometimes: expected off, fast or full");
    assert_eq!(first[2], "input x [1, length, 8], output scores [1, length, 16]");
    assert!(first[3].starts_with("size 5: [1, 5, 16], first 0."), "{first:?}");
    assert!(first[4].starts_with("size 9: [1, 9, 16], first 0."), "{first:?}");
    assert_eq!(first[3], first[5], "the same shape gives the same numbers");
    assert!(first[6].starts_with("cancelled: "), "{first:?}");
    assert!(count(&first, "builds") > 0 && count(&first, "plans found") > 0, "{first:?}");
    assert_eq!(count(&first, "from records"), 0);
    assert_eq!(count(&first, "limit"), 1 << 30);
    let (held, most) = (count(&first, "bytes held"), count(&first, "at most"));
    assert!(0 < held && held <= most && most <= 1 << 30, "{first:?}");
    // The second process finds the choices of the first one as records.
    let second = lines(&built.run(&built.model()));
    assert!(count(&second, "from records") > 0, "{second:?}");
    assert_eq!(second[3..6], first[3..6]);
}

#[test]
fn the_example_says_what_is_wrong_with_a_model() {
    let Some(built) = Built::new() else { return };
    let missing = built.folder.path().join("missing.onnx");
    let output = built.run(&missing);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("missing.onnx") && error.contains("cannot read"), "{error}");
}
