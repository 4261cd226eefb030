//! Every form and level against the oracle, bit by bit: extremes, odd sizes, all outputs; nothing is written outside
//! the result.

use proptest::prelude::*;

use super::bytes::{Added, Addend, Plus, Rounding, add};
use super::weights::{PackedIntegers, PackedIntegersMut, pack};
use super::{Form, Layout, Output, Quantized, QuantizedBlocks, Steps, Terms, WeightSource};
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Scoped, levels};
use crate::cpu::conv::ConvShape;
use crate::isa::{Extension, Isa};
use crate::reference::quantized::quantized;

/// Bytes on each side of a result.
const MARGIN: usize = 256;
const CANARY: u8 = 0xA7;

const OUTPUTS: [Output; 4] = [Output::Sums, Output::Floats, Output::Unsigned, Output::Signed];

fn forms(isa: Isa) -> impl Iterator<Item = Form> {
    [Form::Words, Form::Widened, Form::Bytes, Form::Tiles, Form::Few].into_iter().filter(move |form| form.usable(isa))
}

/// A product of `m` by `k` and `k` by `n`.
fn product(m: u64, k: u64, n: u64) -> ConvShape {
    let ones = [1; 3];
    ConvShape {
        batch: 1,
        channels: k,
        filters: n,
        groups: 1,
        input: [1, 1, m],
        output: [1, 1, m],
        kernel: ones,
        strides: ones,
        dilations: ones,
        pads: [0; 3],
        transposed: false,
    }
}

#[derive(Clone, Copy, Debug)]
struct Window {
    kernel: u64,
    stride: u64,
    dilation: u64,
    pad: u64,
}

/// An image of `height` by `width` under a square window.
fn image(batch: u64, [height, width]: [u64; 2], [channels, filters, groups]: [u64; 3], window: Window) -> ConvShape {
    let Window { kernel, stride, dilation, pad } = window;
    let along = |size: u64| (size + 2 * pad).saturating_sub((kernel - 1) * dilation + 1) / stride + 1;
    ConvShape {
        batch,
        channels: channels * groups,
        filters: filters * groups,
        groups,
        input: [1, height, width],
        output: [1, along(height), along(width)],
        kernel: [1, kernel, kernel],
        strides: [1, stride, stride],
        dilations: [1, dilation, dilation],
        pads: [0, pad, pad],
        transposed: false,
    }
}

/// A product or convolution with its operands.
struct Case {
    shape: ConvShape,
    x: Vec<u8>,
    weights: Vec<u8>,
    signed: [bool; 2],
    left_zero: i32,
    zeros: Vec<i32>,
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Every fourth byte is an extreme.
        let bits = state >> 24;
        if bits.is_multiple_of(4) { [0, 255, 128, 127][(bits >> 8) as usize % 4] } else { (bits >> 8) as u8 }
    };
    std::iter::repeat_with(next).take(count).collect()
}

impl Case {
    fn new(shape: ConvShape, signed: [bool; 2], seed: u64) -> Case {
        let zero = |signed: bool, bits: u64| (bits % 256) as i32 - if signed { 128 } else { 0 };
        let zeros = (0..shape.filters()).map(|filter| zero(signed[1], seed.wrapping_mul(31) ^ (filter as u64 * 77)));
        Case {
            shape,
            x: bytes(shape.input_len(), seed + 1),
            weights: bytes(shape.weights().len(), seed + 2),
            signed,
            left_zero: zero(signed[0], seed),
            zeros: zeros.collect(),
        }
    }

    /// The same case with signed bytes as weights and without zero points, which every form takes.
    fn symmetric(shape: ConvShape, signed: bool, seed: u64) -> Case {
        Case { zeros: vec![0], ..Case::new(shape, [signed, true], seed) }
    }

    fn source(&self) -> WeightSource<'_> {
        let sizes = self.shape.weights();
        WeightSource::convolution(&self.weights, self.signed[1], &self.zeros, &sizes)
    }

    /// Compares all outputs of a form with the oracle.
    fn check(&self, isa: Isa, form: Form, threads: usize) {
        let filters = self.shape.filters();
        let bias: Vec<i32> =
            bytes(4 * filters, 5).chunks_exact(4).map(|b| i32::from_ne_bytes([b[0], b[1], 0, 0])).collect();
        // Factors that bring sums of all sizes into the range of a byte, and halves that have to be rounded to even.
        let reach = (self.shape.group_channels() * self.shape.taps()) as f32;
        let scale: Vec<f32> =
            (0..filters).map(|filter| 1.0 / 64.0 / reach.sqrt().ceil() * (1 + filter % 3) as f32).collect();
        let shift: Vec<f32> = (0..filters).map(|filter| filter as f32 / 8.0 - 2.0).collect();
        for output in OUTPUTS {
            let zero = match output {
                Output::Unsigned => 117,
                Output::Signed => -3,
                _ => 0,
            };
            let whole = Terms {
                signed: self.signed[0],
                left_zero: self.left_zero,
                bias: Some(&bias),
                scale: &scale,
                shift: Some(&shift),
                low: f32::NEG_INFINITY,
                high: f32::INFINITY,
                zero,
                plus: None,
            };
            let clamped = Terms { bias: None, scale: &scale[..1], shift: None, low: 0.0, high: 6.0, ..whole };
            for terms in [whole, clamped] {
                let expected = quantized(&self.shape, &self.x, &self.source(), &terms, output);
                let actual = self.run(isa, form, output, Added::Nothing, &terms, threads);
                if actual != expected {
                    let at = actual.iter().zip(&expected).position(|(a, e)| a != e);
                    panic!("{isa} {form:?} {output:?} of {:?}: byte {at:?}", self.shape);
                }
                if output.bytes() == 1 {
                    self.check_sum(isa, form, output, &terms, &expected, threads);
                }
            }
        }
    }

    /// Compares the sum of the result and another tensor with a sum computed from both.
    fn check_sum(&self, isa: Isa, form: Form, output: Output, terms: &Terms<'_>, own: &[u8], threads: usize) {
        let signed = output == Output::Signed;
        let other = bytes(own.len(), 77);
        let zero = if signed { -100 } else { 37 };
        for (low, high) in [(f32::NEG_INFINITY, f32::INFINITY), (-20.5, 31.0)] {
            let rounding = Rounding { signed, zero: zero + 20, low, high };
            let plus = Plus { data: &other, zero, scale: 0.3, own_scale: 0.7, rounding };
            let a = Addend { data: own, signed, zero: terms.zero, scale: plus.own_scale };
            let b = Addend { data: &other, signed, zero, scale: plus.scale };
            let mut expected = vec![0; own.len()];
            for (added, [a, b]) in [(Added::Second, [a, b]), (Added::First, [b, a])] {
                add(Isa::Portable, a, b, rounding, &mut expected);
                let actual = self.run(isa, form, output, added, &Terms { plus: Some(plus), ..*terms }, threads);
                assert!(actual == expected, "{isa} {form:?} {output:?} and another tensor, of {:?}", self.shape);
            }
        }
    }

    fn run(&self, isa: Isa, form: Form, output: Output, added: Added, terms: &Terms<'_>, threads: usize) -> Vec<u8> {
        let blocks = QuantizedBlocks::pick(isa, &self.shape, form, threads);
        let ready = Quantized::new(isa, self.shape, form, output, added, blocks, &EmitEach).unwrap();
        let mut packed = vec![u32::MAX; ready.packed().words()];
        let packed = ready.pack(&self.source(), &mut packed).unwrap();
        let mut y = vec![CANARY; self.shape.output_len() * output.bytes() + 2 * MARGIN];
        let inside = MARGIN..y.len() - MARGIN;
        let mut scratch = vec![i32::from_ne_bytes([CANARY; 4]); ready.scratch_len() + MARGIN];
        let own = ready.scratch_len();
        ready.run(&self.x, packed, &mut y[inside.clone()], terms, &mut scratch[..own], &Scoped).unwrap();
        assert!(scratch[own..].iter().all(|&word| word == i32::from_ne_bytes([CANARY; 4])), "written beyond scratch");
        let around = y[..MARGIN].iter().chain(&y[inside.end..]);
        assert!(around.into_iter().all(|&byte| byte == CANARY), "written beside the result");
        y[inside].to_vec()
    }
}

#[test]
fn extremes_over_long_reductions_do_not_saturate() {
    for isa in levels() {
        // Longer than any 16-bit sum, and longer than 32 bits hold: such sums wrap.
        for k in [1, 2, 3, 4, 5, 300, 4611, 70_000] {
            for (a, w, signed) in [
                (255u8, 0x80u8, [false, true]),
                (255, 0x7F, [false, true]),
                (0x80, 0x80, [true, true]),
                (255, 255, [false, false]),
                (0, 0, [false, false]),
            ] {
                let shape = product(2, k, 3);
                let zeros = if signed[1] { vec![0] } else { vec![0, 255, 128] };
                for left_zero in if signed[0] { [-128, 127, 0] } else { [0, 255, 128] } {
                    let (x, weights) = (vec![a; shape.input_len()], vec![w; shape.weights().len()]);
                    let case = Case { shape, x, weights, signed, left_zero, zeros: zeros.clone() };
                    let narrow = case.source().fits_bytes(&shape.weights()).unwrap();
                    for form in forms(isa).filter(|form| narrow || *form == Form::Words) {
                        case.check(isa, form, 1);
                    }
                }
            }
        }
    }
}

#[test]
fn products_of_every_tile_height_and_odd_widths() {
    for isa in levels() {
        for form in forms(isa) {
            for m in 1..10 {
                for n in [1, 7, 8, 17, 33, 70] {
                    Case::symmetric(product(m, 13 + m, n), m % 2 == 0, m * n).check(isa, form, 1);
                }
            }
            Case::symmetric(product(67, 96, 80), false, 9).check(isa, form, 4);
        }
    }
}

#[test]
fn convolutions_see_zero_points_as_padding() {
    let windows = [
        Window { kernel: 3, stride: 1, dilation: 1, pad: 1 },
        Window { kernel: 3, stride: 2, dilation: 2, pad: 2 },
        Window { kernel: 7, stride: 2, dilation: 1, pad: 3 },
        Window { kernel: 1, stride: 2, dilation: 1, pad: 0 },
        Window { kernel: 1, stride: 1, dilation: 1, pad: 0 },
        Window { kernel: 2, stride: 1, dilation: 1, pad: 0 },
    ];
    // Few channels (lines), many, groups, and one filter a channel (depthwise, of a block of channels and of two).
    let channels = [[3, 10, 1], [17, 9, 1], [6, 10, 3], [1, 1, 21], [1, 1, 32], [1, 1, 40], [1, 2, 5]];
    for isa in levels() {
        for (number, window) in windows.into_iter().enumerate() {
            for sizes in channels {
                let shape = image(2, [8, 9], sizes, window);
                for form in forms(isa) {
                    Case::symmetric(shape, number % 2 == 0, number as u64).check(isa, form, 1 + number % 2 * 3);
                }
                Case::new(shape, [false, false], number as u64).check(isa, Form::Words, 1);
            }
        }
    }
}

/// Windows of one channel of every size, over lines of several tiles.
#[test]
fn depthwise_windows_of_every_size() {
    let isa = Isa::Avx512;
    if !levels().contains(&isa) || !Form::Bytes.usable(isa) {
        return;
    }
    for kernel in 1..=10 {
        for (number, (stride, dilation)) in [(1, 1), (2, 1), (3, 1), (1, 2), (2, 3), (1, 30)].into_iter().enumerate() {
            let window = Window { kernel, stride, dilation, pad: (kernel - 1) * dilation / 2 };
            let channels = [16, 21, 48, 3][(kernel as usize + number) % 4];
            let shape = image(2, [5, 41], [1, 1, channels], window);
            Case::symmetric(shape, number % 2 == 0, kernel).check(isa, Form::Bytes, 1 + number % 2);
        }
    }
}

/// Sizes on which AMX goes through several chunks, bands, panels and steps, in place and not.
#[test]
fn tiles_of_many_rows_panels_and_steps() {
    if !Form::Tiles.usable(Isa::Avx512) || !Extension::Amx.present() {
        return;
    }
    let window = |kernel, stride| Window { kernel, stride, dilation: 1, pad: kernel / 2 };
    for (number, (size, channels, window)) in [
        ([20, 21], [64, 80, 1], window(1, 1)),
        ([20, 21], [64, 300, 1], window(3, 1)),
        ([23, 20], [130, 64, 2], window(3, 2)),
        ([9, 30], [200, 40, 1], window(1, 2)),
        ([60, 70], [3, 64, 1], window(7, 2)),
        ([3, 3], [1030, 600, 1], window(1, 1)),
        ([4, 5], [512, 257, 1], window(3, 1)),
        ([150, 160], [64, 33, 1], window(3, 1)),
    ]
    .into_iter()
    .enumerate()
    {
        let shape = image(2, size, channels, window);
        Case::symmetric(shape, number % 2 == 0, number as u64 + 7).check(Isa::Avx512, Form::Tiles, 1 + number % 3);
    }
}

#[test]
fn transformed_windows_give_the_same_bits() {
    let window = Window { kernel: 3, stride: 1, dilation: 1, pad: 1 };
    for isa in levels() {
        for (number, (size, [channels, filters])) in
            [([6, 7], [32, 17]), ([1, 2], [48, 40]), ([5, 12], [64, 33])].into_iter().enumerate()
        {
            let pad = 1 - number as u64 % 2;
            let window = Window { pad: if size[0] < 3 { 1 } else { pad }, ..window };
            let shape = image(2, size, [channels, filters, 1], window);
            let seed = number as u64 + 40;
            assert!(matches!(Layout::of(isa, &shape.weights(), Steps::ONE, Form::Words), Layout::Transformed { .. }));
            Case::new(shape, [number == 1, false], seed).check(isa, Form::Words, 1 + number);
            Case::symmetric(shape, number == 2, seed).check(isa, Form::Widened, 2);
        }
        // All factors at their extremes, with the most channels.
        for (a, left_zero, w, zero) in [(255u8, 0, 255u8, 0), (0, 255, 255, 0), (255, 0, 0, 255)] {
            let shape = image(1, [4, 4], [384, 16, 1], window);
            let (x, weights) = (vec![a; shape.input_len()], vec![w; shape.weights().len()]);
            let case = Case { shape, x, weights, signed: [false, false], left_zero, zeros: vec![zero] };
            case.check(isa, Form::Words, 1);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = Case::new(product(3, 4, 5), [false, false], 3);
    let sizes = case.shape.weights();
    let isa = Isa::Portable;
    let layout = Layout::of(isa, &sizes, Steps::ONE, Form::Widened);
    let mut packed = vec![0; layout.packed(isa, &sizes).words()];
    let room = PackedIntegersMut::new(layout.packed(isa, &sizes), &mut packed).unwrap();
    assert!(pack(isa, &sizes, layout, &case.source(), room).is_err(), "weights that are no signed bytes");
    assert!(PackedIntegersMut::new(layout.packed(isa, &sizes), &mut packed[1..]).is_err());
    assert!(PackedIntegers::new(layout.packed(isa, &sizes), &packed[1..]).is_err());
    let words = Layout::of(isa, &sizes, Steps::ONE, Form::Words).packed(isa, &sizes);
    let mut packed = vec![0; words.words()];
    let room = PackedIntegersMut::new(words, &mut packed).unwrap();
    let small = Case::symmetric(case.shape, false, 3);
    assert!(pack(isa, &sizes, layout, &small.source(), room).is_err(), "room for 16-bit integers");
    let wrong = WeightSource { zeros: &[256], ..case.source() };
    assert!(wrong.fits_bytes(&sizes).is_err(), "a zero point beyond its type");
    let blocks = QuantizedBlocks { row_block: 1, row_tasks: 1, unit_tasks: 1 };
    assert!(Quantized::new(isa, case.shape, Form::Bytes, Output::Sums, Added::Nothing, blocks, &EmitEach).is_err());
    let none = QuantizedBlocks { row_tasks: 0, ..blocks };
    assert!(Quantized::new(isa, case.shape, Form::Words, Output::Sums, Added::Nothing, none, &EmitEach).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_convolution_is_the_oracles(
        batch in 1u64..3,
        size in (1u64..9, 1u64..12),
        channels in (1u64..24, 1u64..20, 1u64..3),
        window in (1u64..4, 1u64..3, 1u64..3, 0u64..3),
        signed in any::<[bool; 2]>(),
        seed in any::<u32>(),
    ) {
        let window = Window { kernel: window.0, stride: window.1, dilation: window.2, pad: window.3 };
        let reach = (window.kernel - 1) * window.dilation + 1;
        prop_assume!(size.0.min(size.1) + 2 * window.pad >= reach);
        let shape = image(batch, [size.0, size.1], [channels.0, channels.1, channels.2], window);
        for isa in levels() {
            Case::new(shape, signed, seed.into()).check(isa, Form::Words, 2);
            for form in forms(isa) {
                Case::symmetric(shape, signed[0], seed.into()).check(isa, form, 2);
            }
        }
    }
}
