//! LinearAttention, ONNX's and ONNX Runtime's: a state for each head of keys, which decays, is corrected by what it
//! already holds for a key (the delta rule), takes in each position's key and value, and answers its queries.
//!
//! Heads are shared out between threads, and each walks all positions with a state that stays in its cache. Computed in
//! `f32`, in `f64` where the queries are.

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Sub};

use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use super::tasks::try_each_chunk;
use super::wide::{Wide, filled, lent};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "LinearAttention", make), ("com.microsoft", "LinearAttention", make)];

/// Most states of single positions that a window keeps.
const WIDEST: i64 = 8;

struct LinearAttention {
    queries: usize,
    /// Heads of values; each has a state.
    heads: usize,
    scale: Option<f64>,
    /// Whether the state decays, and whether it is corrected by what it already holds for a key (the delta rule).
    decays: bool,
    corrects: bool,
    /// How many of the last positions have their states kept; `None` for only the last one, without an axis.
    window: Option<usize>,
    /// Whether heads of keys, and heads of queries, may be fewer than those of values.
    is_loose: bool,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let (decays, corrects) = match node.attributes().text("update_rule") {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(OpError::unsupported(node, format!("update_rule = {other}"))),
    };
    let (queries, heads) = (size_attribute(node, "q_num_heads", 1)?, size_attribute(node, "kv_num_heads", 1)?);
    let is_loose = node.domain == "com.microsoft";
    if queries % heads != 0 && !(is_loose && heads % queries == 0) {
        return Err(OpError::invalid(node, format!("{queries} heads of queries and {heads} of values")));
    }
    let window = if is_loose { node.attributes().int("state_window") } else { 0 };
    if !(0..=WIDEST).contains(&window) {
        return Err(OpError::invalid(node, format!("state_window = {window}")));
    }
    let scale = f64::from(node.attributes().float("scale"));
    let window = usize::try_from(window).ok().filter(|&window| window > 0);
    let scale = (scale != 0.0).then_some(scale);
    Ok(Box::new(LinearAttention { queries, heads, scale, decays, corrects, window, is_loose }))
}

/// Sizes of one run.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    steps: usize,
    key: usize,
    value: usize,
    /// Heads of keys.
    keys: usize,
    /// Elements of the decay for a head: one, or as many as a key has.
    decay: usize,
    /// Rates of a step: one, or one a head.
    rates: usize,
}

impl Sizes {
    /// Elements of a head's state.
    fn area(&self) -> usize {
        self.key * self.value
    }
}

/// Refuses a state of another shape.
fn shaped(inputs: &[Option<&Tensor>], shape: &[usize]) -> Result<(), NodeError> {
    match optional(inputs, 3) {
        Some(tensor) if tensor.shape() != shape => {
            Err(refused(format!("input 3 has shape {:?} where {shape:?} is needed", tensor.shape())))
        }
        _ => Ok(()),
    }
}

impl LinearAttention {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let (queries, heads) = (self.queries, self.heads);
        let (query, key, value) =
            (required(inputs, 0)?.shape(), required(inputs, 1)?.shape(), required(inputs, 2)?.shape());
        let differ = || refused(format!("queries of {query:?}, keys of {key:?}, values of {value:?}"));
        let (&[batch, steps, query_size], &[.., key_size], &[.., value_size]) = (query, key, value) else {
            return Err(differ());
        };
        let size = query_size / queries;
        let keys = match key_size.checked_div(size) {
            Some(keys) if self.is_loose && keys > 0 && heads % keys == 0 => keys,
            _ => heads,
        };
        let fits = query_size % queries == 0
            && Some(key_size) == size.checked_mul(keys)
            && value_size % heads == 0
            && [key.len(), value.len()] == [3, 3]
            && key[..2] == query[..2]
            && value[..2] == query[..2];
        if !fits {
            return Err(differ());
        }
        let (key, value) = (size, value_size / heads);
        match self.window {
            Some(window) => shaped(inputs, &[window, batch, heads, key, value])?,
            None => shaped(inputs, &[batch, heads, key, value])?,
        }
        let last = |index: usize, wanted: bool, choices: [usize; 2]| match optional(inputs, index).map(Tensor::shape) {
            _ if !wanted => Ok(0),
            Some(&[b, t, size]) if [b, t] == [batch, steps] && choices.contains(&size) => Ok(size),
            found => Err(refused(format!("input {index} has shape {found:?}"))),
        };
        let decay = last(4, self.decays, [heads, heads.saturating_mul(key)])? / heads;
        let rates = last(5, self.corrects, [heads, 1])?;
        Ok(Sizes { batch, steps, key, value, keys, decay, rates })
    }
}

impl Node for LinearAttention {
    fn family(&self) -> &'static str {
        "LinearAttention"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        match inputs.iter().flatten().find(|tensor| !tensor.dtype().is_float()) {
            Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
            None => Ok(()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        match io.input(0)?.dtype() {
            DType::F64 => self.run::<f64>(io, cx),
            _ => self.run::<f32>(io, cx),
        }
    }
}

/// The types that states are computed in.
pub(super) trait Number:
    Wide
    + Element
    + Add<Output = Self>
    + Div<Output = Self>
    + Mul<Output = Self>
    + Sub<Output = Self>
    + AddAssign
    + MulAssign
{
    fn exp(self) -> Self;
    fn of(value: f64) -> Self;
}

impl Number for f32 {
    fn exp(self) -> f32 {
        self.exp()
    }

    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Number for f64 {
    fn exp(self) -> f64 {
        self.exp()
    }

    fn of(value: f64) -> f64 {
        value
    }
}

/// Operands of all heads.
struct Operands<'a, F> {
    query: &'a [F],
    keys: &'a [F],
    values: &'a [F],
    decays: &'a [F],
    rates: &'a [F],
    scale: F,
}

/// A head of one sequence, and the memory for its results.
struct Head<'a, F> {
    batch: usize,
    head: usize,
    state: &'a mut [F],
    /// States of positions before the last one.
    earlier: Vec<&'a mut [F]>,
    /// Its results, position after position.
    out: &'a mut [F],
}

impl LinearAttention {
    /// Heads of results for a head of values.
    fn shared(&self) -> usize {
        (self.queries / self.heads).max(1)
    }

    fn run<F: Number>(&self, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        let own = io.optional(3).is_some_and(|past| past.dtype() == F::DTYPE);
        let in_place = own && self.window.is_none() && io.can_reuse(3, 1);
        let present = if in_place { io.take(3)? } else { io.alloc(1)? };
        let past = if in_place { None } else { io.optional(3).map(lent::<F>).transpose()? };
        let given = |index| io.optional(index).map(lent::<F>).transpose().map(Option::unwrap_or_default);
        let (query, keys, values, decays, rates) = (given(0)?, given(1)?, given(2)?, given(4)?, given(5)?);
        let scale = F::of(self.scale.unwrap_or(1.0 / (sizes.key as f64).sqrt()));
        let operands = Operands { query: &query, keys: &keys, values: &values, decays: &decays, rates: &rates, scale };
        let lines = sizes.batch * self.heads;
        let mut results: Vec<F> = memory::zeroed(lines * sizes.steps * self.shared() * sizes.value);
        let last = (self.window.unwrap_or(1) - 1) * lines * sizes.area();
        let present = filled(present, |states: &mut [F]| {
            let (earlier, states) = states.split_at_mut(last);
            earlier.fill(F::default());
            match &past {
                Some(past) => states.copy_from_slice(&past[last..]),
                None if in_place => {}
                None => states.fill(F::default()),
            }
            self.walk(&operands, sizes, [earlier, states], &mut results, cx)
        })?;
        let output = filled(io.alloc(0)?, |output: &mut [F]| {
            self.interleave(&results, sizes, output);
            Ok(())
        })?;
        io.push(output);
        io.push(present);
        Ok(())
    }

    /// All heads, each on one thread. `earlier` are the states of positions before the last one.
    fn walk<F: Number>(
        &self,
        operands: &Operands<'_, F>,
        sizes: Sizes,
        [earlier, states]: [&mut [F]; 2],
        results: &mut [F],
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let (area, width) = (sizes.area(), sizes.steps * self.shared() * sizes.value);
        if area == 0 || width == 0 {
            return Ok(());
        }
        let mut heads: Vec<Head<'_, F>> = memory::with_capacity(sizes.batch * self.heads);
        for (line, (state, out)) in states.chunks_exact_mut(area).zip(results.chunks_exact_mut(width)).enumerate() {
            let (batch, head) = (line / self.heads, line % self.heads);
            heads.push(Head { batch, head, state, earlier: Vec::new(), out });
        }
        // The oldest state is the first of each head's.
        let count = heads.len();
        for (index, state) in earlier.chunks_exact_mut(area).enumerate() {
            heads[index % count].earlier.push(state);
        }
        let outcome = |head: &mut Head<'_, F>| self.walk_head(operands, sizes, head, cx);
        try_each_chunk(cx.parallel, &mut heads, 1, &|_, heads| heads.iter_mut().try_for_each(outcome))
    }

    fn walk_head<F: Number>(
        &self,
        operands: &Operands<'_, F>,
        sizes: Sizes,
        head: &mut Head<'_, F>,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let Sizes { steps, key: size, value: width, .. } = sizes;
        let mut update: Vec<F> = memory::zeroed(width);
        let (key_head, shared) = (head.head / (self.heads / sizes.keys), self.shared());
        for step in 0..steps {
            cx.check_stop()?;
            let place = head.batch * steps + step;
            let line = place * self.heads + head.head;
            let key = &operands.keys[(place * sizes.keys + key_head) * size..][..size];
            let value = &operands.values[line * width..][..width];
            self.retrieve(head.state, key, &operands.decays[line * sizes.decay..][..sizes.decay], &mut update);
            if self.corrects {
                let rate = operands.rates[place * sizes.rates + head.head % sizes.rates];
                update.iter_mut().zip(value).for_each(|(update, value)| *update = rate * (*value - *update));
            } else {
                update.copy_from_slice(value);
            }
            for (row, factor) in head.state.chunks_exact_mut(width).zip(key) {
                row.iter_mut().zip(&update).for_each(|(entry, update)| *entry += *factor * *update);
            }
            let first = head.head * self.queries / self.heads;
            let out = &mut head.out[step * shared * width..][..shared * width];
            for (number, out) in out.chunks_exact_mut(width).enumerate() {
                let query = &operands.query[(place * self.queries + first + number) * size..][..size];
                for (row, factor) in head.state.chunks_exact(width).zip(query) {
                    let factor = operands.scale * *factor;
                    out.iter_mut().zip(row).for_each(|(out, entry)| *out += factor * *entry);
                }
            }
            // The last position's state is where it is.
            let left = steps - 1 - step;
            if let Some(kept) = head.earlier.len().checked_sub(left).filter(|_| left > 0) {
                head.earlier[kept].copy_from_slice(head.state);
            }
        }
        Ok(())
    }

    /// Lets a state decay and, where the state is corrected, reads what it holds for a key.
    fn retrieve<F: Number>(&self, state: &mut [F], key: &[F], decay: &[F], held: &mut [F]) {
        held.fill(F::default());
        if !self.decays && !self.corrects {
            return;
        }
        let all = decay.first().filter(|_| decay.len() == 1).map(|decay| decay.exp());
        for (row, line) in state.chunks_exact_mut(held.len()).enumerate() {
            if self.decays {
                let factor = all.unwrap_or_else(|| decay[row].exp());
                line.iter_mut().for_each(|entry| *entry *= factor);
            }
            if self.corrects {
                held.iter_mut().zip(&*line).for_each(|(held, entry)| *held += key[row] * *entry);
            }
        }
    }

    /// Results of head after head, position after position.
    fn interleave<F: Number>(&self, results: &[F], sizes: Sizes, output: &mut [F]) {
        let width = self.shared() * sizes.value;
        if width == 0 {
            return;
        }
        for (at, line) in output.chunks_exact_mut(width).enumerate() {
            let (place, head) = (at / self.heads, at % self.heads);
            let (batch, step) = (place / sizes.steps, place % sizes.steps);
            line.copy_from_slice(&results[((batch * self.heads + head) * sizes.steps + step) * width..][..width]);
        }
    }
}

#[cfg(test)]
mod tests;
