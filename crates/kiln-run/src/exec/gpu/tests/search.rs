//! Searches on an emulated device: the winner, the record of the others, and when nothing is measured.

use std::sync::Arc;
use std::time::Duration;

use kiln_kernels::gpu::emulated::{Failure, Proposal, Script};
use kiln_kernels::gpu::{ConvProblem, Engine, Notes, Policy, Problem};

use super::*;
use crate::exec::tune::{Tune, TuneReport, Tuner};
use crate::record::{EvidenceKind, Store};

/// Longer than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn winograd() -> Engine {
    graph(5, &[])
}

/// Has one problem measured.
fn search(process: &Process, problem: &Problem, tune: Tune) -> TuneReport {
    let tuner = Tuner::start(tune, &process.cx, 0, None).unwrap();
    let standing = tuner.note_solver(&SolverKey::new(problem, process.gpu())).unwrap();
    assert!(tuner.settle(PATIENCE));
    let report = tuner.report();
    assert_eq!(standing.is_replaced(), report.changed == 1);
    report
}

fn process(script: Script) -> Process {
    Process::new(script, Policy::default(), Store::in_memory())
}

/// Two ways, of `first` and of `second` nanoseconds.
fn two(first: u64, second: u64) -> Script {
    let convolutions = vec![Proposal::new(graph(1, &[]), 0, first), Proposal::new(graph(2, &[]), 1 << 10, second)];
    Script { convolutions, ..Script::default() }
}

#[test]
fn the_fastest_that_is_allowed_takes_the_place_of_the_first_and_all_are_recorded() {
    for tune in [Tune::Fast, Tune::Full] {
        let process = Process::plain();
        assert_eq!(process.engine(&conv()), Some(ordinary()));
        assert_eq!(process.device.counts().times, 0, "a request measures nothing");
        let report = search(&process, &conv(), tune);
        assert_eq!((report.tuned, report.changed), (1, 1));
        let change = &report.changes[0];
        assert_eq!((change.before, change.after), (60_000, 40_000));
        assert_eq!((change.from.as_str(), change.to.as_str()), ("engine 11 {2:1}", "engine 5"));
        let (solution, outcome) = process.solve(&conv());
        assert_eq!((outcome, solution.origin), (Outcome::Hit, Origin::Measured));
        assert_eq!(process.engine(&conv()), Some(winograd()));
        let (ranking, evidence) = process.known();
        assert_eq!((evidence.kind, evidence.nanos, evidence.against), (EvidenceKind::Measured, 40_000, 50_000));
        assert!(evidence.samples >= 2);
        assert_eq!(ranking.measured_under, Some(Policy::default()));
        assert_eq!(engines(&ranking), [winograd(), split(), ordinary(), LEGACY, tensor_core()]);
        let times: Vec<u64> = ranking.candidates.iter().map(|one| one.nanos).collect();
        assert_eq!(times, [40_000, 50_000, 60_000, 80_000, 0]);
        assert_eq!(process.gpu().arena.stats().lent, 0, "the operands are given back");
    }
}

#[test]
fn what_was_measured_is_not_measured_again_and_serves_stricter_callers() {
    let first = Process::plain();
    first.solve(&conv());
    search(&first, &conv(), Tune::Fast);
    let cases = [
        (Policy::default(), winograd(), Origin::Replayed),
        (Policy { deterministic: true, ..Policy::default() }, winograd(), Origin::Replayed),
        (Policy { transforms: false, ..Policy::default() }, split(), Origin::RunnerUp(1)),
        (Policy { transforms: false, deterministic: true, ..Policy::default() }, ordinary(), Origin::RunnerUp(2)),
        (
            Policy { transforms: false, deterministic: true, workspace: 0, ..Policy::default() },
            LEGACY,
            Origin::RunnerUp(3),
        ),
    ];
    for (policy, engine, origin) in cases {
        let next = first.next(Script::default(), policy);
        assert_eq!((next.engine(&conv()), next.solve(&conv()).0.origin), (Some(engine), origin));
        assert_eq!(search(&next, &conv(), Tune::Full).known, 1);
        let counts = next.device.counts();
        assert_eq!((counts.heuristics, counts.times, counts.solvers), (0, 0, 1), "{policy:?}");
    }
}

#[test]
fn a_laxer_policy_is_served_from_the_record_and_measured_when_asked_for() {
    let first = Process::plain();
    first.solve(&conv());
    search(&first, &conv(), Tune::Full);
    let lax = first.next(Script::default(), Policy { tf32: true, ..Policy::default() });
    assert_eq!(lax.engine(&conv()), Some(winograd()), "it is known to be fast");
    let report = search(&lax, &conv(), Tune::Full);
    assert_eq!((report.tuned, report.changed), (1, 1));
    assert_eq!(lax.engine(&conv()), Some(tensor_core()));
    let (ranking, evidence) = lax.known();
    assert_eq!(engines(&ranking), [tensor_core(), winograd(), split(), ordinary(), LEGACY]);
    assert!(evidence.beats(&first.known().1), "the samples of both count");
    // And the strict one has lost nothing by it.
    assert_eq!(lax.next(Script::default(), Policy::default()).engine(&conv()), Some(winograd()));
}

#[test]
fn the_first_proposal_stays_unless_another_saves_the_margin() {
    for (second, changed) in [(97_000, 0), (95_500, 0), (94_500, 1), (90_000, 1)] {
        let process = process(two(100_000, second));
        process.solve(&conv());
        let report = search(&process, &conv(), Tune::Full);
        assert_eq!((report.tuned, report.changed), (1, changed), "{second}");
        let (ranking, evidence) = process.known();
        let order = if changed == 1 { [2, 1] } else { [1, 2] };
        assert_eq!(engines(&ranking), order.map(|index| graph(index, &[])));
        assert_eq!((evidence.kind, ranking.candidates.len()), (EvidenceKind::Measured, 2));
        let next = process.next(two(100_000, second), Policy::default());
        assert_eq!(next.engine(&conv()), Some(graph(order[0], &[])), "the order is what counts, not the times");
    }
}

#[test]
fn what_fails_in_a_search_is_refused_for_ever_and_disturbs_nobody() {
    let script = || broken(broken(Script::default(), &winograd(), Failure::Run), &split(), Failure::Solver);
    let process = process(script());
    process.solve(&conv());
    let report = search(&process, &conv(), Tune::Full);
    assert_eq!((report.tuned, report.changed), (1, 0));
    let (ranking, _) = process.known();
    let refused = [(split(), RefusalReason::Unsupported), (winograd(), RefusalReason::Fails)];
    assert_eq!(ranking.refused, refused.map(|(engine, reason)| Refused { engine, reason }));
    assert_eq!(engines(&ranking), [ordinary(), LEGACY, tensor_core(), huge()]);
    // The next search, for a laxer caller and of a library that has mended itself, does not try them.
    let next = process.next(Script::default(), Policy { tf32: true, ..Policy::default() });
    assert_eq!(search(&next, &conv(), Tune::Full).tuned, 1);
    assert_eq!(next.device.counts().solvers, 3);
    assert_eq!(engines(&next.known().0), [tensor_core(), ordinary(), LEGACY, huge()]);
}

#[test]
fn what_cannot_be_measured_stays_as_it_is() {
    // A problem that is larger than the memory that a search may take.
    let large = Problem::Conv(ConvProblem { batch: 1 << 16, channels: 64, input: [1, 64, 64], ..CONV });
    let process = Process::plain();
    process.solve(&large);
    assert_eq!(search(&process, &large, Tune::Fast).large, 1);
    // One way alone.
    let single = without(two(100, 200), &[graph(2, &[])]);
    let process = self::process(single);
    process.solve(&conv());
    assert_eq!(search(&process, &conv(), Tune::Fast).single, 1);
    assert_eq!(process.known().1.kind, EvidenceKind::Model);
    // None that runs.
    let process = self::process(broken(two(100, 200), &graph(1, &[]), Failure::Run));
    process.solve(&conv());
    assert_eq!(search(&process, &conv(), Tune::Fast).failed, 1);
    assert_eq!(process.engine(&conv()), Some(graph(1, &[])));
    // A library that has nothing to say.
    let process = self::process(Script { heuristics_fail: true, ..Script::default() });
    assert_eq!(search(&process, &conv(), Tune::Fast).failed, 1);
    assert!(process.cx.records.list().is_empty());
}

#[test]
fn of_two_processes_records_the_better_proven_one_stays() {
    let modelled = Process::plain();
    modelled.solve(&conv());
    let measured = Process::plain();
    measured.solve(&conv());
    search(&measured, &conv(), Tune::Fast);
    let merged = |first: &Process, second: &Process| {
        let records = Store::in_memory();
        for record in first.cx.records.list().iter().chain(&second.cx.records.list()) {
            records.insert_record(record);
        }
        Process::new(Script::default(), Policy::default(), records)
    };
    for both in [merged(&modelled, &measured), merged(&measured, &modelled)] {
        assert_eq!(both.cx.records.list().len(), 1);
        assert_eq!(both.engine(&conv()), Some(winograd()));
        assert_eq!(both.device.counts().heuristics, 0);
    }
}

#[test]
fn rankings_of_policies_that_cannot_be_compared_are_one_order_by_time() {
    let process = Process::plain();
    process.solve(&conv());
    search(&process, &conv(), Tune::Full);
    // It allows less in one respect and more in another.
    let other = process.next(Script::default(), Policy { tf32: true, transforms: false, ..Policy::default() });
    other.solve(&conv());
    assert_eq!(search(&other, &conv(), Tune::Full).changed, 1);
    let (ranking, _) = other.known();
    assert_eq!(engines(&ranking), [tensor_core(), winograd(), split(), ordinary(), LEGACY]);
    assert!(!ranking.is_measured_for(&Policy::default()));
    assert!(Notes(1 << 6).has(Notes::WINOGRAD));
    let solution: Arc<Solution> = other.next(Script::default(), Policy::default()).solve(&conv()).0;
    assert_eq!(solution.origin, Origin::RunnerUp(1));
}
