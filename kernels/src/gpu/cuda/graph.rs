//! cuDNN's graph interface: a convolution and its epilogue are one graph of operations, for which the library proposes
//! engines with knobs.
//!
//! A choice is the engine's number and its knobs, as the library's raw numbers: from these, another process makes the
//! plan again ([`plan`]). [`descriptor`] is the interface's one kind of object, [`operations`] describes a problem with
//! descriptors, [`engines`] asks for proposals. Only plans need a device.

mod descriptor;
mod engines;
mod operations;
mod plan;
#[cfg(test)]
mod tests;

pub(super) use engines::heuristics;
pub(super) use plan::solver;
