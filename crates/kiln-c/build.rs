//! Gives the shared library the name that programs find it by.

#![allow(clippy::disallowed_methods, reason = "cargo tells build scripts what it builds by the environment")]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkiln.so");
        // Threads and what they keep do not survive an unloading.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
