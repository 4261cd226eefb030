//! Run states between requests: they hold memos and buffers, within a bound.

use crate::cache;
use crate::graph::RunState;

/// Run states between requests.
pub(super) struct Idle {
    /// Each with the bytes of its buffers.
    states: Vec<(RunState, usize)>,
    pub(super) bytes: usize,
    /// Most bytes of all together.
    pub(super) limit: usize,
    /// The number of the executors' [refusals](cache::Account::refusals) that `relieve` has seen.
    refusals: u64,
}

impl Idle {
    pub(super) fn new(limit: usize) -> Idle {
        Idle { states: Vec::new(), bytes: 0, limit, refusals: 0 }
    }

    /// Drops the memos of all states, which keep executors alive, if the cache had to refuse an executor since the last
    /// call.
    pub(super) fn relieve(&mut self, account: &cache::Account) {
        let refusals = account.refusals();
        if self.refusals != refusals && account.is_over() {
            self.refusals = refusals;
            self.states.iter_mut().for_each(|(state, _)| state.forget());
        }
    }

    /// Has all states give their memory back.
    pub(super) fn release(&mut self) {
        self.bytes = 0;
        for (state, bytes) in &mut self.states {
            state.release();
            *bytes = 0;
        }
    }

    pub(super) fn pop(&mut self) -> RunState {
        let (state, bytes) = self.states.pop().unwrap_or_default();
        self.bytes -= bytes;
        state
    }

    /// Keeps a state. If its buffers exceed the limit, the caller has released them before.
    pub(super) fn push(&mut self, state: RunState, bytes: usize) {
        self.bytes += bytes;
        self.states.push((state, bytes));
    }
}
