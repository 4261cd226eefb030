//! The kernel families, each as a function that draws a problem, computes it between pages that fault and compares it
//! with the reference. Shared by the tests here and the fuzz target `kernels`; knows neither.

mod draw;
mod page;
mod places;
mod products;
mod rows;
mod weights;
mod windows;

use kiln_kernels::jit::interpreted;
use kiln_kernels::{Isa, Parallel};

pub(crate) use places::{chain, transpose};
pub(crate) use products::{attention, cached, matmul, recurrent};
pub(crate) use rows::{blend, extreme, groups, linear_attention, local, reduce, rotary, rows, softmax};
pub(crate) use weights::blockwise;
pub(crate) use windows::{conv, pool, quantized};

use draw::Draw;

/// Draws a problem and checks it.
pub(crate) type Family = fn(&mut Draw<'_>, Isa);

/// All families.
pub(crate) const FAMILIES: [Family; 19] = [
    attention,
    chain,
    conv,
    groups,
    local,
    matmul,
    pool,
    quantized,
    recurrent,
    reduce,
    rows,
    softmax,
    transpose,
    blockwise,
    cached,
    rotary,
    extreme,
    blend,
    linear_attention,
];

/// Sizes where instructions are interpreted: more than two vectors.
const INTERPRETED: usize = 36;

/// A level, and whether its instructions are interpreted although the processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) isa: Isa,
    pub(crate) interpreted: bool,
}

/// The levels that can run here, and the levels of emitted code once more in the emulator.
pub(crate) fn machines() -> Vec<Machine> {
    let all = Isa::ALL.into_iter().flat_map(|isa| [false, true].map(|interpreted| Machine { isa, interpreted }));
    all.filter(|machine| if machine.interpreted { machine.isa.is_jit() } else { machine.isa <= Isa::detect() })
        .collect()
}

/// Checks the problem that the bytes describe, for a family and on a machine.
pub(crate) fn check(family: Family, bytes: &[u8], machine: Machine) {
    let most = if machine.interpreted { INTERPRETED } else { 256 };
    let mut draw = Draw::new(bytes, most);
    if machine.interpreted { interpreted(|| family(&mut draw, machine.isa)) } else { family(&mut draw, machine.isa) }
}

/// Checks the problem that the bytes describe: the first byte is the family, the second the machine.
pub(crate) fn run(bytes: &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let (second, rest) = rest.split_first().unwrap_or((&0, &[]));
    let machines = machines();
    check(FAMILIES[usize::from(*first) % FAMILIES.len()], rest, machines[usize::from(*second) % machines.len()]);
}

/// Runs tasks in turn but claims several threads, so that work is split as among threads.
#[derive(Debug)]
struct InTurn(usize);

impl Parallel for InTurn {
    fn threads(&self) -> usize {
        self.0
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        // The last task first: no task may rely on another task being done.
        (0..tasks).rev().for_each(task);
    }
}

/// Compares element by element; `bound` says how far a result may be from the wanted element.
fn close(found: &[f32], want: &[f32], bound: impl Fn(f32) -> f32, place: &dyn Fn() -> String) {
    assert_eq!(found.len(), want.len(), "{}", place());
    for (at, (&found, &want)) in found.iter().zip(want).enumerate() {
        let same = found == want || found.is_nan() && want.is_nan() || (found - want).abs() <= bound(want);
        assert!(same, "{found} for {want} at {at}: {}", place());
    }
}
