//! Pointers as C passes them: to one value to write, to lists, to texts.
//!
//! Each function here reads or writes the memory that the caller has there by onnxruntime's header. Null is an error
//! that names the parameter, except for lists of no elements. Lengths that no list has are refused before anything is
//! read.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::error::{Error, Result, invalid};

/// Elements of the longest list that a caller may give: far more than the names, dimensions or values of any model.
const LONGEST: usize = 1 << 24;

/// A place where an entry writes one value, or several.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Out<T> {
        *self
    }
}

impl<T> Copy for Out<T> {}

// SAFETY: the call that it was given to writes it, or the one callback that ends an asynchronous call.
unsafe impl<T: Send> Send for Out<T> {}

impl<T: Copy> Out<T> {
    /// The place, which is not null.
    pub(crate) fn place(self, what: &str) -> Result<Place<T>> {
        if self.0.is_null() { Err(Error::null(what)) } else { Ok(Place(self.0)) }
    }

    /// Writes the value where there is a place.
    pub(crate) fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            Place(self.0).put(value);
        }
    }

    /// Writes as many of the values as fit into room for `len` values.
    pub(crate) fn fill(self, len: usize, values: &[T], what: &str) -> Result<()> {
        let count = len.min(values.len());
        if count == 0 {
            return Ok(());
        }
        let start = self.place(what)?.0;
        // SAFETY: the caller has room for `len` values there, and `count` is at most that.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), start, count) };
        Ok(())
    }

    /// The present values in room for `len` values.
    pub(crate) fn read(self, len: usize, what: &str) -> Result<Vec<T>> {
        List(self.0.cast_const()).read(len, what)
    }
}

impl<T> Out<T> {
    /// The pointer itself, for callbacks that get it back.
    pub(crate) fn raw(self) -> *mut T {
        self.0
    }

    pub(crate) fn from_raw(at: *mut T) -> Out<T> {
        Out(at)
    }
}

/// A place that is not null.
pub(crate) struct Place<T>(*mut T);

impl<T> Clone for Place<T> {
    fn clone(&self) -> Place<T> {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T: Copy> Place<T> {
    /// Writes the value.
    pub(crate) fn put(self, value: T) {
        // SAFETY: the caller has room for one value there. Its alignment is not assumed.
        unsafe { self.0.write_unaligned(value) };
    }

    /// Reads the value that the caller has put there.
    pub(crate) fn get(self) -> T {
        // SAFETY: an entry reads only where the caller gives a value and gets one back; all types in use are plain.
        unsafe { self.0.read_unaligned() }
    }
}

/// A list that an entry reads.
#[repr(transparent)]
pub(crate) struct List<T>(*const T);

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        *self
    }
}

impl<T> Copy for List<T> {}

// SAFETY: it is an address that is read during the call that it was given to.
unsafe impl<T: Sync> Send for List<T> {}

impl<T: Copy> List<T> {
    /// Its `len` elements; null where `len` is 0 is an empty list.
    ///
    /// # Errors
    ///
    /// For null with elements, and for a length that no list has.
    pub(crate) fn read(self, len: usize, what: &str) -> Result<Vec<T>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Error::null(what));
        }
        if len > LONGEST {
            return Err(invalid!("{what}: {len} elements are more than any list has"));
        }
        let mut values: Vec<T> = Vec::new();
        values.try_reserve_exact(len).map_err(|_| invalid!("{what}: there is no memory for {len} elements"))?;
        // SAFETY: the caller has `len` elements there, of a plain type; the vector has room for them.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0.cast::<u8>(), values.as_mut_ptr().cast::<u8>(), len * size_of::<T>());
            values.set_len(len);
        }
        Ok(values)
    }

    /// The list in the crate's own memory.
    pub(crate) fn lent(values: &'static [T]) -> List<T> {
        List(values.as_ptr())
    }

    pub(crate) const NULL: List<T> = List(std::ptr::null());

    /// The list at an address; another argument gives the type of its elements.
    pub(crate) fn from_raw(at: *const T) -> List<T> {
        List(at)
    }

    /// A list within a value that lives longer than the receiver of the pointer, as the header says of the entry.
    pub(crate) fn within(values: &[T]) -> List<T> {
        List(values.as_ptr())
    }
}

/// A text that ends with a zero byte.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

// SAFETY: it is an address that is read during the call that it was given to, or within a value that is shared.
unsafe impl Send for Text {}
// SAFETY: as above.
unsafe impl Sync for Text {}

impl Text {
    pub(crate) const NULL: Text = Text(std::ptr::null());

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// A text of the crate's own that lives longer than the receiver of the pointer, as the header says of the entry.
    pub(crate) const fn within(text: &CStr) -> Text {
        Text(text.as_ptr())
    }

    /// The bytes before the zero.
    pub(crate) fn bytes(self, what: &str) -> Result<Vec<u8>> {
        if self.0.is_null() {
            return Err(Error::null(what));
        }
        // SAFETY: the caller's text ends with a zero byte and does not change during the call.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes().to_vec())
    }

    /// The text.
    ///
    /// # Errors
    ///
    /// For null, and for bytes that are not UTF-8.
    pub(crate) fn read(self, what: &str) -> Result<String> {
        String::from_utf8(self.bytes(what)?).map_err(|_| invalid!("{what} is not UTF-8"))
    }

    /// Reads the text in place; `None` for null and for bytes that are not UTF-8.
    pub(crate) fn look<T>(self, what: impl FnOnce(&str) -> T) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: as in `bytes`.
        unsafe { CStr::from_ptr(self.0) }.to_str().ok().map(what)
    }

    /// The text, whatever its bytes are; null is an empty text.
    pub(crate) fn lossy(self) -> String {
        self.bytes("text").map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The path.
    pub(crate) fn path(self, what: &str) -> Result<PathBuf> {
        self.bytes(what).map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes)))
    }
}

/// A text for C, up to its first zero.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// A text or buffer that the caller receives or owns: the crate neither reads nor writes it.
pub(crate) type Chars = *mut c_char;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_an_error_that_names_the_parameter_and_an_empty_list_may_be_null() {
        let text = |error: Error| error.message;
        assert_eq!(text(Out::<usize>(std::ptr::null_mut()).place("out").err().unwrap()), "out is null");
        assert_eq!(text(Text::NULL.read("name").err().unwrap()), "name is null");
        assert_eq!(text(List::<i64>::NULL.read(2, "shape").err().unwrap()), "shape is null");
        assert!(List::<i64>::NULL.read(0, "shape").unwrap().is_empty());
        let error = List::lent(&[1i64]).read(usize::MAX, "shape").err().unwrap();
        assert_eq!(error.message, "shape: 18446744073709551615 elements are more than any list has");
    }

    #[test]
    fn a_room_gets_as_many_values_as_it_has_room_for() {
        let mut room = [0i64; 3];
        let out = Out(room.as_mut_ptr());
        out.fill(2, &[7, 8, 9], "dims").unwrap();
        assert_eq!(room, [7, 8, 0]);
        out.fill(3, &[1], "dims").unwrap();
        assert_eq!(room, [1, 8, 0]);
    }

    #[test]
    fn texts_are_read_up_to_their_zero() {
        assert_eq!(Text::within(c"one").read("x").unwrap(), "one");
        assert!(Text::within(c"\xff").read("x").err().unwrap().message.contains("not UTF-8"));
        assert_eq!(Text::within(c"a\xff").lossy(), "a\u{fffd}");
    }
}
