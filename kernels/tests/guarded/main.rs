//! Kernels of every family against their references where every operand ends, or begins, at a page that faults.
//!
//! What bytes say is drawn by `draw`, laid out by `page` and computed by `families`, which the fuzz target `kernels`
//! shares: what it finds is a line of bytes that can be tried here.

#[path = "families.rs"]
mod families;

use proptest::prelude::*;

use families::{FAMILIES, Family, levels};
use kiln_kernels::Isa;

fn at_every_level(family: Family) {
    for isa in levels() {
        let cases = if isa > Isa::detect() { 12 } else { 96 };
        let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(bytes in proptest::collection::vec(any::<u8>(), 0..48))| {
            families::check(family, &bytes, isa);
        });
    }
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

each! { attention, chain, conv, groups, local, matmul, pool, quantized, recurrent, reduce, rows, softmax, transpose }

#[test]
fn bytes_pick_every_family_and_none_is_enough() {
    families::run(&[]);
    for family in 0..FAMILIES.len() as u8 {
        families::run(&[family, 1]);
        families::run(&[family, 0, 7, 7, 7]);
    }
}
