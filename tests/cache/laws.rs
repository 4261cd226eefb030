//! The laws of keys find a key that has rotted, and `key!` and `mutate!` see every field.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::panic::catch_unwind;

use kiln::cache::{F32Bits, Mutate};
use kiln::record::laws::assert_key_laws;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use smallvec::SmallVec;

use crate::fixture::{Cube, Square};

kiln::key_laws! {
    squares_obey: Square,
    cubes_obey: Cube,
    everything_obeys: Everything,
    keys_without_fields_obey: Nothing,
}

kiln::key! {
    /// A field of every kind that keys have.
    pub(crate) struct Everything {
        pub(crate) byte: u8,
        pub(crate) short: u16,
        pub(crate) word: u32,
        pub(crate) long: u64,
        pub(crate) signed: i64,
        pub(crate) flag: bool,
        pub(crate) real: F32Bits,
        pub(crate) maybe: Option<u32>,
        pub(crate) pair: (u32, bool),
        pub(crate) array: [u32; 2],
        pub(crate) list: Vec<u16>,
        pub(crate) small: SmallVec<[u32; 3]>,
        pub(crate) boxed: Box<[u8]>,
        pub(crate) text: String,
        pub(crate) choice: Choice,
        pub(crate) inner: Inner,
    }
}

kiln::key! {
    /// A struct inside a key.
    pub(crate) struct Inner {
        pub(crate) deep: u32,
    }
}

kiln::key! {
    /// A key of one value.
    pub(crate) struct Nothing {}
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Choice {
    Plain,
    One(u32),
    Named { low: u32, high: F32Bits },
}

kiln::mutate! { enum Choice { Plain, One(value), Named { low, high } } }

fn paths<T: Mutate>(value: &T) -> BTreeSet<String> {
    value.mutants().into_iter().map(|(path, _)| path).collect()
}

#[test]
fn every_place_in_a_key_is_mutated() {
    let mut key = Everything::sample();
    key.maybe = Some(3);
    key.choice = Choice::Named { low: 1, high: F32Bits::new(2.0) };
    let expected = [
        "array[0]",
        "array[1]",
        "boxed.len",
        "boxed[0]",
        "byte",
        "choice",
        "choice.Named.high",
        "choice.Named.low",
        "flag",
        "inner.deep",
        "list.len",
        "list[0]",
        "long",
        "maybe",
        "pair.0",
        "pair.1",
        "real",
        "short",
        "signed",
        "small.len",
        "small[0]",
        "text",
        "word",
    ];
    assert_eq!(paths(&key).iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn every_variant_is_reached_and_its_fields_are_mutated() {
    for value in [Choice::Plain, Choice::One(5), Choice::Named { low: 1, high: F32Bits::new(0.0) }] {
        let mutants = value.mutants();
        assert!(mutants.iter().all(|(_, mutant)| *mutant != value));
        let variants: BTreeSet<u8> = mutants
            .iter()
            .map(|(_, mutant)| match mutant {
                Choice::Plain => 0,
                Choice::One(_) => 1,
                Choice::Named { .. } => 2,
            })
            .collect();
        let own = usize::from(!matches!(value, Choice::Plain));
        assert_eq!(variants.len(), 2 + own, "the others, and changes inside {value:?}");
    }
}

#[test]
fn floats_in_keys_are_compared_by_their_bits() {
    assert_eq!(F32Bits::new(f32::NAN), F32Bits::new(f32::NAN));
    assert_ne!(F32Bits::new(0.0), F32Bits::new(-0.0));
    assert_ne!(F32Bits::new(1e-5), F32Bits::new(1e-6), "small constants stay apart");
    assert_eq!(F32Bits::from(1.5).get(), 1.5);
}

/// Two fields, the second of which some hand-written code below forgets.
macro_rules! rotten {
    ($name:ident { $($derive:path),* }) => {
        #[allow(clippy::derived_hash_with_manual_eq, reason = "that is what is rotten")]
        #[derive(Clone, Debug, Eq, Serialize, Deserialize, $($derive),*)]
        struct $name {
            kept: u32,
            forgotten: u32,
        }
        kiln::mutate! { struct $name { kept, forgotten } }
    };
}

rotten!(ForgetsInEq { Hash });

impl PartialEq for ForgetsInEq {
    fn eq(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}

rotten!(ForgetsInHash { PartialEq });

impl Hash for ForgetsInHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kept.hash(state);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ForgetsInRecord {
    kept: u32,
    #[serde(skip)]
    forgotten: u32,
}

kiln::mutate! { struct ForgetsInRecord { kept, forgotten } }

fn verdict<K: Mutate + Eq + Hash + Debug + Serialize + DeserializeOwned>() -> String {
    let panic = catch_unwind(|| assert_key_laws::<K>(&[])).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap()
}

#[test]
fn a_forgotten_field_is_found_and_named() {
    assert!(verdict::<ForgetsInEq>().contains("the field forgotten is not compared"));
    assert!(verdict::<ForgetsInHash>().contains("the field forgotten is not hashed"));
    assert!(verdict::<ForgetsInRecord>().contains("give the key back"));
}

#[test]
fn every_family_with_records_states_the_laws_of_its_key() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/exec");
    let mut families = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if text.contains("impl Recorded for") {
            families += 1;
            assert!(text.contains("key_laws!"), "{} needs crate::key_laws! {{ ... }} in its tests", path.display());
        }
    }
    assert!(families > 0, "families live in {folder}");
}
