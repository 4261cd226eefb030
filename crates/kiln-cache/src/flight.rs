//! Single flight: one builder per missing key, and the threads that wait for it.
//!
//! A [`Flight`] is the promise of one thread to build one key. Other threads that want the key wait for it to land. Two
//! things could make them wait for ever, and both are found before waiting: the flight is this thread's own (a builder
//! that asks for its own key), or its owner waits, directly or through further threads, for a flight of this thread.
//! The second needs the graph of waiting threads: every thread waits for at most one flight and every flight has one
//! owner, so the graph is a set of chains, and the search follows one chain. The edge that would close a cycle is
//! always the last one added, and edges are added under one lock, so no deadlock is missed.
//!
//! Nothing here knows keys, tables or bounds.

use std::any::Any;

use hashbrown::HashMap;

use super::shim::{Arc, Condvar, Mutex, Origin, ThreadId, WaitMutex, current, lock, lock_to_wait, wait};

/// A value with its type erased.
pub(super) type Shared = Arc<dyn Any + Send + Sync>;

enum State {
    Building,
    Ready(Shared),
    Failed,
}

/// One key being built by one thread.
pub(super) struct Flight {
    owner: ThreadId,
    /// The process of that thread. A forked child has no such thread, and does not read the fields below.
    origin: Origin,
    state: WaitMutex<State>,
    landed: Condvar,
}

impl Flight {
    /// A flight of the calling thread.
    pub(super) fn new() -> Arc<Flight> {
        let (state, landed) = (WaitMutex::new(State::Building), Condvar::new());
        Arc::new(Flight { owner: current().id(), origin: Origin::here(), state, landed })
    }

    /// Whether it may land: its thread belongs to this process.
    pub(super) fn may_land(&self) -> bool {
        self.origin.is_here()
    }

    /// Wakes the waiting threads, with a value or to try for themselves.
    pub(super) fn land(&self, value: Option<Shared>) {
        *lock_to_wait(&self.state) = value.map_or(State::Failed, State::Ready);
        self.landed.notify_all();
    }

    fn is_building(&self) -> bool {
        matches!(*lock_to_wait(&self.state), State::Building)
    }

    /// The value, or `None` if the build failed.
    fn join(&self) -> Option<Shared> {
        let mut state = lock_to_wait(&self.state);
        loop {
            match &*state {
                State::Building => state = wait(&self.landed, state),
                State::Ready(value) => return Some(Arc::clone(value)),
                State::Failed => return None,
            }
        }
    }
}

/// Waiting would never end: this thread would wait for itself.
pub(super) struct Deadlock;

/// Which thread waits for which flight.
#[derive(Default)]
pub(super) struct Waits(Mutex<HashMap<ThreadId, Arc<Flight>>>);

impl Waits {
    /// Waits for a flight: its value, `None` if it failed, or [`Deadlock`] if this thread would wait for itself.
    pub(super) fn join(&self, flight: &Arc<Flight>) -> Result<Option<Shared>, Deadlock> {
        let me = current().id();
        {
            let mut edges = lock(&self.0);
            let mut next = Some(flight);
            while let Some(ahead) = next {
                if ahead.owner == me && ahead.is_building() {
                    return Err(Deadlock);
                }
                // A flight that has landed delays no other; its waiters have only not woken yet.
                next = edges.get(&ahead.owner).filter(|further| ahead.is_building() && further.is_building());
            }
            edges.insert(me, Arc::clone(flight));
        }
        let joined = flight.join();
        lock(&self.0).remove(&me);
        Ok(joined)
    }
}
