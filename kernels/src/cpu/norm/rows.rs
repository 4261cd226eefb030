//! Layer and RMS normalisation: each row by its own moments, then scaled and shifted element by element.
//!
//! The code depends on which operands there are, so they are a part of the [form](RowForm) that an executor is built
//! for; their addresses are given to each run.

use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::emit::{RowNormArgs, RowNormCode};
use super::{Moments, bounds, unsupported};
use crate::cpu::{ActivationsMut, CodeKey, CodeSource, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, InPlaceInput, Parallel, part};
use crate::problem::description::sizes;
use crate::reference;

/// Rows, and the operations on each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RowForm {
    /// Rows, each normalised by itself.
    pub rows: u64,
    /// Elements of a row.
    pub length: u64,
    /// Whether the mean is subtracted.
    pub centred: bool,
    /// Whether there are factors.
    pub scale: bool,
    /// Whether there are summands.
    pub bias: bool,
    /// Whether each row's moments are written.
    pub moments: bool,
    /// Element type of the results; anything but `f32` with AVX-512 only.
    pub output: Stored,
}

sizes!(RowForm { rows: usize, length: usize });

/// The operands of a row normalisation besides its input. A scale or bias has either the length of a row, which all
/// rows then share, or the length of the input.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowOperands<'a> {
    /// Factors, where the form has them.
    pub scale: Option<&'a [f32]>,
    /// Summands, where the form has them.
    pub bias: Option<&'a [f32]>,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Where a row normalisation writes.
#[derive(Debug)]
pub struct RowResults<'a> {
    /// The rows.
    pub output: ActivationsMut<'a>,
    /// Each row's mean and reciprocal standard deviation, where the form has them.
    pub moments: Option<(&'a mut [f32], &'a mut [f32])>,
}

/// A row normalisation ready to run.
#[derive(Debug)]
pub struct RowNorm {
    form: RowForm,
    kernel: RowNormCode,
    tasks: usize,
    code: Option<Arc<Code>>,
}

impl RowNorm {
    /// Prepares a normalisation, split into at most `tasks` tasks.
    pub fn new(form: RowForm, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<RowNorm> {
        let RowForm { centred, scale, bias, moments, output, .. } = form;
        let (rows, length) = (form.rows(), form.length());
        let bytes = rows.checked_mul(length).and_then(|elements| elements.checked_mul(4));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(unsupported(format!("{rows} rows of {length} elements")));
        }
        if output != Stored::F32 && isa != Isa::Avx512 {
            return Err(unsupported(format!("results of {output:?} at {isa}")));
        }
        let kernel = RowNormCode { isa, centred, scale, bias, moments, output };
        let code = if isa.is_jit() { Some(source.code(&CodeKey::RowNorm(kernel))?) } else { None };
        Ok(RowNorm { form, kernel, tasks: tasks.max(1), code })
    }

    /// Normalises.
    pub fn run(
        &self,
        input: &[f32],
        operands: RowOperands<'_>,
        results: RowResults<'_>,
        parallel: &dyn Parallel,
    ) -> Result<()> {
        bounds("input", input.len(), self.form.rows() * self.form.length())?;
        self.start(Some(input), operands, results, parallel)
    }

    /// Normalises the output itself, which is `f32`.
    pub fn run_in_place(
        &self,
        operands: RowOperands<'_>,
        results: RowResults<'_>,
        parallel: &dyn Parallel,
    ) -> Result<()> {
        if self.form.output != Stored::F32 {
            return Err(unsupported(format!("{:?} in place", self.form)));
        }
        self.start(None, operands, results, parallel)
    }

    /// Checks all operands but the input, and normalises. Without an input, the output is normalised in place.
    fn start(
        &self,
        input: Option<&[f32]>,
        operands: RowOperands<'_>,
        mut results: RowResults<'_>,
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let RowForm { scale, bias, moments, output, .. } = self.form;
        let (rows, length) = (self.form.rows(), self.form.length());
        let elements = rows * length;
        let found = results.output.read();
        bounds("output", found.len(), elements)?;
        if found.stored() != output {
            return Err(unsupported(format!("results of {:?} for {:?}", found.stored(), self.form)));
        }
        for (operand, values, expected) in [("scale", operands.scale, scale), ("bias", operands.bias, bias)] {
            let fits = values.is_none_or(|values| values.len() == length || values.len() == elements);
            if values.is_some() != expected || !fits {
                let have = values.map(<[f32]>::len);
                return Err(unsupported(format!("{operand} of {have:?} elements for {:?}", self.form)));
            }
        }
        if results.moments.is_some() != moments {
            return Err(unsupported(format!("moments where {:?} has none, or none where it has", self.form)));
        }
        let mut given = Given::new();
        let moments = match results.moments {
            Some((mean, deviation)) => {
                bounds("mean", mean.len(), rows)?;
                bounds("deviation", deviation.len(), rows)?;
                given = given.write("means", mean).write("deviations", deviation);
                Some((Disjoint::new(mean), Disjoint::new(deviation)))
            }
            None => None,
        };
        // Rows without elements may be many, and have no moments.
        if elements == 0 {
            return Ok(());
        }
        let given = given.maybe("input", input).maybe("scale", operands.scale).maybe("bias", operands.bias);
        let given = given.write("output", results.output.bytes_mut());
        let output = Disjoint::new(results.output.bytes_mut());
        let own = input.map(|input| InPlaceInput::apart(bytemuck::cast_slice(input)));
        let input = own.unwrap_or_else(|| InPlaceInput::of_output(&output));
        let work = Work { input, output, moments, operands, given };
        let tasks = self.tasks.min(rows);
        parallel.run(tasks, &|task| {
            let rows = part(rows, tasks, task);
            match &self.code {
                Some(code) => self.run_code(code, &work, rows),
                None => rows.for_each(|row| self.run_plainly(&work, row)),
            }
        });
        Ok(())
    }

    /// Elements from one row of factors or summands to the next; 0 where all rows share one.
    fn step(&self, values: Option<&[f32]>) -> usize {
        match values {
            Some(values) if values.len() != self.form.length() => self.form.length(),
            _ => 0,
        }
    }

    fn run_code(&self, code: &Code, work: &Work<'_>, rows: std::ops::Range<usize>) {
        let length = self.form.length();
        let (scale, bias) = (work.operands.scale, work.operands.bias);
        let numbers = |values: Option<&[f32]>| {
            values.map_or(std::ptr::null(), |values| values[rows.start * self.step(Some(values))..].as_ptr())
        };
        let (mean, deviation) = match &work.moments {
            Some((mean, deviation)) => (mean.at(rows.start), deviation.at(rows.start)),
            None => (std::ptr::null_mut(), std::ptr::null_mut()),
        };
        // The rows of a pair share factors and summands.
        let pairs = if self.step(scale) + self.step(bias) == 0 { rows.len() / 2 } else { 0 };
        let args = RowNormArgs {
            src: work.input.at(rows.start * length * Stored::F32.bytes()).cast(),
            dst: work.output.at(rows.start * length * self.form.output.bytes()),
            scale: numbers(scale),
            bias: numbers(bias),
            mean,
            deviation,
            pairs,
            rows: rows.len() - 2 * pairs,
            length,
            stride: length * 4,
            dst_stride: length * self.form.output.bytes(),
            scale_step: self.step(scale) * 4,
            bias_step: self.step(bias) * 4,
            reciprocal: 1.0 / length as f32,
            epsilon: work.operands.epsilon,
        };
        // SAFETY: `start` checked that all buffers hold these rows, which belong to this task alone. The code of this
        // form, which takes `RowNormArgs`, does not touch null operands.
        unsafe { code.call(&args, &self.kernel, &work.given) };
    }

    fn run_plainly(&self, work: &Work<'_>, row: usize) {
        let (length, centred) = (self.form.length(), self.form.centred);
        let first = row * length * Stored::F32.bytes();
        let of_row = |values: &'_ [f32]| row * self.step(Some(values))..row * self.step(Some(values)) + length;
        let scale = work.operands.scale.map(|values| &values[of_row(values)]);
        let bias = work.operands.bias.map(|values| &values[of_row(values)]);
        // SAFETY: the input holds the row. It is copied because it may be the output.
        let input = memory::copied(unsafe { std::slice::from_raw_parts(work.input.at(first).cast::<f32>(), length) });
        // SAFETY: each row belongs to one task, and is `f32` where there is no code.
        let output = unsafe { std::slice::from_raw_parts_mut(work.output.at(first).cast::<f32>(), length) };
        let moments = Moments { centred, epsilon: work.operands.epsilon };
        let found = reference::norm::row(&input, scale, bias, moments, output);
        if let Some((mean, deviation)) = &work.moments {
            // SAFETY: as before.
            unsafe {
                mean.part(row..row + 1)[0] = found.0;
                deviation.part(row..row + 1)[0] = found.1;
            }
        }
    }
}

/// Buffers that all tasks use; input and output in bytes.
struct Work<'a> {
    input: InPlaceInput<'a, u8>,
    output: Disjoint<'a, u8>,
    moments: Option<(Disjoint<'a, f32>, Disjoint<'a, f32>)>,
    operands: RowOperands<'a>,
    given: Given,
}
