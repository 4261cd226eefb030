//! Gives the shared library the name by which programs find it.

#![allow(clippy::disallowed_methods, reason = "cargo tells build scripts what it builds by the environment")]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkiln.so");
        // Threads and their memory do not survive unloading.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
