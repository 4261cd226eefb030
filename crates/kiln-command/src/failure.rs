//! Exit codes: one clear line of text and one code for scripts. Depends on no command.
//!
//! Every error becomes a [`Failure`]: an error and its exit code. [`WithCode`] turns the errors of libraries into
//! failures where the cause is known.

use std::fmt::Display;
use std::io;

/// The exit codes, a part of the command's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// All went well.
    Ok = 0,
    /// It ran, and a result was wrong or an assertion failed.
    Failed = 1,
    /// The command line, or a file that it names, cannot be used.
    Usage = 2,
    /// The model needs something that Kiln does not do.
    Unsupported = 3,
}

/// A command that did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    /// `None` if the output has been printed already (totals of `check`, a reader that closed the pipe).
    error: Option<anyhow::Error>,
}

/// The result of every command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with that code and its line.
    pub(crate) fn new(code: Code, error: impl Into<anyhow::Error>) -> Failure {
        Failure { code, error: Some(error.into()) }
    }

    /// A mistake on the command line or in a file that it names.
    pub(crate) fn usage(message: impl Display) -> Failure {
        Failure::new(Code::Usage, anyhow::anyhow!("{message}"))
    }

    /// A failure whose line has been printed already.
    pub(crate) fn reported(code: Code) -> Failure {
        Failure { code, error: None }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The line: the error and its causes, outermost first.
    pub(crate) fn line(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(
            format!("{error:#}")
                .split(['\n', '\r'])
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    /// The same failure with an outer context, such as the model's path.
    #[must_use]
    pub(crate) fn context(self, context: impl Display + Send + Sync + 'static) -> Failure {
        Failure { code: self.code, error: self.error.map(|error| error.context(context)) }
    }
}

/// Printing failed. A reader that closes the pipe (`kiln inspect m.onnx | head`) is not a failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::reported(Code::Ok),
            _ => Failure::new(Code::Failed, anyhow::Error::from(error).context("cannot print")),
        }
    }
}

/// Assigns an exit code to an error.
pub(crate) trait WithCode<T> {
    /// An error of the command line or of a file that it names; `context` names the flag or file.
    fn usage<C: Display + Send + Sync + 'static>(self, context: impl FnOnce() -> C) -> Outcome<T>;

    /// An error of Kiln or of the machine.
    fn failed<C: Display + Send + Sync + 'static>(self, context: impl FnOnce() -> C) -> Outcome<T>;
}

impl<T, E: Into<anyhow::Error>> WithCode<T> for Result<T, E> {
    fn usage<C: Display + Send + Sync + 'static>(self, context: impl FnOnce() -> C) -> Outcome<T> {
        self.map_err(|error| Failure::new(Code::Usage, error.into().context(context())))
    }

    fn failed<C: Display + Send + Sync + 'static>(self, context: impl FnOnce() -> C) -> Outcome<T> {
        self.map_err(|error| Failure::new(Code::Failed, error.into().context(context())))
    }
}
