//! Reductions of `f32` over any axes.
//!
//! [`geometry`] turns axes into steps over arrays `[outer, reduce, inner]`; [`Reduce`] is the driver, which splits each
//! step between threads. A step whose `inner` is 1 folds rows, other steps fold columns; rows too short to fill vectors
//! become columns in transposed blocks. [`emit`] has the instructions of both,
//! [`problem::reduce`](crate::problem::reduce) defines folds. The oracle is [`reference::reduce`]. Depends on no ONNX
//! axes or types.

pub mod emit;
pub mod geometry;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

pub use crate::problem::reduce::{Fold, Map, Pass, PostOp, Reduction};
pub use emit::{Order, ReduceArgs, ReduceCode, ReduceKernel};
pub use geometry::Collapsed;
use geometry::{LINE, Step};

use super::softmax::{Form, SoftmaxArgs, SoftmaxCode, SoftmaxKernel};
use crate::cpu::turned::{ShortRows, Turned};
use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference;

pub(crate) const FAMILY: &str = "reduce";

/// A reduction ready to run.
#[derive(Debug)]
pub struct Reduce {
    input_len: usize,
    output_len: usize,
    /// Passes in order. Empty where the input is empty: the output is then [`Reduction::of_nothing`].
    steps: SmallVec<[Coded; 2]>,
    of_nothing: f32,
    tasks: usize,
}

/// A step and its code.
#[derive(Debug)]
struct Coded {
    step: Step,
    code: Option<Arc<Code>>,
    /// Blocks of rows that are too short to fill vectors. The code then folds columns.
    turned: Option<Turned>,
}

impl Coded {
    fn new(step: Step, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Coded> {
        if !isa.is_jit() {
            return Ok(Coded { step, code: None, turned: None });
        }
        let short = match step.pass.fold {
            Fold::Max | Fold::Min | Fold::LogAddExp => ShortRows::OF_EXTREMES,
            Fold::Add | Fold::Mul => ShortRows::OF_SUMS,
        };
        let is_short = step.inner == 1 && short.has(step.outer, step.reduce, isa);
        // Which order terms are added in may depend on the number of rows only where it need not be the same always.
        let turned = (is_short && step.parts == 1 && !source.in_order())
            .then(|| Turned::arrays(step.outer, step.reduce, tasks, isa, source))
            .transpose()?;
        let folded = turned.as_ref().map_or(step, |turned| step.turned(turned.block(0).len()));
        Ok(Coded { step, code: Some(source.code(&code_key(&folded, isa))?), turned })
    }
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
        let (input_len, output_len, tasks) = (collapsed.input_len(), collapsed.output_len(), tasks.max(1));
        let steps = match input_len {
            0 => SmallVec::new(),
            _ => geometry::steps(reduction, collapsed, tasks, source.in_order()),
        };
        let steps = steps.into_iter().map(|step| Coded::new(step, isa, tasks, source)).collect::<Result<_>>()?;
        Ok(Reduce { input_len, output_len, steps, of_nothing: reduction.of_nothing(), tasks })
    }

    /// Elements of scratch that [`Reduce::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        let before_last = self.steps.len().saturating_sub(1);
        self.steps[..before_last].iter().map(|coded| coded.step.output_len()).sum()
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
        let mut from = &input[..self.input_len];
        for coded in before {
            let (to, rest) = std::mem::take(&mut scratch).split_at_mut(coded.step.output_len());
            self.step(coded, from, to, parallel);
            (from, scratch) = (to, rest);
        }
        self.step(last, from, output, parallel);
        Ok(())
    }

    fn step(&self, coded: &Coded, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) {
        let output = Disjoint::new(output);
        let (step, code) = (&coded.step, coded.code.as_deref());
        if let (Some(turned), Some(code)) = (&coded.turned, code) {
            let tasks = self.tasks.min(turned.count());
            parallel.run(tasks, &|task| {
                let mut scratch = memory::zeroed(turned.scratch());
                for index in part(turned.count(), tasks, task) {
                    let rows = turned.block(index);
                    turned.turn(index, &input[turned.elements(index)], &mut scratch);
                    // SAFETY: each row has its own element, and each block belongs to one task.
                    let output = unsafe { output.part(rows.clone()) };
                    let columns = step.turned(rows.len());
                    call(&columns, code, &scratch, output, columns.reduce, columns.inner, columns.inner);
                }
            });
            return;
        }
        if step.inner == 1 && step.parts == 1 {
            // Rows follow each other in memory: one call folds many.
            let tasks = self.tasks.min(step.outer);
            parallel.run(tasks, &|task| {
                let rows = part(step.outer, tasks, task);
                // SAFETY: each row has its own element, and belongs to one task.
                let output = unsafe { output.part(rows.clone()) };
                fold_rows(step, code, &input[rows.start * step.reduce..rows.end * step.reduce], output);
            });
            return;
        }
        // Where there are fewer parts than tasks, columns are split as well.
        let units = step.outer * step.parts;
        let lines = step.inner.div_ceil(LINE);
        let blocks = if code.is_some() { self.tasks.div_ceil(units).min(lines) } else { 1 };
        let tasks = self.tasks.min(units * blocks);
        parallel.run(tasks, &|task| {
            for index in part(units * blocks, tasks, task) {
                let (unit, lines) = (index / blocks, part(lines, blocks, index % blocks));
                let columns = lines.start * LINE..(lines.end * LINE).min(step.inner);
                let rows = step.part(unit % step.parts);
                let first = unit / step.parts * step.reduce + rows.start;
                // SAFETY: each unit has its own columns, blocks split them, and each belongs to one task.
                let output = unsafe { output.part(unit * step.inner + columns.start..unit * step.inner + columns.end) };
                let input = &input[first * step.inner..(first + rows.len()) * step.inner];
                fold_columns(step, code, &input[columns.start..], rows.len(), output);
            }
        });
    }
}

/// The code of a step.
fn code_key(step: &Step, isa: Isa) -> CodeKey {
    let columns = step.inner != 1;
    match step.pass.fold {
        Fold::LogAddExp => CodeKey::Softmax(SoftmaxCode { isa, form: Form::LogSumExp, columns }),
        _ => CodeKey::Reduce(ReduceCode { isa, pass: step.pass, order: step.order(), centred: false }),
    }
}

/// Folds each of the rows of `input` into its element of `output`.
fn fold_rows(step: &Step, code: Option<&Code>, input: &[f32], output: &mut [f32]) {
    match code {
        None => {
            for (row, to) in input.chunks_exact(step.reduce).zip(output.chunks_exact_mut(1)) {
                reference::reduce::reduce(step.pass, step.scale, row, 1, row.len(), to);
            }
        }
        Some(code) => call(step, code, input, output, output.len(), step.reduce, step.reduce),
    }
}

/// Folds `rows` rows into `output`, which is a part of a row. The first row starts at the start of `input`.
fn fold_columns(step: &Step, code: Option<&Code>, input: &[f32], rows: usize, output: &mut [f32]) {
    match code {
        None => reference::reduce::reduce(step.pass, step.scale, input, step.inner, rows, output),
        // To the code that folds rows, a part of a row is a row.
        Some(code) if step.inner == 1 => call(step, code, input, output, 1, rows, rows),
        Some(code) => call(step, code, input, output, rows, output.len(), step.inner),
    }
}

fn call(step: &Step, code: &Code, input: &[f32], output: &mut [f32], rows: usize, length: usize, stride: usize) {
    let order = step.order();
    let results = if order == Order::Rows { rows } else { length };
    // One check for many elements, so release builds have it too.
    assert!(rows > 0 && (rows - 1) * stride + length <= input.len(), "{step:?} reads past its input");
    assert!(results <= output.len(), "{step:?} writes past its output");
    let given = Given::new().read("input", input).write("output", output);
    let (src, dst, stride) = (input.as_ptr(), output.as_mut_ptr(), stride * 4);
    // SAFETY: rows, their length and stride stay inside of both slices (see the callers); each code takes its own
    // struct.
    unsafe {
        match step.pass.fold {
            Fold::LogAddExp => {
                let kernel = SoftmaxKernel { form: Form::LogSumExp, columns: order != Order::Rows };
                code.call(&SoftmaxArgs { src, dst, rows, length, stride }, &kernel, &given);
            }
            _ => {
                let (scale, centre) = (step.scale, std::ptr::null());
                let args = ReduceArgs { src, dst, rows, length, stride, scale, centre };
                code.call(&args, &ReduceKernel { order, centred: false }, &given);
            }
        }
    }
}

fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have < need { Err(KernelError::Bounds { family: FAMILY, operand, have, need }) } else { Ok(()) }
}
