//! The cache against a reference model, operation by operation.
//!
//! With one shard the order of eviction must be that of a textbook LRU. With several it must be so up to entries that
//! were used between the same two insertions, which the second half states as a law about victims and survivors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hashbrown::DefaultHashBuilder;
use kiln::cache::{Built, Cache, Key, Limits, Outcome};
use proptest::prelude::*;

use crate::fixture::{Collide, Hashing, Refused};

kiln::key! {
    /// A value named by a number; every fifth cannot be built.
    pub(crate) struct Item {
        pub name: u32,
    }
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

type Log = Arc<Mutex<Vec<u32>>>;

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

impl Key for Item {
    type Value = Thing;
    const FAMILY: &'static str = "item";
}

fn build(key: &Item, log: &Log) -> Result<Built<Thing>, Refused> {
    if key.fails() {
        return Err(Refused(key.name));
    }
    Ok(Built { value: Thing { name: key.name, log: Arc::clone(log) }, bytes: key.bytes(), from_record: false })
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Create(u32),
    Get(u32),
    Clear,
}

/// A textbook LRU: most recently used last.
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

fn follows_the_model<S: Hashing>(limits: Limits, ops: &[Op]) {
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

fn ops(keys: u32, length: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        200 => (0..keys).prop_map(Op::Create),
        40 => (0..keys).prop_map(Op::Get),
        1 => Just(Op::Clear),
    ];
    proptest::collection::vec(op, 0..length)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn small_capacities_follow_the_model(
        entries in prop_oneof![Just(0_usize), Just(1), Just(2), Just(7)],
        bytes in prop_oneof![Just(0_usize), 50..400_usize, Just(usize::MAX)],
        ops in ops(14, 300),
    ) {
        let limits = Limits { entries, bytes };
        follows_the_model::<DefaultHashBuilder>(limits, &ops);
        follows_the_model::<Collide<0>>(limits, &ops);
        follows_the_model::<Collide<1>>(limits, &ops);
    }

    #[test]
    fn victims_of_many_shards_are_never_younger_than_survivors(ops in ops(600, 2000), entries in 100..300_usize) {
        let cache = Cache::with_shards(Limits { entries, bytes: usize::MAX }, DefaultHashBuilder::default(), 8);
        let log = Log::default();
        // When each stored key was last used, counted in insertions.
        let (mut used, mut clock) = (HashMap::new(), 0_u32);
        for op in ops {
            let Op::Create(name) = op else { continue };
            match cache.get_or_create(&Item { name }, &log, build).map(|(_, outcome)| outcome) {
                Ok(Outcome::Hit) => prop_assert!(used.insert(name, clock).is_some()),
                Ok(_) => {
                    for victim in log.lock().unwrap().drain(..) {
                        let stamp = used.remove(&victim).unwrap();
                        prop_assert!(used.values().all(|other| stamp <= *other));
                    }
                    clock += 1;
                    prop_assert!(used.insert(name, clock).is_none());
                }
                Err(_) => prop_assert!(name % 5 == 4),
            }
            prop_assert_eq!(cache.len(), used.len());
            prop_assert!(cache.len() <= entries);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn a_large_capacity_follows_the_model(ops in ops(2000, 6000), bytes in prop_oneof![Just(usize::MAX), Just(40_000)]) {
        follows_the_model::<DefaultHashBuilder>(Limits { entries: 1024, bytes }, &ops);
    }

    #[test]
    fn a_large_capacity_follows_the_model_though_all_keys_collide(ops in ops(2000, 3000)) {
        follows_the_model::<Collide<0>>(Limits { entries: 1024, bytes: usize::MAX }, &ops);
    }
}
