//! A digest of the sources that decide the meaning of a record: the sources that emit and choose kernels, and those
//! that store records. Builds from other sources have another digest, and share no records by accident. It depends on
//! contents and relative paths only: the same tree gives the same digest in any place, from a package as from a
//! repository.
//!
//! One file for the package, its kernels, keys and records, each for its own sources: beside their manifests are links
//! to it, which `cargo package` replaces by the file.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "cargo and its scripts talk by variables and lines"
)]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// FNV-1a in 128 bits. It detects accidents. It need not withstand forgery: records are not trusted anyway.
struct Digest(u128);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// A text behind its length, so that different lists of texts never give the same bytes.
    fn add_text(&mut self, text: &[u8]) {
        self.add(&(text.len() as u64).to_le_bytes());
        self.add(text);
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => sources(&path, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn main() -> io::Result<()> {
    // Records depend on the executors of `kiln-run`, packed models on more.
    let sources: &[&str] = match variable("CARGO_PKG_NAME").as_str() {
        "kiln-run" => &["src/exec", "src/exec.rs", "src/record", "src/record.rs"],
        "kiln" => &["src/packed", "src/packed.rs"],
        _ => &["src"],
    };
    println!("cargo:rustc-env=KILN_SOURCES={}", digest(sources)?);
    if variable("CARGO_PKG_NAME") == "kiln-run" {
        println!("cargo:rustc-env=KILN_ALL_SOURCES={}", digest(&["src"])?);
    }
    Ok(())
}

/// The digest of the sources in these folders and files.
fn digest(folders: &[&str]) -> io::Result<String> {
    let mut found = Vec::new();
    for folder in folders {
        println!("cargo:rerun-if-changed={folder}");
        match Path::new(folder).is_dir() {
            true => sources(Path::new(folder), &mut found)?,
            false => found.push(PathBuf::from(folder)),
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    // Sorted by components, so that separators of paths make no difference.
    found.sort_by(|a, b| a.components().cmp(b.components()));
    let mut digest = Digest(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    for path in &found {
        for part in path.components() {
            digest.add_text(part.as_os_str().as_encoded_bytes());
        }
        digest.add_text(&fs::read(path)?);
    }
    // Settings that change the compiled code of the same sources: plain kernels, and times that were measured with
    // them.
    for name in ["CARGO_CFG_TARGET_FEATURE", "OPT_LEVEL"] {
        digest.add_text(variable(name).as_bytes());
    }
    Ok(format!("{:032x}", digest.0))
}
