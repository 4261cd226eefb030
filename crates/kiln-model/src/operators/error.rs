//! Why a rule gives no output dimensions: something is not known yet, or the inputs break the rule.

use std::fmt;

use kiln_tensor::DType;
use smallvec::SmallVec;

use super::size::Size;

/// Dimensions as a sentence shows them: `[2, 3]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Extents(SmallVec<[Option<i64>; 5]>);

impl From<&[Size]> for Extents {
    fn from(dims: &[Size]) -> Extents {
        Extents(dims.iter().map(|size| size.known()).collect())
    }
}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (place, size) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            match size {
                Some(size) => write!(f, "{separator}{size}")?,
                None => write!(f, "{separator}?")?,
            }
        }
        f.write_str("]")
    }
}

impl fmt::Display for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Inputs that an operator does not take: the reason, with the input and its dimensions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// An input that the operator needs.
    #[error("input {0} is missing")]
    Missing(usize),
    /// A list of integers has another type.
    #[error("input {input} is of type {found}, expected {expected}")]
    Type {
        /// Which input.
        input: usize,
        /// What the operator takes.
        expected: DType,
        /// What it is.
        found: DType,
    },
    /// A number has a type that is not numeric, or that nothing is computed in.
    #[error("input {input} is of type {found}, expected a number")]
    NotNumber {
        /// Which input.
        input: usize,
        /// What it is.
        found: DType,
    },
    /// A list of integers has another rank.
    #[error("expected a list of integers, found a tensor of shape {dims} in input {input}")]
    List {
        /// Which input.
        input: usize,
        /// Its dimensions.
        dims: Extents,
    },
    /// An axis beyond the rank.
    #[error("axis {axis} does not exist in a tensor of rank {rank}")]
    Axis {
        /// The axis as it was named.
        axis: i64,
        /// The rank.
        rank: usize,
    },
    /// An axis that is named twice.
    #[error("axis {axis} is named twice in {axes:?}")]
    AxisTwice {
        /// The axis as it was named.
        axis: i64,
        /// All that were named.
        axes: Vec<i64>,
    },
    /// Operands that do not broadcast.
    #[error("shape {shape} does not broadcast with {whole}")]
    Broadcast {
        /// Dimensions of the operand.
        shape: Extents,
        /// Dimensions that the operands before it broadcast to.
        whole: Extents,
    },
    /// Operands of a product whose dimensions do not meet.
    #[error("no product of matrices of shapes {left} and {right}")]
    Product {
        /// Dimensions of the left operand.
        left: Extents,
        /// Dimensions of the right operand.
        right: Extents,
    },
    /// An input whose dimensions the operator does not take.
    #[error("input {input} of shape {dims}: {reason}")]
    Input {
        /// Which input.
        input: usize,
        /// Its dimensions.
        dims: Extents,
        /// Why the operator does not take them.
        reason: String,
    },
    /// Attributes and lists that contradict each other.
    #[error("{0}")]
    Lists(String),
    /// A dimension that is negative or too large.
    #[error("output {output} would be of shape {dims}")]
    Output {
        /// Which output.
        output: usize,
        /// Its dimensions, as far as they are numbers.
        dims: Extents,
    },
    /// The table does not give the output's element type.
    #[error("the element type of output {0} is not known")]
    NoType(usize),
    /// Elements of an input were asked for before they were there.
    #[error("the shape of an output depends on contents that are not known")]
    Contents,
}

impl ShapeError {
    /// Dimensions for a sentence.
    pub(super) fn extents(dims: &[Size]) -> Extents {
        dims.into()
    }

    /// An [`ShapeError::Input`].
    pub(super) fn input(input: usize, dims: &[Size], reason: impl Into<String>) -> Open {
        ShapeError::Input { input, dims: dims.into(), reason: reason.into() }.into()
    }
}

/// Why a rule gives no dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// Something that it needs is not known.
    Unknown,
    /// The inputs have no output.
    Refused(Box<ShapeError>),
}

impl From<ShapeError> for Open {
    fn from(error: ShapeError) -> Open {
        Open::Refused(Box::new(error))
    }
}

impl From<Open> for ShapeError {
    fn from(open: Open) -> ShapeError {
        match open {
            Open::Unknown => ShapeError::Contents,
            Open::Refused(error) => *error,
        }
    }
}
