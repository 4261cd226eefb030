//! The laws of keys find a key that has rotted, and the derives see every field.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::panic::catch_unwind;

use kiln_key::laws::{assert_laws, check, each_key, walk};
use kiln_key::{F32Bits, Key, Mutate};
use smallvec::SmallVec;

/// A field of every kind that keys have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "everything", value = ())]
struct Everything {
    byte: u8,
    short: u16,
    word: u32,
    long: u64,
    signed: i64,
    flag: bool,
    real: F32Bits,
    maybe: Option<u32>,
    pair: (u32, bool),
    array: [u32; 2],
    list: Vec<u16>,
    small: SmallVec<[u32; 3]>,
    boxed: Box<[u8]>,
    text: String,
    choice: Choice,
    inner: Inner,
    wrapped: Wrapped,
    two: Two,
    of: Of<u16>,
}

/// A struct inside a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Mutate)]
struct Inner {
    deep: u32,
}

/// One value in a type of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Mutate)]
struct Wrapped(u8);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Mutate)]
struct Two(u8, bool);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Mutate)]
struct Of<T> {
    r#type: T,
}

/// A key of one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "nothing", value = ())]
struct Nothing {}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Mutate)]
enum Choice {
    Plain,
    One(u32),
    Two(u8, u8),
    Named { low: u32, high: F32Bits },
}

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
        "of.type",
        "pair.0",
        "pair.1",
        "real",
        "short",
        "signed",
        "small.len",
        "small[0]",
        "text",
        "two.0",
        "two.1",
        "word",
        "wrapped",
    ];
    assert_eq!(paths(&key).iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn every_variant_is_reached_and_its_fields_are_mutated() {
    for value in [Choice::Plain, Choice::One(5), Choice::Two(1, 2), Choice::Named { low: 1, high: F32Bits::new(0.0) }] {
        let mutants = value.mutants();
        assert!(mutants.iter().all(|(_, mutant)| *mutant != value));
        let variants: BTreeSet<u8> = mutants
            .iter()
            .map(|(_, mutant)| match mutant {
                Choice::Plain => 0,
                Choice::One(_) => 1,
                Choice::Named { .. } => 2,
                Choice::Two(..) => 3,
            })
            .collect();
        let own = usize::from(!matches!(value, Choice::Plain));
        assert_eq!(variants.len(), 3 + own, "the others, and changes inside {value:?}");
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
        #[derive(Clone, Debug, Eq, Mutate, $($derive),*)]
        struct $name {
            kept: u32,
            forgotten: u32,
        }
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

fn verdict<K: Mutate + Eq + Hash + Debug>() -> String {
    let panic = catch_unwind(check::<K>).unwrap_err();
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap()
}

#[test]
fn a_forgotten_field_is_found_and_named() {
    assert!(verdict::<ForgetsInEq>().contains("the field forgotten is not compared"));
    assert!(verdict::<ForgetsInHash>().contains("the field forgotten is not hashed"));
}

/// A struct whose list of fields is written by hand, and empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NamesNothing(u8);

impl Mutate for NamesNothing {
    fn sample() -> NamesNothing {
        NamesNothing(0)
    }

    fn mutants(&self) -> Vec<(String, NamesNothing)> {
        Vec::new()
    }
}

#[test]
fn a_key_that_names_no_field_is_found() {
    assert!(verdict::<NamesNothing>().contains("names none of them"));
}

#[test]
fn walks_go_far_and_are_the_same_each_time() {
    let keys = || {
        let seen = std::cell::RefCell::new(Vec::new());
        each_key(|key: &Everything| seen.borrow_mut().push(key.clone()));
        seen.into_inner()
    };
    let (once, again) = (keys(), keys());
    assert_eq!(once, again);
    assert_eq!(once.len(), 8 * 49);
    let different: std::collections::HashSet<&Everything> = once.iter().collect();
    assert!(different.len() > 300, "{} keys", different.len());
    for variant in [Choice::Plain, Choice::One(0), Choice::Two(0, 0), Choice::Named { low: 0, high: F32Bits::new(0.0) }]
    {
        let same = |key: &&Everything| std::mem::discriminant(&key.choice) == std::mem::discriminant(&variant);
        assert!(once.iter().any(|key| same(&key)), "{variant:?} is never reached");
    }
    assert_ne!(walk::<Everything>(&[3, 5]), Everything::sample());
    assert_laws(&walk::<Everything>(&[3, 5, 1, 7]));
}
