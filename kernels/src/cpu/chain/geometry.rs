//! The iteration space of a chain: which dimensions are left after broadcasting, and each operand's strides in them.
//!
//! Dense operands of equal shape are one long row however many dimensions they have, and a bias is a row that is
//! repeated. Dimensions are therefore collapsed as far as every operand allows, and different shapes with the same
//! geometry share one executor. Knows shapes only, no program.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::error::{KernelError, Result};

/// Most dimensions left after collapsing. Broadcasting patterns of real models leave three or four.
pub const MAX_RANK: usize = 8;

/// One element a dimension: sizes, or strides in elements, 0 where an operand is broadcast.
pub type Strides = SmallVec<[u64; 4]>;

/// How an operand is read along a row, the inner dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Lane {
    /// Element by element.
    Vector,
    /// One element for the whole row.
    Scalar,
}

/// Collapsed dimensions and each operand's strides in them.
///
/// There are at least two dimensions. The last is the *inner* one, in which every operand has stride 1 or 0; those
/// before it count *rows*. The fields are public because keys are plain data; no chain is built for what
/// [`Geometry::is_valid`] refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Geometry {
    /// Sizes of the dimensions, outermost first.
    pub dims: Strides,
    /// Strides of each operand in them.
    pub operands: SmallVec<[Strides; 4]>,
}

impl Geometry {
    /// The iteration space of an output of shape `output`, to which every operand broadcasts by numpy's rules.
    pub fn new(output: &[usize], operands: &[&[usize]]) -> Result<Geometry> {
        let refuse = |reason: String| KernelError::Unsupported { family: "chain", reason };
        let rank = output.len();
        let mut strides: SmallVec<[Strides; 4]> = SmallVec::new();
        for shape in operands {
            let lead = rank.checked_sub(shape.len());
            let fits = lead
                .is_some_and(|lead| shape.iter().zip(&output[lead..]).all(|(&have, &want)| have == want || have == 1));
            let (Some(lead), true) = (lead, fits) else {
                return Err(refuse(format!("an operand of shape {shape:?} does not broadcast to {output:?}")));
            };
            let mut own: Strides = SmallVec::from_elem(0, rank);
            let mut step = 1u64;
            for (axis, &size) in shape.iter().enumerate().rev() {
                own[lead + axis] = if size == 1 { 0 } else { step };
                step = step
                    .checked_mul(size as u64)
                    .ok_or_else(|| refuse(format!("an operand of shape {shape:?} is too large")))?;
            }
            strides.push(own);
        }
        let (dims, operands) = collapse(output, &strides);
        let geometry = Geometry { dims, operands };
        if geometry.is_valid() {
            Ok(geometry)
        } else {
            let rank = geometry.dims.len();
            Err(refuse(format!("broadcasting to {output:?} leaves {rank} dimensions, or is too large")))
        }
    }

    /// Whether a geometry from a record is one that [`Geometry::new`] could have made, and its products do not
    /// overflow.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let fits = |product: Option<u64>| product.is_some_and(|product| product <= isize::MAX as u64 / 8);
        let rank = self.dims.len();
        (2..=MAX_RANK).contains(&rank)
            && fits(self.dims.iter().try_fold(1u64, |product, &size| product.checked_mul(size.max(1))))
            && self.operands.iter().all(|strides| {
                let steps = self.dims.iter().zip(strides);
                let mut steps = steps.map(|(&size, &stride)| size.saturating_sub(1).checked_mul(stride));
                strides.len() == rank
                    && strides[rank - 1] <= 1
                    && fits(steps.try_fold(1u64, |sum, step| sum.checked_add(step?)))
            })
    }

    /// Number of operands.
    #[must_use]
    pub fn operands(&self) -> usize {
        self.operands.len()
    }

    /// Elements of the output.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.dims.iter().product::<u64>() as usize
    }

    /// Elements of one row.
    #[must_use]
    pub fn inner(&self) -> usize {
        self.dims[self.dims.len() - 1] as usize
    }

    /// Number of rows, over all dimensions before the inner one.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.dims[..self.dims.len() - 1].iter().product::<u64>() as usize
    }

    /// Rows that follow each other at a constant stride in every operand: the size of the dimension before the inner
    /// one.
    #[must_use]
    pub fn run_rows(&self) -> usize {
        self.dims[self.dims.len() - 2] as usize
    }

    /// Whether the operand varies along a row; if not, it is one element a row.
    #[must_use]
    pub fn is_vector(&self, operand: usize) -> bool {
        self.operands[operand].last() == Some(&1)
    }

    /// The operand's stride from one row of a run to the next, in elements.
    #[must_use]
    pub fn row_stride(&self, operand: usize) -> usize {
        let strides = &self.operands[operand];
        strides[strides.len() - 2] as usize
    }

    /// The offset of the operand's first element of row number `row`.
    #[must_use]
    pub fn offset(&self, operand: usize, row: usize) -> usize {
        let outer = self.dims.len() - 1;
        let (mut rest, mut offset) = (row as u64, 0);
        for (&size, &stride) in self.dims[..outer].iter().zip(&self.operands[operand]).rev() {
            offset += rest % size * stride;
            rest /= size;
        }
        offset as usize
    }

    /// The least elements that the operand must hold.
    #[must_use]
    pub fn extent(&self, operand: usize) -> usize {
        if self.elements() == 0 {
            return 0;
        }
        let steps = self.dims.iter().zip(&self.operands[operand]);
        1 + steps.map(|(&size, &stride)| (size - 1) * stride).sum::<u64>() as usize
    }
}

/// Drops dimensions of size 1 and joins neighbours that every operand strides through as if they were one.
fn collapse(output: &[usize], strides: &[Strides]) -> (Strides, SmallVec<[Strides; 4]>) {
    let mut dims: Strides = SmallVec::new();
    let mut operands: SmallVec<[Strides; 4]> = strides.iter().map(|_| SmallVec::new()).collect();
    for (axis, &size) in output.iter().enumerate() {
        let size = size as u64;
        if size == 1 {
            continue;
        }
        let joins = !dims.is_empty()
            && strides.iter().zip(&operands).all(|(from, to)| to.last().is_some_and(|&last| last == from[axis] * size));
        if joins {
            let last = dims.len() - 1;
            dims[last] *= size;
            for (from, to) in strides.iter().zip(&mut operands) {
                to[last] = from[axis];
            }
        } else {
            dims.push(size);
            for (from, to) in strides.iter().zip(&mut operands) {
                to.push(from[axis]);
            }
        }
    }
    // A scalar is a row of one element, and a single row is a run of one.
    while dims.len() < 2 {
        dims.insert(0, 1);
        for to in &mut operands {
            to.insert(0, if to.is_empty() { 1 } else { 0 });
        }
    }
    (dims, operands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(output: &[usize], operands: &[&[usize]]) -> (Vec<u64>, Vec<Vec<u64>>) {
        let geometry = Geometry::new(output, operands).unwrap();
        (geometry.dims.to_vec(), geometry.operands.iter().map(|strides| strides.to_vec()).collect())
    }

    /// Output, operands, dimensions, strides.
    type Case<'a> = (&'a [usize], &'a [&'a [usize]], &'a [u64], &'a [&'a [u64]]);

    #[test]
    fn dimensions_collapse_as_far_as_every_operand_allows() {
        let cases: &[Case<'_>] = &[
            (&[], &[&[]], &[1, 1], &[&[0, 1]]),
            (&[7], &[&[7]], &[1, 7], &[&[0, 1]]),
            (&[2, 3, 4], &[&[2, 3, 4], &[2, 3, 4]], &[1, 24], &[&[0, 1], &[0, 1]]),
            (&[2, 3, 4], &[&[2, 3, 4], &[4]], &[6, 4], &[&[4, 1], &[0, 1]]),
            (&[2, 3, 4], &[&[2, 3, 4], &[]], &[1, 24], &[&[0, 1], &[0, 0]]),
            (&[2, 3, 4, 5], &[&[2, 3, 4, 5], &[3, 1, 1]], &[2, 3, 20], &[&[60, 20, 1], &[0, 1, 0]]),
            (&[2, 1, 4], &[&[2, 1, 4], &[2, 1, 1]], &[2, 4], &[&[4, 1], &[1, 0]]),
            (&[5, 6], &[&[5, 1], &[1, 6]], &[5, 6], &[&[1, 0], &[0, 1]]),
            (&[3, 0], &[&[3, 0], &[1, 1]], &[1, 0], &[&[0, 1], &[0, 0]]),
        ];
        for (output, operands, dims, strides) in cases {
            let (got_dims, got_strides) = geometry(output, operands);
            assert_eq!(got_dims, *dims, "{output:?} {operands:?}");
            if dims.iter().all(|&size| size > 0) {
                assert_eq!(got_strides, *strides, "{output:?} {operands:?}");
            }
        }
    }

    #[test]
    fn offsets_follow_the_operand_through_rows() {
        let geometry = Geometry::new(&[2, 3, 4, 5], &[&[2, 3, 4, 5], &[3, 1, 1], &[2, 1, 1, 5]]).unwrap();
        assert_eq!(geometry.rows() * geometry.inner(), 120);
        for row in 0..geometry.rows() {
            let at = row * geometry.inner();
            let (n, c) = (at / 60, at / 20 % 3);
            assert_eq!(geometry.offset(0, row), at);
            assert_eq!(geometry.offset(1, row), c, "row {row}");
            assert_eq!(geometry.offset(2, row), n * 5, "row {row}");
        }
        assert_eq!((geometry.extent(0), geometry.extent(1), geometry.extent(2)), (120, 3, 10));
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_refused() {
        let cases: [(&[usize], &[usize]); 3] = [(&[2, 3], &[2]), (&[3], &[2, 3]), (&[4], &[0])];
        for (output, operand) in cases {
            assert!(Geometry::new(output, &[operand]).is_err(), "{operand:?} to {output:?}");
        }
    }
}
