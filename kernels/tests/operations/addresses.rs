//! Every form of an address, in general-purpose, VEX and EVEX instructions, and the addresses that a prefetch may have.

use kiln_kernels::Isa;
use kiln_kernels::jit::{Asm, Gpr, Mem, Predicate, Vreg, verify};

use super::harness::{INPUT, LEVELS, OUTPUT, WORDS, call, kernel, run, vector};
use super::integers::FREE;

const DISPLACEMENTS: [i32; 9] = [0, 1, -1, 127, 128, -128, -129, 1 << 20, -(1 << 30)];

#[test]
fn every_base_index_scale_and_displacement() {
    let (base_value, index_value) = (0x1234_5678_9ABCu64, 0x1_0001u64);
    for base in FREE {
        // All addresses of one base in one kernel, each stored as a word.
        let mut expected = Vec::new();
        let code = kernel(Isa::Avx2, |asm| {
            for index in FREE {
                for scale in [1, 2, 4, 8] {
                    for disp in DISPLACEMENTS {
                        asm.mov_imm(Gpr(base), base_value as i64);
                        asm.mov_imm(Gpr(index), index_value as i64);
                        asm.lea(Gpr::R8, Mem::indexed(Gpr(base), Gpr(index), scale, disp));
                        asm.store(Mem::at(WORDS, 8 * expected.len() as i32), Gpr::R8);
                        let start = if base == index { index_value } else { base_value };
                        let address = start.wrapping_add(index_value * u64::from(scale)).wrapping_add(disp as u64);
                        expected.push(address);
                    }
                }
            }
            for disp in DISPLACEMENTS {
                asm.mov_imm(Gpr(base), base_value as i64);
                asm.lea(Gpr::R8, Mem::at(Gpr(base), disp));
                asm.store(Mem::at(WORDS, 8 * expected.len() as i32), Gpr::R8);
                expected.push(base_value.wrapping_add(disp as u64));
            }
        });
        let output = call(&code, &[], 0, &vec![0; expected.len()]);
        assert_eq!(output.words, expected, "base {base}");
    }
}

/// Instructions with an address. Each takes another path through the encoder.
type Access = fn(&mut Asm, Mem);

#[test]
fn vectors_are_addressed_as_integers_are() {
    // Each instruction loads the third vector of the input into register 1, from the given address.
    let loads: [(&str, Access); 4] = [
        ("vload", |asm, mem| asm.vload(Vreg(1), mem)),
        ("vadd", |asm, mem| {
            asm.vzero(Vreg(1));
            asm.vadd(Vreg(1), Vreg(1), mem);
        }),
        ("vload_masked", |asm, mem| {
            let mask = asm.mask(0, Vreg(5));
            asm.mov_imm(Gpr::RAX, asm.lanes() as i64);
            asm.mask_first(mask, Gpr::RAX, Gpr::RDX);
            asm.vload_masked(Vreg(1), mask, mem);
        }),
        // An immediate behind the address moves the SIB byte.
        ("compare", |asm, mem| {
            let mask = asm.mask(0, Vreg(5));
            asm.vload(Vreg(1), vector(INPUT, 2));
            asm.vzero(Vreg(2));
            asm.compare(mask, Predicate::Equal, Vreg(1), mem);
            asm.select(Vreg(1), mask, Vreg(1), Vreg(2));
        }),
    ];
    let input = [[1f32.to_bits(); 16], [2f32.to_bits(); 16], std::array::from_fn(|lane| (lane as f32 + 1.0).to_bits())];
    for isa in LEVELS {
        for (name, load) in loads {
            for base in [1, 3, 5, 12, 13] {
                for index in [6, 12, 13, 15].into_iter().filter(|index| *index != base) {
                    for scale in [1u8, 2, 4, 8] {
                        for shift in [0, 120, -136, 4096, 3] {
                            let (base, index) = (Gpr(base), Gpr(index));
                            let output = run(isa, &input, 1, &[], |asm| {
                                // base + 16 * scale + disp = the third vector
                                let disp = 128 - 16 * i32::from(scale) - shift;
                                asm.mov_imm(index, 16);
                                asm.lea(base, Mem::at(INPUT, shift));
                                load(asm, Mem::indexed(base, index, scale, disp));
                                asm.vstore(vector(OUTPUT, 0), Vreg(1));
                            });
                            let lanes = isa.lanes();
                            assert_eq!(
                                output.vectors[0][..lanes],
                                input[2][..lanes],
                                "{isa} {name} {base:?}+{index:?}*{scale}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn prefetching_reads_nothing() {
    for isa in LEVELS {
        let output = run(isa, &[], 0, &[7], |asm| {
            asm.mov_imm(Gpr::RAX, 0);
            asm.prefetch(Mem::at(Gpr::RAX, 64));
            asm.prefetch(Mem::indexed(Gpr::R12, Gpr::R13, 8, 100_000));
            asm.prefetch_l2(Mem::at(Gpr::RAX, 64));
            asm.prefetch_l2(Mem::indexed(Gpr::R12, Gpr::R13, 8, 100_000));
        });
        assert_eq!(output.words, [7]);
    }
}

#[test]
fn the_verifier_counts_instructions_and_names_what_is_wrong() {
    let emit = |asm: &mut Asm| {
        asm.vload(Vreg(0), 3.0);
        asm.epilogue();
    };
    for isa in LEVELS {
        let mut asm = Asm::new(isa).unwrap();
        emit(&mut asm);
        let bytes = asm.finish("test").unwrap();
        // Eight instructions of the epilogue, the load and the padding before the constant.
        assert!(verify::verify(isa, &bytes).unwrap() >= 9);
    }
    let refused: [(&str, &[u8]); 6] = [
        ("no instruction", &[0x06]),
        ("run past the end", &[0x90]),
        ("otherwise than by ret", &[0xFF, 0xD0, 0xC3]),
        ("otherwise than by ret", &[0x0F, 0x05, 0xC3]),
        ("branch into nowhere", &[0xEB, 0x01, 0x48, 0x89, 0xC3, 0xC3]),
        ("lacks", &[0x62, 0xF1, 0x7C, 0x48, 0x58, 0xC0, 0xC3]),
    ];
    for (reason, bytes) in refused {
        let error = verify::verify(Isa::Avx2, bytes).unwrap_err();
        assert!(error.contains(reason) || reason == "run past the end" && error.contains("past the end"), "{error}");
    }
}
