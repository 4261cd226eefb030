//! Quantised products and convolutions on executors: one node for all operators that sum products of bytes.
//!
//! The operators differ in the order of their inputs ([`Roles`]) and in how a sum is stored: as it is, as bytes by a
//! scale and a zero point, or (in nodes of the pass `quantized` alone) as `f32`. Weights known at load are packed when
//! the node is made. Scales and zero points are read at every run, because models compute them.

use std::sync::Arc;

use kiln_kernels::cpu::conv::{ConvShape, Weights};
use kiln_kernels::cpu::quantized::bytes::{Added, Plus, Rounding, add_to};
use kiln_kernels::cpu::quantized::{Form, Output, Quantized, Steps, Terms, WeightSource};
use kiln_kernels::cpu::transpose::Transpose;
use kiln_kernels::memory::Collect;
use kiln_run::exec::quantized::QuantizedProblem;
use kiln_run::exec::transpose::TransposeProblem;
use kiln_run::exec::weights::{self, Packing, QuantizedWeights};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::stacks::Product;
use super::{bounds, eight_bits, requantiser, single};
use crate::wide::widened;
use crate::{ConvAttributes, LoadCx, OpError, optional, refused, required};

/// The number of each input; [`ABSENT`] where an operator has no such input.
#[derive(Clone, Copy)]
pub(super) struct Roles {
    pub(super) x: usize,
    pub(super) x_scale: usize,
    pub(super) x_zero: usize,
    pub(super) weights: usize,
    pub(super) weights_scale: usize,
    pub(super) weights_zero: usize,
    pub(super) y_scale: usize,
    pub(super) y_zero: usize,
    pub(super) bias: usize,
}

const ABSENT: usize = usize::MAX;

const INTEGER: Roles = Roles {
    x: 0,
    x_scale: ABSENT,
    x_zero: 2,
    weights: 1,
    weights_scale: ABSENT,
    weights_zero: 3,
    y_scale: ABSENT,
    y_zero: ABSENT,
    bias: ABSENT,
};

const LINEAR: Roles = Roles {
    x: 0,
    x_scale: 1,
    x_zero: 2,
    weights: 3,
    weights_scale: 4,
    weights_zero: 5,
    y_scale: 6,
    y_zero: 7,
    bias: 8,
};

/// Inputs of fused nodes: data, weights and bias come in the order of the replaced operators.
const FUSED: Roles = Roles {
    x: 0,
    weights: 1,
    bias: 2,
    x_scale: 3,
    x_zero: 4,
    weights_scale: 5,
    weights_zero: 6,
    y_scale: 7,
    y_zero: 8,
};

/// The inputs of QGemm.
pub(super) const GEMM: Roles = Roles {
    x: 0,
    x_scale: 1,
    x_zero: 2,
    weights: 3,
    weights_scale: 4,
    weights_zero: 5,
    bias: 6,
    y_scale: 7,
    y_zero: 8,
};

/// The kind of sums.
enum Kind {
    /// Rows times columns; the right-hand side stored by columns if `transposed`.
    Product {
        transposed: bool,
    },
    Conv {
        attributes: Box<ConvAttributes>,
        channels_last: bool,
    },
}

/// Places of the inputs that the pass adds: a tensor of bytes, its scale and zero point, and those of the sum.
const PLUS: [usize; 5] = [9, 10, 11, 12, 13];

struct ByteProduct {
    family: &'static str,
    roles: Roles,
    kind: Kind,
    /// Bounds of the result as a real number.
    low: f32,
    high: f32,
    /// Whether a tensor is added to the rounded result, as which operand, and the sum's bounds as a real number.
    plus: Option<(Added, [f32; 2])>,
    /// Whether the zero points of weights are known to be zero.
    centred: bool,
    /// The weights with their type and shape, where they are known at load.
    known: Option<(QuantizedWeights, TensorSpec)>,
    /// Whether the packed weights are enough for every request, so that the constant is not needed.
    kept: bool,
    /// The factors, where all of their inputs are known at load.
    fixed: Option<Factors>,
    /// Loops for inputs that executors do not take.
    plain: Option<Box<dyn Node>>,
}

/// MatMulInteger and ConvInteger.
pub(super) fn integer(cx: &LoadCx<'_>, plain: Box<dyn Node>) -> Result<Box<dyn Node>, OpError> {
    make(cx, INTEGER, Some(plain))
}

/// QLinearMatMul and QLinearConv.
pub(super) fn linear(cx: &LoadCx<'_>, plain: Box<dyn Node>) -> Result<Box<dyn Node>, OpError> {
    make(cx, LINEAR, Some(plain))
}

/// The nodes of the pass.
pub(super) fn fused(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    make(cx, FUSED, None)
}

/// ONNX Runtime's QGemm without a transposed left-hand side and a factor.
pub(super) fn gemm(cx: &LoadCx<'_>, plain: Box<dyn Node>) -> Result<Box<dyn Node>, OpError> {
    make(cx, GEMM, Some(plain))
}

fn make(cx: &LoadCx<'_>, roles: Roles, plain: Option<Box<dyn Node>>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    let kind = if cx.node.op.contains("Conv") {
        let attributes = Box::new(ConvAttributes::read(cx.node)?);
        Kind::Conv { attributes, channels_last: cx.node.is_channels_last() }
    } else {
        let names = ["trans_b", "transB"].into_iter().filter(|name| attributes.declares(name));
        Kind::Product { transposed: names.into_iter().any(|name| attributes.flag(name)) }
    };
    let (low, high) = bounds(cx.node);
    let plus = cx.node.input(PLUS[0]).filter(|_| cx.node.domain == "kiln").map(|_| {
        let added = if attributes.flag("sum_second") { Added::First } else { Added::Second };
        (added, ["sum_low", "sum_high"].map(|name| attributes.float(name)))
    });
    let constants: Vec<Option<&Tensor>> =
        (0..cx.node.inputs.len()).map(|at| cx.graph.constant_input(cx.node, at)).collect();
    let is_known = |role: usize| cx.node.input(role).is_none() || constants[role].is_some();
    let zero = optional(&constants, roles.weights_zero);
    let centred =
        is_known(roles.weights_zero) && zero_points(zero).is_ok_and(|zeros| zeros.iter().all(|&zero| zero == 0));
    let family = "quantized";
    let (known, kept, fixed) = (None, false, None);
    let mut node = ByteProduct { family, roles, kind, low, high, plus, centred, known, kept, fixed, plain };
    let factors_are_known = [roles.x_scale, roles.weights_scale, roles.y_scale, roles.bias].into_iter().all(is_known);
    if let Some(tensor) = optional(&constants, roles.weights).filter(|_| is_known(roles.weights_zero)) {
        // Weights that cannot be packed are refused, or left to the loops, when shapes are known.
        node.known = node.pack(tensor, zero, cx.packing).ok().map(|packed| (packed, tensor.spec().clone()));
        let are_known = factors_are_known && is_known(roles.x_zero) && is_known(roles.y_zero);
        let fits = || are_known && node.parameters_fit(&constants).unwrap_or(false);
        node.kept = node.known.is_some() && (node.plain.is_none() || fits());
    }
    if roles.x_scale != ABSENT && factors_are_known {
        // Parameters that make no factors are refused, or left to the loops, when shapes are known.
        node.fixed = Factors::read(&roles, &constants).ok();
    }
    Ok(Box::new(node))
}

/// The node as prepared for one set of shapes; `None` where the loops run.
struct Ready(Option<Fast>);

struct Fast {
    executor: Arc<Quantized>,
    shape: ConvShape,
    output: Output,
    /// Transpose the input to channels-last and the output back, where necessary.
    input: Option<Arc<Transpose>>,
    back: Option<Arc<Transpose>>,
    /// The tensor that the executor adds: the node's, unless the output has to be transposed first.
    added: Added,
    /// The matrices, where the right-hand side is a stack: the executor then multiplies one pair.
    stacks: Option<Product>,
}

impl ByteProduct {
    /// Sizes of weights of that shape, and how the window steps.
    fn sizes(&self, shape: &[usize]) -> Result<(Weights, Steps), NodeError> {
        match &self.kind {
            Kind::Conv { attributes, .. } => {
                let three = |given: &[usize]| {
                    let mut all = [1; 3];
                    let offset = 3usize.saturating_sub(given.len());
                    all[offset..].iter_mut().zip(given).for_each(|(to, &by)| *to = by);
                    all
                };
                let steps = Steps { strides: three(&attributes.strides), dilations: three(&attributes.dilations) };
                Ok((attributes.weights(shape)?, steps))
            }
            Kind::Product { transposed } => {
                let [channels, filters] = match (shape, *transposed) {
                    (&[k], _) => [k, 1],
                    (&[.., k, n], false) | (&[n, k], true) => [k, n],
                    _ => return Err(refused(format!("quantised weights of shape {shape:?}"))),
                };
                Ok((Weights { channels, filters, groups: 1, kernel: [1; 3], transposed: None }, Steps::ONE))
            }
        }
    }

    fn source<'a>(&self, data: &'a [u8], signed: bool, zeros: &'a [i32], sizes: &Weights) -> WeightSource<'a> {
        match self.kind {
            Kind::Conv { .. } => WeightSource::convolution(data, signed, zeros, sizes),
            Kind::Product { transposed } => {
                WeightSource::matrix(data, signed, zeros, [sizes.channels, sizes.filters], transposed)
            }
        }
    }

    fn pack(
        &self,
        tensor: &Tensor,
        zero: Option<&Tensor>,
        packing: &Packing<'_>,
    ) -> Result<QuantizedWeights, NodeError> {
        eight_bits(tensor)?;
        let (sizes, steps) = self.sizes(tensor.shape())?;
        if tensor.len() != sizes.len() {
            return Err(refused(format!("a stack of quantised weights of shape {:?}", tensor.shape())));
        }
        let zeros = zero_points(zero)?;
        let signed = tensor.dtype() == DType::I8;
        let source = |data| self.source(data, signed, &zeros, &sizes);
        Ok(weights::quantized(packing, source, || tensor.bytes(), &sizes, steps)?)
    }

    fn weights_spec<'a>(&'a self, inputs: &[Option<&'a Tensor>]) -> Result<&'a TensorSpec, NodeError> {
        match &self.known {
            Some((_, spec)) => Ok(spec),
            None => Ok(required(inputs, self.roles.weights)?.spec()),
        }
    }

    /// The matrices of these inputs, where the weights are a stack of them.
    fn stacks(&self, inputs: &[Option<&Tensor>]) -> Result<Option<Product>, NodeError> {
        let (x, spec) = (required(inputs, self.roles.x)?, self.weights_spec(inputs)?);
        match self.kind {
            Kind::Product { transposed: false } => {
                Ok(Some(Product::of(x.shape(), &spec.shape)?).filter(Product::has_right_stack))
            }
            Kind::Product { transposed: true } | Kind::Conv { .. } => Ok(None),
        }
    }

    /// The convolution that these inputs ask for; of stacks, that of one matrix by one matrix.
    fn shape(&self, inputs: &[Option<&Tensor>], stacks: Option<&Product>) -> Result<ConvShape, NodeError> {
        let (x, spec) = (required(inputs, self.roles.x)?, self.weights_spec(inputs)?);
        let shape = match &self.kind {
            Kind::Product { .. } => {
                let sizes = self.sizes(&spec.shape)?.0;
                let all = Product::of(x.shape(), &[sizes.channels, sizes.filters])?;
                let rows = stacks.map_or(all.matrices() * all.rows, |stacks| stacks.rows);
                let (rows, ones) = ([1, 1, rows as u64], [1; 3]);
                ConvShape {
                    batch: 1,
                    channels: sizes.channels as u64,
                    filters: sizes.filters as u64,
                    groups: 1,
                    input: rows,
                    output: rows,
                    kernel: ones,
                    strides: ones,
                    dilations: ones,
                    pads: [0; 3],
                    transposed: false,
                }
            }
            Kind::Conv { attributes, channels_last } => {
                let own = x.shape();
                if own.len() != spec.shape.len() || own.len() < 3 {
                    return Err(refused(format!("input of shape {own:?} for weights of shape {:?}", spec.shape)));
                }
                let last = own.len() - 1;
                let (channels, space) = if *channels_last { (own[last], &own[1..last]) } else { (own[1], &own[2..]) };
                attributes.shape(own[0], channels, space, &spec.shape)?
            }
        };
        shape.validate().map_err(|error| refused(error.to_string()))?;
        Ok(shape)
    }

    /// How a sum is stored.
    fn output(&self, inputs: &[Option<&Tensor>]) -> Result<Output, NodeError> {
        if self.roles.x_scale == ABSENT {
            return Ok(Output::Sums);
        }
        if optional(inputs, self.roles.y_scale).is_none() {
            return Ok(Output::Floats);
        }
        let zero = required(inputs, self.roles.y_zero)?;
        eight_bits(zero)?;
        Ok(if zero.dtype() == DType::I8 { Output::Signed } else { Output::Unsigned })
    }

    /// Whether executors take these inputs.
    fn is_fast(&self, inputs: &[Option<&Tensor>]) -> Result<bool, NodeError> {
        if self.plain.is_some() && self.stacks(inputs)?.is_some_and(|stacks| !stacks.suits_executors()) {
            return Ok(false);
        }
        self.parameters_fit(inputs)
    }

    /// Whether executors take these scales, zero points and this bias: they differ by columns at most.
    fn parameters_fit(&self, inputs: &[Option<&Tensor>]) -> Result<bool, NodeError> {
        let roles = &self.roles;
        let filters = self.sizes(&self.weights_spec(inputs)?.shape)?.0.filters;
        let single = |role| optional(inputs, role).is_none_or(|tensor: &Tensor| tensor.len() == 1);
        let column = |role| {
            let fits = |tensor: &Tensor| tensor.len() == 1 || tensor.shape() == [filters];
            optional(inputs, role).is_none_or(fits)
        };
        let bias = optional(inputs, roles.bias).is_none_or(|bias| bias.shape() == [filters]);
        let all = [roles.x_scale, roles.x_zero, roles.y_scale, roles.y_zero].into_iter().all(single);
        Ok(all && bias && column(roles.weights_scale) && column(roles.weights_zero))
    }
}

/// Zero points of weights; zero where there are none.
fn zero_points(tensor: Option<&Tensor>) -> Result<Vec<i32>, NodeError> {
    let Some(tensor) = tensor else { return Ok(vec![0]) };
    Ok(widened::<i64>(tensor)?.into_iter().map(|zero| zero as i32).collected())
}

impl Node for ByteProduct {
    fn family(&self) -> &'static str {
        self.family
    }

    fn kept_inputs(&self) -> u64 {
        if self.kept { 1 << self.roles.weights } else { 0 }
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        if let Some(plain) = &self.plain {
            return plain.check(inputs, outputs);
        }
        eight_bits(required(inputs, self.roles.x)?)?;
        self.output(inputs)?;
        if !self.is_fast(inputs)? {
            return Err(NodeError::Unsupported("scales or zero points of a quantised product by row".to_owned()));
        }
        if self.plus.is_some() {
            let other = required(inputs, PLUS[0])?.spec();
            if *other != outputs[0] {
                return Err(refused(format!("{other:?} added to {:?}", outputs[0])));
            }
            single::<f64>(required(inputs, PLUS[1])?)?;
            single::<f64>(required(inputs, PLUS[3])?)?;
        }
        Ok(())
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        if !self.is_fast(inputs)? {
            return Ok(Prepared::new(Arc::new(Ready(None))));
        }
        let stacks = self.stacks(inputs)?;
        let shape = self.shape(inputs, stacks.as_ref())?;
        let output = self.output(inputs)?;
        let form = match &self.known {
            Some((weights, _)) => weights.form.of_shape(cx.isa(), &shape),
            None if self.centred && required(inputs, self.roles.weights)?.dtype() == DType::I8 => {
                Form::of_bytes(cx.isa(), &shape.weights()).of_shape(cx.isa(), &shape)
            }
            // Weights that another node makes may be any bytes, and do not fit bytes less some zero points.
            None => Form::Words,
        };
        let transposition = |[batch, from, to]: [usize; 3], bytes: usize| {
            let plain = matches!(self.kind, Kind::Conv { channels_last: false, .. });
            if !plain || from == 1 || to == 1 {
                return Ok(None);
            }
            let problem = TransposeProblem::new(&[batch, from, to], &[0, 2, 1], bytes);
            cx.executor(&cx.key(problem)).map(Some)
        };
        let positions = |size: [usize; 3]| size.iter().product::<usize>();
        let input = transposition([shape.batch(), shape.channels(), positions(shape.input())], 1)?;
        let back = transposition([shape.batch(), positions(shape.output()), shape.filters()], output.bytes())?;
        let added = self.plus.filter(|_| back.is_none()).map_or(Added::Nothing, |(added, _)| added);
        let problem = QuantizedProblem { shape, form, result: output, added };
        let executor = cx.executor(&cx.key(problem))?;
        Ok(Prepared::new(Arc::new(Ready(Some(Fast { executor, shape, output, input, back, added, stacks })))))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let ready: &Ready = prepared.get()?;
        match (&ready.0, &self.plain) {
            (Some(fast), _) => {
                let output = self.multiply(fast, &io.inputs(), io.alloc(0)?, cx)?;
                io.push(output);
                Ok(())
            }
            (None, Some(plain)) => plain.execute(prepared, io, cx),
            (None, None) => Err(refused("a quantised product that nothing computes".to_owned())),
        }
    }
}

impl ByteProduct {
    fn multiply(
        &self,
        fast: &Fast,
        inputs: &[Option<&Tensor>],
        mut y: Tensor,
        cx: &RunCx<'_>,
    ) -> Result<Tensor, NodeError> {
        let roles = &self.roles;
        let x = required(inputs, roles.x)?;
        let read;
        let factors = match &self.fixed {
            Some(fixed) => fixed,
            None => {
                read = if fast.output == Output::Sums { Factors::NONE } else { Factors::read(roles, inputs)? };
                &read
            }
        };
        let bias = optional(inputs, roles.bias).filter(|bias| bias.dtype() == DType::I32);
        let zero = |role| optional(inputs, role).map(single::<i64>).transpose().map(|zero| zero.unwrap_or(0) as i32);
        let terms = Terms {
            signed: x.dtype() == DType::I8,
            left_zero: zero(roles.x_zero)?,
            bias: bias.map(Tensor::as_slice).transpose()?,
            scale: &factors.scale,
            shift: factors.shift.as_deref(),
            low: self.low / factors.unit,
            high: self.high / factors.unit,
            zero: zero(roles.y_zero)?,
            plus: None,
        };
        let plus = self.plus(inputs, fast.output)?;
        let terms = Terms { plus: plus.filter(|_| fast.added != Added::Nothing), ..terms };
        let mut transposed = None;
        if let Some(transpose) = &fast.input {
            let mut last = cx.scratch::<u8>(x.len())?;
            transpose.run(x.bytes(), last.bytes_mut(), cx.parallel)?;
            transposed = Some(last);
        }
        let x = transposed.as_ref().unwrap_or(x).bytes();
        let executor = &fast.executor;
        let mut packed_now;
        let weights = match &self.known {
            Some((weights, _)) => weights.view()?,
            // Weights that another node makes are packed for this run only.
            None => {
                let tensor = required(inputs, roles.weights)?;
                let zeros = zero_points(optional(inputs, roles.weights_zero))?;
                let (signed, sizes) = (tensor.dtype() == DType::I8, fast.shape.weights());
                let source = |matrix| self.source(matrix, signed, &zeros, &sizes);
                if let Some(stacks) = &fast.stacks {
                    stacks.on_executor(executor, [x, tensor.bytes()], &source, y.bytes_mut(), &terms, cx)?;
                    return Ok(y);
                }
                packed_now = cx.scratch::<i32>(executor.packed().words())?;
                executor.pack(&source(tensor.bytes()), bytemuck::cast_slice_mut(packed_now.as_mut_slice::<i32>()?))?
            }
        };
        let mut scratch = cx.scratch::<i32>(executor.scratch_len())?;
        let scratch = scratch.as_mut_slice()?;
        match &fast.back {
            None => executor.run(x, weights, y.bytes_mut(), &terms, scratch, cx.parallel)?,
            Some(back) => {
                let mut last = cx.scratch::<u8>(y.bytes().len())?;
                executor.run(x, weights, last.bytes_mut(), &terms, scratch, cx.parallel)?;
                back.run(last.bytes(), y.bytes_mut(), cx.parallel)?;
                if let (Some(plus), Some((added, _))) = (plus, self.plus) {
                    add_to(executor.isa(), y.bytes_mut(), terms.zero, plus, added, cx.parallel);
                }
            }
        }
        Ok(y)
    }

    /// The tensor that is added to the rounded result.
    fn plus<'a>(&self, inputs: &[Option<&'a Tensor>], output: Output) -> Result<Option<Plus<'a>>, NodeError> {
        let Some((_, [low, high])) = self.plus else { return Ok(None) };
        let [other, scale, zero, sum_scale, sum_zero] = PLUS;
        let number = |at: usize| single::<f64>(required(inputs, at)?);
        let whole =
            |at: usize| Ok::<_, NodeError>(optional(inputs, at).map(single::<i64>).transpose()?.unwrap_or(0) as i32);
        let (unit, own) = (number(sum_scale)?, number(self.roles.y_scale)?);
        let (low, high) = (low / unit as f32, high / unit as f32);
        let rounding = Rounding { signed: output == Output::Signed, zero: whole(sum_zero)?, low, high };
        Ok(Some(Plus {
            data: required(inputs, other)?.bytes(),
            zero: whole(zero)?,
            scale: number(scale)? / unit,
            own_scale: own / unit,
            rounding,
        }))
    }
}

/// The numbers that lead from sums to the result.
struct Factors {
    scale: Vec<f32>,
    shift: Option<Vec<f32>>,
    /// The unit of the result before it is rounded: the output's scale, or 1.
    unit: f32,
}

impl Factors {
    /// The factors of sums that are stored as they are.
    const NONE: Factors = Factors { scale: Vec::new(), shift: None, unit: 1.0 };

    fn read(roles: &Roles, inputs: &[Option<&Tensor>]) -> Result<Factors, NodeError> {
        let number = |role| optional(inputs, role).map(single::<f32>).transpose().map(|scale| scale.unwrap_or(1.0));
        let (left, unit) = (number(roles.x_scale)?, number(roles.y_scale)?);
        let columns = optional(inputs, roles.weights_scale).map(widened::<f32>).transpose()?;
        let columns = columns.unwrap_or_else(|| vec![1.0]);
        let scale = columns.into_iter().map(|own| requantiser(left, own, unit)).collect();
        let shift = match optional(inputs, roles.bias).filter(|bias| bias.dtype() != DType::I32) {
            Some(bias) => Some(bias.as_slice::<f32>()?.iter().map(|&bias| bias / unit).collect()),
            None => None,
        };
        Ok(Factors { scale, shift, unit })
    }
}
