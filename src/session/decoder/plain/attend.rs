//! Attention over a cache as exporters write it: the standard's Attention with `past_key` and `past_value`
//! (MultiHeadAttention is expanded to it), and products and a softmax over keys and values joined by Concat.

mod folded;
mod sinks;

use kiln_model::facts;
use kiln_model::ir::{Attr, NodeDesc, ValueId};
use kiln_tensor::{DType, Tensor};

use self::folded::Axis;
use super::slopes::Slopes;
use super::trial::{Follows, Lengths, Trial};
use super::{Part, refused_at};
use crate::session::decoder::DecoderError;

/// Scores are multiplied by at least this behind a mask: what hides a key still does, [`super::HIDDEN`] / 64 = -156.
const LEAST_FACTOR: f32 = 1.0 / 64.0;

/// Attention over a part of the cache for keys and one for values.
pub(super) struct Attend {
    /// The place of the node whose first output is the result.
    pub(super) at: usize,
    pub(super) query: Rows,
    pub(super) key: Rows,
    pub(super) value: Rows,
    /// Parts of the cache by their places in the list of parts.
    pub(super) parts: [usize; 2],
    /// Heads of queries, heads of keys, and elements of a head.
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) size: usize,
    pub(super) scale: f32,
    pub(super) cap: f32,
    /// Whether the node itself hides later positions.
    pub(super) is_causal: bool,
    pub(super) masks: Vec<Mask>,
    /// A bias that is added to scores.
    pub(super) slopes: Option<Slopes>,
    /// A score of each head that takes weight and has no value, [heads].
    pub(super) sinks: Option<Tensor>,
    /// If heads are folded into the axis of sequences: the queries, which have the shape of the result, [sequences *
    /// heads, positions, size].
    pub(super) folded: Option<ValueId>,
}

/// New rows of all heads.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) value: ValueId,
    /// Whether they are [sequences, heads, positions, size]; otherwise [sequences, positions, heads * size].
    pub(super) heads_first: bool,
}

/// A mask of keys, [sequences, heads, new positions, keys] or broadcast to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mask {
    pub(super) value: ValueId,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Added to scores, or true for keys that are seen.
    Added,
    /// The same before scores are multiplied by a number, so that it is 0 or hides a key.
    AddedBefore,
    /// True for keys that are hidden.
    Hides,
    /// One for each key that is shown, [sequences, keys].
    Shown,
}

/// Matches attention that reads the cache.
pub(super) struct Matcher<'a, 'b> {
    pub(super) trial: &'b mut Trial<'a>,
    pub(super) parts: &'b [Part],
    pub(super) lengths: &'b [Lengths],
}

/// A value that is a part of the cache with the new positions, each head repeated for the queries that share it.
struct Joined {
    part: usize,
    shared: usize,
}

impl Matcher<'_, '_> {
    /// The attention that ends in this node; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If it reads the cache in an unknown way, with the node.
    pub(super) fn attend(&mut self, at: usize) -> Result<Option<Attend>, DecoderError> {
        let graph = self.trial.graph;
        let node = &graph.nodes[at];
        if node.is("Attention") {
            return self.standard(at, node);
        }
        if !node.is("MatMul") {
            return Ok(None);
        }
        let Some((weights, value)) = node.input(0).zip(node.input(1)) else { return Ok(None) };
        if let Some(values) = self.joined(value) {
            return self.by_hand(at, node, weights, &values, false).map(Some);
        }
        let Some(values) = self.folded(value) else { return Ok(None) };
        self.by_hand(at, node, weights, &values, true).map(Some)
    }

    /// Attention of the standard, over its own cache or over keys and values joined by Concat.
    fn standard(&mut self, at: usize, node: &NodeDesc) -> Result<Option<Attend>, DecoderError> {
        let refused = |reason: &str| refused_at(node, reason);
        let attributes = node.attributes();
        let Some([query, key, value]) = all([0, 1, 2].map(|index| node.input(index))) else { return Ok(None) };
        let has_past = node.input(4).is_some() || node.input(5).is_some();
        // How often each head of the cache is repeated before it.
        let mut copies = 1;
        let (parts, key, value) = if has_past {
            let part = |own: usize| {
                let place = self.parts.iter().position(|part| Some(part.past) == node.input(4 + own));
                place.filter(|&place| node.output(1 + own) == Some(self.parts[place].present))
            };
            let Some(parts) = all([0, 1].map(part)) else { return Ok(None) };
            (parts, key, value)
        } else {
            let Some((keys, values)) = self.as_read(key).zip(self.as_read(value)) else { return Ok(None) };
            if [&keys, &values].iter().any(|(_, in_rows)| *in_rows != (self.trial.facts.rank(query) == Some(3))) {
                return Err(refused("heads are an axis of queries or of keys alone"));
            }
            let (keys, values) = (keys.0, values.0);
            if keys.shared != values.shared {
                return Err(refused("heads of keys are repeated otherwise than those of values"));
            }
            copies = keys.shared;
            // Without a cache of its own, it counts queries from the first key.
            if attributes.flag("is_causal") {
                return Err(refused("is_causal over joined keys counts queries from the first key"));
            }
            let [key, value] = [keys.part, values.part].map(|part| self.parts[part].new);
            let Some((key, value)) = key.zip(value) else { return Ok(None) };
            ([keys.part, values.part], key, value)
        };
        if node.input(6).is_some() || node.output(3).is_some() {
            return Err(refused("filled lengths, or an output of scores"));
        }
        if ["left_window_size", "right_window_size"].iter().any(|name| attributes.int(name) != -1) {
            return Err(refused("a window that is an attribute"));
        }
        let part = &self.parts[parts[0]];
        let (kv_heads, size) = (part.heads, part.size);
        let rank = self.trial.facts.rank(query);
        let heads_first = match rank {
            Some(4) => true,
            Some(3) => false,
            _ => return Err(refused("it is not known whether heads of queries are an axis")),
        };
        let heads = match (heads_first, node.attrs.contains_key("q_num_heads")) {
            (true, _) => self.known(query, 1),
            (false, true) => usize::try_from(attributes.int("q_num_heads")).ok(),
            (false, false) => None,
        };
        // Sharing by the operator and repetition before it are equivalent: a query reads the same head of the cache.
        let read = kv_heads.checked_mul(copies).filter(|&read| read > 0);
        let heads = heads.zip(read).filter(|&(heads, read)| heads > 0 && heads % read == 0).map(|(heads, _)| heads);
        let heads = heads.ok_or_else(|| refused("it is not known how many heads queries have"))?;
        if !heads_first && usize::try_from(attributes.int("kv_num_heads")).ok() != read {
            return Err(refused("it counts other heads of keys than the cache has"));
        }
        let last = if heads_first { size } else { heads * size };
        if self.known(query, rank.unwrap_or(4) - 1) != Some(last) {
            return Err(refused("queries are not as wide as keys"));
        }
        // Tensors joined by Concat have an axis of heads.
        let heads_first_of_keys = heads_first || !has_past;
        let rows = |value, heads_first| Rows { value, heads_first };
        let (mut masks, mut slopes) = (Vec::new(), None);
        if let Some(mask) = node.input(3) {
            self.masks(mask, &mut masks, 4);
            masks.retain(|mask| !(mask.kind == Kind::Added && self.is_bias(mask.value, 1.0, &mut slopes)));
        }
        // The default scale depends on the size of a head.
        let of_size = (size as f32).sqrt().recip();
        let scale = attributes.number("scale").unwrap_or(of_size);
        Ok(Some(Attend {
            at,
            query: rows(query, heads_first),
            key: rows(key, heads_first_of_keys),
            value: rows(value, heads_first_of_keys),
            parts,
            heads,
            kv_heads,
            size,
            scale,
            cap: attributes.float("softcap"),
            is_causal: attributes.flag("is_causal"),
            masks,
            slopes: of_heads(slopes, heads).map_err(refused)?,
            sinks: None,
            folded: None,
        }))
    }

    /// A mask, taken apart if it is a sum.
    fn masks(&self, value: ValueId, masks: &mut Vec<Mask>, levels: usize) {
        match self.trial.maker(value) {
            Some(node) if node.is_fused("AttentionMask") => {
                masks.extend(node.input(0).map(|value| Mask { value, kind: Kind::Shown }));
            }
            Some(node) if node.is("Add") && levels > 0 => {
                node.inputs.iter().flatten().for_each(|&input| self.masks(input, masks, levels - 1));
            }
            // The same for each head.
            Some(node) if node.is("Tile") && levels > 0 && self.repeats_heads(node) => {
                node.inputs[..1].iter().flatten().for_each(|&input| self.masks(input, masks, levels - 1));
            }
            _ => masks.push(Mask { value, kind: Kind::Added }),
        }
    }

    /// Whether Tile repeats only the axis of heads.
    fn repeats_heads(&self, tile: &NodeDesc) -> bool {
        let repeats = tile.input(1).and_then(|repeats| self.trial.graph.constant(repeats)?.to_i64_vec().ok());
        matches!(repeats.as_deref(), Some([1, times, 1, 1]) if *times > 0)
    }

    /// Attention in small operators, from the product with the values upwards. `is_folded` tells whether products have
    /// three axes.
    fn by_hand(
        &mut self,
        at: usize,
        node: &NodeDesc,
        weights: ValueId,
        values: &Joined,
        is_folded: bool,
    ) -> Result<Attend, DecoderError> {
        let unknown = |other: Option<&NodeDesc>, what: &str| {
            refused_at(other.unwrap_or(node), &format!("it is no known part of attention over a cache: {what}"))
        };
        let mut softmax = self.through(weights);
        let joined = if is_folded { None } else { sinks::joined(self, softmax) };
        if let Some(joined) = &joined {
            softmax = joined.softmax;
        }
        // Heads may be folded into the axis of sequences behind the softmax.
        let folds = is_folded && self.trial.maker(softmax).is_some_and(|maker| maker.is("Reshape"));
        if folds {
            let before = self.scores(softmax, self.parts[values.part].heads);
            softmax = self.through(before.ok_or_else(|| unknown(self.trial.maker(softmax), "a softmax is expected"))?);
        }
        let softmax = self.trial.maker(softmax).filter(|maker| maker.is("Softmax"));
        let softmax = softmax.ok_or_else(|| unknown(self.trial.maker(weights), "a softmax is expected"))?;
        let mut scores = softmax.input(0).ok_or_else(|| unknown(Some(softmax), "it reads nothing"))?;
        let mut sinks = None;
        if let Some(found) = joined {
            (scores, sinks) = (found.scores, Some(found.sinks));
        }
        let axes = if is_folded && !folds { 3 } else { 4 };
        // Adding a mask of four axes to scores of three axes would give four axes.
        let rank = self.trial.facts.rank(scores).unwrap_or(if is_folded { 0 } else { axes });
        let axis = facts::axis(softmax.attributes().int("axis"), rank);
        if rank != axes || axis != Some(axes - 1) {
            return Err(unknown(Some(softmax), "over keys [sequences, heads, positions, keys]"));
        }
        // What is found is applied in the opposite order: scaled scores are capped, and then masked.
        let (mut value, mut masks, mut slopes, mut scale, mut cap) = (scores, Vec::new(), None, 1.0, 0.0);
        let product = loop {
            value = self.through(value);
            let Some(maker) = self.trial.maker(value) else {
                return Err(unknown(None, "its scores are an input"));
            };
            if is_folded && maker.is("Reshape") {
                let before = self.scores(value, self.parts[values.part].heads);
                value = before.ok_or_else(|| unknown(Some(maker), "between scores and softmax"))?;
                continue;
            }
            if maker.is("MatMul") {
                break maker;
            }
            if maker.is("Tanh") && cap == 0.0 && scale > 0.0 {
                (cap, scale) = (scale, 1.0);
                value = maker.input(0).ok_or_else(|| unknown(Some(maker), "it reads nothing"))?;
                continue;
            }
            let Some((a, b)) = maker.input(0).zip(maker.input(1)) else {
                return Err(unknown(Some(maker), "between scores and softmax"));
            };
            value = if maker.is("Mul") || maker.is("Div") {
                let (rest, factor) = self.scaled(maker).ok_or_else(|| unknown(Some(maker), "a factor of scores"))?;
                scale *= factor;
                rest
            } else if maker.is("Add") && scale >= LEAST_FACTOR && cap == 0.0 {
                let (rest, mask) = if self.leads_to_product(a) { (a, b) } else { (b, a) };
                let kind = if scale == 1.0 { Kind::Added } else { Kind::AddedBefore };
                if !self.is_bias(mask, scale, &mut slopes) {
                    masks.push(Mask { value: mask, kind });
                }
                rest
            } else if maker.is("Where") && scale >= LEAST_FACTOR && cap == 0.0 {
                let Some(other) = maker.input(2) else { return Err(unknown(Some(maker), "a condition")) };
                let fill = |value, trial: &mut Trial<'_>| {
                    trial.number(value, self.lengths).is_some_and(|fill| fill <= super::HIDDEN)
                };
                let (kind, rest) = if fill(other, self.trial) {
                    (Kind::Added, b)
                } else if fill(b, self.trial) {
                    (Kind::Hides, other)
                } else {
                    return Err(unknown(Some(maker), "a condition that hides keys"));
                };
                masks.push(Mask { value: a, kind });
                rest
            } else {
                return Err(unknown(Some(maker), "between scores and softmax"));
            };
        };
        let Some((query, key)) = product.input(0).zip(product.input(1)) else {
            return Err(unknown(Some(product), "queries times keys"));
        };
        let keys = self.keys(key, is_folded);
        let (keys, of_keys) = keys.ok_or_else(|| unknown(Some(product), "keys of the cache"))?;
        let part = &self.parts[keys.part];
        let (kv_heads, size) = (part.heads, part.size);
        let (mut query, of_queries) = self.factors(query);
        let folded = is_folded.then_some(query);
        if is_folded {
            let apart = self.apart(query, kv_heads, [Axis::New, Axis::Size(size)]);
            query = apart.ok_or_else(|| unknown(Some(product), "queries whose heads are folded as those of keys"))?;
        }
        let heads = self.known(query, 1).filter(|_| self.trial.facts.rank(query) == Some(4));
        let heads = heads.filter(|_| self.known(query, 3) == Some(size));
        let heads = heads.ok_or_else(|| unknown(Some(product), "heads of queries of a known number and size"))?;
        // A product of four axes repeats a single head by itself.
        let repeats_one = kv_heads == 1 && !is_folded;
        if [keys.shared, values.shared]
            .iter()
            .any(|&shared| shared * kv_heads != heads && !(repeats_one && shared == 1))
        {
            return Err(unknown(Some(product), "as many heads of queries as of keys and values"));
        }
        let rows = |value| Rows { value, heads_first: true };
        let new = |part: usize| self.parts[part].new;
        let Some((key, value)) = new(keys.part).zip(new(values.part)) else {
            return Err(unknown(Some(node), "keys and values that Concat joins"));
        };
        Ok(Attend {
            at,
            query: rows(query),
            key: rows(key),
            value: rows(value),
            parts: [keys.part, values.part],
            heads,
            kv_heads,
            size,
            // The operator caps scores: the cap times the hyperbolic tangent of scores over the cap.
            scale: scale * of_keys * of_queries * if cap > 0.0 { cap } else { 1.0 },
            cap,
            is_causal: false,
            masks,
            slopes: of_heads(slopes, heads).map_err(|reason| refused_at(node, reason))?,
            sinks: sinks::of_heads(sinks, heads).map_err(|reason| refused_at(node, reason))?,
            folded,
        })
    }

    /// Whether a value that is added to scores is a bias by slopes, which is then `found`. Scores are multiplied by
    /// `scale` afterwards. Of several such biases only the first is taken.
    fn is_bias(&mut self, value: ValueId, scale: f32, found: &mut Option<Slopes>) -> bool {
        if found.is_some() {
            return false;
        }
        *found = Slopes::of(self.trial, value).and_then(|slopes| slopes.scaled(scale));
        found.is_some()
    }

    /// The value before nodes that change nothing of finite numbers.
    fn through(&self, mut value: ValueId) -> ValueId {
        while let Some(maker) = self.trial.maker(value) {
            let to_f32 = maker.is("Cast") && maker.attributes().dtype("to") == Some(DType::F32);
            let input = match maker.input(0) {
                Some(input) if maker.is("Identity") => input,
                Some(input) if to_f32 && self.trial.facts.is(input, DType::F32) => input,
                // This handles rows that are hidden as a whole, which do not occur.
                Some(condition) if maker.is("Where") => {
                    let of = self.trial.maker(condition).filter(|node| node.is("IsNaN")).and_then(|node| node.input(0));
                    match of.filter(|_| maker.input(2) == of) {
                        Some(of) => of,
                        None => return value,
                    }
                }
                _ => return value,
            };
            value = input;
        }
        value
    }

    /// Whether a value is scores, perhaps scaled.
    fn leads_to_product(&self, value: ValueId) -> bool {
        let mut value = self.through(value);
        for _ in 0..6 {
            let Some(maker) = self.trial.maker(value) else { return false };
            if maker.is("MatMul") {
                return true;
            }
            if !["Mul", "Div", "Add", "Where", "Reshape", "Tanh"].iter().any(|op| maker.is(op)) {
                return false;
            }
            let next = if maker.is("Where") { maker.input(1) } else { maker.input(0) };
            let Some(next) = next else { return false };
            value = self.through(next);
        }
        false
    }

    /// The operand and the factor of a product or quotient with a number.
    fn scaled(&mut self, node: &NodeDesc) -> Option<(ValueId, f32)> {
        let (a, b) = node.input(0).zip(node.input(1))?;
        if node.is("Div") {
            return self.trial.number(b, self.lengths).map(|divisor| (a, 1.0 / divisor));
        }
        match self.trial.number(b, self.lengths) {
            Some(factor) => Some((a, factor)),
            None => self.trial.number(a, self.lengths).map(|factor| (b, factor)),
        }
    }

    /// A value before its multiplications by numbers, and the product of the numbers.
    fn factors(&mut self, mut value: ValueId) -> (ValueId, f32) {
        let mut scale = 1.0;
        while let Some(maker) = self.trial.maker(value).filter(|maker| maker.is("Mul") || maker.is("Div"))
            && let Some((rest, factor)) = self.scaled(maker)
        {
            (value, scale) = (rest, scale * factor);
        }
        (value, scale)
    }

    /// Keys as the right-hand side of scores: columns of the cache, perhaps scaled.
    fn keys(&mut self, value: ValueId, is_folded: bool) -> Option<(Joined, f32)> {
        let (columns, outer) = self.factors(value);
        if let Some(joined) = self.unfolded(columns).filter(|_| !is_folded) {
            return Some((joined, outer));
        }
        let turn = self.trial.maker(columns).filter(|maker| maker.is("Transpose"))?;
        let expected: &[i64] = if is_folded { &[0, 2, 1] } else { &[0, 1, 3, 2] };
        if turn.ints("perm") != Some(expected) {
            return None;
        }
        let (rows, inner) = self.factors(turn.input(0)?);
        let joined = if is_folded { self.folded(rows) } else { self.joined(rows) };
        Some((joined?, outer * inner))
    }

    /// Keys whose last two axes change places while those before are folded into one, as onnxscript writes them.
    fn unfolded(&mut self, columns: ValueId) -> Option<Joined> {
        let unfolds = self.trial.maker(columns).filter(|maker| maker.is("Reshape"))?;
        let turn = self.trial.maker(unfolds.input(0)?).filter(|maker| maker.is("Transpose"))?;
        let folds = self.trial.maker(turn.input(0)?).filter(|maker| maker.is("Reshape"))?;
        if turn.ints("perm") != Some(&[0, 2, 1]) {
            return None;
        }
        let joined = self.joined(folds.input(0)?)?;
        let Part { heads, size, .. } = self.parts[joined.part];
        let heads = heads.checked_mul(joined.shared)?;
        for &lengths in self.lengths {
            let (batch, total) = (lengths.batch, lengths.past + lengths.new);
            let folded = self.reshapes(folds, &[batch.checked_mul(heads)?, total, size], 0, lengths)?;
            if !folded || !self.reshapes(unfolds, &[batch, heads, size, total], 0, lengths)? {
                return None;
            }
        }
        Some(joined)
    }

    /// Whether Reshape gives a tensor these sizes. One of them may be left open, and the first `same` may be said to stay
    /// as they are.
    fn reshapes(&mut self, reshape: &NodeDesc, dims: &[usize], same: usize, lengths: Lengths) -> Option<bool> {
        let to = self.trial.compute(reshape.input(1)?, Follows::Comparisons, lengths)?.to_i64_vec().ok()?;
        let keeps_zero = reshape.attrs.get("allowzero").is_some_and(|attr| !matches!(attr, Attr::Int(0)));
        let is_known = |(at, (&to, &dim)): (usize, (&i64, &usize))| {
            to == -1 || usize::try_from(to) == Ok(dim) || to == 0 && at < same && !keeps_zero
        };
        let open = to.iter().filter(|&&to| to == -1).count();
        Some(to.len() == dims.len() && open <= 1 && to.iter().zip(dims).enumerate().all(is_known))
    }

    /// A part of the cache behind Unsqueeze, Expand and Reshape that repeat its heads, or as it is.
    fn joined(&mut self, value: ValueId) -> Option<Joined> {
        let place = |value: ValueId| self.parts.iter().position(|part| part.present == value && part.new.is_some());
        if let Some(part) = place(value) {
            return Some(Joined { part, shared: 1 });
        }
        let reshape = self.trial.maker(value).filter(|maker| maker.is("Reshape"))?;
        let expand = self.trial.maker(reshape.input(0)?).filter(|maker| maker.is("Expand"))?;
        let unsqueeze = self.trial.maker(expand.input(0)?).filter(|maker| maker.is("Unsqueeze"))?;
        let part = place(unsqueeze.input(0)?)?;
        let axes = match unsqueeze.input(1) {
            Some(axes) => self.trial.graph.constant(axes)?.to_i64_vec().ok()?,
            None => unsqueeze.ints("axes")?.to_vec(),
        };
        if axes != [2] && axes != [-3] {
            return None;
        }
        let Part { heads, size, .. } = self.parts[part];
        let mut shared = None;
        for &lengths in self.lengths {
            let wide = self.trial.compute(expand.input(1)?, Follows::Comparisons, lengths)?.to_i64_vec().ok()?;
            let &[batch, of_heads, copies, positions, of_size] = wide.as_slice() else { return None };
            let dims = [lengths.batch, heads, lengths.past + lengths.new, size];
            let fits = |(to, dim)| to == 1 || usize::try_from(to) == Ok(dim);
            let fits = [batch, of_heads, positions, of_size].into_iter().zip(dims).all(fits);
            let times = usize::try_from(copies.max(1)).ok()?;
            let result = [dims[0], dims[1].checked_mul(times)?, dims[2], dims[3]];
            if !fits || !self.reshapes(reshape, &result, 1, lengths)? || shared.is_some_and(|shared| shared != times) {
                return None;
            }
            shared = Some(times);
        }
        Some(Joined { part, shared: shared? })
    }

    /// A part of the cache as Attention reads it, and whether its heads are side by side in rows [sequences, positions,
    /// heads * size], as Transpose and Reshape put them.
    fn as_read(&mut self, value: ValueId) -> Option<(Joined, bool)> {
        if let Some(joined) = self.joined(value) {
            return Some((joined, false));
        }
        let reshape = self.trial.maker(value).filter(|maker| maker.is("Reshape"))?;
        let turn = self.trial.maker(reshape.input(0)?).filter(|maker| maker.is("Transpose"))?;
        if turn.ints("perm") != Some(&[0, 2, 1, 3]) {
            return None;
        }
        let joined = self.joined(turn.input(0)?)?;
        let Part { heads, size, .. } = self.parts[joined.part];
        let width = heads.checked_mul(joined.shared)?.checked_mul(size)?;
        for &lengths in self.lengths {
            if !self.reshapes(reshape, &[lengths.batch, lengths.past + lengths.new, width], 2, lengths)? {
                return None;
            }
        }
        Some((joined, true))
    }

    fn known(&self, value: ValueId, axis: usize) -> Option<usize> {
        usize::try_from(self.trial.facts.dims(value)?.get(axis)?.known()?).ok()
    }
}

/// The slopes, if there is one for each head.
fn of_heads(slopes: Option<Slopes>, heads: usize) -> Result<Option<Slopes>, &'static str> {
    match slopes {
        Some(slopes) if slopes.heads() != heads => Err("its bias has other heads than its queries"),
        slopes => Ok(slopes),
    }
}

fn all<T: Copy, const N: usize>(values: [Option<T>; N]) -> Option<[T; N]> {
    let values: Option<Vec<T>> = values.into_iter().collect();
    values?.try_into().ok()
}
