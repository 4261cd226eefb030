//! The measurement of one key: builds and measures its candidates, and records and installs the winner.
//!
//! An error or a panic of a candidate has no effect on requests: the executor in use stays in use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use kiln_cache::Built;
use kiln_kernels::Pool;
use kiln_kernels::crash::within;

use super::Effort;
use super::contest::{self, NoVerdict, Runner, Sample};
use super::operands::{Demand, OperandMemory};
use super::report::{Ended, TuneChange};
use super::requests::Requests;
use crate::exec::{BuildCx, Family};
use crate::record::{Evidence, EvidenceKind};

/// The share of the incumbent's time that another choice must save to replace it: more than the noise.
const MARGIN: f64 = 0.03;

/// A key that was asked for, of any family.
pub(super) trait TuningJob: Send {
    /// Measures the key.
    fn run(&self, measure: &mut MeasureCx<'_>) -> Ended;
}

/// What measuring needs.
pub(super) struct MeasureCx<'a> {
    pub(super) cx: &'a BuildCx,
    pub(super) effort: &'a Effort,
    pub(super) pool: &'a Pool,
    pub(super) memory: &'a mut OperandMemory,
    pub(super) requests: &'a Requests,
    /// Time of all runs.
    pub(super) spent: Duration,
}

/// A [`TuningJob`] for a key.
pub(super) struct KeyJob<K>(pub(super) K);

/// A candidate that is ready to run.
struct Ready<K: Family> {
    choice: K::Choice,
    value: K::Value,
    demand: Demand,
}

impl<K: Family> TuningJob for KeyJob<K> {
    fn run(&self, measure: &mut MeasureCx<'_>) -> Ended {
        let (key, cx) = (&self.0, measure.cx);
        let kept = cx.records.lookup_with_evidence(key).filter(|(choice, _)| key.accepts(choice, cx));
        let incumbent = match kept {
            Some((_, evidence)) if evidence.kind == EvidenceKind::Measured => return Ended::Known,
            Some((choice, _)) => choice,
            None => key.choose(cx),
        };
        let mut choices = vec![incumbent];
        for choice in key.candidates(cx, measure.effort.candidates) {
            if choices.len() < measure.effort.candidates && !choices.contains(&choice) && key.accepts(&choice, cx) {
                choices.push(choice);
            }
        }
        if choices.len() < 2 {
            return Ended::Single;
        }
        let mut ready: Vec<Ready<K>> = Vec::with_capacity(choices.len());
        for (place, choice) in choices.into_iter().enumerate() {
            let built = catch_unwind(AssertUnwindSafe(|| key.build(&choice, cx)));
            let Ok(Ok(value)) = built else {
                // Without the incumbent there is nothing to compare with.
                if place == 0 {
                    return Ended::Failed;
                }
                continue;
            };
            let demand = key.demand(&value);
            match (demand.is_modest(), place) {
                (true, _) => ready.push(Ready { choice, value, demand }),
                (false, 0) => return Ended::Large,
                (false, _) => {}
            }
        }
        ready.iter().for_each(|one| measure.memory.provide(&one.demand));
        let margins = vec![MARGIN; ready.len()];
        let rules = measure.effort.rules;
        let verdict = contest::hold(&margins, &rules, &mut Trial { key, ready: &ready, measure });
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(NoVerdict::Stopped) => return Ended::Stopped,
            Err(NoVerdict::Failed) => return Ended::Failed,
        };
        let evidence = Evidence::measured(verdict.nanos, verdict.samples).against(verdict.against);
        let from = format!("{:?}", ready[0].choice);
        let winner = ready.swap_remove(verdict.winner);
        cx.records.insert(key, &winner.choice, evidence);
        if verdict.winner == 0 {
            return Ended::Tuned(None);
        }
        let change = TuneChange {
            family: K::FAMILY,
            key: format!("{key:?}"),
            from,
            to: format!("{:?}", winner.choice),
            before: verdict.incumbent,
            after: verdict.nanos,
        };
        let bytes = K::ENTRY_BYTES + K::weigh(&winner.value);
        cx.cache.put(key, Built { value: winner.value, bytes, from_record: false });
        Ended::Tuned(Some(change))
    }
}

/// The contest's view of the candidates.
struct Trial<'t, 'l, K: Family> {
    key: &'t K,
    ready: &'t [Ready<K>],
    measure: &'t mut MeasureCx<'l>,
}

impl<K: Family> Runner for Trial<'_, '_, K> {
    fn sample(&mut self, candidate: usize) -> Sample {
        let Ready { value, demand, .. } = &self.ready[candidate];
        let Some(arrivals) = self.measure.requests.await_quiet() else { return Sample::Stopped };
        let operands = self.measure.memory.lend(demand);
        let start = Instant::now();
        let run = catch_unwind(AssertUnwindSafe(|| {
            within(&format_args!("measuring {:?}", self.key), || self.key.trial(value, operands, self.measure.pool))
        }));
        let time = start.elapsed();
        self.measure.spent += time;
        match run {
            _ if self.measure.requests.arrivals() != arrivals => Sample::Void,
            Ok(Ok(())) => Sample::Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            Ok(Err(_)) | Err(_) => Sample::Failed,
        }
    }
}
