//! Rehearsal: while a model is loaded, plans are made for requests of earlier processes, with executors that are
//! rebuilt from records, and one of these requests is run on zeros, so that the first real request finds code, weights,
//! memory and threads as warm as the second one does.
//!
//! Request records are types and shapes ([`kiln_run::exec::request`]), and like records of executors they are untrusted:
//! they are checked against the model's declarations, nothing is chosen for them, they get little memory, and all of it
//! ends after a part of the time of loading. Only executors that nodes of this model look up are built: records of
//! other models in a shared file cost nothing. Failures are not errors, and the runs here do not count as requests.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use kiln_fork::Mutex;
use kiln_model::{Stop, Value};
use kiln_run::exec::gpu;
use kiln_run::exec::request::{MOST_REQUESTS, RequestKey};
use kiln_run::exec::{BuildCx, Share};
use kiln_run::record::{CacheMode, Store};
use kiln_run::{Foresight, LoopBudget, Resources, Served};
use kiln_tensor::{BufferPool, Tensor, TensorSpec, installed_bytes};

use super::{LoadClock, Port, Session};

/// The records of the requests of a session's model.
pub(super) struct Requests {
    model: u64,
    threads: u32,
    /// Requests, with the nanoseconds that each took.
    known: Mutex<HashMap<RequestKey, u64>>,
}

/// Plans and the run on zeros together take at most this part of the time that loading took before; plans half of that.
const SHARE: u32 = 3;

/// Executors are rebuilt for as long as loading took before, or for this long if that was shorter: other executors are
/// built when a request needs them.
const BUILDING: Duration = Duration::from_millis(20);

/// The same for solvers and kernels of a device, whose libraries and compiler take longer.
const DEVICE: Duration = Duration::from_secs(2);

/// Most bytes of executors that are rebuilt.
const EXECUTORS: u64 = 64 << 20;

/// The least time for plans and the run on zeros, however short loading was: too short to be noticed.
const UNSEEN: Duration = Duration::from_millis(1);

/// Most bytes of a plan's constants (small tensors, sizes taken apart and put together again) and of zeros.
const REHEARSAL_BYTES: usize = 16 << 20;

/// Longer requests are not run on zeros: a first request pays some hundred microseconds for cold caches, however long
/// it takes.
const LONG: Duration = Duration::from_millis(4);

/// Most runs of a request on zeros. In a cache that other cores share, a model's weights stay only after they have been
/// read two or three times.
const RUNS: usize = 3;

/// Most bytes of the tensors of a request that is run on zeros, for each nanosecond of its time: as many as a processor
/// can move.
const BYTES_PER_NANO: u128 = 16;

/// All tensors of a planned request may take at most this part of the machine's memory.
const MOST_PART: usize = 8;

impl Requests {
    /// The records of that model in that context; `None` if requests are not recorded.
    pub(super) fn of(model: u64, build: &BuildCx) -> Option<Requests> {
        let kept = build.records.mode() != CacheMode::Off && build.gpu.is_none();
        kept.then(|| Requests { model, threads: build.threads as u32, known: Mutex::default() })
    }

    /// Records a request that left a plan, or the first repeat of one.
    pub(super) fn note(&self, served: &Served, records: &Store) {
        let Some(key) = RequestKey::new(self.model, self.threads, &served.inputs) else { return };
        if key.specs().is_none() {
            return;
        }
        let nanos = u64::try_from(served.time.as_nanos()).unwrap_or(u64::MAX);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (full, before) = (known.len() >= MOST_REQUESTS, known.get(&key).copied());
        match before {
            // The first run is slower than its repeats, so a much shorter time replaces it.
            Some(before) if nanos >= before - before / 4 => return,
            None if full => return,
            _ => known.insert(key.clone(), nanos),
        };
        drop(known);
        key.note(nanos, if before.is_some() { 2 } else { 1 }, records);
    }
}

/// A request that may be run on zeros.
struct Candidate {
    specs: Vec<Option<TensorSpec>>,
    /// Its time.
    nanos: u64,
    /// Bytes of all its tensors.
    bytes: usize,
}

impl Session {
    /// Types and shapes of the recorded requests of this model, the shortest first. Records are untrusted hints: the
    /// memory and time of such a request must be bounded.
    #[must_use]
    pub fn remembered(&self) -> Vec<Vec<Option<TensorSpec>>> {
        let Some(requests) = &self.requests else { return Vec::new() };
        let known = requests.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<(u64, &RequestKey)> = known.iter().map(|(key, &nanos)| (nanos, key)).collect();
        known.sort_by_key(|(nanos, _)| *nanos);
        known.into_iter().filter_map(|(_, key)| key.specs()).collect()
    }

    /// Makes plans of the recorded requests, and runs the shortest one, within the time that follows from `begun`.
    /// Returns the number of executors that were rebuilt.
    pub(super) fn rehearse(&self, begun: &LoadClock) -> usize {
        let (took, stop) = (begun.at.elapsed(), begun.stop.as_ref());
        if self.build.gpu.is_some() {
            let build = BuildCx { records: self.build.records.ahead_of_need(), ..self.build.clone() };
            return gpu::prepare(&build, Instant::now() + bounded(stop, DEVICE.max(took)));
        }
        let Some(requests) = self.requests.as_ref().filter(|_| self.executable.foresees()) else { return 0 };
        let recalled = RequestKey::recall(requests.model, requests.threads, &self.build.records);
        let mut built = 0;
        if recalled.is_empty() {
            // The first request will leave records.
            self.build.records.expect();
        } else {
            built = self.rehearse_for([UNSEEN.max(took / SHARE), BUILDING.max(took)], stop, &recalled);
        }
        requests.known.lock().unwrap_or_else(PoisonError::into_inner).extend(recalled);
        built
    }

    /// As [`Session::rehearse`], with a time for plans and the run, and another for rebuilding executors.
    fn rehearse_for(
        &self,
        [time, building]: [Duration; 2],
        stop: Option<&Stop>,
        recalled: &[(RequestKey, u64)],
    ) -> usize {
        let begun = Instant::now();
        let limit = |time: Duration| Stop::after(Some(bounded(stop, time)), None);
        let (Some(plans), Some(building)) = (limit(time / 2), limit(building)) else { return 0 };
        let build = BuildCx { records: self.build.records.ahead_of_need(), ..self.build.clone() };
        let share = Share::default();
        let buffers = BufferPool::bounded(REHEARSAL_BYTES, REHEARSAL_BYTES);
        let loops = LoopBudget::new(self.loops);
        let watched = building.watch(&self.threads);
        let resources = Resources {
            build: &build,
            parallel: &watched,
            buffers: &buffers,
            // A tuner notes keys when requests look up executors, which requests with a plan do not do.
            plans: self.kept.plans.as_ref().filter(|_| self.tuner.is_none()),
            tuner: None,
            share: Some(&share),
            loops: &loops,
            stop: Some(&building),
            observer: None,
        };
        let most = Foresight { tensors: installed_bytes() / MOST_PART, executors: EXECUTORS };
        let mut least: Option<Candidate> = None;
        let mut before = 0;
        for (place, (key, nanos)) in recalled.iter().enumerate() {
            // A plan whose executors exist already saves little; while executors are still rebuilt, the next plan saves
            // more.
            let built = share.stats().record_hits;
            let idle = place > 0 && std::mem::replace(&mut before, built) == built;
            if building.check().is_err() || (idle && plans.check().is_err()) {
                break;
            }
            let Some(specs) = key.specs().filter(|specs| self.fits(specs)) else { continue };
            let Some(bytes) = self.executable.foresee(&specs, &most, &resources) else { continue };
            if least.as_ref().is_none_or(|least| *nanos < least.nanos) {
                least = Some(Candidate { specs, nanos: *nanos, bytes });
            }
        }
        let rebuilt = usize::try_from(share.stats().record_hits).unwrap_or(usize::MAX);
        let rest = time.saturating_sub(begun.elapsed()).max(if rebuilt > 0 { time / 2 } else { Duration::ZERO });
        let Some(all) = limit(rest).filter(|_| self.tuner.is_none()) else { return rebuilt };
        let left = all.left().unwrap_or_default();
        let fits = |request: &Candidate| {
            Duration::from_nanos(request.nanos) <= left.min(LONG)
                && request.bytes as u128 <= left.as_nanos() * BYTES_PER_NANO
        };
        if let Some(request) = least.filter(|request| self.executable.rehearses() && fits(request)) {
            let threads = all.watch(&self.threads);
            let resources =
                Resources { parallel: &threads, buffers: &self.kept.buffers, stop: Some(&all), ..resources };
            self.run_zeros(&request.specs, &buffers, &resources, &all);
        }
        rebuilt
    }

    /// Whether requests with these types and shapes are valid, with equal sizes for dimensions of one name.
    fn fits(&self, specs: &[Option<TensorSpec>]) -> bool {
        let size = |input: usize, axis: usize| specs[input].as_ref()?.shape.get(axis).copied();
        fit(&self.inputs, specs) && self.names.disagreement(size).is_none()
    }

    /// Runs a request of zeros again while each run is an eighth faster than the one before; its buffers stay with the
    /// session. Its inputs are in other memory, like a caller's, so that the session's memory is divided as for the
    /// first request.
    fn run_zeros(
        &self,
        specs: &[Option<TensorSpec>],
        elsewhere: &Arc<BufferPool>,
        resources: &Resources<'_>,
        all: &Stop,
    ) {
        let zeros = |spec: &TensorSpec| {
            let mut tensor = Tensor::from_pool(elsewhere, spec.clone()).ok()?;
            tensor.bytes_mut().fill(0);
            Some(Value::Tensor(tensor))
        };
        let inputs = specs.iter().map(|spec| spec.as_ref().map_or(Some(None), |spec| zeros(spec).map(Some)));
        if let Some(inputs) = inputs.collect::<Option<Vec<_>>>() {
            let mut before = Duration::MAX;
            for _ in 0..RUNS {
                let begun = Instant::now();
                // No step writes over the inputs: a caller may keep them.
                self.executable.rehearse(inputs.clone(), resources);
                let took = begun.elapsed();
                if took > before - before / 8 || all.left().is_none_or(|left| left < took) {
                    break;
                }
                before = took;
            }
        }
    }
}

/// `time`, or the rest of the time limit of loading, whichever is shorter.
pub(super) fn bounded(stop: Option<&Stop>, time: Duration) -> Duration {
    stop.and_then(Stop::left).map_or(time, |left| left.min(time))
}

/// Whether a model declares inputs that tensors of those types and shapes fit.
fn fit(ports: &[Port], specs: &[Option<TensorSpec>]) -> bool {
    let fits = |(port, spec): (&Port, &Option<TensorSpec>)| match spec {
        None => port.has_default,
        Some(spec) => port.check(&Value::Tensor(Tensor::hollow(spec.clone()))).is_ok(),
    };
    ports.len() == specs.len() && ports.iter().zip(specs).all(fits)
}

#[cfg(test)]
mod tests {
    use kiln_model::GraphBuilder;
    use kiln_tensor::DType;

    use super::*;
    use crate::session::SessionOptions;

    /// A session of a graph of one input, whose last node is made by `end`.
    fn session(end: impl FnOnce(&mut GraphBuilder, kiln_model::ValueId) -> kiln_model::ValueId) -> Session {
        let mut builder = GraphBuilder::new("rehearsed", 17);
        let x = builder.input("x", DType::F32, ["n".into()]);
        let soft = builder.op("Softmax", &[x], &[]);
        let y = end(&mut builder, soft);
        builder.output("y", y);
        let options =
            SessionOptions { threads: 1, records: Some(Arc::new(Store::in_memory())), ..SessionOptions::default() };
        Session::from_graph(builder.finish(), &options).unwrap()
    }

    #[test]
    fn what_depends_on_data_is_not_run_on_zeros() {
        let plain = session(|builder, x| builder.op("Tanh", &[x], &[]));
        assert!(plain.executable.foresees() && plain.executable.rehearses());
        let selecting = session(|builder, x| builder.op("NonZero", &[x], &[]));
        assert!(selecting.executable.foresees(), "what comes before has a plan");
        assert!(!selecting.executable.rehearses());
        let shaped = session(|builder, x| {
            let shape = builder.input("shape", DType::I64, ["rank".into()]);
            builder.op("Reshape", &[x, shape], &[])
        });
        assert!(!shaped.executable.foresees(), "shapes do not say how it is shaped");
    }

    #[test]
    fn a_request_on_zeros_leaves_a_plan_and_its_memory_and_is_not_counted() {
        let session = session(|builder, x| builder.op("Tanh", &[x], &[]));
        let tensor = Tensor::zeros(TensorSpec::new(DType::F32, [40])).unwrap();
        session.run(&[("x", tensor.clone())]).unwrap();
        session.run(&[("x", tensor.clone())]).unwrap();
        let requests = session.requests.as_ref().unwrap();
        assert_eq!(requests.known.lock().unwrap().len(), 1);
        let options = SessionOptions {
            threads: 1,
            records: Some(session.build.records.clone()),
            profile: true,
            ..SessionOptions::default()
        };
        let mut builder = GraphBuilder::new("rehearsed", 17);
        let x = builder.input("x", DType::F32, ["n".into()]);
        let soft = builder.op("Softmax", &[x], &[]);
        let y = builder.op("Tanh", &[soft], &[]);
        builder.output("y", y);
        let second = Session::from_graph(builder.finish(), &options).unwrap();
        let recalled = RequestKey::recall(requests.model, 1, &second.build.records);
        second.rehearse_for([Duration::from_secs(60); 2], None, &recalled);
        assert_eq!((second.plan_stats().entries, second.plan_stats().lookups), (1, 0));
        assert!(second.kept.buffers.free_bytes() > 0);
        assert!(second.profile().unwrap().nodes.is_empty(), "without a request");
        second.run(&[("x", tensor)]).unwrap();
        assert_eq!(second.plan_stats().hits, 1);
    }
}
