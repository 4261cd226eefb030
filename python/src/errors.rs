//! The Python exceptions of Kiln's errors. Their classes are in `kiln/_errors.py`.

use std::path::Path;

use kiln::session::CacheError;
use kiln::{DecoderError, ModelError, SessionError};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// An exception of that class of `kiln._errors`.
pub(crate) fn error(py: Python<'_>, class: &str, message: impl Into<String>) -> PyErr {
    raise(py, class, (message.into(),)).unwrap_or_else(|error| error)
}

fn raise<'py>(py: Python<'py>, class: &str, args: impl pyo3::call::PyCallArgs<'py>) -> PyResult<PyErr> {
    let class = py.import("kiln._errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call1(args)?))
}

/// The exception of an invalid option.
pub(crate) fn option(py: Python<'_>, name: &str, message: impl std::fmt::Display) -> PyErr {
    error(py, "OptionError", format!("{name}: {message}"))
}

/// The exception of an input that cannot be read, caused by another exception where there is one.
pub(crate) fn input(py: Python<'_>, name: &str, reason: impl std::fmt::Display, cause: Option<PyErr>) -> PyErr {
    let error = error(py, "InputError", format!("input '{name}': {reason}"));
    error.set_cause(py, cause);
    error
}

/// The exception of an output that cannot be returned.
pub(crate) fn output(py: Python<'_>, name: &str, reason: impl std::fmt::Display) -> PyErr {
    error(py, "OutputError", format!("output '{name}': {reason}"))
}

/// The exception of an output that the model does not have.
pub(crate) fn no_output(py: Python<'_>, session: &kiln::Session, name: &str) -> PyErr {
    let known: Vec<&str> = session.outputs().iter().map(|port| port.name.as_str()).collect();
    output(py, name, format!("the model has no such output; it has {}", known.join(", ")))
}

/// The exception of a session's error, at load or in a request.
pub(crate) fn session(py: Python<'_>, cause: &SessionError) -> PyErr {
    let text = cause.to_string();
    match cause {
        _ if cause.is_fault() => error(py, "InternalError", text),
        SessionError::Model(ModelError::Io { path, source }) if source.kind() == std::io::ErrorKind::NotFound => {
            not_found(py, text, path)
        }
        SessionError::Model(_)
        | SessionError::Packed(_)
        | SessionError::InvalidNode { .. }
        | SessionError::UnknownValue { .. } => error(py, "ModelError", text),
        SessionError::Unsupported(problems) => unsupported(py, text, problems.clone()),
        SessionError::Input { .. } | SessionError::Dimension { .. } => error(py, "InputError", text),
        SessionError::Output { .. } | SessionError::Bound { .. } => error(py, "OutputError", text),
        SessionError::Threads(_) => error(py, "OptionError", text),
        SessionError::Run(run) => stopped(py, run.stopped(), text),
        SessionError::LoadStopped { why, .. } => stopped(py, Some(*why), text),
        _ => error(py, "RunError", text),
    }
}

/// The exception of records or a packed model that could not be saved or loaded.
pub(crate) fn cache(py: Python<'_>, cause: &CacheError) -> PyErr {
    match cause {
        CacheError::Packed(error) => session(py, error),
        other => error(py, "RecordsError", other.to_string()),
    }
}

/// The exception of a missing model file.
pub(crate) fn not_found(py: Python<'_>, text: String, path: &Path) -> PyErr {
    raise(py, "ModelNotFoundError", (text, path.display().to_string())).unwrap_or_else(|error| error)
}

/// The exception of a model that needs something that Kiln does not support.
pub(crate) fn unsupported(py: Python<'_>, text: String, problems: Vec<String>) -> PyErr {
    raise(py, "UnsupportedError", (text, problems)).unwrap_or_else(|error| error)
}

/// The exception of a decoder's error.
pub(crate) fn decoder(py: Python<'_>, cause: &DecoderError) -> PyErr {
    match cause {
        DecoderError::Session(error) => session(py, error),
        DecoderError::Model(_) => error(py, "ModelError", cause.to_string()),
        DecoderError::Tokens(_) => error(py, "InputError", cause.to_string()),
        _ => error(py, "RunError", cause.to_string()),
    }
}

fn stopped(py: Python<'_>, why: Option<kiln::Stopped>, text: String) -> PyErr {
    match why {
        Some(kiln::Stopped::TimeLimit(_)) => error(py, "TimeLimitError", text),
        Some(kiln::Stopped::Cancelled) => error(py, "CancelledError", text),
        _ => error(py, "RunError", text),
    }
}

/// Whether that exception is an ordinary one, and not an interrupt.
pub(crate) fn is_ordinary(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py)
}
