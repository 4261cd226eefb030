//! Statuses of the libraries as one kind of error, with the names of the call and of the status.

use std::fmt::Debug;

use cudarc::cublaslt::sys::cublasStatus_t;
use cudarc::cudnn::sys::cudnnStatus_t;
use cudarc::driver::sys::CUresult;
use cudarc::nvrtc::sys::nvrtcResult;

use crate::error::{KernelError, Result};

/// A status of a library.
pub(super) trait Status: Copy + Debug + PartialEq {
    /// Success.
    const SUCCESS: Self;

    /// The library's name, if the status says that the call is not supported, as opposed to a failure.
    fn refuses(self) -> Option<&'static str>;
}

impl Status for CUresult {
    const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;

    fn refuses(self) -> Option<&'static str> {
        None
    }
}

impl Status for nvrtcResult {
    const SUCCESS: nvrtcResult = nvrtcResult::NVRTC_SUCCESS;

    fn refuses(self) -> Option<&'static str> {
        None
    }
}

impl Status for cublasStatus_t {
    const SUCCESS: cublasStatus_t = cublasStatus_t::CUBLAS_STATUS_SUCCESS;

    fn refuses(self) -> Option<&'static str> {
        matches!(self, cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED | cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH)
            .then_some("cuBLASLt")
    }
}

impl Status for cudnnStatus_t {
    const SUCCESS: cudnnStatus_t = cudnnStatus_t::CUDNN_STATUS_SUCCESS;

    fn refuses(self) -> Option<&'static str> {
        // All reasons for not being supported are numbered from here on.
        let first = cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED as u32;
        (first..first + 1000).contains(&(self as u32)).then_some("cuDNN")
    }
}

/// Turns a status into a result.
///
/// # Errors
///
/// [`KernelError::Unsupported`] where the library cannot do the call, and otherwise [`KernelError::Device`].
pub(super) fn check<S: Status>(call: &'static str, status: S) -> Result<()> {
    if status == S::SUCCESS {
        return Ok(());
    }
    match status.refuses() {
        Some(family) => Err(KernelError::Unsupported { family, reason: format!("{call}: {status:?}") }),
        None => Err(KernelError::Device { call, reason: format!("{status:?}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_not_a_failure() {
        assert!(check("cuInit", CUresult::CUDA_SUCCESS).is_ok());
        let failed = check("cuInit", CUresult::CUDA_ERROR_NO_DEVICE).unwrap_err();
        assert_eq!(failed.to_string(), "cuInit: CUDA_ERROR_NO_DEVICE");
        assert!(matches!(failed, KernelError::Device { call: "cuInit", .. }));
        for status in [
            cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED,
            cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
        ] {
            assert!(matches!(check("finalize", status), Err(KernelError::Unsupported { family: "cuDNN", .. })));
        }
        for status in
            [cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR]
        {
            assert!(matches!(check("finalize", status), Err(KernelError::Device { .. })));
        }
        let lt = check("cublasLtMatmul", cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED);
        assert!(matches!(lt, Err(KernelError::Unsupported { family: "cuBLASLt", .. })));
    }
}
