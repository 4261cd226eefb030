//! Functions of callers: loggers, the ends of asynchronous runs, the making of threads.

use std::ffi::{c_char, c_int, c_void};

use crate::seam::{Handle, Status, c_text};
use crate::value::Value;

/// A logger: its parameter, severity, category, log id, location, message. The texts live during the call.
pub(crate) type LogFn =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char, *const c_char, *const c_char)>;

/// The end of an asynchronous run: the caller's data, the outputs, how many, and a status that it owns.
pub(crate) type AsyncFn = Option<unsafe extern "C" fn(*mut c_void, *mut Handle<Value>, usize, Status)>;

/// Makes a thread: options, the thread's function, its argument.
pub(crate) type CreateThreadFn =
    Option<unsafe extern "C" fn(*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void) -> *const c_void>;

/// Joins a thread that the function before has made.
pub(crate) type JoinThreadFn = Option<unsafe extern "C" fn(*const c_void)>;

/// A caller's pointer, which only the caller's functions dereference.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Opaque(pub(crate) *mut c_void);

// SAFETY: the crate only passes it back; the header says that loggers and callbacks run on any thread.
unsafe impl Send for Opaque {}
// SAFETY: as above.
unsafe impl Sync for Opaque {}

/// A caller's logger with its parameter.
#[derive(Clone, Copy)]
pub(crate) struct Sink {
    call: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char, *const c_char, *const c_char),
    parameter: Opaque,
}

impl Sink {
    pub(crate) fn of(call: LogFn, parameter: Opaque) -> Option<Sink> {
        call.map(|call| Sink { call, parameter })
    }

    /// Passes a line to the logger.
    pub(crate) fn log(&self, severity: i32, id: &str, place: &str, message: &str) {
        let [id, place, message] = [id, place, message].map(c_text);
        // SAFETY: it is called as its type says, with texts that live longer than the call.
        unsafe {
            (self.call)(self.parameter.0, severity, c"kiln".as_ptr(), id.as_ptr(), place.as_ptr(), message.as_ptr());
        }
    }
}

/// The end of an asynchronous run; it is called once.
pub(crate) struct Ending {
    call: unsafe extern "C" fn(*mut c_void, *mut Handle<Value>, usize, Status),
    data: Opaque,
}

impl Ending {
    pub(crate) fn of(call: AsyncFn, data: Opaque) -> Option<Ending> {
        call.map(|call| Ending { call, data })
    }

    /// Calls the caller back: with the array of outputs, `count` in all, and the status, which the caller owns.
    pub(crate) fn call(self, outputs: *mut Handle<Value>, count: usize, status: Status) {
        // SAFETY: it is called as its type says, once; the array is the caller's own, which keeps it until then.
        unsafe { (self.call)(self.data.0, outputs, count, status) };
    }
}
