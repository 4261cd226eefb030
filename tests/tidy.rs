//! The rules of the project that a compiler does not check: floors, cycles between files, sizes, headers, names,
//! parameters that are tuples, the places of attributes' defaults, and the places that may name fragile things.

#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/defaults.rs"]
mod defaults;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tuples.rs"]
mod tuples;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a file may have. Most have 100 to 250.
const CAP: usize = 800;

/// Written by a generator. A test of its own compares these files with what the generator writes now.
const GENERATED: &[&str] = &["crates/kiln-serve/src/grpc/proto.rs", "crates/kiln-model/src/onnx/proto.rs"];

/// Floors of the package, lowest first; a module imports only from floors below its own.
const FLOORS: &[&[&str]] = &[&["packed"], &["session"]];

/// Floors of the crate that runs graphs.
const RUN_FLOORS: &[&[&str]] = &[
    &["record"],
    &["exec"],
    &["bound", "error", "inference", "io", "lease", "memo", "node", "prepare"],
    &["device", "run"],
];

/// Floors of the kernels crate.
const KERNEL_FLOORS: &[&[&str]] = &[
    &["crash"],
    &["isa", "parallel", "extent"],
    &["error"],
    &["jit"],
    &["problem"],
    &["reference"],
    &["cpu"],
    &["gpu"],
];

/// Crates and calls that stay in one place, and that place.
const CONFINED: &[(&str, &[&str])] = &[
    ("bincode", &["crates/kiln-records/src/codec.rs"]),
    ("rayon::", &["kernels/benches"]),
    ("prost", &["crates/kiln-model/src/onnx", "crates/kiln-serve/src/grpc"]),
    ("dynasm", &["kernels/src/jit", "kernels/tests"]),
    ("opendal", &["crates/kiln-records/src/remote"]),
    ("cudarc", &["kernels/src/gpu/cuda"]),
    ("tokio::", &["crates/kiln-records/src/remote", "crates/kiln-serve"]),
    ("hyper", &["crates/kiln-serve"]),
    ("opentelemetry", &["crates/kiln-serve/src/traces.rs", "crates/kiln-serve/tests/traces.rs"]),
    ("flate2", &["crates/kiln-serve/src/coding.rs", "crates/kiln-command/tests/serve"]),
    (
        "std::env::var",
        &[
            "crates/kiln-knobs/src/lib.rs",
            "crates/kiln-command/tests/remote",
            "kernels/src/gpu/cuda/tests.rs",
            "crates/kiln-ort/src/threading.rs",
        ],
    ),
    ("iced_x86", &["kernels/src/jit", "kernels/tests"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in [
        "src",
        "tests",
        "benches",
        "crates",
        "examples",
        "kernels/src",
        "kernels/tests",
        "kernels/benches",
        "fuzz/fuzz_targets",
    ] {
        collect(&root().join(folder), &mut files);
    }
    assert!(files.len() > 20, "only {} files were found", files.len());
    files
}

fn collect(folder: &Path, files: &mut Vec<(String, String)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn report(rule: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{rule}:\n  {}", problems.join("\n  "));
}

#[test]
fn files_have_a_header_a_size_and_a_noun_for_a_name() {
    let forbidden = ["utils", "helpers", "common", "misc", "base", "manager", "types", "mod"];
    let mut problems = Vec::new();
    for (name, text) in rust_files() {
        if GENERATED.contains(&name.as_str()) {
            continue;
        }
        // A library begins with its README, which its documentation shows first.
        if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!(\"../README.md\")]\n//!") {
            problems.push(format!("{name}: does not start with //!"));
        }
        let lines = text.lines().count();
        if lines > CAP {
            problems.push(format!("{name}: {lines} lines, the cap is {CAP}"));
        }
        let stem = Path::new(&name).file_stem().unwrap().to_str().unwrap();
        if forbidden.contains(&stem) {
            problems.push(format!("{name}: the name says nothing"));
        }
        if let Some((number, line)) = text.lines().enumerate().find(|(_, line)| !line.is_ascii()) {
            problems.push(format!("{name}:{}: not ASCII: {line}", number + 1));
        }
    }
    report("every file has a //! header, at most 800 lines, a telling name and plain ASCII", &problems);
}

/// The modules that a file names with `crate::`, with line numbers.
fn imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + "crate::".len()..];
            let module: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            found.push((number + 1, module));
        }
    }
    found
}

fn floors_look_down(prefix: &str, floors: &[&[&str]]) {
    let floor_of: BTreeMap<&str, usize> =
        floors.iter().enumerate().flat_map(|(floor, names)| names.iter().map(move |name| (*name, floor))).collect();
    let mut problems = Vec::new();
    for (name, text) in rust_files() {
        let Some(inside) = name.strip_prefix(prefix) else { continue };
        let module = inside.split('/').next().unwrap().trim_end_matches(".rs");
        let Some(&own) = floor_of.get(module) else { continue };
        for (line, import) in imports(&text) {
            let Some(&floor) = floor_of.get(import.as_str()) else { continue };
            if import != module && floor >= own {
                problems.push(format!("{name}:{line}: {module} may not know {import}"));
            }
        }
    }
    report("a file imports only from floors below it", &problems);
}

#[test]
fn floors_look_down_in_the_package() {
    floors_look_down("src/", FLOORS);
}

#[test]
fn floors_look_down_in_the_crate_that_runs_graphs() {
    floors_look_down("crates/kiln-run/src/", RUN_FLOORS);
}

#[test]
fn floors_look_down_in_the_kernels_crate() {
    floors_look_down("kernels/src/", KERNEL_FLOORS);
}

/// The crates that others may use alone, and the crates of the workspace that each depends on.
const CRATES: &[(&str, &[&str])] = &[
    ("kiln-c", &["kiln", "kiln-fork", "kiln-kernels", "kiln-knobs", "kiln-model", "kiln-run", "kiln-tensor"]),
    ("kiln-cache", &["kiln-fork", "kiln-key"]),
    (
        "kiln-command",
        &[
            "kiln",
            "kiln-cache",
            "kiln-kernels",
            "kiln-knobs",
            "kiln-model",
            "kiln-ops",
            "kiln-run",
            "kiln-serve",
            "kiln-tensor",
        ],
    ),
    ("kiln-fork", &[]),
    ("kiln-key", &["kiln-key-derive"]),
    ("kiln-key-derive", &[]),
    ("kiln-knobs", &["kiln-kernels", "kiln-records"]),
    ("kiln-model", &["kiln-kernels", "kiln-tensor"]),
    ("kiln-ops", &["kiln-kernels", "kiln-key", "kiln-model", "kiln-run", "kiln-tensor"]),
    ("kiln-ort", &["kiln", "kiln-fork", "kiln-knobs", "kiln-model"]),
    ("kiln-ort-c", &["kiln-ort"]),
    ("kiln-records", &["kiln-fork", "kiln-key"]),
    (
        "kiln-run",
        &[
            "kiln-cache",
            "kiln-fork",
            "kiln-kernels",
            "kiln-key",
            "kiln-knobs",
            "kiln-model",
            "kiln-records",
            "kiln-tensor",
        ],
    ),
    ("kiln-serve", &[]),
    ("kiln-tensor", &["kiln-fork", "kiln-kernels", "kiln-key", "kiln-knobs"]),
];

#[test]
fn crates_depend_on_what_their_floor_has() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let entry = entry.unwrap();
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap();
        let own = rest.lines().take_while(|line| !line.starts_with('['));
        let own: Vec<String> = own
            .filter_map(|line| line.split([' ', '.', '=']).next())
            .filter(|name| name.starts_with("kiln"))
            .map(str::to_owned)
            .collect();
        found.push((entry.file_name().into_string().unwrap(), own));
    }
    found.sort();
    let allowed: Vec<(String, Vec<String>)> = CRATES
        .iter()
        .map(|(name, needs)| ((*name).to_owned(), needs.iter().map(|need| (*need).to_owned()).collect()))
        .collect();
    assert_eq!(found, allowed, "a crate depends on less than the product, and says on what");
}

#[test]
fn every_module_stands_on_a_floor() {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("pub mod ")) {
        let module = line.trim_end_matches(';');
        assert!(FLOORS.iter().any(|names| names.contains(&module)), "{module} has no floor in this test");
    }
}

#[test]
fn fragile_things_are_named_in_one_place() {
    let mut problems = Vec::new();
    for (name, text) in rust_files() {
        let is_test = name.starts_with("tests/") || (name.starts_with("crates/") && name.contains("/tests/"));
        if is_test || GENERATED.contains(&name.as_str()) {
            continue;
        }
        for (what, places) in CONFINED {
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            if code.clone().any(|line| line.contains(what)) && !places.iter().any(|place| name.starts_with(place)) {
                problems.push(format!("{name}: {what} belongs to {}", places.join(", ")));
            }
        }
    }
    report("encoders, codecs, pools and the environment stay behind one place each", &problems);
}

#[test]
fn the_word_kernel_does_not_occur_in_the_cache() {
    let mut problems = Vec::new();
    for (name, text) in rust_files() {
        if name.starts_with("crates/kiln-cache/src") && (text.contains("kernel") || text.contains("onnx")) {
            problems.push(name);
        }
    }
    report("the cache is generic", &problems);
}

#[test]
fn defaults_of_attributes_stand_in_the_table_of_operators() {
    let mut problems = Vec::new();
    let readers = rust_files().into_iter().filter(|(name, _)| {
        ["crates/kiln-model", "crates/kiln-run", "crates/kiln-ops", "src/session"]
            .iter()
            .any(|place| name.starts_with(place))
    });
    for (name, text) in readers {
        let found = defaults::stated_defaults(&source::tokens(&text));
        problems.extend(found.iter().map(|line| format!("{name}:{line}")));
    }
    report("an attribute that has a default has it in its operator's row", &problems);
}

#[test]
fn parameters_are_no_tuples() {
    let mut problems = Vec::new();
    for (name, text) in rust_files() {
        let found = tuples::tuple_parameters(&source::tokens(&text));
        problems.extend(found.iter().map(|(line, function)| format!("{name}:{line}: fn {function}")));
    }
    report("parameters that belong together are a struct with a name, or fewer", &problems);
}

#[test]
fn the_finished_example_of_an_operator_is_what_files_say() {
    let document = fs::read_to_string(root().join("docs/adding-an-op.md")).unwrap();
    let files: BTreeMap<String, String> = rust_files().into_iter().collect();
    let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let (mut read, mut problems) = (0, Vec::new());
    for block in document.split("```rust,ignore\n// ").skip(1) {
        let (block, _) = block.split_once("\n```").unwrap();
        let (file, excerpt) = block.split_once('\n').unwrap();
        read += 1;
        if files.get(file).is_none_or(|text| !trimmed(text).contains(&trimmed(excerpt))) {
            problems.push(format!("{file} has no such lines:\n{excerpt}"));
        }
    }
    assert!(read > 8, "only {read} excerpts were found");
    report("the example in docs/adding-an-op.md quotes its files", &problems);
}

/// The root files of all crates.
fn crate_roots(files: &BTreeMap<String, String>) -> Vec<&String> {
    files.keys().filter(|name| name.ends_with("src/lib.rs") || name.ends_with("/main.rs")).collect()
}

#[test]
fn files_import_each_other_in_no_circle() {
    let files: BTreeMap<String, String> = rust_files().into_iter().collect();
    let (mut read, mut problems) = (0, Vec::new());
    for root in crate_roots(&files) {
        let found = cycles::Crate::of(root, &files);
        read += found.len();
        for cycle in found.cycles() {
            let (members, because) = (cycle.files.join(", "), cycle.because.join("\n    "));
            problems.push(format!("{members}:\n    {because}"));
        }
    }
    assert!(read > 500, "declarations of modules lead to {read} files only");
    report("files of a crate do not depend on each other in a circle", &problems);
}
