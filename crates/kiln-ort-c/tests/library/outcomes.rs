//! One program, two libraries: its notes about Kiln's library are compared with `outcomes.txt`, its notes about
//! onnxruntime 1.31.1. Where `KILN_TEST_ORT` names the real library, the file is compared with that library too.

use std::path::Path;

use crate::api::Api;
use crate::notes::Notes;

/// Where Kiln differs: the name of the line, Kiln's text, and the reason.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "an operator that there is not",
        "9 says 'NoSuchOperator'",
        "Kiln does not tell one that ONNX lacks from one that it lacks",
    ),
    (
        "optional output",
        "o optional tensor of 1 [] [] shape 0 count 0",
        "Kiln keeps no dimensions of what an optional value has",
    ),
    ("uint4 through Identity", "ok, the same bytes true", NARROW),
    ("int4 through Identity", "ok, the same bytes true", NARROW),
    ("float4e2m1 through Identity", "ok, the same bytes true", NARROW),
    ("uint2 through Identity", "ok, the same bytes true", NARROW),
    ("int2 through Identity", "ok, the same bytes true", NARROW),
    ("float8e8m0 through Identity", "ok, the same bytes true", NARROW),
    ("a text that is not UTF-8 through Identity", "2 says 'not UTF-8' false", "texts of a run are UTF-8 in Kiln"),
    ("maps of a run part 2", "1 ", MAPS),
    ("maps of a run part -1", "1 ", MAPS),
    (
        "another shape with the same outputs",
        "0",
        "where only the place of an output was bound, Kiln makes another value for another shape",
    ),
];

const NARROW: &str = "Kiln moves elements of every type";
const MAPS: &str = "a failure of onnxruntime's own there; a wrong index is 1 for every other value";

/// The program's notes about a library.
fn noted(path: &Path) -> Vec<String> {
    let api = Api::open(path);
    let mut notes = Notes::default();
    crate::environment::note(api, &mut notes);
    crate::sessions::note(api, &mut notes);
    crate::values::note(api, &mut notes);
    crate::runs::note(api, &mut notes);
    crate::devices::note(api, &mut notes);
    notes.lines()
}

/// The name of a line.
fn name(line: &str) -> &str {
    line.split(": ").next().unwrap_or_default()
}

/// Fails with the lines that differ.
#[track_caller]
fn hold(found: &[String], expected: &[String]) {
    let mut problems = Vec::new();
    for at in 0..found.len().max(expected.len()) {
        let [found, expected] = [found, expected].map(|lines| lines.get(at).map_or("no line", String::as_str));
        if found != expected {
            problems.push(format!("expected {expected}\n   found {found}"));
        }
    }
    assert!(problems.is_empty(), "{} of {} lines:\n{}", problems.len(), expected.len(), problems.join("\n"));
}

/// The lines of the real library.
fn recorded() -> Vec<String> {
    include_str!("outcomes.txt").lines().map(str::to_owned).collect()
}

#[test]
fn kiln_says_what_onnxruntime_says_but_for_the_known_differences() {
    let _alone = crate::alone();
    let mut expected = recorded();
    for (what, kiln, _) in DIFFERENCES {
        let line = expected.iter_mut().find(|line| name(line) == *what);
        let line = line.unwrap_or_else(|| panic!("no line is named '{what}'"));
        assert_ne!(*line, format!("{what}: {kiln}"), "it is no difference");
        *line = format!("{what}: {kiln}");
    }
    hold(&noted(&crate::kiln()), &expected);
    println!("{} outcomes, {} of them known differences", expected.len(), DIFFERENCES.len());
}

#[test]
fn the_recorded_lines_are_those_of_the_real_library() {
    #[expect(clippy::disallowed_methods, reason = "the person who runs the test names the library")]
    let Some(path) = std::env::var_os("KILN_TEST_ORT") else {
        println!("KILN_TEST_ORT names no library: skipped");
        return;
    };
    let _alone = crate::alone();
    let found = noted(Path::new(&path));
    println!("{} outcomes of the real library", found.len());
    hold(&found, &recorded());
}
