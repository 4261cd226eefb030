//! What the main kernels look like, instruction by instruction: a change of code that nobody meant shows up here.
//!
//! The listings are in `kernels/tests/golden`. `cargo test --release -p kiln-kernels --test golden -- --ignored` writes them
//! anew; the difference is then read before it is committed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};
use kiln_kernels::cpu::Elements;
use kiln_kernels::cpu::gemm::{Epilogue, Left, Matmul, MatmulBlocks, MatmulShape, Right};
use kiln_kernels::{CodeKey, CodeSource, EmitEach, Isa, Kit, Parts, Result};

/// Notes which code a driver asks for, part by part.
#[derive(Default)]
struct Noting(Mutex<Vec<(CodeKey, usize)>>);

impl CodeSource for Noting {
    fn kit(&self, key: &CodeKey, wanted: Parts) -> Result<Arc<Kit>> {
        self.0.lock().unwrap().extend(wanted.iter().map(|part| (key.clone(), part)));
        EmitEach.kit(key, wanted)
    }
}

/// The code of a product with packed weights, whose rows are cut into tiles of one height.
fn products(isa: Isa) -> Vec<(CodeKey, usize)> {
    let right = Right::Packed { vectors: 2, elements: Elements::F32 };
    let shape =
        MatmulShape { m: 48, n: 256, k: 256, batch: Default::default(), left: Left::Rows { stride: 256 }, right };
    let epilogue = Epilogue { bias: true, ..Epilogue::default() };
    let noting = Noting::default();
    let blocks = MatmulBlocks::pick(isa, &shape, &epilogue, 1);
    Matmul::new(isa, shape, blocks, epilogue, &noting).unwrap();
    noting.0.into_inner().unwrap()
}

/// One line an instruction, with its offset; bytes after the last `ret` are constants.
fn listing(key: &CodeKey, part: usize) -> String {
    let bytes = key.assemble(part).unwrap();
    let mut formatter = NasmFormatter::new();
    let mut text = format!("; {key:?}\n; part {part}, {} bytes\n", bytes.len());
    let mut table = bytes.len() as u64;
    let mut decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
    while decoder.ip() < table {
        let instruction = decoder.decode();
        if instruction.is_ip_rel_memory_operand() {
            table = table.min(instruction.ip_rel_memory_address());
        }
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        text += &format!("{:04x} {line}\n", instruction.ip());
    }
    for word in bytes[table as usize..].chunks(4) {
        text += &format!("; {word:02x?}\n");
    }
    text
}

/// Where each listing is, and what it would be now.
fn places() -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let place = |isa: Isa| {
        let keys = products(isa);
        assert!(!keys.is_empty(), "a product asks for no code");
        (folder.join(format!("matmul-{isa}.asm")), keys.iter().map(|(key, part)| listing(key, *part) + "\n").collect())
    };
    [Isa::Avx2, Isa::Avx512].map(place).into()
}

fn holds(path: &Path, now: &str) {
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let line = known.lines().zip(now.lines()).position(|(known, now)| known != now);
    if known != now {
        let line = line.unwrap_or_else(|| known.lines().count().min(now.lines().count()));
        let (known, now) = (known.lines().nth(line), now.lines().nth(line));
        panic!("{}, line {}: {known:?} has become {now:?}; see the head of this test", path.display(), line + 1);
    }
}

#[test]
fn products_on_packed_weights_are_as_they_were() {
    for (path, now) in places() {
        holds(&path, &now);
    }
}

#[test]
#[ignore = "writes what the other test expects"]
fn write_anew() {
    for (path, now) in places() {
        std::fs::write(path, now).unwrap();
    }
}
