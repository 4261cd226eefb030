//! How operators run: which compute through executors with keys, which only move data, and which are plain Rust and
//! why. Rows state it, `kiln check --operators` prints it, and tests compare it with the nodes.

/// How the nodes of an operator run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// They compute through an executor that is cached by a key, on the element types that have kernels.
    Key,
    /// They move elements or whole values and compute nothing.
    Moves,
    /// They compute in plain Rust, for that reason.
    Plain(&'static str),
}

pub(super) const BODIES: &str = "runs the nodes of its body";
pub(super) const BOUND_BY_MEMORY: &str = "one pass that memory bounds";
pub(super) const KERNEL_ROWS: &str = "rows of kernel functions, on all threads";
pub(super) const NO_KERNELS: &str = "no kernels on integers and strings";
pub(super) const ORDER: &str = "order decides, not arithmetic";
pub(super) const RANDOM: &str = "random numbers come one after the other";
pub(super) const RARE: &str = "rare, and small where it is met";
pub(super) const SCATTERED: &str = "reads or writes where its data say";
pub(super) const SERIAL: &str = "each result needs the one before";
pub(super) const TEXTS: &str = "texts and tables of them";
pub(super) const TREES: &str = "walks trees";
