//! Products with one row or one column of results, and of few rows of tiny matrices: no tiles, nothing packed. The
//! matrix is read where it is, once for a row.
//!
//! A tile computes whole vectors of columns of several rows. One column would fill one lane of a vector, and the last
//! columns of a few rows would be packed for as few uses.

use std::ops::Range;

use super::{Buffers, Epilogue, Left, MatmulShape, MatmulStored, Right};
use crate::cpu::stream::{Form, RowType, StreamArgs, StreamCode};
use crate::cpu::{CodeKey, CodeSource, Emitted, PackedWeights};
use crate::error::Result;
use crate::isa::Isa;

/// Rows, and terms of an element, up to which a call for each row takes less time than packing columns and a tile.
const FEW_ROWS: usize = 4;
const SHORT: usize = 8;

/// The kernel of such a product.
#[derive(Clone, Debug)]
pub(super) struct Streamed {
    kernel: Emitted<StreamCode>,
    /// The row that is multiplied by others is the right-hand side's only column; otherwise it is a left-hand row.
    is_column: bool,
    scale: f32,
}

impl Streamed {
    /// The kernel, where the product has such a form. `width` is the number of columns of a panel.
    pub(super) fn new(
        isa: Isa,
        shape: &MatmulShape,
        stored: MatmulStored,
        epilogue: &Epilogue,
        width: usize,
        source: &dyn CodeSource,
    ) -> Result<Option<Streamed>> {
        // A sum of products of rows has an order of additions of its own.
        let plain = isa.is_jit() && !source.in_order() && stored == MatmulStored::default();
        if !plain || epilogue.activation.is_some() || shape.k == 0 {
            return Ok(None);
        }
        let row = match shape.left {
            Left::Rows { .. } => true,
            Left::Columns { stride } => shape.m == 1 && stride == 1,
        };
        let few = shape.m == 1 || shape.m <= FEW_ROWS && shape.k <= SHORT;
        let (is_column, form) = match (shape.left, shape.right) {
            (Left::Rows { .. }, Right::Rows { stride: 1 } | Right::Columns { .. }) if shape.n == 1 => {
                (true, Form::Dots)
            }
            (_, Right::Columns { .. }) if shape.m == 1 && row => (false, Form::Dots),
            (_, Right::Rows { .. }) if few && row && !shape.n.is_multiple_of(width) => (false, Form::Blend),
            _ => return Ok(None),
        };
        let key = StreamCode { isa, form, rows: RowType::F32, ahead: false };
        let kernel = Emitted::new(key, CodeKey::Stream, source)?;
        Ok(Some(Streamed { kernel, is_column, scale: epilogue.scale }))
    }

    /// Computes some rows, or some columns, of one product of the batch.
    pub(super) fn run(
        &self,
        shape: &MatmulShape,
        buffers: &Buffers<'_>,
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        let PackedWeights::F32(right) = buffers.right else { return };
        let place = shape.place(batch);
        let (left, right) = (&buffers.left[place.left..], &right[place.right..]);
        let first = batch * shape.m * shape.n;
        match (self.is_column, shape.left, shape.right) {
            (true, Left::Rows { stride }, _) => {
                let matrix = Matrix { first: &left[rows.start * stride..], stride };
                self.results(buffers, right, matrix, shape.k, first + rows.start..first + rows.end, 0..1);
            }
            (false, _, Right::Columns { stride }) => {
                let matrix = Matrix { first: &right[columns.start * stride..], stride };
                self.results(buffers, left, matrix, shape.k, first + columns.start..first + columns.end, columns);
            }
            (false, _, Right::Rows { stride }) => {
                let matrix = Matrix { first: &right[columns.start..], stride };
                for row in rows {
                    let left = match shape.left {
                        Left::Rows { stride } => &left[row * stride..],
                        Left::Columns { .. } => left,
                    };
                    let first = first + row * shape.n;
                    let results = first + columns.start..first + columns.end;
                    self.results(buffers, left, matrix, shape.k, results, columns.clone());
                }
            }
            _ => {}
        }
    }

    /// Computes the results at these places of C: `factors` by the matrix. `bias` are the places of their biases, one
    /// for each or one for all.
    fn results(
        &self,
        buffers: &Buffers<'_>,
        factors: &[f32],
        matrix: Matrix<'_>,
        terms: usize,
        results: Range<usize>,
        bias: Range<usize>,
    ) {
        // SAFETY: a task has these results alone.
        let c = unsafe { buffers.c.part(results.clone()) };
        let (count, columns, scale) = match self.kernel.key().form {
            Form::Dots => (c.len(), terms, self.scale),
            Form::Blend => (terms, c.len(), 1.0),
        };
        let rows = matrix.first.as_ptr().cast();
        let args = StreamArgs {
            left: factors.as_ptr(),
            rows,
            stride: matrix.stride * 4,
            count,
            columns,
            out: c.as_mut_ptr(),
            resume: 0,
            scale,
            ahead: rows,
        };
        // SAFETY: `check` made sure of both operands and of C. The code takes `StreamArgs`.
        unsafe { self.kernel.call(&args, &buffers.given) };
        if self.kernel.key().form == Form::Blend && self.scale != 1.0 {
            c.iter_mut().for_each(|c| *c *= self.scale);
        }
        if let Some(all) = buffers.extras.bias {
            c.iter_mut().zip(all[bias].iter().cycle()).for_each(|(c, bias)| *c += bias);
        }
        if let Some(residual) = buffers.extras.residual {
            c.iter_mut().zip(&residual[results]).for_each(|(c, residual)| *c += residual);
        }
    }
}

/// A matrix, and the elements from row to row.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    first: &'a [f32],
    stride: usize,
}
