//! How this command was invoked, so that it can start itself again. It may be a part of another program: then that
//! program's own arguments come first.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

static KEPT: OnceLock<Invocation> = OnceLock::new();

/// The arguments of this process.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The program and the arguments that make it the command; empty where the program is only the command.
    pub before: Vec<OsString>,
    /// The command's own.
    pub arguments: Vec<OsString>,
}

impl Invocation {
    /// Keeps it as this process's invocation.
    pub(crate) fn keep(self) {
        // A process is invoked once.
        let _ = KEPT.set(self);
    }

    fn kept() -> &'static Invocation {
        KEPT.get_or_init(Invocation::default)
    }
}

/// The arguments of the subcommand that runs.
pub(crate) fn of_subcommand() -> Vec<OsString> {
    Invocation::kept().arguments.iter().skip(1).cloned().collect()
}

/// This process's own program again as the command.
pub(crate) fn again() -> Command {
    match Invocation::kept().before.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => {
            // The same program, even if another one has been installed meanwhile.
            let mut command = Command::new("/proc/self/exe");
            command.arg0("kiln");
            command
        }
    }
}
