//! Families that move windows over images: convolutions in floats and in bytes, and pooling.

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::conv::{Conv, ConvBlocks, ConvExtras, ConvInput, ConvPart, ConvShape, ConvStored, Strategy};
use kiln_kernels::cpu::pool::{Path, Pool, PoolKind, PoolShape, Window};
use kiln_kernels::cpu::precision::{from_bf16, to_bf16};
use kiln_kernels::cpu::quantized::bytes::{Added, Addend, Plus, Rounding, add};
use kiln_kernels::cpu::quantized::{Form, Output, Quantized, QuantizedBlocks, Terms, WeightSource};
use kiln_kernels::cpu::{Activations, ActivationsMut, Elements, Numerics, PackedWeights, PackedWeightsMut, Stored};
use kiln_kernels::{EmitEach, Isa, KernelError, reference};

use super::draw::Draw;
use super::page::{Both, Guarded};
use super::{InTurn, close};

/// Numbers of channels of real networks, and odd ones.
const CHANNELS: [usize; 32] = [
    16, 32, 8, 24, 40, 48, 64, 72, 80, 96, 112, 120, 128, 144, 160, 192, 240, 256, 320, 384, 480, 512, 576, 672, 768,
    960, 1024, 1152, 1280, 1536, 2048, 3,
];

/// Edges of the images of real networks.
const EDGES: [usize; 16] = [7, 14, 28, 56, 10, 20, 40, 80, 13, 26, 24, 48, 1, 2, 100, 3];

/// A number of channels.
fn channels(draw: &mut Draw<'_>) -> usize {
    match draw.below(4) {
        0 | 1 => draw.of(&CHANNELS),
        2 => draw.size(70),
        _ => draw.wide(2048),
    }
}

/// Window, stride and dilation along one axis.
fn window(draw: &mut Draw<'_>) -> [usize; 3] {
    let kernel = match draw.below(8) {
        7 => draw.size(31),
        6 => draw.of(&[9, 11, 13, 15, 21, 31]),
        5 => draw.of(&[4, 6, 8]),
        _ => draw.of(&[3, 1, 2, 5, 7]),
    };
    let stride = if draw.below(16) == 15 { kernel } else { draw.of(&[1, 1, 1, 2, 2, 3, 4, 5]) };
    [kernel, stride, draw.of(&[1, 1, 1, 1, 2, 3, 4, 6])]
}

/// A convolution whose sizes fit together and whose work is bounded; none where a window is larger than its image.
fn shape(draw: &mut Draw<'_>, transposed: bool) -> Option<ConvShape> {
    let [most, smaller] = if draw.is_interpreted() { [36, 40] } else { [2048; 2] };
    let (channels, filters) = (channels(draw).min(most), channels(draw).min(smaller));
    // As many groups as channels, more often than other numbers: that is a family of kernels of its own.
    let (groups, channels, filters) = match draw.below(8) {
        0..3 => (channels, channels, channels * draw.of(&[1, 1, 1, 2, 3])),
        3 => {
            let groups = draw.of(&[2, 3, 4, 8, 32]);
            let whole = |count: usize| count.div_ceil(2 * groups) * groups;
            (groups, whole(channels), whole(filters))
        }
        _ => (1, channels, filters),
    };
    let mut shape = ConvShape {
        batch: draw.of(&[1, 1, 1, 2, 3, 5]) as u64,
        channels: channels as u64,
        filters: filters as u64,
        groups: groups as u64,
        input: [1; 3],
        output: [1; 3],
        kernel: [1; 3],
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0; 3],
        transposed,
    };
    let dims = draw.of(&[2, 2, 2, 2, 1, 3]);
    let same = draw.flag();
    let mut last = None;
    for dim in 3 - dims..3 {
        let [kernel, stride, dilation] = last.filter(|_| same).unwrap_or_else(|| window(draw));
        last = Some([kernel, stride, dilation]);
        let reach = (kernel - 1) * dilation + 1;
        let input = match draw.below(4) {
            _ if dims == 3 => draw.size(8),
            0 | 1 => draw.of(&EDGES),
            2 => draw.size(40),
            // A line of few outputs.
            _ => reach + draw.below(4 * stride),
        };
        let (before, after) = match draw.below(4) {
            // Padding that exporters call "same".
            0 | 1 => (reach / 2, (reach - 1) / 2),
            2 => (0, 0),
            _ => (draw.below(reach), draw.below(reach)),
        };
        let input = if draw.is_interpreted() { input.min(14) } else { input };
        let output = match transposed {
            true => ((input - 1) * stride + reach).checked_sub(before + after).filter(|&output| output > 0)?,
            false => (input + before + after).checked_sub(reach)? / stride + 1,
        };
        (shape.input[dim], shape.output[dim], shape.kernel[dim]) = (input as u64, output as u64, kernel as u64);
        (shape.strides[dim], shape.dilations[dim], shape.pads[dim]) = (stride as u64, dilation as u64, before as u64);
    }
    // A few are as large as those of networks; the reference takes long for these.
    let most = if draw.is_interpreted() { 1 << 18 } else { draw.of(&[1 << 20, 1 << 20, 1 << 20, 1 << 22, 1 << 24]) };
    if shape.work() > most {
        shape.batch = 1;
    }
    // Reduces channels instead of giving up the problem.
    while shape.work() > most && shape.channels() > shape.groups().min(64) {
        let fewer = |count: u64| (count / shape.groups).div_ceil(2) * shape.groups;
        if shape.groups == shape.channels {
            let times = shape.filters / shape.channels;
            shape.channels = shape.channels.div_ceil(2);
            (shape.groups, shape.filters) = (shape.channels, shape.channels * times);
        } else if shape.channels() == shape.groups() && shape.filters() == shape.groups() {
            break;
        } else {
            (shape.channels, shape.filters) = (fewer(shape.channels), fewer(shape.filters));
        }
    }
    (shape.work() <= most && shape.input_len().max(shape.output_len()) <= 1 << 21 && shape.validate().is_ok())
        .then_some(shape)
}

/// The first channels of all positions, and the others.
fn in_two(x: &[f32], [first, rest]: [usize; 2]) -> [Vec<f32>; 2] {
    let positions = || x.chunks(first + rest).map(|position| position.split_at(first));
    [
        positions().flat_map(|(first, _)| first.to_vec()).collect(),
        positions().flat_map(|(_, rest)| rest.to_vec()).collect(),
    ]
}

pub(crate) fn conv(draw: &mut Draw<'_>, isa: Isa) {
    let transposed = draw.below(5) == 4;
    let Some(shape) = shape(draw, transposed) else { return };
    let numerics = draw.of(&[Numerics::Default, Numerics::Strict]);
    // Some numbers of threads exceed the number of rows.
    let threads = draw.of(&[1, 2, 3, 4, 8, 64]);
    let wanted = draw.of(&[Elements::F32, Elements::F16, Elements::Bf16Dot, Elements::Bf16Tiles]);
    let elements = if wanted.suit(isa) { shape.weights().elements(wanted) } else { Elements::F32 };
    let candidates = ConvBlocks::candidates(isa, &shape, elements, numerics, threads, 24);
    let blocks = draw.of(&candidates);
    let [with_bias, with_residual, over, relu, at_end] = [(); 5].map(|()| draw.flag());
    let (x, weights) = (draw.integers(shape.input_len()), draw.integers(shape.weights().len()));
    let (bias, residual) = (draw.integers(shape.filters()), draw.integers(shape.output_len()));
    let mut want = reference::conv::conv(&shape, &x, &weights);
    let rms = (want.iter().map(|&y| f64::from(y).powi(2)).sum::<f64>() / want.len() as f64).sqrt() as f32;
    for (index, value) in want.iter_mut().enumerate() {
        *value += if with_bias { bias[index % shape.filters()] } else { 0.0 };
        *value += if with_residual { residual[index] } else { 0.0 };
        *value = if relu { value.max(0.0) } else { *value };
    }
    let layout = blocks.layout();
    let mut packed: Guarded<f32> = Guarded::blank(shape.weights().packed_len(isa, layout), at_end);
    let room = PackedWeightsMut::new(layout.elements(), bytemuck::cast_slice_mut(&mut packed));
    shape.weights().pack(isa, layout, &weights, room).unwrap();
    let weights = PackedWeights::new(layout.elements(), bytemuck::cast_slice(&packed));
    let types = [Stored::F32, Stored::Bf16];
    let [input, added, output] = [draw.of(&types), draw.of(&types), draw.of(&types)];
    let residual_type = if with_residual { added } else { Stored::F32 };
    let wanted = ConvStored { input, residual: residual_type, output };
    // Depthwise kernels add no residual to outputs in bf16.
    let suits = wanted.suits(blocks.strategy, blocks.elements, isa)
        && !(with_residual && blocks.strategy == Strategy::Depthwise);
    let stored = if suits { wanted } else { ConvStored::default() };
    let activation = relu.then_some(UnaryOp::Relu);
    let conv = Conv::stored(isa, shape, blocks, stored, activation, &EmitEach).unwrap();
    let first = draw.of(&[16, 32, 8]);
    let channels = [first, shape.channels().saturating_sub(first)];
    let in_parts = draw.flag() && channels[1] > 0 && conv.takes_parts(&channels);
    let parts = in_parts.then(|| in_two(&x, channels).map(|part| Both::new(&part, at_end)));
    let [x, residual] = [x, residual].map(|values| Both::new(&values, at_end));
    let bias = Guarded::of(&bias, at_end);
    let residual = with_residual.then(|| residual.get(stored.residual));
    let bias = with_bias.then_some(&*bias);
    let (mut scratch, mut y) = (Guarded::blank(conv.scratch_len(), at_end), Guarded::blank(want.len(), at_end));
    let mut halves: Guarded<u16> = Guarded::blank(want.len(), at_end);
    let over = over && stored.residual == stored.output && conv.writes_over_residual();
    match residual.filter(|_| over) {
        Some(Activations::F32(residual)) => y.copy_from_slice(residual),
        Some(Activations::Bf16(residual)) => halves.copy_from_slice(residual),
        None => (),
    }
    let to = match stored.output {
        Stored::F32 => ActivationsMut::F32(&mut y),
        Stored::Bf16 => ActivationsMut::Bf16(&mut halves),
    };
    let parts: Option<Vec<ConvPart<'_>>> = parts.as_ref().map(|parts| {
        let parts = parts.iter().zip(channels);
        parts.map(|(part, channels)| ConvPart { x: part.get(stored.input), channels }).collect()
    });
    let x = parts.as_ref().map_or(x.get(stored.input).into(), |parts| ConvInput::Parts(parts));
    let parallel = InTurn(threads);
    if over && residual.is_some() {
        conv.run_over_residual(x, weights, to, bias, &mut scratch, &parallel).unwrap();
    } else {
        conv.run_stored(x, weights, to, ConvExtras { bias, residual }, &mut scratch, &parallel).unwrap();
    }
    scratch.open();
    packed.open();
    // Sums of small whole numbers are exact; a transform is as far off as its policy allows.
    let most = if matches!(blocks.strategy, Strategy::Winograd(_)) { 1e-4 * rms.max(1.0) } else { 0.0 };
    if stored.output == Stored::Bf16 {
        // A result that is slightly off may be rounded the other way, to a neighbour that is up to 1/128 away: 274 for
        // 275, not 276.
        let step = if most > 0.0 { 1.0 / 128.0 } else { 0.0 };
        let found: Vec<f32> = halves.open().iter().copied().map(from_bf16).collect();
        let want: Vec<f32> = want.into_iter().map(|value| from_bf16(to_bf16(value))).collect();
        close(&found, &want, |want| most + step * want.abs(), &|| format!("{isa} {blocks:?} {stored:?} {shape:?}"));
        return;
    }
    close(y.open(), &want, |_| most, &|| format!("{isa} {blocks:?} {shape:?}"));
}

pub(crate) fn quantized(draw: &mut Draw<'_>, isa: Isa) {
    let Some(shape) = shape(draw, false) else { return };
    let signed = [draw.flag(), draw.flag()];
    let zero = |draw: &mut Draw<'_>, signed: bool| i32::from(draw.byte()) - if signed { 128 } else { 0 };
    let left_zero = zero(draw, signed[0]);
    let zeros: Vec<i32> = match draw.below(3) {
        0 => vec![0],
        1 => vec![zero(draw, signed[1])],
        _ => (0..shape.filters()).map(|_| zero(draw, signed[1])).collect(),
    };
    let (output, threads) = (draw.of(&[Output::Sums, Output::Floats, Output::Unsigned, Output::Signed]), draw.size(4));
    let (with_bias, clamped, at_end) = (draw.flag(), draw.flag(), draw.flag());
    let added = output.bytes() == 1 && draw.flag();
    let (x, weights) = (draw.raw(shape.input_len()), draw.raw(shape.weights().len()));
    let sizes = shape.weights();
    let source = WeightSource::convolution(&weights, signed[1], &zeros, &sizes);
    let narrow = source.fits_bytes(&sizes).unwrap();
    let forms = [Form::Words, Form::Widened, Form::Bytes, Form::Tiles, Form::Few];
    let forms: Vec<Form> =
        forms.into_iter().filter(|form| form.usable(isa) && (narrow || *form == Form::Words)).collect();
    let form = draw.of(&forms);
    let bias: Vec<i32> = draw.integers(shape.filters()).iter().map(|&x| x as i32 * 1000).collect();
    // Factors that bring sums of all sizes into the range of a byte.
    let reach = (shape.group_channels() * shape.taps()) as f32;
    let scale: Vec<f32> =
        (0..shape.filters()).map(|filter| (1 + filter % 3) as f32 / 64.0 / reach.sqrt().ceil()).collect();
    let terms = Terms {
        signed: signed[0],
        left_zero,
        bias: with_bias.then_some(&bias),
        scale: &scale,
        shift: None,
        low: if clamped { 0.0 } else { f32::NEG_INFINITY },
        high: if clamped { 6.0 } else { f32::INFINITY },
        zero: match output {
            Output::Unsigned => 117,
            Output::Signed => -3,
            _ => 0,
        },
        plus: None,
    };
    let mut want = reference::quantized::quantized(&shape, &x, &source, &terms, output);
    let other = if added { draw.raw(want.len()) } else { Vec::new() };
    let other_pages = Guarded::of(&other, at_end);
    let signed_output = output == Output::Signed;
    let rounding = Rounding { signed: signed_output, zero: 3, low: f32::NEG_INFINITY, high: f32::INFINITY };
    let plus = Plus { data: &other_pages, zero: 5, scale: 0.5, own_scale: 0.75, rounding };
    if added {
        let own = Addend { data: &want.clone(), signed: signed_output, zero: terms.zero, scale: plus.own_scale };
        let other = Addend { data: &other, signed: signed_output, zero: plus.zero, scale: plus.scale };
        add(Isa::Portable, own, other, rounding, &mut want);
    }
    let terms = Terms { plus: added.then_some(plus), ..terms };
    let blocks = QuantizedBlocks::pick(isa, &shape, form, threads);
    let residual = if added { Added::Second } else { Added::Nothing };
    let ready = Quantized::new(isa, shape, form, output, residual, blocks, &EmitEach).unwrap();
    let mut packed = Guarded::blank(ready.packed().words(), at_end);
    let weights = ready.pack(&source, &mut packed).unwrap();
    let (x, mut y) = (Guarded::of(&x, at_end), Guarded::blank(want.len(), at_end));
    let mut scratch = Guarded::blank(ready.scratch_len(), at_end);
    ready.run(&x, weights, &mut y, &terms, &mut scratch, &InTurn(threads)).unwrap();
    scratch.open();
    packed.open();
    let at = y.open().iter().zip(&want).position(|(found, want)| found != want);
    assert!(at.is_none(), "{isa} {form:?} {output:?} of {shape:?}: byte {at:?}");
}

pub(crate) fn pool(draw: &mut Draw<'_>, isa: Isa) {
    let kind = draw.of(&[
        PoolKind::Max,
        PoolKind::Average { include_pad: false },
        PoolKind::Average { include_pad: true },
        PoolKind::Lp { p: 1 },
        PoolKind::Lp { p: 2 },
        PoolKind::Lp { p: 3 },
    ]);
    let mut axes = [Window::NONE; 3];
    for axis in &mut axes[usize::from(draw.below(4) != 3)..] {
        let (input, kernel) = (draw.reach(12, 130) as u64, draw.reach(4, 31) as u64);
        let (stride, dilation) = (draw.reach(3, 9) as u64, draw.of(&[1, 1, 2, 3]));
        let pad = |draw: &mut Draw<'_>| draw.below((kernel as usize).min(3)) as u64;
        let (before, after, up) = (pad(draw), pad(draw), draw.flag());
        let Some(room) = (input + before + after).checked_sub((kernel - 1) * dilation + 1) else { return };
        let output = if up { room.div_ceil(stride) } else { room / stride } + 1;
        *axis = Window { input, output, kernel, stride, dilation, before, after };
    }
    let shape = PoolShape {
        batch: draw.size(2) as u64,
        channels: draw.reach(70, 1300) as u64,
        axes,
        channels_last: draw.flag(),
    };
    let (tasks, at_end) = (draw.of(&[1, 2, 3, 4, 5, 64]), draw.flag());
    let taps = shape.axes.iter().map(|axis| axis.kernel as usize).product::<usize>();
    let room = draw.room();
    if shape.inputs() > room || shape.outputs().saturating_mul(taps) > 16 * room {
        return;
    }
    let input = draw.floats(shape.inputs());
    let mut want = vec![0.0; shape.outputs()];
    reference::pool::pool(kind, &shape, &input, &mut want);
    let input = Guarded::of(&input, at_end);
    for path in [Path::Code, Path::Planar, Path::Reference, Path::Whole] {
        if !path.fits(kind, &shape, isa) {
            continue;
        }
        let pool = match Pool::new(kind, shape, isa, path, tasks, &EmitEach) {
            Err(KernelError::IsaMissing(_)) => return,
            other => other.unwrap(),
        };
        let mut output = Guarded::blank(want.len(), at_end);
        pool.run(&input, &mut output, &InTurn(tasks)).unwrap();
        let place = || format!("{kind:?} of {shape:?} by {path:?} at {isa}");
        close(output.open(), &want, |want| 1e-6 + 2e-6 * want.abs(), &place);
    }
}
