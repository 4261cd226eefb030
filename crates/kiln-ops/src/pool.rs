//! Pooling operators: MaxPool, AveragePool, LpPool, and their global forms.
//!
//! Output sizes and padding follow ONNX; [`exec::pool`](kiln_run::exec::pool) does the rest in `f32`, and `f64` is
//! pooled window by window. MaxPool also takes bytes, window by window unless they are channels-last, and can return
//! the places of the largest elements ([`places`]).

mod places;

use kiln_kernels::cpu::pool::{Pool as Executor, PoolKind, PoolShape, Window};
use kiln_kernels::cpu::quantized::bytes::largest;
use kiln_kernels::gpu::source::pool::PoolKernel;
use kiln_kernels::memory;
use kiln_kernels::{Isa, Parallel, reference};
use kiln_model::NodeDesc;
use kiln_model::operators::spatial;
use kiln_run::DeviceCx;
use kiln_run::device::Operand;
use kiln_run::exec::pool::PoolProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::convert::through_f32;
use super::double::with_double;
use super::stored::{STORED, activations, activations_mut, stored};
use super::{LoadCx, MakeNode, OpError, Operator, refused, required};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "MaxPool", |cx| with_double(cx, make_max, |cx| either(cx, make_max))),
    ("", "AveragePool", |cx| with_double(cx, make_average, |cx| either(cx, make_average))),
    ("", "LpPool", |cx| with_double(cx, make_lp, |cx| through_f32(cx, make_lp))),
    ("", "GlobalMaxPool", |cx| with_double(cx, make_global_max, |cx| through_f32(cx, make_global_max))),
    ("", "GlobalAveragePool", |cx| with_double(cx, make_global_average, |cx| through_f32(cx, make_global_average))),
    ("", "GlobalLpPool", |cx| with_double(cx, make_global_lp, |cx| through_f32(cx, make_global_lp))),
];

/// Where padding comes from.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Given,
    Valid,
    SameUpper,
    SameLower,
}

/// Windows as the attributes describe them, one entry an axis.
pub(super) struct Windows {
    kernel: Vec<u64>,
    strides: Vec<u64>,
    dilations: Vec<u64>,
    /// Before all axes, then after all axes.
    pads: Vec<u64>,
    padding: Padding,
    ceil: bool,
}

struct Pool {
    kind: PoolKind,
    /// `None` where one window is the whole image.
    windows: Option<Windows>,
    channels_last: bool,
    /// Whether places of the largest elements are wanted, and whether they count columns first.
    places: Option<bool>,
    isa: Isa,
}

/// A pooling that reads `bf16` as it is where the graph says so, and else through a conversion.
fn either(cx: &LoadCx<'_>, make: MakeNode) -> Result<Box<dyn Node>, OpError> {
    if cx.node.attrs.contains_key(STORED) { make(cx) } else { through_f32(cx, make) }
}

fn make_max(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let places = (cx.node.outputs.len() > 1).then(|| cx.node.attributes().int("storage_order") != 0);
    make(cx, PoolKind::Max, Some(Windows::new(cx.node)?), places)
}

fn make_average(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let include_pad = cx.node.attributes().int("count_include_pad") != 0;
    make(cx, PoolKind::Average { include_pad }, Some(Windows::new(cx.node)?), None)
}

fn make_lp(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    make(cx, PoolKind::Lp { p: exponent(cx.node)? }, Some(Windows::new(cx.node)?), None)
}

fn make_global_max(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    make(cx, PoolKind::Max, None, None)
}

fn make_global_average(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    make(cx, PoolKind::Average { include_pad: false }, None, None)
}

fn make_global_lp(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    make(cx, PoolKind::Lp { p: exponent(cx.node)? }, None, None)
}

fn make(
    cx: &LoadCx<'_>,
    kind: PoolKind,
    windows: Option<Windows>,
    places: Option<bool>,
) -> Result<Box<dyn Node>, OpError> {
    let channels_last = cx.node.is_channels_last();
    Ok(Box::new(Pool { kind, windows, channels_last, places, isa: cx.build.isa }))
}

fn exponent(node: &NodeDesc) -> Result<u32, OpError> {
    let p = node.attributes().int("p");
    u32::try_from(p).ok().filter(|&p| p > 0).ok_or_else(|| OpError::invalid(node, format!("p = {p}")))
}

impl Windows {
    pub(super) fn new(node: &NodeDesc) -> Result<Windows, OpError> {
        let Some(kernel) = list(node, "kernel_shape")? else { return Err(OpError::invalid(node, "no kernel_shape")) };
        let axes = kernel.len();
        if !(1..=3).contains(&axes) {
            return Err(OpError::unsupported(node, format!("windows with {axes} axes")));
        }
        let sized = |name: &str, length: usize, default: u64| match list(node, name)? {
            None => Ok(memory::filled(default, length)),
            Some(list) if list.len() == length => Ok(list),
            Some(list) => Err(OpError::invalid(node, format!("{name} {list:?} for {axes} axes"))),
        };
        let strides = sized("strides", axes, 1)?;
        let dilations = sized("dilations", axes, 1)?;
        let pads = sized("pads", 2 * axes, 0)?;
        if kernel.iter().chain(&strides).chain(&dilations).any(|&step| step == 0) {
            return Err(OpError::invalid(node, "kernel, strides and dilations are at least 1"));
        }
        let padding = match node.attributes().text("auto_pad") {
            "NOTSET" => Padding::Given,
            "VALID" => Padding::Valid,
            "SAME_UPPER" => Padding::SameUpper,
            "SAME_LOWER" => Padding::SameLower,
            other => return Err(OpError::invalid(node, format!("auto_pad '{other}'"))),
        };
        Ok(Windows { kernel, strides, dilations, pads, padding, ceil: node.attributes().int("ceil_mode") != 0 })
    }

    /// The windows along one axis of `input` elements.
    fn axis(&self, axis: usize, input: u64) -> Result<Window, NodeError> {
        let axes = self.kernel.len();
        let (kernel, stride, dilation) = (self.kernel[axis], self.strides[axis], self.dilations[axis]);
        let window = Window { input, output: 0, kernel, stride, dilation, before: 0, after: 0 };
        if !window.is_valid() {
            return Err(refused(format!("windows of {kernel} by steps of {stride} on {input} elements")));
        }
        if matches!(self.padding, Padding::SameUpper | Padding::SameLower) {
            let output = input.div_ceil(stride);
            let total = (output.saturating_sub(1) * stride + window.span()).saturating_sub(input);
            let (less, more) = (total / 2, total - total / 2);
            let (before, after) = if self.padding == Padding::SameUpper { (less, more) } else { (more, less) };
            return Ok(Window { output, before, after, ..window });
        }
        let given = self.padding == Padding::Given;
        let (before, after) = if given { (self.pads[axis], self.pads[axes + axis]) } else { (0, 0) };
        let padded = Window { before, after, ..window };
        let output = spatial::pooled(input, [before, after], padded.span(), stride, self.ceil);
        let Some(output) = output.filter(|_| padded.is_valid()) else {
            return Err(refused(format!("a window of {} does not fit {input} elements", window.span())));
        };
        Ok(Window { output, ..padded })
    }
}

/// A list of integers that are not negative.
fn list(node: &NodeDesc, name: &str) -> Result<Option<Vec<u64>>, OpError> {
    let Some(values) = node.ints(name) else { return Ok(None) };
    let values: Result<Vec<u64>, _> = values.iter().map(|&value| u64::try_from(value)).collect();
    values.map(Some).map_err(|_| OpError::unsupported(node, format!("negative {name}")))
}

/// The images of that shape and the windows over them; without `windows`, one window over the whole image.
pub(super) fn pool_shape(
    windows: Option<&Windows>,
    channels_last: bool,
    dims: &[usize],
) -> Result<PoolShape, NodeError> {
    let axes = dims.len().saturating_sub(2);
    if !(1..=3).contains(&axes) || windows.is_some_and(|windows| windows.kernel.len() != axes) {
        let windows = windows.map_or(0, |windows| windows.kernel.len());
        return Err(refused(format!("shape {dims:?} does not go with windows of {windows} axes")));
    }
    let (channel, spatial) = if channels_last { (axes + 1, 1) } else { (1, 2) };
    let mut along = [Window::NONE; 3];
    for axis in 0..axes {
        let input = dims[spatial + axis] as u64;
        along[3 - axes + axis] = match windows {
            Some(windows) => windows.axis(axis, input)?,
            // An empty image still has its one window, which then sees nothing.
            None => Window { input, kernel: input.max(1), ..Window::NONE },
        };
    }
    let shape = PoolShape { batch: dims[0] as u64, channels: dims[channel] as u64, axes: along, channels_last };
    if shape.is_valid() { Ok(shape) } else { Err(refused(format!("shape {dims:?} is too large to pool"))) }
}

impl Pool {
    /// Whether it is pooled window by window, or a table of bytes at a time, without an executor.
    fn is_plain(&self, input: &Tensor) -> bool {
        input.dtype().size() == 1 || input.dtype() == DType::F64 || self.places.is_some()
    }

    fn shape(&self, input: &Tensor) -> Result<PoolShape, NodeError> {
        pool_shape(self.windows.as_ref(), self.channels_last, input.shape())
    }
}

impl Node for Pool {
    fn family(&self) -> &'static str {
        "pool"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        let bytes = matches!(input.dtype(), DType::I8 | DType::U8) && self.kind == PoolKind::Max;
        let bf16 = input.dtype() == DType::BF16 && self.channels_last && self.places.is_none();
        if ![DType::F32, DType::F64].contains(&input.dtype()) && !bytes && !bf16 {
            return Err(NodeError::Unsupported(format!("pooling of {}", input.dtype())));
        }
        self.shape(input).map(drop)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let input = required(inputs, 0)?;
        if self.is_plain(input) {
            return Ok(Prepared::NONE);
        }
        let shape = self.shape(input)?;
        let problem = PoolProblem { kind: self.kind, shape, stored: stored(input) };
        Ok(Prepared::new(cx.executor(&cx.key(problem))?))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let shape = self.shape(required(inputs, 0)?)?;
        cx.kernel(PoolKernel::new(self.kind, &shape)?, &[Some(Operand::Input(0))], Operand::Output(0))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let mut output = io.alloc(0)?;
        if !self.is_plain(input) {
            let executor = prepared.get::<Executor>()?;
            executor.run_stored(activations(input)?, activations_mut(&mut output)?, cx.parallel)?;
            io.push(output);
            return Ok(());
        }
        let shape = self.shape(input)?;
        if self.places.is_none() && shape.channels_last && input.dtype().size() == 1 {
            let signed = input.dtype() == DType::I8;
            largest(self.isa, &shape, signed, input.bytes(), output.bytes_mut(), cx.parallel);
            io.push(output);
            return Ok(());
        }
        let places = match self.places {
            None => None,
            Some(columns_first) => Some((columns_first, io.alloc(1)?)),
        };
        let places = match input.dtype() {
            DType::I8 => self.by_windows::<i8>(&shape, input, &mut output, places, cx.parallel)?,
            DType::U8 => self.by_windows::<u8>(&shape, input, &mut output, places, cx.parallel)?,
            DType::F64 => self.by_windows::<f64>(&shape, input, &mut output, places, cx.parallel)?,
            _ => self.by_windows::<f32>(&shape, input, &mut output, places, cx.parallel)?,
        };
        io.push(output);
        if let Some(places) = places {
            io.push(places);
        }
        Ok(())
    }
}

impl Pool {
    /// Pools window by window, and returns the places of the largest elements where they are wanted.
    fn by_windows<T: kiln_tensor::Element + reference::pool::PoolElement>(
        &self,
        shape: &PoolShape,
        input: &Tensor,
        output: &mut Tensor,
        places: Option<(bool, Tensor)>,
        parallel: &dyn Parallel,
    ) -> Result<Option<Tensor>, NodeError> {
        let (input, output) = (input.as_slice::<T>()?, output.as_mut_slice::<T>()?);
        let Some((columns_first, mut places)) = places else {
            reference::pool::pool_by(parallel, self.kind, shape, input, output);
            return Ok(None);
        };
        let at = places.as_mut_slice()?;
        if shape.channels_last || shape.input_pixels() == 0 {
            reference::pool::max_with_indices(parallel, shape, columns_first, input, output, at);
        } else {
            places::largest_with_places(shape, columns_first, input, output, at, parallel);
        }
        Ok(Some(places))
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    /// 1 to 25 in rows of five.
    fn square() -> Vec<f32> {
        (1..=25u8).map(f32::from).collect()
    }

    fn pool(op: &str, kernel: i64) -> Trial {
        Trial::new(op).ints("kernel_shape", &[kernel, kernel]).input(&[1, 1, 5, 5], &square())
    }

    #[test]
    fn windows_give_their_largest_mean_and_norm() {
        let strided = |op| pool(op, 2).ints("strides", &[2, 2]);
        strided("MaxPool").gives(&[1, 1, 2, 2], &[7f32, 9., 17., 19.]);
        strided("AveragePool").gives(&[1, 1, 2, 2], &[4f32, 6., 14., 16.]);
        strided("LpPool").int("p", 1).gives(&[1, 1, 2, 2], &[16f32, 24., 56., 64.]);
        pool("LpPool", 1).ints("strides", &[4, 4]).gives(&[1, 1, 2, 2], &[1f32, 5., 21., 25.]);
    }

    #[test]
    fn padding_counts_only_where_it_is_asked_for() {
        let corner = |include| {
            let pool = pool("AveragePool", 3).ints("strides", &[4, 4]).ints("pads", &[1, 1, 1, 1]);
            pool.int("count_include_pad", include)
        };
        corner(0).gives_about(&[1, 1, 2, 2], &[4., 7., 19., 22.]);
        corner(1).gives_about(&[1, 1, 2, 2], &[16. / 9., 28. / 9., 76. / 9., 88. / 9.]);
    }

    #[test]
    fn output_sizes_follow_ceil_mode_auto_pad_and_dilations() {
        let strided = || pool("MaxPool", 2).ints("strides", &[2, 2]);
        strided().int("ceil_mode", 1).gives(&[1, 1, 3, 3], &[7f32, 9., 10., 17., 19., 20., 22., 24., 25.]);
        strided().text("auto_pad", "SAME_UPPER").gives(&[1, 1, 3, 3], &[7f32, 9., 10., 17., 19., 20., 22., 24., 25.]);
        strided().text("auto_pad", "SAME_LOWER").gives(&[1, 1, 3, 3], &[1f32, 3., 5., 11., 13., 15., 21., 23., 25.]);
        strided().text("auto_pad", "VALID").gives(&[1, 1, 2, 2], &[7f32, 9., 17., 19.]);
        pool("MaxPool", 2).ints("dilations", &[4, 3]).gives(&[1, 1, 1, 2], &[24f32, 25.]);
        // The third window would start on the padding after the input.
        let late = Trial::new("MaxPool").ints("kernel_shape", &[1]).ints("strides", &[2]).int("ceil_mode", 1);
        late.input(&[1, 1, 2], &[1f32, 2.0]).gives(&[1, 1, 1], &[1f32]);
    }

    #[test]
    fn rounded_up_an_input_smaller_than_the_window_has_one_that_reaches_beyond_it() {
        let small = |op: &str, kernel: i64, stride: i64| {
            let trial = Trial::new(op).ints("kernel_shape", &[kernel]).ints("strides", &[stride]).int("ceil_mode", 1);
            trial.input(&[1, 2, 1], &[3f32, -4.0])
        };
        small("MaxPool", 2, 2).gives(&[1, 2, 1], &[3f32, -4.0]);
        small("MaxPool", 3, 3).gives(&[1, 2, 1], &[3f32, -4.0]);
        small("AveragePool", 2, 2).gives(&[1, 2, 1], &[3f32, -4.0]);
        small("LpPool", 2, 2).gives_about(&[1, 2, 1], &[3.0, 4.0]);
        // One stride short, an input has no window; a still shorter one is refused.
        small("MaxPool", 2, 1).gives(&[1, 2, 0], &[0f32; 0]);
        small("MaxPool", 3, 2).gives(&[1, 2, 0], &[0f32; 0]);
        small("MaxPool", 4, 1).is_refused("does not fit");
        // Rounded down, an input smaller than the window is refused.
        small("MaxPool", 2, 2).int("ceil_mode", 0).is_refused("does not fit");
        // A mean counts the padding behind the input, but not the rest of a window beyond the padding.
        let padded = Trial::new("AveragePool").ints("kernel_shape", &[3]).ints("strides", &[3]).ints("pads", &[0, 1]);
        let padded = padded.int("ceil_mode", 1).int("count_include_pad", 1);
        padded.input(&[1, 1, 1], &[3f32]).gives(&[1, 1, 1], &[1.5f32]);
        let places = Trial::new("MaxPool").outputs(2).ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]);
        let places = places.int("ceil_mode", 1).input(&[1, 1, 1, 3], &[1f32, 2.0, 3.0]).run().unwrap();
        assert_eq!(places[0].as_slice::<f32>().unwrap(), [2.0, 3.0]);
        assert_eq!(places[1].as_slice::<i64>().unwrap(), [1, 2]);
    }

    #[test]
    fn nothing_is_pooled_to_nothing() {
        let empty = |op: &str, shape: &[usize]| {
            Trial::new(op).ints("kernel_shape", &[2]).ints("strides", &[2]).input(shape, &[0f32; 0])
        };
        for op in ["MaxPool", "AveragePool", "LpPool"] {
            empty(op, &[0, 2, 4]).gives(&[0, 2, 2], &[0f32; 0]);
            empty(op, &[1, 0, 4]).gives(&[1, 0, 2], &[0f32; 0]);
            empty(op, &[1, 2, 0]).gives(&[1, 2, 0], &[0f32; 0]);
            empty(op, &[1, 2, 0]).int("ceil_mode", 1).gives(&[1, 2, 0], &[0f32; 0]);
        }
    }

    #[test]
    fn whole_images_have_one_window() {
        for (op, want) in [("GlobalMaxPool", 25.0), ("GlobalAveragePool", 13.0), ("GlobalLpPool", 5525f32.sqrt())] {
            let trial = Trial::new(op).input(&[1, 1, 5, 5], &square());
            trial.gives_about(&[1, 1, 1, 1], &[want]);
        }
        let last = Trial::new("GlobalAveragePool").int("channels_last", 1).input(&[1, 2, 2], &[1f32, 10., 3., 30.]);
        last.gives(&[1, 1, 2], &[2f32, 20.]);
    }

    #[test]
    fn places_count_in_either_order_and_bytes_are_pooled() {
        let strided = |order| pool("MaxPool", 2).outputs(2).ints("strides", &[2, 2]).int("storage_order", order);
        let places = |order: i64| strided(order).run().unwrap()[1].as_slice::<i64>().unwrap().to_vec();
        assert_eq!(places(0), [6, 8, 16, 18]);
        assert_eq!(places(1), [6, 16, 8, 18]);
        let bytes = Trial::new("MaxPool").ints("kernel_shape", &[2]).input(&[1, 1, 3], &[1u8, 200, 3]);
        bytes.gives(&[1, 1, 2], &[200u8, 200]);
        let last = Trial::new("MaxPool").int("channels_last", 1).ints("kernel_shape", &[2]);
        last.input(&[1, 2, 2], &[1f32, 4., 3., 2.]).gives(&[1, 1, 2], &[3f32, 4.]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        pool("MaxPool", 6).is_refused("does not fit");
        pool("MaxPool", 0).is_refused("at least 1");
        pool("MaxPool", -1).is_refused("negative");
        pool("MaxPool", i64::MAX).is_refused("windows of");
        pool("MaxPool", 2).ints("pads", &[1, 1]).is_refused("pads");
        pool("MaxPool", 2).ints("strides", &[0, 1]).is_refused("at least 1");
        pool("MaxPool", 2).ints("pads", &[i64::MAX; 4]).is_refused("does not fit");
        pool("MaxPool", 2).text("auto_pad", "SAME").is_refused("auto_pad");
        pool("LpPool", 2).int("p", 0).is_refused("p = 0");
        Trial::new("MaxPool").input(&[1, 1, 5, 5], &square()).is_refused("kernel_shape");
        Trial::new("MaxPool").ints("kernel_shape", &[2]).input(&[1, 1, 5, 5], &square()).is_refused("axes");
        Trial::new("GlobalMaxPool").input(&[5, 5], &square()).is_refused("axes");
        Trial::new("AveragePool").ints("kernel_shape", &[1]).input(&[1, 1, 1], &[1i64]).is_refused("int64");
    }
}
