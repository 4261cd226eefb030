//! `include/kiln.h` is the output of cbindgen for the sources.

use std::path::Path;

/// The sources with parts of the interface, in the header's order.
const SOURCES: [&str; 10] =
    ["error", "status", "dtype", "options", "port", "session", "run_options", "run", "records", "statistics"];

fn written() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut build = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        build = build.with_src(root.join(format!("src/{source}.rs")));
    }
    let mut text = Vec::new();
    build.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

fn header() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/kiln.h")).unwrap_or_default()
}

/// Names of the functions that the sources export.
fn exported() -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let after = text.split("pub unsafe extern \"C\" fn ").skip(1);
        names.extend(after.map(|rest| rest.split('(').next().unwrap().to_owned()));
    }
    names
}

#[test]
fn the_header_is_what_cbindgen_writes_of_the_sources() {
    assert_eq!(header(), written(), "cargo test -p kiln-c --test header -- --ignored writes it");
}

#[test]
fn every_exported_function_is_in_the_header() {
    let header = header();
    let names = exported();
    assert!(names.len() > 20, "only {names:?} were found");
    for name in names {
        assert!(header.contains(&format!("{name}(")), "{name} is not in kiln.h");
    }
}

#[test]
#[ignore = "writes the header"]
fn write_the_header() {
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/kiln.h"), written()).unwrap();
}
