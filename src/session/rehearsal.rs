//! Requests of processes before this one: their plans are made while a model is loaded, and one of them is run on zeros, so
//! that the first real request finds code, weights, memory and threads as the second one does.
//!
//! What is remembered are types and shapes ([`crate::exec::request`]), and it may come from anybody: it is held against what the
//! model declares, asks for no executor that was not built anyway, gets little memory, and all of it ends with a
//! share of the time that loading has taken. Nothing that goes wrong here is an error, and nothing of it is counted as a
//! request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Port, Session};
use crate::exec::BuildCx;
use crate::exec::request::{MOST_REQUESTS, RequestKey};
use crate::fork::Mutex;
use crate::graph::{LoopBudget, Resources, Served, Stop, Value};
use crate::record::{CacheMode, Store};
use crate::tensor::{BufferPool, Tensor, TensorSpec, installed_bytes};

/// What is remembered of the requests that a session's model got.
pub(super) struct Requests {
    model: u64,
    threads: u32,
    /// With the nanoseconds that each took.
    known: Mutex<HashMap<RequestKey, u64>>,
}

/// Plans and the request that is run take together at most this part of the time that loading took before; plans half of that.
const SHARE: u32 = 3;

/// Time that nobody sees, however short loading was.
const UNSEEN: Duration = Duration::from_millis(1);

/// Most bytes of values that a plan settles (small tensors, sizes taken apart and put together again) and of zeros.
const SETTLED: usize = 16 << 20;

/// Requests that take longer are not run on zeros: what a first one pays for cold caches is some hundred microseconds however
/// long it takes.
const LONG: Duration = Duration::from_millis(4);

/// No request is run on zeros more often. What a model's weights take in a cache that others share is theirs only after two or
/// three readings.
const RUNS: usize = 3;

/// Tensors of a request that is run on zeros are at most as many bytes as a processor might move in its time.
const BYTES_PER_NANO: u128 = 16;

/// At most this part of the machine's memory is all tensors of a request together that is planned.
const MOST_PART: usize = 8;

impl Requests {
    /// Of that model in that context; none where nothing shall be remembered.
    pub(super) fn of(model: u64, build: &BuildCx) -> Option<Requests> {
        let kept = build.records.mode() != CacheMode::Off && build.gpu.is_none();
        kept.then(|| Requests { model, threads: build.threads as u32, known: Mutex::default() })
    }

    /// Notes a request that left a plan, or the first repeat of it.
    pub(super) fn note(&self, served: &Served, records: &Store) {
        let Some(key) = RequestKey::new(self.model, self.threads, &served.inputs) else { return };
        if key.specs().is_none() {
            return;
        }
        let nanos = u64::try_from(served.time.as_nanos()).unwrap_or(u64::MAX);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (full, before) = (known.len() >= MOST_REQUESTS, known.get(&key).copied());
        match before {
            // The first run of all is slower than its repeats: what is much faster is worth a word.
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
    /// Time that it took.
    nanos: u64,
    /// Bytes of all its tensors.
    bytes: usize,
}

impl Session {
    /// Makes the plans of what is remembered, and runs the request that took least, as long as loading that began then may go
    /// on.
    pub(super) fn rehearse(&self, begun: Instant, stop: Option<&Stop>) {
        let Some(requests) = self.requests.as_ref().filter(|_| self.executable.foresees()) else { return };
        let recalled = RequestKey::recall(requests.model, requests.threads, &self.build.records);
        // A tuner is told of executors as requests ask for them.
        if !recalled.is_empty() && self.tuner.is_none() {
            let share = UNSEEN.max(begun.elapsed() / SHARE);
            let left = stop.and_then(Stop::left).map_or(share, |left| left.min(share));
            self.rehearse_for(left, &recalled);
        }
        requests.known.lock().unwrap_or_else(PoisonError::into_inner).extend(recalled);
    }

    fn rehearse_for(&self, time: Duration, recalled: &[(RequestKey, u64)]) {
        let [plans, all] = [time / 2, time].map(|time| Stop::after(Some(time), None));
        let (Some(plans), Some(all)) = (plans, all) else { return };
        let settled = BufferPool::bounded(SETTLED, SETTLED);
        let loops = LoopBudget::new(self.loops);
        let watched = plans.watch(&self.threads);
        let resources = Resources {
            build: &self.build,
            parallel: &watched,
            buffers: &settled,
            plans: self.plans.as_ref(),
            tuner: None,
            share: None,
            loops: &loops,
            stop: Some(&plans),
            observer: None,
        };
        let mut least: Option<Candidate> = None;
        for (key, nanos) in recalled {
            if plans.check().is_err() {
                break;
            }
            let Some(specs) = key.specs().filter(|specs| self.fits(specs)) else { continue };
            let Some(bytes) = self.executable.foresee(&specs, installed_bytes() / MOST_PART, &resources) else {
                continue;
            };
            if least.as_ref().is_none_or(|least| *nanos < least.nanos) {
                least = Some(Candidate { specs, nanos: *nanos, bytes });
            }
        }
        let left = all.left().unwrap_or_default();
        let fits = |request: &Candidate| {
            Duration::from_nanos(request.nanos) <= left.min(LONG)
                && request.bytes as u128 <= left.as_nanos() * BYTES_PER_NANO
        };
        if let Some(request) = least.filter(|request| self.executable.rehearses() && fits(request)) {
            let threads = all.watch(&self.threads);
            let resources = Resources { parallel: &threads, buffers: &self.buffers, stop: Some(&all), ..resources };
            self.run_zeros(&request.specs, &settled, &resources, &all);
        }
    }

    /// Whether tensors of those types and shapes can be given, whose dimensions of one name are equal.
    fn fits(&self, specs: &[Option<TensorSpec>]) -> bool {
        let size = |input: usize, axis: usize| specs[input].as_ref()?.shape.get(axis).copied();
        fit(&self.inputs, specs) && self.names.disagreement(size).is_none()
    }

    /// Runs a request of zeros, whose memory stays with the session, while each run is an eighth faster than the one before. Its
    /// inputs lie elsewhere, as a caller's do, so that the session's memory is divided as the first request will divide it.
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
                // Nor does anything write over them: a caller may still want them.
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

/// Whether a model declares inputs to which tensors of those types and shapes can be given.
fn fit(ports: &[Port], specs: &[Option<TensorSpec>]) -> bool {
    let fits = |(port, spec): (&Port, &Option<TensorSpec>)| match spec {
        None => port.has_default,
        Some(spec) => port.check(&Value::Tensor(Tensor::hollow(spec.clone()))).is_ok(),
    };
    ports.len() == specs.len() && ports.iter().zip(specs).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;
    use crate::session::SessionOptions;
    use crate::tensor::DType;

    /// A session of a graph of one input of that many dimensions, whose last node is made by `end`.
    fn session(end: impl FnOnce(&mut GraphBuilder, crate::graph::ValueId) -> crate::graph::ValueId) -> Session {
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
        second.rehearse_for(Duration::from_secs(60), &recalled);
        assert_eq!((second.plan_stats().entries, second.plan_stats().lookups), (1, 0));
        assert!(second.buffers.free_bytes() > 0);
        assert!(second.profile().unwrap().nodes.is_empty(), "nobody has asked");
        second.run(&[("x", tensor)]).unwrap();
        assert_eq!(second.plan_stats().hits, 1);
    }
}
