//! How this command was invoked, and so how it starts itself again. It may be a part of another program: then that
//! program's own arguments come first.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

static KEPT: OnceLock<Invocation> = OnceLock::new();

/// The arguments of this process.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The program and those that make it the command; none where it is nothing else.
    pub before: Vec<OsString>,
    /// The command's own.
    pub arguments: Vec<OsString>,
}

impl Invocation {
    /// From now on it is this process's.
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
            // Even if another one has been installed meanwhile.
            let mut command = Command::new("/proc/self/exe");
            command.arg0("kiln");
            command
        }
    }
}
