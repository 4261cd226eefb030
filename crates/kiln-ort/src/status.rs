//! Entries of statuses.

use std::ffi::c_int;

use crate::error::{Code, Error};
use crate::seam::{Failure, Status, Text, entry};

entry! {
    fn CreateStatus(code: c_int, message: Text) -> Status, else Status::NULL => {
        Failure::status(Error { code, message: message.lossy() })
    }

    fn GetErrorCode(status: Status) -> c_int, else Code::Fail as c_int => {
        match (status.is_null(), status.live()) {
            (true, _) => 0,
            (false, Some(failure)) => failure.code,
            (false, None) => Code::InvalidArgument as c_int,
        }
    }

    fn GetErrorMessage(status: Status) -> Text, else Text::within(c"") => {
        match (status.is_null(), status.live()) {
            (true, _) => Text::within(c""),
            // The text lives until the status is released.
            (false, Some(failure)) => Text::within(&failure.message),
            (false, None) => Text::within(c"status is not a live OrtStatus"),
        }
    }

    fn ReleaseStatus(status: Status) -> (), else () => {
        drop(status.release());
    }
}
