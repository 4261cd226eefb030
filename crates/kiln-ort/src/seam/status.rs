//! Statuses: what failed entries return.

use std::ffi::{CString, c_int};

use crate::error::{Code, Error};
use crate::seam::Handle;
use crate::seam::handle::kind;
use crate::seam::pointer::c_text;

/// The return value of an entry: null is success.
pub(crate) type Status = Handle<Failure>;

/// A failure that a caller owns.
pub(crate) struct Failure {
    /// A number of `OrtErrorCode`.
    pub(crate) code: c_int,
    pub(crate) message: CString,
}

kind!(Failure = "OrtStatus");

impl Failure {
    /// A status for the caller. Where there is no memory for one, it is the status that always exists.
    pub(crate) fn status(error: Error) -> Status {
        let made = Failure { code: error.code, message: c_text(&error.message) };
        Handle::new(made).unwrap_or_else(|_| no_memory())
    }

    pub(crate) fn error(&self) -> Error {
        Error { code: self.code, message: self.message.to_string_lossy().into_owned() }
    }
}

/// A status of the process, made when first needed.
fn no_memory() -> Status {
    static STATUS: std::sync::OnceLock<Status> = std::sync::OnceLock::new();
    *STATUS.get_or_init(|| {
        let failure = Failure { code: Code::OutOfMemory as c_int, message: c"out of memory".to_owned() };
        Handle::new(failure).unwrap_or(Handle::NULL)
    })
}
