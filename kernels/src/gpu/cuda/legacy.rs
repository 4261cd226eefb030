//! cuDNN's older calls: convolutions by a numbered algorithm, in strict `f32` where the caller asks for it.
//!
//! The graph interface fuses on tensor cores only, so convolutions with bias, residual and ReLU in strict `f32` use
//! these calls. The fused call has no other activations, needs a bias, and without an activation has one algorithm. A
//! transposed convolution is the gradient by the input (backward data), which has no fused form.
//!
//! [`descriptors`] has the descriptors of a problem.

mod descriptors;

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cudnn::sys::{
    self, cudnnConvolutionBwdDataAlgo_t as Backward, cudnnConvolutionFwdAlgo_t as Forward, cudnnDeterminism_t,
    cudnnMathType_t as Math, cudnnStatus_t,
};

use self::descriptors::Descriptors;
use super::cudnn::{Cudnn, believable};
use super::operands::{Addresses, addresses};
use super::status::check;
use crate::cpu::chain::UnaryOp;
use crate::error::{KernelError, Result};
use crate::gpu::{Algorithm, ConvProblem, Engine, Epilogue, Notes, Operands, Policy, Problem, Region, Solver};

/// All algorithms of forward convolutions, by their numbers.
const FORWARD: [Forward; 8] = [
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_DIRECT,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_FFT,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
];

/// All algorithms of gradients by the input, by their numbers.
const BACKWARD: [Backward; 6] = [
    Backward::CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
    Backward::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
    Backward::CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT,
    Backward::CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING,
    Backward::CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
    Backward::CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
];

fn unsupported(reason: String) -> KernelError {
    KernelError::Unsupported { family: "cuDNN", reason }
}

/// The call for a problem and its epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// `cudnnConvolutionForward`
    Plain,
    /// `cudnnConvolutionBiasActivationForward`, with ReLU or nothing.
    Fused { relu: bool },
    /// `cudnnConvolutionBackwardData`
    Gradient,
}

impl Call {
    fn of(conv: &ConvProblem) -> Result<Call> {
        match (conv.transposed, conv.epilogue) {
            (true, Epilogue::NONE) => Ok(Call::Gradient),
            (false, Epilogue::NONE) => Ok(Call::Plain),
            (false, Epilogue { bias: true, activation: None, .. }) => Ok(Call::Fused { relu: false }),
            (false, Epilogue { bias: true, activation: Some(UnaryOp::Relu), .. }) => Ok(Call::Fused { relu: true }),
            (transposed, epilogue) => Err(unsupported(format!("{epilogue:?}, transposed: {transposed}, in one call"))),
        }
    }

    /// Whether the call has an algorithm of that number.
    fn takes(self, algo: i32) -> bool {
        match self {
            Call::Plain | Call::Fused { relu: true } => usize::try_from(algo).is_ok_and(|algo| algo < FORWARD.len()),
            Call::Fused { relu: false } => algo == Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM as i32,
            Call::Gradient => usize::try_from(algo).is_ok_and(|algo| algo < BACKWARD.len()),
        }
    }

    /// Facts about an algorithm's arithmetic, from its name.
    fn notes(self, algo: i32) -> Notes {
        // Winograd, of an unknown tile.
        const WINOGRAD: Notes = Notes(1 << 5);
        match (self, algo) {
            (Call::Gradient, 2 | 3) | (Call::Plain | Call::Fused { .. }, 4 | 5) => Notes::FFT,
            // It adds partial sums up in any order.
            (Call::Gradient, 0) => Notes::NONDETERMINISTIC,
            (Call::Gradient, 4 | 5) | (Call::Plain | Call::Fused { .. }, 6 | 7) => WINOGRAD,
            _ => Notes(0),
        }
    }
}

/// A math type by its number; all but plain multiply-adds may use TF32.
fn math_of(number: i32) -> Result<Math> {
    [Math::CUDNN_DEFAULT_MATH, Math::CUDNN_TENSOR_OP_MATH, Math::CUDNN_FMA_MATH]
        .into_iter()
        .find(|&math| math as i32 == number)
        .ok_or_else(|| unsupported(format!("arithmetic {number}")))
}

/// A proposal of the library, of either kind.
struct Perf {
    algo: i32,
    status: cudnnStatus_t,
    memory: usize,
    determinism: cudnnDeterminism_t,
    math: Math,
}

/// The library's proposals, best first. TF32 comes before the rest, where it is allowed.
pub(super) fn heuristics(cudnn: &Cudnn, conv: &ConvProblem, policy: &Policy) -> Result<Vec<Algorithm>> {
    let call = Call::of(conv)?;
    let kinds: &[Math] =
        if policy.tf32 { &[Math::CUDNN_TENSOR_OP_MATH, Math::CUDNN_FMA_MATH] } else { &[Math::CUDNN_FMA_MATH] };
    let mut found: Vec<Algorithm> = Vec::new();
    for &math in kinds {
        let descriptors = Descriptors::new(conv, math)?;
        for perf in cudnn.with(|handle| proposals(handle, &descriptors, call))? {
            let usable = perf.status == cudnnStatus_t::CUDNN_STATUS_SUCCESS && call.takes(perf.algo);
            let Some(workspace) = believable(perf.memory as i64).ok().filter(|_| usable) else { continue };
            // Where plain multiply-adds were requested, proposals keep that math type, whatever the answer says.
            let strict = math == Math::CUDNN_FMA_MATH || perf.math == Math::CUDNN_FMA_MATH;
            let mut notes = call.notes(perf.algo);
            if !strict {
                notes = notes.and(Notes::TENSOR_CORE);
            }
            if perf.determinism == cudnnDeterminism_t::CUDNN_NON_DETERMINISTIC {
                notes = notes.and(Notes::NONDETERMINISTIC);
            }
            let math = if strict { Math::CUDNN_FMA_MATH } else { Math::CUDNN_TENSOR_OP_MATH };
            let engine = Engine::Legacy { algo: perf.algo, math: math as i32 };
            if found.iter().all(|known| known.engine != engine) {
                found.push(Algorithm { engine, workspace, notes });
            }
        }
    }
    Ok(found)
}

/// All proposals of the library for a problem; none is run.
fn proposals(handle: sys::cudnnHandle_t, descriptors: &Descriptors, call: Call) -> Result<Vec<Perf>> {
    let (x, w, conv, y) = descriptors.raw();
    let mut count = 0;
    if call == Call::Gradient {
        // SAFETY: all-zero bytes are a valid value: each of the enumerations has the number zero.
        let mut perfs: [sys::cudnnConvolutionBwdDataAlgoPerf_t; 16] = unsafe { std::mem::zeroed() };
        // SAFETY: handle and descriptors are held, and at most `perfs.len()` results are written.
        let status = unsafe {
            let (count, perfs) = (&raw mut count, perfs.as_mut_ptr());
            sys::cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, x, conv, y, 16, count, perfs)
        };
        check("cudnnGetConvolutionBackwardDataAlgorithm_v7", status)?;
        let perfs = perfs.iter().take(usize::try_from(count).unwrap_or(0));
        return Ok(perfs
            .map(|perf| Perf {
                algo: perf.algo as i32,
                status: perf.status,
                memory: perf.memory,
                determinism: perf.determinism,
                math: perf.mathType,
            })
            .collect());
    }
    // SAFETY: all-zero bytes are a valid value: each of the enumerations has the number zero.
    let mut perfs: [sys::cudnnConvolutionFwdAlgoPerf_t; 16] = unsafe { std::mem::zeroed() };
    // SAFETY: handle and descriptors are held, and at most `perfs.len()` results are written.
    let status = unsafe {
        let (count, perfs) = (&raw mut count, perfs.as_mut_ptr());
        sys::cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, conv, y, 16, count, perfs)
    };
    check("cudnnGetConvolutionForwardAlgorithm_v7", status)?;
    let perfs = perfs.iter().take(usize::try_from(count).unwrap_or(0));
    Ok(perfs
        .map(|perf| Perf {
            algo: perf.algo as i32,
            status: perf.status,
            memory: perf.memory,
            determinism: perf.determinism,
            math: perf.mathType,
        })
        .collect())
}

/// A solver: a numbered algorithm with its descriptors.
#[derive(Debug)]
pub(super) struct Numbered {
    problem: Problem,
    call: Call,
    algo: usize,
    workspace: u64,
    notes: Notes,
    descriptors: Mutex<Descriptors>,
    cudnn: Arc<Cudnn>,
}

/// Makes a solver of a numbered algorithm, which may come from a record.
pub(super) fn solver(cudnn: &Arc<Cudnn>, conv: &ConvProblem, algo: i32, math: i32) -> Result<Numbered> {
    let call = Call::of(conv)?;
    let number = usize::try_from(algo).ok().filter(|_| call.takes(algo));
    let algo = number.ok_or_else(|| unsupported(format!("algorithm {algo} of {call:?}")))?;
    let math = math_of(math)?;
    let own = call.notes(algo as i32);
    let notes = if math == Math::CUDNN_FMA_MATH { own } else { own.and(Notes::TENSOR_CORE) };
    let descriptors = Descriptors::new(conv, math)?;
    let (x, w, c, y) = descriptors.raw();
    let mut bytes = 0;
    cudnn.with(|handle| {
        // SAFETY: handle and descriptors are held, and one size is written.
        let status = unsafe {
            let bytes = &raw mut bytes;
            match call {
                Call::Gradient => {
                    sys::cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, x, c, y, BACKWARD[algo], bytes)
                }
                _ => sys::cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, c, y, FORWARD[algo], bytes),
            }
        };
        check("cudnnGetConvolutionWorkspaceSize", status)
    })?;
    let workspace = believable(bytes as i64)?;
    let descriptors = Mutex::new(descriptors);
    Ok(Numbered { problem: Problem::Conv(*conv), call, algo, workspace, notes, descriptors, cudnn: cudnn.clone() })
}

impl Numbered {
    fn start(&self, handle: sys::cudnnHandle_t, at: &Addresses) -> cudnnStatus_t {
        let descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        let (x, w, conv, y) = descriptors.raw();
        let pointer = |address: u64| address as *mut c_void;
        let [input, weights, output, scratch] = [at.left, at.right, at.output, at.workspace].map(pointer);
        let bytes = usize::try_from(self.workspace).unwrap_or(0);
        let (one, zero) = (1f32, 0f32);
        let [one, zero]: [*const c_void; 2] = [(&raw const one).cast(), (&raw const zero).cast()];
        // SAFETY: the handle is ours alone, and descriptors are held. The operands have the sizes of the descriptors,
        // which are those of the problem (`Shape::of`, `addresses`); so has the scratch memory. Factors are read at
        // once.
        unsafe {
            match self.call {
                Call::Plain => {
                    let algo = FORWARD[self.algo];
                    sys::cudnnConvolutionForward(
                        handle, one, x, input, w, weights, conv, algo, scratch, bytes, zero, y, output,
                    )
                }
                Call::Fused { .. } => {
                    let algo = FORWARD[self.algo];
                    // With a factor of zero the residual is not read, but its address must be valid.
                    let (second, residual) =
                        if at.residual == 0 { (zero, output) } else { (one, pointer(at.residual)) };
                    let (b, function) = descriptors.fused();
                    sys::cudnnConvolutionBiasActivationForward(
                        handle,
                        one,
                        x,
                        input,
                        w,
                        weights,
                        conv,
                        algo,
                        scratch,
                        bytes,
                        second,
                        y,
                        residual,
                        b,
                        pointer(at.bias),
                        function,
                        y,
                        output,
                    )
                }
                Call::Gradient => {
                    let algo = BACKWARD[self.algo];
                    sys::cudnnConvolutionBackwardData(
                        handle, one, w, weights, x, input, conv, algo, scratch, bytes, zero, y, output,
                    )
                }
            }
        }
    }
}

impl Solver for Numbered {
    fn workspace(&self) -> u64 {
        self.workspace
    }

    fn notes(&self) -> Notes {
        self.notes
    }

    fn run(&self, operands: &Operands<'_>, workspace: Option<&Region>) -> Result<()> {
        let at = addresses("cuDNN", &self.problem, operands, workspace, self.workspace)?;
        self.cudnn.with(|handle| check("cudnnConvolution", self.start(handle, &at)))
    }

    fn size(&self) -> usize {
        // Six descriptors of some hundred bytes beside the solver itself.
        size_of::<Numbered>() + 2048
    }
}

#[cfg(test)]
mod tests;
