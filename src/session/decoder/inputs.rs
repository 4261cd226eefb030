//! The inputs of a step.

use kiln_kernels::memory::{self, Collect};
use kiln_model::Value;
use kiln_tensor::Tensor;

use super::rewrite::{LAST, PAGES, ROWS};
use super::{Decoder, DecoderCache, DecoderError, Entry, bias};

impl Decoder {
    /// The inputs of a step by name.
    pub(super) fn inputs(
        &self,
        cache: &DecoderCache,
        entries: &[Entry<'_>],
        rows: Vec<usize>,
    ) -> Result<Vec<(&str, Value)>, DecoderError> {
        let (roles, count) = (&self.roles, entries.len());
        let new = entries.first().map_or(0, |entry| entry.tokens.len());
        let all = entries.iter().flat_map(|entry| entry.tokens.iter().copied()).collected();
        let mut inputs = vec![(roles.tokens.as_str(), Tensor::from_vec([count, new], all)?)];
        if !roles.cache.is_empty() {
            // The operator counts from 0.
            let last = entries.iter().map(|entry| (entry.before + new - 1) as i32).collected();
            inputs.push((LAST, Tensor::from_vec([count], last)?));
            let of_sequence = cache.room / cache.pages.positions();
            let mut table = memory::zeroed::<i32>(count * of_sequence);
            for (entry, row) in entries.iter().zip(table.chunks_exact_mut(of_sequence)) {
                row.iter_mut().zip(cache.pages.of(entry.sequence)).for_each(|(to, &page)| *to = page as i32);
            }
            inputs.push((PAGES, Tensor::from_vec([count, of_sequence], table)?));
        }
        let rows: Vec<i64> = rows.into_iter().map(|row| row as i64).collected();
        inputs.push((ROWS, Tensor::from_vec([rows.len()], rows)?));
        if let Some(name) = &roles.mask {
            let end = |entry: &Entry<'_>| (entry.before + new).max(cache.announced[entry.sequence]);
            let longest = entries.iter().map(end).max().unwrap_or(0);
            let filled = |entry: &Entry<'_>| {
                let end = entry.before + new;
                (0..longest).map(move |at| i64::from(at < end))
            };
            let mask = entries.iter().flat_map(filled).collected();
            inputs.push((name, Tensor::from_vec([count, longest], mask)?));
        }
        if let Some(name) = &roles.positions {
            let own = |entry: &Entry<'_>| (entry.before..entry.before + new).map(|position| position as i64);
            let shape = roles.position_rows.into_iter().chain([count, new]);
            // A text has the same position in time, height and width.
            let rows = roles.position_rows.unwrap_or(1);
            let all = (0..rows).flat_map(|_| entries.iter().flat_map(own)).collected();
            inputs.push((name, Tensor::from_vec(shape, all)?));
        }
        for (pair, part) in roles.cache.iter().zip(&cache.parts) {
            let lent = part.lend(part.spec());
            let lent = lent.ok_or_else(|| DecoderError::Cache(format!("'{}' is in use by another step", pair.past)))?;
            inputs.push((&pair.past, lent));
        }
        let sequences = entries.iter().map(|entry| entry.sequence).collected();
        let states = cache.states.of(&sequences, &self.session.kept.buffers)?;
        inputs.extend(roles.states.iter().map(|state| state.past.as_str()).zip(states));
        for (bias, row) in self.biases.iter().zip(&cache.rows) {
            let before = entries.iter().map(|entry| entry.before);
            inputs.push((bias.name(), bias::at(row, before, cache.room, &self.session.kept.buffers)?));
        }
        inputs.extend(roles.beside.iter().map(String::as_str).zip(cache.beside.iter().cloned()));
        Ok(inputs.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor))).collect())
    }
}
