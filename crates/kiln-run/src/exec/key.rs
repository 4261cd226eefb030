//! The key of an executor: the target that it is built for, and the problem that it solves.
//!
//! A problem is a kernel's description of its computation, plain data of a fixed width. The common part of all families
//! is stated here once: [`ExecutorKey`] is a [`Family`] wherever its problem is a [`Problem`].

use std::fmt::Debug;
use std::hash::Hash;

use kiln_kernels::{CodeSource, Ordered, Parallel, Result as KernelResult};
use kiln_key::{Key, Mutate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::Family;
use super::target::Target;
use super::tune::{Demand, Operands};
use crate::record::Recorded;

/// Everything that determines an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ExecutorKey<P> {
    /// What it is built for.
    pub target: Target,
    /// What it computes.
    pub problem: P,
}

impl<P> ExecutorKey<P> {
    /// The key of an executor that solves a problem on a target.
    #[must_use]
    pub const fn new(target: Target, problem: P) -> ExecutorKey<P> {
        ExecutorKey { target, problem }
    }
}

/// What a kernel family computes, plain data of a fixed width, and how executors of it are chosen and built.
pub trait Problem: Mutate + Hash + Eq + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// [`Key::FAMILY`]
    const FAMILY: &'static str;

    /// [`Recorded::REVISION`]
    const REVISION: u32;

    /// [`Key::Value`]
    type Value: Send + Sync + 'static;

    /// [`Recorded::Choice`]
    type Choice: Serialize + DeserializeOwned + Clone + PartialEq + Debug;

    /// [`Family::choose`]
    fn choose(&self, target: &Target) -> Self::Choice;

    /// [`Family::accepts`]
    fn accepts(&self, choice: &Self::Choice, target: &Target) -> bool;

    /// [`Family::build`], with code from `source`.
    ///
    /// # Errors
    ///
    /// The kernel's errors.
    fn build(&self, choice: &Self::Choice, target: &Target, source: &dyn CodeSource) -> KernelResult<Self::Value>;

    /// [`Family::table_bytes`]
    fn table_bytes(&self) -> Option<u64>;

    /// Whether nodes of this context could ask for it, if the target is the context's.
    fn suits(&self, cx: &BuildCx) -> bool {
        let _ = cx;
        true
    }

    /// [`Family::TUNED`]
    const TUNED: bool = false;

    /// [`Family::candidates`]
    fn candidates(&self, target: &Target, most: usize) -> Vec<Self::Choice> {
        let _ = (target, most);
        Vec::new()
    }

    /// [`Family::demand`]
    fn demand(&self, target: &Target, value: &Self::Value) -> Demand {
        let _ = (target, value);
        Demand::default()
    }

    /// [`Family::trial`]
    ///
    /// # Errors
    ///
    /// The kernel's errors.
    fn trial(&self, value: &Self::Value, operands: Operands<'_>, parallel: &dyn Parallel) -> KernelResult<()> {
        let _ = (value, operands, parallel);
        Ok(())
    }

    /// [`Family::weigh`]
    fn weigh(value: &Self::Value) -> usize {
        std::mem::size_of_val(value)
    }
}

impl<P: Problem> Key for ExecutorKey<P> {
    type Value = P::Value;
    const FAMILY: &'static str = P::FAMILY;
}

impl<P: Problem> Recorded for ExecutorKey<P> {
    const REVISION: u32 = P::REVISION;
    type Choice = P::Choice;
}

impl<P: Problem> Family for ExecutorKey<P> {
    fn choose(&self, _: &BuildCx) -> P::Choice {
        self.problem.choose(&self.target)
    }

    fn accepts(&self, choice: &P::Choice, _: &BuildCx) -> bool {
        self.problem.accepts(choice, &self.target)
    }

    fn build(&self, choice: &P::Choice, cx: &BuildCx) -> KernelResult<P::Value> {
        // The key says it, not the context: a cache serves contexts of both kinds.
        let source = Ordered { source: cx, in_order: self.target.in_order };
        self.problem.build(choice, &self.target, &source)
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        self.target == cx.target() && self.problem.suits(cx)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.problem.table_bytes()
    }

    const TUNED: bool = P::TUNED;

    fn candidates(&self, _: &BuildCx, most: usize) -> Vec<P::Choice> {
        self.problem.candidates(&self.target, most)
    }

    fn demand(&self, value: &P::Value) -> Demand {
        self.problem.demand(&self.target, value)
    }

    fn trial(&self, value: &P::Value, operands: Operands<'_>, parallel: &dyn Parallel) -> KernelResult<()> {
        self.problem.trial(value, operands, parallel)
    }

    fn weigh(value: &P::Value) -> usize {
        P::weigh(value)
    }
}
