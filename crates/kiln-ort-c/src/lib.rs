//! The exports of `libonnxruntime.so`.
//!
#![doc = include_str!("../README.md")]

use std::ffi::{c_int, c_void};

/// `OrtGetApiBase`: where every program begins.
///
/// On Linux it is exported only under the symbol versions of the releases (`build.rs`).
#[cfg_attr(not(target_os = "linux"), unsafe(export_name = "OrtGetApiBase"))]
pub extern "C" fn get_api_base() -> *const kiln_ort::ApiBase {
    kiln_ort::base()
}

/// `OrtSessionOptionsAppendExecutionProvider_CPU`: the processor is always available. Returns null, which is success.
#[cfg_attr(not(target_os = "linux"), unsafe(export_name = "OrtSessionOptionsAppendExecutionProvider_CPU"))]
pub extern "C" fn append_cpu(_options: *mut c_void, _use_arena: c_int) -> *mut c_void {
    std::ptr::null_mut()
}

#[cfg(target_os = "linux")]
std::arch::global_asm!(
    include_str!(concat!(env!("OUT_DIR"), "/versions.s")),
    kiln_ort_get_api_base = sym get_api_base,
    kiln_ort_append_cpu = sym append_cpu,
);
