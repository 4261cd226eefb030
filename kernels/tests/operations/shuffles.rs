//! Operations between lanes: reductions and permutations.

use kiln_kernels::jit::{Asm, Code, Gpr, Mem, Vreg, verify};
use kiln_kernels::{Extension, Isa};

use super::harness::{INPUT, LEVELS, OUTPUT, Random, Vector, agree, call, kernel, vector};

type Reduce = fn(&mut Asm, Vreg, Vreg, Vreg);
type Fold = fn(f32, f32) -> f32;

const REDUCTIONS: [(&str, Reduce, Fold); 6] = [
    ("add", Asm::vreduce_add, |a, b| a + b),
    ("mul", Asm::vreduce_mul, |a, b| a * b),
    ("max", Asm::vreduce_max, f32::max),
    ("min", Asm::vreduce_min, f32::min),
    ("imin", Asm::vreduce_imin, |a, b| f32::from_bits((a.to_bits() as i32).min(b.to_bits() as i32) as u32)),
    ("imax", Asm::vreduce_imax, |a, b| f32::from_bits((a.to_bits() as i32).max(b.to_bits() as i32) as u32)),
];

#[test]
fn reductions_leave_the_result_in_every_lane() {
    for isa in LEVELS {
        for (name, reduce, fold) in REDUCTIONS {
            for [d, s, scratch] in [[0, 1, 2], [3, 3, 4], [isa.registers() - 1, 9, 8]] {
                let code = kernel(isa, |asm| {
                    asm.vload(Vreg(s), vector(INPUT, 0));
                    reduce(asm, Vreg(d), Vreg(s), Vreg(scratch));
                    asm.vstore(vector(OUTPUT, 0), Vreg(d));
                });
                for seed in 0..32u32 {
                    // Powers of two of both signs, so that sums and products are exact in any order.
                    let lane = |lane: u32| {
                        let bits = (seed + 1).wrapping_mul(0x9E37_79B9).rotate_left(lane * 5);
                        (if bits & 1 == 0 { 1.0f32 } else { -1.0 }) * (1 << (bits >> 1 & 7)) as f32
                    };
                    let input: Vector = std::array::from_fn(|at| lane(at as u32).to_bits());
                    let output = call(&code, &[input], 1, &[]).vectors[0];
                    let expected = input[..isa.lanes()].iter().copied().map(f32::from_bits).reduce(fold).unwrap();
                    assert!(
                        agree(&output[..isa.lanes()], &[expected.to_bits(); 16][..isa.lanes()]),
                        "{isa} {name} of {input:x?}: {output:x?}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn extremes_of_nan_and_zeros_are_the_same_in_every_lane() {
    for isa in LEVELS {
        for (name, reduce, _) in &REDUCTIONS[2..] {
            let code = kernel(isa, |asm| {
                asm.vload(Vreg(1), vector(INPUT, 0));
                reduce(asm, Vreg(0), Vreg(1), Vreg(2));
                asm.vstore(vector(OUTPUT, 0), Vreg(0));
            });
            for at in 0..isa.lanes() {
                for odd in [f32::NAN, -0.0] {
                    let mut input = [0u32; 16];
                    input[at] = odd.to_bits();
                    let output = call(&code, &[input], 1, &[]).vectors[0];
                    assert!(output[..isa.lanes()].iter().all(|lane| *lane == output[0]), "{isa} {name} {output:x?}");
                }
            }
        }
    }
}

type Permute = fn(&mut Asm, Vreg, Vreg, Vreg);

/// The source of each element of a 128-bit group: 0-3 of a, 4-7 of b.
const UNPACKS: [(Permute, [usize; 4]); 4] = [
    (Asm::vunpack_lo_32, [0, 4, 1, 5]),
    (Asm::vunpack_hi_32, [2, 6, 3, 7]),
    (Asm::vunpack_lo_64, [0, 1, 4, 5]),
    (Asm::vunpack_hi_64, [2, 3, 6, 7]),
];

/// Runs a permutation of registers 1 and 2 into `dst`.
fn permuted(isa: Isa, dst: u8, [a, b]: [Vector; 2], permute: impl Fn(&mut Asm, Vreg, Vreg, Vreg)) -> Vector {
    let code = kernel(isa, |asm| {
        asm.vload(Vreg(1), vector(INPUT, 0));
        asm.vload(Vreg(2), vector(INPUT, 1));
        permute(asm, Vreg(dst), Vreg(1), Vreg(2));
        asm.vstore(vector(OUTPUT, 0), Vreg(dst));
    });
    call(&code, &[a, b], 1, &[]).vectors[0]
}

#[test]
fn unpacking_interleaves_within_groups() {
    let mut random = Random(11);
    let (a, b) = (random.vector(), random.vector());
    for isa in LEVELS {
        for (unpack, picks) in UNPACKS {
            for dst in [0, 1, 2, isa.registers() - 1] {
                let output = permuted(isa, dst, [a, b], unpack);
                for (lane, got) in output.into_iter().enumerate().take(isa.lanes()) {
                    let (group, pick) = (lane & !3, picks[lane & 3]);
                    let expected = if pick < 4 { a[group + pick] } else { b[group + pick - 4] };
                    assert_eq!(got, expected, "{isa} {picks:?} lane {lane}");
                }
            }
        }
    }
}

#[test]
fn permuting_within_groups_and_between_them_by_every_immediate() {
    let mut random = Random(12);
    let (a, b) = (random.vector(), random.vector());
    for isa in LEVELS {
        for imm in 0..=255u8 {
            let select = |at: usize| usize::from(imm) >> (2 * at) & 3;
            let output = permuted(isa, 5, [a, b], |asm, d, x, _| asm.vpermute_32(d, x, imm));
            for lane in 0..isa.lanes() {
                assert_eq!(output[lane], a[(lane & !3) + select(lane & 3)], "{isa} vpermute_32 {imm:#x}");
            }
            let output = permuted(isa, 5, [a, b], |asm, d, x, y| asm.vshuffle_128(d, x, y, imm));
            for (lane, got) in output.into_iter().enumerate().take(isa.lanes()) {
                let (group, within) = (lane / 4, lane % 4);
                let expected = match isa {
                    Isa::Avx512 => (if group < 2 { a } else { b })[4 * select(group) + within],
                    _ => {
                        let control = usize::from(imm) >> (4 * group) & 15;
                        let from = if control & 2 == 0 { a } else { b };
                        if control & 8 != 0 { 0 } else { from[4 * (control & 1) + within] }
                    }
                };
                assert_eq!(got, expected, "{isa} vshuffle_128 {imm:#x}");
            }
        }
    }
}

#[test]
fn permuting_16_bit_elements_by_a_vector_of_numbers() {
    let mut random = Random(13);
    for dst in [0, 1, 2, 30] {
        let (order, from) = (random.vector(), random.vector());
        let output = permuted(Isa::Avx512, dst, [order, from], Asm::vpermute_16);
        let half = |vector: &Vector, at: usize| vector[at / 2] >> (at % 2 * 16) & 0xFFFF;
        for at in 0..32 {
            assert_eq!(half(&output, at), half(&from, half(&order, at) as usize & 31), "{dst}: element {at}");
        }
    }
}

#[test]
fn looking_up_lanes_of_a_table_by_the_lowest_bits_of_a_vector() {
    let mut random = Random(14);
    for isa in LEVELS {
        for dst in [0, 1, 2, isa.registers() - 1] {
            let (index, table) = (random.vector(), random.vector());
            let output = permuted(isa, dst, [index, table], Asm::vlookup);
            for lane in 0..isa.lanes() {
                assert_eq!(output[lane], table[index[lane] as usize % isa.lanes()], "{isa} {dst}: lane {lane}");
            }
        }
    }
}

#[test]
fn bytes_are_found_in_either_half_of_a_table_by_their_lowest_seven_bits() {
    for [at, low, high] in [[0, 1, 2], [31, 30, 17], [9, 31, 8]] {
        let mut asm = Asm::new(Isa::Avx512).unwrap();
        asm.prologue();
        asm.load(INPUT, Mem::at(Gpr::RDI, 0));
        asm.load(OUTPUT, Mem::at(Gpr::RDI, 8));
        asm.vload(Vreg(at), vector(INPUT, 0));
        asm.vload(Vreg(low), vector(INPUT, 1));
        asm.vload(Vreg(high), vector(INPUT, 2));
        asm.vlookup_bytes(Vreg(at), Vreg(low), Vreg(high));
        asm.vstore(vector(OUTPUT, 0), Vreg(at));
        asm.epilogue();
        let bytes = asm.finish("test").unwrap();
        verify::verify_extended(Isa::Avx512, Some(Extension::Vbmi), &bytes).unwrap();
        assert!(verify::verify(Isa::Avx512, &bytes).is_err(), "the level alone lacks it");
        let code = Code::seal_extended(Isa::Avx512, Extension::Vbmi, "test", &bytes).unwrap();
        let mut random = Random(5);
        for _ in 0..32 {
            let input: [Vector; 3] = std::array::from_fn(|_| std::array::from_fn(|_| random.next() as u32));
            let bytes = |vector: &Vector| vector.iter().flat_map(|lane| lane.to_le_bytes()).collect::<Vec<u8>>();
            let table = [bytes(&input[1]), bytes(&input[2])].concat();
            let expected: Vec<u8> = bytes(&input[0]).iter().map(|&at| table[usize::from(at & 127)]).collect();
            assert_eq!(bytes(&call(&code, &input, 1, &[]).vectors[0]), expected);
        }
    }
}

#[test]
fn bytes_are_found_in_a_piece_of_a_table_or_are_zero() {
    let mut random = Random(15);
    for isa in LEVELS {
        for dst in [0, 1, 2, isa.registers() - 1] {
            for _ in 0..32 {
                let (table, index) = (random.vector(), random.vector());
                let bytes = |vector: &[u32]| vector.iter().flat_map(|lane| lane.to_le_bytes()).collect::<Vec<u8>>();
                let (tables, indices) = (bytes(&table), bytes(&index));
                let output = bytes(&permuted(isa, dst, [table, index], Asm::vshuffle_bytes));
                for at in 0..4 * isa.lanes() {
                    let index = usize::from(indices[at]);
                    let expected = if index < 128 { tables[at & !15 | index & 15] } else { 0 };
                    assert_eq!(output[at], expected, "{isa} {dst}: byte {at}");
                }
                let output = bytes(&permuted(isa, dst, [table, index], Asm::vadd_bytes_saturated));
                for at in 0..4 * isa.lanes() {
                    let expected = (tables[at] as i8).saturating_add(indices[at] as i8) as u8;
                    assert_eq!(output[at], expected, "{isa} {dst}: byte {at}");
                }
            }
        }
    }
}

#[test]
fn sixteen_bytes_of_memory_fill_every_group() {
    let mut random = Random(16);
    for isa in LEVELS {
        for dst in [0, 9, isa.registers() - 1] {
            let from = random.vector();
            let place = vector(INPUT, 0).plus(12);
            let output = permuted(isa, dst, [from, from], |asm, d, _, _| asm.vbroadcast_group(d, place));
            for lane in 0..isa.lanes() {
                assert_eq!(output[lane], from[3 + lane % 4], "{isa} {dst}: lane {lane}");
            }
        }
    }
}
