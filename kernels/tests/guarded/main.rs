//! Kernels of every family against their references where every operand ends, or begins, at a page that faults.
//!
//! `draw` draws choices from bytes, `page` lays out buffers, and `families` computes problems. The fuzz target
//! `kernels` shares these files: a failure that it finds is a line of bytes that can be tried here.

#[path = "families.rs"]
mod families;

use proptest::prelude::*;

use families::{FAMILIES, Family, machines};

/// Bytes that describe the largest problem.
const BYTES: usize = 80;

fn at_every_level(family: Family) {
    for machine in machines() {
        let cases = if machine.interpreted { 12 } else { 96 };
        let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(bytes in proptest::collection::vec(any::<u8>(), 0..BYTES))| {
            families::check(family, &bytes, machine);
        });
    }
}

/// Checks this many problems of each family on each kind of machine, drawn from the round's number. A wrong result or a
/// panic is reported with its bytes; a fault ends the process.
fn at_length(families: &[Family], natively: u64, interpreted: u64) {
    let machines = machines();
    for kind in [false, true] {
        let machines: Vec<_> = machines.iter().filter(|machine| machine.interpreted == kind).collect();
        for round in 0..if kind { interpreted } else { natively } {
            let mut state = (round << 1 | u64::from(kind)).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 24) as u8
            };
            let bytes: Vec<u8> = (0..BYTES).map(|_| next()).collect();
            let machine = *machines[usize::from(next()) % machines.len()];
            let family = families[usize::from(next()) % families.len()];
            let checked = std::panic::catch_unwind(|| families::check(family, &bytes, machine));
            assert!(checked.is_ok(), "round {round} on {machine:?}: {bytes:?}");
        }
    }
}

/// `cargo test --release -p kiln-kernels --test guarded -- --ignored`: takes minutes; docs/reliability.md reports the
/// result.
#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_convolutions() {
    at_length(&[families::conv], 100_000, 10_000);
}

/// As above.
#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_problems_of_all_families() {
    at_length(&FAMILIES, 100_000, 10_000);
}

macro_rules! each {
    ($($name:ident),*) => {
        $(
            #[test]
            fn $name() {
                at_every_level(families::$name);
            }
        )*

        #[test]
        fn every_family_is_tried() {
            let tried: [Family; FAMILIES.len()] = [$(families::$name),*];
            assert_eq!(tried.len(), FAMILIES.len());
        }
    };
}

each! {
    attention, blend, blockwise, cached, chain, conv, extreme, groups, linear_attention, local, matmul, pool, quantized,
    recurrent, reduce, rotary, rows, softmax, transpose
}

#[test]
fn bytes_pick_every_family_and_none_is_enough() {
    families::run(&[]);
    for family in 0..FAMILIES.len() as u8 {
        families::run(&[family, 1]);
        families::run(&[family, 0, 7, 7, 7]);
    }
}
