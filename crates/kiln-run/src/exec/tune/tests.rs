//! The tuner on a family whose candidates take as long as their choice says, fail, panic, or are not accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use kiln_cache::{Cache, Limits, Outcome};
use kiln_kernels::cpu::Numerics;
use kiln_kernels::{Isa, KernelError, Parallel, Result as KernelResult};
use kiln_key::Key;
use serde::{Deserialize, Serialize};

use super::*;
use crate::exec::{BuildCx, Family};
use crate::record::{Evidence, EvidenceKind, Recorded, Store};

/// A problem whose executor is its choice, a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "sleeper", value = u32)]
struct Sleeper {
    pub number: u32,
}

impl Recorded for Sleeper {
    const REVISION: u32 = 1;
    type Choice = u32;
}

/// The cost model's pick: 2 milliseconds, far enough from the best that a busy machine does not change the verdict.
const PICKED: u32 = 2000;
/// A choice that cannot be built.
const UNBUILDABLE: u32 = 1;
/// A choice whose execution panics.
const PANICS: u32 = 2;
/// A choice whose execution fails.
const FAILS: u32 = 3;
/// A choice that no key accepts.
const FOREIGN: u32 = 4;
/// The best choice: 50 microseconds.
const BEST: u32 = 50;

/// A choice whose execution ends when [`GATE`] is opened.
const GATED: u32 = 5;

static FOREIGN_BUILDS: AtomicU32 = AtomicU32::new(0);
/// Executions of [`GATED`] that have begun.
static GATED_RUNS: AtomicU32 = AtomicU32::new(0);
static GATE: AtomicBool = AtomicBool::new(false);

impl Family for Sleeper {
    fn choose(&self, _: &BuildCx) -> u32 {
        PICKED
    }

    fn accepts(&self, choice: &u32, _: &BuildCx) -> bool {
        *choice != FOREIGN
    }

    fn build(&self, choice: &u32, _: &BuildCx) -> KernelResult<u32> {
        FOREIGN_BUILDS.fetch_add(u32::from(*choice == FOREIGN), Ordering::SeqCst);
        match *choice {
            UNBUILDABLE => Err(KernelError::Unsupported { family: "sleeper", reason: "on purpose".to_owned() }),
            choice => Ok(choice),
        }
    }

    fn fits(&self, _: &BuildCx) -> bool {
        true
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(0)
    }

    const TUNED: bool = true;

    fn candidates(&self, _: &BuildCx, _: usize) -> Vec<u32> {
        match self.number {
            0 => vec![PICKED, FOREIGN, UNBUILDABLE, PANICS, FAILS, BEST],
            1 => vec![PICKED],
            6 => vec![PICKED, GATED],
            _ => vec![PICKED, BEST],
        }
    }

    fn trial(&self, value: &u32, _: Operands<'_>, _: &dyn Parallel) -> KernelResult<()> {
        match *value {
            PANICS => panic!("on purpose"),
            GATED => {
                GATED_RUNS.fetch_add(1, Ordering::SeqCst);
                while !GATE.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            }
            FAILS => Err(KernelError::Unsupported { family: "sleeper", reason: "on purpose".to_owned() }),
            micros => {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(micros.into()) {}
                Ok(())
            }
        }
    }
}

fn context() -> BuildCx {
    BuildCx {
        isa: Isa::Portable,
        threads: 2,
        numerics: Numerics::Default,
        precision: Default::default(),
        cache: Arc::new(Cache::new(Limits { entries: 10_000, bytes: 1 << 20 })),
        records: Arc::new(Store::in_memory()),
        check: false,
        gpu: None,
    }
}

fn started(tune: Tune, cx: &BuildCx) -> Tuner {
    Tuner::start(tune, cx, 0, None).expect("a thread can be started")
}

/// Longer than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_better_candidate_takes_the_place_of_the_pick_and_is_recorded() {
    let cx = context();
    let key = Sleeper { number: 7 };
    let (first, outcome) = cx.executor(&key).unwrap();
    assert_eq!((*first, outcome), (PICKED, Outcome::Miss));
    let tuner = started(Tune::Fast, &cx);
    let _ = tuner.note(&key);
    assert!(tuner.settle(PATIENCE));
    assert_eq!(tuner.generation(), 1);
    let (now, outcome) = cx.executor(&key).unwrap();
    assert_eq!((*now, outcome), (BEST, Outcome::Hit));
    let (choice, evidence) = cx.records.lookup_with_evidence(&key).unwrap();
    assert_eq!((choice, evidence.kind), (BEST, EvidenceKind::Measured));
    assert!(evidence.nanos >= 50_000 && evidence.against >= 2_000_000 && evidence.samples > 0, "{evidence:?}");
    let report = tuner.report();
    assert_eq!((report.tuned, report.changed, report.waiting, report.changes.len()), (1, 1, 0, 1));
    let change = &report.changes[0];
    assert_eq!((&change.from, &change.to), (&PICKED.to_string(), &BEST.to_string()));
}

#[test]
fn candidates_that_fail_panic_or_are_not_accepted_change_nothing_else() {
    let cx = context();
    let tuner = started(Tune::Full, &cx);
    let _ = tuner.note(&Sleeper { number: 0 });
    assert!(tuner.settle(PATIENCE));
    assert_eq!(cx.records.lookup(&Sleeper { number: 0 }), Some(BEST));
    assert_eq!(FOREIGN_BUILDS.load(Ordering::SeqCst), 0);
    assert_eq!(tuner.report().failed, 0);
}

#[test]
fn what_was_measured_is_not_measured_again_and_what_leaves_no_choice_is_not_measured_at_all() {
    let cx = context();
    cx.records.insert(&Sleeper { number: 5 }, &300, Evidence::measured(1, 1));
    let tuner = started(Tune::Fast, &cx);
    for number in [5, 1, 5, 1] {
        let _ = tuner.note(&Sleeper { number });
    }
    assert!(tuner.settle(PATIENCE));
    let report = tuner.report();
    assert_eq!((report.known, report.single, report.tuned, report.time), (1, 1, 0, Duration::ZERO));
    assert_eq!((cx.records.lookup(&Sleeper { number: 5 }), tuner.generation()), (Some(300), 0));
}

#[test]
fn a_record_that_its_key_does_not_accept_is_measured_anew() {
    let cx = context();
    cx.records.insert(&Sleeper { number: 5 }, &FOREIGN, Evidence::measured(1, 1000));
    assert_eq!(*cx.executor(&Sleeper { number: 5 }).unwrap().0, PICKED);
    let tuner = started(Tune::Fast, &cx);
    let _ = tuner.note(&Sleeper { number: 5 });
    assert!(tuner.settle(PATIENCE));
    assert_eq!((tuner.report().tuned, cx.records.lookup(&Sleeper { number: 5 })), (1, Some(BEST)));
}

#[test]
fn nothing_runs_while_a_request_does() {
    let cx = context();
    let tuner = started(Tune::Fast, &cx);
    let request = tuner.request();
    let _ = tuner.note(&Sleeper { number: 2 });
    assert!(!tuner.settle(Duration::from_millis(50)), "it has to wait for the request");
    let report = tuner.report();
    assert_eq!((report.tuned, report.waiting, report.time), (0, 1, Duration::ZERO));
    drop(request);
    assert!(tuner.settle(PATIENCE));
    assert_eq!(tuner.report().tuned, 1);
}

#[test]
fn the_queue_is_bounded_and_stopping_does_not_wait_for_it() {
    let cx = context();
    let tuner = started(Tune::Full, &cx);
    let request = tuner.request();
    for number in 2..5002 {
        let _ = tuner.note(&Sleeper { number });
    }
    let report = tuner.report();
    assert_eq!(report.waiting + report.dropped, 5000);
    // One may be in the worker's hand.
    assert!((4096..=4097).contains(&report.waiting), "{} wait", report.waiting);
    drop(request);
    let start = Instant::now();
    drop(tuner);
    assert!(start.elapsed() < Duration::from_secs(5), "4000 keys would take minutes");
}

#[test]
fn the_time_for_all_keys_is_bounded() {
    let cx = context();
    let tuner = Tuner::start(Tune::Fast, &cx, 0, Some(Duration::from_millis(1))).expect("a thread can be started");
    for number in 2..10 {
        let _ = tuner.note(&Sleeper { number });
    }
    assert!(tuner.settle(PATIENCE));
    let _ = tuner.note(&Sleeper { number: 99 });
    let report = tuner.report();
    assert_eq!((report.tuned, report.dropped), (1, 8), "one key takes more than a millisecond");
}

#[test]
fn nobody_waits_behind_a_measurement() {
    let cx = context();
    let tuner = Arc::new(started(Tune::Full, &cx));
    let key = Sleeper { number: 6 };
    let _ = tuner.note(&key);
    let start = Instant::now();
    while GATED_RUNS.load(Ordering::SeqCst) == 0 {
        assert!(start.elapsed() < PATIENCE, "the measurement never began");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The measurement cannot end before the gate is opened, so a caller that waited for it would wait for ever.
    let (tell, told) = std::sync::mpsc::channel();
    let theirs = (cx.clone(), Arc::clone(&tuner));
    std::thread::spawn(move || {
        let (cx, tuner) = theirs;
        let _request = tuner.request();
        let asked: Vec<u32> = [6, 2, 6].map(|number| *cx.executor(&Sleeper { number }).unwrap().0).into();
        let noted = tuner.note(&Sleeper { number: 2 }).is_some() && tuner.note(&Sleeper { number: 6 }).is_some();
        let _ = tell.send((asked, noted, tuner.report().waiting));
    });
    let answer = told.recv_timeout(PATIENCE);
    GATE.store(true, Ordering::SeqCst);
    assert_eq!(answer, Ok((vec![PICKED; 3], true, 2)));
    assert!(tuner.settle(PATIENCE));
}

#[test]
fn a_standing_is_marked_when_its_executor_is_replaced_and_never_else() {
    let cx = context();
    cx.records.insert(&Sleeper { number: 5 }, &300, Evidence::measured(1, 1));
    let tuner = started(Tune::Fast, &cx);
    let request = tuner.request();
    let [known, single, open, same] = [5, 1, 8, 8].map(|number| tuner.note(&Sleeper { number }).expect("it waits"));
    assert!(Arc::ptr_eq(&open, &same), "all holders of an executor share one");
    assert_eq!(*cx.executor(&Sleeper { number: 8 }).unwrap().0, PICKED);
    assert!(!open.is_replaced());
    drop(request);
    assert!(tuner.settle(PATIENCE));
    assert!(open.is_replaced() && !known.is_replaced() && !single.is_replaced());
    for number in [5, 1, 8] {
        assert!(tuner.note(&Sleeper { number }).is_none(), "what is over changes no more");
    }
    assert_eq!(*cx.executor(&Sleeper { number: 8 }).unwrap().0, BEST);
}

#[test]
fn a_key_that_found_the_queue_full_keeps_its_standing() {
    let cx = context();
    let tuner = started(Tune::Fast, &cx);
    let request = tuner.request();
    (10..5010).for_each(|number| drop(tuner.note(&Sleeper { number })));
    let [first, again] = [5009, 5009].map(|number| tuner.note(&Sleeper { number }).expect("it may be tuned later"));
    assert!(Arc::ptr_eq(&first, &again));
    assert!(tuner.report().dropped > 0);
    drop((request, first));
}

#[test]
fn a_policy_of_off_has_no_tuner() {
    assert!(Tuner::start(Tune::Off, &context(), 0, None).is_none());
}
