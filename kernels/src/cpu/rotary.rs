//! Rotations of heads of `f32` by the angles of their positions.
//!
//! [`Rotary`] is the driver, [`emit`] has the instructions. Products are rounded before they are added, as in the
//! oracle, [`reference::rotary`], so that results are the same bits at every level.

pub mod emit;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use crate::problem::rotary::Rotation;
pub use emit::{RotaryArgs, RotaryCode};

use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::parallel::{Disjoint, InPlaceInput, Parallel, part};
use crate::reference;

pub(crate) const FAMILY: &str = "rotary";

/// The angles of a run.
#[derive(Clone, Copy, Debug)]
pub struct Angles<'a> {
    /// Lines of cosines, one a pair.
    pub cosines: &'a [f32],
    /// Lines of sines.
    pub sines: &'a [f32],
    /// The line of each position, sequence after sequence.
    pub lines: &'a [usize],
}

/// A rotation ready to run.
#[derive(Debug)]
pub struct Rotary {
    rotation: Rotation,
    elements: usize,
    /// Rows of heads that lie at one distance from each other form runs, and each run is one call.
    runs: Runs,
    tasks: usize,
    code: Option<Arc<Code>>,
}

/// How rows of heads are cut into runs.
#[derive(Clone, Copy, Debug)]
struct Runs {
    count: usize,
    /// Rows of a run.
    rows: usize,
    /// Whether the rows of a run are positions, with an angle each; else they are heads of one position.
    of_positions: bool,
}

impl Rotary {
    /// Prepares a rotation, split into at most `tasks` tasks.
    pub fn new(rotation: Rotation, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Rotary> {
        let elements = rotation.elements().ok_or_else(|| unsupported(format!("{rotation:?}")))?;
        let key = CodeKey::Rotary(RotaryCode { isa, interleaved: rotation.interleaved });
        let code = if isa.is_jit() { Some(source.code(&key)?) } else { None };
        let [batch, positions, heads] = [rotation.batch(), rotation.positions(), rotation.heads()];
        // The rows of a run follow each other: a single position has its heads in a row, and a single head its
        // positions.
        let of_positions = if rotation.heads_first { positions > 1 } else { heads == 1 };
        let (count, rows) = match elements {
            0 => (0, 0),
            _ if of_positions => (batch * heads, positions),
            _ => (batch * positions, heads),
        };
        let runs = Runs { count, rows, of_positions };
        Ok(Rotary { rotation, elements, runs, tasks: tasks.max(1), code })
    }

    /// Rotates `input` into `output`.
    pub fn run(&self, input: &[f32], angles: Angles<'_>, output: &mut [f32], parallel: &dyn Parallel) -> Result<()> {
        bounds("input", input.len(), self.elements)?;
        self.start(Some(input), angles, output, parallel)
    }

    /// Rotates heads in place.
    pub fn run_in_place(&self, data: &mut [f32], angles: Angles<'_>, parallel: &dyn Parallel) -> Result<()> {
        self.start(None, angles, data, parallel)
    }

    fn start(
        &self,
        input: Option<&[f32]>,
        angles: Angles<'_>,
        output: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        bounds("output", output.len(), self.elements)?;
        if self.elements == 0 {
            return Ok(());
        }
        bounds("lines", angles.lines.len(), self.rotation.lines())?;
        let last = angles.lines[..self.rotation.lines()].iter().max().copied().unwrap_or(0);
        let need = last.checked_add(1).and_then(|lines| lines.checked_mul(self.rotation.pairs()));
        for (operand, values) in [("cosines", angles.cosines), ("sines", angles.sines)] {
            bounds(operand, values.len(), need.unwrap_or(usize::MAX))?;
        }
        let given = Given::new().maybe("input", input).write("output", output);
        let given = given.read("cosines", angles.cosines).read("sines", angles.sines).read("lines", angles.lines);
        let output = Disjoint::new(output);
        let in_place = input.is_none();
        let input = input.map_or_else(|| InPlaceInput::of_output(&output), InPlaceInput::apart);
        let work = Work { input, output, in_place, angles, given };
        let tasks = self.tasks.min(self.runs.count);
        parallel.run(tasks, &|task| {
            for run in part(self.runs.count, tasks, task) {
                match &self.code {
                    Some(code) => self.run_code(code, &work, run),
                    None => self.run_plainly(&work, run),
                }
            }
        });
        Ok(())
    }

    /// The place of a run's first position among all lines.
    fn line(&self, run: usize) -> usize {
        if self.runs.of_positions { run / self.rotation.heads() * self.runs.rows } else { run }
    }

    fn run_code(&self, code: &Code, work: &Work<'_>, run: usize) {
        let (size, rotated) = (self.rotation.size(), self.rotation.rotated());
        let first = run * self.runs.rows * size;
        let Angles { cosines, sines, lines } = work.angles;
        let args = RotaryArgs {
            src: work.input.at(first),
            dst: work.output.at(first),
            cosines: cosines.as_ptr(),
            sines: sines.as_ptr(),
            lines: lines[self.line(run)..].as_ptr(),
            step: if self.runs.of_positions { size_of::<usize>() } else { 0 },
            rows: self.runs.rows,
            pairs: rotated / 2,
            rest: if work.in_place { 0 } else { size - rotated },
            stride: size * 4,
        };
        // SAFETY: `start` checked that all buffers hold the rows of the run, whose lines are those of the tables; the
        // rows belong to this task alone. The code takes `RotaryArgs`.
        unsafe { code.call(&args, &(), &work.given) };
    }

    fn run_plainly(&self, work: &Work<'_>, run: usize) {
        let (size, pairs) = (self.rotation.size(), self.rotation.pairs());
        for row in 0..self.runs.rows {
            let first = (run * self.runs.rows + row) * size;
            // SAFETY: each row belongs to one run, and each run to one task.
            let head = unsafe { work.output.part(first..first + size) };
            if !work.in_place {
                // SAFETY: the input is another buffer, which holds the row.
                head.copy_from_slice(unsafe { std::slice::from_raw_parts(work.input.at(first), size) });
            }
            let line = work.angles.lines[self.line(run) + if self.runs.of_positions { row } else { 0 }];
            let [cosines, sines] =
                [work.angles.cosines, work.angles.sines].map(|table| &table[line * pairs..][..pairs]);
            reference::rotary::rotate(&mut head[..2 * pairs], cosines, sines, self.rotation.interleaved);
        }
    }
}

/// Buffers that all tasks use.
struct Work<'a> {
    input: InPlaceInput<'a, f32>,
    output: Disjoint<'a, f32>,
    in_place: bool,
    angles: Angles<'a>,
    given: Given,
}

fn unsupported(reason: String) -> KernelError {
    KernelError::Unsupported { family: FAMILY, reason }
}

fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have < need { Err(KernelError::Bounds { family: FAMILY, operand, have, need }) } else { Ok(()) }
}
