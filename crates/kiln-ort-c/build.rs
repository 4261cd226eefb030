//! Gives the shared library a name for the loader and versions of its symbols, like onnxruntime's.

#![allow(clippy::disallowed_methods, reason = "cargo tells build scripts what it builds by the environment")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// Minor releases whose programs are served, and the patch releases that each may have had.
const MINORS: u32 = 31;
const PATCHES: u32 = 10;

/// Exported functions, and the operands in `versions.s` that the trampolines lead to.
const EXPORTS: [(&str, &str); 2] = [
    ("OrtGetApiBase", "kiln_ort_get_api_base"),
    ("OrtSessionOptionsAppendExecutionProvider_CPU", "kiln_ort_append_cpu"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder for what is built"));
    let is_linux = env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    let jump = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "b ",
        _ => "jmp ",
    };
    let (mut assembly, mut script) = (String::new(), String::new());
    for (_, function) in EXPORTS {
        let _ = writeln!(assembly, ".globl {function}_entry\n{function}_entry: {jump}{{{function}}}");
    }
    for minor in 1..=MINORS {
        for patch in 0..PATCHES {
            let node = format!("VERS_1.{minor}.{patch}");
            let _ = writeln!(script, "{node} {{ }};");
            // The default version, for programs that name none.
            let at = if (minor, patch) == (MINORS, 0) { "@@" } else { "@" };
            for (name, function) in EXPORTS {
                let alias = format!("{function}_{minor}_{patch}");
                let _ = writeln!(assembly, ".globl {alias}\n.set {alias}, {function}_entry");
                let _ = writeln!(assembly, ".symver {alias}, {name}{at}{node}");
            }
        }
    }
    let (assembly_file, script_file) = (out.join("versions.s"), out.join("versions.map"));
    fs::write(&assembly_file, assembly).expect("the folder can be written");
    fs::write(&script_file, script).expect("the folder can be written");
    if is_linux {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", script_file.display());
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libonnxruntime.so.1");
        // Threads and their memory do not survive unloading.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
