//! Sessions: how models are loaded, and what they say of themselves.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kiln::onnx::{Bytes, ExternalData};
use kiln::{Dim, ModelError, Port, SessionError, Trace};

use crate::env::Env;
use crate::error::{Code, Error, Result, failed, invalid};
use crate::log::{Log, Severity};
use crate::memory_info::MemoryInfo;
use crate::options::{Says, Settings};
use crate::ort_format;
use crate::seam::handle::kind;
use crate::seam::{Allocator, Chars, Handle, Memory, Out, Text, entry};
use crate::type_info::{Shape, TypeInfo};

/// `OrtSession`.
pub(crate) struct Model {
    pub(crate) session: kiln::Session,
    /// All inputs, by the session's places.
    pub(crate) all_inputs: Vec<Port>,
    /// Inputs without a default.
    pub(crate) inputs: Vec<Port>,
    /// Inputs with a default.
    overridable: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) log: Log,
    profile: Option<Profile>,
    /// Kept while the session lives, as programs release environments early.
    _env: Arc<Env>,
}

kind!(Model = "OrtSession");

/// The trace that the caller asked for, until it is written.
struct Profile {
    trace: Arc<Trace>,
    prefix: PathBuf,
    /// Nanoseconds since 1970 when it began.
    begun: u64,
    /// Whether it was written.
    ended: std::sync::atomic::AtomicBool,
}

/// What sessions share when they are made with one `OrtPrepackedWeightsContainer`: the cache of executors. Packed
/// weights that are equal are one in a process as it is.
pub(crate) struct Prepacked(Arc<kiln::Cache>);

kind!(Prepacked = "OrtPrepackedWeightsContainer");

/// What a session is made of.
enum Source {
    Path(PathBuf),
    Bytes(Vec<u8>),
}

impl Model {
    fn load(
        env: Handle<Env>,
        source: Source,
        settings: Handle<Settings>,
        prepacked: Option<Arc<Prepacked>>,
    ) -> Result<Handle<Model>> {
        let env = env.get("env")?;
        let settings = settings.optional("options")?;
        let says = settings.as_ref().map(|settings| settings.says()).unwrap_or_default();
        let least = if says.severity < 0 { env.log.least() } else { says.severity };
        let log = Log::new(says.logger.or(env.log.sink()), says.log_id.clone(), least);
        let mut options = says.kiln(env.pool.as_ref(), &log)?;
        options.cache = prepacked.map(|prepacked| prepacked.0.clone());
        options.load_cancel = settings.as_ref().map(|settings| settings.cancel());
        let profile = says.profile.clone().map(Profile::new);
        options.trace = profile.as_ref().map(|profile| profile.trace.clone());
        log.line(Severity::Info, "session", "Initializing session.");
        let session = load(source, &says, &options).inspect_err(|error| {
            log.line(Severity::Error, "session", &error.message);
        })?;
        log.line(Severity::Info, "session", "Session successfully initialized.");
        let sized = |port: &Port| says.sized(port);
        let all_inputs: Vec<Port> = session.inputs().iter().map(sized).collect();
        let (overridable, inputs) = all_inputs.iter().cloned().partition(|port| port.has_default);
        let outputs = session.outputs().iter().map(sized).collect();
        Handle::new(Model { all_inputs, inputs, overridable, outputs, log, profile, _env: env, session })
    }

    /// The place of an input, with or without a default, among the session's.
    pub(crate) fn input_place(&self, name: &str) -> Option<usize> {
        self.all_inputs.iter().position(|port| port.name == name)
    }

    /// The place of an output.
    pub(crate) fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|port| port.name == name)
    }
}

/// A session of a model.
fn load(source: Source, says: &Says, options: &kiln::SessionOptions) -> Result<kiln::Session> {
    let mut beside = ExternalData::new();
    for (name, file) in &says.files {
        beside.insert(name, Bytes::from_owner(file.clone()));
    }
    for (name, value) in &says.initialisers {
        let tensor = value.to_kiln(&mut Vec::new())?.into_tensor().map_err(|error| invalid!("{error}"))?;
        beside.replace(name, tensor);
    }
    match source {
        Source::Path(path) if ort_format::is_ort(&beginning(&path)) => {
            let failed = |error: std::io::Error| failed!("Load model from {} failed: {error}", path.display());
            load(Source::Bytes(std::fs::read(&path).map_err(failed)?), says, options)
        }
        Source::Path(path) => {
            if std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == 0) {
                return Err(invalid!("No graph was found in the protobuf. {} has no bytes", path.display()));
            }
            let is_plain = says.files.is_empty() && says.initialisers.is_empty();
            let loaded = if is_plain {
                kiln::Session::load(&path, options)
            } else {
                kiln::Session::load_with(&path, beside, options)
            };
            loaded.map_err(|error| of_path(&path, error))
        }
        Source::Bytes(bytes) => {
            if bytes.is_empty() {
                return Err(invalid!("No graph was found in the protobuf. It has no bytes"));
            }
            if ort_format::is_ort(&bytes) {
                let graph = ort_format::read(&bytes)?;
                return kiln::Session::from_graph(graph, options).map_err(|error| of_load(error, ""));
            }
            if let Some(folder) = says.folder().filter(|_| says.files.is_empty()) {
                beside.fetch_others(move |location, most| read_beside(&folder, location, most));
            }
            kiln::Session::load_bytes_with(bytes, beside, options).map_err(|error| of_load(error, ""))
        }
    }
}

/// The first bytes of a file, by which its format is known; fewer where there are fewer, or where it cannot be read.
fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read is an error of the load itself.
    if let Ok(file) = std::fs::File::open(path) {
        let _ = std::io::Read::read_to_end(&mut std::io::Read::take(file, 8), &mut bytes);
    }
    bytes
}

/// The file that a model in memory names, of at most that many bytes.
fn read_beside(folder: &Path, location: &str, most: u64) -> std::io::Result<Option<Bytes>> {
    let path = folder.join(location);
    let found = match std::fs::metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !found.is_file() || found.len() > most {
        let reason = format!("{} is no file of at most {most} bytes", path.display());
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
    }
    std::fs::read(path).map(|bytes| Some(Bytes::from(bytes)))
}

/// The error of a model that was to be loaded from a path.
fn of_path(path: &Path, error: SessionError) -> Error {
    let path = path.display();
    match &error {
        SessionError::Model(ModelError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Error::new(
                Code::NoSuchFile,
                format!("Load model from {path} failed:Load model {path} failed. File doesn't exist"),
            )
        }
        _ => of_load(error, &format!("Load model from {path} failed:")),
    }
}

/// onnxruntime's code and first words for Kiln's error.
fn of_load(error: SessionError, before: &str) -> Error {
    let (code, words) = match &error {
        SessionError::Model(ModelError::Wire(_)) => {
            (Code::InvalidProtobuf, "Failed to load model because protobuf parsing failed. ")
        }
        SessionError::Model(ModelError::Io { .. }) => (Code::Fail, ""),
        SessionError::Model(ModelError::Memory(_)) | SessionError::Memory { .. } => (Code::OutOfMemory, ""),
        SessionError::LoadStopped { .. } => (Code::LoadCancelled, "Model loading canceled. "),
        SessionError::Unsupported(_) => (Code::NotImplemented, ""),
        SessionError::Model(_) | SessionError::InvalidNode { .. } => (Code::InvalidGraph, "This is an invalid model. "),
        _ => (Code::Fail, ""),
    };
    Error::new(code, format!("{before}{words}{error}"))
}

impl Says {
    /// A port, with the sizes that take the place of names.
    fn sized(&self, port: &Port) -> Port {
        let mut port = port.clone();
        for dim in port.dims.iter_mut().flatten() {
            let Dim::Named(name) = dim else { continue };
            let size = self.sizes.iter().rev().find(|(known, _)| known == name).map(|&(_, size)| size);
            if let Some(size) = size.and_then(|size| usize::try_from(size).ok()) {
                *dim = Dim::Fixed(size);
            }
        }
        port
    }
}

impl Profile {
    fn new(prefix: PathBuf) -> Profile {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Profile { trace: Arc::default(), prefix, begun, ended: std::sync::atomic::AtomicBool::new(false) }
    }

    /// Writes the trace once; the path, or "" if it was written before.
    fn end(&self) -> Result<String> {
        if self.ended.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return Ok(String::new());
        }
        let path = format!("{}_{}.json", self.prefix.display(), date(self.begun / 1_000_000_000));
        let write = || {
            let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
            self.trace.write(&mut file)?;
            std::io::Write::flush(&mut file)
        };
        write().map_err(|error| failed!("the profile was not written to {path}: {error}"))?;
        Ok(path)
    }
}

/// Seconds since 1970 as a date and a time of day, in UTC: `2026-11-26_09-05-00`. The calendar is computed as by
/// H. Hinnant, "chrono-compatible low-level date algorithms" (civil_from_days).
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    format!("{year:04}-{month:02}-{day:02}_{:02}-{:02}-{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The port of a number.
fn port(ports: &[Port], index: usize) -> Result<&Port> {
    ports.get(index).ok_or_else(|| failed!("index out of range: {index} of {}", ports.len()))
}

fn name(ports: &[Port], index: usize, allocator: Allocator, out: Out<Chars>) -> Result<()> {
    let out = out.place("value")?;
    out.put(allocator.text(port(ports, index)?.name.as_bytes(), "allocator")?);
    Ok(())
}

fn type_info(ports: &[Port], index: usize, out: Out<Handle<TypeInfo>>) -> Result<()> {
    let out = out.place("type_info")?;
    let port = ports.get(index).ok_or_else(|| failed!("out of index: {index} of {}", ports.len()))?;
    out.put(TypeInfo::handle(Shape::of_port(port))?);
    Ok(())
}

entry! {
    fn CreateSession(env: Handle<Env>, path: Text, options: Handle<Settings>, out: Out<Handle<Model>>) {
        let out = out.place("out")?;
        out.put(Model::load(env, Source::Path(path.path("model_path")?), options, None)?);
        Ok(())
    }

    fn CreateSessionFromArray(
        env: Handle<Env>,
        bytes: Memory,
        len: usize,
        options: Handle<Settings>,
        out: Out<Handle<Model>>,
    ) {
        let out = out.place("out")?;
        out.put(Model::load(env, Source::Bytes(bytes.copy(len, "model_data")?), options, None)?);
        Ok(())
    }

    fn CreateSessionWithPrepackedWeightsContainer(
        env: Handle<Env>,
        path: Text,
        options: Handle<Settings>,
        prepacked: Handle<Prepacked>,
        out: Out<Handle<Model>>,
    ) {
        let out = out.place("out")?;
        let prepacked = prepacked.get("prepacked_weights_container")?;
        out.put(Model::load(env, Source::Path(path.path("model_path")?), options, Some(prepacked))?);
        Ok(())
    }

    fn CreateSessionFromArrayWithPrepackedWeightsContainer(
        env: Handle<Env>,
        bytes: Memory,
        len: usize,
        options: Handle<Settings>,
        prepacked: Handle<Prepacked>,
        out: Out<Handle<Model>>,
    ) {
        let out = out.place("out")?;
        let prepacked = prepacked.get("prepacked_weights_container")?;
        out.put(Model::load(env, Source::Bytes(bytes.copy(len, "model_data")?), options, Some(prepacked))?);
        Ok(())
    }

    fn CreatePrepackedWeightsContainer(out: Out<Handle<Prepacked>>) {
        let out = out.place("out")?;
        let limits = kiln::SessionOptions::default().cache_limits;
        out.put(Handle::new(Prepacked(Arc::new(kiln::Cache::new(limits))))?);
        Ok(())
    }

    fn ReleasePrepackedWeightsContainer(prepacked: Handle<Prepacked>) -> (), else () => {
        drop(prepacked.release());
    }

    fn SessionGetInputCount(session: Handle<Model>, out: Out<usize>) {
        let out = out.place("out")?;
        out.put(session.get("session")?.inputs.len());
        Ok(())
    }

    fn SessionGetOutputCount(session: Handle<Model>, out: Out<usize>) {
        let out = out.place("out")?;
        out.put(session.get("session")?.outputs.len());
        Ok(())
    }

    fn SessionGetOverridableInitializerCount(session: Handle<Model>, out: Out<usize>) {
        let out = out.place("out")?;
        out.put(session.get("session")?.overridable.len());
        Ok(())
    }

    fn SessionGetInputTypeInfo(session: Handle<Model>, index: usize, out: Out<Handle<TypeInfo>>) {
        type_info(&session.get("session")?.inputs, index, out)
    }

    fn SessionGetOutputTypeInfo(session: Handle<Model>, index: usize, out: Out<Handle<TypeInfo>>) {
        type_info(&session.get("session")?.outputs, index, out)
    }

    fn SessionGetOverridableInitializerTypeInfo(session: Handle<Model>, index: usize, out: Out<Handle<TypeInfo>>) {
        type_info(&session.get("session")?.overridable, index, out)
    }

    fn SessionGetInputName(session: Handle<Model>, index: usize, allocator: Allocator, out: Out<Chars>) {
        name(&session.get("session")?.inputs, index, allocator, out)
    }

    fn SessionGetOutputName(session: Handle<Model>, index: usize, allocator: Allocator, out: Out<Chars>) {
        name(&session.get("session")?.outputs, index, allocator, out)
    }

    fn SessionGetOverridableInitializerName(
        session: Handle<Model>,
        index: usize,
        allocator: Allocator,
        out: Out<Chars>,
    ) {
        name(&session.get("session")?.overridable, index, allocator, out)
    }

    fn SessionGetMemoryInfoForInputs(session: Handle<Model>, infos: Out<Handle<MemoryInfo>>, count: usize) {
        everywhere(session.get("session")?.inputs.len(), infos, count, MemoryInfo::cpu(), "inputs_memory_info")
    }

    fn SessionGetMemoryInfoForOutputs(session: Handle<Model>, infos: Out<Handle<MemoryInfo>>, count: usize) {
        everywhere(session.get("session")?.outputs.len(), infos, count, MemoryInfo::cpu(), "outputs_memory_info")
    }

    fn SessionEndProfiling(session: Handle<Model>, allocator: Allocator, out: Out<Chars>) {
        let out = out.place("out")?;
        let session = session.get("session")?;
        let path = session.profile.as_ref().map_or_else(|| Ok(String::new()), Profile::end)?;
        out.put(allocator.text(path.as_bytes(), "allocator")?);
        Ok(())
    }

    fn SessionGetProfilingStartTimeNs(session: Handle<Model>, out: Out<u64>) {
        let out = out.place("out")?;
        out.put(session.get("session")?.profile.as_ref().map_or(0, |profile| profile.begun));
        Ok(())
    }

    fn SessionReleaseCapturedGraph(session: Handle<Model>, _number: c_int) {
        // No graph of a device is captured.
        session.get("session").map(drop)
    }

    fn ReleaseSession(session: Handle<Model>) -> (), else () => {
        drop(session.release());
    }
}

/// The same answer for each of a session's inputs or outputs.
pub(crate) fn everywhere<T: Copy>(ports: usize, out: Out<T>, count: usize, answer: T, what: &str) -> Result<()> {
    if count < ports {
        return Err(invalid!("{what} has room for {count}, and the model has {ports}"));
    }
    out.fill(ports, &vec![answer; ports], what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01_00-00-00"),
            (951_782_399, "2000-02-28_23-59-59"),
            (951_782_400, "2000-02-29_00-00-00"),
            (1_795_683_723, "2026-11-26_09-02-03"),
            (4_107_542_400, "2100-03-01_00-00-00"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
