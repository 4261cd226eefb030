//! The description of linear attention: heads with states, and what a position does to a state.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// How states decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Decay {
    /// They do not.
    None,
    /// By one factor for each head and position.
    Head,
    /// By one factor for each row of a state.
    Row,
}

/// Heads of linear attention. Each head of values has a state of `key` rows and `value` columns. How many sequences and
/// positions there are is an argument of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct StateHeads {
    /// Heads of queries: a multiple of `heads`, or a divisor.
    pub queries: u64,
    /// Heads of keys: a divisor of `heads`.
    pub keys: u64,
    /// Heads of values.
    pub heads: u64,
    /// Elements of a query and of a key.
    pub key: u64,
    /// Elements of a value.
    pub value: u64,
    /// How states decay.
    pub decay: Decay,
    /// Whether a state is corrected by what it already holds for a key (the delta rule).
    pub corrects: bool,
}

sizes!(StateHeads { queries: usize, keys: usize, heads: usize, key: usize, value: usize });

impl StateHeads {
    /// Elements of the states of a sequence; `None` where memory could not hold a position's operands or states, or
    /// where heads do not share each other evenly.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let StateHeads { queries, keys, heads, key, value, .. } = *self;
        let bytes = |sizes: [u64; 3]| {
            let bytes = sizes.iter().try_fold(4u64, |bytes, &size| bytes.checked_mul(size.max(1)))?;
            (bytes <= isize::MAX as u64).then_some(bytes)
        };
        let states = bytes([heads, key, value])?;
        bytes([queries.max(heads), key, 1])?;
        bytes([queries.max(heads), value, 1])?;
        let shares = |many: u64, few: u64| few > 0 && many.is_multiple_of(few);
        let fits =
            shares(heads, keys) && (shares(queries, heads) || shares(heads, queries)) && heads > 0 && queries > 0;
        fits.then_some(if key == 0 || value == 0 { 0 } else { (states / 4) as usize })
    }

    /// Elements of a head's state.
    #[must_use]
    pub fn area(&self) -> usize {
        self.key() * self.value()
    }

    /// Results of a position for each head of values.
    #[must_use]
    pub fn shared(&self) -> usize {
        (self.queries() / self.heads()).max(1)
    }

    /// Elements of a position's decays.
    #[must_use]
    pub fn decays(&self) -> usize {
        match self.decay {
            Decay::None => 0,
            Decay::Head => self.heads(),
            Decay::Row => self.heads() * self.key(),
        }
    }

    /// Elements of a position's results.
    #[must_use]
    pub fn results(&self) -> usize {
        self.heads() * self.shared() * self.value()
    }
}
