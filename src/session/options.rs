//! Settings of sessions and of requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kiln_cache::{Cache, Limits};
use kiln_kernels::cpu::{Numerics, Precision};
use kiln_kernels::gpu::{Arena, Device, Policy};
use kiln_kernels::jit::ProfilerFiles;
use kiln_kernels::{EMITTER_REVISION, Isa, Parallel};
use kiln_knobs::{KnobError, Knobs, Pack};
use kiln_model::Cancel;
use kiln_model::onnx;
use kiln_model::passes::PassOptions;
use kiln_run::LoopLimits;
use kiln_run::exec::BuildCx;
use kiln_run::exec::gpu::GpuCx;
use kiln_run::exec::machine::MachineKey;
use kiln_run::exec::peak::PeakKey;
use kiln_run::exec::tune::{Tune, Tuner};
use kiln_run::record::{CacheMode, Pace, Remote, RemotePolicy, Store, host_fingerprint};
use kiln_tensor::threads::Threads;

use super::structure::Digest;
use super::trace::Trace;
use super::verbose::Verbose;
use crate::packed::Verify;

/// Settings of a session. [`SessionOptions::default`] reads no environment variable; [`SessionOptions::from_env`] does.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Threads of one request; 0 means all that this process may use.
    pub threads: usize,
    /// A pool of threads to share with other sessions, instead of one of its own; `threads` is then ignored.
    pub pool: Option<Threads>,
    /// The highest instruction-set level that may be used; `None` is that of the machine.
    pub max_isa: Option<Isa>,
    /// How far rounding may go: whether convolutions may use Winograd transforms, and whether a row has the same bits
    /// alone and in any batch.
    pub numerics: Numerics,
    /// The precision that weights may be rounded to for speed.
    pub precision: Precision,
    /// A device beside the processor, for all nodes that have a form on it; `None` is the processor alone.
    pub device: Option<Arc<dyn Device>>,
    /// What the device's libraries may do: TF32, determinism, scratch memory.
    pub device_policy: Policy,
    /// The most bytes of the device's memory that this session takes.
    pub device_bytes: u64,
    /// Whether choices are measured in the background.
    pub tune: Tune,
    /// Time for all measurements of the session; `None` is the policy's.
    pub tune_budget: Option<Duration>,
    /// Whether records are loaded when the session is made, and saved in the background and at its end, if there is a
    /// folder. Without it, records are loaded and saved only by [`Session::load_cache`](super::Session::load_cache) and
    /// [`Session::save_cache`](super::Session::save_cache).
    pub optimize: bool,
    /// The use of records; for files, `optimize` and `cache_dir` are needed too.
    pub cache_mode: CacheMode,
    /// Folder of record files; `None` is no files. [`SessionOptions::from_env`] uses the platform's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// Whether the model has a record file of its own, named by its structure, instead of the file that all models
    /// share.
    pub cache_per_model: bool,
    /// A remote store that many machines share ([`kiln_run::record::connect`]), and its policy. It needs the folder, in
    /// which its records are kept.
    pub remote: Option<(Arc<dyn Remote>, RemotePolicy)>,
    /// Whether types and shapes of requests are recorded, so that before its first request the next session of the
    /// model makes their plans, rebuilds their executors from records, and runs one such request on zeros. Rebuilding
    /// takes at most as long as loading, or 20 ms; the rest at most a third of that, or a millisecond. With a tuner,
    /// only executors are rebuilt, and for a device its solvers and kernels. Without this setting, requests rebuild
    /// executors from the same records when they need them.
    pub rehearse: bool,
    /// Whether the memory that requests of earlier processes needed is made present at load, if it is recorded
    /// ([`SessionOptions::buffer_bytes`] at most). Not in a session of a packed model beside another one of the same
    /// process, nor in a [`Decoder`](crate::Decoder), whose prompts need a hundred times the memory of steps.
    pub prepare_memory: bool,
    /// Whether it is an error to need an executor without a record. No choices are then made or tuned, and choices of
    /// other sessions with the same cache are not used.
    pub error_on_cache_miss: bool,
    /// Bound of the executor cache; `entries` 0 turns it off. Its bytes are those of executors, code and plans, stored
    /// or in use.
    pub cache_limits: Limits,
    /// Bound of the plans of requests, which each session has for itself, within the bytes of `cache_limits`; with
    /// `entries` 0 every request runs node by node.
    pub plan_limits: Limits,
    /// Emits code again at each hit and compares: slow; finds keys that do not determine their values.
    pub cache_check: bool,
    /// A cache to share with other sessions, instead of one of its own.
    pub cache: Option<Arc<Cache>>,
    /// Records to share with other sessions, instead of the folder's; whether they are saved was decided when they were
    /// opened.
    pub records: Option<Arc<Store>>,
    /// Most free bytes of tensor memory kept between requests, and most bytes that are made present at load.
    pub buffer_bytes: usize,
    /// Most bytes of tensors that all requests together may hold; a few bytes of model can demand any number.
    pub memory_bytes: usize,
    /// Most bytes that the process may hold, in all sessions together: executors, code, plans, packed weights that are
    /// not mapped, tensors, scratch and records ([`ProcessMemory`](super::ProcessMemory)). Memory beyond it is refused
    /// after everything that can be given up has been. The least value of the live sessions' options and of
    /// `KILN_PROCESS_BYTES` is in force; `None` asks for no limit.
    pub process_bytes: Option<usize>,
    /// How long a session rests before it gives memory beyond the use of its last requests back to the system, and how
    /// long after a session is dropped its free shared memory is given back; `None` is never. A thread of the process
    /// does so, which runs only while there is something to give back.
    pub trim_after: Option<Duration>,
    /// Whether times by node are kept.
    pub profile: bool,
    /// Whether packed models are made of ONNX files that are loaded, and used in their place.
    pub pack: Pack,
    /// Most bytes of packed models that are kept beside the records; the least recently used are removed first.
    pub pack_bytes: u64,
    /// When the data of packed models is compared with its digests.
    pub pack_verify: Verify,
    /// Whether a packed model that is written to a given path refers to the model's files for weights that nodes read
    /// in the files' layout. Such files must be below the packed model's folder, and must not change.
    pub pack_weightless: bool,
    /// Lines about executors and executions.
    pub verbose: Verbose,
    /// The trace that gets spans of time of requests and nodes. Sessions may share one.
    pub trace: Option<Arc<Trace>>,
    /// The files that name emitted code for profilers. The first session of a process decides.
    pub profiler: ProfilerFiles,
    /// Graph passes; each can be turned off.
    pub passes: PassOptions,
    /// Names of values of the model's graph that become outputs after its own: outputs of nodes, inputs, constants.
    /// Passes keep them, so they are not fused away ([`taps`](super::taps)). An unknown name is an error when the
    /// session is made.
    pub taps: Vec<String>,
    /// For a [`Decoder`](super::decoder::Decoder): the outputs that become inputs of the next step, as `OUTPUT ->
    /// INPUT` with one `*` in each. `present.*` and `present_key_values.*` become `past_key_values.*` or `past.*` by
    /// default.
    pub alias: Vec<String>,
    /// Bounds on models, which are untrusted.
    pub limits: onnx::Limits,
    /// Bounds on the loops of a request, which the model determines.
    pub loops: LoopLimits,
    /// Time limit of requests without their own ([`RunOptions::time_limit`]); `None` is none.
    pub time_limit: Option<Duration>,
    /// Time limit of loading a model; `None` is none. Checked between the nodes that are folded, the passes over the
    /// graph and the nodes that are made, and by kernels that fold; reading the file comes before these, and takes a
    /// time that is bounded by its size.
    pub load_time_limit: Option<Duration>,
    /// Lets another thread end the loading, where the time limit is checked.
    pub load_cancel: Option<Cancel>,
}

/// Settings of one request.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Time limit of the request; `None` is the session's. Checked before each node: a node that has begun runs to its
    /// end.
    pub time_limit: Option<Duration>,
    /// Lets another thread end the request.
    pub cancel: Option<Cancel>,
    /// The threads that compute it.
    pub width: Width,
    /// Whether rows of many requests may be computed together ([`Session::run_many`](super::Session::run_many)).
    pub join: Join,
}

/// Whether row-wise parts of the graph run once for several short requests, so that weights are read once for all.
/// Results have the same bits either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Join {
    /// For requests of so few rows that reading the weights takes a good part of their time.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// The threads that compute a request. Its outputs have the same bits either way, and it needs the same executors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Width {
    /// The session's, unless another request uses them: the shortest time for one request.
    #[default]
    Wide,
    /// Its caller's alone. If as many requests run at a time as there are threads, this finishes them soonest: no
    /// request waits for another, and no thread waits for work.
    Narrow,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            threads: 0,
            pool: None,
            max_isa: None,
            numerics: Numerics::default(),
            precision: Precision::default(),
            device: None,
            device_policy: Policy::default(),
            device_bytes: u64::MAX,
            // Tuning changes the order of additions at an unpredictable moment, and takes processor time: it has to be
            // turned on, or done offline once with its records kept.
            tune: Tune::Off,
            tune_budget: None,
            optimize: true,
            cache_mode: CacheMode::ReadWrite,
            cache_dir: None,
            cache_per_model: false,
            remote: None,
            rehearse: true,
            prepare_memory: true,
            error_on_cache_miss: false,
            // The bounds of the knobs' defaults; crates/kiln-knobs/src/lib.rs has the reasons.
            cache_limits: Limits { entries: 16_384, bytes: 256 << 20 },
            // A plan of some hundred nodes takes some ten kilobytes: enough for a few thousand shapes of a large
            // network.
            plan_limits: Limits { entries: 4096, bytes: 64 << 20 },
            cache_check: false,
            cache: None,
            records: None,
            // Enough for the widest point of the networks that we measure, in several requests at once.
            buffer_bytes: 1 << 30,
            memory_bytes: kiln_tensor::installed_bytes(),
            process_bytes: None,
            // Longer than pauses between requests of one user, shorter than the periods of monitoring tools.
            trim_after: Some(Duration::from_secs(5)),
            profile: false,
            pack: Pack::default(),
            pack_bytes: 16 << 30,
            pack_verify: Verify::default(),
            pack_weightless: false,
            verbose: Verbose::default(),
            trace: None,
            profiler: ProfilerFiles::default(),
            passes: PassOptions::default(),
            taps: Vec::new(),
            alias: Vec::new(),
            limits: onnx::Limits::default(),
            loops: LoopLimits::default(),
            time_limit: None,
            load_time_limit: None,
            load_cancel: None,
        }
    }
}

impl SessionOptions {
    /// The defaults, changed by the environment's settings.
    ///
    /// # Errors
    ///
    /// If a `KILN_*` variable has an invalid value.
    pub fn from_env() -> Result<SessionOptions, KnobError> {
        Ok(SessionOptions::from_knobs(&Knobs::from_env()?))
    }

    /// The defaults, changed by these knobs.
    #[must_use]
    pub fn from_knobs(knobs: &Knobs) -> SessionOptions {
        SessionOptions {
            threads: knobs.num_threads.map_or(0, std::num::NonZero::get),
            // A knob is a cap: it never raises the level above the machine's.
            max_isa: Some(knobs.max_isa.min(Isa::detect())),
            numerics: knobs.numerics,
            precision: knobs.precision,
            tune: knobs.tune,
            pack: knobs.pack,
            cache_dir: knobs.cache_dir.clone().or_else(kiln_run::record::default_folder),
            cache_limits: Limits { entries: knobs.cache_capacity, bytes: knobs.cache_bytes.0 },
            cache_check: knobs.cache_check,
            process_bytes: knobs.process_bytes.map(|size| size.0),
            trim_after: knobs.trim_after.0,
            verbose: Verbose { create: knobs.verbose.create, exec: knobs.verbose.exec },
            profiler: knobs.perf,
            ..SessionOptions::default()
        }
    }

    /// The limits of a model's file: its tensors may take no more memory than those of requests.
    #[must_use]
    pub fn onnx_limits(&self) -> onnx::Limits {
        let memory = u64::try_from(self.memory_bytes).unwrap_or(u64::MAX);
        onnx::Limits {
            tensor_bytes: self.limits.tensor_bytes.min(memory),
            message_bytes: self.limits.message_bytes.min(memory),
            ..self.limits.clone()
        }
    }

    /// The level in force: the machine's, or a lower one.
    #[must_use]
    pub fn isa(&self) -> Isa {
        match self.max_isa {
            // A level above the machine's is allowed only in tests that emulate it.
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
        MachineKey::settle(isa, &records);
        if precision == Precision::Bf16 {
            PeakKey::settle(&records);
        }
        let gpu = self.device.as_ref().map(|device| {
            let arena = Arena::new(device.clone(), self.device_bytes);
            Arc::new(GpuCx::new(arena, self.device_policy))
        });
        BuildCx { isa, threads, numerics, precision, cache, records, check: self.cache_check, gpu }
    }

    /// The cache of a session's plans, if it keeps any: they hold executors, so without a cache there are no plans.
    /// They are charged to the executors' account.
    pub(super) fn plans(&self, build: &BuildCx) -> Option<Cache> {
        let kept = self.cache_mode != CacheMode::Off && self.cache_limits.entries > 0 && self.plan_limits.entries > 0;
        kept.then(|| Cache::charged_to(build.cache.account(), self.plan_limits))
    }

    /// The tuner of a session, if tuning is on. Without a cache there is nothing to replace.
    pub(super) fn tuner(&self, build: &BuildCx, constants: usize) -> Option<Tuner> {
        let kept = self.cache_mode != CacheMode::Off && build.records.may_choose();
        kept.then(|| Tuner::start(self.tune, build, constants, self.tune_budget)).flatten()
    }
}
