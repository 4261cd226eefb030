//! Conv and ConvTranspose, bare and fused: what ONNX means by them.
//!
//! [`attributes`] reads and checks the node's attributes, [`sizes`] finds the geometry of given shapes. Kernels take
//! channels-last tensors: a node that the layout pass has marked `channels_last` hands them on as they are, others
//! transpose input, residual and output. Weights known at load are packed when the node is made, and the model's own
//! copy is freed. Every strategy of one element type reads the same packed layout.

mod attributes;
mod device;
mod double;
mod parts;
mod sizes;
mod stored;

use std::sync::Arc;

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::conv::{Conv as Executor, ConvExtras, ConvInput, ConvShape, Weights};
use kiln_kernels::cpu::transpose::Transpose;
use kiln_kernels::cpu::{Elements, PackedWeights, PackedWeightsMut, Stored};
use smallvec::SmallVec;

use self::attributes::Attributes;
pub(crate) use self::attributes::Attributes as ConvAttributes;
use kiln_run::DeviceCx;
use kiln_run::exec::conv::ConvProblem;
use kiln_run::exec::transpose::TransposeProblem;
use kiln_run::exec::weights::{self, Packed};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};

use super::apart::{self, After};
use super::convert::through_f32;
use super::double::with_double;
use super::stored::{self as storing, STORED, activations, activations_mut};
use super::{LoadCx, OpError, Operator, fused_activation, optional, refused, required};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Conv", make_plain),
    ("", "ConvTranspose", make_plain),
    ("kiln", "FusedConv", make_fused),
    ("kiln", "FusedConvTranspose", make_fused),
];

/// The input that is added to the output.
const RESIDUAL: usize = 3;

/// A convolution.
struct Conv {
    attributes: Attributes,
    activation: Option<UnaryOp>,
    channels_last: bool,
    /// The type that its output is stored in, where the pass `bf16` has decided it: then the input may be of either
    /// type, too.
    output: Option<Stored>,
    /// The weights, where they are known at load.
    weights: Option<KnownWeights>,
}

/// Weights that are known at load.
struct KnownWeights {
    shape: Shape,
    /// The element type that they were packed in.
    elements: Elements,
    /// Packed in their layout.
    packed: Arc<Packed>,
}

/// The node as prepared for one set of shapes.
struct Ready {
    conv: Arc<Executor>,
    /// The activation, where the executor does not apply it.
    after: Option<After>,
    shape: ConvShape,
    /// The packed weights, if they are known at load.
    weights: Option<Arc<Packed>>,
    /// Transposes the input to channels-last, if it has to be.
    input: Option<Arc<Transpose>>,
    /// Whether the input's parts are read where they are.
    takes_parts: bool,
    /// Transposes the residual.
    residual: Option<Arc<Transpose>>,
    /// Transposes the output back.
    output: Option<Arc<Transpose>>,
}

/// A convolution of ONNX's: `f64` stays, other floats are converted. Images with channels last are of `f32`.
fn make_plain(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    match cx.node.is_channels_last() {
        true => through_f32(cx, make),
        false => with_double(cx, double::make, |cx| through_f32(cx, make)),
    }
}

/// A fused convolution. Where the pass `bf16` has stated its stored types, its kernels read and write them without
/// conversion.
fn make_fused(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    if cx.node.attrs.contains_key(STORED) { make(cx) } else { through_f32(cx, make) }
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let mut conv = Conv::unpacked(cx)?;
    let constant = cx.graph.constant_input(cx.node, 1).filter(|tensor| tensor.dtype() == DType::F32);
    if let Some(tensor) = constant {
        let invalid = |error: &dyn std::fmt::Display| OpError::invalid(cx.node, error.to_string());
        let sizes = conv.attributes.weights(tensor.shape()).map_err(|error| invalid(&error))?;
        let plain = tensor.pieces().map_err(|error| invalid(&error))?;
        let elements = sizes.elements(weights::elements(cx.build.elements(), tensor, 1.0));
        let packed = weights::conv(cx.packing, elements, plain, &sizes).map_err(|error| invalid(&error))?;
        conv.weights = Some(KnownWeights { shape: Shape::from_slice(tensor.shape()), elements, packed });
    }
    if conv.output.is_some() && !conv.takes_bf16() {
        return Err(OpError::invalid(cx.node, "activations in bf16 where the kernels take none"));
    }
    Ok(Box::new(conv))
}

impl Conv {
    /// The node's attributes.
    fn unpacked(cx: &LoadCx<'_>) -> Result<Conv, OpError> {
        Ok(Conv {
            attributes: Attributes::read(cx.node)?,
            activation: fused_activation(cx.node)?,
            channels_last: cx.node.is_channels_last(),
            output: storing::output(cx.node)?,
            weights: None,
        })
    }

    /// The weights' shape, known or given.
    fn weight_shape<'a>(&'a self, inputs: &[Option<&'a Tensor>]) -> Result<&'a [usize], NodeError> {
        match &self.weights {
            Some(known) => Ok(&known.shape),
            None => Ok(required(inputs, 1)?.shape()),
        }
    }

    /// The geometry that these inputs ask for.
    fn shape(&self, inputs: &[Option<&Tensor>]) -> Result<ConvShape, NodeError> {
        let weights = self.weight_shape(inputs)?;
        let input = self.input_shape(inputs)?;
        if input.len() != weights.len() {
            return Err(refused(format!("input of shape {input:?} for weights of shape {weights:?}")));
        }
        let (mut spatial, mut channels) = (&input[2..], input[1]);
        if self.channels_last {
            (spatial, channels) = (&input[1..input.len() - 1], input[input.len() - 1]);
        }
        let shape = self.attributes.shape(input[0], channels, spatial, weights)?;
        shape.validate().map_err(|error| refused(error.to_string()))?;
        Ok(shape)
    }

    /// The transposition of a tensor between the layouts; `None` where both are the same bytes.
    fn transposition(
        &self,
        cx: &PrepareCx<'_>,
        [batch, from, to]: [usize; 3],
    ) -> Result<Option<Arc<Transpose>>, NodeError> {
        if self.channels_last || from == 1 || to == 1 {
            return Ok(None);
        }
        let problem = TransposeProblem::new(&[batch, from, to], &[0, 2, 1], size_of::<f32>());
        cx.executor(&cx.key(problem)).map(Some)
    }
}

impl Node for Conv {
    fn family(&self) -> &'static str {
        "conv"
    }

    fn kept_inputs(&self) -> u64 {
        if self.weights.is_some() { 1 << 1 } else { 0 }
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        for (index, tensor) in inputs.iter().enumerate().filter_map(|(index, tensor)| Some((index, (*tensor)?))) {
            let either = [0, RESIDUAL].contains(&index) || index >= parts::SECOND;
            let bf16 = self.output.is_some() && either && tensor.dtype() == DType::BF16;
            if tensor.dtype() != DType::F32 && !bf16 {
                return Err(NodeError::Unsupported(format!("a convolution of {} elements", tensor.dtype())));
            }
        }
        let output = &outputs[0].shape;
        let filters = if self.channels_last { output.last() } else { output.get(1) };
        if let Some(bias) = optional(inputs, 2).filter(|bias| Some(&bias.len()) != filters || bias.shape().len() != 1) {
            return Err(refused(format!("bias of shape {:?} for filters of {output:?}", bias.shape())));
        }
        match optional(inputs, RESIDUAL).filter(|residual| residual.shape() != output.as_slice()) {
            Some(residual) => Err(refused(format!("residual of shape {:?} for {output:?}", residual.shape()))),
            None => Ok(()),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let shape = self.shape(inputs)?;
        // Weights that another node makes are in `f32`.
        let elements = self.weights.as_ref().map_or(Elements::F32, |known| known.elements);
        let stored = self.stored(inputs)?;
        let (conv, after) = apart::executor(cx, self.activation, &outputs[0], |activation| {
            cx.key(ConvProblem { shape, elements, stored, numerics: cx.numerics(), activation })
        })?;
        let weights = self.weights.as_ref().map(|known| known.packed.clone());
        let positions = |size: [usize; 3]| size.iter().product::<usize>();
        let back = [shape.batch(), shape.filters(), positions(shape.output())];
        let residual = if optional(inputs, RESIDUAL).is_some() { self.transposition(cx, back)? } else { None };
        let takes_parts = parts::are_taken(&conv, &parts::parts(inputs)?);
        Ok(Prepared::new(Arc::new(Ready {
            conv,
            after,
            takes_parts,
            shape,
            weights,
            input: self.transposition(cx, [shape.batch(), shape.channels(), positions(shape.input())])?,
            residual,
            output: self.transposition(cx, [shape.batch(), positions(shape.output()), shape.filters()])?,
        })))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        self.on_device(cx, inputs, outputs)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let ready: &Ready = prepared.get()?;
        // The residual's memory becomes the output's where no other value has it.
        let over = ready.output.is_none() && ready.conv.writes_over_residual() && io.can_reuse(RESIDUAL, 0);
        let mut output = if over { io.take(RESIDUAL)? } else { io.alloc(0)? };
        self.convolve(ready, &io.inputs(), &mut output, over, cx)?;
        io.push(output);
        Ok(())
    }
}

impl Conv {
    /// Convolves into `output`, which holds the residual where it is written `over`.
    fn convolve(
        &self,
        ready: &Ready,
        inputs: &[Option<&Tensor>],
        output: &mut Tensor,
        over: bool,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let transposed = |tensor: &Tensor, by: &Option<Arc<Transpose>>| -> Result<Tensor, NodeError> {
            let Some(by) = by else { return Ok(tensor.clone()) };
            let mut transposed = cx.scratch::<f32>(tensor.len())?;
            by.run(tensor.bytes(), transposed.bytes_mut(), cx.parallel)?;
            Ok(transposed)
        };
        let parts = parts::parts(inputs)?;
        let whole = match *parts {
            _ if ready.takes_parts => None,
            [x] => Some(transposed(x, &ready.input)?),
            _ => Some(parts::joined(&parts, cx)?),
        };
        let parts = if ready.takes_parts { parts::read(&parts)? } else { SmallVec::new() };
        let input = match &whole {
            Some(whole) => activations(whole)?.into(),
            None => ConvInput::Parts(&parts),
        };
        let residual = optional(inputs, RESIDUAL).filter(|_| !over);
        let residual = residual.map(|tensor| transposed(tensor, &ready.residual)).transpose()?;
        let extras = ConvExtras {
            bias: optional(inputs, 2).map(Tensor::as_slice).transpose()?,
            residual: residual.as_ref().map(activations).transpose()?,
        };
        let packed_now;
        let elements = ready.conv.layout().elements();
        let weights = match &ready.weights {
            Some(packed) => packed.weights(elements),
            None => {
                packed_now = pack_now(&ready.shape.weights(), required(inputs, 1)?, cx, ready)?;
                PackedWeights::new(elements, bytemuck::cast_slice(packed_now.as_slice::<f32>()?))
            }
        };
        let mut scratch = cx.scratch::<f32>(ready.conv.scratch_len())?;
        let mut run = |y: &mut Tensor| {
            let (y, scratch) = (activations_mut(y)?, scratch.as_mut_slice()?);
            match over {
                true => ready.conv.run_over_residual(input, weights, y, extras.bias, scratch, cx.parallel)?,
                false => ready.conv.run_stored(input, weights, y, extras, scratch, cx.parallel)?,
            }
            Ok::<(), NodeError>(())
        };
        match &ready.output {
            None => run(output)?,
            Some(back) => {
                let mut last = cx.scratch::<f32>(output.len())?;
                run(&mut last)?;
                back.run(last.bytes(), output.bytes_mut(), cx.parallel)?;
            }
        }
        if let Some(after) = &ready.after {
            after.run(output, cx)?;
        }
        Ok(())
    }
}

/// Packs weights that are made by another node, for this run only.
fn pack_now(sizes: &Weights, weights: &Tensor, cx: &RunCx<'_>, ready: &Ready) -> Result<Tensor, NodeError> {
    let (isa, layout) = (ready.conv.isa(), ready.conv.layout());
    let mut packed = cx.scratch::<f32>(sizes.packed_len(isa, layout))?;
    let room = PackedWeightsMut::new(layout.elements(), bytemuck::cast_slice_mut(packed.as_mut_slice::<f32>()?));
    sizes.pack(isa, layout, weights.as_slice()?, room)?;
    Ok(packed)
}

#[cfg(test)]
mod tests;
