//! Statuses: why a call failed. No panic leaves a function.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, KilnCode, Result, c_text};
use crate::handle::{self, kind};

/// Why a call failed. NULL is success.
pub struct KilnStatus {
    code: KilnCode,
    message: CString,
}

kind!(KilnStatus = "KilnStatus");

/// Runs the function `name`: an error becomes a status, and a panic too.
pub(crate) fn guard(name: &str, function: impl FnOnce() -> Result<()>) -> *mut KilnStatus {
    let result = catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::new(KilnCode::Fault, format!("{name} met a fault of Kiln's own, please report it: {what}")))
    });
    match result {
        Ok(()) => std::ptr::null_mut(),
        Err(Error { code, message }) => handle::give(KilnStatus { code, message: c_text(&message) }),
    }
}

/// Runs a function that returns no status; `nothing` is the value after a fault.
pub(crate) fn guard_or<T>(nothing: T, function: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or(nothing)
}

/// The version of Kiln, as in "0.1.0". The string lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

/// The kind of the failure. It is KILN_CODE_OK for NULL, and KILN_CODE_NOT_LIVE for a released status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_status_code(status: *const KilnStatus) -> KilnCode {
    guard_or(KilnCode::Fault, || {
        if status.is_null() {
            KilnCode::Ok
        } else {
            handle::find(status).map_or(KilnCode::NotLive, |status| status.code)
        }
    })
}

/// The message: what is wrong, and where. It is "" for NULL. The string lives until the status is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_status_message(status: *const KilnStatus) -> *const c_char {
    guard_or(c"".as_ptr(), || {
        if status.is_null() {
            return c"".as_ptr();
        }
        let gone = c"status is no live KilnStatus: it was released, or never was one".as_ptr();
        handle::find(status).map_or(gone, |status| status.message.as_ptr())
    })
}

/// Releases a status. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_status_release(status: *mut KilnStatus) {
    guard_or((), || handle::release(status));
}
