//! Products of 16-bit and 8-bit integers, and moves between their widths.

use half::f16;
use kiln_kernels::jit::{Asm, Code, Gpr, JoinedRow, Mem, Src, Vreg, verify};
use kiln_kernels::{Extension, Isa};

use super::harness::{INPUT, LEVELS, OUTPUT, Random, UNTOUCHED, Vector, call, kernel, vector};

/// Vectors of random bits and of extremes.
fn operands() -> Vec<[Vector; 3]> {
    let mut random = Random(77);
    let mut all: Vec<[Vector; 3]> =
        (0..40).map(|_| std::array::from_fn(|_| std::array::from_fn(|_| random.next() as u32))).collect();
    for a in [0u32, 0x8000_8000, 0x7FFF_8000, 0xFFFF_FFFF, 0x8080_8080, 0x7F80_FF00] {
        all.extend([0x8000_8000u32, 0x7FFF_7FFF, 0x8080_8080, 0x7F7F_7F7F].map(|b| [[7; 16], [a; 16], [b; 16]]));
    }
    all
}

#[test]
fn pairs_of_words_and_quadruples_of_bytes_are_summed_exactly() {
    for isa in LEVELS {
        let last = isa.registers() - 1;
        for [d, a, b] in [[0, 1, 2], [last, last - 1, 9], [8, 8, last]] {
            let code = kernel(isa, |asm| {
                asm.vload(Vreg(a), vector(INPUT, 1));
                asm.vload(Vreg(b), vector(INPUT, 2));
                asm.vmul_pairs(Vreg(d), Vreg(a), Vreg(b));
                asm.vstore(vector(OUTPUT, 0), Vreg(d));
                asm.vload(Vreg(a), vector(INPUT, 1));
                asm.vmul_pairs(Vreg(d), Vreg(a), vector(INPUT, 2));
                asm.vstore(vector(OUTPUT, 1), Vreg(d));
            });
            for [c, x, y] in operands() {
                let output = call(&code, &[c, x, y], 2, &[]).vectors;
                for lane in 0..isa.lanes() {
                    let word = |v: u32, at: u32| i64::from((v >> (16 * at)) as i16);
                    let sum = (0..2).map(|at| word(x[lane], at) * word(y[lane], at)).sum::<i64>() as u32;
                    assert_eq!([output[0][lane], output[1][lane]], [sum; 2], "{isa} {:x} {:x}", x[lane], y[lane]);
                }
            }
        }
    }
}

#[test]
fn quadruples_of_bytes_are_added_to_a_sum_that_wraps() {
    for (isa, extension, [sum, a, b]) in
        [(Isa::Avx512, Extension::Vnni, [17, 4, 30]), (Isa::Avx2, Extension::AvxVnni, [9, 4, 15])]
    {
        let mut asm = Asm::new(isa).unwrap();
        asm.prologue();
        asm.load(INPUT, Mem::at(Gpr::RDI, 0));
        asm.load(OUTPUT, Mem::at(Gpr::RDI, 8));
        for (output, source) in [Src::Reg(Vreg(b)), Src::Mem(vector(INPUT, 2))].into_iter().enumerate() {
            asm.vload(Vreg(sum), vector(INPUT, 0));
            asm.vload(Vreg(a), vector(INPUT, 1));
            asm.vload(Vreg(b), vector(INPUT, 2));
            asm.vdot_bytes(Vreg(sum), Vreg(a), source);
            asm.vstore(vector(OUTPUT, output), Vreg(sum));
        }
        asm.epilogue();
        let bytes = asm.finish("test").unwrap();
        verify::verify_extended(isa, Some(extension), &bytes).unwrap();
        assert!(verify::verify(isa, &bytes).is_err(), "the level alone lacks them");
        let code = Code::seal_extended(isa, extension, "test", &bytes).unwrap();
        for [c, x, y] in operands() {
            let output = call(&code, &[c, x, y], 2, &[]).vectors;
            for lane in 0..isa.lanes() {
                let products = x[lane].to_le_bytes().into_iter().zip(y[lane].to_le_bytes());
                let sum = products.map(|(u, s)| i32::from(u) * i32::from(s as i8)).sum::<i32>();
                assert_eq!([output[0][lane], output[1][lane]], [c[lane].wrapping_add(sum as u32); 2], "{isa}");
            }
        }
    }
}

#[test]
fn pairs_of_bytes_saturate_and_sums_of_words_wrap() {
    for isa in LEVELS {
        let last = isa.registers() - 1;
        for [d, a, b] in [[0, 1, 2], [last, last - 1, 9], [8, 8, last]].map(|all| all.map(Vreg)) {
            let code = kernel(isa, |asm| {
                for (output, source) in [Src::Reg(b), Src::Mem(vector(INPUT, 1))].into_iter().enumerate() {
                    asm.vload(a, vector(INPUT, 0));
                    asm.vload(b, vector(INPUT, 1));
                    asm.vmul_bytes(d, a, source);
                    asm.vstore(vector(OUTPUT, output), d);
                }
                asm.vload(a, vector(INPUT, 0));
                asm.vadd_words(d, a, b);
                asm.vstore(vector(OUTPUT, 2), d);
            });
            for [_, x, y] in operands() {
                let output = call(&code, &[x, y], 3, &[]).vectors;
                for lane in 0..isa.lanes() {
                    let (u, s) = (x[lane].to_le_bytes().map(i32::from), y[lane].to_le_bytes().map(|s| s as i8));
                    let product = |at: usize| u[at] * i32::from(s[at]);
                    let pair = |at: usize| (product(at) + product(at + 1)).clamp(-32_768, 32_767) as u32 & 0xFFFF;
                    let pairs = pair(0) | pair(2) << 16;
                    let half = |shift: u32| (x[lane] >> shift).wrapping_add(y[lane] >> shift) & 0xFFFF;
                    let sums = half(0) | half(16) << 16;
                    let found = [0, 1, 2].map(|at| output[at][lane]);
                    assert_eq!(found, [pairs, pairs, sums], "{isa} {:x} {:x}", x[lane], y[lane]);
                }
            }
        }
    }
}

#[test]
fn halves_become_whole_numbers_from_any_address() {
    for isa in LEVELS {
        for register in [0, 7, isa.registers() - 1] {
            let code = kernel(isa, |asm| {
                for (at, disp) in [0, 3, 130].into_iter().enumerate() {
                    asm.vload_f16(Vreg(register), Mem::at(INPUT, disp));
                    asm.vstore(vector(OUTPUT, at), Vreg(register));
                }
            });
            for [a, b, c] in operands() {
                let output = call(&code, &[a, b, c], 3, &[]).vectors;
                let bytes: Vec<u8> = [a, b, c].iter().flatten().flat_map(|lane| lane.to_le_bytes()).collect();
                for (at, disp) in [0, 3, 130].into_iter().enumerate() {
                    for lane in 0..isa.lanes() {
                        let bits = u16::from_le_bytes([bytes[disp + 2 * lane], bytes[disp + 2 * lane + 1]]);
                        let (number, found) = (f16::from_bits(bits).to_f32(), f32::from_bits(output[at][lane]));
                        let same = found.to_bits() == number.to_bits() || found.is_nan() && number.is_nan();
                        assert!(same, "{isa}: {bits:#x} became {found}");
                    }
                }
            }
        }
    }
}

#[test]
fn signed_bytes_become_words_and_lanes_become_bytes() {
    for isa in LEVELS {
        let last = isa.registers() - 1;
        for [register, scratch] in [[0, 1], [last, 3], [8, last]] {
            let code = kernel(isa, |asm| {
                for (at, disp) in [3, 130, 4].into_iter().enumerate() {
                    asm.vload_i8_as_i16(Vreg(register), Mem::at(INPUT, disp));
                    asm.vstore(vector(OUTPUT, at), Vreg(register));
                }
                asm.vload(Vreg(register), vector(INPUT, 3));
                asm.vstore_u8(vector(OUTPUT, 3).plus(2), Vreg(register), Vreg(scratch));
            });
            for [a, b, c] in operands() {
                let small = c.map(|lane| lane & 0xFF);
                let output = call(&code, &[a, b, c, small], 4, &[]).vectors;
                let bytes: Vec<u8> = [a, b, c].iter().flatten().flat_map(|lane| lane.to_le_bytes()).collect();
                for (at, disp) in [3, 130, 4].into_iter().enumerate() {
                    for lane in 0..isa.lanes() {
                        let word = |byte: usize| bytes[disp + 2 * lane + byte] as i8 as i16 as u16;
                        assert_eq!(output[at][lane], u32::from(word(0)) | u32::from(word(1)) << 16);
                    }
                }
                let stored: Vec<u8> = output[3].iter().flat_map(|lane| lane.to_le_bytes()).collect();
                let expected: Vec<u8> = small[..isa.lanes()].iter().map(|&lane| lane as u8).collect();
                assert_eq!(stored[2..2 + isa.lanes()], expected);
                let untouched = stored[2 + isa.lanes()..].iter().all(|&byte| byte == UNTOUCHED as u8);
                assert!(untouched && stored[0] == UNTOUCHED as u8, "bytes beside the result were written");
            }
        }
    }
}

#[test]
fn lanes_are_packed_to_words_and_bytes() {
    let code = kernel(Isa::Avx512, |asm| {
        let [a, b, out] = [3, 31, 17].map(Vreg);
        asm.vload(a, vector(INPUT, 0));
        asm.vload(b, vector(INPUT, 1));
        let results: [&dyn Fn(&mut Asm); 6] = [
            &|asm| asm.vpack_words(out, a, b),
            &|asm| asm.vpack_bytes(out, a, b, false),
            &|asm| asm.vpack_bytes(out, a, b, true),
            &|asm| asm.vadd_words_saturated(out, a, b),
            &|asm| asm.vmax_bytes(out, a, b, false),
            &|asm| asm.vmax_bytes(out, a, b, true),
        ];
        for (index, result) in results.into_iter().enumerate() {
            result(asm);
            asm.vstore(vector(OUTPUT, index), out);
        }
        let mask = asm.mask(0, Vreg(0));
        asm.mov_imm(Gpr::RAX, 5);
        asm.mask_first(mask, Gpr::RAX, Gpr::RCX);
        asm.vstore_u8_masked(vector(OUTPUT, 6).plus(3), mask, a);
    });
    for [_, x, y] in operands() {
        let output = call(&code, &[x, y], 7, &[]).vectors;
        let words = |v: &Vector| v.map(|lane| [lane as i16, (lane >> 16) as i16]).concat();
        let bytes = |v: &Vector| v.map(u32::to_le_bytes).concat();
        let (xw, yw, xb, yb) = (words(&x), words(&y), bytes(&x), bytes(&y));
        let short = |lane: u32| (lane as i32).clamp(-32_768, 32_767) as i16;
        let groups = |v: &[i16], group: usize| v[8 * group..8 * group + 8].to_vec();
        for group in 0..4 {
            let both = [&x[4 * group..4 * group + 4], &y[4 * group..4 * group + 4]].concat();
            assert_eq!(groups(&words(&output[0]), group), both.into_iter().map(short).collect::<Vec<_>>());
            let both = [groups(&xw, group), groups(&yw, group)].concat();
            for (index, [least, greatest]) in [(1, [0, 255]), (2, [-128, 127])] {
                let expected: Vec<u8> = both.iter().map(|&word| word.clamp(least, greatest) as u8).collect();
                assert_eq!(bytes(&output[index])[16 * group..][..16], expected);
            }
        }
        let sums: Vec<i16> = xw.iter().zip(&yw).map(|(&a, &b)| a.saturating_add(b)).collect();
        assert_eq!(words(&output[3]), sums);
        let both = || xb.iter().zip(&yb);
        assert_eq!(bytes(&output[4]), both().map(|(&a, &b)| a.max(b)).collect::<Vec<_>>());
        assert_eq!(bytes(&output[5]), both().map(|(&a, &b)| (a as i8).max(b as i8) as u8).collect::<Vec<_>>());
        let stored = bytes(&output[6]);
        let expected: Vec<u8> = x[..5].iter().map(|&lane| lane as u8).collect();
        assert_eq!(stored[3..8], expected);
        let others = stored[..3].iter().chain(&stored[8..]);
        assert!(others.into_iter().all(|&byte| byte == UNTOUCHED as u8), "bytes beside them were written");
    }
}

#[test]
fn two_rows_of_lanes_are_joined_to_bytes() {
    for [a, b, c, d, scratch] in [[0, 1, 2, 3, 4], [15, 8, 1, 9, 0]].map(|all: [u8; 5]| all.map(Vreg)) {
        let code = kernel(Isa::Avx2, |asm| {
            for (at, register) in [a, b, c, d].into_iter().enumerate() {
                asm.vload(register, vector(INPUT, at));
            }
            let second = JoinedRow { to: vector(OUTPUT, 1).plus(3), lanes: [c, d] };
            let first = JoinedRow { to: vector(OUTPUT, 0).plus(1), lanes: [a, b] };
            asm.vstore_u8_joined(first, Some(second), scratch);
            asm.vload(a, vector(INPUT, 0));
            asm.vload(b, vector(INPUT, 1));
            asm.vstore_u8_joined(JoinedRow { to: vector(OUTPUT, 2), lanes: [a, b] }, None, scratch);
        });
        for [x, y, z] in operands() {
            let inputs = [x, y, z, x.map(|lane| lane >> 7)].map(|lanes| lanes.map(|lane| lane & 0xFF));
            let output = call(&code, &inputs, 3, &[]).vectors;
            let row = |a: usize| {
                let (a, b) = (&inputs[a], &inputs[a + 1]);
                let lanes = [&a[..8], &b[..8]].concat();
                lanes.into_iter().map(|lane| lane as u8).collect::<Vec<u8>>()
            };
            for ((at, first), expected) in [(0, 1), (1, 3), (2, 0)].into_iter().zip([row(0), row(2), row(0)]) {
                let stored: Vec<u8> = output[at].iter().flat_map(|lane| lane.to_le_bytes()).collect();
                assert_eq!(stored[first..first + 16], expected);
                let others = stored.iter().enumerate().filter(|(at, _)| !(first..first + 16).contains(at));
                assert!(others.into_iter().all(|(_, &byte)| byte == UNTOUCHED as u8), "bytes beside it were written");
            }
        }
    }
}
