//! Run states between requests: they hold memos and buffers, within a bound.

use std::time::Instant;

use kiln_run::RunState;

/// The state with which a request begins.
pub(super) struct Popped {
    pub(super) state: RunState,
    /// Bytes of its buffers.
    pub(super) bytes: usize,
    /// Whether no other request has a state.
    pub(super) is_alone: bool,
}

/// Run states between requests.
pub(super) struct Idle {
    /// Each with the bytes of its buffers.
    states: Vec<(RunState, usize)>,
    pub(super) bytes: usize,
    /// The most bytes of all states together.
    pub(super) limit: usize,
    /// The number of the executors' [refusals](kiln_cache::Account::refusals) that `relieve` has seen.
    refusals: u64,
    /// Requests that have a state now.
    running: usize,
    /// A sixteenth of this many run at once, as an exponential mean over requests.
    usual: usize,
    /// When the last request ended, where that was noted.
    ended: Option<Instant>,
}

impl Idle {
    pub(super) fn new(limit: usize) -> Idle {
        Idle { states: Vec::new(), bytes: 0, limit, refusals: 0, running: 0, usual: 0, ended: None }
    }

    /// Drops the memos of all states, which keep executors alive, if the cache had to refuse an executor since the last
    /// call.
    pub(super) fn relieve(&mut self, account: &kiln_cache::Account) {
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

    /// Takes all states out.
    pub(super) fn clear(&mut self) -> Vec<RunState> {
        self.bytes = 0;
        std::mem::take(&mut self.states).into_iter().map(|(state, _)| state).collect()
    }

    pub(super) fn pop(&mut self) -> Popped {
        let (state, bytes) = self.states.pop().unwrap_or_default();
        self.bytes -= bytes;
        self.running += 1;
        Popped { state, bytes, is_alone: self.running == 1 }
    }

    /// Keeps a state of a request that has ended. If its buffers exceed the limit, the caller has released them before.
    pub(super) fn push(&mut self, state: RunState, bytes: usize) {
        self.usual = self.usual - self.usual / 8 + 2 * self.running;
        self.running = self.running.saturating_sub(1);
        self.bytes += bytes;
        self.states.push((state, bytes));
    }

    /// Notes when the last request ended.
    pub(super) fn note_end(&mut self, at: Instant) {
        self.ended = Some(at);
    }

    pub(super) fn ended(&self) -> Option<Instant> {
        self.ended
    }

    pub(super) fn is_busy(&self) -> bool {
        self.running > 0
    }

    /// Has all states give their memory back, and takes out the least recently used states beyond the usual number of
    /// concurrent requests.
    pub(super) fn shed(&mut self) -> Vec<RunState> {
        self.release();
        let beyond = self.states.len().saturating_sub(self.usual.div_ceil(16).max(1));
        self.states.drain(..beyond).map(|(state, _)| state).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_states_stay_as_requests_usually_run_at_once() {
        let mut idle = Idle::new(1 << 20);
        let burst: Vec<Popped> = (0..40).map(|_| idle.pop()).collect();
        assert!(burst[0].is_alone && !burst[1].is_alone && idle.is_busy());
        burst.into_iter().for_each(|popped| idle.push(popped.state, 100));
        assert!(!idle.is_busy());
        for _ in 0..60 {
            let first = idle.pop();
            let second = idle.pop();
            assert_eq!((first.bytes, second.bytes), (100, 100));
            idle.push(first.state, 100);
            idle.push(second.state, 100);
        }
        assert_eq!((idle.bytes, idle.shed().len()), (4000, 38));
        assert_eq!((idle.bytes, idle.shed().len()), (0, 0));
    }
}
