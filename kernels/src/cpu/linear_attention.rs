//! Linear attention: states of heads that decay, are corrected by what they hold for a key, take in each position's key
//! and value, and answer its queries.
//!
//! [`LinearAttention`] is the driver, [`emit`] has the instructions. Heads are cut into strips of columns, and each
//! strip walks all positions of its sequence, some at a time, in turns with the other strips of the head. [`plain`] is
//! the same without emitted code, for any type; a position of it is
//! [`reference::linear_attention`](crate::reference::linear_attention).

pub mod emit;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

pub use crate::problem::linear_attention::{Decay, StateHeads};
pub use crate::reference::linear_attention::Real;
pub use emit::{StateArgs, StateCode};
use smallvec::SmallVec;

use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference::linear_attention::{Position, step};

pub(crate) const FAMILY: &str = "linear attention";

/// What the positions of a run give to the heads, sequence after sequence.
#[derive(Clone, Copy, Debug)]
pub struct Positions<'a, F> {
    /// Sequences.
    pub batch: usize,
    /// Positions of a sequence.
    pub steps: usize,
    /// Queries of each position, head after head.
    pub queries: &'a [F],
    /// Its keys.
    pub keys: &'a [F],
    /// Its values.
    pub values: &'a [F],
    /// Logarithms of the factors that its states decay by; empty where they do not.
    pub decays: &'a [F],
    /// Rates of its corrections; empty where there are none.
    pub rates: &'a [F],
    /// Whether each head has a rate of its own, instead of one for all.
    pub rate_each: bool,
    /// Factor of all answers.
    pub scale: F,
}

/// What a run writes.
#[derive(Debug)]
pub struct Written<'a, F> {
    /// States of all sequences, head after head: of the position before the first, then of the last.
    pub states: &'a mut [F],
    /// The states after each of the positions before the last, the earliest first; as many as fit. States of positions
    /// before the first are zero.
    pub earlier: &'a mut [F],
    /// Answers of each position, head after head.
    pub answers: &'a mut [F],
}

/// Positions between two looks at whether the request goes on, and positions whose parts of vectors are copied at once.
const PIECE: usize = 64;

/// Positions from which columns are walked in a copy: in the state itself they lie as far apart as rows are long, which
/// is a power of two for most heads, so that they take each other's places in L1.
const COPIED: usize = 3;

/// Elements of a cache line.
const LINE: usize = 16;

/// Linear attention ready to run.
#[derive(Debug)]
pub struct LinearAttention {
    heads: StateHeads,
    key: StateCode,
    code: Option<Arc<Code>>,
}

impl LinearAttention {
    /// Prepares heads for any number of sequences and positions.
    pub fn new(heads: StateHeads, isa: Isa, source: &dyn CodeSource) -> Result<LinearAttention> {
        supported(&heads)?;
        let key = StateCode { isa, decay: heads.decay, corrects: heads.corrects };
        let code = if isa.is_jit() { Some(source.code(&CodeKey::State(key))?) } else { None };
        Ok(LinearAttention { heads, key, code })
    }

    /// Walks all positions, in at most `tasks` tasks.
    pub fn run(
        &self,
        positions: Positions<'_, f32>,
        written: Written<'_, f32>,
        tasks: usize,
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let Some(code) = &self.code else { return plain(&self.heads, positions, written, tasks, parallel) };
        let Some(lines) = check(&self.heads, &positions, &written)? else { return nothing(written) };
        written.earlier.fill(0.0);
        let given = Given::new().read("queries", positions.queries).read("keys", positions.keys);
        let given = given.read("values", positions.values).read("decays", positions.decays);
        let given = given.read("rates", positions.rates).write("answers", written.answers);
        let given = given.write("state", written.states);
        let width = usize::from(emit::VECTORS) * self.key.isa.lanes();
        let walk = Walk {
            heads: &self.heads,
            key: &self.key,
            code,
            width,
            positions,
            window: written.earlier.len() / (lines * self.heads.area()),
            states: Disjoint::new(written.states),
            earlier: Disjoint::new(written.earlier),
            answers: Disjoint::new(written.answers),
            given,
        };
        let strips = self.heads.value().div_ceil(width);
        let units = lines * strips;
        let tasks = tasks.clamp(1, units);
        parallel.run(tasks, &|task| {
            let mut room = Room::default();
            for side in sides(part(units, tasks, task), strips) {
                if !walk.head(side.line, side.strips, &mut room, parallel) {
                    return;
                }
            }
        });
        Ok(())
    }
}

/// Strips of a head.
struct Side {
    line: usize,
    strips: Range<usize>,
}

/// A range of the strips of all heads, head by head; each has `strips` of them.
fn sides(range: Range<usize>, strips: usize) -> impl Iterator<Item = Side> {
    (range.start / strips..range.end.div_ceil(strips)).map(move |line| {
        let first = line * strips;
        Side { line, strips: range.start.max(first) - first..range.end.min(first + strips) - first }
    })
}

/// Buffers of a task, which grow as they are needed.
#[derive(Default)]
struct Room {
    /// Copies of the columns of strips.
    state: Vec<f32>,
    piece: PieceRoom,
}

/// Buffers of some positions.
#[derive(Default)]
struct PieceRoom {
    /// Factors of the rows of a state.
    factors: Vec<f32>,
    /// Values and answers of a strip that has fewer columns than vectors have.
    values: Vec<f32>,
    answers: Vec<f32>,
}

/// A buffer of at least that many elements.
fn grown(buffer: &mut Vec<f32>, elements: usize) -> &mut [f32] {
    if buffer.len() < elements {
        *buffer = memory::zeroed(elements);
    }
    &mut buffer[..elements]
}

/// A run by emitted code.
struct Walk<'a> {
    heads: &'a StateHeads,
    key: &'a StateCode,
    code: &'a Code,
    /// Columns of a whole strip.
    width: usize,
    positions: Positions<'a, f32>,
    /// Positions before the last whose states are kept.
    window: usize,
    states: Disjoint<'a, f32>,
    earlier: Disjoint<'a, f32>,
    answers: Disjoint<'a, f32>,
    given: Given,
}

/// Where columns are, and the elements from row to row.
#[derive(Clone, Copy)]
struct Columns {
    at: *mut f32,
    stride: usize,
}

/// Some columns of a head's state.
struct Strip {
    sequence: usize,
    head: usize,
    first: usize,
    columns: usize,
    /// Their place in the states.
    own: Columns,
    /// Where they are walked: there, or in a copy.
    walked: Columns,
    is_copied: bool,
}

impl Columns {
    /// Copies rows of this many columns.
    ///
    /// # Safety
    ///
    /// Both places have the columns, and nothing else accesses those of `to` meanwhile.
    unsafe fn copy(self, to: Columns, rows: usize, columns: usize) {
        for row in 0..rows {
            let (from, to) = (self.at.wrapping_add(row * self.stride), to.at.wrapping_add(row * to.stride));
            // SAFETY: the caller vouches for both.
            unsafe { std::ptr::copy_nonoverlapping(from, to, columns) };
        }
    }
}

impl Walk<'_> {
    /// Walks some strips of a head, for all positions of its sequence. Returns whether the request goes on.
    fn head(&self, line: usize, strips: Range<usize>, room: &mut Room, parallel: &dyn Parallel) -> bool {
        let (heads, steps) = (self.heads, self.positions.steps);
        let (rows, stride) = (heads.key(), heads.value());
        let (sequence, head) = (line / heads.heads(), line % heads.heads());
        let copies = grown(&mut room.state, strips.len() * rows * self.width + LINE);
        // A vector on two cache lines is stored in several times the time of another.
        let offset = copies.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        let copies = &mut copies[offset..];
        let copies = copies.chunks_exact_mut(rows * self.width).map(|copy| copy.as_mut_ptr());
        let strips = strips.zip(copies).map(|(strip, copy)| {
            let first = strip * self.width;
            let columns = self.width.min(stride - first);
            let own = Columns { at: self.states.at(line * heads.area() + first), stride };
            let is_copied = columns < self.width || steps >= COPIED;
            let walked = if is_copied { Columns { at: copy, stride: self.width } } else { own };
            Strip { sequence, head, first, columns, own, walked, is_copied }
        });
        let strips: SmallVec<[Strip; 8]> = strips.collect();
        for strip in strips.iter().filter(|strip| strip.is_copied) {
            // SAFETY: these columns of the states are this task's alone, and the copy has room for them.
            unsafe { strip.own.copy(strip.walked, rows, strip.columns) };
        }
        let mut done = 0;
        while done < steps {
            if parallel.is_stopped() {
                return false;
            }
            let left = steps - done;
            let count = if left > self.window { (left - self.window).min(PIECE) } else { 1 };
            // The keys and queries of these positions are in L2 for all strips but the first.
            strips.iter().for_each(|strip| self.piece(strip, done..done + count, &mut room.piece));
            done += count;
            let left = steps - done;
            if (1..=self.window).contains(&left) {
                let lines = self.positions.batch * heads.heads();
                let place = ((self.window - left) * lines + line) * heads.area();
                for strip in &strips {
                    let kept = Columns { at: self.earlier.at(place + strip.first), stride };
                    // SAFETY: as above, for the same columns of the states that are kept.
                    unsafe { strip.walked.copy(kept, rows, strip.columns) };
                }
            }
        }
        for strip in strips.iter().filter(|strip| strip.is_copied) {
            // SAFETY: as above.
            unsafe { strip.walked.copy(strip.own, rows, strip.columns) };
        }
        true
    }

    /// Walks some positions.
    fn piece(&self, strip: &Strip, steps: Range<usize>, room: &mut PieceRoom) {
        let (heads, positions) = (self.heads, &self.positions);
        let (rows, value, shared, count) = (heads.key(), heads.value(), heads.shared(), steps.len());
        let &Strip { sequence, head, first, columns, walked: state, .. } = strip;
        let place = sequence * positions.steps + steps.start;
        let key_head = head / (heads.heads() / heads.keys());
        let query_head = head * heads.queries() / heads.heads();
        let own = &positions.values[(place * heads.heads() + head) * value + first..];
        let answers = self.answers.at(place * heads.results() + head * shared * value + first);
        let (decays, decay_step) = match heads.decay {
            Decay::None => (positions.decays, 0),
            Decay::Head => (&positions.decays[place * heads.heads() + head..], heads.heads()),
            Decay::Row => (&positions.decays[(place * heads.heads() + head) * rows..], heads.heads() * rows),
        };
        let (rates, rate_step) = match (heads.corrects, positions.rate_each) {
            (false, _) => (positions.rates, 0),
            (true, false) => (&positions.rates[place..], 1),
            (true, true) => (&positions.rates[place * heads.heads() + head..], heads.heads()),
        };
        let factors = grown(&mut room.factors, if heads.decay == Decay::Row { rows } else { 0 });
        let mut given = self.given.clone().write("factors", factors);
        given = given.with("state", state.at.cast(), ((rows - 1) * state.stride + self.width) * 4, true);
        let mut args = StateArgs {
            state: state.at,
            stride: state.stride * 4,
            keys: positions.keys[(place * heads.keys() + key_head) * rows..].as_ptr(),
            key_step: heads.keys() * rows * 4,
            queries: positions.queries[(place * heads.queries() + query_head) * rows..].as_ptr(),
            query_step: heads.queries() * rows * 4,
            values: own.as_ptr(),
            value_step: heads.heads() * value * 4,
            decays: decays.as_ptr(),
            decay_step: decay_step * 4,
            rates: rates.as_ptr(),
            rate_step: rate_step * 4,
            out: answers,
            out_step: heads.results() * 4,
            out_next: value * 4,
            factors: factors.as_mut_ptr(),
            steps: count,
            rows,
            shared,
            scale: positions.scale,
        };
        let is_whole = columns == self.width;
        if !is_whole {
            let values = grown(&mut room.values, count * self.width);
            for (to, from) in values.chunks_exact_mut(self.width).zip(own.chunks(heads.heads() * value)) {
                to[..columns].copy_from_slice(&from[..columns]);
            }
            let answers = grown(&mut room.answers, count * shared * self.width);
            given = given.read("values", values).write("answers", answers);
            (args.values, args.value_step) = (values.as_ptr(), self.width * 4);
            (args.out, args.out_next) = (answers.as_mut_ptr(), self.width * 4);
            args.out_step = shared * self.width * 4;
        }
        // SAFETY: `check` found all operands as long as the positions need; the state, the factors and the answers are
        // this task's alone. The code takes `StateArgs`.
        unsafe { self.code.call(&args, self.key, &given) };
        if !is_whole {
            for (answer, from) in room.answers.chunks_exact(self.width).take(count * shared).enumerate() {
                let to = answers.wrapping_add(answer / shared * heads.results() + answer % shared * value);
                // SAFETY: these columns of the answers are this task's alone, and `check` found them.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, columns) };
            }
        }
    }
}

/// Linear attention of any type, position by position, in at most `tasks` tasks. The oracle is the same function.
pub fn plain<F: Real>(
    heads: &StateHeads,
    positions: Positions<'_, F>,
    written: Written<'_, F>,
    tasks: usize,
    parallel: &dyn Parallel,
) -> Result<()> {
    supported(heads)?;
    let Some(lines) = check(heads, &positions, &written)? else { return nothing(written) };
    written.earlier.fill(F::default());
    let (rows, value, shared, area) = (heads.key(), heads.value(), heads.shared(), heads.area());
    let Positions { steps, queries, keys, values, decays, rates, rate_each, scale, .. } = positions;
    let window = written.earlier.len() / (lines * area);
    let [states, earlier, answers] =
        [written.states, written.earlier, written.answers].map(|written| Disjoint::new(written));
    let each_decays = heads.decays() / heads.heads();
    let tasks = tasks.clamp(1, lines);
    parallel.run(tasks, &|task| {
        for line in part(lines, tasks, task) {
            let (sequence, head) = (line / heads.heads(), line % heads.heads());
            let (key_head, query_head) =
                (head / (heads.heads() / heads.keys()), head * heads.queries() / heads.heads());
            // SAFETY: each head of a sequence has one task.
            let state = unsafe { states.part(line * area..(line + 1) * area) };
            for at in 0..steps {
                if parallel.is_stopped() {
                    return;
                }
                let place = sequence * steps + at;
                let own = place * heads.heads() + head;
                let position = Position {
                    key: &keys[(place * heads.keys() + key_head) * rows..][..rows],
                    value: &values[own * value..][..value],
                    queries: &queries[(place * heads.queries() + query_head) * rows..][..shared * rows],
                    decays: &decays[own * each_decays..][..each_decays],
                    rate: heads.corrects.then(|| rates[if rate_each { own } else { place }]),
                    scale,
                };
                let first = place * heads.results() + head * shared * value;
                // SAFETY: as above, for the head's answers.
                step(state, &position, unsafe { answers.part(first..first + shared * value) });
                let left = steps - 1 - at;
                if (1..=window).contains(&left) {
                    let first = ((window - left) * lines + line) * area;
                    // SAFETY: as above, for the states that are kept.
                    unsafe { earlier.part(first..first + area) }.copy_from_slice(state);
                }
            }
        }
    });
    Ok(())
}

/// Refuses heads that do not share each other evenly, or whose states no memory holds.
fn supported(heads: &StateHeads) -> Result<()> {
    let reason = || KernelError::Unsupported { family: FAMILY, reason: format!("{heads:?}") };
    heads.elements().map(|_| ()).ok_or_else(reason)
}

/// The results of a run that has nothing to walk.
fn nothing<F: Real>(written: Written<'_, F>) -> Result<()> {
    written.earlier.fill(F::default());
    written.answers.fill(F::default());
    Ok(())
}

/// Checks the lengths of all operands. Returns the heads of all sequences; `None` where there is nothing to walk.
fn check<F: Real>(heads: &StateHeads, positions: &Positions<'_, F>, written: &Written<'_, F>) -> Result<Option<usize>> {
    let Positions { batch, steps, queries, keys, values, decays, rates, rate_each, .. } = *positions;
    let product = |sizes: &[usize]| sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    let each = |size: usize| product(&[batch, steps, size]).unwrap_or(usize::MAX);
    let each_rates = if rate_each { heads.heads() } else { 1 };
    let all = product(&[batch, heads.heads(), heads.area()]).unwrap_or(usize::MAX);
    let bounds = [
        ("queries", queries.len(), each(heads.queries() * heads.key())),
        ("keys", keys.len(), each(heads.keys() * heads.key())),
        ("values", values.len(), each(heads.heads() * heads.value())),
        ("decays", decays.len(), each(heads.decays())),
        ("rates", rates.len(), if heads.corrects { each(each_rates) } else { 0 }),
        ("states", written.states.len(), all),
        ("earlier states", written.earlier.len(), written.earlier.len().next_multiple_of(all.max(1))),
        ("answers", written.answers.len(), each(heads.results())),
    ];
    for (operand, have, need) in bounds {
        if have < need {
            return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
        }
    }
    Ok((all > 0 && steps > 0).then_some(batch * heads.heads()))
}
