//! A session: one loaded model, ready to run at any shape, from any number of threads.
//!
//! Loading reads the model, rewrites its graph ([`kiln_model::passes`]) and makes the nodes; that is [`compile`]. Then
//! executors for the shapes of the model's earlier requests are rebuilt from records, so that the first request of a
//! known shape builds nothing: [`rehearsal`]. [`options`] are a caller's settings; [`records`] imports and exports
//! records; [`profile`], [`trace`] and [`verbose`] observe runs; [`taps`] makes any value an output, and `outputs`
//! makes outputs in the caller's memory. [`serve`] runs one request, [`many`] runs many at a time, with [`joined`] rows
//! where that pays. [`overrides`] serves requests that replace defaults of the model. [`decoder`] runs language models
//! a step at a time.

pub mod batch;
pub mod beams;
mod ceiling;
pub mod compile;
pub mod decoder;
mod device;
pub mod encoder_decoder;
mod error;
mod evaluate;
mod footprint;
pub mod generate;
mod heap;
mod idle;
mod janitor;
mod joined;
mod kept;
mod many;
mod names;
mod node;
pub mod options;
mod outputs;
mod overrides;
mod pack;
mod placement;
pub mod profile;
pub mod records;
mod rehearsal;
mod serve;
mod structure;
pub mod taps;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod verbose;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kiln_fork::Mutex;
use kiln_kernels::Isa;
use kiln_kernels::crash::within;
use kiln_kernels::memory::ceiling::{Asked, check};
use kiln_kernels::memory::{self, Refused};
use kiln_model::ir::{Dim, Metadata, ValueId, ValueKind};
use kiln_model::onnx::{self, ExternalData, ModelError};
use kiln_model::{Graph, Stop, Value};
use kiln_run::exec::tune::{Gauge, Tuner};
use kiln_run::exec::{BuildCx, Share};
use kiln_run::node::panic_message;
use kiln_run::record;
use kiln_run::{Executable, LoopLimits, Observer};
use kiln_tensor::threads::Threads;
use kiln_tensor::{BufferPool, DType, Tensor};

use crate::packed::{self, PackedFile};

pub use ceiling::ProcessMemory;
pub use compile::Description;
pub use device::DeviceStats;
pub use error::SessionError;
use footprint::Footprint;
use heap::Heap;
pub use joined::JoinReport;
use joined::Joined;
use kept::Kept;
pub use kiln_kernels::cpu::{Numerics, Precision};
pub use kiln_kernels::memory::ceiling::Held;
pub use kiln_knobs::Pack;
pub use kiln_model::Cancel;
pub use kiln_run::exec::ShareStats;
pub use kiln_run::exec::tune::{Tune, TuneChange, TuneReport};
use names::Names;
pub use options::{Join, RunOptions, SessionOptions, Width};
pub use outputs::Over;
use overrides::Overrides;
pub use pack::{PackReport, PackStats};
use pack::{Packer, User};
pub use profile::{NodeProfile, Profile};
pub use records::{CacheError, CacheKind, ChoiceBlob, UnknownKind};
use rehearsal::Requests;
use serve::{Terms, Watch};
use structure::Digest;
pub use trace::Trace;
pub use verbose::Verbose;

/// A constant that nodes on a device read.
struct Upload {
    /// The value in the graph.
    host: ValueId,
    /// The value that the device's nodes read.
    there: ValueId,
}

/// A declared input or output of the model.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Tensor, sequence, optional value or map.
    pub kind: ValueKind,
    /// Element type of the tensor, of the tensors in a sequence or an optional value, or of the values in a map, where
    /// declared.
    pub dtype: Option<DType>,
    /// Dimensions, where declared.
    pub dims: Option<Vec<Dim>>,
    /// Whether the model has a default for it, so that a request may leave it out.
    pub has_default: bool,
}

/// When loading began, its time limit, and the ceiling that it asks for.
struct LoadClock {
    at: Instant,
    stop: Option<Stop>,
    ceiling: Arc<Asked>,
}

impl LoadClock {
    fn now(options: &SessionOptions) -> LoadClock {
        let stop = Stop::after(options.load_time_limit, options.load_cancel.clone());
        LoadClock { at: Instant::now(), stop, ceiling: ceiling::ask(options) }
    }
}

/// Runs a part of loading the model `name`, which ends at the clock's limit. A crash within it names the model; a panic
/// becomes an error, and so does memory that is refused.
fn attempt<T>(
    name: &str,
    clock: &LoadClock,
    load: impl FnOnce() -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let stop = clock.stop.as_ref();
    let question = stop.map(Stop::question);
    // Memory that could not be refused during loading, such as records, is compared with the ceiling at its end.
    let load = || {
        memory::until(question.as_ref(), load)
            .and_then(|loaded| check(0).map(|()| loaded).map_err(|refused| SessionError::of_refused(refused, "", stop)))
    };
    within(&format_args!("loading model {name}"), || {
        let loaded = catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|panic| {
            Err(match Refused::of_panic(&*panic) {
                Some(refused) => SessionError::Model(ModelError::Memory(refused)),
                None => SessionError::Panicked(panic_message(&*panic)),
            })
        });
        loaded.map_err(|error| match error {
            SessionError::Model(ModelError::Memory(refused)) => SessionError::of_refused(refused, "", stop),
            error => error,
        })
    })
}

/// The result of loading a model.
struct Made {
    executable: Executable,
    description: Description,
    overrides: Option<Overrides>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    metadata: Arc<Metadata>,
    /// Bytes of its constants.
    constants: usize,
    packed: Option<Arc<PackedFile>>,
    /// Whether another session of this process has been made of the same packed file.
    is_beside: bool,
}

/// A loaded model.
pub struct Session {
    /// Its name in the last line of a crash: the file's, or the graph's own.
    name: String,
    executable: Executable,
    /// The defaults that requests may replace, if there are any.
    overrides: Option<Overrides>,
    names: Names,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    metadata: Arc<Metadata>,
    description: Description,
    /// The file that its weights are mapped from, if it is a packed model.
    packed: Option<Arc<PackedFile>>,
    /// The model that it was loaded from, if that is in files.
    model: Option<pack::Model>,
    /// The thread that packs the model, if one was started.
    packer: Option<Packer>,
    build: BuildCx,
    /// The tuner, which measures while no request runs, if tuning is on.
    tuner: Option<Tuner>,
    /// Measures this machine while no request runs, where the records lacked its figures.
    gauge: Option<Gauge>,
    /// Counters of its requests' look-ups in the cache, which other sessions may use too.
    share: Share,
    threads: Threads,
    /// The graph in stages over the rows of many requests, found when several requests come together for the first
    /// time; the inner `None` means that nothing can be joined.
    joined: OnceLock<Option<Joined>>,
    /// Memory, states and plans that it keeps between requests.
    kept: Arc<Kept>,
    /// The record of the memory that requests need.
    footprint: Footprint,
    heap: Heap,
    /// The records of requests, if they are kept.
    requests: Option<Requests>,
    loops: LoopLimits,
    time_limit: Option<Duration>,
    profile: Option<Mutex<Profile>>,
    verbose: Verbose,
    trace: Option<Arc<Trace>>,
    warmed: usize,
    /// The ceiling that it requests while it lives.
    ceiling: Arc<Asked>,
}

impl Session {
    /// Loads an ONNX file, or a packed model ([`Session::pack`]).
    pub fn load(path: &Path, options: &SessionOptions) -> Result<Session, SessionError> {
        let begun = LoadClock::now(options);
        let name = path.display().to_string();
        attempt(&name, &begun, || {
            if packed::is_packed(path) {
                return Session::load_packed(path, name.clone(), &User::Session, options, &begun);
            }
            if let Some(session) = Session::find_given(path, &name, options, &begun)? {
                return Ok(session);
            }
            if let Some(session) = Session::find_packed(path, &name, options, &begun)? {
                return Ok(session);
            }
            let graph = onnx::load(path, &options.onnx_limits())?;
            let packing = Packer::wanted(path, &[&graph], options);
            let model = pack::Model::of(path, &graph, options);
            let mut session = Session::make(graph, name.clone(), options, &begun)?;
            session.model = model;
            let own = path.to_owned();
            let pack = move |to: &Path, options: &SessionOptions| Session::pack(&own, to, options).map(drop);
            session.packer = packing.and_then(|packing| packing.start(&User::Session, options, pack));
            Ok(session)
        })
    }

    /// Loads an ONNX model from memory; external data is refused ([`Session::load_bytes_with`] takes it).
    pub fn load_bytes(bytes: Vec<u8>, options: &SessionOptions) -> Result<Session, SessionError> {
        let begun = LoadClock::now(options);
        let graph = attempt("in memory", &begun, || Ok(onnx::load_bytes(bytes.into(), None, &options.onnx_limits())?))?;
        let name = graph.name.clone();
        attempt(&name, &begun, || Session::make(graph, name.clone(), options, &begun))
    }

    /// Loads an ONNX file with data that the program hands over: initialisers that replace the model's, and files that
    /// the model names, which are then looked for nowhere else.
    ///
    /// # Errors
    ///
    /// As [`Session::load`] and [`Session::load_bytes_with`].
    pub fn load_with(path: &Path, external: ExternalData, options: &SessionOptions) -> Result<Session, SessionError> {
        let begun = LoadClock::now(options);
        let name = path.display().to_string();
        attempt(&name, &begun, || {
            let graph = onnx::load_with(path, external, &options.onnx_limits())?;
            Session::make(graph, name.clone(), options, &begun)
        })
    }

    /// Loads an ONNX model from memory, with the files that it names. Neither the model nor the files are copied as a
    /// whole.
    ///
    /// # Errors
    ///
    /// As [`Session::load`]; a location that is not in `external` is an error that names it.
    pub fn load_bytes_with(
        bytes: impl Into<Bytes>,
        external: ExternalData,
        options: &SessionOptions,
    ) -> Result<Session, SessionError> {
        let begun = LoadClock::now(options);
        let bytes = bytes.into();
        let graph =
            attempt("in memory", &begun, || Ok(onnx::load_bytes_with(bytes, external, &options.onnx_limits())?))?;
        let name = graph.name.clone();
        attempt(&name, &begun, || Session::make(graph, name.clone(), options, &begun))
    }

    /// Makes a session of a graph built in memory.
    pub fn from_graph(graph: Graph, options: &SessionOptions) -> Result<Session, SessionError> {
        let begun = LoadClock::now(options);
        let name = graph.name.clone();
        attempt(&name, &begun, || Session::make(graph, name.clone(), options, &begun))
    }

    fn make(
        mut graph: Graph,
        name: String,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Session, SessionError> {
        if let Err(error) = kiln_kernels::jit::name_code_for(options.profiler) {
            tracing::warn!(%error, "emitted code is not named for profilers");
        }
        taps::tap(&mut graph, &options.taps)?;
        let threads = options.pool.clone().map_or_else(|| Threads::new(options.threads), Ok)?;
        let digest = structure::digest(&graph);
        let build = options.build_cx(&threads, &digest);
        let inputs = compile::input_ports(&graph);
        let outputs = compile::output_ports(&graph);
        let metadata = graph.metadata.clone();
        let names = Names::of(&inputs);
        let overrides = Overrides::of(&graph, options, &names);
        let constants = graph.constants.values().map(|tensor| tensor.byte_len()).sum();
        // Packed weights and constants, which every process builds at load, come before executors of earlier requests.
        let (executable, description) = compile::compile(graph, options, &build, &threads, begun.stop.as_ref())?;
        let made = Made {
            executable,
            description,
            overrides,
            inputs,
            outputs,
            metadata,
            constants,
            packed: None,
            is_beside: false,
        };
        Ok(Session::assemble(made, name, &digest, build, threads, options, begun))
    }

    /// A session around an executable.
    fn assemble(
        made: Made,
        name: String,
        digest: &Digest,
        build: BuildCx,
        threads: Threads,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Session {
        let Made { executable, description, overrides, inputs, outputs, metadata, constants, packed, is_beside } = made;
        if build.isa > Isa::Portable {
            kiln_kernels::make_ready();
        }
        let names = Names::of(&inputs);
        // Requested before the model was read, so most of the answer's time has passed.
        build.records.await_remote();
        let buffers = BufferPool::bounded(options.buffer_bytes, options.memory_bytes);
        let prepares = options.prepare_memory && !is_beside;
        let footprint = Footprint::prepare(digest, &build, prepares, &buffers, &threads, begun);
        let tuner = options.tuner(&build, constants);
        let profile = options.profile.then(|| Mutex::new(Profile::default()));
        let requests = if options.rehearse { Requests::of(digest.number(), &build) } else { None };
        let kept = Arc::new(Kept::new(buffers, options, &build));
        overrides.iter().for_each(|overrides| kept.add(overrides.variants()));
        let keeper = Arc::downgrade(&kept);
        ceiling::join(keeper, build.cache.account());
        ceiling::count_records(&build.records);
        let mut session = Session {
            name,
            executable,
            overrides,
            names,
            inputs,
            outputs,
            metadata,
            description,
            packed,
            model: None,
            packer: None,
            build,
            tuner,
            gauge: None,
            share: Share::default(),
            threads,
            joined: OnceLock::new(),
            kept,
            footprint,
            heap: Heap::default(),
            requests,
            loops: options.loops,
            time_limit: options.time_limit,
            profile,
            verbose: options.verbose,
            trace: options.trace.clone(),
            warmed: 0,
            ceiling: begun.ceiling.clone(),
        };
        session.warmed = session.rehearse(begun);
        // The gauge starts when loading has ended.
        session.gauge = Gauge::start(&session.build, session.tuner.as_ref());
        // What loading has left in the heap is to come back, and the first request need not start the thread for it.
        session.kept.watch();
        session
    }

    /// The inputs that a request gives, in the model's order.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs that a request gets: the model's in its order, then those of [`SessionOptions::taps`].
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// What the model says of itself: who made it, and the pairs of texts that it carries.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Gives memory that no request uses now back to the system: memory of tensors, of states between requests, and
    /// free pages of the heap. The next requests allocate it again.
    pub fn trim(&self) {
        self.kept.trim();
        Heap::trim_now();
    }

    /// Runs one request.
    pub fn run(&self, inputs: &[(&str, Tensor)]) -> Result<Vec<(String, Tensor)>, SessionError> {
        self.run_with(inputs, &RunOptions::default())
    }

    /// Runs one request that may be ended early: then it fails with a [`RunError`](kiln_run::RunError) that names
    /// the node and whose [`stopped`](kiln_run::RunError::stopped) is the reason. Later requests are not affected.
    pub fn run_with(
        &self,
        inputs: &[(&str, Tensor)],
        options: &RunOptions,
    ) -> Result<Vec<(String, Tensor)>, SessionError> {
        self.run_on(inputs, &self.terms(options))
    }

    /// Runs one request of tensors under the session's own observer.
    fn run_on(&self, inputs: &[(&str, Tensor)], terms: &Terms) -> Result<Vec<(String, Tensor)>, SessionError> {
        let watch = Watch { session: self };
        let observer = self.is_watched().then_some(&watch as &dyn Observer);
        let shapes = inputs.iter().map(|(name, tensor)| (*name, tensor.shape()));
        let _request = self.trace.as_ref().map(|trace| trace.request(shapes));
        self.run_tensors(inputs, terms, observer)
    }

    /// Runs one request under the caller's observer, for tests and tools that look at every step.
    pub fn run_observed(
        &self,
        inputs: &[(&str, Tensor)],
        observer: Option<&dyn Observer>,
    ) -> Result<Vec<(String, Tensor)>, SessionError> {
        self.run_tensors(inputs, &self.terms(&RunOptions::default()), observer)
    }

    fn run_tensors(
        &self,
        inputs: &[(&str, Tensor)],
        terms: &Terms,
        observer: Option<&dyn Observer>,
    ) -> Result<Vec<(String, Tensor)>, SessionError> {
        let values = self.serve(self.bind(inputs)?, &[], terms, observer)?;
        let mut outputs = Vec::with_capacity(values.len());
        for (port, value) in self.outputs.iter().zip(values) {
            let tensor = value
                .into_tensor()
                .map_err(|error| SessionError::Output { name: port.name.clone(), reason: error.to_string() })?;
            outputs.push((port.name.clone(), tensor));
        }
        Ok(outputs)
    }

    /// Runs one request whose inputs or outputs are sequences or optional values.
    pub fn run_values(&self, inputs: &[(&str, Value)]) -> Result<Vec<(String, Value)>, SessionError> {
        self.run_values_with(inputs, &RunOptions::default())
    }

    /// As [`Session::run_values`], for a request that may be ended early, as by [`Session::run_with`].
    pub fn run_values_with(
        &self,
        inputs: &[(&str, Value)],
        options: &RunOptions,
    ) -> Result<Vec<(String, Value)>, SessionError> {
        self.run_into(inputs, Vec::new(), options)
    }

    /// As [`Session::run_values`], under the caller's observer.
    ///
    /// # Errors
    ///
    /// As [`Session::run_values`].
    pub fn run_values_observed(
        &self,
        inputs: &[(&str, Value)],
        observer: &dyn Observer,
    ) -> Result<Vec<(String, Value)>, SessionError> {
        let values = self.serve(self.bind(inputs)?, &[], &self.terms(&RunOptions::default()), Some(observer))?;
        Ok(self.outputs.iter().map(|port| port.name.clone()).zip(values).collect())
    }

    /// Runs one request whose inputs have been bound.
    fn serve_bound(&self, ordered: Vec<Option<Value>>, options: &RunOptions) -> Result<Vec<Value>, SessionError> {
        let watch = Watch { session: self };
        let observer = self.is_watched().then_some(&watch as &dyn Observer);
        self.serve(ordered, &[], &self.terms(options), observer)
    }

    /// Puts a request's tensors into the model's order and checks them against what the model declares.
    fn bind<V: Clone + Into<Value>>(&self, given: &[(&str, V)]) -> Result<Vec<Option<Value>>, SessionError> {
        self.bind_owned(given.iter().map(|(name, value)| (*name, value.clone().into())))
    }

    /// As [`Session::bind`], for values that only the request owns: a step may write over them.
    fn bind_owned<'n>(
        &self,
        given: impl IntoIterator<Item = (&'n str, Value)>,
    ) -> Result<Vec<Option<Value>>, SessionError> {
        self.bind_placed(given.into_iter().map(|(name, value)| Ok((self.input_place(name)?, value))))
    }

    /// The place of an input among the model's.
    fn input_place(&self, name: &str) -> Result<usize, SessionError> {
        self.inputs.iter().position(|port| port.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.inputs.iter().map(|port| port.name.as_str()).collect();
            let reason = format!("the model has no such input; it has {}", known.join(", "));
            SessionError::Input { name: name.to_owned(), reason }
        })
    }

    /// As [`Session::bind_owned`], for values by the places of their inputs.
    fn bind_placed(
        &self,
        given: impl IntoIterator<Item = Result<(usize, Value), SessionError>>,
    ) -> Result<Vec<Option<Value>>, SessionError> {
        let mut ordered = vec![None; self.inputs.len()];
        for placed in given {
            let (place, value) = placed?;
            if place >= ordered.len() {
                let reason = format!("the model has {} inputs", ordered.len());
                return Err(SessionError::Input { name: format!("number {place}"), reason });
            }
            let value = self.inputs[place].scalar(value);
            self.inputs[place].check(&value)?;
            ordered[place] = Some(value);
        }
        for (port, value) in self.inputs.iter().zip(&mut ordered) {
            match port.kind {
                _ if value.is_some() || port.has_default => {}
                ValueKind::Optional | ValueKind::OptionalSequence => *value = Some(Value::Nothing),
                _ => return Err(SessionError::Input { name: port.name.clone(), reason: "not given".to_owned() }),
            }
        }
        Ok(ordered)
    }

    /// Look-ups, builds and bytes of the executor cache.
    #[must_use]
    pub fn cache_stats(&self) -> kiln_cache::Stats {
        self.build.cache.stats()
    }

    /// Look-ups, builds and bytes of this session's requests; [`cache_stats`](Session::cache_stats) are those of all
    /// sessions that share the cache.
    #[must_use]
    pub fn share_stats(&self) -> ShareStats {
        self.share.stats()
    }

    /// As [`cache_stats`](Session::cache_stats), by kernel family.
    #[must_use]
    pub fn family_stats(&self) -> Vec<(&'static str, kiln_cache::Stats)> {
        self.build.cache.family_stats()
    }

    /// Look-ups and bytes of plans. They are separate from the executors' counters, because a plan builds nothing.
    #[must_use]
    pub fn plan_stats(&self) -> kiln_cache::Stats {
        self.kept.plans.as_ref().map(kiln_cache::Cache::stats).unwrap_or_default()
    }

    /// Counters of the records: loaded, found, refused.
    #[must_use]
    pub fn record_stats(&self) -> record::StoreStats {
        self.build.records.stats()
    }

    /// Executors that were rebuilt from records before the first request: those of earlier requests of the model, as
    /// far as time allowed.
    #[must_use]
    pub fn warmed(&self) -> usize {
        self.warmed
    }

    /// Waits until every key of the requests so far is tuned and no measurement of the machine is running, or until the
    /// timeout; returns whether this is so. For measurements, and for services that tune before they take requests.
    pub fn settle(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        let measured = self.gauge.as_ref().is_none_or(|gauge| gauge.settle(timeout));
        let packed = self.packer.as_ref().is_none_or(|packer| packer.settle(timeout.saturating_sub(begun.elapsed())));
        measured
            && packed
            && self.tuner.as_ref().is_none_or(|tuner| tuner.settle(timeout.saturating_sub(begun.elapsed())))
    }

    /// The results of tuning so far; `None` without a tuner.
    #[must_use]
    pub fn tune_report(&self) -> Option<TuneReport> {
        self.tuner.as_ref().map(Tuner::report)
    }

    /// Writes new records now. They are also written when the session is dropped.
    pub fn save_records(&self) -> Result<record::SaveReport, record::RecordError> {
        self.build.records.save()
    }

    /// Times by node, if [`SessionOptions::profile`] was set.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.profile.as_ref().map(|profile| profile.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The graph after all passes.
    #[must_use]
    pub fn describe(&self) -> &Description {
        &self.description
    }

    /// The context of this session's builders.
    #[must_use]
    pub fn build_cx(&self) -> &BuildCx {
        &self.build
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The gauge and the packer end first, so that their results are saved with the rest.
        self.gauge = None;
        self.packer = None;
        self.tuner = None;
        if let Err(error) = self.save_records() {
            tracing::warn!(%error, "records were not saved; the next process starts cold");
        }
        self.kept.leave();
    }
}

impl Port {
    /// The value, made a scalar where the model declares one and the request gives one element with axes: other
    /// runtimes accept any shape of one element for a scalar, and programs rely on it.
    fn scalar(&self, value: Value) -> Value {
        match value {
            Value::Tensor(tensor)
                if tensor.len() == 1 && !tensor.shape().is_empty() && self.dims.as_ref().is_some_and(Vec::is_empty) =>
            {
                Value::Tensor(tensor.reshaped([]).unwrap_or(tensor))
            }
            value => value,
        }
    }

    fn check(&self, value: &Value) -> Result<(), SessionError> {
        let refuse = |reason: String| Err(SessionError::Input { name: self.name.clone(), reason });
        let fits = match value {
            // An optional value that has its element is that element.
            Value::Tensor(_) => matches!(self.kind, ValueKind::Tensor | ValueKind::Optional),
            Value::Sequence(_) => matches!(self.kind, ValueKind::Sequence | ValueKind::OptionalSequence),
            Value::Map(_) => matches!(self.kind, ValueKind::Map(_)),
            Value::Maps(_) => matches!(self.kind, ValueKind::Maps(_)),
            Value::Nothing => matches!(self.kind, ValueKind::Optional | ValueKind::OptionalSequence),
        };
        if !fits {
            return refuse(format!("expected {}, got {}", self.kind, value.kind()));
        }
        let maps = match value {
            Value::Map(map) => std::slice::from_ref(map.as_ref()),
            Value::Maps(maps) => maps,
            _ => &[],
        };
        if let ValueKind::Map(keys) | ValueKind::Maps(keys) = self.kind
            && let Some(other) = maps.iter().map(|map| map.keys().dtype()).find(|dtype| *dtype != keys)
        {
            return refuse(format!("expected keys of type {keys}, got {other}"));
        }
        let tensors = match value {
            Value::Tensor(tensor) => std::slice::from_ref(tensor),
            Value::Sequence(tensors) => tensors,
            Value::Map(_) | Value::Maps(_) | Value::Nothing => &[],
        };
        let types = tensors.iter().chain(maps.iter().map(|map| map.values())).map(Tensor::dtype);
        let other = types.into_iter().find(|dtype| self.dtype.is_some_and(|declared| declared != *dtype));
        if let Some((declared, other)) = self.dtype.zip(other) {
            return refuse(format!("expected elements of type {declared}, got {other}"));
        }
        let Value::Tensor(tensor) = value else { return Ok(()) };
        let Some(dims) = &self.dims else { return Ok(()) };
        let fits = dims.len() == tensor.shape().len()
            && dims.iter().zip(tensor.shape()).all(|(dim, size)| !matches!(dim, Dim::Fixed(fixed) if fixed != size));
        if fits {
            return Ok(());
        }
        let declared: Vec<String> = dims.iter().map(ToString::to_string).collect();
        refuse(format!("expected shape [{}], got {:?}", declared.join(", "), tensor.shape()))
    }
}
