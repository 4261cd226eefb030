//! Errors within the crate, and the codes that programs find.

use std::ffi::CString;

use kiln::session::CacheError;
use kiln::{ModelError, PackedError, RecordError, SessionError, Stopped};
use kiln_kernels::KernelError;
use kiln_run::NodeError;
use kiln_run::exec::BuildError;
use kiln_tensor::TensorError;

/// The kind of a failure. Later versions may add codes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KilnCode {
    /// No failure.
    Ok = 0,
    /// An argument is wrong: null, a name that the model does not have, a type or shape that it does not take, or an
    /// unknown setting.
    InvalidArgument = 1,
    /// A handle was released, is of another kind, or never was one.
    NotLive = 2,
    /// An output has more bytes or dimensions than there is room for. Unless the output is fixed, its KilnOutput says
    /// how many it has.
    NoRoom = 3,
    /// The system has too little memory, or a limit forbids more.
    NoMemory = 4,
    /// The model or the call needs something that Kiln does not support.
    Unsupported = 5,
    /// The file is damaged or not a model, or the model breaks ONNX's rules.
    InvalidModel = 6,
    /// A file cannot be read or written.
    File = 7,
    /// The run or the loading was cancelled.
    Cancelled = 8,
    /// The time limit of the run or of the loading has passed.
    TimeLimit = 9,
    /// The setting error_on_cache_miss is on, and the run needs an executor without a record.
    CacheMiss = 10,
    /// A fault in Kiln itself.
    Fault = 11,
    /// Any other failure.
    Failed = 12,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A failure within the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) code: KilnCode,
    pub(crate) message: String,
}

impl Error {
    pub(crate) fn new(code: KilnCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    /// The argument `what` is null and must not be.
    pub(crate) fn null(what: &str) -> Error {
        Error::new(KilnCode::InvalidArgument, format!("{what} is null"))
    }

    /// There is too little memory for the argument `what`.
    pub(crate) fn no_memory(what: &str, bytes: usize) -> Error {
        Error::new(KilnCode::NoMemory, format!("{what}: there is no memory for {bytes} bytes"))
    }
}

/// An argument that is wrong, with a reason as `format!` takes it.
macro_rules! invalid {
    ($($reason:tt)*) => {
        $crate::error::Error::new($crate::error::KilnCode::InvalidArgument, format!($($reason)*))
    };
}
pub(crate) use invalid;

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Error {
        Error::new(code_of(&error), error.to_string())
    }
}

impl From<RecordError> for Error {
    fn from(error: RecordError) -> Error {
        Error::new(KilnCode::File, error.to_string())
    }
}

impl From<CacheError> for Error {
    fn from(error: CacheError) -> Error {
        match error {
            CacheError::Records(error) => error.into(),
            CacheError::Packed(error) => error.into(),
            other => Error::new(KilnCode::File, other.to_string()),
        }
    }
}

impl From<TensorError> for Error {
    fn from(error: TensorError) -> Error {
        Error::new(code_of_tensor(&error), error.to_string())
    }
}

fn code_of(error: &SessionError) -> KilnCode {
    match error {
        _ if error.is_fault() => KilnCode::Fault,
        SessionError::Run(error) => code_of_node(&error.error),
        SessionError::Device(error) => code_of_node(error),
        SessionError::LoadStopped { why, .. } => code_of_stop(*why),
        SessionError::Memory { .. } | SessionError::Model(ModelError::Memory(_)) => KilnCode::NoMemory,
        SessionError::Model(ModelError::Io { .. } | ModelError::NotAFile { .. } | ModelError::Url { .. }) => {
            KilnCode::File
        }
        SessionError::Model(_) | SessionError::InvalidNode { .. } => KilnCode::InvalidModel,
        SessionError::Unsupported(_) | SessionError::Packed(PackedError::Unsupported(_)) => KilnCode::Unsupported,
        SessionError::Packed(PackedError::Damaged { .. }) => KilnCode::InvalidModel,
        SessionError::Packed(_) => KilnCode::File,
        SessionError::Input { .. }
        | SessionError::Output { .. }
        | SessionError::Dimension { .. }
        | SessionError::Bound { .. }
        | SessionError::UnknownValue { .. } => KilnCode::InvalidArgument,
        _ => KilnCode::Failed,
    }
}

fn code_of_node(error: &NodeError) -> KilnCode {
    match error {
        NodeError::Body(inner) => code_of_node(&inner.error),
        NodeError::Stopped(why) => code_of_stop(*why),
        NodeError::Tensor(error) => code_of_tensor(error),
        NodeError::Kernel(KernelError::Memory(_)) => KilnCode::NoMemory,
        NodeError::Build(BuildError::Kernel(KernelError::Memory(_))) => KilnCode::NoMemory,
        NodeError::Build(BuildError::NotRecorded { .. }) => KilnCode::CacheMiss,
        NodeError::Unsupported(_) => KilnCode::Unsupported,
        NodeError::Input(_) | NodeError::Shape(_) => KilnCode::InvalidArgument,
        _ => KilnCode::Failed,
    }
}

fn code_of_tensor(error: &TensorError) -> KilnCode {
    match error {
        TensorError::Refused(_) | TensorError::Memory { .. } => KilnCode::NoMemory,
        _ => KilnCode::InvalidArgument,
    }
}

fn code_of_stop(why: Stopped) -> KilnCode {
    match why {
        Stopped::TimeLimit(_) => KilnCode::TimeLimit,
        _ => KilnCode::Cancelled,
    }
}

/// A text for C, up to its first zero.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
