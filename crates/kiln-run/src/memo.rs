//! The last few shapes that a node was prepared for, where no plan remembers them, so that alternating shapes take no
//! look-up in the cache.

use kiln_cache::Charge;
use kiln_tensor::{Tensor, TensorSpec};
use smallvec::SmallVec;

use super::inference::Inference;
use super::node::{Node, NodeError, PrepareCx, Prepared, Specs, Standings};

/// Shapes that a node remembers.
const MOST: usize = 6;

/// Bytes of contents that a memo may hold; with larger contents, a node keeps the last memo only.
const MOST_CONTENTS: usize = 4 << 10;

/// The shapes of a node's inputs and what the node was prepared with.
pub(super) struct Memo {
    pub(super) inputs: SmallVec<[Option<TensorSpec>; 4]>,
    /// Contents of the value inputs, by input number.
    contents: SmallVec<[(usize, Tensor); 2]>,
    pub(super) specs: Specs,
    pub(super) prepared: Prepared,
    /// The standings that say whether the executors have been replaced.
    pub(super) standings: Standings,
    /// The charge for its own memory; executors are charged separately as long as the memo keeps them.
    _charge: Charge,
    /// The clock at its last use.
    used: u32,
}

/// The last few memos of a node.
#[derive(Default)]
pub(super) struct Memos {
    memos: Vec<Memo>,
    /// The index of the last used memo.
    last: usize,
    /// Counts uses.
    clock: u32,
}

impl Memos {
    /// The memo of these inputs, if there is one.
    pub(super) fn find(&mut self, inputs: &[Option<&Tensor>]) -> Option<usize> {
        let last = self.last;
        let others = (0..self.memos.len()).filter(|&at| at != last);
        let found = std::iter::once(last)
            .chain(others)
            .find(|&at| self.memos.get(at).is_some_and(|memo| memo.stands_for(inputs)))?;
        self.use_now(found);
        Some(found)
    }

    /// Prepares the node for these inputs and keeps the memo in place of the least recently used one.
    pub(super) fn prepare(
        &mut self,
        inference: &Inference,
        node: &dyn Node,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
    ) -> Result<usize, NodeError> {
        let memo = Memo::prepare(inference, node, cx, inputs)?;
        self.memos.retain(Memo::is_current);
        if cx.account().is_over() {
            // The executors that the other memos keep alive exceed the cache's bound.
            self.memos.clear();
        }
        if memo.is_large() {
            self.memos.retain(|memo| !memo.is_large());
        }
        let at = match self.memos.len() {
            MOST.. => (0..MOST).min_by_key(|&at| self.memos[at].used).unwrap_or(0),
            free => free,
        };
        if at == self.memos.len() {
            self.memos.push(memo)
        } else {
            self.memos[at] = memo
        }
        self.use_now(at);
        Ok(at)
    }

    /// A memo that was just found or made.
    pub(super) fn get(&self, at: usize) -> &Memo {
        &self.memos[at]
    }

    fn use_now(&mut self, at: usize) {
        self.last = at;
        // After 2^32 uses the order is wrong for a while, which costs a look-up.
        self.clock = self.clock.wrapping_add(1);
        self.memos[at].used = self.clock;
    }
}

impl Memo {
    /// Whether these inputs have the types, shapes and contents of the memo.
    fn stands_for(&self, inputs: &[Option<&Tensor>]) -> bool {
        self.is_current()
            && self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(|(old, new)| old.as_ref() == new.map(Tensor::spec))
            && self.contents.iter().all(|(input, old)| inputs[*input].is_some_and(|new| new.same(old)))
    }

    /// Whether none of its executors has been replaced.
    fn is_current(&self) -> bool {
        !self.standings.iter().any(|standing| standing.is_replaced())
    }

    /// Whether its contents are larger than a memo may hold.
    fn is_large(&self) -> bool {
        self.contents.iter().map(|(_, tensor)| tensor.byte_len()).sum::<usize>() > MOST_CONTENTS
    }

    fn prepare(
        inference: &Inference,
        node: &dyn Node,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
    ) -> Result<Memo, NodeError> {
        let specs = inference.specs(node, inputs)?;
        let prepared = cx.prepare(node, inputs, &specs)?;
        let by_value = node.value_inputs();
        let contents: SmallVec<[(usize, Tensor); 2]> = inputs
            .iter()
            .enumerate()
            .filter(|(input, _)| *input < 64 && by_value >> input & 1 == 1)
            .filter_map(|(input, tensor)| tensor.map(|tensor| (input, tensor.clone())))
            .collect();
        let inputs = inputs.iter().map(|tensor| tensor.map(|tensor| tensor.spec().clone())).collect();
        let held = contents.iter().map(|(_, tensor)| tensor.byte_len()).sum::<usize>();
        let _charge = cx.account().charge(size_of::<Memo>() + held + prepared.bytes());
        Ok(Memo { inputs, contents, specs, prepared, standings: cx.take_standings(), _charge, used: 0 })
    }
}
