//! Softmax and its logarithm over one axis of an array `[outer, length, inner]` of `f32`.
//!
//! [`Softmax`] is the driver, [`emit`] has the instructions. Where `inner` is 1, rows are contiguous; else neighbouring
//! columns are computed together. Rows and columns too short to fill vectors are transposed first (`turned`).
//!
//! The largest element is subtracted first, so nothing overflows; a row with NaN, or with infinities that cancel, gives
//! NaN. The oracle is [`reference::softmax`].

pub mod emit;
#[cfg(test)]
mod tests;
mod turned;

use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

pub use emit::{Form, SoftmaxArgs, SoftmaxCode, SoftmaxKernel};

use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, InPlaceInput, Parallel, part};
use crate::problem::description::sizes;
use crate::reference;

use turned::Blocks;

pub(crate) const FAMILY: &str = "softmax";

/// An array seen as the axis that sums to 1 and the products of the dimensions around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Around {
    /// Product of the dimensions before the axis.
    pub outer: u64,
    /// Size of the axis.
    pub length: u64,
    /// Product of the dimensions after it.
    pub inner: u64,
}

sizes!(Around { outer: usize, length: usize, inner: usize });

impl Around {
    /// Elements of the array; `None` where the product overflows.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let sizes = [self.outer(), self.length(), self.inner()];
        let elements = sizes.iter().try_fold(1usize, |elements, &size| elements.checked_mul(size.max(1)))?;
        elements.checked_mul(4).filter(|&bytes| bytes <= isize::MAX as usize)?;
        Some(if sizes.contains(&0) { 0 } else { elements })
    }
}

/// A softmax ready to run.
#[derive(Debug)]
pub struct Softmax {
    around: Around,
    elements: usize,
    logarithm: bool,
    tasks: usize,
    blocks: Option<Blocks>,
    code: Option<Arc<Code>>,
}

impl Softmax {
    /// Prepares a softmax, or its logarithm, split into at most `tasks` tasks.
    pub fn new(around: Around, logarithm: bool, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Softmax> {
        let elements = around
            .elements()
            .ok_or_else(|| KernelError::Unsupported { family: FAMILY, reason: format!("{around:?} is too large") })?;
        let tasks = tasks.max(1);
        let blocks = if elements == 0 { None } else { Blocks::new(around, isa, tasks, source)? };
        let softmax = Softmax { around, elements, logarithm, tasks, blocks, code: None };
        let SoftmaxKernel { form, columns } = softmax.kernel();
        let key = CodeKey::Softmax(SoftmaxCode { isa, form, columns });
        let code = if isa.is_jit() { Some(source.code(&key)?) } else { None };
        Ok(Softmax { code, ..softmax })
    }

    /// Computes it.
    pub fn run(&self, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) -> Result<()> {
        self.check("input", input.len())?;
        self.check("output", output.len())?;
        let Some(code) = &self.code else {
            self.run_plainly(Some(input), output, parallel);
            return Ok(());
        };
        let given = Given::new().read("input", input).write("output", output);
        let buffers = Buffers { input: InPlaceInput::apart(input), output: Disjoint::new(output), given };
        self.run_code(code, &buffers, parallel);
        Ok(())
    }

    /// Computes it in place.
    pub fn run_in_place(&self, data: &mut [f32], parallel: &dyn Parallel) -> Result<()> {
        self.check("data", data.len())?;
        let Some(code) = &self.code else {
            self.run_plainly(None, data, parallel);
            return Ok(());
        };
        let given = Given::new().write("data", data);
        let output = Disjoint::new(data);
        let buffers = Buffers { input: InPlaceInput::of_output(&output), output, given };
        self.run_code(code, &buffers, parallel);
        Ok(())
    }

    fn kernel(&self) -> SoftmaxKernel {
        let form = if self.logarithm { Form::LogSoftmax } else { Form::Softmax };
        let columns = self.blocks.as_ref().map_or(self.around.inner != 1, Blocks::are_columns);
        SoftmaxKernel { form, columns }
    }

    fn check(&self, operand: &'static str, have: usize) -> Result<()> {
        let need = self.elements;
        if have < need { Err(KernelError::Bounds { family: FAMILY, operand, have, need }) } else { Ok(()) }
    }

    fn run_plainly(&self, input: Option<&[f32]>, output: &mut [f32], parallel: &dyn Parallel) {
        if self.elements == 0 {
            return;
        }
        let [outer, length, inner] = [self.around.outer(), self.around.length(), self.around.inner()];
        let each = length * inner;
        let tasks = self.tasks.min(outer);
        let output = Disjoint::new(output);
        parallel.run(tasks, &|task| {
            for index in part(outer, tasks, task) {
                let here = index * each..(index + 1) * each;
                // SAFETY: each index has its own part, and belongs to one task.
                let output = unsafe { output.part(here.clone()) };
                let copied;
                let input = match input {
                    Some(input) => &input[here],
                    None => {
                        copied = memory::copied(output);
                        &copied
                    }
                };
                reference::softmax::softmax(self.logarithm, input, inner, length, inner, output);
            }
        });
    }

    fn run_code(&self, code: &Code, buffers: &Buffers<'_>, parallel: &dyn Parallel) {
        if self.elements == 0 {
            return;
        }
        if let Some(blocks) = &self.blocks {
            return self.run_blocks(blocks, code, buffers, parallel);
        }
        let [outer, length, inner] = [self.around.outer(), self.around.length(), self.around.inner()];
        let kernel = self.kernel();
        let call = |first: usize, rows: usize, length: usize, stride: usize| {
            let (src, dst) = (buffers.input.at(first), buffers.output.at(first));
            let args = SoftmaxArgs { src, dst, rows, length, stride: stride * 4 };
            // SAFETY: the callers stay inside of the array, whose elements both buffers hold; each element belongs to
            // one task, and the code takes `SoftmaxArgs`.
            unsafe { code.call(&args, &kernel, &buffers.given) };
        };
        if inner == 1 {
            let tasks = self.tasks.min(outer);
            parallel.run(tasks, &|task| {
                let rows = part(outer, tasks, task);
                call(rows.start * length, rows.len(), length, length);
            });
            return;
        }
        // Elements of a cache line: where there are fewer arrays than tasks, columns are split in units of it.
        const LINE: usize = 16;
        let lines = inner.div_ceil(LINE);
        let blocks = self.tasks.div_ceil(outer).min(lines);
        let tasks = self.tasks.min(outer * blocks);
        parallel.run(tasks, &|task| {
            for unit in part(outer * blocks, tasks, task) {
                let lines = part(lines, blocks, unit % blocks);
                let columns = lines.start * LINE..(lines.end * LINE).min(inner);
                call(unit / blocks * length * inner + columns.start, length, columns.len(), inner);
            }
        });
    }

    fn run_blocks(&self, blocks: &Blocks, code: &Code, buffers: &Buffers<'_>, parallel: &dyn Parallel) {
        let (kernel, tasks) = (self.kernel(), self.tasks.min(blocks.count()));
        parallel.run(tasks, &|task| {
            let mut scratch = memory::zeroed(blocks.scratch());
            let given = Given::new().write("scratch", &mut scratch);
            for index in part(blocks.count(), tasks, task) {
                let elements = blocks.elements(index);
                // SAFETY: the block is inside of the array, and belongs to one task, which writes it later.
                let args = blocks.turn(index, unsafe { buffers.input.part(elements.clone()) }, &mut scratch);
                // SAFETY: the block lies in scratch, which no other task has, and the code takes `SoftmaxArgs`.
                unsafe { code.call(&args, &kernel, &given) };
                // SAFETY: as above; the input's part is not used any more.
                blocks.turn_back(index, &scratch, unsafe { buffers.output.part(elements) });
            }
        });
    }
}

/// Input and output, which may be the same buffer.
struct Buffers<'a> {
    input: InPlaceInput<'a, f32>,
    output: Disjoint<'a, f32>,
    given: Given,
}
