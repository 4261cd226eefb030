//! Attention whose products have three axes, as older exporters write it: one Reshape folds heads into the axis of
//! sequences, and another one takes them apart again.

use kiln_model::ir::ValueId;

use super::{Joined, Matcher};
use crate::session::decoder::plain::trial::{Follows, Lengths};

/// An axis after the axis of heads.
#[derive(Clone, Copy)]
pub(super) enum Axis {
    /// New positions.
    New,
    /// All positions.
    Total,
    /// Elements of a head.
    Size(usize),
}

impl Axis {
    fn size(self, lengths: Lengths) -> usize {
        match self {
            Axis::New => lengths.new,
            Axis::Total => lengths.past + lengths.new,
            Axis::Size(size) => size,
        }
    }
}

impl Matcher<'_, '_> {
    /// The value [sequences, heads, ...] before a Reshape to [sequences * heads, ...].
    pub(super) fn apart(&mut self, value: ValueId, heads: usize, axes: [Axis; 2]) -> Option<ValueId> {
        let input = self.reshaped(value, heads, axes, true)?;
        let is_apart = |&lengths: &Lengths| {
            let [rows, columns] = axes.map(|axis| axis.size(lengths));
            self.trial.dims(input, lengths).is_some_and(|dims| dims == [lengths.batch, heads, rows, columns])
        };
        self.lengths.iter().all(is_apart).then_some(input)
    }

    /// The scores before a Reshape from one of these forms to the other. Their sizes are not checked: they are those of
    /// a product, and a mask that is added to them has to fit.
    pub(super) fn scores(&mut self, value: ValueId, heads: usize) -> Option<ValueId> {
        let axes = [Axis::New, Axis::Total];
        let folds = self.trial.facts.rank(value)? == 3;
        let input = self.reshaped(value, heads, axes, folds)?;
        Some(input).filter(|&input| self.trial.facts.rank(input) == Some(if folds { 4 } else { 3 }))
    }

    /// The value before a Reshape to [sequences * heads, ...], where it `folds`, or to [sequences, heads, ...].
    fn reshaped(&mut self, value: ValueId, heads: usize, axes: [Axis; 2], folds: bool) -> Option<ValueId> {
        let reshape = self.trial.maker(value).filter(|maker| maker.is("Reshape"))?;
        let (input, shape) = reshape.input(0).zip(reshape.input(1))?;
        for &lengths in self.lengths {
            let [rows, columns] = axes.map(|axis| axis.size(lengths));
            let to = match folds {
                true => vec![lengths.batch.checked_mul(heads)?, rows, columns],
                false => vec![lengths.batch, heads, rows, columns],
            };
            let asked = self.trial.compute(shape, Follows::Comparisons, lengths)?.to_i64_vec().ok()?;
            let is_known = |(&asked, &size): (&i64, &usize)| asked == -1 || usize::try_from(asked) == Ok(size);
            let open = asked.iter().filter(|&&asked| asked == -1).count();
            if asked.len() != to.len() || open > 1 || !asked.iter().zip(&to).all(is_known) {
                return None;
            }
        }
        Some(input)
    }

    /// A part of the cache [sequences, heads, positions, size] after a Reshape to [sequences * heads, positions, size].
    pub(super) fn folded(&mut self, value: ValueId) -> Option<Joined> {
        let reshape = self.trial.maker(value).filter(|maker| maker.is("Reshape"))?;
        let present = reshape.input(0)?;
        let part = self.parts.iter().position(|part| part.present == present && part.new.is_some())?;
        let (heads, size) = (self.parts[part].heads, self.parts[part].size);
        self.apart(value, heads, [Axis::Total, Axis::Size(size)])?;
        Some(Joined { part, shared: 1 })
    }
}
