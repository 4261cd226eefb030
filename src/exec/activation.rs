//! The fused activation as keys hold it. What an activation computes is not known here.

use kiln_kernels::cpu::chain::UnaryOp;
use serde::{Deserialize, Serialize};

use crate::cache::Mutate;

/// A function that an executor applies to its results before it stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Activation(pub UnaryOp);
