//! The version of onnxruntime's interface that the table has.

use std::ffi::CStr;

use crate::seam::{Text, entry};

/// The version of the table, which has the entries of all earlier ones.
pub(crate) const VERSION: u32 = 31;

/// The release of onnxruntime, as programs parse it.
pub(crate) const RELEASE: &CStr = c"1.31.0";

entry! {
    fn GetBuildInfoString() -> Text, else Text::NULL => {
        const INFO: &str = concat!("ORT Build Info: Kiln ", env!("CARGO_PKG_VERSION"), "\0");
        CStr::from_bytes_with_nul(INFO.as_bytes()).map_or(Text::NULL, Text::within)
    }
}
