//! The seam between C callers and the rest of the crate: all unsafe operations are here.
//!
//! Pointers come from the crate's `extern "C"` functions alone, which are `unsafe`: by the head of kiln.h, each is null
//! or points to what its function states, for the duration of the call. Null is an error that names the parameter,
//! except for lists and memory of length 0. No alignment is assumed.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::NonNull;

use kiln::{Foreign, ForeignMut};

use crate::error::{Error, Result, invalid};

/// Writes a value where the caller has room for one.
pub(crate) fn put<T: Copy>(at: *mut T, value: T, what: &str) -> Result<()> {
    if at.is_null() {
        return Err(Error::null(what));
    }
    // SAFETY: the caller has room for one value there, by its type.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Writes a value where the caller wants one.
pub(crate) fn put_if_wanted<T: Copy>(at: *mut T, value: T) {
    let _ = put(at, value, "");
}

/// Writes a value over the element `index` of a list that [`list`] has read.
pub(crate) fn put_at<T: Copy>(at: *mut T, index: usize, value: T) {
    // SAFETY: the caller has that many elements there: the list was read to its end.
    unsafe { at.add(index).write_unaligned(value) };
}

/// Writes the beginning of a struct of numbers into `size` bytes: programs of an earlier version have room for fewer.
pub(crate) fn put_beginning<T: Copy>(at: *mut T, size: usize, value: &T, what: &str) -> Result<()> {
    if at.is_null() {
        return Err(Error::null(what));
    }
    let count = size.min(size_of::<T>());
    // SAFETY: the caller has room for `size` bytes there, and the value has as many as are copied. It is one of the
    // crate's structs of numbers of 64 bits, which have no padding.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), at.cast::<u8>(), count) };
    Ok(())
}

/// Writes values into memory for at least as many, `room`.
pub(crate) fn fill(at: *mut i64, room: usize, values: &[i64], what: &str) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    if at.is_null() {
        return Err(Error::null(what));
    }
    let count = values.len().min(room);
    // SAFETY: the caller has room for `room` values there, which are at least as many; bytes have no alignment.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), at.cast::<u8>(), count * size_of::<i64>()) };
    Ok(())
}

/// The elements of a list of at most `most`.
pub(crate) fn list<T: Copy>(at: *const T, len: usize, most: usize, what: &str) -> Result<Vec<T>> {
    if len == 0 {
        return Ok(Vec::new());
    }
    if at.is_null() {
        return Err(Error::null(what));
    }
    if len > most {
        return Err(invalid!("{what}: {len} elements, and {most} are the most"));
    }
    let mut values: Vec<T> = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::no_memory(what, len.saturating_mul(size_of::<T>())))?;
    // SAFETY: the caller has `len` elements there, of numbers and pointers alone; the vector has room for as many.
    unsafe {
        std::ptr::copy_nonoverlapping(at.cast::<u8>(), values.as_mut_ptr().cast::<u8>(), len * size_of::<T>());
        values.set_len(len);
    }
    Ok(values)
}

/// A text that ends with a zero byte.
pub(crate) fn text(at: *const c_char, what: &str) -> Result<String> {
    String::from_utf8(bytes_of_text(at, what)?).map_err(|_| invalid!("{what} is not UTF-8"))
}

/// A path, of any bytes.
pub(crate) fn path(at: *const c_char, what: &str) -> Result<PathBuf> {
    let bytes = bytes_of_text(at, what)?;
    if bytes.is_empty() {
        return Err(invalid!("{what} is empty"));
    }
    Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
}

fn bytes_of_text(at: *const c_char, what: &str) -> Result<Vec<u8>> {
    if at.is_null() {
        return Err(Error::null(what));
    }
    // SAFETY: the caller's text ends with a zero byte and does not change during the call.
    Ok(unsafe { CStr::from_ptr(at) }.to_bytes().to_vec())
}

/// An address for no bytes, aligned for elements of every type.
fn nowhere() -> NonNull<u8> {
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    static NOWHERE: Aligned = Aligned([0; 64]);
    NonNull::from(&NOWHERE.0).cast()
}

fn start(at: *const c_void, len: usize, what: &str) -> Result<NonNull<u8>> {
    if len > isize::MAX as usize {
        return Err(invalid!("{what}: {len} bytes are more than any memory has"));
    }
    let start = if len == 0 { Some(nowhere()) } else { NonNull::new(at.cast_mut().cast()) };
    start.ok_or_else(|| Error::null(what))
}

/// A copy of bytes.
pub(crate) fn copy(at: *const c_void, len: usize, what: &str) -> Result<Vec<u8>> {
    let start = start(at, len, what)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Error::no_memory(what, len))?;
    // SAFETY: the caller has `len` bytes there, and the vector has room for as many.
    unsafe {
        std::ptr::copy_nonoverlapping(start.as_ptr(), bytes.as_mut_ptr(), len);
        bytes.set_len(len);
    }
    Ok(bytes)
}

/// The caller's bytes, for a run that reads them and ends before the call does.
pub(crate) fn reading(at: *const c_void, len: usize, what: &str) -> Result<Foreign> {
    let start = start(at, len, what)?;
    // SAFETY: the caller has `len` bytes there, and neither writes nor frees them before the call ends; the run drops
    // its inputs before that. Outputs of the run lie elsewhere: overlaps were refused.
    Ok(unsafe { Foreign::new(start, len, ()) })
}

/// The caller's bytes, for a run that writes them and ends before the call does.
pub(crate) fn writing(at: *mut c_void, len: usize, what: &str) -> Result<ForeignMut> {
    let start = start(at, len, what)?;
    // SAFETY: as in `reading`; no other memory of the run lies there, because overlaps were refused.
    Ok(unsafe { ForeignMut::new(start, len, ()) })
}

/// Writes bytes into memory of `room` bytes, at least as many, which overlaps no memory of the run.
pub(crate) fn write(at: *mut c_void, room: usize, bytes: &[u8], what: &str) -> Result<()> {
    let count = bytes.len().min(room);
    let start = start(at, count, what)?;
    // SAFETY: the caller has room for as many bytes there, and they are not the slice's: overlapping inputs and outputs
    // of a run were refused.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), count) };
    Ok(())
}
