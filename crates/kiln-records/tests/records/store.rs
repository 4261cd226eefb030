//! Which records a store keeps, and which of two records wins.

use kiln_key::{Key, Mutate};
use kiln_records::{CacheMode, Evidence, EvidenceKind, Recorded, Store, decode, encode};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::fixture::{Problem, Tile, fingerprint, folder, measured, open, problem, tile};

#[test]
fn a_choice_is_found_again_by_its_whole_key() {
    let store = Store::in_memory();
    assert_eq!(store.lookup(&problem(1)), None);
    store.insert(&problem(1), &tile(7), Evidence::model());
    assert_eq!(store.lookup(&problem(1)), Some(tile(7)));
    assert_eq!(store.lookup(&Problem { transposed: true, ..problem(1) }), None);
    let stats = store.stats();
    assert_eq!((stats.records, stats.lookups, stats.hits), (1, 3, 1));
}

#[test]
fn better_evidence_wins_whenever_it_comes() {
    let model = Evidence { kind: EvidenceKind::Model, nanos: 0, samples: 0, created: 9, against: 0 };
    let table = [
        (model, measured(1), 2, "a measurement beats a model"),
        (measured(1), model, 1, "and is not beaten by a later model"),
        (measured(5), measured(3), 1, "more samples beat fewer"),
        (measured(3), measured(5), 2, "whatever the order"),
        (measured(3), measured(3), 2, "equal evidence for another choice: the one of now"),
    ];
    for (first, second, winner, why) in table {
        let store = Store::in_memory();
        store.insert(&problem(0), &tile(1), first);
        store.insert(&problem(0), &tile(2), second);
        assert_eq!(store.lookup(&problem(0)), Some(tile(winner)), "{why}");
    }
}

#[test]
fn a_store_that_is_off_keeps_nothing() {
    let folder = folder();
    for store in [Store::off(), Store::open(folder.path(), &fingerprint(), CacheMode::Off)] {
        store.insert(&problem(1), &tile(1), measured(1));
        assert_eq!((store.lookup(&problem(1)), store.stats().records), (None, 0));
        assert_eq!(store.save().unwrap().path, None);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_rejected_choice_is_gone_and_counted() {
    let store = Store::in_memory();
    store.insert(&problem(1), &tile(1), measured(9));
    store.reject(&problem(1));
    assert_eq!((store.lookup(&problem(1)), store.stats().rejected_semantic), (None, 1));
    store.insert(&problem(1), &tile(2), Evidence::model());
    assert_eq!(store.lookup(&problem(1)), Some(tile(2)), "weaker evidence for another choice is welcome now");
}

#[test]
fn every_known_key_of_a_family_can_be_listed() {
    let store = Store::in_memory();
    for number in 0..20 {
        store.insert(&problem(number), &tile(0), measured(1));
    }
    store.insert(&Later { rows: 3 }, &1, measured(1));
    let mut rows: Vec<u32> = store.keys::<Problem>().iter().map(|key| key.rows).collect();
    rows.sort_unstable();
    assert_eq!(rows, (0..20).collect::<Vec<_>>());
    let families: Vec<String> = store.list().into_iter().map(|record| record.family).collect();
    assert_eq!(families.iter().filter(|family| *family == "problem").count(), 20);
    assert!(families.is_sorted());
}

/// A family as an older build knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "changing", value = ())]
pub(crate) struct Earlier {
    pub rows: u32,
}

/// The same family after its choices have changed their meaning, but not their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "changing", value = ())]
pub(crate) struct Later {
    pub rows: u32,
}

impl Recorded for Earlier {
    const REVISION: u32 = 1;
    type Choice = u32;
}

impl Recorded for Later {
    const REVISION: u32 = 2;
    type Choice = u32;
}

#[test]
fn a_record_of_another_revision_is_a_miss_with_a_counter() {
    let store = Store::in_memory();
    store.insert(&Earlier { rows: 1 }, &8, measured(100));
    assert_eq!(store.lookup(&Later { rows: 1 }), None);
    assert_eq!((store.stats().rejected_version, store.keys::<Later>().len()), (1, 0));
    store.insert(&Later { rows: 1 }, &9, Evidence::model());
    assert_eq!(store.lookup(&Later { rows: 1 }), Some(9), "a newer meaning replaces the older, whatever its evidence");
    store.insert(&Earlier { rows: 1 }, &8, measured(100));
    assert_eq!(store.lookup(&Later { rows: 1 }), Some(9), "and not the other way round");
}

/// The same family and revision as [`Later`], but its choice has other bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "changing", value = ())]
pub(crate) struct Mistaken {
    pub rows: u32,
}

impl Recorded for Mistaken {
    const REVISION: u32 = 2;
    type Choice = bool;
}

#[test]
fn a_choice_that_cannot_be_read_is_rejected() {
    let store = Store::in_memory();
    store.insert(&Later { rows: 1 }, &77, measured(1));
    assert_eq!(store.lookup(&Mistaken { rows: 1 }), None);
    assert_eq!((store.stats().rejected_semantic, store.stats().records), (1, 0));
}

/// A key that can be too long for a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "long", value = ())]
pub(crate) struct Long {
    pub text: String,
}

impl Recorded for Long {
    const REVISION: u32 = 1;
    type Choice = ();
}

#[test]
fn what_is_longer_than_a_record_is_not_kept_and_counted() {
    let store = Store::in_memory();
    let key = |length| Long { text: "x".repeat(length) };
    for (length, kept) in [(3900, true), (4050, false), (5000, false)] {
        store.insert(&key(length), &(), measured(1));
        assert_eq!(store.lookup(&key(length)).is_some(), kept, "{length}");
    }
    assert_eq!((store.stats().records, store.stats().rejected_length), (1, 2));
}

/// Choices of every shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Any {
    Nothing,
    One(u64),
    Many { sizes: Vec<u16>, split: Option<(u8, bool)> },
}

fn any_choice() -> impl Strategy<Value = Any> {
    prop_oneof![
        Just(Any::Nothing),
        any::<u64>().prop_map(Any::One),
        (proptest::collection::vec(any::<u16>(), 0..20), any::<Option<(u8, bool)>>())
            .prop_map(|(sizes, split)| Any::Many { sizes, split }),
    ]
}

proptest! {
    #[test]
    fn choices_come_back_from_their_bytes(choice in any_choice()) {
        let bytes = encode(&choice).unwrap();
        prop_assert_eq!(decode::<Any>(&bytes).unwrap(), choice);
        prop_assert!(decode::<Any>(&[&bytes[..], &[0]].concat()).is_err(), "all bytes count");
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(choice) = decode::<Any>(&bytes) {
            prop_assert_eq!(encode(&choice).unwrap(), bytes, "a value has one encoding");
        }
    }
}

proptest! {
    // Each case syncs a file to the disk.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_saved_is_what_is_loaded(
        steps in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..20), 0..20),
        rows in any::<u8>(),
    ) {
        let folder = folder();
        let keys: Vec<Problem> = steps.iter().map(|steps| kiln_key::laws::walk(steps)).collect();
        let store = open(folder.path());
        for key in &keys {
            store.insert(key, &Tile { rows, ..tile(1) }, measured(1));
        }
        store.save().unwrap();
        let again = open(folder.path());
        for key in &keys {
            prop_assert_eq!(again.lookup(key), Some(Tile { rows, ..tile(1) }));
        }
        prop_assert_eq!(again.list(), store.list());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
struct ForgetsInRecord {
    kept: u32,
    #[serde(skip)]
    forgotten: u32,
}

#[test]
fn a_field_that_is_not_recorded_is_found() {
    let panic = std::panic::catch_unwind(kiln_records::laws::check::<ForgetsInRecord>).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("give the key back"));
}
