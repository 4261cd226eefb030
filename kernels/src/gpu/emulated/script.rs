//! The proposals of an emulated device's libraries, as plain data; independent of the solvers.

use std::time::Duration;

use super::super::{Algorithm, DeviceFacts, Engine, Epilogue, Heuristic, Notes, Problem};
use crate::cpu::chain::UnaryOp;

/// A test's statements about a device.
#[derive(Clone, Debug)]
pub struct Script {
    /// The device's facts. `memory_bytes` bounds allocations; `cudnn` and `cublaslt` decide which proposals
    /// exist.
    pub facts: DeviceFacts,
    /// Algorithms for convolutions, best first.
    pub convolutions: Vec<Proposal>,
    /// Algorithms for matrix products, best first.
    pub products: Vec<Proposal>,
    /// Whether asking for proposals fails.
    pub heuristics_fail: bool,
    /// How long asking for proposals takes in real time, so that several threads ask at once.
    pub delay: Duration,
}

/// An algorithm of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its name.
    pub engine: Engine,
    /// Bytes of scratch memory.
    pub workspace: u64,
    /// Facts about its arithmetic.
    pub notes: Notes,
    /// Its time.
    pub nanos: u64,
    /// The heuristics that propose it.
    pub listed: Listed,
    /// Whether it supports epilogues.
    pub fused: bool,
    /// The first version of the library that has it.
    pub since: u64,
    /// The first version of the library without it.
    pub until: u64,
    /// Its failure, if it fails.
    pub failure: Option<Failure>,
}

/// The heuristics that propose an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The heuristics for requests and for searches.
    Quick,
    /// The heuristic for searches alone.
    Thorough,
    /// The fallback.
    Fallback,
    /// No heuristic, though the library has it.
    Nowhere,
}

/// How a proposed algorithm fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Making the solver fails.
    Solver,
    /// Running the solver fails.
    Run,
}

impl Default for Script {
    /// A device of 1 GiB whose libraries have, for each kind of problem, a fastest algorithm that the default policy
    /// forbids, and a few plain ones that it allows.
    fn default() -> Script {
        let graph = |index, knobs: &[(i32, i64)]| Engine::Graph { index, knobs: knobs.to_vec() };
        let convolutions = vec![
            Proposal {
                notes: Notes::TENSOR_CORE,
                fused: true,
                ..Proposal::new(graph(34, &[(17, 1), (24, 5)]), 0, 30_000)
            },
            Proposal::new(graph(7, &[]), 4 << 30, 20_000),
            Proposal { fused: true, ..Proposal::new(graph(11, &[(2, 1)]), 1 << 20, 60_000) },
            Proposal { notes: Notes::NONDETERMINISTIC, ..Proposal::new(graph(36, &[(17, 8)]), 0, 50_000) },
            Proposal {
                notes: Notes(1 << 6),
                listed: Listed::Thorough,
                ..Proposal::new(graph(5, &[]), 2 << 20, 40_000)
            },
            Proposal {
                listed: Listed::Fallback,
                fused: true,
                ..Proposal::new(Engine::Legacy { algo: 1, math: 0 }, 0, 80_000)
            },
        ];
        let lt = |number| Engine::Lt { data: [number, 0, 0, 0, 0, 0, 0, 0] };
        let products = vec![
            Proposal { notes: Notes::TENSOR_CORE, fused: true, ..Proposal::new(lt(1), 4 << 20, 15_000) },
            Proposal { fused: true, ..Proposal::new(lt(2), 4 << 20, 40_000) },
            Proposal {
                notes: Notes::NONDETERMINISTIC,
                listed: Listed::Thorough,
                fused: true,
                ..Proposal::new(lt(3), 0, 25_000)
            },
            Proposal { listed: Listed::Fallback, fused: true, ..Proposal::new(lt(4), 0, 50_000) },
        ];
        let facts = DeviceFacts {
            name: "emulated".to_owned(),
            compute: [9, 0],
            multiprocessors: 132,
            l2_bytes: 50 << 20,
            memory_bytes: 1 << 30,
            memory_clock: 2_619_000,
            bus_width: 5120,
            driver: 13_000,
            nvrtc: 13_000,
            cudnn: 91_900,
            cudnn_cudart: 13_000,
            cublaslt: 130_000,
            ..DeviceFacts::default()
        };
        Script { facts, convolutions, products, heuristics_fail: false, delay: Duration::ZERO }
    }
}

impl Proposal {
    /// An algorithm that every version has, without notes. All heuristics but the fallback propose it for problems
    /// without epilogue.
    #[must_use]
    pub fn new(engine: Engine, workspace: u64, nanos: u64) -> Proposal {
        Proposal {
            engine,
            workspace,
            notes: Notes::default(),
            nanos,
            listed: Listed::Quick,
            fused: false,
            since: 0,
            until: u64::MAX,
            failure: None,
        }
    }

    /// The algorithm as the library describes it.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        Algorithm { engine: self.engine.clone(), workspace: self.workspace, notes: self.notes }
    }

    fn serves(&self, epilogue: &Epilogue) -> bool {
        epilogue.is_none() || self.fused && matches!(epilogue.activation, None | Some(UnaryOp::Relu))
    }
}

impl Script {
    /// Algorithms for a problem, in the libraries' present versions.
    fn known(&self, problem: &Problem) -> impl Iterator<Item = &Proposal> {
        let (list, version) = match problem {
            Problem::Conv(_) => (&self.convolutions, self.facts.cudnn),
            Problem::MatMul(_) => (&self.products, self.facts.cublaslt),
        };
        let epilogue = problem.epilogue();
        list.iter().filter(move |one| (one.since..one.until).contains(&version) && one.serves(&epilogue))
    }

    /// The proposals of a heuristic.
    pub(super) fn proposed(&self, problem: &Problem, heuristic: Heuristic) -> impl Iterator<Item = &Proposal> {
        self.known(problem).filter(move |one| match heuristic {
            Heuristic::Quick => one.listed == Listed::Quick,
            Heuristic::Thorough => matches!(one.listed, Listed::Quick | Listed::Thorough),
            Heuristic::Fallback => one.listed == Listed::Fallback,
        })
    }

    /// The algorithm with that name, proposed or not.
    pub(super) fn engine(&self, problem: &Problem, engine: &Engine) -> Option<&Proposal> {
        self.known(problem).find(|one| one.engine == *engine)
    }
}
