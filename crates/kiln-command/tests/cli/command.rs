//! Starting the real binary and looking at what it did.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `kiln` with these arguments and none of the caller's settings.
pub(crate) fn kiln<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Finished {
    let Output { status, stdout, stderr } = command(arguments).output().expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
    Finished { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

/// The same, not started.
pub(crate) fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.env_clear();
    // Nothing that a test does may end up in the caller's own cache folder.
    command
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache"));
    command.args(arguments);
    command
}

impl Finished {
    /// Asserts success and silence on standard error, and returns what was printed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }

    /// Asserts that the command failed with that code and exactly one line, which contains all `parts`.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(self.stderr.starts_with("kiln: "), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "'{part}' is not in: {}", self.stderr);
        }
    }
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> String {
    path.to_str().expect("temporary paths are text").to_owned()
}
