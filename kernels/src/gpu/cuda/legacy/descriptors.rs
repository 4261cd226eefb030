//! The descriptors of a convolution for cuDNN's older calls. They need the library, and no device.

use cudarc::cudnn::sys::{
    self, cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnConvolutionDescriptor_t, cudnnConvolutionMode_t,
    cudnnDataType_t, cudnnFilterDescriptor_t, cudnnMathType_t, cudnnNanPropagation_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, cudnnTensorFormat_t,
};

use super::super::owned::Owned;
use super::super::shape::{Shape, dense, narrow};
use super::super::status::check;
use crate::error::Result;
use crate::gpu::ConvProblem;

/// Descriptors of one problem.
#[derive(Debug)]
pub(super) struct Descriptors {
    input: Tensor,
    weights: Owned<cudnnFilterDescriptor_t, cudnnStatus_t>,
    conv: Owned<cudnnConvolutionDescriptor_t, cudnnStatus_t>,
    output: Tensor,
    bias: Tensor,
    function: Owned<cudnnActivationDescriptor_t, cudnnStatus_t>,
}

// SAFETY: descriptors are plain memory of the library, used by one thread at a time (they are behind a lock).
unsafe impl Send for Descriptors {}

type Tensor = Owned<cudnnTensorDescriptor_t, cudnnStatus_t>;

impl Descriptors {
    /// The descriptors of a problem, with a math type.
    pub(super) fn new(problem: &ConvProblem, math: cudnnMathType_t) -> Result<Descriptors> {
        let shape = Shape::of(problem)?;
        Ok(Descriptors {
            input: tensor(&shape.input)?,
            weights: filter(&shape.filter)?,
            conv: convolution(&shape, math)?,
            output: tensor(&shape.output)?,
            bias: tensor(&shape.bias)?,
            function: function(problem.epilogue.activation.is_some())?,
        })
    }

    /// Descriptors of the input, the weights, the convolution and the output.
    pub(super) fn raw(
        &self,
    ) -> (cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t) {
        (self.input.raw(), self.weights.raw(), self.conv.raw(), self.output.raw())
    }

    /// Descriptors of the bias and of the activation.
    pub(super) fn fused(&self) -> (cudnnTensorDescriptor_t, cudnnActivationDescriptor_t) {
        (self.bias.raw(), self.function.raw())
    }
}

fn tensor(sizes: &[i64]) -> Result<Tensor> {
    let (strides, sizes) = (narrow(&dense(sizes))?, narrow(sizes)?);
    // SAFETY: the library is there, and the calls belong together.
    let tensor = unsafe {
        let create = |raw| sys::cudnnCreateTensorDescriptor(raw);
        Owned::new("cudnnCreateTensorDescriptor", create, sys::cudnnDestroyTensorDescriptor)?
    };
    // SAFETY: the descriptor is held, and the number of sizes and strides is as given.
    let status = unsafe {
        let (kind, rank) = (cudnnDataType_t::CUDNN_DATA_FLOAT, sizes.len() as i32);
        sys::cudnnSetTensorNdDescriptor(tensor.raw(), kind, rank, sizes.as_ptr(), strides.as_ptr())
    };
    check("cudnnSetTensorNdDescriptor", status)?;
    Ok(tensor)
}

fn filter(sizes: &[i64]) -> Result<Owned<cudnnFilterDescriptor_t, cudnnStatus_t>> {
    let sizes = narrow(sizes)?;
    // SAFETY: the library is there, and the calls belong together.
    let filter = unsafe {
        let create = |raw| sys::cudnnCreateFilterDescriptor(raw);
        Owned::new("cudnnCreateFilterDescriptor", create, sys::cudnnDestroyFilterDescriptor)?
    };
    // SAFETY: the descriptor is held, and the number of sizes is as given.
    let status = unsafe {
        let (kind, order) = (cudnnDataType_t::CUDNN_DATA_FLOAT, cudnnTensorFormat_t::CUDNN_TENSOR_NCHW);
        sys::cudnnSetFilterNdDescriptor(filter.raw(), kind, order, sizes.len() as i32, sizes.as_ptr())
    };
    check("cudnnSetFilterNdDescriptor", status)?;
    Ok(filter)
}

fn convolution(shape: &Shape, math: cudnnMathType_t) -> Result<Owned<cudnnConvolutionDescriptor_t, cudnnStatus_t>> {
    // SAFETY: the library is there, and the calls belong together.
    let conv = unsafe {
        let create = |raw| sys::cudnnCreateConvolutionDescriptor(raw);
        Owned::new("cudnnCreateConvolutionDescriptor", create, sys::cudnnDestroyConvolutionDescriptor)?
    };
    let [pads, strides, dilations, groups] =
        [&shape.pads[..], &shape.strides, &shape.dilations, &[shape.groups]].map(narrow);
    let (pads, strides, dilations, groups) = (pads?, strides?, dilations?, groups?);
    // SAFETY: the descriptor is held, and each list has the given number of numbers.
    let statuses = unsafe {
        let (mode, kind) = (cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION, cudnnDataType_t::CUDNN_DATA_FLOAT);
        let (rank, raw) = (pads.len() as i32, conv.raw());
        let [pads, strides, dilations] = [&pads, &strides, &dilations].map(|list| list.as_ptr());
        [
            sys::cudnnSetConvolutionNdDescriptor(raw, rank, pads, strides, dilations, mode, kind),
            sys::cudnnSetConvolutionGroupCount(raw, groups[0]),
            sys::cudnnSetConvolutionMathType(raw, math),
        ]
    };
    for status in statuses {
        check("cudnnSetConvolutionDescriptor", status)?;
    }
    Ok(conv)
}

fn function(relu: bool) -> Result<Owned<cudnnActivationDescriptor_t, cudnnStatus_t>> {
    // SAFETY: the library is there, and the calls belong together.
    let function = unsafe {
        let create = |raw| sys::cudnnCreateActivationDescriptor(raw);
        Owned::new("cudnnCreateActivationDescriptor", create, sys::cudnnDestroyActivationDescriptor)?
    };
    use cudnnActivationMode_t as M;
    let mode = if relu { M::CUDNN_ACTIVATION_RELU } else { M::CUDNN_ACTIVATION_IDENTITY };
    // The fused call requires this propagation of NaN.
    let nan = cudnnNanPropagation_t::CUDNN_NOT_PROPAGATE_NAN;
    // SAFETY: the descriptor is held.
    let status = unsafe { sys::cudnnSetActivationDescriptor(function.raw(), mode, nan, 0.0) };
    check("cudnnSetActivationDescriptor", status)?;
    Ok(function)
}
