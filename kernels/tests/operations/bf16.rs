//! Operations on pairs of bf16, which only AVX-512 has, and only beside an extension.

use kiln_kernels::jit::{Asm, Code, Gpr, Mem, Vreg, verify};
use kiln_kernels::{Extension, Isa};

use super::harness::{INPUT, OUTPUT, Random, Vector, agree, call, corners, vector};

fn kernel(emit: impl FnOnce(&mut Asm)) -> Code {
    let mut asm = Asm::new(Isa::Avx512).unwrap();
    asm.prologue();
    asm.load(INPUT, Mem::at(Gpr::RDI, 0));
    asm.load(OUTPUT, Mem::at(Gpr::RDI, 8));
    emit(&mut asm);
    asm.epilogue();
    let bytes = asm.finish("test").unwrap();
    verify::verify_extended(Isa::Avx512, Some(Extension::Bf16), &bytes).unwrap();
    assert!(verify::verify(Isa::Avx512, &bytes).is_err(), "the level alone lacks them");
    Code::seal_extended(Isa::Avx512, Extension::Bf16, "test", &bytes).unwrap()
}

/// Nearest bf16, ties to even, found by comparing the two neighbours in double precision.
fn nearest(x: f32) -> u32 {
    let truncated = x.to_bits() >> 16;
    if x.is_nan() {
        return truncated | 0x40;
    }
    if x.is_subnormal() {
        return truncated & 0x8000;
    }
    if x.is_infinite() {
        return truncated;
    }
    // One past the largest bf16 is infinity's pattern; it counts as 2^128 in distances.
    let widened = |half: u32| match f64::from(f32::from_bits(half << 16)) {
        infinite if infinite.is_infinite() => 128f64.exp2().copysign(infinite),
        finite => finite,
    };
    let (below, above) = (f64::from(x) - widened(truncated), widened(truncated + 1) - f64::from(x));
    let up = above.abs() < below.abs() || (above.abs() == below.abs() && truncated & 1 == 1);
    truncated + u32::from(up)
}

#[test]
fn rounding_is_to_nearest_even_with_denormals_to_zero() {
    let code = kernel(|asm| {
        asm.vload(Vreg(17), vector(INPUT, 0));
        asm.vround_bf16(Vreg(30), Vreg(17), vector(INPUT, 1));
        asm.vstore(vector(OUTPUT, 0), Vreg(30));
    });
    let mut random = Random(7);
    let mut inputs: Vec<Vector> = (0..400).map(|_| random.vector()).collect();
    let corners: Vec<u32> = corners().into_iter().map(f32::to_bits).collect();
    inputs.extend(corners.chunks_exact(16).map(|chunk| Vector::try_from(chunk).unwrap()));
    // Ties, both ways, and numbers that round to infinity.
    let ties = [0x3F80_8000, 0x3F81_8000, 0x3F80_7FFF, 0x3F80_8001, 0x7F7F_8000, 0x7F7F_7FFF, 0xFF7F_FFFF, 0x8080_8000];
    inputs.push(std::array::from_fn(|lane| ties[lane % 8]));
    inputs.push(random.vector());
    for pair in inputs.chunks_exact(2) {
        let found = call(&code, pair, 1, &[]).vectors[0];
        for lane in 0..16 {
            let from = if lane < 8 { &pair[1][2 * lane..] } else { &pair[0][2 * lane - 16..] };
            let [low, high] = [from[0], from[1]].map(|bits| nearest(f32::from_bits(bits)));
            assert_eq!(found[lane], high << 16 | low, "{:x?}", &from[..2]);
        }
    }
}

#[test]
fn halves_are_loaded_exactly_and_stored_rounded() {
    let code = kernel(|asm| {
        let mask = asm.mask(3, Vreg(29));
        asm.mov_imm(Gpr::RAX, 5);
        asm.mask_first(mask, Gpr::RAX, Gpr::RCX);
        asm.vload_bf16(Vreg(20), vector(INPUT, 0).plus(2));
        asm.vstore(vector(OUTPUT, 0), Vreg(20));
        asm.vload_bf16_masked(Vreg(21), mask, vector(INPUT, 0));
        asm.vstore(vector(OUTPUT, 1), Vreg(21));
        asm.vload(Vreg(22), vector(INPUT, 1));
        asm.vzero(Vreg(23));
        for output in [2, 3] {
            asm.vstore(vector(OUTPUT, output), Vreg(23));
        }
        asm.vstore_bf16(vector(OUTPUT, 2).plus(2), Vreg(22), Vreg(24));
        asm.vstore_bf16_masked(vector(OUTPUT, 3).plus(2), mask, Vreg(22), Vreg(22));
    });
    let mut random = Random(11);
    for _ in 0..50 {
        let inputs = [random.vector(), random.vector()];
        let found = call(&code, &inputs, 4, &[]).vectors;
        let half = |vector: &Vector, index: usize| vector[index / 2] >> (16 * (index % 2)) & 0xFFFF;
        for lane in 0..16 {
            assert_eq!(found[0][lane], half(&inputs[0], lane + 1) << 16);
            assert_eq!(found[1][lane], if lane < 5 { half(&inputs[0], lane) << 16 } else { 0 });
            let rounded = nearest(f32::from_bits(inputs[1][lane]));
            assert_eq!(half(&found[2], lane + 1), rounded);
            assert_eq!(half(&found[3], lane + 1), if lane < 5 { rounded } else { 0 });
        }
        assert_eq!([half(&found[2], 0), half(&found[2], 17), half(&found[3], 0)], [0; 3], "beside them");
    }
}

#[test]
fn sums_of_pairs_are_two_fused_additions() {
    let code = kernel(|asm| {
        asm.vload(Vreg(3), vector(INPUT, 0));
        asm.vload(Vreg(20), vector(INPUT, 1));
        asm.vdot_bf16(Vreg(3), Vreg(20), vector(INPUT, 2));
        asm.vstore(vector(OUTPUT, 0), Vreg(3));
    });
    let mut random = Random(11);
    let flush = |x: f32| if x.is_subnormal() { 0.0f32.copysign(x) } else { x };
    for _ in 0..300 {
        let inputs: [Vector; 3] = std::array::from_fn(|_| random.vector());
        let found = call(&code, &inputs, 1, &[]).vectors[0];
        let expected: Vector = std::array::from_fn(|lane| {
            let [mut sum, a, b] = inputs.map(|vector| vector[lane]);
            for [x, y] in [[a, b].map(|bits| bits & 0xFFFF_0000), [a, b].map(|bits| bits << 16)] {
                let [x, y, z] = [x, y, sum].map(|bits| flush(f32::from_bits(bits)));
                sum = flush(x.mul_add(y, z)).to_bits();
            }
            sum
        });
        assert!(agree(&found, &expected), "{found:x?} {expected:x?}");
    }
}

#[test]
fn other_levels_refuse_them() {
    let mut asm = Asm::new(Isa::Avx2).unwrap();
    asm.vdot_bf16(Vreg(0), Vreg(1), Vreg(2));
    assert!(asm.finish("test").is_err());
}
