//! Packed models: writing one, and loading one ([`crate::packed`]).

mod auto;
mod given;
mod model;
mod weightless;

use std::path::Path;
use std::sync::Arc;

use kiln_kernels::Serial;
use kiln_model::Value;
use kiln_model::ir::{Graph, ValueId, ValueInfo};
use kiln_model::onnx;
use kiln_model::passes::PassReport;
use kiln_run::exec::BuildCx;
use kiln_run::record::CacheMode;
use kiln_tensor::threads::Threads;

use super::compile::{self, Left, Maker};
use super::overrides::{Overrides, Read};
use super::structure::{self, Digest};
use super::{Description, LoadClock, Made, Port, Session, SessionError, SessionOptions, attempt};
use crate::packed::folder::Files;
use crate::packed::index::{BiasRow, Index, Port as PackedPort, Sources, StateRow, StepsRow};
use crate::packed::rows::{Constant, graph_of, rows_of};
use crate::packed::{MadeFor, Noting, PackedError, PackedFile, Ready, References, Verify, Writer};

pub use auto::PackStats;
pub(super) use auto::{Packer, Waiting, find};
pub(super) use model::Model;
use model::files_of;

/// The user of a packed model: different graphs are made from one ONNX file for different users.
#[derive(Clone, Debug)]
pub(super) enum User {
    /// [`Session::load`].
    Session,
    /// [`Decoder::load`](super::decoder::Decoder::load), with these aliases of outputs.
    Decoder(Vec<String>),
    /// The steps of an encoder-decoder, with these aliases.
    StepsBesideEncoder(Vec<String>),
    /// The keys and values of cross-attention of an encoder-decoder.
    CrossAttention,
}

impl User {
    /// Whether it runs a model a step at a time.
    fn takes_steps(&self) -> bool {
        matches!(self, User::Decoder(_) | User::StepsBesideEncoder(_))
    }

    /// Its name among a packed model's facts.
    fn name(&self) -> String {
        let with = |name: &str, aliases: &[String]| match aliases.is_empty() {
            true => name.to_owned(),
            false => format!("{name} with aliases {aliases:?}"),
        };
        match self {
            User::Session => "a session".to_owned(),
            User::Decoder(aliases) => with("a decoder", aliases),
            User::StepsBesideEncoder(aliases) => with("a decoder beside an encoder", aliases),
            User::CrossAttention => "cross-attention of an encoder-decoder".to_owned(),
        }
    }
}

/// Data that is written beside a decoder's graph.
pub(super) struct Steps {
    /// Everything but biases and states.
    pub(super) row: StepsRow,
    /// States that are handed from step to step.
    pub(super) states: Vec<StateRow>,
    /// The inputs of biases, and the graphs that compute these.
    pub(super) biases: Vec<(String, Graph)>,
}

/// Data that is written beside a graph.
#[derive(Default)]
pub(super) struct Beside {
    /// How a decoder's steps are served.
    pub(super) steps: Option<Steps>,
    /// The files that the model was in.
    pub(super) sources: Sources,
}

/// A report of [`Session::pack`].
#[derive(Clone, Copy, Debug)]
pub struct PackReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// Packed weights in it; equal ones count once for each node.
    pub panels: usize,
    /// Constants in it in the model's layout.
    pub constants: usize,
    /// Constants that are kept only as packed copies.
    pub packed_only: usize,
    /// Bytes of constants that stay in the model's files ([`SessionOptions::pack_weightless`]).
    pub referred: u64,
}

impl Session {
    /// Writes the model at `path`, with its graph after all passes and its weights as its nodes pack them, to the file
    /// `to`, which [`Session::load`] takes. The file is for sessions with these options, this build of Kiln and
    /// processors with the same level and extensions; others refuse it and name the difference.
    ///
    /// The file is loaded once before it gets its name.
    ///
    /// # Errors
    ///
    /// As [`Session::load`]; [`SessionError::Packed`] if the file cannot be written.
    pub fn pack(path: &Path, to: &Path, options: &SessionOptions) -> Result<PackReport, SessionError> {
        let begun = LoadClock::now(options);
        let name = path.display().to_string();
        let user = User::Session;
        attempt(&name, &begun, || {
            let graph = onnx::load(path, &options.onnx_limits())?;
            let digest = files_of(path, &[&graph]).map(|files| files.digest()).transpose()?;
            let sources = Sources { digest: digest.map(Into::into), ..Sources::default() };
            write(graph, &user, Beside { steps: None, sources }, to, options, &begun)
        })
    }

    /// As [`Session::pack`], of a graph in memory.
    ///
    /// # Errors
    ///
    /// As [`Session::pack`].
    pub fn pack_graph(graph: Graph, to: &Path, options: &SessionOptions) -> Result<PackReport, SessionError> {
        let begun = LoadClock::now(options);
        let name = graph.name.clone();
        attempt(&name, &begun, || write(graph, &User::Session, Beside::default(), to, options, &begun))
    }

    /// Loads a packed model made for that user.
    pub(super) fn load_packed(
        path: &Path,
        name: String,
        user: &User,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Session, SessionError> {
        no_taps(options)?;
        let threads = options.pool.clone().map_or_else(|| Threads::new(options.threads), Ok)?;
        let file = PackedFile::open(path)?;
        // A file for another user is refused before its weights are read.
        file.expect(&made_for(options, user))?;
        if file.index().steps.is_some() != user.takes_steps() {
            let reason = format!("it is for {}, and says otherwise of steps", user.name());
            return Err(PackedError::damaged(path, reason).into());
        }
        verify(&file, options, &threads)?;
        let digest = Digest::of_number(file.index().structure);
        let build = options.build_cx(&threads, &digest);
        no_device(&build)?;
        // Beside another session of the same file, its pages are present already, and memory is taken when requests
        // need it.
        let is_beside = !file.note_session();
        if !is_beside {
            let pages = file.clone();
            let populate = move || PackedFile::populate(pages);
            // Without this thread, pages are read when they are first used.
            let _ = std::thread::Builder::new().name("kiln-pages".to_owned()).spawn(populate);
        }
        let packing = Packing { options, user, build: &build, threads: &threads, begun };
        let (executable, graph) = packing.running(&file)?;
        let ports = |rows: &[PackedPort]| rows.iter().map(port).collect();
        let Index { inputs, outputs, .. } = file.index();
        let made = Made {
            executable,
            overrides: None,
            inputs: ports(inputs),
            outputs: ports(outputs),
            metadata: graph.metadata.clone(),
            constants: file.len() + file.referred(),
            description: Description { graph, passes: PassReport::default() },
            packed: Some(file),
            is_beside,
        };
        build.records.await_remote();
        Ok(Session::assemble(made, name, &digest, build, threads, options, begun))
    }

    /// Serves requests that a packed model alone cannot serve, by a graph that `read` makes from the model's ONNX
    /// files.
    pub(super) fn with_source(mut self, files: Files, options: &SessionOptions, read: Read) -> Session {
        self.overrides = Overrides::of_file(files, read, &self.inputs, options, &self.names);
        self.overrides.iter().for_each(|overrides| self.kept.add(overrides.variants()));
        self
    }

    /// The packed model that has its weights.
    pub(super) fn packed_file(&self) -> Option<&Arc<PackedFile>> {
        self.packed.as_ref()
    }

    /// Whether its weights are those of a packed model, which are mapped and shared with other processes.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Refuses values for inputs whose defaults are built into a packed model.
    pub(super) fn expect_defaults(&self, ordered: &[Option<Value>]) -> Result<(), SessionError> {
        if self.packed.is_none() || self.overrides.is_some() {
            return Ok(());
        }
        let replaced = self.inputs.iter().zip(ordered).find(|(port, value)| port.has_default && value.is_some());
        replaced.map_or(Ok(()), |(port, _)| {
            let reason = "its default is part of the packed weights; load the ONNX model to replace it".to_owned();
            Err(SessionError::Input { name: port.name.clone(), reason })
        })
    }
}

/// Writes a graph, and the data beside it, for that user.
pub(super) fn write(
    graph: Graph,
    user: &User,
    beside: Beside,
    to: &Path,
    options: &SessionOptions,
    begun: &LoadClock,
) -> Result<PackReport, SessionError> {
    no_taps(options)?;
    let threads = options.pool.clone().map_or_else(|| Threads::new(options.threads), Ok)?;
    let digest = structure::digest(&graph);
    let build = options.build_cx(&threads, &digest);
    no_device(&build)?;
    Packing { options, user, build: &build, threads: &threads, begun }.write(graph, beside, &digest, to)
}

/// Taps are values of the graph before its passes.
fn no_taps(options: &SessionOptions) -> Result<(), SessionError> {
    match options.taps.first() {
        None => Ok(()),
        Some(tap) => {
            let reason = format!("value '{tap}' is wanted as an output, which takes the model's own graph");
            Err(PackedError::Unsupported(reason).into())
        }
    }
}

/// Nodes on a device do not pack weights.
fn no_device(build: &BuildCx) -> Result<(), SessionError> {
    match &build.gpu {
        None => Ok(()),
        Some(_) => {
            Err(PackedError::Unsupported("it is for the processor alone, and a device is asked for".to_owned()).into())
        }
    }
}

/// The facts of packed models for these options and that user.
fn made_for(options: &SessionOptions, user: &User) -> MadeFor {
    let passes = format!("{:?}", options.passes);
    MadeFor::here(options.isa(), options.precision, options.numerics, &passes, &user.name())
}

/// The rows of a decoder's steps and states; the elements of biases are added to the data.
fn steps_row(steps: Steps, writer: &mut Writer) -> Result<(StepsRow, Vec<StateRow>), SessionError> {
    let Steps { mut row, biases, states } = steps;
    for (input, graph) in biases {
        let graphs = rows_of(&graph, &mut [], writer)?;
        graph.backings.iter().try_for_each(onnx::read_whole)?;
        row.biases.push(BiasRow { input, graphs });
    }
    Ok((row, states))
}

/// Compares the data of a file with its digests, as often as the options say.
fn verify(file: &PackedFile, options: &SessionOptions, threads: &Threads) -> Result<(), PackedError> {
    let is_due = match options.pack_verify {
        Verify::Each => true,
        Verify::Never => false,
        Verify::Once => !file.is_verified(),
    };
    if !is_due {
        return Ok(());
    }
    let folder = auto::folder(options).filter(|_| options.pack_verify == Verify::Once);
    if folder.as_ref().is_some_and(|folder| folder.has_seen(&file.ids())) {
        file.trust();
        return Ok(());
    }
    file.verify(threads)?;
    if let Some(folder) = folder.filter(|_| options.cache_mode == CacheMode::ReadWrite)
        && let Err(error) = folder.see(&file.ids())
    {
        tracing::warn!(%error, "the packed model will be verified again");
    }
    Ok(())
}

fn row(port: &Port) -> PackedPort {
    let Port { name, kind, dtype, dims, has_default } = port.clone();
    PackedPort { info: ValueInfo { name, kind, dtype, dims, ..ValueInfo::default() }, has_default }
}

fn port(row: &PackedPort) -> Port {
    let ValueInfo { name, kind, dtype, dims, .. } = row.info.clone();
    Port { name, kind, dtype, dims, has_default: row.has_default }
}

/// The context for writing or using a file.
struct Packing<'a> {
    options: &'a SessionOptions,
    user: &'a User,
    build: &'a BuildCx,
    threads: &'a Threads,
    begun: &'a LoadClock,
}

impl Packing<'_> {
    fn maker(&self) -> Maker<'_> {
        Maker::new(self.build, self.threads, self.begun.stop.as_ref())
    }

    fn write(&self, mut graph: Graph, beside: Beside, digest: &Digest, to: &Path) -> Result<PackReport, SessionError> {
        let rows = |ports: Vec<Port>| ports.iter().map(row).collect();
        let (inputs, outputs) = (rows(compile::input_ports(&graph)), rows(compile::output_ports(&graph)));
        let metadata = (*graph.metadata).clone();
        compile::optimise(&mut graph, self.options, self.build, self.begun.stop.as_ref());
        let backings = graph.backings.clone();
        let references = match self.options.pack_weightless {
            true => weightless::references(&backings, to)?.storing(weightless::stored(&graph)),
            false => References::default(),
        };
        let shelf = Noting::by(Writer::new(to)?.referring(references));
        // One node after the other, so that weights are in the order of their use and equal models give equal files.
        let maker = Maker::new(self.build, &Serial, self.begun.stop.as_ref());
        let mut left = maker.with_shelf(&shelf).constants(&mut graph)?;
        left.sort_unstable_by_key(|left| (left.graph, left.value));
        let (mut writer, panels) = shelf.end()?;
        let constant = |Left { graph, value, tensor, stored_in, is_packed }| {
            let kept = !is_packed;
            Constant { graph, value, tensor, stored_in, kept, added: None }
        };
        let mut constants: Vec<Constant> = left.into_iter().map(constant).collect();
        let made_for = made_for(self.options, self.user).0;
        let Beside { steps, mut sources } = beside;
        sources.panels = panels.parts;
        let (steps, states) = steps.map(|steps| steps_row(steps, &mut writer)).transpose()?.unzip();
        let mut index = Index {
            made_for,
            structure: digest.number(),
            inputs,
            outputs,
            metadata,
            graphs: Vec::new(),
            panels: panels.data,
            steps,
            spans: Vec::new(),
            sources,
            states: states.unwrap_or_default(),
        };
        loop {
            index.graphs = rows_of(&graph, &mut constants, &mut writer)?;
            writer.index(&mut index)?;
            let wanted = self.wanted(writer.aside())?;
            if wanted.is_empty() {
                break;
            }
            for constant in &mut constants {
                constant.kept |= wanted.contains(&(constant.graph, constant.value));
            }
        }
        // Elements that could not be read for the data are zeros there.
        backings.iter().try_for_each(onnx::read_whole)?;
        let kept = constants.iter().filter(|constant| constant.kept).count();
        let (panels, packed_only) = (index.panels.len() + index.sources.panels.len(), constants.len() - kept);
        let referred = index.sources.parts.iter().map(|part| part.data.len).sum();
        Ok(PackReport { bytes: writer.finish()?, panels, constants: kept, packed_only, referred })
    }

    /// Constants without elements that nodes read when they are made from the file: some nodes look at weights before
    /// they ask for packed ones.
    fn wanted(&self, path: &Path) -> Result<Vec<(u32, ValueId)>, SessionError> {
        let file = PackedFile::open(path)?;
        file.verify(self.threads)?;
        let mut rebuilt = graph_of(&file)?;
        let shelf = Ready::of(&file);
        let made = self.maker().with_shelf(&shelf).make(&mut rebuilt.graph, &[]);
        let failed = rebuilt.absent.iter().filter(|(_, _, backing)| backing.failure().is_some());
        let wanted: Vec<(u32, ValueId)> = failed.map(|&(graph, value, _)| (graph, value)).collect();
        // An error after reading zeros means nothing.
        if wanted.is_empty() { made.map(|_| wanted) } else { Ok(wanted) }
    }

    /// The running form of a packed model, and its graph.
    fn running(&self, file: &Arc<PackedFile>) -> Result<(kiln_run::Executable, Graph), SessionError> {
        let mut rebuilt = graph_of(file)?;
        let shelf = Ready::of(file);
        let made = self.maker().with_shelf(&shelf).make(&mut rebuilt.graph, &[]);
        match rebuilt.absent.iter().find(|(_, _, backing)| backing.failure().is_some()) {
            Some((_, _, backing)) => {
                let reason = format!(
                    "the elements of '{}' are wanted, and only packed ones are there",
                    backing.path().display()
                );
                Err(PackedError::damaged(file.path(), reason).into())
            }
            None => Ok((made?, rebuilt.graph)),
        }
    }
}
