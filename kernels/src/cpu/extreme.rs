//! Places of the greatest or least elements of lines of `f32`.
//!
//! [`Extremes`] is the driver. [`emit`] has the instructions: for lines whose elements follow each other, and for lines
//! that lie side by side. The oracle is [`reference::extreme`].

pub mod emit;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use crate::problem::extreme::{Extreme, Wanted};
pub use emit::{ExtremeArgs, ExtremeCode};

use crate::cpu::turned::{ShortRows, Turned};
use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference;

pub(crate) const FAMILY: &str = "extreme";

/// Lines side by side whose results fill eight cache lines: tasks have whole multiples.
const SIDE: usize = 64;

/// A search ready to run.
#[derive(Debug)]
pub struct Extremes {
    extreme: Extreme,
    lines: usize,
    tasks: usize,
    /// Blocks of lines that are too short to fill vectors. The code then searches columns.
    turned: Option<Turned>,
    code: Option<Arc<Code>>,
}

impl Extremes {
    /// Prepares a search, split into at most `tasks` tasks.
    pub fn new(extreme: Extreme, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Extremes> {
        let unsupported = || KernelError::Unsupported { family: FAMILY, reason: format!("{extreme:?}") };
        let lines = extreme.lines().ok_or_else(unsupported)?;
        let Extreme { wanted, last, .. } = extreme;
        let (outer, length, tasks) = (extreme.outer(), extreme.length(), tasks.max(1));
        let turned = (extreme.inner == 1 && ShortRows::OF_EXTREMES.has(outer, length, isa))
            .then(|| Turned::arrays(outer, length, tasks, isa, source))
            .transpose()?;
        let columns = extreme.inner != 1 || turned.is_some();
        let key = CodeKey::Extreme(ExtremeCode { isa, wanted, last, columns });
        let code = if isa.is_jit() { Some(source.code(&key)?) } else { None };
        Ok(Extremes { extreme, lines, tasks, turned, code })
    }

    /// Writes the place in each line of `input` to `output`.
    pub fn run(&self, input: &[f32], output: &mut [i64], parallel: &dyn Parallel) -> Result<()> {
        let (outer, length, inner) = (self.extreme.outer(), self.extreme.length(), self.extreme.inner());
        bounds("input", input.len(), self.lines * length)?;
        bounds("output", output.len(), self.lines)?;
        if self.lines == 0 {
            return Ok(());
        }
        let output = Disjoint::new(output);
        if let Some(turned) = &self.turned {
            let tasks = self.tasks.min(turned.count());
            parallel.run(tasks, &|task| {
                let mut scratch = memory::zeroed(turned.scratch());
                for index in part(turned.count(), tasks, task) {
                    let lines = turned.block(index);
                    turned.turn(index, &input[turned.elements(index)], &mut scratch);
                    // SAFETY: each line has its own element, and each block belongs to one task.
                    let found = unsafe { output.part(lines.clone()) };
                    self.find(&scratch, lines.len(), found);
                }
            });
            return Ok(());
        }
        if inner == 1 {
            let tasks = self.tasks.min(outer);
            parallel.run(tasks, &|task| {
                let lines = part(outer, tasks, task);
                // SAFETY: each line has its own element, and belongs to one task.
                let found = unsafe { output.part(lines.clone()) };
                self.find(&input[lines.start * length..lines.end * length], inner, found);
            });
            return Ok(());
        }
        // Where there are fewer blocks than tasks, each is split.
        let sides = inner.div_ceil(SIDE);
        let pieces = self.tasks.div_ceil(outer).min(sides);
        let tasks = self.tasks.min(outer * pieces);
        parallel.run(tasks, &|task| {
            for index in part(outer * pieces, tasks, task) {
                let (block, sides) = (index / pieces, part(sides, pieces, index % pieces));
                let columns = sides.start * SIDE..(sides.end * SIDE).min(inner);
                // SAFETY: each column has its own element, pieces split them, and each belongs to one task.
                let found = unsafe { output.part(block * inner + columns.start..block * inner + columns.end) };
                self.find(&input[block * length * inner..][columns.start..length * inner], inner, found);
            }
        });
        Ok(())
    }

    /// Finds a place for each element of `found`. The first line starts where `input` does; `inner` is the distance
    /// between elements of a line.
    fn find(&self, input: &[f32], inner: usize, found: &mut [i64]) {
        let Extreme { wanted, last, .. } = self.extreme;
        let (length, lines) = (self.extreme.length(), found.len());
        let Some(code) = &self.code else {
            match inner {
                1 => {
                    for (line, found) in input.chunks_exact(length).zip(found.chunks_exact_mut(1)) {
                        reference::extreme::find(wanted, last, line, length, 1, found);
                    }
                }
                _ => reference::extreme::find(wanted, last, input, length, inner, found),
            }
            return;
        };
        let (rows, row) = if inner == 1 { (lines, length) } else { (length, lines) };
        let stride = if inner == 1 { length } else { inner };
        // One check for many elements, so release builds have it too.
        assert!((rows - 1) * stride + row <= input.len(), "{:?} reads past its input", self.extreme);
        let given = Given::new().read("input", input).write("output", found);
        let args = ExtremeArgs { src: input.as_ptr(), dst: found.as_mut_ptr(), lines, length, stride: stride * 4 };
        // SAFETY: rows, their length and stride stay inside of the input, and each line has its element of the output;
        // the code takes `ExtremeArgs`.
        unsafe { code.call(&args, &(inner != 1), &given) };
    }
}

fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have < need { Err(KernelError::Bounds { family: FAMILY, operand, have, need }) } else { Ok(()) }
}
