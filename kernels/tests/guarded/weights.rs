//! Products by block-quantised weights.

use kiln_kernels::cpu::blockwise::{
    Ahead, BlockFormat, BlockProduct, BlockProductBlocks, BlockProductShape, BlockSource, CodeBytes, Codes,
    LeftElements, Offsets, Products, ZeroPoints,
};
use kiln_kernels::{EmitEach, Extensions, Isa, reference};

use super::draw::Draw;
use super::page::Guarded;
use super::{InTurn, close};

/// Codes are whole numbers, and scales powers of two: sums are exact. Sums with FP4 and NF4 are not exact, and have a
/// bound.
pub(crate) fn blockwise(draw: &mut Draw<'_>, isa: Isa) {
    let codes = draw.of(&[Codes::Int4, Codes::Int8, Codes::Int2, Codes::Nf4, Codes::Fp4]);
    let zeros = draw.of(&[ZeroPoints::Middle, ZeroPoints::Bytes, ZeroPoints::F32]);
    let zeros = if codes.are_integers() { zeros } else { ZeroPoints::Middle };
    let format = BlockFormat { codes, zeros, block: draw.of(&[16, 32, 64, 128, 256]) };
    // Few rows and many, several panels side by side, and reductions longer than the part that is dequantised at a
    // time.
    let (m, n, k) = (draw.of(&[1, 1, 2, 3, 4, 5, 13, 32, 40]), draw.reach(130, 1600), draw.reach(100, 4200));
    let k = k.min((1 << 21) / (m * n)).max(1);
    let (threads, at_end, signed) = (draw.of(&[1, 2, 3, 64]), draw.flag(), draw.flag());
    let left = draw.of(&[LeftElements::Floats, LeftElements::Bytes]);
    let shape = BlockProductShape { m: m as u64, n: n as u64, k: k as u64, format, bias: draw.flag(), left };
    let blocks = k.div_ceil(format.block());
    let stride = blocks * format.block() * codes.bits() / 8;
    let bytes = draw.raw(n * stride.max(k));
    let packed = match draw.flag() {
        false => CodeBytes::Packed { bytes: &bytes[..n * stride], stride },
        true => CodeBytes::Apart { bytes: &bytes[..n * k], at: Offsets { inner: n, column: 1 } },
    };
    let scales: Vec<f32> = draw.integers(n * blocks).iter().map(|&exponent| exponent.exp2()).collect();
    let zero_bytes: Vec<u8> = draw.raw(n * blocks).iter().map(|zero| zero % codes.middle()).collect();
    let floats: Vec<f32> = draw.integers(n * blocks);
    let at = Offsets { inner: 1, column: blocks };
    let source = BlockSource { codes: packed, signed, scales: &scales, zero_bytes: &zero_bytes, zeros: &floats, at };
    let panels = shape.panels(isa);
    let mut weights = Guarded::blank(panels.bytes(), at_end);
    panels.pack(&source, &mut weights).unwrap();
    weights.open();
    let (left, bias) = (draw.integers(m * k), draw.integers(n));
    let numbers = reference::blockwise::weights(k, n, shape.format, &source);
    let mut want = reference::gemm::matmul(m, n, k, &left, &numbers);
    want.iter_mut().enumerate().for_each(|(at, sum)| *sum += if shape.bias { bias[at % n] } else { 0.0 });
    let picked = BlockProductBlocks::pick(isa, Extensions::default(), &shape, threads);
    let products = draw.of(&[Products::Fours, Products::Pairs, Products::Bf16Tiles]);
    let k_blocks = if draw.flag() { 1 } else { picked.k_blocks };
    let cut = |products| BlockProductBlocks { k_blocks, dots: picked.dots.map(|_| products), ..picked };
    let cut = if cut(products).fits(&shape, isa) { cut(products) } else { cut(Products::Pairs) };
    let product = BlockProduct::new(isa, shape, cut, Ahead::default(), &EmitEach).unwrap();
    let (left, bias) = (Guarded::of(&left, at_end), Guarded::of(&bias, at_end));
    let (mut scratch, mut c) = (Guarded::blank(product.scratch_len(), at_end), Guarded::blank(m * n, at_end));
    product.run(&left, &weights, shape.bias.then_some(&*bias), &mut c, &mut scratch, &InTurn(threads)).unwrap();
    scratch.open();
    // The error of terms of at most 4 times 256 times 16, if every sum were rounded. Rows of bytes are off by half a
    // step of 127 each, and integers of a few bits are exact in bf16.
    let off = k as f32 * 16384.0 * if cut.dots.is_some() { 1.0 / 254.0 } else { f32::EPSILON };
    close(c.open(), &want, |_| off, &|| format!("{isa} {cut:?} {shape:?}"));
}
