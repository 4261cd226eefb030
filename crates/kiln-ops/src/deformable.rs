//! DeformConv: a convolution whose window's elements are each moved by an offset, and weighed by a mask.
//!
//! `f32` is computed as a matrix product. The channels of an image are put last, so that what an element of the window
//! sees is a weighted sum of four rows of channels. The windows of some positions are rows of a matrix, which the
//! filters multiply. `f64` is computed element by element, by the definition.

use std::ops::Range;
use std::sync::Arc;

use kiln_kernels::Parallel;
use kiln_kernels::cpu::gemm::{Extras, Matmul, MatmulStored};
use kiln_kernels::cpu::transpose::Transpose;
use kiln_kernels::cpu::{Elements, PackedWeights};
use kiln_kernels::memory::{self, Pace};
use kiln_kernels::parallel::{for_each_chunk, part};
use kiln_run::exec::matmul::{BatchStep, MatMulProblem, Stored};
use kiln_run::exec::transpose::TransposeProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::convert::through_f32;
use super::double::with_double;
use super::sliding::{Slide, Sliding};
use super::tasks::task_count;
use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "DeformConv", |cx| {
    with_double(cx, |cx| Ok(Box::new(Double(DeformConv::read(cx)?))), |cx| through_f32(cx, make))
})];

struct DeformConv {
    sliding: Sliding,
    groups: usize,
    offset_groups: usize,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(DeformConv::read(cx)?))
}

struct Sizes {
    channels: usize,
    filters: usize,
    slide: Slide,
}

impl Sizes {
    fn positions(&self) -> usize {
        self.slide.positions()
    }

    fn window(&self) -> usize {
        self.slide.kernel.iter().product()
    }

    /// Whether images have no elements, so that windows see zeros alone.
    fn is_blank(&self) -> bool {
        self.channels == 0 || self.area() == 0
    }

    /// Elements of a channel of an image.
    fn area(&self) -> usize {
        self.slide.input.iter().product()
    }
}

/// Elements of the windows that are multiplied at once: 4 MiB, which stay in an L2 or a share of L3.
const SEEN: usize = 1 << 20;
/// Positions that are multiplied at once, at least.
const FEWEST: usize = 64;

/// Some positions of an image.
struct Here {
    image: usize,
    positions: Range<usize>,
}

/// The executors of one shape.
struct Executors {
    /// Puts the channels of an image last.
    image: Arc<Transpose>,
    /// Puts the channels of filters last.
    filters: Arc<Transpose>,
    /// Positions are multiplied in this many blocks.
    blocks: usize,
    /// The products of blocks of the least size, and of those with a position more.
    products: [Arc<Matmul>; 2],
}

impl DeformConv {
    fn read(cx: &LoadCx<'_>) -> Result<DeformConv, OpError> {
        let groups = size_attribute(cx.node, "group", 1)?;
        let offset_groups = size_attribute(cx.node, "offset_group", 1)?;
        Ok(DeformConv { sliding: Sliding::read(cx.node, "kernel_shape")?, groups, offset_groups })
    }

    /// The product of the filters and the windows of `positions` positions.
    fn problem(&self, sizes: &Sizes, positions: usize) -> MatMulProblem {
        let (m, k) = (sizes.filters / self.groups, sizes.channels / self.groups * sizes.window());
        let step = BatchStep { size: self.groups as u64, left: (m * k) as u64, right: (positions * k) as u64 };
        MatMulProblem {
            m: m as u64,
            n: positions as u64,
            k: k as u64,
            batch: [step].into_iter().collect(),
            left: Stored::Rows,
            right: Stored::Columns,
            elements: Elements::F32,
            scale: 1.0.into(),
            bias: false,
            activation: None,
            stored: MatmulStored::default(),
        }
    }

    /// Writes what the windows at some positions of an image see: for each group and position a row of the window's
    /// elements, each with the channels of the group. `pixels` has the image, channels last.
    fn see(
        &self,
        sizes: &Sizes,
        here: Here,
        pixels: &[f32],
        moves: &Moves<'_>,
        seen: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let (window, each) = (sizes.window(), sizes.channels / self.groups);
        let Here { image, positions } = here;
        let count = positions.len();
        let of_offsets = sizes.channels / self.offset_groups;
        let row = window * each;
        let rows = self.groups * count;
        let share = rows.div_ceil(task_count(seen.len().saturating_mul(SAMPLED), parallel));
        for_each_chunk(parallel, seen, share * row, &|index, seen| {
            let mut pace = Pace::default();
            for (at, seen) in seen.chunks_exact_mut(row).enumerate() {
                pace.step(row);
                let (group, position) = ((index * share + at) / count, positions.start + (index * share + at) % count);
                for (element, seen) in seen.chunks_exact_mut(each).enumerate() {
                    let mut channel = group * each;
                    let mut rest = seen;
                    while !rest.is_empty() {
                        let moved = (image * self.offset_groups + channel / of_offsets) * window + element;
                        let alike = (of_offsets - channel % of_offsets).min(rest.len());
                        let (seen, later) = rest.split_at_mut(alike);
                        moves.sample(sizes, pixels, channel, [position, element, moved], seen);
                        (rest, channel) = (later, channel + alike);
                    }
                }
            }
        });
    }

    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let [image, weights, offsets] =
            [required(inputs, 0)?.shape(), required(inputs, 1)?.shape(), required(inputs, 2)?.shape()];
        let error = || refused(format!("weights of {weights:?} and offsets of {offsets:?} over {image:?}"));
        let (&[batch, channels, height, width], &[filters, each, kernel_height, kernel_width]) = (image, weights)
        else {
            return Err(error());
        };
        let slide = self.sliding.over(&[height, width], &[kernel_height, kernel_width])?;
        let moved = |parts: usize| {
            let lines = self.offset_groups.checked_mul(kernel_height * kernel_width)?.checked_mul(parts)?;
            Some([batch, lines, slide.output[0], slide.output[1]])
        };
        let shape = |index| optional(inputs, index).map(Tensor::shape);
        let fits = each.checked_mul(self.groups) == Some(channels)
            && filters % self.groups == 0
            && channels % self.offset_groups == 0
            && Some(offsets) == moved(2).as_ref().map(|shape| &shape[..])
            && shape(3).is_none_or(|bias| bias == [filters])
            && shape(4).is_none_or(|mask| Some(mask) == moved(1).as_ref().map(|shape| &shape[..]));
        if fits { Ok(Sizes { channels, filters, slide }) } else { Err(error()) }
    }
}

/// Refuses tensors of another type.
fn all_of_type(dtype: DType, inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
    match inputs.iter().flatten().find(|tensor| tensor.dtype() != dtype) {
        Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
        None => Ok(()),
    }
}

/// Sampling an element takes as long as moving this many bytes.
const SAMPLED: usize = 16;

/// How far each element of the window is moved at each position, and what it weighs.
struct Moves<'a> {
    offsets: &'a [f32],
    mask: Option<&'a [f32]>,
}

impl Moves<'_> {
    /// Writes what an element of the window sees of the channels from `channel` on. `moved` is the number of the
    /// element among those of all images and groups of offsets.
    fn sample(
        &self,
        sizes: &Sizes,
        pixels: &[f32],
        channel: usize,
        [position, element, moved]: [usize; 3],
        seen: &mut [f32],
    ) {
        let positions = sizes.positions();
        let [y, x] = sizes.slide.place(position, element);
        let offset = |part: usize| self.offsets[(2 * moved + part) * positions + position];
        let (y, x) = (y as f32 + offset(0), x as f32 + offset(1));
        let weight = self.mask.map_or(1.0, |mask| mask[moved * positions + position]);
        let (height, width) = (sizes.slide.input[0] as f32, sizes.slide.input[1] as f32);
        let (top, left) = (y.floor(), x.floor());
        let (down, right) = (y - top, x - left);
        let row = |y: f32, x: f32| {
            let inside = (0.0..height).contains(&y) && (0.0..width).contains(&x);
            let at = |y: usize, x: usize| (y * sizes.slide.input[1] + x) * sizes.channels + channel;
            inside.then(|| &pixels[at(y as usize, x as usize)..][..seen.len()])
        };
        let around = [
            ((1.0 - down) * (1.0 - right) * weight, row(top, left)),
            ((1.0 - down) * right * weight, row(top, left + 1.0)),
            (down * (1.0 - right) * weight, row(top + 1.0, left)),
            (down * right * weight, row(top + 1.0, left + 1.0)),
        ];
        if let [(a, Some(first)), (b, Some(second)), (c, Some(third)), (d, Some(fourth))] = around {
            let rows = first.iter().zip(second).zip(third.iter().zip(fourth));
            for (seen, ((w, x), (y, z))) in seen.iter_mut().zip(rows) {
                *seen = a * w + b * x + (c * y + d * z);
            }
            return;
        }
        // What lies outside of the image is zero.
        seen.fill(0.0);
        for (weight, row) in around {
            seen.iter_mut().zip(row.unwrap_or_default()).for_each(|(seen, x)| *seen += weight * x);
        }
    }
}

impl Node for DeformConv {
    fn family(&self) -> &'static str {
        "DeformConv"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        all_of_type(DType::F32, inputs)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let sizes = self.sizes(inputs)?;
        if outputs[0].shape.contains(&0) || sizes.is_blank() {
            return Ok(Prepared::NONE);
        }
        let moving = |shape: &[usize], perm: &[usize]| {
            cx.executor(&cx.key(TransposeProblem::new(shape, perm, size_of::<f32>())))
        };
        let (positions, window) = (sizes.positions(), sizes.window());
        let most = (SEEN / (sizes.channels * window)).max(FEWEST);
        let blocks = positions.div_ceil(most);
        let product = |positions: usize| cx.executor(&cx.key(self.problem(&sizes, positions)));
        let least = product(positions / blocks)?;
        let more = if positions.is_multiple_of(blocks) { least.clone() } else { product(positions / blocks + 1)? };
        Ok(Prepared::new(Arc::new(Executors {
            image: moving(&[sizes.channels, sizes.area()], &[1, 0])?,
            filters: moving(&[sizes.filters, sizes.channels / self.groups, window], &[0, 2, 1])?,
            blocks,
            products: [least, more],
        })))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        let sizes = self.sizes(&io.inputs())?;
        let bias = io.optional(3).map(Tensor::as_slice::<f32>).transpose()?;
        if output.is_empty() || sizes.is_blank() {
            let filters = output.as_mut_slice::<f32>()?.chunks_mut(sizes.positions().max(1));
            for (number, output) in filters.enumerate() {
                output.fill(bias.map_or(0.0, |bias| bias[number % sizes.filters]));
            }
            io.push(output);
            return Ok(());
        }
        let Executors { image, filters, blocks, products } = prepared.get::<Executors>()?;
        let positions = sizes.positions();
        let most = positions.div_ceil(*blocks);
        let mask = io.optional(4).map(Tensor::as_slice::<f32>).transpose()?;
        let moves = Moves { offsets: io.input(2)?.as_slice()?, mask };
        let mut turned = cx.scratch::<f32>(io.input(1)?.len())?;
        filters.run(io.input(1)?.bytes(), turned.bytes_mut(), cx.parallel)?;
        let mut pixels = cx.scratch::<f32>(sizes.channels * sizes.area())?;
        let mut seen = cx.scratch::<f32>(sizes.channels * sizes.window() * most)?;
        let mut product = cx.scratch::<f32>(sizes.filters * most)?;
        let mut scratch = cx.scratch::<f32>(products.iter().map(|product| product.scratch_len()).max().unwrap_or(0))?;
        let images = io.input(0)?.as_slice::<f32>()?.chunks_exact(sizes.channels * sizes.area());
        let outputs = output.as_mut_slice::<f32>()?.chunks_exact_mut(sizes.filters * positions);
        for (number, (from, to)) in images.zip(outputs).enumerate() {
            image.run(bytemuck::cast_slice(from), pixels.bytes_mut(), cx.parallel)?;
            for block in 0..*blocks {
                cx.check_stop()?;
                let here = part(positions, *blocks, block);
                let seen = &mut seen.as_mut_slice::<f32>()?[..sizes.channels * sizes.window() * here.len()];
                let place = Here { image: number, positions: here.clone() };
                self.see(&sizes, place, pixels.as_slice()?, &moves, seen, cx.parallel);
                let matmul = &products[usize::from(here.len() != positions / blocks)];
                let (right, product) = (PackedWeights::F32(seen), &mut product.as_mut_slice::<f32>()?);
                let product = &mut product[..sizes.filters * here.len()];
                let scratch = scratch.as_mut_slice()?;
                matmul.run(turned.as_slice()?, right, product, Extras::default(), scratch, cx.parallel)?;
                for (filter, product) in product.chunks_exact(here.len()).enumerate() {
                    let bias = bias.map_or(0.0, |bias| bias[filter]);
                    let to = &mut to[filter * positions..][here.clone()];
                    to.iter_mut().zip(product).for_each(|(to, sum)| *to = sum + bias);
                }
            }
        }
        io.push(output);
        Ok(())
    }
}

/// DeformConv of `f64`, by the definition.
struct Double(DeformConv);

/// The value between elements; zero outside.
fn between(plane: &[f64], [height, width]: [usize; 2], y: f64, x: f64) -> f64 {
    let (top, left) = (y.floor(), x.floor());
    let at = |y: f64, x: f64| {
        let inside = (0.0..height as f64).contains(&y) && (0.0..width as f64).contains(&x);
        if inside { plane[y as usize * width + x as usize] } else { 0.0 }
    };
    let (down, right) = (y - top, x - left);
    (1.0 - down) * ((1.0 - right) * at(top, left) + right * at(top, left + 1.0))
        + down * ((1.0 - right) * at(top + 1.0, left) + right * at(top + 1.0, left + 1.0))
}

impl Node for Double {
    fn family(&self) -> &'static str {
        "DeformConv"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.0.sizes(inputs)?;
        all_of_type(DType::F64, inputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Sizes { channels, filters, slide } = self.0.sizes(&io.inputs())?;
        let (input, weights, offsets, to) =
            (widened::<f64>(io.input(0)?)?, widened::<f64>(io.input(1)?)?, widened::<f64>(io.input(2)?)?, io.alloc(0)?);
        let bias = io.optional(3).map(widened::<f64>).transpose()?;
        let mask = io.optional(4).map(widened::<f64>).transpose()?;
        let (window, positions) = (slide.kernel.iter().product::<usize>(), slide.positions());
        let (each, own_filters) = (channels / self.0.groups, filters / self.0.groups);
        let (size, area) = ([slide.input[0], slide.input[1]], slide.input[0] * slide.input[1]);
        let mut output = memory::zeroed::<f64>(to.len());
        for (index, sum) in output.iter_mut().enumerate() {
            let (line, position) = (index / positions, index % positions);
            let (image, filter) = (line / filters, line % filters);
            *sum = bias.as_ref().map_or(0.0, |bias| bias[filter]);
            for channel in 0..each {
                cx.check_stop()?;
                let from = filter / own_filters * each + channel;
                let plane = &input[(image * channels + from) * area..][..area];
                let group = from / (channels / self.0.offset_groups);
                for element in 0..window {
                    let moved = (image * self.0.offset_groups + group) * window + element;
                    let offset = |part: usize| offsets[(2 * moved + part) * positions + position];
                    let [y, x] = slide.place(position, element);
                    let seen = between(plane, size, y as f64 + offset(0), x as f64 + offset(1));
                    let weight = mask.as_ref().map_or(1.0, |mask| mask[moved * positions + position]);
                    *sum += weights[(filter * each + channel) * window + element] * weight * seen;
                }
            }
        }
        let output = narrow(&output, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    fn deform(offsets: &[f32; 8]) -> Trial {
        let image: Vec<f32> = (0..9).map(|v| v as f32).collect();
        let trial = Trial::new("DeformConv").input(&[1, 1, 3, 3], &image).input(&[1, 1, 1, 1], &[2f32]);
        trial.ints("strides", &[2, 2]).input(&[1, 2, 2, 2], offsets)
    }

    #[test]
    fn elements_of_the_window_move_and_are_weighed() {
        deform(&[0.0; 8]).gives(&[1, 1, 2, 2], &[0f32, 4.0, 12.0, 16.0]);
        deform(&[0.5, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0]).gives(&[1, 1, 2, 2], &[4f32, 4.0, 12.0, 16.0]);
        deform(&[-9.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, f32::NAN]).absent().run().unwrap();
        let whole = deform(&[0.0; 8]).input(&[1], &[1f32]).input(&[1, 1, 2, 2], &[1f32, 0.0, 0.5, 1.0]);
        whole.gives(&[1, 1, 2, 2], &[1f32, 1.0, 7.0, 17.0]);
        deform(&[0.0; 8]).input(&[2], &[0f32; 2]).is_refused("weights");
        deform(&[0.0; 8]).int("offset_group", 2).is_refused("weights");
        // A window over padding alone.
        let blank = Trial::new("DeformConv").ints("pads", &[1, 0, 1, 0]).input::<f32>(&[1, 1, 0, 2], &[]);
        let blank = blank.input(&[2, 1, 2, 1], &[1f32; 4]).input(&[1, 4, 1, 2], &[0f32; 8]);
        blank.input(&[2], &[3f32, 4.0]).gives(&[1, 2, 1, 2], &[3f32, 3.0, 4.0, 4.0]);
    }

    /// Numbers between -1 and 1 with many different fractions.
    fn numbers(count: usize, seed: usize) -> Vec<f64> {
        (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f64 / 1001.0 - 1.0).collect()
    }

    #[test]
    fn products_of_windows_are_what_the_definition_says() {
        // Images, channels, height, width; filters, window, groups, groups of offsets; strides, pads, dilations.
        let cases = [
            ([1, 4, 7, 9], [6, 3, 3], [1, 1], [1, 1, 1]),
            ([2, 6, 8, 8], [4, 3, 2], [2, 1], [2, 1, 1]),
            ([1, 12, 6, 5], [6, 1, 3], [3, 2], [1, 0, 1]),
            ([1, 8, 9, 9], [8, 3, 3], [2, 4], [1, 2, 2]),
            ([1, 5, 20, 30], [3, 2, 2], [1, 5], [1, 1, 1]),
            ([1, 64, 60, 62], [3, 5, 5], [1, 2], [1, 2, 1]),
        ];
        for (image, [filters, tall, wide], [groups, offset_groups], [stride, pad, dilation]) in cases {
            let [batch, channels, height, width] = image;
            let along = |size: usize, window: usize| (size + 2 * pad - (window - 1) * dilation - 1) / stride + 1;
            let (rows, columns) = (along(height, tall), along(width, wide));
            let weights = [filters, channels / groups, tall, wide];
            let offsets = [batch, 2 * offset_groups * tall * wide, rows, columns];
            let mask = [batch, offset_groups * tall * wide, rows, columns];
            let of = |shape: &[usize], seed: usize, scale: f64| -> Vec<f64> {
                // Exact in either type.
                numbers(shape.iter().product(), seed).iter().map(|x| f64::from((x * scale) as f32)).collect()
            };
            let inputs = [
                (&image[..], of(&image, 1, 1.0)),
                (&weights[..], of(&weights, 2, 0.3)),
                (&offsets[..], of(&offsets, 3, 2.5)),
                (&[filters][..], of(&[filters], 4, 1.0)),
                (&mask[..], of(&mask, 5, 1.0)),
            ];
            let node = || {
                let node =
                    Trial::new("DeformConv").int("group", groups as i64).int("offset_group", offset_groups as i64);
                let [stride, pad, dilation] = [stride, pad, dilation].map(|size| size as i64);
                node.ints("strides", &[stride; 2]).ints("pads", &[pad; 4]).ints("dilations", &[dilation; 2])
            };
            let wide = inputs.iter().fold(node(), |node, (shape, values)| node.input(shape, values)).run().unwrap();
            let narrow = inputs.iter().fold(node(), |node, (shape, values)| {
                node.input(shape, &values.iter().map(|&x| x as f32).collect::<Vec<_>>())
            });
            let narrow = narrow.run().unwrap();
            assert_eq!(wide[0].shape(), narrow[0].shape());
            for (&want, &found) in wide[0].as_slice::<f64>().unwrap().iter().zip(narrow[0].as_slice::<f32>().unwrap()) {
                assert!((want - f64::from(found)).abs() < 2e-4, "{image:?}: {found} for {want}");
            }
        }
    }
}
