//! Layer and RMS normalisation: each row by its own moments, then scaled and shifted element by element.

use super::{Moments, bounds, unsupported};
use crate::cpu::CodeSource;
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference;

/// What a row normalisation reads besides its input. A scale or bias is as long as a row, and is then every row's, or
/// as long as the input.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowOperands<'a> {
    /// Factors.
    pub scale: Option<&'a [f32]>,
    /// Summands.
    pub bias: Option<&'a [f32]>,
}

/// A row normalisation ready to run.
#[derive(Debug)]
pub struct RowNorm {
    rows: usize,
    length: usize,
    centred: bool,
    tasks: usize,
}

impl RowNorm {
    /// Prepares the normalisation of `rows` rows, split into at most `tasks` tasks.
    pub fn new(
        rows: usize,
        length: usize,
        centred: bool,
        isa: Isa,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<RowNorm> {
        let bytes = rows.checked_mul(length).and_then(|elements| elements.checked_mul(4));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(unsupported(format!("{rows} rows of {length} elements")));
        }
        let _ = (isa, source);
        Ok(RowNorm { rows, length, centred, tasks: tasks.max(1) })
    }

    /// Normalises. `moments`, where given, gets each row's mean and each row's reciprocal standard deviation.
    pub fn run(
        &self,
        input: &[f32],
        operands: RowOperands<'_>,
        epsilon: f32,
        output: &mut [f32],
        moments: Option<(&mut [f32], &mut [f32])>,
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let (rows, length) = (self.rows, self.length);
        let elements = rows * length;
        bounds("input", input.len(), elements)?;
        bounds("output", output.len(), elements)?;
        let each = |operand, values: Option<&[f32]>| match values {
            Some(values) if values.len() != length && values.len() != elements => {
                Err(bounds(operand, values.len(), length).err().unwrap_or_else(|| {
                    unsupported(format!("{operand} of {} elements for {rows} rows of {length}", values.len()))
                }))
            }
            _ => Ok(()),
        };
        each("scale", operands.scale)?;
        each("bias", operands.bias)?;
        let moments = match moments {
            Some((mean, deviation)) => {
                bounds("mean", mean.len(), rows)?;
                bounds("deviation", deviation.len(), rows)?;
                Some((Disjoint::new(mean), Disjoint::new(deviation)))
            }
            None => None,
        };
        // Rows of no elements may be many, and have no moments.
        if elements == 0 {
            return Ok(());
        }
        let moments_of = Moments { centred: self.centred, epsilon };
        let tasks = self.tasks.min(rows);
        let output = Disjoint::new(output);
        parallel.run(tasks, &|task| {
            for row in part(rows, tasks, task) {
                let here = row * length..(row + 1) * length;
                let of_row = |values: &'_ [f32]| if values.len() == length { 0..length } else { here.clone() };
                let scale = operands.scale.map(|values| &values[of_row(values)]);
                let bias = operands.bias.map(|values| &values[of_row(values)]);
                // SAFETY: each row belongs to one task.
                let output = unsafe { output.part(here.clone()) };
                let found = reference::norm::row(&input[here.clone()], scale, bias, moments_of, output);
                if let Some((mean, deviation)) = &moments {
                    // SAFETY: as before.
                    unsafe {
                        mean.part(row..row + 1)[0] = found.0;
                        deviation.part(row..row + 1)[0] = found.1;
                    }
                }
            }
        });
        Ok(())
    }
}
