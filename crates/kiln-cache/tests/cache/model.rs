//! The cache against a reference model, operation by operation.
//!
//! With one shard the order of eviction must be that of a textbook LRU. With several shards it must be that order,
//! except among entries that were used between the same two insertions, which the second half states as a law about
//! victims and survivors.

use std::collections::HashMap;

use hashbrown::DefaultHashBuilder;
use kiln_cache::{Cache, Limits, Outcome};
use proptest::prelude::*;

use crate::fixture::Collide;
use crate::lru::{Item, Log, Op, build, follows_the_model};

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
