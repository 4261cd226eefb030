//! Reductions of `f32` over any axes.
//!
//! [`geometry`] turns axes into steps over arrays `[outer, reduce, inner]`; [`Reduce`] is the driver, which splits each
//! step between threads. A step whose `inner` is one folds rows, the others fold columns. The oracle is
//! [`reference::reduce`](crate::reference::reduce). Axes and types as ONNX knows them are not known here.

pub mod geometry;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

pub use geometry::Collapsed;
use geometry::Step;

use crate::cpu::CodeSource;
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference;

const FAMILY: &str = "reduce";

/// What is made of the elements that are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are ONNX's")]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    SumSquare,
    L1,
    L2,
    LogSum,
    LogSumExp,
}

/// What is done to an element before it is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Map {
    Identity,
    Abs,
    Square,
}

/// How elements are folded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fold {
    /// The sum.
    Add,
    /// The product.
    Mul,
    /// The largest; NaN wins.
    Max,
    /// The smallest; NaN wins.
    Min,
    /// The logarithm of the sum of exponentials, without overflow.
    LogAddExp,
}

/// What is done to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Finish {
    None,
    Sqrt,
    Log,
}

/// What one pass over data does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pass {
    /// Before the fold.
    pub map: Map,
    /// The fold.
    pub fold: Fold,
    /// After it, and after the scaling.
    pub finish: Finish,
}

impl Reduction {
    /// All of them.
    pub const ALL: [Reduction; 10] = [
        Reduction::Sum,
        Reduction::Mean,
        Reduction::Max,
        Reduction::Min,
        Reduction::Prod,
        Reduction::SumSquare,
        Reduction::L1,
        Reduction::L2,
        Reduction::LogSum,
        Reduction::LogSumExp,
    ];

    /// The reduction as one pass. Several passes fold in the same way, map in the first and finish in the last.
    #[must_use]
    pub const fn pass(self) -> Pass {
        let (map, fold, finish) = match self {
            Reduction::Sum | Reduction::Mean => (Map::Identity, Fold::Add, Finish::None),
            Reduction::Max => (Map::Identity, Fold::Max, Finish::None),
            Reduction::Min => (Map::Identity, Fold::Min, Finish::None),
            Reduction::Prod => (Map::Identity, Fold::Mul, Finish::None),
            Reduction::SumSquare => (Map::Square, Fold::Add, Finish::None),
            Reduction::L1 => (Map::Abs, Fold::Add, Finish::None),
            Reduction::L2 => (Map::Square, Fold::Add, Finish::Sqrt),
            Reduction::LogSum => (Map::Identity, Fold::Add, Finish::Log),
            Reduction::LogSumExp => (Map::Identity, Fold::LogAddExp, Finish::None),
        };
        Pass { map, fold, finish }
    }

    /// The reduction of no elements.
    #[must_use]
    pub const fn of_nothing(self) -> f32 {
        match self {
            Reduction::Sum | Reduction::SumSquare | Reduction::L1 | Reduction::L2 => 0.0,
            Reduction::Prod => 1.0,
            Reduction::Mean => f32::NAN,
            Reduction::Min => f32::INFINITY,
            Reduction::Max | Reduction::LogSum | Reduction::LogSumExp => f32::NEG_INFINITY,
        }
    }
}

/// A reduction ready to run.
#[derive(Debug)]
pub struct Reduce {
    input_len: usize,
    output_len: usize,
    /// None where nothing is there to be folded: then the output is [`Reduction::of_nothing`].
    steps: SmallVec<[Step; 2]>,
    of_nothing: f32,
    tasks: usize,
}

impl Reduce {
    /// Prepares a reduction, split into at most `tasks` tasks.
    pub fn new(
        reduction: Reduction,
        collapsed: &Collapsed,
        isa: Isa,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<Reduce> {
        if !collapsed.is_valid() {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("{collapsed:?} is too large") });
        }
        let _ = (isa, source);
        let (input_len, output_len, tasks) = (collapsed.input_len(), collapsed.output_len(), tasks.max(1));
        let steps = if input_len == 0 { SmallVec::new() } else { geometry::steps(reduction, collapsed, tasks) };
        Ok(Reduce { input_len, output_len, steps, of_nothing: reduction.of_nothing(), tasks })
    }

    /// Elements of scratch that [`Reduce::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        let before_last = self.steps.len().saturating_sub(1);
        self.steps[..before_last].iter().map(Step::output_len).sum()
    }

    /// Reduces `input` to `output`.
    pub fn run(
        &self,
        input: &[f32],
        output: &mut [f32],
        mut scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        bounds("input", input.len(), self.input_len)?;
        bounds("output", output.len(), self.output_len)?;
        bounds("scratch", scratch.len(), self.scratch_len())?;
        let output = &mut output[..self.output_len];
        let Some((last, before)) = self.steps.split_last() else {
            output.fill(self.of_nothing);
            return Ok(());
        };
        let mut from = input;
        for step in before {
            let (to, rest) = std::mem::take(&mut scratch).split_at_mut(step.output_len());
            self.step(step, from, to, parallel);
            (from, scratch) = (to, rest);
        }
        self.step(last, from, output, parallel);
        Ok(())
    }

    fn step(&self, step: &Step, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) {
        let units = step.outer * step.parts;
        let tasks = self.tasks.min(units);
        let output = Disjoint::new(output);
        parallel.run(tasks, &|task| {
            for unit in part(units, tasks, task) {
                let rows = step.part(unit % step.parts);
                let first = unit / step.parts * step.reduce + rows.start;
                // SAFETY: each unit writes its own columns, and each belongs to one task.
                let output = unsafe { output.part(unit * step.inner..(unit + 1) * step.inner) };
                let input = &input[first * step.inner..];
                reference::reduce::reduce(step.pass, step.scale, input, step.inner, rows.len(), output);
            }
        });
    }
}

fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have < need { Err(KernelError::Bounds { family: FAMILY, operand, have, need }) } else { Ok(()) }
}
