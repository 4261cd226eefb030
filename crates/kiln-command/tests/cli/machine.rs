//! `kiln machine`: what it prints, writes and remembers. No figure is compared with anything.

use serde_json::Value;

use crate::command::{arg, command, kiln};

#[test]
fn figures_are_measured_once_and_kept_as_records() {
    let folder = tempfile::tempdir().unwrap();
    let (records, file) = (arg(&folder.path().join("records")), arg(&folder.path().join("out.json")));
    let told = |more: &[&str]| -> (String, Value) {
        let arguments = ["machine", "--threads", "2", "--cache-dir", &records, "--json", &file];
        let printed = kiln(arguments.iter().chain(more)).ok();
        (printed, serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap())
    };
    let (printed, first) = told(&[]);
    assert!(printed.contains("processor: ") && printed.contains("caches: L1 "), "{printed}");
    assert_eq!(first["processor"]["fingerprint"].as_str().map(str::len), Some(32));
    let figures = first["figures"].as_array().unwrap();
    if first["processor"]["level"] == "portable" {
        return assert!(figures.is_empty(), "{first}");
    }
    assert_eq!(figures.len(), 2, "{first}");
    for (figures, threads) in figures.iter().zip([1, 2]) {
        assert_eq!((&figures["threads"], &figures["from_record"]), (&threads.into(), &false.into()));
        for item in ["f32_gflops", "int8_gops", "l1_gbs", "l2_gbs", "memory_gbs"] {
            assert!(figures[item].as_f64().is_some_and(|value| value > 0.0), "{item}: {first}");
        }
    }

    let (printed, mut second) = told(&[]);
    assert!(printed.contains("a record"), "{printed}");
    for figures in second["figures"].as_array_mut().unwrap() {
        assert_eq!(figures["from_record"], true);
        figures["from_record"] = false.into();
    }
    assert_eq!(first, second, "a second process measures nothing");
    assert!(kiln(["cache", "list", &records]).ok().contains("machine"));
    kiln(["cache", "verify", &records]).ok();

    let (_, fresh) = told(&["--fresh"]);
    assert!(fresh["figures"].as_array().unwrap().iter().all(|figures| figures["from_record"] == false), "{fresh}");
}

#[test]
fn a_level_without_code_and_a_file_that_cannot_be_written_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let records = arg(&folder.path().join("records"));
    let mut portable = command(["machine", "--cache-dir", &records]);
    let output = portable.env("KILN_MAX_ISA", "portable").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("nothing to measure"));
    let nowhere = arg(&folder.path().join("missing/out.json"));
    kiln(["machine", "--threads", "1", "--cache-dir", &records, "--json", &nowhere]).fails(2, &["--json", "out.json"]);
}
