//! The tuner's turn for a problem of a device's libraries: their proposals, measured one after another on the device.
//!
//! The contest is the processor's, with two differences. The device times the runs, several in a row where one is
//! short, so that the noise of starting a run does not count. And the whole ranking is recorded, so that the next
//! process can take the runner-up when the winner is not allowed or does not work any more.
//!
//! Operands and results are in memory of the arena that no network uses: a search changes none of its values.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use kiln_cache::Built;
use kiln_kernels::Result as KernelResult;
use kiln_kernels::gpu::{Heuristic, Operands, Problem, Region, Solver};
use kiln_key::Key;

use super::contest::{self, NoVerdict, Runner, Sample};
use super::job::{MeasureCx, TuningJob};
use super::report::{Ended, TuneChange};
use crate::exec::gpu::problem::{in_words, posed};
use crate::exec::gpu::ranking::{Candidate, Name, Ranking, RefusalReason};
use crate::exec::gpu::solution::{Origin, Solution};
use crate::exec::gpu::solver::{SolverKey, ask, note, ready};
use crate::exec::{BuildCx, GpuCx};
use crate::record::{Evidence, EvidenceKind};

/// The share of the first proposal's time that another must save: more than the noise of a device.
const MARGIN: f64 = 0.05;

/// Most bytes of all operands of a problem: a problem that needs more is not tuned.
const MOST_BYTES: u64 = 1 << 30;

/// Nanoseconds of a sample: some hundred times the resolution of a device's clock.
const SAMPLE: u64 = 100_000;

/// Most runs of a sample.
const MOST_RUNS: u64 = 32;

/// A [`TuningJob`] for a problem.
pub(super) struct SearchJob(pub(super) SolverKey);

/// A candidate that is ready to run.
struct Ready {
    candidate: Candidate,
    solver: Arc<dyn Solver>,
    /// Least nanoseconds of a run so far; 0 before the first.
    nanos: u64,
    failed: bool,
}

impl TuningJob for SearchJob {
    fn run(&self, measure: &mut MeasureCx<'_>) -> Ended {
        let (key, cx) = (&self.0, measure.cx);
        let Ok(gpu) = cx.gpu() else { return Ended::Failed };
        let (mut known, before) = key.recall(cx).unwrap_or_else(|| (Ranking::default(), Evidence::model()));
        if before.kind == EvidenceKind::Measured && known.is_measured_for(&key.policy) {
            return Ended::Known;
        }
        let ready = gather(gpu, key, &mut known, measure.effort.candidates);
        if ready.len() < 2 {
            return if ready.is_empty() { Ended::Failed } else { Ended::Single };
        }
        let Some(bench) = Bench::set(gpu, &key.problem, &ready) else { return Ended::Large };
        let (margins, rules) = (vec![MARGIN; ready.len()], measure.effort.rules);
        let mut trial = Trial { gpu, bench, ready, measure };
        let verdict = contest::hold(&margins, &rules, &mut trial);
        let Trial { ready, .. } = trial;
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(NoVerdict::Stopped) => return Ended::Stopped,
            Err(NoVerdict::Failed) => return Ended::Failed,
        };
        rank(&mut known, &ready, verdict.winner);
        known.measured_under = Some(key.policy);
        // Samples of an earlier measurement, under another policy, count as evidence too.
        let samples =
            verdict.samples.saturating_add(if before.kind == EvidenceKind::Measured { before.samples } else { 0 });
        let evidence = Evidence::measured(verdict.nanos, samples).against(verdict.against);
        posed(&key.problem, key.scope).keep(&cx.records, &known, evidence);
        gpu.kin.keep(&key.problem, key.scope, &key.policy, &known);
        if verdict.winner == 0 {
            return Ended::Tuned(None);
        }
        let engine = |place: usize| Name(&ready[place].candidate.algorithm.engine).to_string();
        let change = TuneChange {
            family: SolverKey::FAMILY,
            key: in_words(&key.problem),
            from: engine(0),
            to: engine(verdict.winner),
            before: verdict.incumbent,
            after: verdict.nanos,
        };
        replace(cx, key, &ready[verdict.winner]);
        Ended::Tuned(Some(change))
    }
}

/// The candidates to measure, ready to run: first the one that a request would use now, then the proposals of the
/// heuristics for searches and of last resort, then the record's other candidates.
fn gather(gpu: &GpuCx, key: &SolverKey, known: &mut Ranking, most: usize) -> Vec<Ready> {
    let mut proposals: Vec<Candidate> = Vec::new();
    for heuristic in [Heuristic::Thorough, Heuristic::Fallback] {
        if let Err(error) = ask(gpu, key, heuristic, known, &mut proposals) {
            tracing::warn!(problem = ?key.problem, %error, "a library cannot say how else it would solve a problem");
        }
    }
    let mut order: Vec<Candidate> = known.candidates.clone();
    // The first allowed candidate is in use; the others follow in the order of the better heuristic.
    let in_use = order.iter().position(|one| key.policy.allows(&one.algorithm).is_ok()).unwrap_or(0);
    let others = order.split_off((in_use + 1).min(order.len()));
    order.extend(proposals.iter().cloned());
    order.extend(others);
    let mut list: Vec<Ready> = Vec::new();
    for candidate in order {
        let engine = &candidate.algorithm.engine;
        let twice = list.iter().any(|one| one.candidate.algorithm.engine == *engine);
        if twice || list.len() >= most || known.refuses(engine) || key.policy.allows(&candidate.algorithm).is_err() {
            continue;
        }
        match ready(gpu, &key.problem, &candidate.algorithm, &key.policy) {
            Ok((solver, algorithm)) => {
                let candidate = Candidate { algorithm, nanos: 0, rank: candidate.rank };
                list.push(Ready { candidate, solver, nanos: 0, failed: false });
            }
            Err(why) => note(known, &candidate.algorithm, &why),
        }
    }
    known.propose(&proposals, None);
    list
}

/// Puts the measured candidates first into the ranking, with the winner before all, and the failed ones among the
/// refused. Candidates that were measured before, under another policy, stand where their times put them.
fn rank(known: &mut Ranking, ready: &[Ready], winner: usize) {
    for one in ready.iter().filter(|one| one.failed) {
        known.refuse(&one.candidate.algorithm.engine, RefusalReason::Fails);
    }
    let mut places: Vec<usize> =
        (0..ready.len()).filter(|&place| !ready[place].failed && ready[place].nanos > 0).collect();
    places.sort_by_key(|&place| (place != winner, ready[place].nanos));
    let mut order: Vec<Candidate> =
        places.iter().map(|&place| Candidate { nanos: ready[place].nanos, ..ready[place].candidate.clone() }).collect();
    for older in std::mem::take(&mut known.candidates) {
        if order.iter().all(|one| one.algorithm.engine != older.algorithm.engine) {
            let place = order.iter().position(|one| older.nanos > 0 && older.nanos < one.nanos);
            order.insert(place.unwrap_or(order.len()), older);
        }
    }
    known.candidates = order;
    known.propose(&[], None);
}

/// Puts the winner in the place of the solver in use.
fn replace(cx: &BuildCx, key: &SolverKey, winner: &Ready) {
    let Ready { candidate, solver, .. } = winner;
    let algorithm = Some(candidate.algorithm.clone());
    let value = Solution { solver: Some(solver.clone()), algorithm, origin: Origin::Measured };
    cx.cache.put(key, Built { bytes: value.weigh(), value, from_record: false });
}

/// Memory of one problem's operands, and of the scratch that its candidates need.
struct Bench {
    left: Region,
    right: Region,
    bias: Option<Region>,
    residual: Option<Region>,
    output: Region,
    scratch: Option<Region>,
}

impl Bench {
    /// Takes the memory, filled with small numbers; `None` where it is too much.
    fn set(gpu: &GpuCx, problem: &Problem, ready: &[Ready]) -> Option<Bench> {
        let [left, right, output] = problem.extents()?.map(|elements| elements.saturating_mul(4));
        let epilogue = problem.epilogue();
        let bias = if epilogue.bias { problem.columns() * 4 } else { 0 };
        let residual = if epilogue.residual { output } else { 0 };
        let scratch = ready.iter().map(|one| one.solver.workspace()).max().unwrap_or(0);
        let all = [left, right, output, bias, residual, scratch];
        let modest =
            all.iter().try_fold(0u64, |sum, &bytes| sum.checked_add(bytes)).is_some_and(|all| all <= MOST_BYTES);
        let filled = |bytes: u64| -> Option<Region> {
            let region = gpu.arena.take(bytes).ok()?;
            // The power that a device draws, and so its clock, depends on the numbers: zeros would be too fast.
            let numbers: Vec<f32> = (0..bytes / 4).map(|place| (place % 13) as f32 / 64.0 - 0.1).collect();
            gpu.device.upload(bytemuck::cast_slice(&numbers), &region).ok()?;
            Some(region)
        };
        let present = |bytes: u64| if bytes > 0 { filled(bytes).map(Some) } else { Some(None) };
        if !modest {
            return None;
        }
        Some(Bench {
            left: filled(left)?,
            right: filled(right)?,
            bias: present(bias)?,
            residual: present(residual)?,
            output: gpu.arena.take(output).ok()?,
            scratch: if scratch > 0 { Some(gpu.arena.take(scratch).ok()?) } else { None },
        })
    }

    fn run(&self, solver: &dyn Solver) -> KernelResult<()> {
        let Bench { left, right, bias, residual, output, scratch } = self;
        let operands = Operands { left, right, bias: bias.as_ref(), residual: residual.as_ref(), output };
        solver.run(&operands, scratch.as_ref())
    }
}

/// The contest's view of the candidates.
struct Trial<'t, 'l> {
    gpu: &'t GpuCx,
    bench: Bench,
    ready: Vec<Ready>,
    measure: &'t mut MeasureCx<'l>,
}

impl Runner for Trial<'_, '_> {
    fn sample(&mut self, candidate: usize) -> Sample {
        let Some(arrivals) = self.measure.requests.await_quiet() else { return Sample::Stopped };
        let Ready { solver, nanos, .. } = &self.ready[candidate];
        // The first run decides how many runs make a sample.
        let runs = if *nanos == 0 { 1 } else { (SAMPLE / nanos).clamp(1, MOST_RUNS) };
        let start = Instant::now();
        let (device, bench) = (&self.gpu.device, &self.bench);
        let mut work = || (0..runs).try_for_each(|_| bench.run(&**solver));
        let time = catch_unwind(AssertUnwindSafe(|| device.time(&mut work)));
        self.measure.spent += start.elapsed();
        let ready = &mut self.ready[candidate];
        match time {
            Ok(Ok(_)) if self.measure.requests.arrivals() != arrivals => Sample::Void,
            Ok(Ok(time)) => {
                let time = (time / runs).max(1);
                ready.nanos = if ready.nanos == 0 { time } else { ready.nanos.min(time) };
                Sample::Nanos(time)
            }
            Ok(Err(_)) | Err(_) => {
                ready.failed = true;
                Sample::Failed
            }
        }
    }
}
