//! The table for the crate `ort`, whose types of it are those of `ort-sys`.

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
    // SAFETY: both are tables of as many pointers to C functions in one order, and each takes and gives the same
    // registers: pointers and numbers of one size. Where `ort-sys` has an enumeration, there is an integer here, which
    // takes every value; what is given back in its place is one of the enumeration's numbers.
    unsafe { std::ptr::from_ref(&API).cast::<ort_sys::OrtApi>().read() }
}
