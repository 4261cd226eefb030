//! Choices on an emulated device: when libraries are asked, what is recorded, and how a record serves under another
//! policy, with another library, and from hostile hands.

mod kin;
mod modules;
mod search;

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use kiln_cache::{Cache, Limits, Outcome};
use kiln_kernels::cpu::Numerics;
use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::softmax::Around;
use kiln_kernels::gpu::emulated::{Emulated, Failure, Proposal, Script};
use kiln_kernels::gpu::{
    Algorithm, Arena, ConvProblem, Device, Engine, Epilogue, MatMulProblem, Notes, Operands, Policy, Problem, Region,
    Scope,
};
use kiln_kernels::{Isa, KernelError};

use super::problem::{CublasLtKey, CudnnConvKey, CudnnFusionKey, ProblemKey};
use super::*;
use crate::exec::{self, BuildCx, BuildError};
use crate::record::{CacheMode, Evidence, EvidenceKind, Fingerprint, Recorded, Store};

/// A process: a device, a cache of its own, and records.
struct Process {
    device: Arc<Emulated>,
    cx: BuildCx,
}

impl Process {
    fn new(script: Script, policy: Policy, records: Store) -> Process {
        let device = Emulated::open(script);
        let arena = Arena::new(device.clone(), 512 << 20);
        let cx = BuildCx {
            isa: Isa::Portable,
            threads: 1,
            numerics: Numerics::Default,
            precision: Default::default(),
            cache: Arc::new(Cache::new(Limits { entries: 10_000, bytes: 1 << 28 })),
            records: Arc::new(records),
            check: false,
            gpu: Some(Arc::new(GpuCx::new(arena, policy))),
        };
        Process { device, cx }
    }

    fn plain() -> Process {
        Process::new(Script::default(), Policy::default(), Store::in_memory())
    }

    /// Another process that has read what this one has written.
    fn next(&self, script: Script, policy: Policy) -> Process {
        let records = Store::in_memory();
        self.cx.records.list().iter().for_each(|record| assert!(records.insert_record(record)));
        Process::new(script, policy, records)
    }

    /// The same process, with the records taken as complete.
    fn strict(self) -> Process {
        let cx = BuildCx { records: self.cx.records.taken_as_complete(), ..self.cx };
        Process { cx, ..self }
    }

    /// How many solvers and kernels the records make ahead of need.
    fn ready(&self) -> usize {
        prepare(&self.cx, Instant::now() + Duration::from_secs(60))
    }

    fn solve(&self, problem: &Problem) -> (Arc<Solution>, Outcome) {
        self.cx.solver(problem).unwrap()
    }

    fn engine(&self, problem: &Problem) -> Option<Engine> {
        self.solve(problem).0.algorithm.clone().map(|algorithm| algorithm.engine)
    }

    fn gpu(&self) -> &GpuCx {
        self.cx.gpu().unwrap()
    }

    fn ranking<K: ProblemKey>(&self, key: &K) -> (Ranking, Evidence) {
        self.cx.records.lookup_with_evidence(key).unwrap()
    }

    /// The record of the plain convolution.
    fn known(&self) -> (Ranking, Evidence) {
        self.ranking(&self.key())
    }

    fn key(&self) -> CudnnConvKey {
        CudnnConvKey { problem: CONV, scope: self.gpu().scope(Scope::Cudnn) }
    }

    /// A process with that ranking recorded for the plain convolution.
    fn told(script: Script, policy: Policy, ranking: &Ranking) -> Process {
        let process = Process::new(script, policy, Store::in_memory());
        process.cx.records.insert(&process.key(), ranking, Evidence::model());
        process
    }
}

const CONV: ConvProblem = ConvProblem {
    batch: 1,
    channels: 3,
    filters: 4,
    groups: 1,
    input: [1, 8, 8],
    kernel: [1, 3, 3],
    strides: [1; 3],
    dilations: [1; 3],
    pads: [0, 1, 1],
    output: [1, 8, 8],
    transposed: false,
    epilogue: Epilogue::NONE,
};

const PRODUCT: MatMulProblem = MatMulProblem {
    batch: 1,
    m: 8,
    n: 8,
    k: 8,
    trans_left: false,
    trans_right: false,
    one_left: false,
    one_right: false,
    scale: 1f32.to_bits(),
    epilogue: Epilogue::NONE,
};

fn fused(activation: UnaryOp) -> ConvProblem {
    ConvProblem { epilogue: Epilogue { bias: true, residual: false, activation: Some(activation) }, ..CONV }
}

fn conv() -> Problem {
    Problem::Conv(CONV)
}

fn graph(index: i64, knobs: &[(i32, i64)]) -> Engine {
    Engine::Graph { index, knobs: knobs.to_vec() }
}

/// The engines of the default script, named by their properties.
fn tensor_core() -> Engine {
    graph(34, &[(17, 1), (24, 5)])
}

fn huge() -> Engine {
    graph(7, &[])
}

fn ordinary() -> Engine {
    graph(11, &[(2, 1)])
}

fn split() -> Engine {
    graph(36, &[(17, 8)])
}

const LEGACY: Engine = Engine::Legacy { algo: 1, math: 0 };

/// The script without the engines in `gone`.
fn without(script: Script, gone: &[Engine]) -> Script {
    let convolutions = script.convolutions.into_iter().filter(|one| !gone.contains(&one.engine)).collect();
    Script { convolutions, ..script }
}

fn candidate(engine: Engine) -> Candidate {
    Candidate { algorithm: Algorithm { engine, workspace: 0, notes: Notes::default() }, nanos: 0, rank: 0 }
}

fn engines(ranking: &Ranking) -> Vec<Engine> {
    ranking.candidates.iter().map(|one| one.algorithm.engine.clone()).collect()
}

fn broken(script: Script, engine: &Engine, failure: Failure) -> Script {
    let convolutions = script.convolutions.into_iter();
    let convolutions = convolutions.map(|one| match one.engine == *engine {
        true => Proposal { failure: Some(failure), ..one },
        false => one,
    });
    Script { convolutions: convolutions.collect(), ..script }
}

#[test]
fn a_first_use_asks_the_heuristics_once_and_measures_nothing() {
    let process = Process::plain();
    let (solution, outcome) = process.solve(&conv());
    assert_eq!((outcome, solution.origin), (Outcome::Miss, Origin::Heuristic));
    // The two before it are not allowed.
    assert_eq!(solution.algorithm.as_ref().unwrap().engine, ordinary());
    assert_eq!(solution.solver.as_ref().unwrap().workspace(), 1 << 20);
    for _ in 0..3 {
        assert_eq!(process.solve(&conv()).1, Outcome::Hit);
    }
    let counts = process.device.counts();
    assert_eq!((counts.heuristics, counts.thorough, counts.solvers, counts.times, counts.runs), (1, 0, 1, 0, 0));
    let (ranking, evidence) = process.known();
    assert_eq!(engines(&ranking), [tensor_core(), huge(), ordinary(), split()], "in the heuristics' order");
    assert_eq!((evidence.kind, ranking.measured_under), (EvidenceKind::Model, None));
    assert_eq!(ranking.candidates[2].rank, 2);
}

#[test]
fn the_next_process_asks_nothing_and_is_ready_before_its_first_request() {
    let folder = tempfile::tempdir().unwrap();
    let fingerprint = Fingerprint::from_facts([("kiln", "test")]);
    let open = || Store::open(folder.path(), &fingerprint, CacheMode::ReadWrite);
    let problems =
        [conv(), Problem::Conv(fused(UnaryOp::Relu)), Problem::Conv(fused(UnaryOp::Gelu)), Problem::MatMul(PRODUCT)];
    let first = Process::new(Script::default(), Policy::default(), open());
    let chosen = problems.each_ref().map(|problem| first.engine(problem));
    assert!(chosen[1].is_some() && chosen[2].is_none(), "there is no fused form of that activation");
    assert_eq!(first.cx.records.save().unwrap().written, 4);
    let second = Process::new(Script::default(), Policy::default(), open());
    assert_eq!(second.ready(), 4);
    for (problem, engine) in problems.iter().zip(&chosen) {
        let (solution, outcome) = second.solve(problem);
        assert_eq!(outcome, Outcome::Hit);
        assert_eq!(solution.algorithm.as_ref().map(|algorithm| &algorithm.engine), engine.as_ref());
        assert_ne!(solution.origin, Origin::Heuristic);
    }
    let counts = second.device.counts();
    assert_eq!((counts.heuristics, counts.times, counts.solvers), (0, 0, 3));
    assert_eq!(second.cx.cache.stats().record_hits, 4);
    assert_eq!(second.cx.records.save().unwrap().path, None, "nothing is new");
}

#[test]
fn another_version_of_one_library_starts_cold_and_leaves_all_other_records_as_they_are() {
    let old = Process::plain();
    let (problem, product) = (conv(), Problem::MatMul(PRODUCT));
    old.solve(&problem);
    old.solve(&product);
    let around = Around { outer: 2, length: 3, inner: 1 };
    let rows = exec::softmax::SoftmaxProblem { around, logarithm: false };
    let softmax = exec::ExecutorKey::new(exec::Target::new(Isa::Portable, 1), rows);
    old.cx.executor(&softmax).unwrap();
    let mut script = Script::default();
    script.facts.cudnn += 1;
    let new = old.next(script, Policy::default());
    assert_eq!(new.ready(), 1, "the product");
    assert_eq!(new.device.counts().heuristics, 0);
    assert_eq!(new.solve(&product).1, Outcome::Hit);
    assert_eq!(new.solve(&problem).1, Outcome::Miss);
    assert_eq!(new.device.counts().heuristics, 1);
    let families: Vec<String> = new.cx.records.list().into_iter().map(|record| record.family).collect();
    assert_eq!(families, ["cublaslt-matmul", "cudnn-conv", "cudnn-conv", "softmax"]);
}

#[test]
fn a_lower_bound_of_scratch_memory_or_a_demand_for_the_same_bits_takes_another_of_the_same_record() {
    let first = Process::plain();
    assert_eq!(first.engine(&conv()), Some(ordinary()));
    let policy = Policy { workspace: 0, ..Policy::default() };
    let second = first.next(Script::default(), policy);
    let (solution, outcome) = second.solve(&conv());
    assert_eq!((outcome, solution.origin), (Outcome::RecordHit, Origin::RunnerUp(3)));
    assert_eq!(second.engine(&conv()), Some(split()));
    assert_eq!(second.device.counts().heuristics, 0);
    // Factors of fewer bits, and again no library is asked.
    let third = first.next(Script::default(), Policy { tf32: true, ..Policy::default() });
    assert_eq!((third.engine(&conv()), third.solve(&conv()).0.origin), (Some(tensor_core()), Origin::Replayed));
    assert_eq!(third.device.counts().heuristics, 0);
    // None of the known candidates is allowed: the heuristics are asked, nothing is measured, and nothing is forgotten.
    let fourth = second.next(Script::default(), Policy { deterministic: true, ..policy });
    assert_eq!((fourth.engine(&conv()), fourth.solve(&conv()).0.origin), (Some(LEGACY), Origin::Heuristic));
    assert_eq!((fourth.device.counts().heuristics, fourth.device.counts().times), (2, 0));
    let (ranking, _) = fourth.known();
    assert_eq!(engines(&ranking), [tensor_core(), huge(), ordinary(), split(), LEGACY]);
    let fifth = fourth.next(Script::default(), Policy { deterministic: true, ..policy });
    assert_eq!((fifth.engine(&conv()), fifth.device.counts().heuristics), (Some(LEGACY), 0));
}

#[test]
fn one_process_may_have_two_policies_and_each_has_its_own_solver() {
    let process = Process::plain();
    let strict = process.solve(&conv()).0;
    let gpu = GpuCx::new(process.gpu().arena.clone(), Policy { tf32: true, ..Policy::default() });
    let other = BuildCx { gpu: Some(Arc::new(gpu)), ..process.cx.clone() };
    let (lax, outcome) = other.solver(&conv()).unwrap();
    assert_eq!((outcome, &lax.algorithm.as_ref().unwrap().engine), (Outcome::RecordHit, &tensor_core()));
    assert_eq!(strict.algorithm.as_ref().unwrap().engine, ordinary());
    assert_eq!(process.device.counts().heuristics, 1);
}

#[test]
fn what_does_not_build_any_more_is_remembered_and_the_next_one_taken() {
    let first = Process::plain();
    first.solve(&conv());
    // A runner-up of the record.
    let second = first.next(broken(Script::default(), &ordinary(), Failure::Solver), Policy::default());
    let (solution, outcome) = second.solve(&conv());
    assert_eq!((outcome, solution.origin), (Outcome::RecordHit, Origin::RunnerUp(3)));
    assert_eq!(second.device.counts().heuristics, 0);
    let (ranking, _) = second.known();
    assert_eq!(ranking.refused, [Refused { engine: ordinary(), reason: RefusalReason::Unsupported }]);
    // It is not tried again, though it would work now.
    let third = second.next(Script::default(), Policy::default());
    assert_eq!((third.engine(&conv()), third.device.counts().solvers), (Some(split()), 1));
    // No candidate of the record: the heuristics, which do not get round the refusal.
    let fourth =
        second.next(without(Script::default(), &[split(), tensor_core(), huge()]), Policy { ..Policy::default() });
    assert_eq!((fourth.engine(&conv()), fourth.solve(&conv()).0.origin), (Some(LEGACY), Origin::Heuristic));
    assert_eq!(fourth.device.counts().heuristics, 2);
    assert!(fourth.known().0.refuses(&ordinary()) && fourth.known().0.refuses(&split()));
}

#[test]
fn a_problem_that_the_library_cannot_solve_is_asked_for_once() {
    let problem = Problem::Conv(fused(UnaryOp::Gelu));
    let process = Process::plain();
    let (solution, outcome) = process.solve(&problem);
    assert!(solution.solver.is_none() && outcome == Outcome::Miss);
    let key = CudnnFusionKey { problem: fused(UnaryOp::Gelu), scope: process.gpu().scope(Scope::Cudnn) };
    assert_eq!(process.ranking(&key).0, Ranking::default());
    let next = process.next(Script::default(), Policy::default());
    let (solution, outcome) = next.solve(&problem);
    assert!(solution.solver.is_none());
    assert_eq!((outcome, solution.origin, next.device.counts().heuristics), (Outcome::RecordHit, Origin::Replayed, 0));
}

#[test]
fn a_library_that_fails_fails_no_caller_and_is_asked_again_by_the_next_process() {
    let mute = || Script { heuristics_fail: true, ..Script::default() };
    let process = Process::new(mute(), Policy::default(), Store::in_memory());
    let (solution, _) = process.solve(&conv());
    assert!(solution.solver.is_none());
    assert!(process.cx.records.list().is_empty());
    // A record serves without any heuristics.
    let first = Process::plain();
    first.solve(&conv());
    assert_eq!(first.next(mute(), Policy::default()).engine(&conv()), Some(ordinary()));
    // A policy that no candidate of the record meets, and a library that fails: the record keeps its candidates.
    let second = first.next(mute(), Policy { workspace: 0, deterministic: true, ..Policy::default() });
    assert!(second.engine(&conv()).is_none());
    assert_eq!(engines(&second.known().0).len(), 4);
}

#[test]
fn a_context_without_a_device_and_records_that_must_be_complete_say_so() {
    let process = Process::plain();
    let none = BuildCx { gpu: None, ..process.cx.clone() };
    assert!(matches!(none.solver(&conv()), Err(BuildError::NoDevice)));
    let complete = Process::plain().strict();
    assert!(matches!(complete.cx.solver(&conv()), Err(BuildError::NotRecorded { family: "cudnn-conv" })));
    assert_eq!(complete.device.counts().heuristics, 0);
}

#[test]
fn records_that_lie_cost_time_alone() {
    let odd = |change: fn(&mut Candidate)| {
        let mut one = candidate(ordinary());
        change(&mut one);
        Ranking { candidates: vec![one], ..Ranking::default() }
    };
    let lies = [
        // Rejected as they are.
        odd(|one| one.algorithm.workspace = u64::MAX),
        odd(|one| one.algorithm.engine = Engine::Lt { data: [7; 8] }),
        odd(|one| one.algorithm.engine = graph(11, &[(1, 1); 65])),
        Ranking { candidates: vec![candidate(ordinary()); 6], ..Ranking::default() },
        Ranking { refused: vec![Refused { engine: LEGACY, reason: RefusalReason::Fails }; 5], ..Ranking::default() },
        // Tried in vain.
        odd(|one| one.algorithm.engine = graph(i64::MIN, &[(i32::MAX, i64::MIN)])),
        odd(|one| one.algorithm.engine = Engine::Legacy { algo: -1, math: i32::MAX }),
        odd(|one| one.algorithm.notes = Notes(u32::MAX)),
    ];
    for lie in &lies {
        let process = Process::told(Script::default(), Policy::default(), lie);
        assert_eq!(process.engine(&conv()), Some(ordinary()), "{lie:?}");
        assert!(process.device.counts().heuristics <= 2);
        assert!(process.known().0.is_sane(&conv()));
    }
    assert_eq!(lies.iter().filter(|lie| !lie.is_sane(&conv())).count(), 5);
    // A stated workspace that is too small is found out when the solver is made, and no more than allowed is used.
    let less = Ranking { candidates: vec![candidate(huge()), candidate(ordinary())], ..Ranking::default() };
    let process = Process::told(Script::default(), Policy::default(), &less);
    assert_eq!(process.engine(&conv()), Some(ordinary()));
    // A record that refuses every way costs time as well.
    let all =
        [tensor_core(), ordinary(), split(), LEGACY].map(|engine| Refused { engine, reason: RefusalReason::Fails });
    let process =
        Process::told(Script::default(), Policy::default(), &Ranking { refused: all.into(), ..Ranking::default() });
    assert_eq!(process.engine(&conv()), Some(ordinary()));
    // So does a record that says that there is no way of solving a problem that a network cannot do without.
    let process = Process::told(Script::default(), Policy::default(), &Ranking::default());
    assert_eq!(process.engine(&conv()), Some(ordinary()));
    // A record that leaves out an algorithm's arithmetic does not get it past a policy that forbids that arithmetic.
    let quiet = Ranking { candidates: vec![candidate(tensor_core()), candidate(ordinary())], ..Ranking::default() };
    let process = Process::told(Script::default(), Policy::default(), &quiet);
    assert_eq!(process.engine(&conv()), Some(ordinary()));
    let lax = Process::told(Script::default(), Policy { tf32: true, ..Policy::default() }, &quiet);
    assert_eq!(lax.engine(&conv()), Some(tensor_core()));
}

#[test]
fn keys_that_lie_are_not_built_ahead_of_need() {
    let process = Process::plain();
    let scope = process.gpu().scope(Scope::Cudnn);
    let ranking = Ranking { candidates: vec![candidate(ordinary())], ..Ranking::default() };
    let records = &process.cx.records;
    records.insert(&CudnnConvKey { problem: fused(UnaryOp::Relu), scope }, &ranking, Evidence::model());
    records.insert(&CudnnFusionKey { problem: CONV, scope }, &ranking, Evidence::model());
    let endless = ConvProblem { batch: u32::MAX, channels: u32::MAX, input: [u32::MAX; 3], ..CONV };
    records.insert(&CudnnConvKey { problem: endless, scope }, &ranking, Evidence::model());
    records.insert(&CudnnConvKey { problem: ConvProblem { groups: 0, ..CONV }, scope }, &ranking, Evidence::model());
    records.insert(&CudnnConvKey { problem: CONV, scope: scope ^ 1 }, &ranking, Evidence::model());
    let lt = CublasLtKey { problem: PRODUCT, scope };
    records.insert(&lt, &ranking, Evidence::model());
    assert_eq!(process.ready(), 0);
    assert_eq!(process.device.counts().solvers, 0);
}

#[test]
fn threads_that_want_one_problem_share_one_solver() {
    let script = Script { delay: Duration::from_millis(30), ..Script::default() };
    let process = Process::new(script, Policy::default(), Store::in_memory());
    let barrier = Barrier::new(16);
    let outcomes: Vec<(Arc<Solution>, Outcome)> = std::thread::scope(|scope| {
        let thread = || {
            barrier.wait();
            process.solve(&conv())
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(outcomes.iter().all(|(solution, _)| Arc::ptr_eq(solution, &outcomes[0].0)));
    assert_eq!(outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Miss).count(), 1);
    assert_eq!((process.device.counts().heuristics, process.device.counts().solvers), (1, 1));
}

#[test]
fn of_more_proposals_than_a_record_holds_the_last_go_but_not_the_one_in_use() {
    let most = ranking::MOST_CANDIDATES as i64;
    let convolutions: Vec<Proposal> = (0..most + 3)
        .map(|index| {
            let notes = if index < most + 2 { Notes::TENSOR_CORE } else { Notes::default() };
            Proposal { notes, ..Proposal::new(graph(index, &[]), 0, 1000) }
        })
        .collect();
    let process = Process::new(Script { convolutions, ..Script::default() }, Policy::default(), Store::in_memory());
    assert_eq!(process.engine(&conv()), Some(graph(most + 2, &[])));
    let (ranking, _) = process.known();
    assert_eq!(engines(&ranking), [0, 1, 2, 3, most + 2].map(|index| graph(index, &[])));
}

#[test]
fn a_solver_computes_in_the_arenas_memory() {
    let process = Process::plain();
    let arena = &process.gpu().arena;
    let put = |values: &[f32]| -> Region {
        let region = arena.take(values.len() as u64 * 4).unwrap();
        process.device.upload(bytemuck::cast_slice(values), &region).unwrap();
        region
    };
    let identity: Vec<f32> = (0..64).map(|place| f32::from(u8::from(place % 9 == 0))).collect();
    let numbers: Vec<f32> = (0..64).map(|place| place as f32).collect();
    let (left, right, output) = (put(&numbers), put(&identity), arena.take(256).unwrap());
    let solver = process.solve(&Problem::MatMul(PRODUCT)).0.solver.clone().unwrap();
    let workspace = arena.take(solver.workspace()).unwrap();
    let operands = Operands { left: &left, right: &right, bias: None, residual: None, output: &output };
    solver.run(&operands, Some(&workspace)).unwrap();
    let mut result = vec![0f32; 64];
    process.device.download(&output, bytemuck::cast_slice_mut(&mut result)).unwrap();
    assert_eq!(result, numbers);
    assert!(matches!(solver.run(&operands, None), Err(KernelError::Bounds { .. })));
}

#[test]
fn a_devices_blob_is_told_from_those_of_other_versions_but_not_of_other_boards() {
    let of = |script: Script| Process::new(script, Policy::default(), Store::in_memory()).gpu().engine();
    let (mut driver, mut board) = (Script::default(), Script::default());
    driver.facts.driver += 10;
    board.facts.ordinal = 5;
    let engine = of(Script::default());
    let blob = engine.blob().unwrap();
    assert_eq!(of(board).verify(&blob), Ok(()));
    let error = of(driver).verify(&blob).unwrap_err();
    assert_eq!(error.to_string(), "the engine's driver is '13000' and here it is '13010'");
}

#[test]
fn tools_can_read_what_is_recorded() {
    let process = Process::plain();
    process.solve(&Problem::Conv(ConvProblem { epilogue: Epilogue::NONE, pads: [0; 3], output: [1, 6, 6], ..CONV }));
    process.solve(&Problem::Conv(fused(UnaryOp::Relu)));
    let lines: Vec<String> = process
        .cx
        .records
        .list()
        .iter()
        .map(|record| exec::describe(record).unwrap())
        .map(|(key, choice)| format!("{}: {choice}", key.split(" for ").next().unwrap()))
        .collect();
    assert_eq!(
        lines,
        [
            "1x3x8x8 by 4, 3x3: engine 34 {17:1 24:5}; engine 7 4096.0 MiB; engine 11 {2:1} 1.0 MiB; engine 36 {17:8}",
            "1x3x8x8 by 4, 3x3 pads 1x1 +bias +relu: engine 34 {17:1 24:5}; engine 11 {2:1} 1.0 MiB",
        ]
    );
    assert_eq!(<CublasLtKey as Recorded>::REVISION, 1);
}
