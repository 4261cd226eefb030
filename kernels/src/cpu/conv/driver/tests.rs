//! Every convolution against the plain one, bit by bit on small integers, at every level that can run here.

use super::*;
use crate::cpu::Stored;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, integers, levels, packed, packed_mut};
use crate::cpu::conv::SlideCode;
use crate::cpu::precision::to_bf16;
use crate::cpu::{CodeKey, Elements, EmitEach, Numerics};
use crate::reference;

mod amx;
mod halves;
mod parts;

/// A two-dimensional convolution: the sizes that most cases vary.
#[derive(Clone, Copy, Debug)]
struct Plane {
    batch: u64,
    channels: u64,
    filters: u64,
    groups: u64,
    input: (u64, u64),
    kernel: (u64, u64),
    stride: u64,
    dilation: u64,
    pad: u64,
    transposed: bool,
}

const PLANE: Plane = Plane {
    batch: 1,
    channels: 5,
    filters: 9,
    groups: 1,
    input: (7, 8),
    kernel: (3, 3),
    stride: 1,
    dilation: 1,
    pad: 1,
    transposed: false,
};

impl Plane {
    fn shape(self) -> ConvShape {
        let out = |size: u64, kernel: u64| {
            let reach = (kernel - 1) * self.dilation + 1;
            if self.transposed {
                (size - 1) * self.stride + reach - 2 * self.pad
            } else {
                (size + 2 * self.pad - reach) / self.stride + 1
            }
        };
        let (input, kernel) = (self.input, self.kernel);
        ConvShape {
            batch: self.batch,
            channels: self.channels,
            filters: self.filters,
            groups: self.groups,
            input: [1, input.0, input.1],
            output: [1, out(input.0, kernel.0), out(input.1, kernel.1)],
            kernel: [1, kernel.0, kernel.1],
            strides: [1, self.stride, self.stride],
            dilations: [1, self.dilation, self.dilation],
            pads: [0, self.pad, self.pad],
            transposed: self.transposed,
        }
    }
}

/// Runs a shape with some blocks, bias, residual and Relu, and compares: in `f32`, with weights of `f16`, in `bf16` by
/// AMX and by pairs where they take the shape, and with activations stored as either type.
fn check(isa: Isa, shape: ConvShape, change: fn(&mut ConvBlocks)) {
    check_in(isa, Elements::F32, shape, change);
    if !shape.weights().is_depthwise() {
        check_in(isa, Elements::F16, shape, change);
    }
    let (f32, bf16) = (Stored::F32, Stored::Bf16);
    for elements in [Elements::Bf16Dot, Elements::Bf16Tiles] {
        if elements.suit(isa) && shape.weights().elements(elements) == elements {
            check_in(isa, elements, shape, change);
            for [input, residual, output] in
                [[bf16, bf16, bf16], [f32, f32, bf16], [bf16, bf16, f32], [bf16, f32, bf16]]
            {
                check_stored(isa, elements, ConvStored { input, residual, output }, shape, change);
            }
        }
    }
    if isa == Isa::Avx512 {
        let input = if shape.weights().is_depthwise() { bf16 } else { f32 };
        check_stored(isa, Elements::F32, ConvStored { input, residual: f32, output: bf16 }, shape, change);
    }
}

/// The blocks for these elements with a change; those of `f32` where the change asks for a strategy that the elements
/// do not suit.
fn changed(isa: Isa, elements: Elements, shape: &ConvShape, change: fn(&mut ConvBlocks)) -> ConvBlocks {
    let mut blocks = ConvBlocks::pick(isa, shape, elements, Numerics::Strict, 2);
    change(&mut blocks);
    if !blocks.fits(shape, isa) {
        blocks.elements = Elements::F32;
    }
    blocks
}

/// An operand in both forms; whole numbers are exact in either.
struct Both {
    f32: Poisoned,
    halves: Poisoned<u16>,
}

impl Both {
    fn new(values: &[f32]) -> Both {
        let halves: Vec<u16> = values.iter().copied().map(to_bf16).collect();
        Both { f32: Poisoned::new(values), halves: Poisoned::new(&halves) }
    }

    fn get(&self, stored: Stored) -> Activations<'_> {
        match stored {
            Stored::F32 => Activations::F32(self.f32.inside()),
            Stored::Bf16 => Activations::Bf16(self.halves.inside()),
        }
    }
}

/// Runs a shape on activations of these types, and compares: results in `bf16` are rounded once, at the end.
fn check_stored(isa: Isa, elements: Elements, stored: ConvStored, shape: ConvShape, change: fn(&mut ConvBlocks)) {
    let blocks = changed(isa, elements, &shape, change);
    if !stored.suits(blocks.strategy, blocks.elements, isa) {
        return;
    }
    let layout = blocks.layout();
    let (x, weights) = (integers(shape.input_len(), 1), integers(shape.weights().len(), 2));
    let mut panels = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
    shape.weights().pack(isa, layout, &weights, packed_mut(layout.elements(), &mut panels)).unwrap();
    let (bias, residual) = (integers(shape.filters(), 3), integers(shape.output_len(), 4));
    let mut expected = reference::conv::conv(&shape, &x, &weights);
    for (index, value) in expected.iter_mut().enumerate() {
        let added = if blocks.strategy == Strategy::Depthwise { 0.0 } else { residual[index] };
        *value = (*value + bias[index % shape.filters()] + added).max(0.0);
    }
    let (x, residual, panels, bias) =
        (Both::new(&x), Both::new(&residual), Poisoned::new(&panels), Poisoned::new(&bias));
    let weights = packed(layout.elements(), panels.inside());
    let conv = Conv::stored(isa, shape, blocks, stored, Some(UnaryOp::Relu), &EmitEach).unwrap();
    let with = blocks.strategy != Strategy::Depthwise;
    let residual = with.then(|| residual.get(stored.residual));
    let extras = ConvExtras { bias: Some(bias.inside()), residual };
    let mut scratch = Canaried::new(conv.scratch_len());
    let (mut y, mut halves) = (Canaried::new(shape.output_len()), Canaried::<u16>::new(shape.output_len()));
    let output = match stored.output {
        Stored::F32 => ActivationsMut::F32(y.inside()),
        Stored::Bf16 => ActivationsMut::Bf16(halves.inside()),
    };
    conv.run_stored(x.get(stored.input).into(), weights, output, extras, scratch.inside(), &Scoped).unwrap();
    scratch.open();
    let rounded: Vec<u16> = expected.iter().copied().map(to_bf16).collect();
    match stored.output {
        Stored::F32 => assert_eq!(y.open(), expected, "{isa} {stored:?} {blocks:?} {shape:?}"),
        Stored::Bf16 => assert_eq!(halves.open(), rounded, "{isa} {stored:?} {blocks:?} {shape:?}"),
    }
    if let (Some(Activations::Bf16(residual)), Stored::Bf16) = (residual, stored.output) {
        let (mut scratch, mut over) = (Canaried::new(conv.scratch_len()), Canaried::<u16>::new(shape.output_len()));
        over.inside().copy_from_slice(residual);
        let (x, to) = (x.get(stored.input).into(), ActivationsMut::Bf16(over.inside()));
        conv.run_over_residual(x, weights, to, extras.bias, scratch.inside(), &Scoped).unwrap();
        scratch.open();
        assert_eq!(over.open(), rounded, "over the residual: {isa} {stored:?} {blocks:?} {shape:?}");
    }
}

fn check_in(isa: Isa, elements: Elements, shape: ConvShape, change: fn(&mut ConvBlocks)) {
    let blocks = changed(isa, elements, &shape, change);
    let layout = blocks.layout();
    let x = integers(shape.input_len(), 1);
    let weights = integers(shape.weights().len(), 2);
    let mut panels = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
    shape.weights().pack(isa, layout, &weights, packed_mut(layout.elements(), &mut panels)).unwrap();
    let (bias, residual) = (integers(shape.filters(), 3), integers(shape.output_len(), 4));
    let plain = reference::conv::conv(&shape, &x, &weights);
    let (x, panels) = (Poisoned::new(&x), Poisoned::new(&panels));
    let weights = packed(layout.elements(), panels.inside());
    let (bias_data, residual_data) = (Poisoned::new(&bias), Poisoned::new(&residual));
    for (with_bias, with_residual, relu) in [(false, false, false), (true, false, true), (true, true, true)] {
        let activation = relu.then_some(UnaryOp::Relu);
        let conv = Conv::new(isa, shape, blocks, activation, &EmitEach).unwrap();
        let extras = ConvExtras {
            bias: with_bias.then(|| bias_data.inside()),
            residual: with_residual.then(|| residual_data.inside()),
        };
        let mut scratch = Canaried::new(conv.scratch_len());
        let mut y = Canaried::new(shape.output_len());
        conv.run(x.inside(), weights, y.inside(), extras, scratch.inside(), &Scoped).unwrap();
        scratch.open();
        let mut expected = plain.clone();
        for (index, value) in expected.iter_mut().enumerate() {
            *value += if with_bias { bias[index % shape.filters()] } else { 0.0 };
            *value += if with_residual { residual[index] } else { 0.0 };
            *value = if relu { value.max(0.0) } else { *value };
        }
        assert_eq!(y.open(), expected, "{isa} {blocks:?} {shape:?}");
        if with_residual && conv.writes_over_residual() {
            let (mut scratch, mut over) = (Canaried::new(conv.scratch_len()), Canaried::new(shape.output_len()));
            over.inside().copy_from_slice(&residual);
            let (x, to) = (x.inside().into(), over.inside().into());
            conv.run_over_residual(x, weights, to, extras.bias, scratch.inside(), &Scoped).unwrap();
            scratch.open();
            assert_eq!(over.open(), expected, "over the residual: {isa} {blocks:?} {shape:?}");
        }
    }
}

fn emulated(isa: Isa) -> bool {
    isa > Isa::detect()
}

#[test]
fn kernels_strides_pads_and_dilations() {
    for isa in levels() {
        let channels: &[u64] = if emulated(isa) { &[17] } else { &[1, 3, 8, 17, 24] };
        for &channels in channels {
            for kernel in [(1, 1), (3, 3), (2, 5), (1, 3)] {
                for (stride, dilation, pad) in [(1, 1, 0), (1, 1, 1), (2, 1, 1), (3, 1, 0), (1, 2, 2), (2, 3, 3)] {
                    let input = if dilation == 3 { (9, 15) } else { (7, 11) };
                    let plane = Plane { channels, kernel, stride, dilation, pad, input, filters: 19, ..PLANE };
                    check(isa, plane.shape(), |_| ());
                }
            }
        }
    }
}

#[test]
fn filters_of_all_widths() {
    for isa in levels() {
        let filters: &[u64] = if emulated(isa) { &[1, 33, 65] } else { &[1, 7, 8, 9, 16, 17, 23, 24, 25, 40, 65] };
        for &filters in filters {
            check(isa, Plane { filters, ..PLANE }.shape(), |_| ());
            check(isa, Plane { filters, kernel: (1, 1), pad: 0, channels: 20, ..PLANE }.shape(), |_| ());
        }
    }
}

#[test]
fn images_of_a_batch_do_not_see_each_other() {
    for isa in levels() {
        for kernel in [(1, 1), (3, 3), (5, 5)] {
            let plane = Plane { batch: 3, kernel, pad: kernel.0 / 2, input: (4, 5), ..PLANE };
            check(isa, plane.shape(), |_| ());
            check(isa, Plane { channels: 18, ..plane }.shape(), |_| ());
            check(isa, Plane { channels: 18, filters: 18, groups: 18, ..plane }.shape(), |_| ());
        }
    }
}

#[test]
fn every_strategy_that_fits_gives_the_same_result() {
    for isa in levels() {
        for plane in [PLANE, Plane { kernel: (1, 1), pad: 0, ..PLANE }, Plane { stride: 2, pad: 0, ..PLANE }] {
            check(isa, plane.shape(), |blocks| blocks.strategy = Strategy::Direct);
            check(isa, plane.shape(), |blocks| blocks.strategy = Strategy::Lines);
        }
        check(isa, Plane { kernel: (1, 1), pad: 0, ..PLANE }.shape(), |b| b.strategy = Strategy::Pointwise);
    }
}

#[test]
fn any_cut_of_the_work_gives_the_same_result() {
    let cuts: [fn(&mut ConvBlocks); 4] = [
        |blocks| blocks.row_block = 1,
        |blocks| (blocks.row_block, blocks.row_tasks) = (2, 5),
        |blocks| (blocks.row_tasks, blocks.unit_tasks) = (2, 3),
        |blocks| (blocks.row_tasks, blocks.unit_tasks) = (40, 40),
    ];
    for isa in levels() {
        for change in cuts {
            check(isa, Plane { filters: 50, ..PLANE }.shape(), change);
            check(isa, Plane { filters: 50, channels: 4, groups: 2, batch: 2, ..PLANE }.shape(), change);
            check(isa, Plane { filters: 50, transposed: true, stride: 2, ..PLANE }.shape(), change);
        }
    }
}

#[test]
fn lines_without_padding_are_read_where_they_are() {
    let lines: [fn(&mut ConvBlocks); 3] = [
        |blocks| blocks.strategy = Strategy::Lines,
        |blocks| (blocks.strategy, blocks.row_block, blocks.row_tasks) = (Strategy::Lines, 3, 1),
        |blocks| (blocks.strategy, blocks.row_tasks, blocks.unit_tasks) = (Strategy::Lines, 7, 2),
    ];
    for isa in levels() {
        // Tiles on either border and between the borders, and widths with none between.
        let widths: &[u64] = if emulated(isa) { &[40] } else { &[9, 17, 26, 40, 61] };
        for (&width, change) in widths.iter().flat_map(|width| lines.map(|change| (width, change))) {
            let wide = Plane { batch: 2, channels: 3, filters: 20, input: (9, width), ..PLANE };
            for (kernel, stride, pad) in
                [((3, 3), 1, 1), ((3, 3), 2, 1), ((5, 3), 2, 2), ((3, 7), 3, 3), ((2, 2), 1, 0)]
            {
                check(isa, Plane { kernel, stride, pad, ..wide }.shape(), change);
            }
            let deep = ConvShape { input: [3, 9, width], output: [3, 9, width], ..wide.shape() };
            check(isa, ConvShape { batch: 1, ..deep }, change);
            check(isa, ConvShape { batch: 1, output: [4, 9, width], pads: [1, 1, 1], strides: [1; 3], ..deep }, change);
        }
    }
}

#[test]
fn reductions_in_parts_give_the_same_sums() {
    for isa in levels().into_iter().filter(|&isa| !emulated(isa)) {
        // Panels of more than 512 KiB: parts of some taps, of some channels of a tap, of groups and phases of their
        // own.
        let long = Plane { channels: 240, filters: 64, input: (4, 5), ..PLANE };
        check(isa, long.shape(), |_| ());
        check(isa, Plane { filters: 70, batch: 2, ..long }.shape(), |blocks| blocks.row_block = 2);
        check(isa, Plane { channels: 1500, kernel: (2, 1), ..long }.shape(), |_| ());
        check(isa, Plane { channels: 2100, kernel: (1, 1), pad: 0, ..long }.shape(), |_| ());
        check(isa, Plane { channels: 1030, groups: 2, filters: 128, stride: 2, ..long }.shape(), |_| ());
        check(isa, Plane { channels: 600, transposed: true, stride: 2, ..long }.shape(), |_| ());
    }
}

#[test]
fn sums_that_wait_in_the_output_leave_no_place_there_for_a_residual() {
    let isa = Isa::Avx512;
    if emulated(isa) {
        return;
    }
    let shape = Plane { channels: 2100, filters: 64, kernel: (1, 1), pad: 0, ..PLANE }.shape();
    let blocks = ConvBlocks::pick(isa, &shape, Elements::F32, Numerics::Strict, 1);
    let conv = Conv::new(isa, shape, blocks, None, &EmitEach).unwrap();
    assert!(!conv.writes_over_residual());
    let (x, weights) = (vec![0.0; shape.input_len()], vec![0.0; shape.weights().packed_len(isa, blocks.layout())]);
    let (mut y, mut scratch) = (vec![0.0; shape.output_len()], vec![0.0; conv.scratch_len()]);
    let (x, to) = (x.as_slice().into(), y.as_mut_slice().into());
    let refused = conv.run_over_residual(x, PackedWeights::F32(&weights), to, None, &mut scratch, &Scoped);
    assert!(matches!(refused, Err(KernelError::Unsupported { .. })), "{refused:?}");
}

#[test]
fn activations_that_are_stored_otherwise_are_refused() {
    let shape = Plane { channels: 16, ..PLANE }.shape();
    let halves = ConvStored { input: Stored::Bf16, ..ConvStored::default() };
    for isa in levels() {
        let blocks = ConvBlocks::pick(isa, &shape, Elements::F32, Numerics::Strict, 1);
        assert!(Conv::stored(isa, shape, blocks, halves, None, &EmitEach).is_err(), "{blocks:?}");
        let conv = Conv::new(isa, shape, blocks, None, &EmitEach).unwrap();
        let (x, weights) = (vec![0; shape.input_len()], vec![0.0; shape.weights().packed_len(isa, blocks.layout())]);
        let (mut y, mut scratch) = (vec![0.0f32; shape.output_len()], vec![0.0; conv.scratch_len()]);
        let (x, y) = (Activations::Bf16(&x), ActivationsMut::F32(&mut y));
        assert!(
            conv.run_stored(x.into(), PackedWeights::F32(&weights), y, ConvExtras::default(), &mut scratch, &Scoped)
                .is_err()
        );
    }
}

#[test]
fn groups_see_their_own_channels() {
    for isa in levels() {
        for (groups, channels, filters) in [(2, 6, 4), (3, 9, 30), (4, 8, 8), (5, 5, 10), (2, 34, 50)] {
            for transposed in [false, true] {
                check(isa, Plane { groups, channels, filters, transposed, ..PLANE }.shape(), |_| ());
            }
            check(isa, Plane { groups, channels, filters, kernel: (1, 1), pad: 0, ..PLANE }.shape(), |_| ());
        }
    }
}

#[test]
fn depthwise_of_all_widths_and_borders() {
    for isa in levels() {
        let channels: &[u64] = if emulated(isa) { &[15, 33] } else { &[2, 7, 8, 9, 16, 31, 33] };
        for &channels in channels {
            for (kernel, stride, dilation, pad) in
                [(3, 1, 1, 1), (3, 2, 1, 1), (5, 1, 1, 2), (3, 1, 2, 2), (3, 1, 1, 0), (5, 3, 1, 4), (1, 1, 1, 0)]
            {
                for width in [5, 9, 20] {
                    let (filters, groups, kernel) = (channels, channels, (kernel, kernel));
                    let input = (6, width);
                    let plane = Plane { channels, filters, groups, kernel, stride, dilation, pad, input, ..PLANE };
                    check(isa, plane.shape(), |_| ());
                }
            }
        }
    }
}

#[test]
fn depthwise_slides_over_blocks_borders_and_odd_lines() {
    for isa in levels() {
        let channels: &[u64] = if emulated(isa) { &[17] } else { &[8, 16, 27] };
        for &channels in channels {
            let plane = Plane { channels, filters: channels, groups: channels, ..PLANE };
            for kernel in [(3, 3), (5, 5), (1, 3), (3, 1), (2, 4), (7, 7)] {
                for (stride, pad) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 3), (3, 1), (1, 6)] {
                    for input in [(3, 7), (8, 11), (2, 45)] {
                        if input.0 + 2 * pad < kernel.0 || input.1 + 2 * pad < kernel.1 {
                            continue;
                        }
                        check(isa, Plane { kernel, stride, pad, input, ..plane }.shape(), |_| ());
                    }
                }
            }
            // Pads that differ at the two ends, and cuts through lines and channels.
            let mut shape = Plane { stride: 2, input: (9, 40), batch: 2, ..plane }.shape();
            shape.pads[1] = 0;
            check(isa, shape, |blocks| (blocks.row_tasks, blocks.unit_tasks) = (3, 2));
            shape.pads[2] = 0;
            shape.output[2] += 1;
            check(isa, shape, |blocks| (blocks.row_tasks, blocks.unit_tasks) = (40, 40));
        }
    }
}

#[test]
fn sliding_code_of_the_largest_kernel_stays_small() {
    // Each number of output lines has its own code: up to two lines with AVX2, up to four with AVX-512.
    for (isa, of_three) in [(Isa::Avx2, 4 << 10), (Isa::Avx512, 8 << 10)] {
        for (kernel, most) in [(3, of_three), (5, 12 << 10), (7, 12 << 10)] {
            let key = SlideCode {
                isa,
                kernel: [kernel; 2],
                strides: [1; 2],
                activation: Some(UnaryOp::Silu),
                stored: Stored::F32,
            };
            let bytes = CodeKey::Slide(key).assemble(0).unwrap().len();
            assert!(bytes <= most, "{isa} {kernel}: {bytes}");
        }
    }
}

#[test]
fn depthwise_applies_long_activations_once() {
    for isa in levels() {
        let plane = Plane { channels: 33, filters: 33, groups: 33, ..PLANE };
        let shape = plane.shape();
        let blocks = ConvBlocks::pick(isa, &shape, Elements::F32, Numerics::Strict, 2);
        let layout = blocks.layout();
        let (x, weights) = (integers(shape.input_len(), 1), integers(shape.weights().len(), 2));
        let mut panels = vec![0.0; shape.weights().packed_len(isa, layout)];
        shape.weights().pack(isa, layout, &weights, packed_mut(layout.elements(), &mut panels)).unwrap();
        let plain = reference::conv::conv(&shape, &x, &weights);
        for op in [UnaryOp::HardSwish, UnaryOp::Silu, UnaryOp::Clip { lo: 0.0.into(), hi: 6.0.into() }] {
            let conv = Conv::new(isa, shape, blocks, Some(op), &EmitEach).unwrap();
            let mut y = vec![f32::NAN; shape.output_len()];
            conv.run(&x, packed(layout.elements(), &panels), &mut y, ConvExtras::default(), &mut [], &Scoped).unwrap();
            for (have, &sum) in y.iter().zip(&plain) {
                let want = reference::chain::unary(op, sum);
                assert!((have - want).abs() <= 1e-5 * want.abs().max(1.0), "{isa} {op:?} of {sum}: {have}, not {want}");
            }
        }
    }
}

#[test]
fn transposed_is_the_adjoint_of_the_plain_one() {
    for isa in levels() {
        for kernel in [(2, 2), (3, 3), (4, 4), (1, 3)] {
            for (stride, dilation, pad) in [(1, 1, 0), (2, 1, 0), (2, 1, 1), (3, 1, 1), (2, 2, 0), (4, 1, 0)] {
                if pad > 0 && kernel.0 == 1 {
                    continue;
                }
                let plane = Plane { transposed: true, kernel, stride, dilation, pad, ..PLANE };
                check(isa, plane.shape(), |_| ());
                let mut longer = Plane { batch: 2, channels: 18, ..plane }.shape();
                // ONNX's output padding: positions at the end that few or no inputs reach.
                longer.output[2] += stride - 1;
                check(isa, longer, |_| ());
            }
        }
    }
}

#[test]
fn one_and_three_dimensions() {
    for isa in levels() {
        for channels in [3, 17] {
            let mut shape = Plane { channels, input: (1, 20), kernel: (1, 5), pad: 0, ..PLANE }.shape();
            shape.pads[2] = 2;
            shape.output[2] = 20;
            check(isa, shape, |_| ());
            for transposed in [false, true] {
                let mut solid = Plane { channels, transposed, ..PLANE }.shape();
                solid.input[0] = 4;
                solid.kernel[0] = 2;
                solid.strides[0] = 2;
                solid.output[0] = if transposed { 8 } else { 2 };
                check(isa, solid, |_| ());
            }
        }
    }
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let good = PLANE.shape();
    assert!(good.validate().is_ok());
    let bad: [fn(&mut ConvShape); 8] = [
        |shape| shape.groups = 0,
        |shape| shape.groups = 2,
        |shape| shape.strides[1] = 0,
        |shape| shape.dilations[2] = 0,
        |shape| shape.kernel[0] = 0,
        |shape| shape.input[1] = u64::MAX,
        |shape| (shape.kernel[1], shape.dilations[1]) = (1 << 20, 1 << 20),
        |shape| (shape.batch, shape.channels) = (1 << 40, 1 << 40),
    ];
    for change in bad {
        let mut shape = good;
        change(&mut shape);
        assert!(shape.validate().is_err(), "{shape:?}");
    }
}

#[test]
fn short_buffers_and_foreign_blocks_are_refused() {
    let shape = PLANE.shape();
    let blocks = ConvBlocks::pick(Isa::Portable, &shape, Elements::F32, Numerics::Strict, 1);
    let layout = blocks.layout();
    let conv = Conv::new(Isa::Portable, shape, blocks, None, &EmitEach).unwrap();
    let run = |short: [usize; 4]| {
        let less = |len: usize, by: usize| vec![0.0; len - by];
        let x = less(shape.input_len(), short[0]);
        let weights = less(shape.weights().packed_len(Isa::Portable, layout), short[1]);
        let mut y = less(shape.output_len(), short[2]);
        let mut scratch = less(conv.scratch_len(), short[3]);
        conv.run(&x, PackedWeights::F32(&weights), &mut y, ConvExtras::default(), &mut scratch, &crate::Serial)
    };
    assert!(run([0; 4]).is_ok());
    for operand in 0..4 {
        let mut short = [0; 4];
        short[operand] = 1;
        assert!(run(short).is_err(), "operand {operand}");
    }
    let bad: [fn(&mut ConvBlocks); 5] = [
        |blocks| blocks.strategy = Strategy::Pointwise,
        |blocks| blocks.strategy = Strategy::Depthwise,
        |blocks| blocks.vectors = 7,
        |blocks| blocks.row_block = 0,
        |blocks| blocks.row_tasks = u32::MAX,
    ];
    for change in bad {
        let mut blocks = blocks;
        change(&mut blocks);
        assert!(Conv::new(Isa::Portable, shape, blocks, None, &EmitEach).is_err(), "{blocks:?}");
    }
}
