//! General-purpose registers: arithmetic, flags and the jumps that read them.

use kiln_kernels::jit::{Asm, Cond, Gpr, Mem};

use super::harness::{LEVELS, Random, WORDS, call, kernel, run};

/// Registers that the harness leaves to a test: all but rsp and those of its buffers.
pub(crate) const FREE: [u8; 12] = [0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 14, 15];

struct Row {
    name: &'static str,
    emit: fn(&mut Asm, Gpr, Gpr),
    word: fn(u64, u64) -> u64,
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { name: "mov", emit: |asm, d, s| asm.mov(d, s), word: |_, s| s },
    Row { name: "add", emit: |asm, d, s| asm.add(d, s), word: u64::wrapping_add },
    Row { name: "sub", emit: |asm, d, s| asm.sub(d, s), word: u64::wrapping_sub },
    Row { name: "imul", emit: |asm, d, s| asm.imul(d, s), word: u64::wrapping_mul },
    Row { name: "add_imm 8", emit: |asm, d, _| asm.add_imm(d, -128), word: |d, _| d.wrapping_sub(128) },
    Row { name: "add_imm 32", emit: |asm, d, _| asm.add_imm(d, 0x1234_5678), word: |d, _| d.wrapping_add(0x1234_5678) },
    Row { name: "sub_imm 8", emit: |asm, d, _| asm.sub_imm(d, 127), word: |d, _| d.wrapping_sub(127) },
    Row { name: "sub_imm 32", emit: |asm, d, _| asm.sub_imm(d, -129), word: |d, _| d.wrapping_add(129) },
    Row { name: "and_imm 8", emit: |asm, d, _| asm.and_imm(d, -16), word: |d, _| d & !15 },
    Row { name: "and_imm 32", emit: |asm, d, _| asm.and_imm(d, 0x7FFF_0000), word: |d, _| d & 0x7FFF_0000 },
    Row { name: "shl 0", emit: |asm, d, _| asm.shl_imm(d, 0), word: |d, _| d },
    Row { name: "shl 1", emit: |asm, d, _| asm.shl_imm(d, 1), word: |d, _| d << 1 },
    Row { name: "shl 63", emit: |asm, d, _| asm.shl_imm(d, 63), word: |d, _| d << 63 },
    Row { name: "shr 3", emit: |asm, d, _| asm.shr_imm(d, 3), word: |d, _| d >> 3 },
    Row { name: "shr 63", emit: |asm, d, _| asm.shr_imm(d, 63), word: |d, _| d >> 63 },
    Row { name: "mov_imm 0", emit: |asm, d, _| asm.mov_imm(d, 0), word: |_, _| 0 },
    Row { name: "mov_imm u32", emit: |asm, d, _| asm.mov_imm(d, 0xFFFF_FFFF), word: |_, _| 0xFFFF_FFFF },
    Row { name: "mov_imm i32", emit: |asm, d, _| asm.mov_imm(d, -2), word: |_, _| -2i64 as u64 },
    Row { name: "mov_imm i64", emit: |asm, d, _| asm.mov_imm(d, i64::MIN + 5), word: |_, _| (i64::MIN + 5) as u64 },
    Row { name: "lea", emit: |asm, d, s| asm.lea(d, Mem::indexed(d, s, 4, -7)), word: |d, s| d.wrapping_add(s.wrapping_mul(4)).wrapping_sub(7) },
    Row { name: "load", emit: |asm, d, _| asm.load(d, Mem::at(WORDS, 8)), word: |_, s| s },
    Row { name: "store", emit: |asm, d, s| { asm.store(Mem::at(WORDS, 24), s); asm.load(d, Mem::at(WORDS, 24)); }, word: |_, s| s },
    Row { name: "add_mem", emit: |asm, d, _| asm.add_mem(d, Mem::at(WORDS, 8)), word: u64::wrapping_add },
];

fn words() -> Vec<[u64; 2]> {
    let mut random = Random(21);
    let mut all: Vec<_> = (0..20).map(|_| [random.next(), random.next()]).collect();
    let corners = [0, 1, u64::MAX, i64::MIN as u64, i64::MAX as u64, 64];
    all.extend(corners.iter().flat_map(|a| corners.iter().map(|b| [*a, *b])));
    all
}

#[test]
fn arithmetic_on_every_register() {
    for isa in LEVELS {
        for row in ROWS {
            for (at, dst) in FREE.into_iter().enumerate() {
                let src = FREE[(at + 5) % FREE.len()];
                let code = kernel(isa, |asm| {
                    asm.load(Gpr(dst), Mem::at(WORDS, 0));
                    asm.load(Gpr(src), Mem::at(WORDS, 8));
                    (row.emit)(asm, Gpr(dst), Gpr(src));
                    asm.store(Mem::at(WORDS, 16), Gpr(dst));
                });
                for [a, b] in words() {
                    let output = call(&code, &[], 0, &[a, b, 0, 0]);
                    assert_eq!(output.words[2], (row.word)(a, b), "{} of {a:#x} {b:#x} in {dst}, {src}", row.name);
                }
            }
        }
    }
}

type Holds = fn(i64, i64) -> bool;

const CONDITIONS: [(Cond, Holds); 6] = [
    (Cond::Equal, |a, b| a == b),
    (Cond::NotEqual, |a, b| a != b),
    (Cond::Less, |a, b| a < b),
    (Cond::LessEqual, |a, b| a <= b),
    (Cond::Greater, |a, b| a > b),
    (Cond::GreaterEqual, |a, b| a >= b),
];

/// Stores 1 in the third word if a jump on the condition is taken after `flags`.
fn jumps(asm: &mut Asm, cond: Cond, flags: impl Fn(&mut Asm, Gpr, Gpr)) {
    let (a, b) = (Gpr::R12, Gpr::RCX);
    asm.load(a, Mem::at(WORDS, 0));
    asm.load(b, Mem::at(WORDS, 8));
    let taken = asm.label();
    asm.mov_imm(Gpr::RAX, 5);
    flags(asm, a, b);
    // Loading a constant leaves the flags alone.
    asm.mov_imm(Gpr::RAX, 1);
    asm.jump_if(cond, taken);
    asm.mov_imm(Gpr::RAX, 0);
    asm.bind(taken);
    asm.store(Mem::at(WORDS, 16), Gpr::RAX);
}

#[test]
fn jumps_after_comparisons_and_tests() {
    for isa in LEVELS {
        for (cond, holds) in CONDITIONS {
            let compared = kernel(isa, |asm| jumps(asm, cond, |asm, a, b| asm.cmp(a, b)));
            let with_imm = kernel(isa, |asm| jumps(asm, cond, |asm, a, _| asm.cmp_imm(a, 64)));
            let tested = kernel(isa, |asm| jumps(asm, cond, |asm, a, _| asm.test(a)));
            let subtracted = kernel(isa, |asm| jumps(asm, cond, |asm, a, _| asm.sub_imm(a, 1)));
            for [a, b] in words() {
                let taken = |code| call(code, &[], 0, &[a, b, 9]).words[2] == 1;
                let (x, y) = (a as i64, b as i64);
                assert_eq!(taken(&compared), holds(x, y), "{cond:?} {x} {y}");
                assert_eq!(taken(&with_imm), holds(x, 64), "{cond:?} {x} 64");
                assert_eq!(taken(&tested), holds(x, 0), "{cond:?} {x}");
                // Loops end by counting down: the flags are those of comparing with 1.
                assert_eq!(taken(&subtracted), holds(x, 1), "{cond:?} {x} - 1");
            }
        }
    }
}

#[test]
fn loops_run_as_often_as_they_say() {
    for isa in LEVELS {
        let emit = |asm: &mut Asm| {
            let (again, done) = (asm.label(), asm.label());
            asm.load(Gpr::RCX, Mem::at(WORDS, 0));
            asm.mov_imm(Gpr::RAX, 0);
            asm.test(Gpr::RCX);
            asm.jump_if(Cond::Equal, done);
            asm.align(64);
            asm.bind(again);
            asm.add_imm(Gpr::RAX, 3);
            asm.sub_imm(Gpr::RCX, 1);
            asm.jump_if(Cond::NotEqual, again);
            asm.bind(done);
            let end = asm.label();
            asm.jump(end);
            asm.mov_imm(Gpr::RAX, 77);
            asm.bind(end);
            asm.store(Mem::at(WORDS, 8), Gpr::RAX);
        };
        for count in [0, 1, 2, 1000] {
            assert_eq!(run(isa, &[], 0, &[count, 0], emit).words[1], 3 * count);
        }
    }
}
