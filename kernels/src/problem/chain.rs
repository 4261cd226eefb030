//! The description of an element-wise chain: the computation for every element, without shapes.
//!
//! A [`Program`] is in single-assignment form: value numbers `0..inputs` are the operands, number `inputs + i` is the
//! result of step `i`, and the result of the last step is the chain's. Scalars that are known when the program is made
//! are steps ([`Step::Const`]), so that equal chains with equal scalars are equal programs. Floats are held by their
//! bits, which makes programs hashable and NaN equal to itself.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

pub use super::functions::{Bits, UnaryOp};

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
#[allow(missing_docs, reason = "the field's names")]
#[non_exhaustive]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    /// NaN where either is NaN.
    Max,
    Min,
    Pow,
    /// The remainder of C's `fmod`, with the sign of the first operand.
    Fmod,
    /// x where x >= 0, else slope * x.
    PRelu,
    /// 1 where it holds, else 0.
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Xor,
}

/// One step; numbers name values (see the [module](self)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Step {
    Const(Bits),
    Unary(UnaryOp, u8),
    Binary(BinaryOp, u8, u8),
    /// condition != 0 ? on : off
    Select {
        condition: u8,
        on: u8,
        off: u8,
    },
}

impl Step {
    /// The values that the step reads.
    pub fn reads(&self) -> impl Iterator<Item = u8> {
        let list: SmallVec<[u8; 3]> = match *self {
            Step::Const(_) => SmallVec::new(),
            Step::Unary(_, a) => SmallVec::from_slice(&[a]),
            Step::Binary(_, a, b) => SmallVec::from_slice(&[a, b]),
            Step::Select { condition, on, off } => SmallVec::from_slice(&[condition, on, off]),
        };
        list.into_iter()
    }

    /// The same step with every value number replaced by what `number` returns for it.
    #[must_use]
    pub fn renumbered(&self, number: impl Fn(u8) -> u8) -> Step {
        match *self {
            Step::Const(bits) => Step::Const(bits),
            Step::Unary(op, a) => Step::Unary(op, number(a)),
            Step::Binary(op, a, b) => Step::Binary(op, number(a), number(b)),
            Step::Select { condition, on, off } => {
                Step::Select { condition: number(condition), on: number(on), off: number(off) }
            }
        }
    }
}

/// The storage of an operand or of the result; arithmetic is always in `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Storage {
    /// 4-byte float.
    F32,
    /// 1-byte boolean: any byte but 0 is read as 1.0; a result is 0.0 or 1.0, and is written as 0 or 1.
    Bool,
}

/// A chain: operands, steps, result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Program {
    /// Storage of each operand; its length is the number of operands.
    pub inputs: SmallVec<[Storage; 4]>,
    /// The steps, each reading earlier values only.
    pub steps: Vec<Step>,
    /// Storage of the result.
    pub output: Storage,
}

/// Most operands of one chain: each needs a pointer register in the emitted loop.
pub const MAX_INPUTS: usize = 6;

/// Most steps of one chain; the pass that fuses chains splits longer ones.
pub const MAX_STEPS: usize = 48;

impl Program {
    /// Whether every number names an earlier value, and the limits hold, as emitters assume.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let inputs = self.inputs.len();
        inputs <= MAX_INPUTS
            && !self.steps.is_empty()
            && self.steps.len() <= MAX_STEPS
            && self.steps.iter().enumerate().all(|(i, step)| step.reads().all(|v| usize::from(v) < inputs + i))
    }
}
