//! Matrices by their diagonals: Trilu keeps one side of it, EyeLike has ones on it.

use std::ops::Range;

use kiln_kernels::memory::{self, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::wide::{Width, narrow};
use super::{LoadCx, OpError, Operator, as_output, integer, optional, refused, required, type_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Trilu", |cx| Ok(Box::new(Trilu { upper: cx.node.attributes().int("upper") != 0 }))),
    ("", "EyeLike", make_eye),
];

struct Trilu {
    upper: bool,
}

/// Where diagonal `offset` crosses a row of `columns` elements, clamped to the row's ends.
fn crossing(row: usize, offset: i64, columns: usize) -> usize {
    (row as i64).saturating_add(offset).clamp(0, columns as i64) as usize
}

impl Node for Trilu {
    fn family(&self) -> &'static str {
        "Trilu"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        if input.shape().len() < 2 {
            return Err(refused(format!("no matrices in shape {:?}", input.shape())));
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let offset = optional(&io.inputs(), 1).map_or(Ok(0), integer)?;
        let mut matrices = as_output(io, 0)?;
        let &[.., rows, columns] = matrices.shape() else {
            return Err(refused("no matrices"));
        };
        let cleared = |row: usize| match self.upper {
            true => 0..crossing(row, offset, columns),
            false => crossing(row, offset.saturating_add(1), columns)..columns,
        };
        let mut pace = Pace::default();
        if matrices.dtype() == DType::String {
            let shape = matrices.spec().shape.clone();
            let mut texts = matrices.into_strings()?;
            for (number, row) in texts.chunks_exact_mut(columns.max(1)).enumerate() {
                pace.step(1 + columns);
                row[cleared(number % rows)].iter_mut().for_each(String::clear);
            }
            io.push(Tensor::from_strings(shape, texts)?);
            return Ok(());
        }
        let size = matrices.dtype().size();
        // Zero is all bits clear in every other element type.
        for (number, row) in matrices.bytes_mut().chunks_exact_mut((columns * size).max(1)).enumerate() {
            pace.step(1 + columns / 16);
            let Range { start, end } = cleared(number % rows);
            row[start * size..end * size].fill(0);
        }
        io.push(matrices);
        Ok(())
    }
}

struct EyeLike {
    offset: i64,
}

fn make_eye(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    type_attribute(cx.node, "dtype")?;
    Ok(Box::new(EyeLike { offset: cx.node.attributes().int("k") }))
}

impl Node for EyeLike {
    fn family(&self) -> &'static str {
        "EyeLike"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        if outputs[0].shape.len() != 2 {
            return Err(refused(format!("shape {:?} is no matrix", required(inputs, 0)?.shape())));
        }
        Width::of(outputs[0].dtype).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        let (columns, width) = (output.shape()[1], output.dtype().size());
        let one = narrow(&[1i64], Tensor::zeros(TensorSpec::new(output.dtype(), [1]))?)?;
        let bytes = output.bytes_mut();
        memory::fill(bytes, &0);
        let mut pace = Pace::default();
        for (number, row) in bytes.chunks_exact_mut((columns * width).max(1)).enumerate() {
            pace.step(4);
            let place = (number as i64).saturating_add(self.offset);
            if let Some(place) = usize::try_from(place).ok().filter(|&place| place < columns) {
                row[place * width..][..width].copy_from_slice(one.bytes());
            }
        }
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, onnx_code, strings};

    #[test]
    fn one_side_of_a_diagonal_is_kept() {
        let trilu = |upper, offset: i64| {
            Trial::new("Trilu").int("upper", upper).input(&[2, 3], &[1i32, 2, 3, 4, 5, 6]).input(&[], &[offset])
        };
        trilu(1, 0).gives(&[2, 3], &[1, 2, 3, 0, 5, 6]);
        trilu(1, 1).gives(&[2, 3], &[0, 2, 3, 0, 0, 6]);
        trilu(1, -1).gives(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        trilu(0, 0).gives(&[2, 3], &[1, 0, 0, 4, 5, 0]);
        trilu(0, -1).gives(&[2, 3], &[0, 0, 0, 4, 0, 0]);
        trilu(0, i64::MAX).gives(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        trilu(1, i64::MIN).gives(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        trilu(1, i64::MAX).gives(&[2, 3], &[0; 6]);
        Trial::new("Trilu").input(&[2, 1, 1], &[7u8, 8]).gives(&[2, 1, 1], &[7u8, 8]);
        Trial::new("Trilu").input::<u8>(&[3, 0], &[]).gives::<u8>(&[3, 0], &[]);
        Trial::new("Trilu").input(&[2], &[7u8, 8]).is_refused("no matrices");
        let texts = Trial::new("Trilu").int("upper", 0).tensor(strings(&[2, 2], &["a", "b", "c", "d"]));
        texts.gives_strings(&[2, 2], &["a", "", "c", "d"]);
        Trial::new("Trilu").tensor(strings(&[2, 0], &[])).gives_strings(&[2, 0], &[]);
    }

    #[test]
    fn diagonals_are_marked_in_any_type() {
        let eye = |offset| Trial::new("EyeLike").int("k", offset).input(&[2, 3], &[0u8; 6]);
        eye(0).gives(&[2, 3], &[1u8, 0, 0, 0, 1, 0]);
        eye(2).gives(&[2, 3], &[0u8, 0, 1, 0, 0, 0]);
        eye(-1).int("dtype", onnx_code(DType::F32)).gives(&[2, 3], &[0f32, 0.0, 0.0, 1.0, 0.0, 0.0]);
        eye(i64::MIN).gives(&[2, 3], &[0u8; 6]);
        Trial::new("EyeLike").input(&[2], &[0u8; 2]).is_refused("no matrix");
    }
}
