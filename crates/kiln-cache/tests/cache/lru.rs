//! A textbook LRU, and the cache compared with it operation by operation. Generators are elsewhere: tests draw the
//! operations by proptest, fuzzing from bytes.

use std::sync::{Arc, Mutex};

use kiln_cache::{Built, Cache, Key, Limits, Outcome};

use crate::fixture::{Hashing, Refused};

/// A value named by a number; every fifth cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "item", value = Thing)]
pub(crate) struct Item {
    pub name: u32,
}

impl Item {
    /// Sizes spread over 0 to 99 bytes.
    fn bytes(&self) -> usize {
        (self.name as usize * 37) % 100
    }

    fn fails(&self) -> bool {
        self.name % 5 == 4
    }
}

pub(crate) type Log = Arc<Mutex<Vec<u32>>>;

/// Logs its name when it is dropped.
pub(crate) struct Thing {
    name: u32,
    log: Log,
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.log.lock().unwrap().push(self.name);
    }
}

pub(crate) fn build(key: &Item, log: &Log) -> Result<Built<Thing>, Refused> {
    if key.fails() {
        return Err(Refused(key.name));
    }
    Ok(Built { value: Thing { name: key.name, log: Arc::clone(log) }, bytes: key.bytes(), from_record: false })
}

/// An operation on the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Create(u32),
    Get(u32),
    Clear,
}

/// A textbook LRU: the most recently used entry is last.
struct Model {
    limits: Limits,
    entries: Vec<Item>,
    dropped: Vec<u32>,
}

impl Model {
    fn touch(&mut self, item: &Item) -> bool {
        let Some(at) = self.entries.iter().position(|known| known == item) else { return false };
        let item = self.entries.remove(at);
        self.entries.push(item);
        true
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(Item::bytes).sum()
    }

    fn insert(&mut self, item: Item) {
        if self.limits.entries == 0 || item.bytes() > self.limits.bytes {
            self.dropped.push(item.name);
            return;
        }
        while self.entries.len() == self.limits.entries || self.bytes() + item.bytes() > self.limits.bytes {
            self.dropped.push(self.entries.remove(0).name);
        }
        self.entries.push(item);
    }
}

/// Applies all operations to both, and compares what they hold, how they end, and what they drop.
pub(crate) fn follows_the_model<S: Hashing>(limits: Limits, ops: &[Op]) {
    let cache = Cache::with_shards(limits, S::default(), 1);
    let log = Log::default();
    let mut model = Model { limits, entries: Vec::new(), dropped: Vec::new() };
    for op in ops {
        match *op {
            Op::Create(name) => {
                let item = Item { name };
                let outcome = cache.get_or_create(&item, &log, build).map(|(_, outcome)| outcome);
                if model.touch(&item) {
                    assert_eq!(outcome.unwrap(), Outcome::Hit);
                } else if item.fails() {
                    outcome.unwrap_err();
                } else {
                    assert_eq!(outcome.unwrap(), Outcome::Miss);
                    model.insert(item);
                }
            }
            Op::Get(name) => assert_eq!(cache.get(&Item { name }).is_some(), model.touch(&Item { name })),
            Op::Clear => {
                cache.clear();
                model.dropped.extend(model.entries.drain(..).map(|item| item.name));
            }
        }
        assert_eq!((cache.len(), cache.bytes()), (model.entries.len(), model.bytes()));
        assert_eq!(*log.lock().unwrap(), model.dropped, "the same victims in the same order");
        log.lock().unwrap().clear();
        model.dropped.clear();
    }
}
