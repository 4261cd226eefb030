//! Problems of every kernel family, drawn from bytes, give the results of the references and touch no memory beside
//! their operands, which end or begin at pages that fault. The families are those of the tests of the kernels crate.

#![no_main]

#[path = "../../kernels/tests/guarded/families.rs"]
mod families;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| families::run(bytes));
