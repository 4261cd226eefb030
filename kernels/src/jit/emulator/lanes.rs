//! Vector instructions lane by lane, where Rust has no operator for them, and the shuffles.

/// A vector register: the bits of sixteen lanes.
pub(super) type Vector = [u32; 16];

/// `vmaxps`: the second operand unless the first is greater.
#[inline(always)]
pub(super) fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// `vminps`: the second operand unless the first is less.
#[inline(always)]
pub(super) fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// `vcvtps2dq`: to nearest even, `i32::MIN` outside the range of `i32`.
#[inline(always)]
pub(super) fn to_i32(x: f32) -> u32 {
    let rounded = x.round_ties_even();
    // 2^31 is an f32; every f32 below it down to -2^31 has an i32.
    if (-2_147_483_648.0..2_147_483_648.0).contains(&rounded) { rounded as i32 as u32 } else { 0x8000_0000 }
}

/// `vroundps` and `vrndscaleps` with a scale of 1: the two low bits are the mode.
pub(super) fn round(x: f32, imm: i64) -> f32 {
    match imm & 0b1111_0111 {
        0 => x.round_ties_even(),
        1 => x.floor(),
        2 => x.ceil(),
        3 => x.trunc(),
        other => panic!("emulator: rounding mode {other}"),
    }
}

/// `vscalefps`: x * 2^floor(n), rounded once. An f64 holds every intermediate value, since beyond n = 600 the result
/// does not depend on x.
pub(super) fn scale(x: f32, n: f32) -> f32 {
    let power = if n.is_finite() { n.floor().clamp(-600.0, 600.0) } else { n };
    (f64::from(x) * f64::from(power).exp2()) as f32
}

/// `vcmpps`: the predicates that the assembler uses.
#[inline(always)]
pub(super) fn compare(a: f32, b: f32, predicate: i64) -> bool {
    match predicate {
        0x00 => a == b,
        0x03 => a.is_nan() || b.is_nan(),
        0x04 => a != b,
        0x11 => a < b,
        0x12 => a <= b,
        0x1D => a >= b,
        0x1E => a > b,
        other => panic!("emulator: predicate {other:#x}"),
    }
}

/// `vpslld` and `vpsrld`: zero from 32 bits on.
#[inline(always)]
pub(super) fn shift_left(x: u32, bits: i64) -> u32 {
    if bits & 0xFF < 32 { x << (bits & 31) } else { 0 }
}

#[inline(always)]
pub(super) fn shift_right(x: u32, bits: i64) -> u32 {
    if bits & 0xFF < 32 { x >> (bits & 31) } else { 0 }
}

/// `vpsrad`: the sign in every bit from 32 bits on.
#[inline(always)]
pub(super) fn shift_right_signed(x: u32, bits: i64) -> u32 {
    (x as i32 >> (bits & 0xFF).min(31)) as u32
}

/// An `f32` as an operand of the `bf16` instructions: denormals are zeros of their sign.
#[inline(always)]
pub(super) fn flushed(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7F80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// `vdpbf16ps`: d plus the product of the upper elements, then plus the product of the lower ones, each a fused
/// multiply-add that rounds to nearest even and flushes denormals.
#[inline(always)]
pub(super) fn dot_bf16(d: u32, a: u32, b: u32) -> u32 {
    let upper = |bits: u32| flushed(f32::from_bits(bits & 0xFFFF_0000));
    let lower = |bits: u32| flushed(f32::from_bits(bits << 16));
    let sum = flushed(upper(a).mul_add(upper(b), flushed(f32::from_bits(d))));
    flushed(lower(a).mul_add(lower(b), sum)).to_bits()
}

/// `vcvtph2ps`: exact, a NaN becomes a quiet one.
pub(super) fn widened_f16(bits: u16) -> u32 {
    let quiet = if half::f16::from_bits(bits).is_nan() { 0x200 } else { 0 };
    half::f16::from_bits(bits | quiet).to_f32().to_bits()
}

/// One `f32` as `vcvtne2ps2bf16` rounds it: to nearest even, denormals to zero, a NaN to a quiet one.
fn round_bf16(x: u32) -> u32 {
    let value = f32::from_bits(x);
    match () {
        () if value.is_nan() => x >> 16 | 0x40,
        () if value.is_subnormal() => x >> 16 & 0x8000,
        () => (x + 0x7FFF + (x >> 16 & 1)) >> 16,
    }
}

/// `vcvtne2ps2bf16`: the second source into the lower half, the first into the upper.
pub(super) fn round_bf16_pairs(a: &Vector, b: &Vector) -> Vector {
    std::array::from_fn(|lane| {
        let from = if lane < 8 { &b[2 * lane..] } else { &a[2 * lane - 16..] };
        round_bf16(from[1]) << 16 | round_bf16(from[0])
    })
}

/// Two 16-bit integers as one lane.
pub(super) fn words(low: i16, high: i16) -> u32 {
    u32::from(low as u16) | u32::from(high as u16) << 16
}

/// `vpmaddwd`: wraps in the one case that does not fit 32 bits, four times -32768.
#[inline(always)]
pub(super) fn mul_pairs(a: u32, b: u32) -> u32 {
    let product = |shift: u32| i32::from((a >> shift) as i16) * i32::from((b >> shift) as i16);
    product(0).wrapping_add(product(16)) as u32
}

/// `vpmaddubsw` of a lane: unsigned bytes of a, signed bytes of b; a sum that does not fit 16 bits saturates.
#[inline(always)]
pub(super) fn mul_bytes(a: u32, b: u32) -> u32 {
    let product = |at: u32| i32::from((a >> at) as u8) * i32::from((b >> at) as i8);
    let sum = |at: u32| (product(at) + product(at + 8)).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    words(sum(0), sum(16))
}

/// `vpdpbusd`: unsigned bytes of a, signed bytes of b.
#[inline(always)]
pub(super) fn dot_bytes(sum: u32, a: u32, b: u32) -> u32 {
    let product = |byte: usize| i32::from(a.to_le_bytes()[byte]) * i32::from(b.to_le_bytes()[byte] as i8);
    sum.wrapping_add((0..4).map(product).sum::<i32>() as u32)
}

/// `vpackssdw`: in each group the lanes of a, then of b, as 16-bit integers.
pub(super) fn pack_words(a: &Vector, b: &Vector) -> Vector {
    let short = |lane: u32| (lane as i32).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    within_pairs(a, b, |low, high| words(short(low), short(high)))
}

/// `vpackuswb`: in each group the 16-bit integers of a, then of b, as unsigned bytes.
pub(super) fn pack_bytes(a: &Vector, b: &Vector) -> Vector {
    packed_words(a, b, |word| word.clamp(0, 255) as u8)
}

/// `vpacksswb`: as `vpackuswb`, as signed bytes.
pub(super) fn pack_signed_bytes(a: &Vector, b: &Vector) -> Vector {
    packed_words(a, b, |word| word.clamp(-128, 127) as u8)
}

/// `vpaddw` of a lane.
#[inline(always)]
pub(super) fn add_words(a: u32, b: u32) -> u32 {
    let half = |at: u32| ((a >> at) as i16).wrapping_add((b >> at) as i16);
    words(half(0), half(16))
}

/// `vpaddsw` of a lane.
pub(super) fn add_words_saturated(a: u32, b: u32) -> u32 {
    let half = |at: u32| ((a >> at) as i16).saturating_add((b >> at) as i16);
    words(half(0), half(16))
}

/// `vpaddsb` of a lane.
pub(super) fn add_bytes_saturated(a: u32, b: u32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|at| (a[at] as i8).saturating_add(b[at] as i8) as u8))
}

/// `vpmaxub` of a lane; `vpmaxsb` where `flip` adds 128 to each byte first.
pub(super) fn larger_bytes(a: u32, b: u32, flip: u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|at| (a[at] ^ flip).max(b[at] ^ flip) ^ flip))
}

fn packed_words(a: &Vector, b: &Vector, byte: impl Fn(i16) -> u8) -> Vector {
    let byte = |word: u32| u32::from(byte(word as i16));
    let bytes = |lane: u32| byte(lane) | byte(lane >> 16) << 8;
    within_pairs(a, b, |low, high| bytes(low) | bytes(high) << 16)
}

/// In each group: `join` of the two pairs of a's lanes, then of b's.
fn within_pairs(a: &Vector, b: &Vector, join: impl Fn(u32, u32) -> u32) -> Vector {
    std::array::from_fn(|lane| {
        let (group, at) = (lane & !3, lane & 3);
        let from = if at < 2 { a } else { b };
        join(from[group + at % 2 * 2], from[group + at % 2 * 2 + 1])
    })
}

/// Within each group of four lanes, `pick(i)` is the index of lane i: 0-3 are lanes of a's group, 4-7 of b's.
pub(super) fn within_groups(a: &Vector, b: &Vector, pick: impl Fn(usize) -> usize) -> Vector {
    std::array::from_fn(|lane| {
        let (group, from) = (lane & !3, pick(lane & 3));
        if from < 4 { a[group + from] } else { b[group + from - 4] }
    })
}

/// `vpermilps`
pub(super) fn permute(x: &Vector, imm: i64) -> Vector {
    within_groups(x, x, |lane| imm as usize >> (2 * lane) & 3)
}

/// `vperm2f128`: each half from (a low, a high, b low, b high), or zero.
pub(super) fn permute_halves(a: &Vector, b: &Vector, imm: i64) -> Vector {
    let mut out = [0; 16];
    for half in 0..2 {
        let control = imm as usize >> (4 * half) & 15;
        if control & 8 == 0 {
            let from = if control & 2 == 0 { a } else { b };
            out[4 * half..][..4].copy_from_slice(&from[4 * (control & 1)..][..4]);
        }
    }
    out
}

/// `vpermw`: the 16-bit elements of b at the indices in a.
pub(super) fn permute_words(a: &Vector, b: &Vector) -> Vector {
    let word = |at: u32| b[at as usize / 2 % 16] >> (at % 2 * 16) & 0xFFFF;
    std::array::from_fn(|lane| word(a[lane] & 31) | word(a[lane] >> 16 & 31) << 16)
}

/// `vpermi2b`: the bytes of a, then b, at the indices in `at`.
pub(super) fn permute_bytes(at: &Vector, a: &Vector, b: &Vector) -> Vector {
    let byte = |at: usize| (if at < 64 { a } else { b })[at % 64 / 4] >> (at % 4 * 8) & 0xFF;
    at.map(|indices| (0..4).fold(0, |all, place| all | byte((indices >> (8 * place) & 127) as usize) << (8 * place)))
}

/// `vpshufb`: the bytes of a's group at the lowest four bits of the bytes of b, or 0 where the highest bit is set.
pub(super) fn shuffle_bytes(a: &Vector, b: &Vector) -> Vector {
    std::array::from_fn(|lane| {
        let byte = |index: u8| a[lane & !3 | usize::from(index >> 2 & 3)].to_le_bytes()[usize::from(index & 3)];
        u32::from_le_bytes(b[lane].to_le_bytes().map(|index| if index < 128 { byte(index) } else { 0 }))
    })
}

/// `vpermps` of vectors of `lanes` lanes: the elements of b at the indices in a.
pub(super) fn permute_lanes(a: &Vector, b: &Vector, lanes: usize) -> Vector {
    std::array::from_fn(|lane| b[a[lane] as usize % lanes])
}

/// `vshuff32x4`: two groups of a, then two of b.
pub(super) fn shuffle_groups(a: &Vector, b: &Vector, imm: i64) -> Vector {
    let mut out = [0; 16];
    for group in 0..4 {
        let from = if group < 2 { a } else { b };
        let control = imm as usize >> (2 * group) & 3;
        out[4 * group..][..4].copy_from_slice(&from[4 * control..][..4]);
    }
    out
}
