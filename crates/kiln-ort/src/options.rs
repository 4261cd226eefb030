//! Options of sessions.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use kiln::Knobs;
use kiln_fork::Mutex;
use kiln_knobs::KNOBS;

use crate::error::{Error, Result, failed, invalid};
use crate::keyvalue::Pairs;
use crate::log::{Log, SEVERITIES, Severity};
use crate::seam::callback::{Opaque, Sink};
use crate::seam::handle::kind;
use crate::seam::{CreateThreadFn, Handle, JoinThreadFn, List, LogFn, Memory, Out, Text, entry};
use crate::threading::{count_of, no_threads_of_callers};
use crate::value::Value;

/// `OrtSessionOptions`: sessions copy the options when they are made.
#[derive(Default)]
pub(crate) struct Settings {
    says: Mutex<Says>,
    /// Whether loading with these options should end. Copies that sessions make share this.
    cancelled: Arc<AtomicBool>,
}

kind!(Settings = "OrtSessionOptions");

/// The contents of options.
#[derive(Clone)]
pub(crate) struct Says {
    pub(crate) intra: c_int,
    /// Whether a session has its own threads instead of the environment's.
    pub(crate) own_threads: bool,
    pub(crate) log_id: String,
    /// -1 is the environment's.
    pub(crate) severity: c_int,
    pub(crate) logger: Option<Sink>,
    /// The beginning of the profile's path, if a profile is wanted.
    pub(crate) profile: Option<PathBuf>,
    /// The path that a session writes its model to, if that is wanted.
    pub(crate) optimised: Option<PathBuf>,
    /// Configuration, by key.
    pub(crate) entries: BTreeMap<String, String>,
    /// Sizes that take the place of named dimensions.
    pub(crate) sizes: Vec<(String, i64)>,
    /// Initialisers that take the place of the model's.
    pub(crate) initialisers: Vec<(String, Arc<Value>)>,
    /// Files that the model names, in memory.
    pub(crate) files: Vec<(String, Arc<[u8]>)>,
    mode: c_int,
    has_memory_pattern: bool,
}

impl Default for Says {
    fn default() -> Says {
        Says {
            intra: 0,
            own_threads: true,
            log_id: String::new(),
            severity: -1,
            logger: None,
            profile: None,
            optimised: None,
            entries: BTreeMap::new(),
            sizes: Vec::new(),
            initialisers: Vec::new(),
            files: Vec::new(),
            mode: 0,
            has_memory_pattern: true,
        }
    }
}

/// Keys that have an effect in Kiln; others are kept and returned.
const FOLDER: &str = "session.model_external_initializers_file_folder_path";
/// The prefix of keys of Kiln's own settings: `kiln.cache_dir` is `KILN_CACHE_DIR`.
const OWN: &str = "kiln.";

/// onnxruntime's bounds on keys and values of configurations, in bytes.
const LONGEST_KEY: usize = 1024;
const LONGEST_VALUE: usize = 8192;

impl Settings {
    /// A copy of the contents.
    pub(crate) fn says(&self) -> Says {
        self.with(|says| says.clone())
    }

    fn with<T>(&self, what: impl FnOnce(&mut Says) -> T) -> T {
        what(&mut self.says.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends loading when the caller cancels.
    pub(crate) fn cancel(&self) -> kiln::Cancel {
        let flag = self.cancelled.clone();
        kiln::Cancel::asking(move || flag.load(Ordering::Relaxed))
    }

    /// A copy of these options, which can be changed independently.
    pub(crate) fn copy(&self) -> Settings {
        let cancelled = Arc::new(AtomicBool::new(self.is_cancelled()));
        Settings { says: Mutex::new(self.says()), cancelled }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Says {
    /// Kiln's options, with a pool of the environment's where threads are shared. Keys without an effect are logged
    /// once.
    pub(crate) fn kiln(&self, pool: Option<&kiln::Threads>, log: &Log) -> Result<kiln::SessionOptions> {
        let own = |name: &str| {
            let key = format!("{OWN}{}", name.strip_prefix("KILN_").unwrap_or(name).to_lowercase());
            self.entries.get(&key).map(Into::into)
        };
        let knobs = Knobs::from_env_after(own).map_err(|error| invalid!("{error}"))?;
        let mut options = kiln::SessionOptions::from_knobs(&knobs);
        // Kiln's own variable or key counts where onnxruntime's options leave the number open.
        if self.intra != 0 || options.threads == 0 {
            options.threads = count_of(self.intra);
        }
        if !self.own_threads {
            let pool = pool.cloned();
            let pool = pool.ok_or_else(|| {
                failed!(
                    "When the session is not configured to use per session threadpools, the env must be created with the \
                     CreateEnvWithGlobalThreadPools API."
                )
            })?;
            options.pool = Some(pool);
        }
        for key in self.entries.keys().filter(|key| *key != FOLDER && !key.starts_with(OWN)) {
            let message = format!("the setting {key} means nothing to Kiln");
            crate::log::once(log, Severity::Info, "session options", &message);
        }
        for key in self.entries.keys().filter(|key| key.starts_with(OWN)) {
            let variable = format!("KILN_{}", key[OWN.len()..].to_uppercase());
            if !KNOBS.iter().any(|knob| knob.variable == variable) {
                return Err(invalid!("the setting {key} is not one of Kiln's"));
            }
        }
        Ok(options)
    }

    /// The folder of the files that a model in memory names.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.entries.get(FOLDER).map(PathBuf::from)
    }
}

/// Checks a level of optimisation. Passes change no results, so that levels have no effect.
pub(crate) fn check_level(level: c_int) -> Result<()> {
    if [0, 1, 2, 3, 99].contains(&level) {
        Ok(())
    } else {
        Err(invalid!("graph_optimization_level is not valid: {level}"))
    }
}

/// A key or value of a configuration, within its bound.
pub(crate) fn bounded(text: Text, what: &str, longest: usize) -> Result<String> {
    let text = text.read(what)?;
    if text.len() > longest {
        return Err(invalid!("{what} has {} bytes, and {longest} are the most", text.len()));
    }
    Ok(text)
}

/// A pair of a configuration.
pub(crate) fn config_entry(key: Text, value: Text) -> Result<(String, String)> {
    let key = bounded(key, "config_key", LONGEST_KEY)?;
    if key.is_empty() {
        return Err(invalid!("config_key is empty: a key has 1 to {LONGEST_KEY} bytes"));
    }
    Ok((key, bounded(value, "config_value", LONGEST_VALUE)?))
}

/// Writes a text with its zero into a caller's buffer, or its size where there is no buffer: the pattern of two calls.
pub(crate) fn two_calls(text: &[u8], room: Memory, size: Out<usize>) -> Result<()> {
    let size = size.place("size")?;
    let need = text.len() + 1;
    let has = size.get();
    size.put(need);
    if room.is_null() {
        return Ok(());
    }
    if has < need {
        return Err(invalid!("Result buffer is not large enough: {has} bytes for {need}"));
    }
    room.write(has, &[text, &[0]].concat(), "config_value")
}

entry! {
    fn CreateSessionOptions(out: Out<Handle<Settings>>) {
        let out = out.place("options")?;
        out.put(Handle::new(Settings::default())?);
        Ok(())
    }

    fn CloneSessionOptions(options: Handle<Settings>, out: Out<Handle<Settings>>) {
        let out = out.place("out_options")?;
        out.put(Handle::new(options.get("in_options")?.copy())?);
        Ok(())
    }

    fn SetOptimizedModelFilePath(options: Handle<Settings>, path: Text) {
        let (options, path) = (options.get("options")?, path.path("optimized_model_filepath")?);
        // An empty path asks for no file.
        options.with(|says| says.optimised = Some(path).filter(|path| !path.as_os_str().is_empty()));
        Ok(())
    }

    fn SetSessionExecutionMode(options: Handle<Settings>, mode: c_int) {
        let options = options.get("options")?;
        if !(0..=1).contains(&mode) {
            return Err(invalid!("execution_mode is not valid: {mode}"));
        }
        options.with(|says| says.mode = mode);
        Ok(())
    }

    fn GetSessionExecutionMode(options: Handle<Settings>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(options.get("options")?.with(|says| says.mode));
        Ok(())
    }

    fn EnableProfiling(options: Handle<Settings>, prefix: Text) {
        let options = options.get("options")?;
        let prefix = prefix.path("profile_file_prefix")?;
        options.with(|says| says.profile = Some(prefix));
        Ok(())
    }

    fn DisableProfiling(options: Handle<Settings>) {
        options.get("options")?.with(|says| says.profile = None);
        Ok(())
    }

    fn EnableMemPattern(options: Handle<Settings>) {
        options.get("options")?.with(|says| says.has_memory_pattern = true);
        Ok(())
    }

    fn DisableMemPattern(options: Handle<Settings>) {
        options.get("options")?.with(|says| says.has_memory_pattern = false);
        Ok(())
    }

    fn GetMemPatternEnabled(options: Handle<Settings>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(options.get("options")?.with(|says| c_int::from(says.has_memory_pattern)));
        Ok(())
    }

    fn EnableCpuMemArena(options: Handle<Settings>) {
        options.get("options").map(drop)
    }

    fn DisableCpuMemArena(options: Handle<Settings>) {
        options.get("options").map(drop)
    }

    fn SetSessionLogId(options: Handle<Settings>, id: Text) {
        let options = options.get("options")?;
        let id = id.read("logid")?;
        options.with(|says| says.log_id = id);
        Ok(())
    }

    fn SetSessionLogVerbosityLevel(options: Handle<Settings>, _level: c_int) {
        options.get("options").map(drop)
    }

    fn SetSessionLogSeverityLevel(options: Handle<Settings>, severity: c_int) {
        let options = options.get("options")?;
        if severity != -1 && !SEVERITIES.contains(&severity) {
            return Err(invalid!("log severity {severity} is not known"));
        }
        options.with(|says| says.severity = severity);
        Ok(())
    }

    fn SetUserLoggingFunction(options: Handle<Settings>, logger: LogFn, parameter: Memory) {
        let options = options.get("options")?;
        let logger = Sink::of(logger, Opaque(parameter.raw())).ok_or_else(|| Error::null("user_logging_function"))?;
        options.with(|says| says.logger = Some(logger));
        Ok(())
    }

    fn SetSessionGraphOptimizationLevel(options: Handle<Settings>, level: c_int) {
        let _ = options.get("options")?;
        check_level(level)
    }

    fn SetIntraOpNumThreads(options: Handle<Settings>, count: c_int) {
        options.get("options")?.with(|says| says.intra = count);
        Ok(())
    }

    fn SetInterOpNumThreads(options: Handle<Settings>, _count: c_int) {
        options.get("options").map(drop)
    }

    fn DisablePerSessionThreads(options: Handle<Settings>) {
        options.get("options")?.with(|says| says.own_threads = false);
        Ok(())
    }

    fn SetDeterministicCompute(options: Handle<Settings>, _is_wanted: u8) {
        // Kiln's results do not change from run to run.
        options.get("options").map(drop)
    }

    fn AddFreeDimensionOverride(options: Handle<Settings>, denotation: Text, _size: i64) {
        // No model that Kiln reads keeps the denotations of dimensions.
        let _ = (options.get("options")?, denotation.read("dim_denotation")?);
        Ok(())
    }

    fn AddFreeDimensionOverrideByName(options: Handle<Settings>, name: Text, size: i64) {
        let options = options.get("options")?;
        let name = name.read("dim_name")?;
        options.with(|says| says.sizes.push((name, size)));
        Ok(())
    }

    fn AddSessionConfigEntry(options: Handle<Settings>, key: Text, value: Text) {
        let options = options.get("options")?;
        let (key, value) = config_entry(key, value)?;
        options.with(|says| says.entries.insert(key, value));
        Ok(())
    }

    fn HasSessionConfigEntry(options: Handle<Settings>, key: Text, out: Out<c_int>) {
        let out = out.place("out")?;
        let options = options.get("options")?;
        let key = bounded(key, "config_key", LONGEST_KEY)?;
        out.put(options.with(|says| c_int::from(says.entries.contains_key(&key))));
        Ok(())
    }

    fn GetSessionConfigEntry(options: Handle<Settings>, key: Text, room: Memory, size: Out<usize>) {
        let options = options.get("options")?;
        let key = bounded(key, "config_key", LONGEST_KEY)?;
        let value = options.with(|says| says.entries.get(&key).cloned());
        let value = value.ok_or_else(|| invalid!("Session config entry '{key}' was not found."))?;
        two_calls(value.as_bytes(), room, size)
    }

    fn GetSessionOptionsConfigEntries(options: Handle<Settings>, out: Out<Handle<Pairs>>) {
        let out = out.place("out")?;
        let says = options.get("options")?.says();
        let pairs = Pairs::default();
        says.entries.iter().for_each(|(key, value)| pairs.add(key, value));
        out.put(Handle::new(pairs)?);
        Ok(())
    }

    fn AddInitializer(options: Handle<Settings>, name: Text, value: Handle<Value>) {
        let options = options.get("options")?;
        let (name, value) = (name.read("name")?, value.get("val")?);
        if value.tensor_type().is_none() {
            return Err(invalid!("Received OrtValue is not a tensor. Only tensors are supported."));
        }
        options.with(|says| {
            if says.initialisers.iter().any(|(known, _)| *known == name) {
                return Err(invalid!("An OrtValue for this name has already been added: {name}"));
            }
            says.initialisers.push((name, value));
            Ok(())
        })
    }

    fn AddExternalInitializers(
        options: Handle<Settings>,
        names: List<Text>,
        values: List<Handle<Value>>,
        count: usize,
    ) {
        let options = options.get("options")?;
        let names = names.read(count, "initializer_names")?;
        let values = values.read(count, "initializers")?;
        let mut given = Vec::with_capacity(count);
        for (name, value) in names.iter().zip(values) {
            let (name, value) = (name.read("initializer_names")?, value.get("initializers")?);
            if value.tensor_type().is_none() {
                return Err(invalid!("Received OrtValue is not a tensor. Only tensors are supported."));
            }
            given.push((name, value));
        }
        options.with(|says| says.initialisers.append(&mut given));
        Ok(())
    }

    fn AddExternalInitializersFromFilesInMemory(
        options: Handle<Settings>,
        names: List<Text>,
        files: List<Memory>,
        lengths: List<usize>,
        count: usize,
    ) {
        let options = options.get("options")?;
        let names = names.read(count, "external_initializer_file_names")?;
        let files = files.read(count, "external_initializer_file_buffer_array")?;
        let lengths = lengths.read(count, "external_initializer_file_lengths")?;
        let mut given = Vec::with_capacity(count);
        for ((name, file), len) in names.iter().zip(files).zip(lengths) {
            let name = name.read("external_initializer_file_names")?;
            given.push((name, file.copy(len, "external_initializer_file_buffer_array")?.into()));
        }
        options.with(|says| says.files.append(&mut given));
        Ok(())
    }

    fn SessionOptionsSetLoadCancellationFlag(options: Handle<Settings>, cancel: u8) {
        options.get("options")?.cancelled.store(cancel != 0, Ordering::Relaxed);
        Ok(())
    }

    fn SessionOptionsSetCustomCreateThreadFn(options: Handle<Settings>, make: CreateThreadFn) {
        let _ = options.get("options")?;
        no_threads_of_callers(make.is_some(), "SessionOptionsSetCustomCreateThreadFn")
    }

    fn SessionOptionsSetCustomThreadCreationOptions(options: Handle<Settings>, _given: Memory) {
        options.get("options").map(drop)
    }

    fn SessionOptionsSetCustomJoinThreadFn(options: Handle<Settings>, join: JoinThreadFn) {
        let _ = options.get("options")?;
        no_threads_of_callers(join.is_some(), "SessionOptionsSetCustomJoinThreadFn")
    }

    fn EnableOrtCustomOps(options: Handle<Settings>) {
        let _ = options.get("options")?;
        Err(failed!("EnableOrtCustomOps: This build does not have onnxruntime-extensions"))
    }

    fn ReleaseSessionOptions(options: Handle<Settings>) -> (), else () => {
        drop(options.release());
    }
}
