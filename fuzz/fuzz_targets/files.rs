//! Models whose weights lie in other files, and limits of loading: sparse files, claimed places and sizes, links out of
//! the model's folder, memory and time. Loading ends in a typed error or a session, which then answers one request;
//! neither panics, hangs or takes memory beyond its limit.

#![no_main]

#[path = "../../tests/hostile/wire.rs"]
mod wire;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use kiln::session::{Session, SessionOptions};
use kiln_model::onnx::Limits;
use kiln_run::record::CacheMode;
use kiln_tensor::Tensor;
use libfuzzer_sys::fuzz_target;
use wire::{Message, elsewhere, graph, model};

/// Choices by the input's bytes; 0 when no bytes are left.
struct Draw<'a>(&'a [u8]);

impl Draw<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    /// A size: a power of two or its neighbour, or any small number.
    fn size(&mut self) -> u64 {
        let power = self.byte();
        match power {
            0..64 => (1u64 << power).wrapping_add(self.pick(&[0, 1, u64::MAX])),
            _ => u64::from(power - 64),
        }
    }

    /// Where weights are said to lie.
    fn location(&mut self) -> &'static str {
        let count = LOCATIONS.split(' ').count() + 1;
        LOCATIONS.split(' ').nth(usize::from(self.byte()) % count).unwrap_or("")
    }

    /// A size as text, or a text that is no number.
    fn told(&mut self) -> String {
        match self.byte() % 8 {
            0 => self.pick(&["", "-1", "0x10", "1e3", " 16", "18446744073709551616", "9223372036854775807"]).to_owned(),
            _ => self.size().to_string(),
        }
    }
}

/// A folder of this process, with a folder of models in it and files outside of that.
fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("kiln-fuzz-files-{}", std::process::id()));
        fs::create_dir_all(root.join("model/below")).expect("a folder for temporary files");
        fs::write(root.join("secret"), SECRET.repeat(64)).expect("a file in it");
        let links =
            [("secret", "link"), ("", "up"), ("model/w", "inside"), ("model/loop", "loop"), ("absent", "broken")];
        for (to, from) in links {
            symlink(root.join(to), root.join("model").join(from)).expect("a link in it");
        }
        fs::hard_link(root.join("secret"), root.join("model/hard")).expect("a link in it");
        root
    })
}

/// Bytes that no session may have seen: the float 1234.5.
const SECRET: [u8; 4] = 1234.5f32.to_le_bytes();

/// Where weights may be said to lie.
const LOCATIONS: &str = "w below/w ./w below/../w w/ . .. below absent link inside up/secret up/model/w ../secret \
                         below/../../secret hard loop broken /etc/hostname /dev/zero w\0 model.onnx";

/// The most that a file takes on the disk.
const WRITTEN: u64 = 1 << 16;

/// A file of that size with some bytes at its beginning; the rest is a hole.
fn sparse(path: &Path, size: u64, written: u64) {
    let mut file = File::create(path).expect("a file in the folder");
    let bytes: Vec<u8> = (0..written.min(size).min(WRITTEN)).map(|at| at as u8 / 4).collect();
    file.write_all(&bytes).expect("room on the disk");
    // A size that the file system refuses is ignored.
    let _ = file.set_len(size);
}

fn options(draw: &mut Draw<'_>) -> SessionOptions {
    let defaults = Limits::default();
    let mut limits = defaults.clone();
    let within = |draw: &mut Draw<'_>, default: u64| if draw.byte() % 8 == 7 { draw.size() } else { default };
    let narrow = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    limits.file_bytes = within(draw, defaults.file_bytes);
    limits.tensor_bytes = within(draw, defaults.tensor_bytes);
    limits.message_bytes = within(draw, defaults.message_bytes);
    limits.nodes = narrow(within(draw, defaults.nodes as u64));
    limits.rank = narrow(within(draw, defaults.rank as u64));
    limits.name_bytes = narrow(within(draw, defaults.name_bytes as u64));
    // Each is a part of the memory that the fuzzer allows the process.
    let memory_bytes = draw.pick(&[64 << 20, 1 << 20, 4096, 1, 0, 256 << 20]);
    let load_time_limit = draw.pick(&[None, Some(0), Some(50), Some(1), Some(1000)]).map(Duration::from_millis);
    let cache_mode = CacheMode::Memory;
    SessionOptions { threads: 1, cache_mode, memory_bytes, load_time_limit, limits, ..SessionOptions::default() }
}

/// An initialiser in another file.
fn weights(draw: &mut Draw<'_>) -> Message {
    let (location, offset, length) = (draw.location(), draw.told(), draw.told());
    let mut entries = vec![("location", location)];
    let given = draw.byte();
    if given & 1 != 0 {
        entries.push(("offset", &offset));
    }
    if given & 2 != 0 {
        entries.push(("length", &length));
    }
    if given & 4 != 0 {
        entries.push(("location", draw.location()));
    }
    match draw.byte() % 4 {
        // Four floats.
        0 => elsewhere(&entries),
        // Any dimensions of any type.
        dims => {
            let tensor = (0..dims).fold(Message::default(), |tensor, _| tensor.varint(1, draw.size()));
            let entry = |(key, value): &(&str, &str)| Message::default().text(1, key).text(2, value);
            let tensor = tensor.varint(2, u64::from(draw.byte() % 27)).text(8, "w");
            entries.iter().fold(tensor, |tensor, pair| tensor.message(13, &entry(pair))).varint(14, 1)
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut draw = Draw(bytes);
    let folder = root().join("model");
    for file in ["w", "below/w"] {
        // Large files are mostly holes.
        let size = if draw.byte().is_multiple_of(2) { draw.size() } else { 1 << (16 + draw.byte() % 32) };
        let written = draw.size();
        sparse(&folder.join(file), size, written);
    }
    let options = options(&mut draw);
    let file = folder.join("model.onnx");
    fs::write(&file, model(&graph(&weights(&mut draw)))).expect("room on the disk");
    let session = match Session::load(&file, &options) {
        Ok(session) => session,
        Err(error) => return assert!(!error.is_fault(), "{error}"),
    };
    let x = Tensor::from_vec([1], vec![0f32]).expect("one number");
    match session.run(&[("x", x)]) {
        Ok(outputs) => {
            let made: usize = outputs.iter().map(|(_, output)| output.byte_len()).sum();
            assert!(made <= options.memory_bytes, "{made} bytes of outputs of {}", options.memory_bytes);
            let leaks = outputs.iter().any(|(_, output)| output.bytes().starts_with(&SECRET));
            assert!(!leaks, "weights from outside the model's folder");
        }
        Err(error) => assert!(!error.is_fault(), "{error}"),
    }
});
