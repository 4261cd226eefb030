//! Iteration over strided operands: a space of a few dimensions, and the offset of each operand's element at each
//! position.
//!
//! An [`IterationSpace`] is passed to a kernel by value; [`SpaceCode`] writes its C structure and the lines that turn
//! the number of a position into offsets. Dimensions are divided off from the innermost one outwards. Indices below
//! 2^31 are divided by multiplying (T. Granlund, P. Montgomery, "Division by Invariant Integers using Multiplication",
//! 1994, figure 4.1): `n / d` is `(mulhi(n, magic) + n) >> shift` with `shift = ceil(log2 d)` and `magic = floor(2^32
//! (2^shift - d) / d) + 1`, and the sum fits 32 bits because n has 31.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{index_type, is_wide, refuse};
use crate::error::Result;

/// Most dimensions of a space.
pub(super) const MAX_RANK: usize = 8;

/// The part of an iteration space that shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpaceCode {
    /// Dimensions, 1 to 8.
    pub rank: u8,
    /// Operands with strides.
    pub operands: u8,
    /// Whether indices have 64 bits.
    pub wide: bool,
}

/// Dimensions, and the strides of operands along them, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IterationSpace {
    /// Sizes, outermost first.
    pub(super) counts: Vec<u64>,
    /// Each operand's first element and its strides.
    pub(super) operands: Vec<(i64, Vec<i64>)>,
    /// Elements behind the space, where its positions are groups of several elements. The kernel takes them one by one.
    pub(super) tail: u64,
}

impl IterationSpace {
    /// The space without dimensions of size one. Neighbouring dimensions that are one dimension to every operand are
    /// joined.
    pub(super) fn new(family: &'static str, counts: &[u64], operands: &[(i64, &[i64])]) -> Result<IterationSpace> {
        if operands.iter().any(|(_, strides)| strides.len() != counts.len()) {
            return Err(refuse(family, "an operand has another rank"));
        }
        let mut merged: Vec<u64> = vec![];
        let mut steps: Vec<(i64, Vec<i64>)> = operands.iter().map(|&(start, _)| (start, vec![])).collect();
        for (axis, &count) in counts.iter().enumerate().filter(|&(_, &count)| count != 1) {
            let size = i64::try_from(count).map_err(|_| refuse(family, format!("a dimension of {count}")))?;
            let joins = !merged.is_empty()
                && operands.iter().zip(&steps).all(|((_, from), (_, to))| {
                    to.last().is_some_and(|&last| from[axis].checked_mul(size) == Some(last))
                });
            match merged.last_mut().filter(|_| joins) {
                Some(last) => {
                    let whole = last.checked_mul(count);
                    *last = whole.ok_or_else(|| refuse(family, format!("{counts:?} is too large")))?;
                    steps.iter_mut().zip(operands).for_each(|((_, to), (_, from))| {
                        if let Some(last) = to.last_mut() {
                            *last = from[axis];
                        }
                    });
                }
                None => {
                    merged.push(count);
                    steps.iter_mut().zip(operands).for_each(|((_, to), (_, from))| to.push(from[axis]));
                }
            }
        }
        if merged.is_empty() {
            merged.push(1);
            steps.iter_mut().for_each(|(_, to)| to.push(1));
        }
        if merged.len() > MAX_RANK {
            return Err(refuse(family, format!("{} dimensions are left", merged.len())));
        }
        Ok(IterationSpace { counts: merged, operands: steps, tail: 0 })
    }

    /// Positions of the space.
    pub(super) fn total(&self, family: &'static str) -> Result<u64> {
        super::product(family, &self.counts)
    }

    /// One beyond the last element that the operand reaches.
    pub(super) fn extent(&self, family: &'static str, operand: usize) -> Result<u64> {
        if self.counts.contains(&0) {
            return Ok(0);
        }
        let (start, strides) = &self.operands[operand];
        let (mut first, mut last) = (i128::from(*start), i128::from(*start));
        for (&count, &stride) in self.counts.iter().zip(strides) {
            let reach = i128::from(count - 1) * i128::from(stride);
            if reach < 0 { first += reach } else { last += reach }
        }
        if first < 0 || last >= 1 << 59 {
            return Err(refuse(family, format!("an operand reaches from {first} to {last}")));
        }
        Ok(last as u64 + 1)
    }

    /// The part of the space that shapes the instructions.
    pub(super) fn code(&self, family: &'static str) -> Result<SpaceCode> {
        let mut most = self.total(family)?;
        for operand in 0..self.operands.len() {
            most = most.max(self.extent(family, operand)?);
        }
        Ok(SpaceCode { rank: self.counts.len() as u8, operands: self.operands.len() as u8, wide: is_wide(most) })
    }

    /// The argument, as [`SpaceCode::structure`] lays it out.
    pub(super) fn bytes(&self, code: SpaceCode) -> Vec<u8> {
        let starts = self.operands.iter().map(|&(start, _)| start as u64);
        let strides = self.operands.iter().flat_map(|(_, strides)| strides.iter().map(|&stride| stride as u64));
        let pad = usize::from(self.operands.is_empty());
        let total = self.counts.iter().fold(1u64, |total, &count| total.wrapping_mul(count));
        let indices = [total, self.tail]
            .into_iter()
            .chain(self.counts.iter().copied())
            .chain(starts)
            .chain(vec![0; pad])
            .chain(strides)
            .chain(vec![0; pad * self.counts.len()]);
        let mut bytes = vec![];
        for index in indices {
            // Negative strides wrap in 32 bits as in 64; their sums are offsets in the operand.
            if code.wide {
                bytes.extend(index.to_ne_bytes());
            } else {
                bytes.extend((index as u32).to_ne_bytes());
            }
        }
        let divisors: Vec<(u32, u32)> = self.counts.iter().map(|&count| divisor(count)).collect();
        bytes.extend(divisors.iter().flat_map(|(magic, _)| magic.to_ne_bytes()));
        bytes.extend(divisors.iter().flat_map(|(_, shift)| shift.to_ne_bytes()));
        bytes
    }
}

/// Multiplier and shift of a division by `count`, which has at most 31 bits: an instruction divides larger numbers.
pub(super) fn divisor(count: u64) -> (u32, u32) {
    let count = count.clamp(1, 1 << 31);
    let shift = count.next_power_of_two().trailing_zeros();
    let magic = ((1u64 << 32) * ((1 << shift) - count)) / count + 1;
    (magic as u32, shift)
}

/// The C macro that divides, by a [`divisor`] where indices have 32 bits.
pub(super) fn divide(wide: bool) -> &'static str {
    if wide {
        "#define KILN_DIVIDE(n, count, magic, shift) ((n) / (count))\n"
    } else {
        "#define KILN_DIVIDE(n, count, magic, shift) (((u32)(((u64)(n) * (magic)) >> 32) + (n)) >> (shift))\n"
    }
}

impl SpaceCode {
    pub(super) fn is_valid(self) -> bool {
        (1..=MAX_RANK).contains(&usize::from(self.rank))
    }

    /// Types and the structure `Space`.
    pub(super) fn structure(self) -> String {
        let (rank, operands) = (self.rank, self.operands.max(1));
        format!(
            "{}{}typedef struct {{\n    Index total, tail, count[{rank}], start[{operands}], stride[{}];\n    \
             u32 magic[{rank}], shift[{rank}];\n}} Space;\n",
            index_type(self.wide),
            divide(self.wide),
            u32::from(rank) * u32::from(operands),
        )
    }

    /// Lines that declare `offset0` and so on, the operands' offsets at position number `at` of the variable `space`.
    /// `is_zero(operand, axis)` says which strides are 0; they are left out.
    pub(super) fn offsets(self, at: &str, is_zero: impl Fn(usize, usize) -> bool) -> String {
        let (rank, operands) = (usize::from(self.rank), usize::from(self.operands));
        let mut text = String::new();
        for operand in 0..operands {
            let _ = writeln!(text, "        Index offset{operand} = space.start[{operand}];");
        }
        let steps = |text: &mut String, axis: usize, place: &str| {
            for operand in (0..operands).filter(|&operand| !is_zero(operand, axis)) {
                let _ = writeln!(text, "        offset{operand} += {place} * space.stride[{}];", operand * rank + axis);
            }
        };
        let _ = writeln!(text, "        Index rest{rank} = {at};");
        for axis in (1..rank).rev() {
            let _ = writeln!(
                text,
                "        Index rest{axis} = KILN_DIVIDE(rest{0}, space.count[{axis}], space.magic[{axis}], \
                 space.shift[{axis}]);\n        Index place{axis} = rest{0} - rest{axis} * space.count[{axis}];",
                axis + 1
            );
            steps(&mut text, axis, &format!("place{axis}"));
        }
        steps(&mut text, 0, "rest1");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplying_divides() {
        let divide = |n: u64, count: u64| {
            let (magic, shift) = divisor(count);
            let high = (n * u64::from(magic)) >> 32;
            assert!(high + n <= u64::from(u32::MAX), "{n} by {count} overflows");
            (high + n) >> shift
        };
        let edges = [1u64, 2, 3, 5, 7, 10, 31, 32, 33, 641, 1 << 16, 65_537, (1 << 30) + 1, (1 << 31) - 1];
        for count in edges {
            for n in edges.iter().flat_map(|&edge| [edge - 1, edge, count * (edge / count), edge / count * count + 1]) {
                let n = n.min((1 << 31) - 1);
                assert_eq!(divide(n, count), n / count, "{n} by {count}");
            }
        }
    }

    #[test]
    fn dimensions_are_joined_where_every_operand_allows() {
        let space = IterationSpace::new("test", &[2, 1, 3, 4], &[(5, &[12, 99, 4, 1]), (0, &[3, 7, 1, 0])]).unwrap();
        assert_eq!(space.counts, [6, 4]);
        assert_eq!(space.operands, [(5, vec![4, 1]), (0, vec![1, 0])]);
        assert_eq!((space.extent("test", 0).unwrap(), space.extent("test", 1).unwrap()), (29, 6));
        assert_eq!(IterationSpace::new("test", &[], &[(0, &[])]).unwrap().counts, [1]);
        assert_eq!(IterationSpace::new("test", &[3, 0], &[(0, &[0, 1])]).unwrap().extent("test", 0).unwrap(), 0);
    }

    #[test]
    fn what_reaches_before_the_first_element_or_beyond_any_memory_is_refused() {
        let cases: [(i64, i64, u64); 4] = [(2, -1, 4), (-1, 1, 4), (0, i64::MAX, 4), (0, 1, u64::MAX)];
        for (start, stride, count) in cases {
            let space = IterationSpace::new("test", &[count], &[(start, &[stride])]);
            assert!(space.and_then(|space| space.code("test")).is_err(), "{start} {stride} {count}");
        }
        let backwards = IterationSpace::new("test", &[4], &[(3, &[-1])]).unwrap();
        assert_eq!(backwards.extent("test", 0).unwrap(), 4);
    }
}
