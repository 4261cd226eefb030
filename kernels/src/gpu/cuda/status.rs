//! What the libraries answer, as one kind of error with the call's name and the status's.

use std::fmt::Debug;

use cudarc::cublaslt::sys::cublasStatus_t;
use cudarc::cudnn::sys::cudnnStatus_t;
use cudarc::driver::sys::CUresult;
use cudarc::nvrtc::sys::nvrtcResult;

use crate::error::{KernelError, Result};

/// An answer of a library.
pub(super) trait Status: Copy + Debug + PartialEq {
    /// That all went well.
    const SUCCESS: Self;

    /// The library's name where it says that it cannot do what it was asked for, as opposed to something having failed.
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

/// Nothing, where a call went well.
///
/// # Errors
///
/// [`KernelError::Unsupported`] where the library cannot do what was asked, and otherwise [`KernelError::Device`].
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
