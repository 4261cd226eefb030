//! Requests of processes before this one: their plans are made while a model is loaded, and one of them is run on zeros, so
//! that the first real request finds code, weights, memory and threads as the second one does.
//!
//! What is remembered are types and shapes ([`crate::exec::request`]), and it may come from anybody: it is held against what the
//! model declares, asks for no executor that was not built anyway, gets little memory, and all of it ends with a
//! share of the time that loading has taken. Nothing that goes wrong here is an error, and nothing of it is counted as a
//! request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Port, Session};
use crate::exec::BuildCx;
use crate::exec::request::{MOST_REQUESTS, RequestKey};
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

/// Plans and the request that is run take together at most this part of the time that loading took before.
const SHARE: u32 = 4;

/// Time that nobody sees, however short loading was.
const UNSEEN: Duration = Duration::from_millis(1);

/// Most bytes of values that a plan settles: small tensors, sizes taken apart and put together again.
const SETTLED: usize = 16 << 20;

/// Tensors of a request that is run on zeros are at most as many bytes as a processor might move in its time.
const BYTES_PER_NANO: u128 = 16;

/// At most this part of the machine's memory is all tensors of a request together that is planned.
const MOST_PART: usize = 8;

impl Requests {
    /// Of that model in that context; none where nothing shall be remembered, or nothing can be planned ahead.
    pub(super) fn of(model: u64, build: &BuildCx) -> Option<Requests> {
        let kept = build.records.mode() != CacheMode::Off && build.gpu.is_none();
        kept.then(|| Requests { model, threads: build.threads as u32, known: Mutex::default() })
    }

    /// Notes a request that left a plan.
    pub(super) fn note(&self, served: &Served, records: &Store) {
        let Some(key) = RequestKey::new(self.model, self.threads, &served.inputs) else { return };
        if key.specs().is_none() {
            return;
        }
        let nanos = u64::try_from(served.time.as_nanos()).unwrap_or(u64::MAX);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let full = known.len() >= MOST_REQUESTS;
        match known.get(&key) {
            // The first run of all is slower than later ones: what is much faster is worth a word.
            Some(&before) if nanos >= before - before / 4 => return,
            None if full => return,
            _ => known.insert(key.clone(), nanos),
        };
        drop(known);
        key.note(nanos, records);
    }
}

impl Session {
    /// Makes the plans of what is remembered, and runs the request that took least, while loading that began then may go on.
    pub(super) fn rehearse(&self, begun: Instant, stop: Option<&Stop>) {
        let Some(requests) = self.requests.as_ref().filter(|_| self.plans.is_some()) else { return };
        let recalled = RequestKey::recall(requests.model, requests.threads, &self.build.records);
        // A tuner is told of executors as requests ask for them.
        let foresees = self.tuner.is_none() && self.executable.foresees();
        let loading = begun.elapsed();
        let left = stop.and_then(Stop::left).unwrap_or(Duration::MAX);
        let stop = Stop::after(Some(left.min(UNSEEN.max(loading / SHARE))), None);
        let settled = BufferPool::bounded(SETTLED, SETTLED);
        let loops = LoopBudget::new(self.loops);
        let resources = Resources {
            build: &self.build,
            parallel: &self.threads,
            buffers: &settled,
            plans: self.plans.as_ref(),
            tuner: None,
            share: None,
            loops: &loops,
            stop: stop.as_ref(),
            observer: None,
        };
        let most = installed_bytes() / MOST_PART;
        let mut least: Option<(u64, usize, Vec<Option<TensorSpec>>)> = None;
        for (key, nanos) in &recalled {
            let Some(specs) = key.specs().filter(|specs| fit(&self.inputs, specs)) else { continue };
            if !foresees || stop.as_ref().is_some_and(|stop| stop.check().is_err()) {
                break;
            }
            if let Some(bytes) = self.executable.foresee(&specs, most, &resources)
                && least.as_ref().is_none_or(|(least, ..)| nanos < least)
            {
                least = Some((*nanos, bytes, specs));
            }
        }
        requests.known.lock().unwrap_or_else(PoisonError::into_inner).extend(recalled);
        let left = stop.as_ref().and_then(Stop::left).unwrap_or_default();
        if let Some((nanos, bytes, specs)) = least
            && self.executable.rehearses()
            && u128::from(nanos) <= left.as_nanos()
            && bytes as u128 <= left.as_nanos() * BYTES_PER_NANO
        {
            self.run_zeros(&specs, &Resources { buffers: &self.buffers, ..resources });
        }
    }

    /// Runs a request of zeros, whose memory stays with the session.
    fn run_zeros(&self, specs: &[Option<TensorSpec>], resources: &Resources<'_>) {
        let zeros = |spec: &TensorSpec| {
            let mut tensor = Tensor::from_pool(&self.buffers, spec.clone()).ok()?;
            tensor.bytes_mut().fill(0);
            Some(Value::Tensor(tensor))
        };
        let inputs = specs.iter().map(|spec| spec.as_ref().map_or(Some(None), |spec| zeros(spec).map(Some)));
        if let Some(inputs) = inputs.collect::<Option<Vec<_>>>() {
            self.executable.rehearse(inputs, resources);
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
