//! The table for the crate `ort`, in the types of `ort-sys`.

use crate::table::{API, Api};

// The table itself compares the place of each entry.
const _: () = assert!(size_of::<Api>() == size_of::<ort_sys::OrtApi>());

/// The table for `ort::set_api`.
///
/// ```no_run
/// // ort::set_api(kiln_ort::api());
/// let api = kiln_ort::api();
/// # drop(api);
/// ```
#[must_use]
pub fn api() -> ort_sys::OrtApi {
    // SAFETY: both are tables with the same number of pointers to C functions in one order, and each function takes and
    // returns the same registers: pointers and numbers of one size. Where `ort-sys` has an enumeration, there is an
    // integer here, which takes every value; a returned integer is one of the enumeration's numbers.
    unsafe { std::ptr::from_ref(&API).cast::<ort_sys::OrtApi>().read() }
}
