//! Operations that work on each lane alone, as a table of their effect on one lane.

use kiln_kernels::Isa;
use kiln_kernels::jit::{Asm, Predicate, Rounding, Src, Vreg};

use super::harness::{INPUT, LEVELS, OUTPUT, Random, Vector, agree, call, corners, kernel, vector};

/// dst = f(dst, a, b) on one lane, as bits.
struct Row {
    name: &'static str,
    emit: fn(&mut Asm, Vreg, Vreg, Src),
    lane: fn(f32, f32, f32) -> f32,
}

fn bits(a: f32, b: f32, f: fn(u32, u32) -> u32) -> f32 {
    f32::from_bits(f(a.to_bits(), b.to_bits()))
}

/// Operations on two or three operands; the last may be a register, memory or a constant.
#[rustfmt::skip]
const WITH_SOURCE: &[Row] = &[
    Row { name: "vadd", emit: |asm, d, a, b| asm.vadd(d, a, b), lane: |_, a, b| a + b },
    Row { name: "vsub", emit: |asm, d, a, b| asm.vsub(d, a, b), lane: |_, a, b| a - b },
    Row { name: "vmul", emit: |asm, d, a, b| asm.vmul(d, a, b), lane: |_, a, b| a * b },
    Row { name: "vdiv", emit: |asm, d, a, b| asm.vdiv(d, a, b), lane: |_, a, b| a / b },
    Row { name: "vmax", emit: |asm, d, a, b| asm.vmax(d, a, b), lane: |_, a, b| if a > b { a } else { b } },
    Row { name: "vmin", emit: |asm, d, a, b| asm.vmin(d, a, b), lane: |_, a, b| if a < b { a } else { b } },
    Row { name: "vfma231", emit: |asm, d, a, b| asm.vfma231(d, a, b), lane: |d, a, b| a.mul_add(b, d) },
    Row { name: "vfma213", emit: |asm, d, a, b| asm.vfma213(d, a, b), lane: |d, a, b| d.mul_add(a, b) },
    Row { name: "vfnma231", emit: |asm, d, a, b| asm.vfnma231(d, a, b), lane: |d, a, b| (-a).mul_add(b, d) },
    Row { name: "vand", emit: |asm, d, a, b| asm.vand(d, a, b), lane: |_, a, b| bits(a, b, |a, b| a & b) },
    Row { name: "vor", emit: |asm, d, a, b| asm.vor(d, a, b), lane: |_, a, b| bits(a, b, |a, b| a | b) },
    Row { name: "vxor", emit: |asm, d, a, b| asm.vxor(d, a, b), lane: |_, a, b| bits(a, b, |a, b| a ^ b) },
    Row { name: "vandn", emit: |asm, d, a, b| asm.vandn(d, a, b), lane: |_, a, b| bits(a, b, |a, b| !a & b) },
    Row { name: "viadd", emit: |asm, d, a, b| asm.viadd(d, a, b), lane: |_, a, b| bits(a, b, u32::wrapping_add) },
    Row { name: "visub", emit: |asm, d, a, b| asm.visub(d, a, b), lane: |_, a, b| bits(a, b, u32::wrapping_sub) },
    Row {
        name: "vimin",
        emit: |asm, d, a, b| asm.vimin(d, a, b),
        lane: |_, a, b| bits(a, b, |a, b| (a as i32).min(b as i32) as u32),
    },
    Row {
        name: "vimax",
        emit: |asm, d, a, b| asm.vimax(d, a, b),
        lane: |_, a, b| bits(a, b, |a, b| (a as i32).max(b as i32) as u32),
    },
    Row { name: "vload", emit: |asm, d, _, b| asm.vload(d, b), lane: |_, _, b| b },
];

fn to_i32(x: f32) -> f32 {
    let rounded = x.round_ties_even();
    let fits = (-2f32.powi(31)..2f32.powi(31)).contains(&rounded);
    f32::from_bits(if fits { rounded as i32 } else { i32::MIN } as u32)
}

/// Operations on one register, which is `a`.
#[rustfmt::skip]
const WITH_REGISTER: &[Row] = &[
    Row { name: "vmov", emit: |asm, d, a, _| asm.vmov(d, a), lane: |_, a, _| a },
    Row { name: "vzero", emit: |asm, d, _, _| asm.vzero(d), lane: |_, _, _| 0.0 },
    Row { name: "vsqrt", emit: |asm, d, a, _| asm.vsqrt(d, a), lane: |_, a, _| a.sqrt() },
    Row { name: "vround nearest", emit: |asm, d, a, _| asm.vround(d, a, Rounding::NearestEven), lane: |_, a, _| a.round_ties_even() },
    Row { name: "vround down", emit: |asm, d, a, _| asm.vround(d, a, Rounding::Down), lane: |_, a, _| a.floor() },
    Row { name: "vround up", emit: |asm, d, a, _| asm.vround(d, a, Rounding::Up), lane: |_, a, _| a.ceil() },
    Row { name: "vround zero", emit: |asm, d, a, _| asm.vround(d, a, Rounding::Zero), lane: |_, a, _| a.trunc() },
    Row { name: "vcvt_i32", emit: |asm, d, a, _| asm.vcvt_i32(d, a), lane: |_, a, _| to_i32(a) },
    Row { name: "vcvt_f32", emit: |asm, d, a, _| asm.vcvt_f32(d, a), lane: |_, a, _| a.to_bits() as i32 as f32 },
    Row { name: "vishl 0", emit: |asm, d, a, _| asm.vishl(d, a, 0), lane: |_, a, _| a },
    Row { name: "vishl 23", emit: |asm, d, a, _| asm.vishl(d, a, 23), lane: |_, a, _| bits(a, a, |a, _| a << 23) },
    Row { name: "vishl 31", emit: |asm, d, a, _| asm.vishl(d, a, 31), lane: |_, a, _| bits(a, a, |a, _| a << 31) },
    Row { name: "vishl 32", emit: |asm, d, a, _| asm.vishl(d, a, 32), lane: |_, _, _| 0.0 },
    Row { name: "vishr 1", emit: |asm, d, a, _| asm.vishr(d, a, 1), lane: |_, a, _| bits(a, a, |a, _| a >> 1) },
    Row { name: "vishr 23", emit: |asm, d, a, _| asm.vishr(d, a, 23), lane: |_, a, _| bits(a, a, |a, _| a >> 23) },
    Row { name: "vishr 200", emit: |asm, d, a, _| asm.vishr(d, a, 200), lane: |_, _, _| 0.0 },
    Row { name: "visar 1", emit: |asm, d, a, _| asm.visar(d, a, 1), lane: |_, a, _| bits(a, a, |a, _| (a as i32 >> 1) as u32) },
    Row { name: "visar 77", emit: |asm, d, a, _| asm.visar(d, a, 77), lane: |_, a, _| bits(a, a, |a, _| (a as i32 >> 31) as u32) },
];

/// Registers for (dst, a, b): low ones, high ones, each pair the same, and all three the same.
fn registers(isa: Isa) -> Vec<[u8; 3]> {
    let mut all = vec![[0, 1, 2], [15, 8, 9], [3, 3, 4], [3, 4, 3], [5, 6, 6], [7, 7, 7], [12, 13, 5]];
    if isa == Isa::Avx512 {
        all.extend([[31, 16, 24], [2, 30, 17], [19, 4, 8], [20, 20, 20]]);
    }
    all
}

/// Vectors (dst, a, b): every pair of corners as a and b, then random bits.
fn operands() -> Vec<[Vector; 3]> {
    let corners = corners();
    let mut pairs = corners.iter().flat_map(|a| corners.iter().map(move |b| (*a, *b)));
    let mut random = Random(7);
    let mut all = Vec::new();
    loop {
        let mut three = [random.vector(), random.vector(), random.vector()];
        let mut filled = 0;
        for (lane, (a, b)) in pairs.by_ref().take(16).enumerate() {
            // Half of the time the addend is a corner, too.
            if lane % 2 == 0 {
                three[0][lane] = corners[(lane * 7 + all.len()) % corners.len()].to_bits();
            }
            three[1][lane] = a.to_bits();
            three[2][lane] = b.to_bits();
            filled += 1;
        }
        all.push(three);
        if filled == 0 && all.len() % 16 == 0 {
            return all;
        }
    }
}

/// Runs one row with the given last operand over vectors. Narrow levels do not see the second half of a vector: AVX2
/// gets the two halves in two calls.
fn check(isa: Isa, row: &Row, [d, a, b]: [u8; 3], source: Option<Src>, data: &[[Vector; 3]]) {
    let (vd, va, vb) = (Vreg(d), Vreg(a), Vreg(b));
    let code = kernel(isa, |asm| {
        asm.vload(vd, vector(INPUT, 0));
        asm.vload(va, vector(INPUT, 1));
        if source.is_none() {
            asm.vload(vb, vector(INPUT, 2));
        }
        (row.emit)(asm, vd, va, source.unwrap_or(Src::Reg(vb)));
        asm.vstore(vector(OUTPUT, 0), vd);
    });
    for three in data {
        for start in (0..16).step_by(isa.lanes()) {
            let mut input = *three;
            input.iter_mut().for_each(|vector| vector.rotate_left(start));
            let output = call(&code, &input, 1, &[]).vectors[0];
            // A register with two roles holds the value that was loaded last.
            let [mut dst, mut a_lanes, mut b_lanes] = input;
            match source {
                None => {
                    if a == b {
                        a_lanes = b_lanes;
                    }
                    if d == b {
                        dst = b_lanes;
                    } else if d == a {
                        dst = a_lanes;
                    }
                }
                Some(source) => {
                    if d == a {
                        dst = a_lanes;
                    }
                    if let Src::Const(value) = source {
                        b_lanes = [value; 16];
                    }
                }
            }
            let expected: Vec<u32> = (0..isa.lanes())
                .map(|lane| {
                    let [d, a, b] = [dst[lane], a_lanes[lane], b_lanes[lane]].map(f32::from_bits);
                    (row.lane)(d, a, b).to_bits()
                })
                .collect();
            assert!(
                agree(&output[..isa.lanes()], &expected),
                "{isa} {} d{d} a{a} b{b} {source:?}\n dst {dst:x?}\n a {a_lanes:x?}\n b {b_lanes:x?}\n got {output:x?}\n want {expected:x?}",
                row.name
            );
            if isa == Isa::Avx2 {
                assert_eq!(output[8..], [super::harness::UNTOUCHED; 8]);
            }
        }
    }
}

#[test]
fn operations_on_registers() {
    let data = operands();
    for isa in LEVELS {
        for row in WITH_SOURCE.iter().chain(WITH_REGISTER) {
            for registers in registers(isa) {
                check(isa, row, registers, None, &data);
            }
        }
    }
}

#[test]
fn operations_on_memory() {
    let data = operands();
    for isa in LEVELS {
        for row in WITH_SOURCE {
            for [d, a, _] in registers(isa) {
                check(isa, row, [d, a, 0], Some(Src::Mem(vector(INPUT, 2))), &data);
            }
        }
    }
}

#[test]
fn operations_on_constants() {
    let data = &operands()[..4];
    for isa in LEVELS {
        for row in WITH_SOURCE {
            for value in corners() {
                check(isa, row, [6, 1, 0], Some(Src::from(value)), data);
            }
        }
    }
}

#[test]
fn scaling_by_powers_of_two_rounds_once() {
    // From the numbers for which rounding once is promised, up to the largest.
    let xs = [1.0, 1.999_999_9, 0.75, -1.1, 1.234_567e-15, 3.4e38, 1e20, -7.7, 0.0, -0.0, f32::INFINITY, f32::NAN];
    for isa in LEVELS {
        for [d, x, n] in [[0, 1, 2], [1, 1, 2], [2, 1, 2], [9, 4, 4]] {
            let code = kernel(isa, |asm| {
                asm.vload(Vreg(x), vector(INPUT, 0));
                asm.vload(Vreg(n), vector(INPUT, 1));
                asm.vscale(Vreg(d), Vreg(x), Vreg(n), Vreg(5), Vreg(6));
                asm.vstore(vector(OUTPUT, 0), Vreg(d));
            });
            for power in -252..=252i32 {
                for chunk in xs.chunks(4) {
                    let value = |lane: usize| if x == n { power as f32 } else { chunk[lane % 4] };
                    let input = [std::array::from_fn(|lane| value(lane).to_bits()), [(power as f32).to_bits(); 16]];
                    let output = call(&code, &input, 1, &[]).vectors[0];
                    let expected: Vec<u32> = (0..isa.lanes())
                        .map(|lane| ((f64::from(value(lane)) * 2f64.powi(power)) as f32).to_bits())
                        .collect();
                    assert!(
                        agree(&output[..isa.lanes()], &expected),
                        "{isa} {input:x?} * 2^{power}: {output:x?}, not {expected:x?}"
                    );
                }
            }
        }
    }
}

type Holds = fn(f32, f32) -> bool;

const PREDICATES: [(Predicate, Holds); 7] = [
    (Predicate::Equal, |a, b| a == b),
    (Predicate::NotEqual, |a, b| a != b),
    (Predicate::Less, |a, b| a < b),
    (Predicate::LessEqual, |a, b| a <= b),
    (Predicate::Greater, |a, b| a > b),
    (Predicate::GreaterEqual, |a, b| a >= b),
    (Predicate::Unordered, |a, b| a.is_nan() || b.is_nan()),
];

#[test]
fn comparing_and_selecting() {
    for isa in LEVELS {
        for (predicate, holds) in PREDICATES {
            for source in [Src::Reg(Vreg(2)), Src::Mem(vector(INPUT, 2)), Src::from(1.5)] {
                for index in [0, 3, 6] {
                    let code = kernel(isa, |asm| {
                        (0..3).for_each(|v| asm.vload(Vreg(v), vector(INPUT, v as usize)));
                        let mask = asm.mask(index, Vreg(9));
                        asm.compare(mask, predicate, Vreg(1), source);
                        asm.select(Vreg(4), mask, Vreg(0), Vreg(1));
                        asm.mask_to_f32(Vreg(5), mask);
                        asm.vstore(vector(OUTPUT, 0), Vreg(4));
                        asm.vstore(vector(OUTPUT, 1), Vreg(5));
                    });
                    for [on, a, b] in operands() {
                        let output = call(&code, &[on, a, b], 2, &[]).vectors;
                        for lane in 0..isa.lanes() {
                            let right = match source {
                                Src::Const(bits) => bits,
                                _ => b[lane],
                            };
                            let hit = holds(f32::from_bits(a[lane]), f32::from_bits(right));
                            let case = format!("{isa} {predicate:?} {:x} {right:x}", a[lane]);
                            assert_eq!(output[0][lane], if hit { on[lane] } else { a[lane] }, "{case}");
                            assert_eq!(f32::from_bits(output[1][lane]), f32::from(u8::from(hit)), "{case}");
                        }
                    }
                }
            }
        }
    }
}
