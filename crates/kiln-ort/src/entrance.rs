//! The first function that programs ask for. It returns the table.

use std::ffi::c_char;
use std::io::Write;

use crate::table::{API, Api};
use crate::version::{RELEASE, VERSION};

/// `OrtApiBase`: two functions.
#[repr(C)]
pub struct ApiBase {
    api: extern "C" fn(u32) -> *const Api,
    version: extern "C" fn() -> *const c_char,
}

/// The result of `OrtGetApiBase`.
pub(crate) static BASE: ApiBase = ApiBase { api: get_api, version: get_version };

/// The table, if the caller's version is one that it begins with; else null, and a line on standard error.
extern "C" fn get_api(version: u32) -> *const Api {
    if (1..=VERSION).contains(&version) {
        return &raw const API;
    }
    // A closed standard error is no reason to fail.
    let _ = writeln!(
        std::io::stderr(),
        "The requested API version [{version}] is not available, only API versions [1, {VERSION}] are supported in this \
         build. Current ORT Version is: {} (Kiln {})",
        RELEASE.to_string_lossy(),
        env!("CARGO_PKG_VERSION")
    );
    std::ptr::null()
}

extern "C" fn get_version() -> *const c_char {
    RELEASE.as_ptr()
}
