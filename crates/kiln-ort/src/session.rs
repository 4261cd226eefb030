//! Sessions: loading models, and the inputs, outputs and metadata of models.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kiln::{Dim, Port, Trace};

use crate::built::{Built, Opset, canonical};
use crate::env::Env;
use crate::error::{Code, Error, Result, failed, invalid};
use crate::log::{Log, Severity};
use crate::memory_info::MemoryInfo;
use crate::options::{Says, Settings};
use crate::seam::handle::kind;
use crate::seam::{Allocator, Chars, Handle, Memory, Out, Text, entry};
use crate::source::{Loading, Source};
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
    /// The operator sets of a built model; `None` for others.
    pub(crate) opsets: Option<Vec<Opset>>,
    pub(crate) log: Log,
    profile: Option<Profile>,
    /// Kept while the session lives, because programs release environments early.
    _env: Arc<Env>,
}

kind!(Model = "OrtSession");

/// The trace that the caller asked for, until it is written.
struct Profile {
    trace: Arc<Trace>,
    prefix: PathBuf,
    /// Its beginning, in nanoseconds since 1970.
    begun: u64,
    /// Whether it was written.
    ended: std::sync::atomic::AtomicBool,
}

/// The state that sessions share when they are made with one `OrtPrepackedWeightsContainer`: the cache of executors.
/// Equal packed weights are shared in a process anyway.
pub(crate) struct Prepacked(Arc<kiln::Cache>);

kind!(Prepacked = "OrtPrepackedWeightsContainer");

impl Model {
    pub(crate) fn load(
        env: Handle<Env>,
        source: Source,
        settings: Handle<Settings>,
        prepacked: Option<Arc<Prepacked>>,
    ) -> Result<Handle<Model>> {
        let settings = settings.optional("options")?;
        let Loading { env, says, log, mut options } = Loading::of(env, settings.as_deref())?;
        options.cache = prepacked.map(|prepacked| prepacked.0.clone());
        let profile = says.profile.clone().map(Profile::new);
        options.trace = profile.as_ref().map(|profile| profile.trace.clone());
        log.line(Severity::Info, "session", "Initializing session.");
        let opsets = source.opsets();
        let loaded = match &says.optimised {
            Some(to) => source.load_by(to, &says, &options),
            None => source.load(&says, &options),
        };
        let session = loaded.inspect_err(|error| {
            log.line(Severity::Error, "session", &error.message);
        })?;
        log.line(Severity::Info, "session", "Session successfully initialized.");
        let sized = |port: &Port| says.sized(port);
        let all_inputs: Vec<Port> = session.inputs().iter().map(sized).collect();
        let (overridable, inputs) = all_inputs.iter().cloned().partition(|port| port.has_default);
        let outputs = session.outputs().iter().map(sized).collect();
        Handle::new(Model { all_inputs, inputs, overridable, outputs, opsets, log, profile, _env: env, session })
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

impl Says {
    /// A port, with sizes in place of names.
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

    /// Writes the trace once; returns the path, or "" if it was written before.
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

/// The port with that number.
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

    /// The model stays with the caller, who may make several sessions of it.
    fn CreateSessionFromModel(
        env: Handle<Env>,
        model: Handle<Built>,
        options: Handle<Settings>,
        out: Out<Handle<Model>>,
    ) {
        let out = out.place("out")?;
        out.put(Model::load(env, Source::Built(model.get("model")?), options, None)?);
        Ok(())
    }

    /// The version of a domain's operator set, for a session whose model was built.
    fn SessionGetOpsetForDomain(session: Handle<Model>, domain: Text, out: Out<c_int>) {
        let out = out.place("opset")?;
        let (session, domain) = (session.get("session")?, domain.read("domain")?);
        let opsets = session.opsets.as_ref().ok_or_else(|| {
            let reason = "SessionGetOpsetForDomain is not implemented by Kiln for models that were not built";
            Error::new(Code::NotImplemented, reason)
        })?;
        let found = opsets.iter().find(|opset| opset.domain == canonical(&domain));
        out.put(found.ok_or_else(|| invalid!("Domain not used by model: {domain:?}"))?.version);
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
        // No device graph is captured.
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
