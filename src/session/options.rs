//! What a caller may set when a session is made.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kiln_kernels::cpu::{Numerics, Precision};
#[cfg(feature = "device")]
use kiln_kernels::gpu::{Arena, Device, Policy};
use kiln_kernels::jit::ProfilerFiles;
use kiln_kernels::{EMITTER_REVISION, Isa, Parallel};

use super::structure::Digest;
use super::trace::Trace;
use super::verbose::Verbose;
use crate::cache::{Cache, Limits};
use crate::exec::BuildCx;
#[cfg(feature = "device")]
use crate::exec::gpu::GpuCx;
use crate::exec::tune::{Tune, Tuner};
use crate::graph::passes::PassOptions;
use crate::graph::{Cancel, LoopLimits};
use crate::knobs::{KnobError, Knobs};
use crate::onnx;
use crate::record::{CacheMode, Pace, Remote, RemotePolicy, Store, host_fingerprint};
use crate::threads::Threads;

/// Settings of a session. [`SessionOptions::default`] reads no environment variable; [`SessionOptions::from_env`] does.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Threads of one request; 0 means all that this process may use.
    pub threads: usize,
    /// A pool of threads to share with other sessions, instead of one of its own; `threads` then says nothing.
    pub pool: Option<Threads>,
    /// The highest instruction-set level that may be used; none means whatever the machine has.
    pub max_isa: Option<Isa>,
    /// How far rounding may go: which convolutions may be transformed.
    pub numerics: Numerics,
    /// What weights may be rounded to for speed.
    pub precision: Precision,
    /// A device beside the processor, on which everything runs that has a form there; none means the processor alone.
    #[cfg(feature = "device")]
    pub device: Option<Arc<dyn Device>>,
    /// What the device's libraries may do.
    #[cfg(feature = "device")]
    pub device_policy: Policy,
    /// Most bytes of the device's memory that this session takes.
    #[cfg(feature = "device")]
    pub device_bytes: u64,
    /// Whether choices are measured in the background.
    pub tune: Tune,
    /// Time for all measurements of the session; none means the policy's.
    pub tune_budget: Option<Duration>,
    /// Whether records are loaded when the session is made, and saved in the background and at its end, wherever a folder
    /// is named. Without it nothing is loaded or saved but by [`Session::load_cache`](super::Session::load_cache) and
    /// [`Session::save_cache`](super::Session::save_cache).
    pub optimize: bool,
    /// What is kept; whether in files too, `optimize` and `cache_dir` say as well.
    pub cache_mode: CacheMode,
    /// Folder of record files; none means no files. [`SessionOptions::from_env`] names the platform's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// Whether the model has a record file of its own, named by its structure, instead of the one that all models share.
    pub cache_per_model: bool,
    /// A store elsewhere behind that file, shared by many machines ([`crate::record::connect`]), and how it is used. It needs
    /// the folder: what it gives is kept there.
    pub remote: Option<(Arc<dyn Remote>, RemotePolicy)>,
    /// Whether types and shapes of requests are remembered in the records, so that the next session of the model has their plans
    /// made, the executors that records know for them rebuilt, and one such request run on zeros, before its first request.
    /// Executors take at most as long as loading has taken, or 20 ms, the rest a third of that, or a millisecond; where a
    /// tuner is at work, executors alone are made ahead, and on a device its solvers and kernels. Without it, all of this
    /// is made as requests ask for it, of the same records.
    pub rehearse: bool,
    /// Whether needing an executor for which there is no record is an error. Nothing is chosen or tuned then, and nothing is
    /// taken that another session, of the same cache, has chosen.
    pub error_on_cache_miss: bool,
    /// Bound of the executor cache; `entries` 0 turns it off. Its bytes are those of executors, code and plans, stored or in use.
    pub cache_limits: Limits,
    /// Bound of the plans of whole requests, which each session has for itself, within the bytes of `cache_limits`; `entries` 0
    /// runs every request node by node.
    pub plan_limits: Limits,
    /// On a hit of code, emits it again and compares: slow, finds keys that do not define their values.
    pub cache_check: bool,
    /// A cache to share with other sessions, instead of one of its own.
    pub cache: Option<Arc<Cache>>,
    /// Records to share with other sessions, instead of those of the folder; when they are saved was decided when they were
    /// opened.
    pub records: Option<Arc<Store>>,
    /// Most free bytes of tensor memory kept between requests; and most that are had ready at load, where records say how
    /// much requests of this model have needed.
    pub buffer_bytes: usize,
    /// Most bytes of tensors that requests may hold at once, all together; models can ask for any number in a few bytes.
    pub memory_bytes: usize,
    /// Whether times by node are kept.
    pub profile: bool,
    /// Lines about executors and executions.
    pub verbose: Verbose,
    /// Where spans of time of requests and nodes are noted, if anywhere. Sessions may share one.
    pub trace: Option<Arc<Trace>>,
    /// Whether emitted code is named for profilers. The first session of a process decides.
    pub profiler: ProfilerFiles,
    /// Graph passes, each of which can be turned off.
    pub passes: PassOptions,
    /// Names of values of the model's graph that are returned besides its outputs: what a node makes, an input, a
    /// constant. Passes keep them, so what would have been fused away is computed on its own
    /// ([`taps`](super::taps)). A name that the graph does not have is an error when the session is made.
    pub taps: Vec<String>,
    /// Bounds on models, which are untrusted.
    pub limits: onnx::Limits,
    /// Bounds on what the loops of a request do, which models ask for.
    pub loops: LoopLimits,
    /// Most time of a request that does not say so itself ([`RunOptions::time_limit`]); none means any.
    pub time_limit: Option<Duration>,
    /// Most time of loading a model; none means any. Looked at between the nodes that are folded, the passes over the
    /// graph and the nodes that are made, and by kernels that fold; what comes before, reading the file, takes a
    /// time that its size bounds.
    pub load_time_limit: Option<Duration>,
    /// Lets another thread end the loading, where the time limit is looked at.
    pub load_cancel: Option<Cancel>,
}

/// Settings of one request.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Most time of the request; none means the session's. Looked at before each node: one that has begun runs to its
    /// end.
    pub time_limit: Option<Duration>,
    /// Lets another thread end the request.
    pub cancel: Option<Cancel>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            threads: 0,
            pool: None,
            max_isa: None,
            numerics: Numerics::default(),
            precision: Precision::default(),
            #[cfg(feature = "device")]
            device: None,
            #[cfg(feature = "device")]
            device_policy: Policy::default(),
            #[cfg(feature = "device")]
            device_bytes: u64::MAX,
            // Tuning changes the order of additions at a moment that nobody foresees, and takes processor time that
            // nobody asked for: who wants it says so, or tunes offline once and keeps the records.
            tune: Tune::Off,
            tune_budget: None,
            optimize: true,
            cache_mode: CacheMode::ReadWrite,
            cache_dir: None,
            cache_per_model: false,
            remote: None,
            rehearse: true,
            error_on_cache_miss: false,
            // The same bounds as the knobs' defaults; src/knobs.rs says why.
            cache_limits: Limits { entries: 16_384, bytes: 256 << 20 },
            // A plan of some hundred nodes takes some ten kilobytes: a few thousand shapes of a large network.
            plan_limits: Limits { entries: 4096, bytes: 64 << 20 },
            cache_check: false,
            cache: None,
            records: None,
            // Enough for the widest point of the networks that we measure, several requests at once.
            buffer_bytes: 1 << 30,
            memory_bytes: crate::tensor::installed_bytes(),
            profile: false,
            verbose: Verbose::default(),
            trace: None,
            profiler: ProfilerFiles::default(),
            passes: PassOptions::default(),
            taps: Vec::new(),
            limits: onnx::Limits::default(),
            loops: LoopLimits::default(),
            time_limit: None,
            load_time_limit: None,
            load_cancel: None,
        }
    }
}

impl SessionOptions {
    /// Defaults with the environment's settings on top.
    ///
    /// # Errors
    ///
    /// [`KnobError`] where a `KILN_*` variable holds what it must not.
    pub fn from_env() -> Result<SessionOptions, KnobError> {
        Ok(SessionOptions::from_knobs(&Knobs::from_env()?))
    }

    /// Defaults with these knobs on top.
    #[must_use]
    pub fn from_knobs(knobs: &Knobs) -> SessionOptions {
        SessionOptions {
            threads: knobs.num_threads.map_or(0, std::num::NonZero::get),
            // A knob caps; it never asks for a level that the machine lacks.
            max_isa: Some(knobs.max_isa.min(Isa::detect())),
            numerics: knobs.numerics,
            precision: knobs.precision,
            tune: knobs.tune,
            cache_dir: knobs.cache_dir.clone().or_else(crate::record::default_folder),
            cache_limits: Limits { entries: knobs.cache_capacity, bytes: knobs.cache_bytes.0 },
            cache_check: knobs.cache_check,
            verbose: Verbose { create: knobs.verbose.create, exec: knobs.verbose.exec },
            profiler: knobs.perf,
            ..SessionOptions::default()
        }
    }

    /// The level in force: what the machine has, or less.
    #[must_use]
    pub fn isa(&self) -> Isa {
        match self.max_isa {
            // A level above the machine's is honoured only where it can be emulated, which is in tests.
            Some(isa) if isa.usable() => isa,
            Some(isa) => isa.min(Isa::detect()),
            None => Isa::detect(),
        }
    }

    /// The context of this session's builders.
    pub(super) fn build_cx(&self, threads: &Threads, model: &Digest) -> BuildCx {
        let isa = self.isa();
        let own = || match (self.cache_mode, self.cache_dir.as_ref().filter(|_| self.optimize)) {
            (CacheMode::Read | CacheMode::ReadWrite, Some(folder)) => {
                let fingerprint = host_fingerprint(isa.name(), EMITTER_REVISION);
                let store = match self.cache_per_model {
                    true => {
                        let name = format!("{}-{}.kiln", model.digits(), &fingerprint.digits()[..16]);
                        Store::open_file(&folder.join(name), &fingerprint, self.cache_mode)
                    }
                    false => Store::open(folder, &fingerprint, self.cache_mode),
                };
                let store = store.with_writer(Pace::default());
                match &self.remote {
                    Some((remote, policy)) => store.with_remote(remote.clone(), *policy),
                    None => store,
                }
            }
            (CacheMode::Off, _) => Store::off(),
            _ => Store::in_memory(),
        };
        let records = self.records.clone().unwrap_or_else(|| Arc::new(own()));
        let records = if self.error_on_cache_miss { records.taken_as_complete() } else { records };
        let limits = if self.cache_mode == CacheMode::Off {
            Limits { entries: 0, ..self.cache_limits }
        } else {
            self.cache_limits
        };
        let cache = self.cache.clone().unwrap_or_else(|| Arc::new(Cache::new(limits)));
        let (threads, numerics, precision) = (threads.threads(), self.numerics, self.precision);
        #[cfg(not(feature = "device"))]
        let gpu = None;
        #[cfg(feature = "device")]
        let gpu = self.device.as_ref().map(|device| {
            let arena = Arena::new(device.clone(), self.device_bytes);
            Arc::new(GpuCx::new(arena, self.device_policy))
        });
        BuildCx { isa, threads, numerics, precision, cache, records, check: self.cache_check, gpu }
    }

    /// The plans of a session, if it shall keep any: they hold executors, so that no cache means no plans.
    /// They are charged to the executors' account, beside them.
    pub(super) fn plans(&self, build: &BuildCx) -> Option<Cache> {
        let kept = self.cache_mode != CacheMode::Off && self.cache_limits.entries > 0 && self.plan_limits.entries > 0;
        kept.then(|| Cache::charged_to(build.cache.account(), self.plan_limits))
    }

    /// The tuner of a session with that context, if it shall have one. Without a cache there is nothing to replace.
    pub(super) fn tuner(&self, build: &BuildCx, constants: usize) -> Option<Tuner> {
        let kept = self.cache_mode != CacheMode::Off && build.records.may_choose();
        kept.then(|| Tuner::start(self.tune, build, constants, self.tune_budget)).flatten()
    }
}
