//! The processor in place of a GPU, for tests. Device memory is the processor's, kernels are compiled for it, and a
//! [`Script`] stands for the libraries: their proposals, how long each takes, and which fail.
//!
//! Results are computed, so that whole networks can be tested. Times are the script's, so that choices and searches can
//! be tested too. Calls are counted ([`Counts`]).
//!
//! [`memory`] is the device's memory, [`compiler`] compiles and runs kernels, [`library`] solves problems, [`script`]
//! has a test's statements.

pub mod compiler;
mod library;
mod memory;
pub mod script;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use script::{Failure, Listed, Proposal, Script};

use super::{Algorithm, Arg, Device, DeviceFacts, Heuristic, Launch, Module, Policy, Problem, Region, Solver, Source};
use crate::error::{KernelError, Result};
use library::Prepared;
use memory::Memory;

/// An emulated device.
#[derive(Debug)]
pub struct Emulated {
    shared: Arc<Shared>,
}

/// State that the device shares with all objects that it made.
#[derive(Debug)]
struct Shared {
    script: Script,
    memory: Memory,
    counters: Counters,
}

/// Counts of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Proposals, whatever the heuristic.
    pub heuristics: u64,
    /// Proposals for a search.
    pub thorough: u64,
    /// Calls for solvers, with those that failed.
    pub solvers: u64,
    /// Measurements.
    pub times: u64,
    /// Runs of solvers.
    pub runs: u64,
    /// Compilations of kernels.
    pub compiles: u64,
}

#[derive(Debug, Default)]
struct Counters {
    heuristics: AtomicU64,
    thorough: AtomicU64,
    solvers: AtomicU64,
    times: AtomicU64,
    runs: AtomicU64,
    compiles: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

thread_local! {
    /// Scripted nanoseconds of all work that this thread has run.
    static SPENT: Cell<u64> = const { Cell::new(0) };
}

/// Advances the device's clock of the calling thread by `nanos` nanoseconds.
fn spend(nanos: u64) {
    SPENT.set(SPENT.get().saturating_add(nanos));
}

impl Emulated {
    /// A device with that script.
    #[must_use]
    pub fn open(script: Script) -> Arc<Emulated> {
        let memory = Memory::new(script.facts.memory_bytes);
        Arc::new(Emulated { shared: Arc::new(Shared { script, memory, counters: Counters::default() }) })
    }

    /// Counts of the calls so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Counters { heuristics, thorough, solvers, times, runs, compiles } = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            heuristics: read(heuristics),
            thorough: read(thorough),
            solvers: read(solvers),
            times: read(times),
            runs: read(runs),
            compiles: read(compiles),
        }
    }
}

/// A kernel. It holds the device's memory while it runs.
#[derive(Debug)]
struct Compiled {
    module: Arc<dyn Module>,
    shared: Arc<Shared>,
}

impl Module for Compiled {
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let held = self.shared.memory.hold();
        for arg in launch.args {
            if let Arg::Memory(Some(region)) = arg {
                held.check(region, "an argument", region.bytes())?;
            }
        }
        self.module.launch(launch)
    }

    fn size(&self) -> usize {
        self.module.size()
    }
}

impl Device for Emulated {
    fn facts(&self) -> &DeviceFacts {
        &self.shared.script.facts
    }

    fn reserve(&self, bytes: u64) -> Result<u64> {
        self.shared.memory.reserve(bytes)
    }

    fn release(&self, address: u64) {
        self.shared.memory.release(address);
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.shared.memory.room())
    }

    fn upload(&self, bytes: &[u8], to: &Region) -> Result<()> {
        self.shared.memory.hold().write(to, "upload", bytes)
    }

    fn download(&self, from: &Region, bytes: &mut [u8]) -> Result<()> {
        let held = self.shared.memory.hold();
        bytes.copy_from_slice(held.bytes(from, "download", bytes.len() as u64)?);
        Ok(())
    }

    fn synchronise(&self) -> Result<()> {
        // Calls return when their work is done.
        Ok(())
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
        count(&self.shared.counters.times);
        let before = SPENT.get();
        work()?;
        Ok(SPENT.get() - before)
    }

    fn compile(&self, source: &Source) -> Result<Arc<dyn Module>> {
        count(&self.shared.counters.compiles);
        Ok(Arc::new(Compiled { module: compiler::compile(source)?, shared: self.shared.clone() }))
    }

    fn heuristics(&self, problem: &Problem, _: &Policy, heuristic: Heuristic) -> Result<Vec<Algorithm>> {
        let Shared { script, counters, .. } = &*self.shared;
        count(&counters.heuristics);
        if heuristic == Heuristic::Thorough {
            count(&counters.thorough);
        }
        std::thread::sleep(script.delay);
        if script.heuristics_fail {
            return Err(KernelError::Device { call: "heuristics", reason: "as scripted".to_owned() });
        }
        Ok(script.proposed(problem, heuristic).map(Proposal::algorithm).collect())
    }

    fn solver(&self, problem: &Problem, algorithm: &Algorithm) -> Result<Arc<dyn Solver>> {
        count(&self.shared.counters.solvers);
        let proposal = self.shared.script.engine(problem, &algorithm.engine);
        let proposal = proposal.filter(|proposal| proposal.failure != Some(Failure::Solver)).ok_or_else(|| {
            KernelError::Unsupported { family: "emulated", reason: format!("there is no {:?}", algorithm.engine) }
        })?;
        Ok(Arc::new(Prepared::new(problem.clone(), proposal.clone(), self.shared.clone())?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
