//! Errors of entries: onnxruntime's codes, and texts that begin with the words that programs look for.

use std::fmt;

/// onnxruntime's error codes (`OrtErrorCode`), as far as the crate answers with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Fail = 1,
    InvalidArgument = 2,
    NoSuchFile = 3,
    OutOfMemory = 6,
    InvalidProtobuf = 7,
    NotImplemented = 9,
    InvalidGraph = 10,
    LoadCancelled = 12,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why an entry failed.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    /// A number of `OrtErrorCode`.
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code: code as i32, message: message.into() }
    }

    /// The argument `what` is null and must not be.
    pub(crate) fn null(what: &str) -> Error {
        Error::new(Code::InvalidArgument, format!("{what} is null"))
    }

    /// The entry `name` is known, but not implemented.
    pub(crate) fn not_implemented(name: &str) -> Error {
        Error::new(Code::NotImplemented, format!("{name} is not implemented by Kiln"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error for a wrong argument, with a reason as `format!` takes it.
macro_rules! invalid {
    ($($reason:tt)*) => {
        $crate::error::Error::new($crate::error::Code::InvalidArgument, format!($($reason)*))
    };
}
pub(crate) use invalid;

/// An error for a failure, with a reason as `format!` takes it.
macro_rules! failed {
    ($($reason:tt)*) => {
        $crate::error::Error::new($crate::error::Code::Fail, format!($($reason)*))
    };
}
pub(crate) use failed;
