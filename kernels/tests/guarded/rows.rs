//! Families that traverse rows and columns: softmax, reductions, normalisations, rotations, extremes.

use kiln_kernels::cpu::blend::{Blend, Blender, Method, Taps};
use kiln_kernels::cpu::extreme::{Extreme, Extremes, Wanted};
use kiln_kernels::cpu::linear_attention::{self, Decay, LinearAttention, Positions, StateHeads, Written};
use kiln_kernels::cpu::norm::{
    Channels, GroupOperands, Groups, Local, LocalNorm, Moments, RowForm, RowNorm, RowOperands, RowResults,
};
use kiln_kernels::cpu::reduce::{Collapsed, Reduce, Reduction};
use kiln_kernels::cpu::rotary::{Angles, Rotary, Rotation};
use kiln_kernels::cpu::softmax::{Around, Softmax};
use kiln_kernels::{EmitEach, Isa, reference};

use super::draw::Draw;
use super::page::Guarded;
use super::{InTurn, close};

pub(crate) fn softmax(draw: &mut Draw<'_>, isa: Isa) {
    let around = Around {
        outer: draw.reach(100, 1000) as u64,
        length: draw.reach(140, 5000) as u64,
        inner: draw.of(&[1, 1, 2, 3, 7, 16, 33, 70]),
    };
    let (logarithm, tasks, at_end) = (draw.flag(), draw.of(&[1, 2, 3, 4, 64]), draw.flag());
    let [outer, length, inner] = [around.outer(), around.length(), around.inner()];
    if outer * length * inner > draw.room() {
        return;
    }
    let each = length * inner;
    let input: Vec<f32> = draw.integers(outer * each).iter().map(|x| x * 5.0).collect();
    let mut want = vec![0.0; input.len()];
    for (input, want) in input.chunks_exact(each).zip(want.chunks_exact_mut(each)) {
        reference::softmax::softmax(logarithm, input, inner, length, inner, want);
    }
    let softmax = Softmax::new(around, logarithm, isa, tasks, &EmitEach).unwrap();
    let (input, mut output) = (Guarded::of(&input, at_end), Guarded::blank(input.len(), at_end));
    softmax.run(&input, &mut output, &InTurn(tasks)).unwrap();
    let mut place = Guarded::of(&input, at_end);
    softmax.run_in_place(&mut place, &InTurn(tasks)).unwrap();
    // A sum that is added up in order is rounded once for each term.
    let sum = around.length as f32 * (f32::EPSILON / 2.0);
    // A logarithm is a difference of two numbers, and its error is that of the larger number.
    let bound = |want: f32| if logarithm { 3e-6 + sum + 3e-7 * want.abs() } else { (2e-6 + sum) * want.abs() + 1e-37 };
    for output in [output.open(), place.open()] {
        close(output, &want, bound, &|| format!("{around:?}, logarithm {logarithm}, {isa}"));
    }
}

pub(crate) fn reduce(draw: &mut Draw<'_>, isa: Isa) {
    let reduction = draw.of(&Reduction::ALL);
    let rank = draw.below(5);
    let shape: Vec<usize> = (0..rank).map(|_| draw.of(&[1, 2, 3, 5, 8, 17, 40, 70, 300, 2100])).collect();
    let count: usize = shape.iter().product();
    let axes = draw.byte();
    if count > draw.room() {
        return;
    }
    let (tasks, at_end) = (draw.of(&[1, 2, 3, 4, 5, 64]), draw.flag());
    // Positive and around one, so that products and logarithms stay comparable.
    let input: Vec<f32> = draw.floats(count).iter().map(|x| 1.0 + x / 16.0).collect();
    let collapsed = Collapsed::new(&shape, |axis| axes >> axis & 1 == 1);
    let mut groups = vec![vec![]; collapsed.output_len()];
    for (flat, &x) in input.iter().enumerate() {
        let (mut rest, mut to, mut step) = (flat, 0, 1);
        for axis in (0..rank).rev() {
            if axes >> axis & 1 == 0 {
                to += rest % shape[axis] * step;
                step *= shape[axis];
            }
            rest /= shape[axis];
        }
        groups[to].push(x);
    }
    let scale = if reduction == Reduction::Mean { 1.0 / collapsed.reduced_len() as f32 } else { 1.0 };
    let mut want = vec![0.0; groups.len()];
    for (group, want) in groups.iter().zip(&mut want) {
        reference::reduce::reduce(reduction.pass(), scale, group, 1, group.len(), std::slice::from_mut(want));
    }
    let reduce = Reduce::new(reduction, &collapsed, isa, tasks, &EmitEach).unwrap();
    let (input, mut output) = (Guarded::of(&input, at_end), Guarded::blank(want.len(), at_end));
    let mut scratch = Guarded::blank(reduce.scratch_len(), at_end);
    reduce.run(&input, &mut output, &mut scratch, &InTurn(tasks)).unwrap();
    scratch.open();
    let near = 4e-6 * (collapsed.reduced_len() as f32).sqrt();
    close(output.open(), &want, |want| near * want.abs().max(1.0), &|| format!("{reduction:?} of {shape:?}, {isa}"));
}

pub(crate) fn extreme(draw: &mut Draw<'_>, isa: Isa) {
    let (inner, length) = (draw.of(&[1, 1, 0]), draw.reach(150, 3000));
    let inner = if inner == 1 { 1 } else { draw.reach(150, 700) };
    let outer = draw.reach(60, 700);
    if outer * length * inner > draw.room() {
        return;
    }
    let (wanted, last) = (draw.of(&[Wanted::Greatest, Wanted::Least]), draw.flag());
    let (tasks, at_end, every) = (draw.size(4), draw.flag(), draw.of(&[usize::MAX, 97, 5, 2]));
    // Few different numbers, so that many are equal, and some NaNs.
    let mut input = draw.integers(outer * length * inner);
    input.iter_mut().skip(1).step_by(every).for_each(|value| *value = f32::NAN);
    let mut want = vec![0; outer * inner];
    for (block, want) in input.chunks_exact(length * inner).zip(want.chunks_exact_mut(inner)) {
        reference::extreme::find(wanted, last, block, length, inner, want);
    }
    let [outer, length, inner] = [outer, length, inner].map(|size| size as u64);
    let form = Extreme { outer, length, inner, wanted, last };
    let extremes = Extremes::new(form, isa, tasks, &EmitEach).unwrap();
    let mut output = Guarded::blank(want.len(), at_end);
    extremes.run(&Guarded::of(&input, at_end), &mut output, &InTurn(tasks)).unwrap();
    assert_eq!(output.open(), want, "{form:?}, {isa}");
}

pub(crate) fn blend(draw: &mut Draw<'_>, isa: Isa) {
    let (images, channels) = (draw.size(3), draw.reach(70, 300));
    let (area, places, taps) = (draw.reach(20, 300), draw.reach(20, 300), draw.of(&[1, 2, 3, 4, 8]));
    if images * (channels * (area + places) + places * taps) > draw.room() {
        return;
    }
    let method = draw.of(&[Method::Planes, Method::Rows, Method::Rows]);
    let method = if method.fits(isa) { method } else { Method::Planes };
    let (tasks, at_end) = (draw.size(4), draw.flag());
    let [input, weights] = [images * channels * area, images * places * taps].map(|count| draw.floats(count));
    // One element more than there are is outside.
    let elements: Vec<usize> = weights.iter().map(|_| draw.below(area + 1)).collect();
    let mut want = vec![0.0; images * channels * places];
    for (plane, want) in want.chunks_exact_mut(places).enumerate() {
        let read = plane / channels * places * taps..(plane / channels + 1) * places * taps;
        let plane = &input[plane * area..][..area];
        reference::blend::blend(plane, &elements[read.clone()], &weights[read], want);
    }
    let look = |image: usize, some: std::ops::Range<usize>, read: &mut Taps<'_>| {
        for (at, place) in some.enumerate() {
            for tap in 0..taps {
                let number = (image * taps + tap) * places + place;
                read.set(at, tap, Some(elements[number]).filter(|&element| element < area), weights[number]);
            }
        }
    };
    let [images, channels, area, places, taps] = [images, channels, area, places, taps].map(|size| size as u64);
    let form = Blend { images, channels, area, places, taps };
    let blender = Blender::new(form, isa, method, tasks, &EmitEach).unwrap();
    let mut scratch = Guarded::blank(blender.scratch(), at_end);
    let mut output = Guarded::blank(want.len(), at_end);
    blender.run(&Guarded::of(&input, at_end), &look, &mut scratch, &mut output, &InTurn(tasks)).unwrap();
    scratch.open();
    // The same bits at every level.
    close(output.open(), &want, |_| 0.0, &|| format!("{form:?}, {isa} by {method:?}"));
}

pub(crate) fn rotary(draw: &mut Draw<'_>, isa: Isa) {
    let (pairs, rest) = (draw.reach(70, 300), draw.of(&[0, 0, 1, 8, 33]));
    let form = Rotation {
        batch: draw.size(3) as u64,
        positions: draw.reach(5, 40) as u64,
        heads: draw.size(4) as u64,
        size: (2 * pairs + rest) as u64,
        rotated: 2 * pairs as u64,
        interleaved: draw.flag(),
        heads_first: draw.flag(),
    };
    let elements = form.elements().unwrap();
    if elements > draw.room() {
        return;
    }
    let (in_place, tasks, at_end, known) = (draw.flag(), draw.size(4), draw.flag(), draw.size(9));
    let input = draw.floats(elements);
    let (cosines, sines) = (draw.floats(known * pairs), draw.floats(known * pairs));
    let lines: Vec<usize> = (0..form.lines()).map(|_| draw.below(known)).collect();
    let mut want = input.clone();
    for (row, head) in want.chunks_exact_mut(form.size()).enumerate() {
        let (heads, positions) = (form.heads(), form.positions());
        let line = if form.heads_first { row / (heads * positions) * positions + row % positions } else { row / heads };
        let own = |table: &'_ [f32]| table[lines[line] * pairs..][..pairs].to_vec();
        reference::rotary::rotate(&mut head[..2 * pairs], &own(&cosines), &own(&sines), form.interleaved);
    }
    let rotary = Rotary::new(form, isa, tasks, &EmitEach).unwrap();
    let (cosines, sines) = (Guarded::of(&cosines, at_end), Guarded::of(&sines, at_end));
    let angles = Angles { cosines: &cosines, sines: &sines, lines: &lines };
    let mut output = if in_place { Guarded::of(&input, at_end) } else { Guarded::blank(elements, at_end) };
    match in_place {
        true => rotary.run_in_place(&mut output, angles, &InTurn(tasks)).unwrap(),
        false => rotary.run(&Guarded::of(&input, at_end), angles, &mut output, &InTurn(tasks)).unwrap(),
    }
    // The same bits at every level.
    close(output.open(), &want, |_| 0.0, &|| format!("{form:?}, {isa}, in place {in_place}"));
}

pub(crate) fn linear_attention(draw: &mut Draw<'_>, isa: Isa) {
    let (heads, keys) = draw.of(&[(1, 1), (2, 1), (2, 2), (4, 2), (3, 3)]);
    let heads = StateHeads {
        queries: draw.of(&[1, heads, 2 * heads]),
        keys,
        heads,
        key: draw.reach(20, 150) as u64,
        value: draw.reach(70, 150) as u64,
        decay: draw.of(&[Decay::None, Decay::Head, Decay::Row]),
        corrects: draw.flag(),
    };
    let (batch, steps, window) = (draw.size(2), draw.reach(12, 150), draw.of(&[0, 0, 1, 2, 7]));
    let (rate_each, tasks, at_end) = (draw.flag(), draw.size(4), draw.flag());
    let (places, lines) = (batch * steps, batch * heads.heads());
    let sizes = [places * heads.results(), places * heads.heads() * heads.key(), lines * heads.area() * (1 + window)];
    if sizes.into_iter().any(|size| size > draw.room()) {
        return;
    }
    let half = |values: Vec<f32>| values.into_iter().map(|x| x / 2.0).collect::<Vec<f32>>();
    let [queries, keys, values] =
        [heads.queries() * heads.key(), heads.keys() * heads.key(), heads.heads() * heads.value()]
            .map(|each| half(draw.floats(places * each)));
    let decays: Vec<f32> = draw.floats(places * heads.decays()).iter().map(|x| x - 1.0).collect();
    // Small rates, so that corrections do not grow.
    let rates = if heads.corrects { places * if rate_each { heads.heads() } else { 1 } } else { 0 };
    let rates: Vec<f32> = draw.floats(rates).iter().map(|x| x / heads.key() as f32).collect();
    let before = draw.floats(lines * heads.area());
    let operands = [&queries, &keys, &values, &decays, &rates].map(|values| Guarded::of(values, at_end));
    let [queries, keys, values, decays, rates] = &operands;
    let positions = Positions { batch, steps, queries, keys, values, decays, rates, rate_each, scale: 0.5 };
    let mut want = [before.clone(), vec![0.0; window * before.len()], vec![0.0; places * heads.results()]];
    let [states, earlier, answers] = &mut want;
    linear_attention::plain(&heads, positions, Written { states, earlier, answers }, 1, &InTurn(1)).unwrap();
    let blank = |length: usize| Guarded::blank(length, at_end);
    let (mut states, mut earlier, mut answers) =
        (Guarded::of(&before, at_end), blank(want[1].len()), blank(want[2].len()));
    let written = Written { states: &mut states, earlier: &mut earlier, answers: &mut answers };
    let attention = LinearAttention::new(heads, isa, &EmitEach).unwrap();
    attention.run(positions, written, tasks, &InTurn(tasks)).unwrap();
    for (found, want) in [states, earlier, answers].into_iter().zip(&want) {
        let most = want.iter().fold(1f32, |most, x| most.max(x.abs()));
        close(found.open(), want, |_| 1e-4 * most, &|| format!("{heads:?}, {isa}"));
    }
}

pub(crate) fn rows(draw: &mut Draw<'_>, isa: Isa) {
    let (rows, length, bits) = (draw.reach(6, 70), draw.reach(110, 5000), draw.byte());
    if rows * length > draw.room() {
        return;
    }
    let form = RowForm {
        rows: rows as u64,
        length: length as u64,
        centred: bits & 1 != 0,
        scale: bits & 2 != 0,
        bias: bits & 4 != 0,
        moments: bits & 8 != 0,
        output: Default::default(),
    };
    let (in_place, tasks, at_end) = (bits & 16 != 0, draw.size(3), draw.flag());
    let input: Vec<f32> = draw.floats(rows * length).iter().map(|x| x * 3.0 + 0.5).collect();
    let (scale, bias) = (Guarded::of(&draw.floats(length), at_end), Guarded::of(&draw.floats(length), at_end));
    let operands =
        RowOperands { scale: form.scale.then_some(&*scale), bias: form.bias.then_some(&*bias), epsilon: 1e-3 };
    let mut output = if in_place { Guarded::of(&input, at_end) } else { Guarded::blank(rows * length, at_end) };
    let (mut mean, mut deviation) = (Guarded::blank(rows, at_end), Guarded::blank(rows, at_end));
    let norm = RowNorm::new(form, isa, tasks, &EmitEach).unwrap();
    let moments = form.moments.then(|| (&mut *mean, &mut *deviation));
    let results = RowResults { output: (&mut output[..]).into(), moments };
    match in_place {
        true => norm.run_in_place(operands, results, &InTurn(tasks)).unwrap(),
        false => norm.run(&Guarded::of(&input, at_end), operands, results, &InTurn(tasks)).unwrap(),
    }
    let place = || format!("{form:?} at {isa}, in place {in_place}");
    let bound = |want: f32| 4e-6 * want.abs().max(1.0);
    for row in 0..rows {
        let here = row * length..(row + 1) * length;
        let mut want = vec![0.0; length];
        let moments = Moments { centred: form.centred, epsilon: 1e-3 };
        let found = reference::norm::row(&input[here.clone()], operands.scale, operands.bias, moments, &mut want);
        // The deviation of a row of one element, or of equal elements, is near the epsilon, and divides the row's
        // rounding errors.
        let bound = |want: f32| bound(want) * found.1.max(1.0);
        close(&output.open()[here], &want, bound, &place);
        if form.moments {
            close(&[mean.open()[row], deviation.open()[row]], &[found.0, found.1], bound, &place);
        }
    }
}

fn channels(draw: &mut Draw<'_>) -> Channels {
    let (channels, spatial) = (draw.reach(40, 700), draw.reach(50, 3500));
    let spatial = spatial.min(draw.room() / channels);
    Channels { batch: draw.size(2) as u64, channels: channels as u64, spatial: spatial as u64, last: draw.flag() }
}

pub(crate) fn groups(draw: &mut Draw<'_>, isa: Isa) {
    let shape = channels(draw);
    let divisors: Vec<usize> =
        (1..=shape.channels()).filter(|groups| shape.channels().is_multiple_of(*groups)).collect();
    let (groups, tasks, at_end) = (draw.of(&divisors), draw.size(4), draw.flag());
    let input = draw.floats(shape.batch() * shape.channels() * shape.spatial());
    let (scale, bias) = (draw.floats(shape.channels()), draw.floats(shape.channels()));
    let want = reference::norm::groups(shape, groups, 1e-3, &input, &scale, &bias);
    let norm = Groups::new(shape, groups, isa, tasks, &EmitEach).unwrap();
    let (input, mut output) = (Guarded::of(&input, at_end), Guarded::blank(want.len(), at_end));
    let (scale, bias) = (Guarded::of(&scale, at_end), Guarded::of(&bias, at_end));
    let mut scratch = Guarded::blank(norm.scratch_len(), at_end);
    let operands = GroupOperands { scale: &scale, bias: &bias, epsilon: 1e-3 };
    norm.run(&input, operands, &mut output, &mut scratch, &InTurn(tasks)).unwrap();
    scratch.open();
    // The reciprocal deviation is at most one over the root of the epsilon, and multiplies rounding errors.
    close(output.open(), &want, |want| 2e-5 * want.abs().max(1.0), &|| format!("{shape:?} in {groups}, {isa}"));
}

pub(crate) fn local(draw: &mut Draw<'_>, _: Isa) {
    let shape = channels(draw);
    let (size, beta) = (draw.of(&[1, 2, 3, 5, 9, 1000]), draw.of(&[0.5, 0.75, 1.25]));
    let local = Local { size: size as u64, alpha: 0.1.into(), beta: beta.into(), bias: 1.5.into() };
    let (tasks, at_end) = (draw.size(4), draw.flag());
    let input = draw.floats(shape.batch() * shape.channels() * shape.spatial());
    let mut want = vec![0.0; input.len()];
    reference::norm::local(shape, local, &input, &mut want);
    let (input, mut output) = (Guarded::of(&input, at_end), Guarded::blank(want.len(), at_end));
    LocalNorm::new(shape, local, tasks).unwrap().run(&input, &mut output, &InTurn(tasks)).unwrap();
    close(output.open(), &want, |want| 4e-6 * want.abs().max(1.0), &|| format!("{shape:?}, {local:?}"));
}
