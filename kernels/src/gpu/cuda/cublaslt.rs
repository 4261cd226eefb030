//! cuBLASLt: matrix products with epilogues.
//!
//! The library is column-major. A row-major matrix is its transpose in column-major order, so a row-major product is
//! computed as `right' * left'`: the right matrix comes first, and the library's rows are our columns, along which it
//! adds a bias, too. Its GELU is the one with the hyperbolic tangent.
//!
//! An algorithm belongs to a compute type (`f32` or TF32), which it does not name: the note for tensor cores says that
//! it was proposed for TF32.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::sys::{self, cublasComputeType_t, cublasLtEpilogue_t, cublasStatus_t, cudaDataType};

use super::context::Context;
use super::operands::addresses;
use super::owned::Owned;
use super::status::check;
use crate::cpu::chain::UnaryOp;
use crate::error::{KernelError, Result};
use crate::gpu::{Algorithm, Engine, Epilogue, MatMulProblem, Notes, Operands, Policy, Problem, Region, Solver};

/// Proposals that are requested for each compute type.
const PROPOSALS: usize = 8;

/// cuBLASLt on one device.
#[derive(Debug)]
pub(super) struct Lt {
    handle: Owned<sys::cublasLtHandle_t, cublasStatus_t>,
    context: Arc<Context>,
}

// SAFETY: the library's handle may be used by any thread, and by several at once.
unsafe impl Send for Lt {}
// SAFETY: as above.
unsafe impl Sync for Lt {}

impl Lt {
    /// Creates the library's handle on a device; the library is loaded.
    pub(super) fn open(context: &Arc<Context>) -> Result<Arc<Lt>> {
        context.bind()?;
        // SAFETY: the library is there, and the calls belong together.
        let handle = unsafe { Owned::new("cublasLtCreate", |raw| sys::cublasLtCreate(raw), sys::cublasLtDestroy)? };
        Ok(Arc::new(Lt { handle, context: context.clone() }))
    }

    /// The library's proposals, best first. TF32 comes before the rest, where it is allowed.
    pub(super) fn heuristics(&self, problem: &MatMulProblem, policy: &Policy) -> Result<Vec<Algorithm>> {
        self.context.bind()?;
        let kinds: &[Notes] = if policy.tf32 { &[Notes::TENSOR_CORE, Notes(0)] } else { &[Notes(0)] };
        let mut found = Vec::new();
        for &notes in kinds {
            found.extend(self.proposals(problem, policy, notes)?);
        }
        Ok(found)
    }

    fn proposals(&self, problem: &MatMulProblem, policy: &Policy, notes: Notes) -> Result<Vec<Algorithm>> {
        let work = Work::new(problem, notes)?;
        // SAFETY: the library is there, and the calls belong together.
        let wish = unsafe {
            let create = |raw| sys::cublasLtMatmulPreferenceCreate(raw);
            Owned::new("cublasLtMatmulPreferenceCreate", create, sys::cublasLtMatmulPreferenceDestroy)?
        };
        let most = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the attribute is a word of 64 bits, which is read before the call returns.
        let status = unsafe {
            let value = std::ptr::from_ref(&policy.workspace).cast();
            sys::cublasLtMatmulPreferenceSetAttribute(wish.raw(), most, value, size_of::<u64>())
        };
        check("cublasLtMatmulPreferenceSetAttribute", status)?;
        let mut results = [NOTHING; PROPOSALS];
        let mut count = 0;
        let [left, right, residual, output] = work.layouts();
        // SAFETY: handle and descriptors are held; the library writes at most the number of results that it is told.
        let status = unsafe {
            let most = PROPOSALS as i32;
            let (handle, wish) = (self.handle.raw(), wish.raw());
            let (results, count) = (results.as_mut_ptr(), &raw mut count);
            let (product, a, b) = (work.product.raw(), right, left);
            sys::cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, residual, output, wish, most, results, count)
        };
        if status == cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            return Ok(Vec::new());
        }
        check("cublasLtMatmulAlgoGetHeuristic", status)?;
        let good = results[..usize::try_from(count).unwrap_or(0).min(PROPOSALS)]
            .iter()
            .filter(|result| result.state == cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        Ok(good
            .map(|result| Algorithm {
                engine: Engine::Lt { data: result.algo.data },
                workspace: result.workspaceSize as u64,
                notes: if adds_in_place(&result.algo) { notes.and(Notes::NONDETERMINISTIC) } else { notes },
            })
            .collect())
    }

    /// Makes a solver from an algorithm, which may come from a record: the library checks it.
    pub(super) fn solver(self: &Arc<Lt>, problem: &MatMulProblem, data: [u64; 8], notes: Notes) -> Result<Product> {
        self.context.bind()?;
        let work = Work::new(problem, notes)?;
        let algo = sys::cublasLtMatmulAlgo_t { data };
        let mut result = NOTHING;
        let [left, right, residual, output] = work.layouts();
        // SAFETY: handle and descriptors are held, and one result is written.
        let status = unsafe {
            let (handle, product, algo, result) =
                (self.handle.raw(), work.product.raw(), &raw const algo, &raw mut result);
            sys::cublasLtMatmulAlgoCheck(handle, product, right, left, residual, output, algo, result)
        };
        // An algorithm of another version is an invalid value: a record's fault, not the device's.
        if status == cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE {
            return Err(unsupported("an algorithm that is none of this version"));
        }
        check("cublasLtMatmulAlgoCheck", status)?;
        check("cublasLtMatmulAlgoCheck", result.state)?;
        let workspace = result.workspaceSize as u64;
        let notes = if adds_in_place(&algo) { notes.and(Notes::NONDETERMINISTIC) } else { notes };
        let (problem, work) = (Problem::MatMul(*problem), Mutex::new(work));
        Ok(Product { problem, work, algo, workspace, notes, lt: self.clone() })
    }
}

impl Drop for Lt {
    fn drop(&mut self) {
        // The handle frees its memory in the context of the calling thread.
        let _ = self.context.synchronise();
    }
}

/// A result for the library to write.
const NOTHING: sys::cublasLtMatmulHeuristicResult_t = sys::cublasLtMatmulHeuristicResult_t {
    algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
    workspaceSize: 0,
    state: cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED,
    wavesCount: 0.0,
    reserved: [0; 4],
};

fn unsupported(reason: &str) -> KernelError {
    KernelError::Unsupported { family: "cuBLASLt", reason: reason.to_owned() }
}

/// Whether an algorithm splits the reduction and adds partial sums up in the output in any order (split-K in place).
fn adds_in_place(algo: &sys::cublasLtMatmulAlgo_t) -> bool {
    let (mut scheme, mut written) = (0u32, 0);
    let attribute = sys::cublasLtMatmulAlgoConfigAttributes_t::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME;
    // SAFETY: the algorithm is one that the library wrote, and the attribute is a word of 32 bits.
    let status = unsafe {
        let value = (&raw mut scheme).cast();
        sys::cublasLtMatmulAlgoConfigGetAttribute(algo, attribute, value, size_of::<u32>(), &raw mut written)
    };
    // If the library does not answer, runs may differ.
    status != cublasStatus_t::CUBLAS_STATUS_SUCCESS
        || scheme & sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_INPLACE as u32 != 0
}

/// The library's epilogue; the residual is the matrix C instead.
fn epilogue(epilogue: Epilogue) -> Result<cublasLtEpilogue_t> {
    use cublasLtEpilogue_t as E;
    Ok(match (epilogue.activation, epilogue.bias) {
        (None, false) => E::CUBLASLT_EPILOGUE_DEFAULT,
        (None, true) => E::CUBLASLT_EPILOGUE_BIAS,
        (Some(UnaryOp::Relu), false) => E::CUBLASLT_EPILOGUE_RELU,
        (Some(UnaryOp::Relu), true) => E::CUBLASLT_EPILOGUE_RELU_BIAS,
        (Some(UnaryOp::GeluTanh), false) => E::CUBLASLT_EPILOGUE_GELU,
        (Some(UnaryOp::GeluTanh), true) => E::CUBLASLT_EPILOGUE_GELU_BIAS,
        (Some(other), _) => return Err(unsupported(&format!("{other:?} of a product"))),
    })
}

type Layout = Owned<sys::cublasLtMatrixLayout_t, cublasStatus_t>;

/// A problem as the library's descriptors.
#[derive(Debug)]
struct Work {
    product: Owned<sys::cublasLtMatmulDesc_t, cublasStatus_t>,
    left: Layout,
    right: Layout,
    /// The layout of the residual and the output.
    output: Layout,
}

// SAFETY: the descriptors are plain memory of the library, used by one thread at a time, which holds their lock
// (`Product::work`).
unsafe impl Send for Work {}

impl Work {
    fn new(problem: &MatMulProblem, notes: Notes) -> Result<Work> {
        let MatMulProblem { batch, m, n, k, trans_left, trans_right, one_left, one_right, .. } = *problem;
        if [batch, m, n, k].contains(&0) || i32::try_from(batch).is_err() {
            return Err(unsupported("a size of zero, or too many products"));
        }
        let own = epilogue(problem.epilogue)?;
        let compute = if notes.has(Notes::TENSOR_CORE) {
            cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
        } else {
            cublasComputeType_t::CUBLAS_COMPUTE_32F
        };
        // SAFETY: the library is there, and the calls belong together.
        let product = unsafe {
            let create = |raw| sys::cublasLtMatmulDescCreate(raw, compute, cudaDataType::CUDA_R_32F);
            Owned::new("cublasLtMatmulDescCreate", create, sys::cublasLtMatmulDescDestroy)?
        };
        use sys::cublasLtMatmulDescAttributes_t as D;
        // `cublasOperation_t`: 0 leaves a matrix as it is, 1 takes its transpose.
        let words = [
            (D::CUBLASLT_MATMUL_DESC_TRANSA, u32::from(trans_right)),
            (D::CUBLASLT_MATMUL_DESC_TRANSB, u32::from(trans_left)),
            (D::CUBLASLT_MATMUL_DESC_EPILOGUE, own as u32),
        ];
        for (attribute, word) in words {
            // SAFETY: the descriptor is held, and each of the attributes is a word of 32 bits.
            let status = unsafe {
                let value = std::ptr::from_ref(&word).cast();
                sys::cublasLtMatmulDescSetAttribute(product.raw(), attribute, value, size_of::<u32>())
            };
            check("cublasLtMatmulDescSetAttribute", status)?;
        }
        // A row-major matrix is, in column-major order, a matrix whose rows are its columns.
        let left_is = if trans_left { [m, k] } else { [k, m] };
        let right_is = if trans_right { [k, n] } else { [n, k] };
        Ok(Work {
            product,
            left: layout(left_is, batch, one_left)?,
            right: layout(right_is, batch, one_right)?,
            output: layout([n, m], batch, false)?,
        })
    }

    /// Layouts of the left matrix, the right one, the residual and the output.
    fn layouts(&self) -> [sys::cublasLtMatrixLayout_t; 4] {
        [self.left.raw(), self.right.raw(), self.output.raw(), self.output.raw()]
    }
}

/// The layout of a dense column-major matrix, one for each product or one for all.
fn layout([rows, columns]: [u32; 2], batch: u32, once: bool) -> Result<Layout> {
    // SAFETY: the library is there, and the calls belong together.
    let layout = unsafe {
        let (rows, columns, step) = (u64::from(rows), u64::from(columns), i64::from(rows));
        let create = |raw| sys::cublasLtMatrixLayoutCreate(raw, cudaDataType::CUDA_R_32F, rows, columns, step);
        Owned::new("cublasLtMatrixLayoutCreate", create, sys::cublasLtMatrixLayoutDestroy)?
    };
    let elements = u64::from(rows) * u64::from(columns);
    let step = i64::try_from(if once { 0 } else { elements }).map_err(|_| unsupported("a matrix of 2^63 elements"))?;
    let batch = batch as i32;
    use sys::cublasLtMatrixLayoutAttribute_t as L;
    // SAFETY: the layout is held; the number of matrices has 32 bits and their stride 64.
    let statuses = unsafe {
        let (count, step) = (std::ptr::from_ref(&batch).cast(), std::ptr::from_ref(&step).cast());
        [
            sys::cublasLtMatrixLayoutSetAttribute(layout.raw(), L::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count, 4),
            sys::cublasLtMatrixLayoutSetAttribute(
                layout.raw(),
                L::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                step,
                8,
            ),
        ]
    };
    for status in statuses {
        check("cublasLtMatrixLayoutSetAttribute", status)?;
    }
    Ok(layout)
}

/// A solver: an algorithm with its descriptors.
#[derive(Debug)]
pub(super) struct Product {
    problem: Problem,
    /// The bias's address is a part of the descriptor.
    work: Mutex<Work>,
    algo: sys::cublasLtMatmulAlgo_t,
    workspace: u64,
    /// The notes that decide the arithmetic: they choose the compute type.
    notes: Notes,
    lt: Arc<Lt>,
}

impl Solver for Product {
    fn workspace(&self) -> u64 {
        self.workspace
    }

    fn notes(&self) -> Notes {
        self.notes
    }

    fn run(&self, operands: &Operands<'_>, workspace: Option<&Region>) -> Result<()> {
        let at = addresses("cuBLASLt", &self.problem, operands, workspace, self.workspace)?;
        let Problem::MatMul(problem) = &self.problem else { return Err(unsupported("no product")) };
        let stream = self.lt.context.stream()?;
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if problem.epilogue.bias {
            let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            // SAFETY: the descriptor is held, and the attribute is an address of 64 bits.
            let status = unsafe {
                let value = std::ptr::from_ref(&at.bias).cast();
                sys::cublasLtMatmulDescSetAttribute(work.product.raw(), attribute, value, size_of::<u64>())
            };
            check("cublasLtMatmulDescSetAttribute", status)?;
        }
        let (alpha, beta) = (f32::from_bits(problem.scale), if problem.epilogue.residual { 1f32 } else { 0f32 });
        // With a factor of zero the residual is not read, but its address must be valid.
        let residual = if problem.epilogue.residual { at.residual } else { at.output };
        let pointer = |address: u64| address as *mut std::ffi::c_void;
        // SAFETY: handle and descriptors are held. The operands hold the elements that the layouts describe
        // (`addresses`), and so does the scratch memory. The factors are read before the call returns. The stream is
        // the context's, which is bound.
        let status = unsafe {
            let [left, right, middle, output] = work.layouts();
            sys::cublasLtMatmul(
                self.lt.handle.raw(),
                work.product.raw(),
                (&raw const alpha).cast(),
                pointer(at.right),
                right,
                pointer(at.left),
                left,
                (&raw const beta).cast(),
                pointer(residual),
                middle,
                pointer(at.output),
                output,
                &raw const self.algo,
                pointer(at.workspace),
                usize::try_from(self.workspace).unwrap_or(0),
                stream.cast(),
            )
        };
        check("cublasLtMatmul", status)
    }

    fn size(&self) -> usize {
        // Four descriptors of at most 256 bytes beside the product itself.
        size_of::<Product>() + 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_does_what_it_has_names_for() {
        use cublasLtEpilogue_t as E;
        let of = |bias, activation| epilogue(Epilogue { bias, residual: true, activation });
        assert_eq!(of(false, None).unwrap(), E::CUBLASLT_EPILOGUE_DEFAULT);
        assert_eq!(of(true, Some(UnaryOp::Relu)).unwrap(), E::CUBLASLT_EPILOGUE_RELU_BIAS);
        assert_eq!(of(true, Some(UnaryOp::GeluTanh)).unwrap(), E::CUBLASLT_EPILOGUE_GELU_BIAS);
        for other in [UnaryOp::Gelu, UnaryOp::Sigmoid, UnaryOp::Silu] {
            assert!(matches!(of(true, Some(other)), Err(KernelError::Unsupported { .. })));
        }
    }
}
