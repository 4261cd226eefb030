//! cuDNN's graph interface: a convolution with what follows it as one graph of operations, for which the library proposes
//! engines with knobs.
//!
//! What is kept of a choice is the engine's number and its knobs, raw, as the library said them: from these a plan is made
//! again in another process ([`plan`]). [`descriptor`] is the interface's one kind of object, [`operations`] says a problem in
//! it, [`engines`] asks for proposals. Everything here needs the library alone, until a plan is made.

mod descriptor;
mod engines;
mod operations;
mod plan;
#[cfg(test)]
mod tests;

pub(super) use engines::heuristics;
pub(super) use plan::solver;
