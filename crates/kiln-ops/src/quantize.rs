//! Between numbers and their quantised forms: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
//!
//! One scale (and zero point) serves the whole tensor, one index of an axis, or a block of indices of an axis.

use std::sync::OnceLock;

use half::{bf16, f16};
use kiln_kernels::Isa;
use kiln_kernels::cpu::linear::{self, Bounds};
use kiln_kernels::cpu::quantized::prepare;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_kernels::parallel::{Parallel, for_each_chunk};
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::compact::widens;
use kiln_tensor::grain::Place;
use kiln_tensor::{DType, Expansion, Factors, Grain, Tensor, TensorError, TensorSpec, minifloat};

use super::cast::convert_part;
use super::wide::{Wide, limits, narrow, widened};
use super::{LoadCx, OpError, Operator, axis_of, optional, refused, required, type_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "QuantizeLinear", |cx| Ok(Box::new(Quantize(Settings::of(cx)?, cx.build.isa)))),
    ("", "DequantizeLinear", |cx| Ok(Box::new(Dequantize(Settings::of(cx)?, cx.build.isa)))),
    ("", "DynamicQuantizeLinear", |cx| Ok(Box::new(Dynamic(cx.build.isa)))),
];

/// The attributes of both directions.
struct Settings {
    axis: i64,
    block: usize,
    output: Option<DType>,
    /// The type in which the division is rounded; the scale's where there is none.
    precision: Option<DType>,
    saturate: bool,
}

impl Settings {
    fn of(cx: &LoadCx<'_>) -> Result<Settings, OpError> {
        let node: &NodeDesc = cx.node;
        let attributes = node.attributes();
        // The number 0 stands for no type.
        let given = |name| match attributes.declares(name) && attributes.flag(name) {
            true => type_attribute(node, name),
            false => Ok(None),
        };
        let block = usize::try_from(node.attributes().int("block_size"));
        Ok(Settings {
            axis: node.attributes().int("axis"),
            block: block.map_err(|_| OpError::invalid(node, "block_size must not be negative"))?,
            output: given("output_dtype")?,
            precision: given("precision")?,
            saturate: attributes.declares("saturate") && attributes.flag("saturate"),
        })
    }

    fn grain(&self, shape: &[usize], scale: &[usize]) -> Result<Grain, NodeError> {
        let axis = axis_of(self.axis, shape.len());
        let error = || refused(format!("a scale of shape {scale:?} does not fit {shape:?}, axis {}", self.axis));
        // One scale for the whole tensor needs no axis.
        match Grain::of(shape, scale, *axis.as_ref().unwrap_or(&usize::MAX), self.block) {
            Some(grain) => Ok(grain),
            None => Err(axis.err().unwrap_or_else(error)),
        }
    }
}

/// The zero points, as many as there are scales; zeros where none are given.
fn zero_points<W: Wide>(zero: Option<&Tensor>, scale: &Tensor) -> Result<Vec<W>, NodeError> {
    match zero {
        None => Ok(memory::zeroed(scale.len())),
        Some(zero) if zero.len() == scale.len() => widened(zero),
        Some(zero) => {
            Err(refused(format!("zero points of shape {:?} for scales of {:?}", zero.shape(), scale.shape())))
        }
    }
}

/// The scale and the zero point of a tensor between `f32` and bytes that has one of each: the case with vectorised
/// loops.
fn plain(numbers: DType, bytes: DType, scale: &Tensor, zero: Option<&Tensor>) -> Result<Option<(f32, i32)>, NodeError> {
    let is_plain = numbers == DType::F32
        && matches!(bytes, DType::U8 | DType::I8)
        && (scale.dtype(), scale.len()) == (DType::F32, 1)
        && zero.is_none_or(|zero| (zero.dtype(), zero.len()) == (bytes, 1));
    if !is_plain {
        return Ok(None);
    }
    let zero = zero_points::<i64>(zero, scale)?[0] as i32;
    Ok(Some((scale.as_slice::<f32>()?[0], zero)))
}

fn rounded_to(dtype: DType, value: f32) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(value).to_f32(),
        DType::BF16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// Whether a quotient in `f32` needs no further rounding to the type.
fn rounds_nothing(precision: DType) -> bool {
    !matches!(precision, DType::F16 | DType::BF16)
}

/// Elements of a task: longer than a thread takes to wake.
const SHARE: usize = 1 << 15;

/// Elements of a block: its numbers stay in L1 from one loop over them to the next.
const BLOCK: usize = 1 << 10;

/// Quantisation to integers of at most 16 bits.
struct Steps {
    isa: Isa,
    grain: Grain,
    scales: Vec<f32>,
    zeros: Vec<i32>,
    bounds: Bounds,
}

impl Steps {
    fn quantize(&self, from: &Tensor, to: &mut Tensor, parallel: &dyn Parallel) -> Result<(), NodeError> {
        let (numbers, quantized) = (from.dtype(), to.dtype());
        in_blocks(from, to, parallel, &|first, from, to| {
            let (mut values, mut steps) = ([0f32; BLOCK], [0i32; BLOCK]);
            let count = from.len() / numbers.size();
            let values: &[f32] = match numbers {
                DType::F32 => bytemuck::cast_slice(from),
                _ => {
                    convert_part(numbers, from, DType::F32, bytemuck::cast_slice_mut(&mut values[..count]))?;
                    &values[..count]
                }
            };
            self.grain.runs(first..first + count, |run, place| {
                let run = run.start - first..run.end - first;
                let (values, steps) = (&values[run.clone()], &mut steps[run]);
                match place {
                    Place::Shared(place) => {
                        let (scale, zero) = (self.scales[place], self.zeros[place]);
                        linear::quantize(self.isa, values, scale, zero, self.bounds, steps);
                    }
                    Place::Own(place) => {
                        let (scales, zeros) = (&self.scales[place..], &self.zeros[place..]);
                        linear::quantize_each(self.isa, values, scales, zeros, self.bounds, steps);
                    }
                }
            });
            convert_part(DType::I32, bytemuck::cast_slice(&steps[..count]), quantized, to)
        })
    }
}

/// Calls `block` for all elements of two tensors, in blocks of at most [`BLOCK`]: with the number of the block's first
/// element, and the bytes of both.
fn in_blocks(
    from: &Tensor,
    to: &mut Tensor,
    parallel: &dyn Parallel,
    block: &(dyn Fn(usize, &[u8], &mut [u8]) -> Result<(), NodeError> + Sync),
) -> Result<(), NodeError> {
    let (read, written) = (from.dtype().size(), to.dtype().size());
    let (from, failed) = (from.bytes(), OnceLock::new());
    for_each_chunk(parallel, to.bytes_mut(), SHARE * written, &|index, to| {
        let starts = (index * SHARE..).step_by(BLOCK);
        let made = starts.zip(to.chunks_mut(BLOCK * written)).try_for_each(|(first, to)| {
            let count = to.len() / written;
            block(first, &from[first * read..][..count * read], to)
        });
        if let Err(error) = made {
            // The first error is reported.
            let _ = failed.set(error);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

struct Quantize(Settings, Isa);

impl Quantize {
    fn output(&self, inputs: &[Option<&Tensor>]) -> Result<DType, NodeError> {
        let dtype = optional(inputs, 2).map(Tensor::dtype).or(self.0.output).unwrap_or(DType::U8);
        let holds = dtype.is_minifloat() && dtype != DType::F8E8M0 || limits(dtype).is_some() && dtype.size() <= 2;
        if holds { Ok(dtype) } else { Err(NodeError::Unsupported(format!("quantised elements of type {dtype}"))) }
    }
}

impl Node for Quantize {
    fn family(&self) -> &'static str {
        "QuantizeLinear"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.0.grain(required(inputs, 0)?.shape(), required(inputs, 1)?.shape())?;
        self.output(inputs).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, scale, mut output) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        let numbers = if self.0.precision.is_none_or(|own| own == DType::F32) { input.dtype() } else { DType::Bool };
        if let Some((scale, zero)) = plain(numbers, output.dtype(), scale, io.optional(2))? {
            let signed = output.dtype() == DType::I8;
            prepare::quantize(self.1, input.as_slice()?, scale, signed, zero, output.bytes_mut(), cx.parallel);
            io.push(output);
            return Ok(());
        }
        let grain = self.0.grain(input.shape(), scale.shape())?;
        let precision = self.0.precision.unwrap_or(scale.dtype());
        let scales = widened::<f32>(scale)?;
        let small = limits(output.dtype()).map(|(least, greatest)| (i32::try_from(least), i32::try_from(greatest)));
        if let Some((Ok(least), Ok(greatest))) = small.filter(|_| rounds_nothing(precision)) {
            let zeros: Vec<i32> =
                zero_points::<i64>(io.optional(2), scale)?.iter().map(|&zero| zero as i32).collected();
            let steps = Steps { isa: self.1, grain, scales, zeros, bounds: Bounds { least, greatest } };
            steps.quantize(input, &mut output, cx.parallel)?;
            io.push(output);
            return Ok(());
        }
        let values = widened::<f32>(input)?.into_iter().enumerate();
        let quotients = values
            .map(|(index, value)| (grain.place(index), value))
            .map(|(place, value)| (place, rounded_to(precision, value / scales[place])));
        let output = match limits(output.dtype()) {
            Some((least, greatest)) => {
                let zeros = zero_points::<i64>(io.optional(2), scale)?;
                let quantised: Vec<i64> = quotients
                    .map(|(place, value)| (value.round_ties_even() as i64).saturating_add(zeros[place]))
                    .map(|value| value.clamp(least, greatest as i64))
                    .collected();
                narrow(&quantised, output)?
            }
            None => {
                let (dtype, zeros) = (output.dtype(), zero_points::<f32>(io.optional(2), scale)?);
                let bytes = output.bytes_mut().iter_mut();
                let mut pace = Pace::default();
                bytes.zip(quotients).for_each(|(to, (place, value))| {
                    pace.step(2);
                    *to = minifloat::encode(dtype, value + zeros[place], self.0.saturate);
                });
                output
            }
        };
        io.push(output);
        Ok(())
    }
}

struct Dequantize(Settings, Isa);

impl Node for Dequantize {
    fn family(&self) -> &'static str {
        "DequantizeLinear"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        self.0.grain(required(inputs, 0)?.shape(), required(inputs, 1)?.shape())?;
        match outputs[0].dtype {
            output if output.is_float() => Ok(()),
            output => Err(NodeError::Unsupported(format!("dequantised elements of type {output}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, scale, mut output) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        if let Some((scale, zero)) = plain(output.dtype(), input.dtype(), scale, io.optional(2))? {
            let signed = input.dtype() == DType::I8;
            prepare::dequantize(self.1, input.bytes(), signed, zero, scale, output.as_mut_slice()?, cx.parallel);
            io.push(output);
            return Ok(());
        }
        let grain = self.0.grain(input.shape(), scale.shape())?;
        let (scales, zeros) = (widened::<f32>(scale)?, zero_points::<f64>(io.optional(2), scale)?);
        if widens(input.dtype()) || zeros.iter().all(|&zero| zero == 0.0) {
            // The difference of two numbers that `f32` holds is rounded once, as here.
            let fewer = || refused(format!("{} scales for {} elements", scale.len(), input.len()));
            let factors = |values: Vec<f32>| Factors::new(values, grain, input.len()).ok_or_else(fewer);
            let shifts = zeros.iter().any(|&zero| zero != 0.0);
            let zero = shifts.then(|| factors(zeros.iter().map(|&zero| zero as f32).collected())).transpose()?;
            let expansion = Expansion { zero, scale: Some(factors(scales)?) };
            dequantize(input, &expansion, &mut output, cx.parallel)?;
            io.push(output);
            return Ok(());
        }
        let values = widened::<f64>(input)?.into_iter().enumerate();
        let real: Vec<f32> = values
            .map(|(index, value)| (grain.place(index), value))
            // The difference of two integers is exact in `f64`, and rounded once.
            .map(|(place, value)| (value - zeros[place]) as f32 * scales[place])
            .collected();
        let output = narrow(&real, output)?;
        io.push(output);
        Ok(())
    }
}

/// Numbers from elements that `f32` holds, or that are rounded to it once.
fn dequantize(from: &Tensor, expansion: &Expansion, to: &mut Tensor, parallel: &dyn Parallel) -> Result<(), NodeError> {
    let (quantized, numbers) = (from.dtype(), to.dtype());
    in_blocks(from, to, parallel, &|first, from, to| {
        if numbers == DType::F32 {
            convert_part(quantized, from, numbers, to)?;
            expansion.apply(first, bytemuck::cast_slice_mut(to));
            return Ok(());
        }
        let mut values = [0f32; BLOCK];
        let values = &mut values[..from.len() / quantized.size()];
        convert_part(quantized, from, DType::F32, bytemuck::cast_slice_mut(values))?;
        expansion.apply(first, values);
        convert_part(DType::F32, bytemuck::cast_slice(values), numbers, to)
    })
}

/// Quantises to `u8` over the range of the data.
struct Dynamic(Isa);

impl Node for Dynamic {
    fn family(&self) -> &'static str {
        "DynamicQuantizeLinear"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            DType::F32 => Ok(()),
            found => Err(TensorError::Type { expected: DType::F32, found }.into()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut output) = (io.input(0)?.as_slice::<f32>()?, io.alloc(0)?);
        // Zero must have an exact code, so the range includes it.
        let [least, greatest] = prepare::extremes(self.0, input, cx.parallel);
        let scale = (greatest - least) / 255.0;
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
        prepare::quantize(self.0, input, scale, false, zero as i32, output.bytes_mut(), cx.parallel);
        io.push(output);
        io.push(Tensor::scalar(scale));
        io.push(Tensor::scalar(zero as u8));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_tensor::TensorSpec;

    use super::*;
    use crate::trial::{Trial, onnx_code};

    fn quantize(shape: &[usize], values: &[f32]) -> Trial {
        Trial::new("QuantizeLinear").input(shape, values)
    }

    #[test]
    fn values_are_divided_rounded_to_even_shifted_and_clamped() {
        let row = || quantize(&[6], &[0.0, 2.0, 3.0, 1000.0, -254.0, -1000.0]).input(&[], &[2f32]);
        row().input(&[], &[128u8]).gives(&[6], &[128u8, 129, 130, 255, 1, 0]);
        row().gives(&[6], &[0u8, 1, 2, 255, 0, 0]);
        row().int("output_dtype", onnx_code(DType::I16)).gives(&[6], &[0i16, 1, 2, 500, -127, -500]);
        row().input(&[], &[0i32]).is_refused("int32");
        let nibbles = quantize(&[3], &[1.0, 100.0, -100.0]).input(&[], &[1f32]);
        let nibbles = nibbles.int("output_dtype", onnx_code(DType::I4)).run().unwrap();
        assert_eq!(nibbles[0].bytes(), [1, 7, 0xf8]);
        let floats = quantize(&[2], &[1.0, 1e9]).input(&[], &[1f32]).int("output_dtype", onnx_code(DType::F8E4M3));
        assert_eq!(floats.run().unwrap()[0].bytes(), [0x38, 0x7e]);
    }

    #[test]
    fn scales_serve_a_tensor_an_axis_or_blocks() {
        let values = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        quantize(&[2, 3], &values).int("axis", 0).input(&[2], &[1f32, 2.0]).gives(&[2, 3], &[1u8, 2, 3, 2, 2, 3]);
        let blocks = quantize(&[2, 3], &values).int("axis", -1).int("block_size", 2);
        blocks.input(&[2, 2], &[1f32, 3.0, 2.0, 6.0]).gives(&[2, 3], &[1u8, 2, 1, 2, 2, 1]);
        quantize(&[2, 3], &values).input(&[2], &[1f32; 2]).is_refused("does not fit");
        quantize(&[2, 3], &values).int("block_size", 2).input(&[2, 3], &[1f32; 6]).is_refused("does not fit");
        quantize(&[2, 3], &values).input(&[3], &[1f32; 3]).input(&[], &[0u8]).is_refused("zero points");
        quantize(&[1], &[1.0]).int("block_size", -1).input(&[1], &[1f32]).is_refused("block_size");
    }

    #[test]
    fn dequantising_shifts_and_scales() {
        let row =
            Trial::new("DequantizeLinear").input(&[3], &[0u8, 128, 255]).input(&[], &[0.5f32]).input(&[], &[128u8]);
        row.gives(&[3], &[-64f32, 0.0, 63.5]);
        let half = f16::from_f32(0.5);
        Trial::new("DequantizeLinear").input(&[1], &[4i8]).input(&[], &[half]).gives(&[1], &[f16::from_f32(2.0)]);
        let small = Tensor::from_bytes(TensorSpec::new(DType::F8E4M3, [1]), &[0x38]).unwrap();
        Trial::new("DequantizeLinear").tensor(small).input(&[], &[3f32]).gives(&[1], &[3f32]);
        Trial::new("DequantizeLinear").input(&[1], &[i32::MIN]).input(&[], &[1f32]).gives(&[1], &[-2_147_483_648f32]);
    }

    #[test]
    fn long_tensors_give_what_each_element_gives_alone() {
        const SHAPE: [usize; 3] = [5, 67, 211];
        let count = SHAPE.iter().product::<usize>();
        assert!(count > 2 * SHARE, "several tasks");
        let grain = |shape: &[usize], axis, block| Grain::of(&SHAPE, shape, axis, block).unwrap();
        let values: Vec<f32> = (0..count).map(|at| ((at * 7919 % 30011) as f32 - 15000.0) * 0.013).collect();
        let bytes: Vec<i8> = (0..count).map(|at| (at * 37 % 251) as u8 as i8).collect();
        for (shape, axis, block) in
            [(vec![67], 1, 0), (vec![211], 2, 0), (vec![5, 9, 211], 1, 8), (vec![5, 67, 14], 2, 16)]
        {
            let (grain, steps) = (grain(&shape, axis, block), shape.iter().product::<usize>());
            let scales: Vec<f32> = (0..steps).map(|at| 0.4 + (at % 19) as f32 * 0.11).collect();
            let zeros: Vec<i8> = (0..steps).map(|at| (at % 23) as i8 - 11).collect();
            let trial = |op: &str| Trial::new(op).int("axis", axis as i64).int("block_size", block as i64);
            let quantised = values.iter().enumerate().map(|(at, value)| {
                let place = grain.place(at);
                ((value / scales[place]).round_ties_even() + f32::from(zeros[place])).clamp(-128.0, 127.0) as i8
            });
            let with = trial("QuantizeLinear").input(&SHAPE, &values).input(&shape, &scales).input(&shape, &zeros);
            with.gives(&SHAPE, &quantised.collect::<Vec<_>>());
            let back: Vec<f32> = bytes
                .iter()
                .enumerate()
                .map(|(at, &byte)| {
                    let place = grain.place(at);
                    (f32::from(byte) - f32::from(zeros[place])) * scales[place]
                })
                .collect();
            let with = trial("DequantizeLinear").input(&SHAPE, &bytes).input(&shape, &scales).input(&shape, &zeros);
            with.gives(&SHAPE, &back);
            let halves: Vec<f16> = scales.iter().map(|&scale| f16::from_f32(scale)).collect();
            let back = bytes.iter().enumerate().map(|(at, &byte)| {
                let place = grain.place(at);
                f16::from_f32((f32::from(byte) - f32::from(zeros[place])) * halves[place].to_f32())
            });
            let with = trial("DequantizeLinear").input(&SHAPE, &bytes).input(&shape, &halves).input(&shape, &zeros);
            with.gives(&SHAPE, &back.collect::<Vec<_>>());
        }
    }

    #[test]
    fn zero_points_beyond_f32_are_subtracted_before_rounding() {
        let wide = Trial::new("DequantizeLinear").input(&[2], &[i32::MAX, 16_777_217]).input(&[], &[1f32]);
        wide.input(&[], &[i32::MAX - 1]).gives(&[2], &[1f32, -2_130_706_432.0]);
    }

    #[test]
    fn the_range_of_the_data_decides_dynamic_quantisation() {
        let row = Trial::new("DynamicQuantizeLinear").outputs(3).input(&[3], &[0f32, 2.55, -0.0]).run().unwrap();
        assert_eq!(row[0].as_slice::<u8>().unwrap(), [0, 255, 0]);
        assert_eq!(row[1].as_slice::<f32>().unwrap(), [0.01]);
        assert_eq!(row[2].as_slice::<u8>().unwrap(), [0]);
        Trial::new("DynamicQuantizeLinear").outputs(3).input::<f32>(&[0], &[]).gives::<u8>(&[0], &[]);
    }
}
