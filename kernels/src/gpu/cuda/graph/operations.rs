//! A convolution problem as a graph of operations: the convolution, then bias, residual and activation. The tensors
//! between them are virtual: the library keeps them in registers.

use std::sync::Arc;

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnConvolutionMode_t, cudnnDataType_t,
    cudnnHandle_t, cudnnPointwiseMode_t as Mode,
};

use super::super::shape::{Shape, dense};
use super::descriptor::{Descriptor, Handle};
use crate::cpu::chain::UnaryOp;
use crate::error::{KernelError, Result};
use crate::gpu::{ALIGNMENT, ConvProblem};

/// Identifiers of the tensors in memory, by which a variant pack gives their addresses.
pub(super) mod name {
    /// The problem's input.
    pub(in super::super) const INPUT: i64 = 1;
    /// The weights.
    pub(in super::super) const WEIGHTS: i64 = 2;
    /// The bias, added to each channel.
    pub(in super::super) const BIAS: i64 = 3;
    /// The residual, added to each element.
    pub(in super::super) const RESIDUAL: i64 = 4;
    /// The problem's output.
    pub(in super::super) const OUTPUT: i64 = 5;
    /// The first virtual tensor.
    pub(super) const VIRTUAL: i64 = 100;
}

/// A problem's graph, finalised. Proposals and plans need a `handle`; inspecting the graph does not.
pub(super) fn graph(conv: &ConvProblem, handle: Option<cudnnHandle_t>) -> Result<Arc<Descriptor>> {
    let shape = Shape::of(conv)?;
    let mut steps = Vec::new();
    if conv.epilogue.bias {
        steps.push(Step::Add(tensor(name::BIAS, &shape.bias, false)?));
    }
    if conv.epilogue.residual {
        steps.push(Step::Add(tensor(name::RESIDUAL, &shape.output, false)?));
    }
    if let Some(op) = conv.epilogue.activation {
        steps.push(Step::Function(function(op)?));
    }
    // The result of each operation but the last is virtual.
    let result = |step: usize| {
        let last = step == steps.len();
        let name = if last { name::OUTPUT } else { name::VIRTUAL + step as i64 };
        tensor(name, &shape.output, !last)
    };
    let mut at = result(0)?;
    let mut operations = vec![convolution(conv, &shape, &at)?];
    for (index, step) in steps.iter().enumerate() {
        let next = result(index + 1)?;
        operations.push(pointwise(step, &at, &next)?);
        at = next;
    }
    let mut graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
    if let Some(handle) = handle {
        graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[Handle(handle)])?;
    }
    graph.set_parts(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations)?;
    Ok(Arc::new(graph.finish()?))
}

/// An operation of the epilogue.
enum Step {
    /// A tensor is added; it is repeated where its sizes are 1.
    Add(Arc<Descriptor>),
    /// A function is applied.
    Function(Vec<(Name, Value)>),
}

/// A number that describes a function.
enum Value {
    Mode(Mode),
    Real(f64),
}

/// The library's activation and its parameters.
fn function(op: UnaryOp) -> Result<Vec<(Name, Value)>> {
    let one = |mode, name, value: f32| {
        vec![(Name::CUDNN_ATTR_POINTWISE_MODE, Value::Mode(mode)), (name, Value::Real(f64::from(value)))]
    };
    let plain = |mode| vec![(Name::CUDNN_ATTR_POINTWISE_MODE, Value::Mode(mode))];
    Ok(match op {
        UnaryOp::Relu => plain(Mode::CUDNN_POINTWISE_RELU_FWD),
        UnaryOp::Clip { lo, hi } if lo.get() <= hi.get() => {
            let mut clipped = one(Mode::CUDNN_POINTWISE_RELU_FWD, Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, lo.get());
            clipped.push((Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, Value::Real(f64::from(hi.get()))));
            clipped
        }
        UnaryOp::LeakyRelu { alpha } => {
            one(Mode::CUDNN_POINTWISE_RELU_FWD, Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, alpha.get())
        }
        UnaryOp::Elu { alpha } => one(Mode::CUDNN_POINTWISE_ELU_FWD, Name::CUDNN_ATTR_POINTWISE_ELU_ALPHA, alpha.get()),
        UnaryOp::Silu => one(Mode::CUDNN_POINTWISE_SWISH_FWD, Name::CUDNN_ATTR_POINTWISE_SWISH_BETA, 1.0),
        UnaryOp::Softplus => one(Mode::CUDNN_POINTWISE_SOFTPLUS_FWD, Name::CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 1.0),
        UnaryOp::Sigmoid => plain(Mode::CUDNN_POINTWISE_SIGMOID_FWD),
        UnaryOp::Tanh => plain(Mode::CUDNN_POINTWISE_TANH_FWD),
        UnaryOp::Gelu => plain(Mode::CUDNN_POINTWISE_GELU_FWD),
        UnaryOp::GeluTanh => plain(Mode::CUDNN_POINTWISE_GELU_APPROX_TANH_FWD),
        other => {
            let reason = format!("{other:?} after a convolution");
            return Err(KernelError::Unsupported { family: "cuDNN", reason });
        }
    })
}

fn tensor(name: i64, sizes: &[i64], is_virtual: bool) -> Result<Arc<Descriptor>> {
    let mut tensor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[cudnnDataType_t::CUDNN_DATA_FLOAT])?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_STRIDES, &dense(sizes))?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[name])?;
    tensor.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[ALIGNED])?;
    if is_virtual {
        tensor.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[true])?;
    }
    Ok(Arc::new(tensor.finish()?))
}

/// Alignment of operands: the largest that engines ask for, a vector of 16 bytes. Regions always have it.
const ALIGNED: i64 = 16;
const _: () = assert!(ALIGNMENT.is_multiple_of(ALIGNED as u64));

fn convolution(conv: &ConvProblem, shape: &Shape, result: &Arc<Descriptor>) -> Result<Arc<Descriptor>> {
    let mut steps = Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
    steps.set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[cudnnDataType_t::CUDNN_DATA_FLOAT])?;
    steps.set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION])?;
    steps.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[shape.pads.len() as i64])?;
    steps.set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &shape.pads)?;
    steps.set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &shape.pads)?;
    steps.set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &shape.strides)?;
    steps.set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &shape.dilations)?;
    let steps = Arc::new(steps.finish()?);
    let input = tensor(name::INPUT, &shape.input, false)?;
    let weights = tensor(name::WEIGHTS, &shape.filter, false)?;
    let (kind, parts, factors) = if conv.transposed {
        (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, &steps),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, &input),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, &weights),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, result),
            ],
            [
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1f32),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0f32),
            ],
        )
    } else {
        (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &steps),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &input),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &weights),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, result),
            ],
            [
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1f32),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0f32),
            ],
        )
    };
    let mut operation = Descriptor::new(kind)?;
    for (name, part) in parts {
        operation.set_parts(name, std::slice::from_ref(part))?;
    }
    for (name, factor) in factors {
        operation.set(name, &[factor])?;
    }
    Ok(Arc::new(operation.finish()?))
}

fn pointwise(step: &Step, from: &Arc<Descriptor>, to: &Arc<Descriptor>) -> Result<Arc<Descriptor>> {
    let mut what = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
    what.set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &[cudnnDataType_t::CUDNN_DATA_FLOAT])?;
    match step {
        Step::Add(_) => what.set(Name::CUDNN_ATTR_POINTWISE_MODE, &[Mode::CUDNN_POINTWISE_ADD])?,
        Step::Function(values) => {
            for (name, value) in values {
                match value {
                    Value::Mode(mode) => what.set(*name, &[*mode])?,
                    Value::Real(real) => what.set(*name, &[*real])?,
                }
            }
        }
    }
    let what = Arc::new(what.finish()?);
    let mut operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
    operation.set_parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[what])?;
    operation.set_parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, std::slice::from_ref(from))?;
    if let Step::Add(other) = step {
        operation.set_parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, std::slice::from_ref(other))?;
    }
    operation.set_parts(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, std::slice::from_ref(to))?;
    Ok(Arc::new(operation.finish()?))
}
