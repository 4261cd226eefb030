//! Tile registers, which only AVX-512 has, and only beside an extension.

use kiln_kernels::jit::{Asm, Code, Gpr, Mem, Tile, verify};
use kiln_kernels::{Extension, Isa};

use super::harness::{Random, agree};

/// Arguments of the kernels here: a configuration, two factors, and the sum that they are added to.
#[repr(C)]
struct Args {
    config: *const u8,
    left: *const u32,
    right: *const u32,
    sum: *mut u32,
}

/// Sixteen rows of sixteen words.
type Words = [[u32; 16]; 16];

/// Distance of rows in memory, in words: more than a row has.
const DISTANCE: usize = 20;

fn kernel(dot: impl Fn(&mut Asm, Tile, Tile, Tile)) -> Code {
    let mut asm = Asm::new(Isa::Avx512).unwrap();
    asm.prologue();
    let (left, right, sum, distance) = (Gpr::RSI, Gpr::R11, Gpr::R12, Gpr::R13);
    asm.load(Gpr::RAX, Mem::at(Gpr::RDI, 0));
    asm.load(left, Mem::at(Gpr::RDI, 8));
    asm.load(right, Mem::at(Gpr::RDI, 16));
    asm.load(sum, Mem::at(Gpr::RDI, 24));
    asm.tile_config(Mem::at(Gpr::RAX, 0));
    asm.mov_imm(distance, 4 * DISTANCE as i64);
    asm.tile_zero(Tile(0));
    asm.tile_load(Tile(0), Mem::indexed(sum, distance, 1, 0));
    asm.tile_load(Tile(5), Mem::indexed(left, distance, 1, 64));
    asm.tile_load(Tile(7), Mem::indexed(right, distance, 1, -64));
    dot(&mut asm, Tile(0), Tile(5), Tile(7));
    asm.tile_store(Mem::indexed(sum, distance, 1, 0), Tile(0));
    asm.tile_release();
    asm.epilogue();
    let bytes = asm.finish("test").unwrap();
    verify::verify_extended(Isa::Avx512, Some(Extension::Amx), &bytes).unwrap();
    assert!(verify::verify(Isa::Avx512, &bytes).is_err(), "the level alone lacks them");
    Code::seal_extended(Isa::Avx512, Extension::Amx, "test", &bytes).unwrap()
}

/// The configuration of a sum of `rows` by `columns` and its factors, `steps` words long.
fn config(rows: u8, columns: u16, steps: u8) -> [u8; 64] {
    let mut config = [0; 64];
    config[0] = 1;
    for (tile, rows, bytes) in [(0, rows, 4 * columns), (5, rows, 4 * u16::from(steps)), (7, steps, 4 * columns)] {
        config[48 + tile] = rows;
        config[16 + 2 * tile..][..2].copy_from_slice(&bytes.to_le_bytes());
    }
    config
}

fn spread(words: &Words) -> Vec<u32> {
    words.iter().flat_map(|row| row.iter().copied().chain([0x5555_5555; DISTANCE - 16])).collect()
}

/// The kernel's sum: natively where the processor can, and in the emulator, which must agree.
fn run(code: &Code, config: &[u8; 64], [left, right, sum]: [&Words; 3]) -> Vec<u32> {
    let (left, right) = (spread(left), spread(right));
    let once = |enter: &dyn Fn(&Args)| {
        let mut sum = spread(sum);
        enter(&Args {
            config: config.as_ptr(),
            left: left.as_ptr().wrapping_sub(16),
            right: right.as_ptr().wrapping_add(16),
            sum: sum.as_mut_ptr(),
        });
        sum
    };
    let emulated = once(&|args| {
        // SAFETY: the buffers hold sixteen rows at the kernel's distance.
        unsafe { code.emulate(args) };
    });
    if Extension::Amx.present() {
        let native = once(&|args| {
            // SAFETY: as above.
            unsafe { code.call_undescribed(args) }
        });
        assert!(agree(&native, &emulated), "processor {native:x?}\n emulator {emulated:x?}");
    }
    emulated
}

#[test]
fn even_and_odd_products_of_bf16_are_summed_apart() {
    let code = kernel(|asm, sum, left, right| asm.tile_dot_bf16(sum, left, right));
    let mut random = Random(5);
    let flush = |x: f32| if x.is_subnormal() { 0.0f32.copysign(x) } else { x };
    for (rows, columns, steps) in [(16, 16, 16), (16, 16, 16), (1, 16, 16), (7, 5, 3), (16, 1, 16), (3, 16, 1)] {
        let [left, right, before]: [Words; 3] = std::array::from_fn(|_| std::array::from_fn(|_| random.vector()));
        let found = run(&code, &config(rows, columns, steps), [&left, &right, &before]);
        for row in 0..16 {
            for column in 0..16 {
                let start = before[row][column];
                let mut expected = start;
                if row < usize::from(rows) && column < usize::from(columns) {
                    let half = |keep: fn(u32) -> u32| {
                        (0..usize::from(steps)).fold(0f32, |sum, step| {
                            let [a, b] = [left[row][step], right[step][column]].map(|w| flush(f32::from_bits(keep(w))));
                            flush(a.mul_add(b, sum))
                        })
                    };
                    let both = flush(half(|word| word << 16) + half(|word| word & 0xFFFF_0000));
                    expected = flush(flush(f32::from_bits(start)) + both).to_bits();
                }
                let found = found[row * DISTANCE + column];
                assert!(agree(&[found], &[expected]), "{row} {column}: {found:x} {expected:x}");
            }
        }
    }
}

#[test]
fn products_of_bytes_are_exact() {
    let mut random = Random(6);
    for signed in [false, true] {
        let code = kernel(|asm, sum, left, right| match signed {
            true => asm.tile_dot_signed_bytes(sum, left, right),
            false => asm.tile_dot_bytes(sum, left, right),
        });
        let [left, right, before]: [Words; 3] =
            std::array::from_fn(|_| std::array::from_fn(|_| std::array::from_fn(|_| random.next() as u32)));
        let found = run(&code, &config(16, 16, 16), [&left, &right, &before]);
        for row in 0..16 {
            for column in 0..16 {
                let byte = |word: u32, at: usize| word.to_le_bytes()[at];
                let sum = (0..64).fold(before[row][column] as i32, |sum, k| {
                    let (a, b) = (byte(left[row][k / 4], k % 4), byte(right[k / 4][column], k % 4) as i8);
                    let a = if signed { i32::from(a as i8) } else { i32::from(a) };
                    sum.wrapping_add(a * i32::from(b))
                });
                assert_eq!(found[row * DISTANCE + column], sum as u32);
            }
        }
    }
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    let refused = |isa: Isa, emit: fn(&mut Asm)| {
        let mut asm = Asm::new(isa).unwrap();
        emit(&mut asm);
        assert!(asm.finish("test").is_err());
    };
    refused(Isa::Avx2, |asm| asm.tile_zero(Tile(0)));
    refused(Isa::Avx512, |asm| asm.tile_zero(Tile(8)));
    refused(Isa::Avx512, |asm| asm.tile_load(Tile(0), Mem::at(Gpr::RAX, 0)));
}
