//! The plain form of linear attention: one position of one head.

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Sub};

/// The types that states are computed in.
pub trait Real:
    Copy
    + Default
    + Add<Output = Self>
    + Div<Output = Self>
    + Mul<Output = Self>
    + Sub<Output = Self>
    + AddAssign
    + MulAssign
    + Send
    + Sync
{
    /// e to the power of this number.
    #[must_use]
    fn exp(self) -> Self;
    /// The nearest number of this type.
    #[must_use]
    fn of(value: f64) -> Self;
}

impl Real for f32 {
    fn exp(self) -> f32 {
        self.exp()
    }

    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Real for f64 {
    fn exp(self) -> f64 {
        self.exp()
    }

    fn of(value: f64) -> f64 {
        value
    }
}

/// What a position gives to a head.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a, F> {
    /// A factor for each row of the state.
    pub key: &'a [F],
    /// An element for each column.
    pub value: &'a [F],
    /// One query after the other, as long as the key.
    pub queries: &'a [F],
    /// Logarithms of the factors of the state: none, one, or one for each row.
    pub decays: &'a [F],
    /// The rate of the correction, where the state is corrected.
    pub rate: Option<F>,
    /// The factor of results.
    pub scale: F,
}

/// Lets a state decay, be corrected and take in a position. Writes the answers to the position's queries, one after the
/// other.
pub fn step<F: Real>(state: &mut [F], position: &Position<'_, F>, out: &mut [F]) {
    let Position { key, value, queries, decays, rate, scale } = *position;
    let (rows, columns) = (key.len(), value.len());
    if rows == 0 || columns == 0 {
        return out.fill(F::default());
    }
    // Answers come last, so that the update is kept where the first of them will be.
    let update = &mut out[..columns];
    update.fill(F::default());
    for (row, line) in state.chunks_exact_mut(columns).enumerate() {
        if let Some(decay) = decays.get(if decays.len() == 1 { 0 } else { row }) {
            let factor = decay.exp();
            line.iter_mut().for_each(|entry| *entry *= factor);
        }
        if rate.is_some() {
            update.iter_mut().zip(&*line).for_each(|(held, entry)| *held += key[row] * *entry);
        }
    }
    for (update, value) in update.iter_mut().zip(value) {
        *update = rate.map_or(*value, |rate| rate * (*value - *update));
    }
    for (line, key) in state.chunks_exact_mut(columns).zip(key) {
        line.iter_mut().zip(&*update).for_each(|(entry, update)| *entry += *key * *update);
    }
    for (out, query) in out.chunks_exact_mut(columns).zip(queries.chunks_exact(rows)) {
        out.fill(F::default());
        for (line, factor) in state.chunks_exact(columns).zip(query) {
            out.iter_mut().zip(line).for_each(|(out, entry)| *out += scale * *factor * *entry);
        }
    }
}
