//! Products against dequantised weights, over formats, sizes and ways of cutting.

use super::dots::Dots;
use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};
use crate::isa::{Extension, Extensions, Isa};
use crate::jit::interpreted;
use crate::parallel::{Parallel, Pool, Serial};
use crate::problem::description::count;
use crate::{EmitEach, reference};

/// The extensions of the tests' processors: emulated where this machine lacks them.
const VNNI: Extensions = Extensions::from_bits(1 << Extension::Vnni as u8 | 1 << Extension::AvxVnni as u8);

/// Each level that code is emitted for, with each way to multiply rows of bytes.
fn levels_of_bytes() -> Vec<(Isa, Products)> {
    let levels = levels().into_iter().filter(|isa| isa.is_jit());
    let all = levels.flat_map(|isa| [Products::Fours, Products::Pairs].map(|products| (isa, products)));
    all.filter(|&(isa, products)| products.usable(isa)).collect()
}

/// Bits that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Weights, and the rows that multiply them.
struct Case {
    shape: BlockProductShape,
    codes: Vec<u8>,
    scales: Vec<f32>,
    zero_bytes: Vec<u8>,
    zeros: Vec<f32>,
    left: Vec<f32>,
    bias: Vec<f32>,
}

impl Case {
    fn new(shape: BlockProductShape, seed: u64) -> Case {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let blocks = shape.k().div_ceil(shape.format.block()) * shape.n();
        let most = 2.0 * f32::from(shape.format.codes.middle());
        Case {
            shape,
            codes: random.bytes(shape.k().next_multiple_of(shape.format.block()) * shape.n()),
            scales: random.floats(blocks),
            zero_bytes: random.bytes(blocks).iter().map(|zero| zero % shape.format.codes.middle()).collect(),
            zeros: random.floats(blocks).iter().map(|zero| zero * most).collect(),
            left: random.floats(shape.m() * shape.k()),
            bias: random.floats(shape.n()),
        }
    }

    /// Codes of a byte each, by rows, or several a byte, by columns.
    fn source(&self, packed: bool, signed: bool) -> BlockSource<'_> {
        let (n, k, format) = (self.shape.n(), self.shape.k(), self.shape.format);
        let stride = k.next_multiple_of(format.block()) * format.codes.bits() / 8;
        let codes = match packed {
            true => CodeBytes::Packed { bytes: &self.codes[..stride * n], stride },
            false => CodeBytes::Apart { bytes: &self.codes[..k * n], at: Offsets { inner: n, column: 1 } },
        };
        let at = Offsets { inner: 1, column: k.div_ceil(format.block()) };
        let (scales, zero_bytes, zeros) = (&self.scales[..], &self.zero_bytes[..], &self.zeros[..]);
        BlockSource { codes, signed, scales, zero_bytes, zeros, at }
    }

    fn panels(&self, isa: Isa) -> BlockPanels {
        self.shape.panels(isa)
    }

    fn pack(&self, isa: Isa, source: &BlockSource<'_>) -> Vec<u8> {
        let mut packed = vec![0xFF; self.panels(isa).bytes()];
        self.panels(isa).pack(source, &mut packed).unwrap();
        packed
    }

    /// The product, and how far each element may be off: the rounding of terms and of their sums in any order.
    fn expected(&self, source: &BlockSource<'_>) -> Vec<(f32, f32)> {
        let (m, n, k) = (self.shape.m(), self.shape.n(), self.shape.k());
        let weights = reference::blockwise::weights(k, n, self.shape.format, source);
        let magnitudes = |values: &[f32]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
        let product = reference::gemm::matmul(m, n, k, &self.left, &weights);
        // Codes and zero points are multiplied apart.
        let most = 2.0 * f32::from(self.shape.format.codes.middle());
        let scales: f32 = self.scales.iter().fold(0.0, |most, scale| most.max(scale.abs()));
        let large = vec![most * scales; n * k];
        let bound = reference::gemm::matmul(m, n, k, &magnitudes(&self.left), &large);
        let bias = |column: usize| if self.shape.bias { self.bias[column] } else { 0.0 };
        let off = |bound: f32| (bound + 1.0) * f32::EPSILON * 4.0;
        product.iter().zip(bound).enumerate().map(|(at, (sum, bound))| (sum + bias(at % n), off(bound))).collect()
    }

    fn check(&self, isa: Isa, blocks: BlockProductBlocks, source: &BlockSource<'_>) {
        // Only a single row's code differs.
        let distances = if self.shape.m == 1 { vec![Ahead::Nothing, Ahead::Far] } else { vec![Ahead::default()] };
        distances.into_iter().for_each(|ahead| self.check_with(isa, blocks, ahead, source));
    }

    fn check_with(&self, isa: Isa, blocks: BlockProductBlocks, ahead: Ahead, source: &BlockSource<'_>) {
        let product = BlockProduct::new(isa, self.shape, blocks, ahead, &EmitEach).unwrap();
        let mut c = Canaried::new(self.shape.m() * self.shape.n());
        let mut scratch = vec![f32::NAN; product.scratch_len()];
        let packed = self.pack(isa, source);
        let bias = self.shape.bias.then_some(&self.bias[..]);
        let left = Poisoned::new(&self.left);
        product.run(left.inside(), &packed, bias, c.inside(), &mut scratch, &Scoped).unwrap();
        let found = c.open();
        for (at, (found, (wanted, off))) in found.iter().zip(self.expected(source)).enumerate() {
            let what = || format!("{isa} {:?} {blocks:?} at {at}: {found}, not {wanted}", self.shape);
            assert!((found - wanted).abs() <= off, "{}", what());
        }
    }
}

/// Every format with blocks of that length.
fn formats(block: u32) -> Vec<BlockFormat> {
    let integers = [Codes::Int2, Codes::Int4, Codes::Int8].into_iter();
    let all = integers.flat_map(|codes| {
        [ZeroPoints::Middle, ZeroPoints::Bytes, ZeroPoints::F32].map(|zeros| BlockFormat { codes, zeros, block })
    });
    all.chain([Codes::Nf4, Codes::Fp4].map(|codes| BlockFormat { codes, zeros: ZeroPoints::Middle, block })).collect()
}

#[test]
fn every_format_gives_the_product_of_the_dequantised_weights() {
    let mut seed = 0;
    for isa in levels() {
        for (block, k, n) in [(16, 48, 40), (32, 61, 7), (64, 200, 129), (256, 300, 33), (16, 5, 1)] {
            for format in formats(block) {
                for m in [1, 2, 5, 11] {
                    seed += 1;
                    let bias = seed % 2 == 0;
                    let shape = BlockProductShape { m, n, k, format, bias, left: LeftElements::Floats };
                    let case = Case::new(shape, seed);
                    let picked = BlockProductBlocks::pick(isa, VNNI, &shape, 2);
                    let blocks = match seed % 3 {
                        0 => BlockProductBlocks { k_blocks: 1, ..picked },
                        _ => picked,
                    };
                    case.check(isa, blocks, &case.source(seed % 5 < 3, seed % 4 < 2));
                }
            }
        }
    }
}

#[test]
fn panels_side_by_side_and_single_ones_make_one_row() {
    for isa in levels() {
        for n in [64, 128, 320, 448, 1000] {
            for format in [formats(32)[1], formats(32)[3], formats(32)[9]] {
                let shape = BlockProductShape { m: 1, n, k: 96, format, bias: true, left: LeftElements::Floats };
                // Four threads take panels from each other.
                for threads in [1, 3, 4] {
                    let case = Case::new(shape, n);
                    case.check(isa, BlockProductBlocks::pick(isa, VNNI, &shape, threads), &case.source(true, false));
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_numbers_among_many() {
    // Every code times a power of two: all sums are exact, so both ways give the same bits.
    for isa in levels() {
        for format in formats(32).into_iter().filter(|format| format.codes.are_integers()) {
            let of = |m: u64| {
                let shape = BlockProductShape { m, n: 70, k: 64, format, bias: false, left: LeftElements::Floats };
                let mut case = Case::new(shape, 9);
                case.scales.iter_mut().enumerate().for_each(|(at, scale)| *scale = [0.5, 1.0, 2.0][at % 3]);
                case.zeros.iter_mut().for_each(|zero| *zero = zero.round());
                case.left = (0..m as usize * 64).map(|at| ((at % 64) as f32 % 7.0) - 3.0).collect();
                let product = BlockProduct::new(
                    isa,
                    shape,
                    BlockProductBlocks::pick(isa, VNNI, &shape, 1),
                    Ahead::default(),
                    &EmitEach,
                )
                .unwrap();
                let (mut c, mut scratch) = (vec![0.0; m as usize * 70], vec![0.0; product.scratch_len()]);
                let packed = case.pack(isa, &case.source(true, false));
                product.run(&case.left, &packed, None, &mut c, &mut scratch, &Serial).unwrap();
                c
            };
            let (one, many) = (of(1), of(9));
            assert!(many.chunks_exact(70).all(|row| row == one), "{isa} {format:?}");
        }
    }
}

#[test]
fn threads_that_take_panels_from_each_other_give_the_bits_of_one_thread() {
    let pool = Pool::new(3, "panels").unwrap();
    for isa in levels() {
        for (m, left) in [(1, LeftElements::Floats), (1, LeftElements::Bytes), (2, LeftElements::Bytes)] {
            let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Bytes, block: 32 };
            // 44 panels of AVX-512 and a part of one.
            let shape = BlockProductShape { m, n: 1425, k: 96, format, bias: true, left };
            let case = Case::new(shape, 7);
            let packed = case.pack(isa, &case.source(true, false));
            let blocks = BlockProductBlocks::pick(isa, VNNI, &shape, 3);
            let product = BlockProduct::new(isa, shape, blocks, Ahead::default(), &EmitEach).unwrap();
            let run = |parallel: &dyn Parallel| {
                let (mut c, mut scratch) = (vec![0.0; m as usize * 1425], vec![0.0; product.scratch_len()]);
                product.run(&case.left, &packed, Some(&case.bias), &mut c, &mut scratch, parallel).unwrap();
                c
            };
            let alone = run(&Serial);
            // In later turns threads prefetch what they are about to read.
            assert!((0..20).all(|_| run(&pool) == alone), "{isa} {shape:?}");
        }
    }
}

/// The results of rows of bytes, operation by operation in the kernel's order.
fn of_bytes(case: &Case, source: &BlockSource<'_>) -> Vec<f32> {
    let BlockProductShape { format, bias, .. } = case.shape;
    let (m, n, k, block) = (case.shape.m(), case.shape.n(), case.shape.k(), format.block());
    let (bits, middle) = (format.codes.bits(), format.codes.middle());
    let code = |inner: usize, column: usize| {
        let CodeBytes::Packed { bytes, stride } = source.codes else { panic!("packed codes") };
        let code = bytes[column * stride + inner * bits / 8] >> (inner * bits % 8) & (u8::MAX >> (8 - bits));
        i32::from(if source.signed { code ^ middle } else { code })
    };
    let mut c = Vec::new();
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        let mut total = if bias { case.bias[column] } else { 0.0 };
        for (at, left) in case.left[row * k..][..k].chunks(block).enumerate() {
            let most = left.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
            let bytes: Vec<i32> = left.iter().map(|value| (value * inverse).round_ties_even() as i32).collect();
            let sum: i32 = bytes.iter().sum();
            let products = bytes.iter().enumerate().map(|(inner, byte)| byte * code(at * block + inner, column));
            let (products, place) = (products.sum::<i32>(), source.at.inner * at + source.at.column * column);
            let part = match format.zeros {
                ZeroPoints::Middle => (products - i32::from(middle) * sum) as f32,
                ZeroPoints::Bytes => (-f32::from(source.zero_bytes[place])).mul_add(sum as f32, products as f32),
                ZeroPoints::F32 => (-source.zeros[place]).mul_add(sum as f32, products as f32),
            };
            total = part.mul_add(most / 127.0 * source.scales[place], total);
        }
        c.push(total);
    }
    c
}

/// Rows of bytes of a case, on memory that is watched.
fn multiplied(case: &Case, isa: Isa, products: Products, threads: usize, source: &BlockSource<'_>) -> Vec<f32> {
    let shape = case.shape;
    let picked = BlockProductBlocks::pick(isa, Extensions::default(), &shape, threads);
    // Parts of the reduction on AMX are whole steps; every other case has parts as short as they can be.
    let k_blocks = match products {
        Products::Bf16Tiles if shape.n.is_multiple_of(2) => count(shape.panels(isa).blocks().clamp(1, 2)),
        Products::Bf16Tiles => count(shape.panels(isa).blocks()),
        Products::Fours | Products::Pairs => picked.k_blocks,
    };
    let blocks = BlockProductBlocks { dots: Some(products), k_blocks, ..picked };
    let product = BlockProduct::new(isa, shape, blocks, Ahead::default(), &EmitEach).unwrap();
    let mut c = Canaried::new(shape.m() * shape.n());
    let mut scratch = vec![f32::NAN; product.scratch_len()];
    let packed = case.pack(isa, source);
    let (left, bias) = (Poisoned::new(&case.left), shape.bias.then_some(&case.bias[..]));
    product.run(left.inside(), &packed, bias, c.inside(), &mut scratch, &Scoped).unwrap();
    c.open().to_vec()
}

#[test]
fn rows_of_bytes_have_the_bits_of_exact_sums_over_blocks() {
    let (mut compared, mut seed) = (0, 100);
    for (isa, products) in levels_of_bytes() {
        for (block, k, n) in [(16, 48, 40), (32, 61, 7), (64, 200, 300), (256, 300, 33), (32, 2000, 448), (128, 4, 64)]
        {
            for format in formats(block).into_iter().filter(|format| format.codes.are_integers()) {
                for m in [1, 3, 11, 2, 4, 8] {
                    seed += 1;
                    let shape = BlockProductShape { m, n, k, format, bias: seed % 2 == 0, left: LeftElements::Bytes };
                    let mut case = Case::new(shape, seed);
                    // A block of zeros, one with an outlier, and one whose bytes are all the largest there is.
                    for (at, value) in case.left.iter_mut().enumerate() {
                        match at / block as usize % 5 {
                            1 => *value = 0.0,
                            2 if at % block as usize == 3 => *value = 1e6,
                            3 => *value = if at % 3 == 0 { -2.5 } else { 2.5 },
                            _ => {}
                        }
                    }
                    let source = case.source(true, seed % 4 < 2);
                    let found = multiplied(&case, isa, products, 1 + seed as usize % 3, &source);
                    for (at, (found, wanted)) in found.iter().zip(of_bytes(&case, &source)).enumerate() {
                        let place = || format!("{isa} {products:?} {shape:?} at {at}: {found}, not {wanted}");
                        assert_eq!(found.to_bits(), wanted.to_bits(), "{}", place());
                    }
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 4 * 6 * 9 * 6, "{compared}");
}

/// Whether this machine, or the emulator, has AMX.
fn has_tiles() -> bool {
    levels().contains(&Isa::Avx512) && Products::Bf16Tiles.usable(Isa::Avx512)
}

/// The nearest `bf16`, as `f32`.
fn bf16(value: f32) -> f32 {
    half::bf16::from_f32(value).to_f32()
}

/// The product of rounded rows by rounded weights in exact arithmetic, and how far each element may be off: the
/// rounding of sums in any order.
fn of_bf16(case: &Case, source: &BlockSource<'_>) -> Vec<(f64, f64)> {
    let (m, n, k) = (case.shape.m(), case.shape.n(), case.shape.k());
    let weights = reference::blockwise::weights(k, n, case.shape.format, source);
    let sum = |row: usize, column: usize| {
        let bias = if case.shape.bias { f64::from(case.bias[column]) } else { 0.0 };
        (0..k).fold((bias, bias.abs()), |(sum, magnitude), inner| {
            let term = f64::from(bf16(case.left[row * k + inner])) * f64::from(bf16(weights[inner * n + column]));
            (sum + term, magnitude + term.abs())
        })
    };
    let off = |magnitude: f64| (magnitude + 1.0) * f64::from(f32::EPSILON) * 4.0;
    let all = (0..m).flat_map(|row| (0..n).map(move |column| sum(row, column)));
    all.map(|(sum, magnitude)| (sum, off(magnitude))).collect()
}

#[test]
fn tiles_multiply_rounded_rows_by_rounded_weights() {
    if !has_tiles() {
        return;
    }
    let (isa, mut seed) = (Isa::Avx512, 40);
    // Blocks of half a step, of steps, and of several; reductions in one part and in several; columns that end in a
    // panel, and more panels than are dequantised at a time.
    for (block, k, n) in [(16, 100, 20), (32, 333, 64), (48, 100, 31), (64, 128, 300), (128, 700, 90), (256, 2100, 61)]
    {
        for format in formats(block) {
            let left = if Dots::takes(&format) { LeftElements::Bytes } else { LeftElements::Bf16 };
            for (m, threads) in [(1u64, 1), (16, 2), (45, 3), (130, 1)] {
                seed += 1;
                let shape = BlockProductShape { m, n, k, format, bias: seed % 2 == 0, left };
                let case = Case::new(shape, seed);
                let source = case.source(true, seed % 4 < 2);
                let found = multiplied(&case, isa, Products::Bf16Tiles, threads, &source);
                for (at, (found, (wanted, off))) in found.iter().zip(of_bf16(&case, &source)).enumerate() {
                    let near = (f64::from(*found) - wanted).abs() <= off;
                    assert!(near, "{shape:?} at {at}: {found}, not {wanted} within {off}");
                }
            }
        }
    }
}

#[test]
fn tiles_have_the_same_numbers_in_the_emulator() {
    if !has_tiles() {
        return;
    }
    let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Bytes, block: 32 };
    let shape = BlockProductShape { m: 37, n: 90, k: 200, format, bias: true, left: LeftElements::Bytes };
    let case = Case::new(shape, 11);
    let source = case.source(true, false);
    let emulated = interpreted(|| multiplied(&case, Isa::Avx512, Products::Bf16Tiles, 1, &source));
    for (found, (wanted, off)) in emulated.iter().zip(of_bf16(&case, &source)) {
        assert!((f64::from(*found) - wanted).abs() <= off, "{found}, not {wanted} within {off}");
    }
}

#[test]
fn a_row_that_is_no_number_leaves_the_other_rows_of_its_tile_alone() {
    if !has_tiles() {
        return;
    }
    let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Middle, block: 32 };
    let shape = BlockProductShape { m: 20, n: 60, k: 96, format, bias: false, left: LeftElements::Bytes };
    let run = |case: &Case| multiplied(case, Isa::Avx512, Products::Bf16Tiles, 1, &case.source(true, false));
    let mut case = Case::new(shape, 3);
    let clean = run(&case);
    for value in [f32::NAN, f32::INFINITY, f32::MAX] {
        case.left[96 + 40] = value;
        let found = run(&case);
        assert_eq!(found[..60], clean[..60], "{value}");
        assert_eq!(found[120..], clean[120..], "{value}");
        assert!(found[60..120].iter().any(|number| !number.is_finite()), "{value}");
    }
}

#[test]
fn the_largest_codes_and_bytes_do_not_saturate() {
    for (isa, products) in levels_of_bytes() {
        let formats = [32, 64].into_iter().flat_map(formats);
        for format in formats.filter(|format| format.codes.are_integers()) {
            for (codes, byte) in [(0xFF, 1.0), (0xFF, -1.0), (0, -1.0)] {
                let shape = BlockProductShape { m: 3, n: 40, k: 128, format, bias: false, left: LeftElements::Bytes };
                let mut case = Case::new(shape, 5);
                case.codes.fill(codes);
                case.left.fill(byte);
                let source = case.source(true, false);
                let (native, emulated) = (
                    multiplied(&case, isa, products, 1, &source),
                    interpreted(|| multiplied(&case, isa, products, 1, &source)),
                );
                let expected = of_bytes(&case, &source);
                assert_eq!(native, expected, "{isa} {products:?} {format:?}");
                assert_eq!(emulated, expected, "{isa} {products:?} {format:?}, emulated");
            }
        }
    }
}

#[test]
fn rows_of_bytes_have_the_same_bits_in_the_emulator() {
    let mut seed = 0;
    for (isa, products) in levels_of_bytes() {
        for format in formats(32).into_iter().filter(|format| format.codes.are_integers()) {
            for (m, k, n) in [(1, 77, 70), (3, 200, 130)] {
                seed += 1;
                let bias = seed % 2 == 0;
                let shape = BlockProductShape { m, n, k, format, bias, left: LeftElements::Bytes };
                let case = Case::new(shape, seed);
                let source = case.source(true, false);
                let emulated = interpreted(|| multiplied(&case, isa, products, 1, &source));
                assert_eq!(emulated, of_bytes(&case, &source), "{isa} {products:?} {shape:?}");
            }
        }
    }
}

#[test]
fn numbers_that_are_none_stay_in_their_rows() {
    let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Middle, block: 32 };
    let shape = BlockProductShape { m: 3, n: 40, k: 96, format, bias: false, left: LeftElements::Bytes };
    for (isa, products) in levels_of_bytes() {
        let run = |case: &Case| multiplied(case, isa, products, 1, &case.source(true, false));
        let mut case = Case::new(shape, 3);
        let clean = run(&case);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE / 4.0] {
            case.left[96 + 40] = value;
            let found = run(&case);
            assert_eq!(found[..40], clean[..40], "{value}");
            assert_eq!(found[80..], clean[80..], "{value}");
        }
    }
}

#[test]
fn the_fastest_instructions_of_a_processor_multiply_bytes() {
    let format = |codes, block| BlockFormat { codes, zeros: ZeroPoints::Middle, block };
    let shape = |format| BlockProductShape { m: 2, n: 40, k: 96, format, bias: false, left: LeftElements::Bytes };
    let int4 = shape(format(Codes::Int4, 32));
    let only = |extension| Extensions::default().with(extension);
    for (isa, extensions, products) in [
        (Isa::Avx512, only(Extension::Vnni), Some(Products::Fours)),
        (Isa::Avx512, only(Extension::AvxVnni), Some(Products::Pairs)),
        (Isa::Avx2, only(Extension::AvxVnni), Some(Products::Fours)),
        (Isa::Avx2, only(Extension::Vnni), Some(Products::Pairs)),
        (Isa::Portable, VNNI, None),
    ] {
        assert_eq!(int4.dots(isa, extensions), products, "{isa} {extensions:?}");
    }
    let refused = [
        (shape(format(Codes::Nf4, 32)), "numbers that are no integers"),
        (shape(format(Codes::Int4, 512)), "sums that are no exact f32"),
        (BlockProductShape { left: LeftElements::Floats, ..int4 }, "rows of f32"),
    ];
    let dots = BlockProductBlocks::pick(Isa::Avx512, VNNI, &int4, 1);
    assert!(dots.fits(&int4, Isa::Avx512) && dots.fits(&int4, Isa::Avx2) && !dots.fits(&int4, Isa::Portable));
    let dots = BlockProductBlocks { k_blocks: 1, ..dots };
    for (shape, what) in refused {
        assert_eq!(shape.dots(Isa::Avx512, VNNI), None, "{what}");
        assert!(!BlockProductBlocks { k_blocks: 1, ..dots }.fits(&shape, Isa::Avx512), "{what}");
        assert!(BlockProduct::new(Isa::Avx512, shape, dots, Ahead::default(), &EmitEach).is_err(), "{what}");
    }
}

#[test]
fn many_rows_are_multiplied_on_amx_in_parts_that_are_whole_steps() {
    let amx = Extensions::default().with(Extension::Amx).with(Extension::Vnni);
    let shape = |block, m, n, k| {
        let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Middle, block };
        BlockProductShape { m, n, k, format, bias: false, left: LeftElements::Bytes }
    };
    let dots = |shape: BlockProductShape, extensions| shape.dots(Isa::Avx512, extensions).unwrap();
    for block in [16, 32, 48, 64, 128, 256] {
        let many = shape(block, 512, 896, 4864);
        assert_eq!(dots(many, amx), Products::Bf16Tiles, "{block}");
        assert_eq!(dots(many, amx.without(Extension::Amx)), Products::Fours, "{block}");
        assert_eq!(dots(shape(block, 8, 896, 4864), amx), Products::Fours, "{block}");
        let picked = BlockProductBlocks::pick(Isa::Avx512, amx, &many, 2);
        assert!((picked.k_blocks() * block as usize).is_multiple_of(32), "{block}: {picked:?}");
        if has_tiles() {
            assert!(picked.fits(&many, Isa::Avx512) && !picked.fits(&many, Isa::Avx2), "{block}");
        }
    }
    assert_eq!(dots(shape(32, 512, 16, 4864), amx), Products::Fours, "panels of half the width");
    // Rows that may be bf16 and no bytes, by codes of any kind.
    let format = BlockFormat { codes: Codes::Nf4, zeros: ZeroPoints::Middle, block: 64 };
    let rounded = |m| BlockProductShape { format, left: LeftElements::Bf16, ..shape(64, m, 896, 896) };
    assert_eq!(rounded(4).dots(Isa::Avx512, amx), Some(Products::Bf16Tiles));
    assert_eq!(rounded(3).dots(Isa::Avx512, amx), None, "few rows read codes");
    assert_eq!(rounded(512).dots(Isa::Avx512, amx.without(Extension::Amx)), None);
    let fours = BlockProductBlocks {
        dots: Some(Products::Fours),
        ..BlockProductBlocks::pick(Isa::Avx512, VNNI, &rounded(4), 1)
    };
    assert!(!fours.fits(&rounded(4), Isa::Avx512), "they are no bytes");
    // A part that ends within a step of AMX.
    let odd = shape(16, 512, 896, 4864);
    let picked = BlockProductBlocks::pick(Isa::Avx512, amx, &odd, 2);
    assert!(!BlockProductBlocks { k_blocks: 3, ..picked }.fits(&odd, Isa::Avx512));
    // Vectors without VNNI take longer, so AMX pays earlier.
    let least = |extensions| (1..64).find(|&m| dots(shape(64, m, 896, 896), extensions) == Products::Bf16Tiles);
    assert!(least(amx.without(Extension::Vnni)) < least(amx));
}

#[test]
fn what_is_no_product_is_refused() {
    let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Bytes, block: 32 };
    let shape = BlockProductShape { m: 4, n: 20, k: 64, format, bias: true, left: LeftElements::Floats };
    let isa = Isa::Portable;
    let picked = BlockProductBlocks::pick(isa, VNNI, &shape, 1);
    for wrong in [
        BlockProductShape { k: 0, ..shape },
        BlockProductShape { k: u64::MAX, ..shape },
        BlockProductShape { m: u64::MAX / 2, ..shape },
        BlockProductShape { format: BlockFormat { block: 24, ..format }, ..shape },
        BlockProductShape { format: BlockFormat { codes: Codes::Nf4, ..format }, ..shape },
    ] {
        assert!(!wrong.is_valid());
        assert!(BlockProduct::new(isa, wrong, picked, Ahead::default(), &EmitEach).is_err());
    }
    for blocks in [BlockProductBlocks { k_blocks: 0, ..picked }, BlockProductBlocks { k_blocks: 3, ..picked }] {
        assert!(BlockProduct::new(isa, shape, blocks, Ahead::default(), &EmitEach).is_err());
    }
    assert!(
        BlockProduct::new(isa, shape, BlockProductBlocks { tasks: 9, ..picked }, Ahead::default(), &EmitEach).is_err()
    );
    let case = Case::new(shape, 1);
    let source = case.source(true, false);
    let panels = case.panels(isa);
    for wrong in [
        BlockSource { scales: &case.scales[1..], ..source },
        BlockSource { zero_bytes: &case.zero_bytes[1..], ..source },
        BlockSource { codes: CodeBytes::Packed { bytes: &case.codes[..32 * 20 - 1], stride: 32 }, ..source },
        BlockSource { at: Offsets { inner: 1, column: usize::MAX / 2 }, ..source },
    ] {
        assert!(panels.pack(&wrong, &mut vec![0; panels.bytes()]).is_err());
    }
    assert!(panels.pack(&source, &mut vec![0; panels.bytes() - 1]).is_err());
    let product = BlockProduct::new(isa, shape, picked, Ahead::default(), &EmitEach).unwrap();
    let (packed, mut scratch) = (case.pack(isa, &source), vec![0.0; product.scratch_len()]);
    let mut c = [0.0; 80];
    let mut run =
        |left: &[f32], weights: &[u8], bias| product.run(left, weights, bias, &mut c, &mut scratch, &Serial).is_err();
    assert!(run(&case.left[1..], &packed, Some(&case.bias)));
    assert!(run(&case.left, &packed[1..], Some(&case.bias)));
    assert!(run(&case.left, &packed, None));
    assert!(!run(&case.left, &packed, Some(&case.bias)));
}
