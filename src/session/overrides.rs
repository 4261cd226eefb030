//! Requests that the main executable does not serve: those that replace defaults, and those in which dimensions of one
//! name differ.
//!
//! Initialisers that a model also lists as inputs are defaults. A session compiles them as constants, so that they are
//! folded and packed: nearly every request leaves them out. The first request that gives one compiles a second
//! executable, in which it is an input and the other defaults stay constants. A default that is given later becomes an
//! input too, so a session compiles at most as often as it has defaults, and usually once.
//!
//! Passes trust that dimensions of one name are equal. Some models contradict that (one name for every unknown size),
//! and other runtimes run them: here an executable of the graph without its names runs them.
//!
//! For both, the graph is kept as it was before its passes. Weights from a file stay in the file; weights of a model
//! from memory stay in memory. A large model from memory is not kept for its names alone.

use std::sync::{Arc, PoisonError};

use kiln_fork::{Mutex, Origin};
use kiln_kernels::Parallel;
use kiln_model::ir::Attr;
use kiln_model::onnx;
use kiln_model::{Graph, Stop, Value};
use kiln_run::Executable;
use kiln_run::exec::BuildCx;
use kiln_tensor::Tensor;

use super::compile::compile;
use super::idle::Idle;
use super::names::{self, Names};
use super::options::SessionOptions;
use super::{Port, SessionError};
use crate::packed::PackedError;
use crate::packed::folder::Files;

/// A graph before its passes, and the executables that were compiled from it.
pub(super) struct Overrides {
    source: Source,
    options: SessionOptions,
    /// By input, whether it has a default.
    defaults: Vec<bool>,
    made: Arc<Variants>,
    /// Held while an executable is compiled.
    making: std::sync::Mutex<()>,
    /// The process whose threads may hold `making`.
    origin: Origin,
}

/// The executable for requests in which dimensions of one name differ, and the one for others.
#[derive(Default)]
pub(super) struct Variants([Mutex<Option<Arc<Variant>>>; 2]);

impl Variants {
    /// The executables that were made.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Variant>> {
        self.0.iter().filter_map(|made| made.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Where the graph comes from.
enum Source {
    /// It was kept when the model was loaded.
    Kept(Box<Graph>),
    /// Made from the ONNX files of a packed model, with the identities of these files.
    Files(Files, Read),
}

/// Reads a graph from its ONNX files, as it is before its passes.
pub(super) type Read = Box<dyn Fn(&SessionOptions) -> Result<Graph, SessionError> + Send + Sync>;

impl Source {
    /// The graph, with constants that will be read from their files.
    fn graph(&self, options: &SessionOptions) -> Result<Graph, SessionError> {
        match self {
            Source::Kept(graph) => Ok(unread(graph)),
            Source::Files(files, read) if files.are_unchanged() => read(options),
            Source::Files(files, _) => {
                let path = files.model();
                let reason = format!("the request takes the graph of {}, which was changed since", path.display());
                Err(PackedError::damaged(path, reason).into())
            }
        }
    }
}

/// Most bytes of constants that stay in memory only for dimensions of one name that may differ.
const KEPT: usize = 16 << 20;

/// An executable in which some defaults are inputs.
pub(super) struct Variant {
    pub(super) executable: Executable,
    /// Run states between its requests.
    pub(super) idle: Mutex<Idle>,
    /// By input, the value of each default that is an input here, for requests that leave it out.
    defaults: Vec<Option<Value>>,
}

impl Overrides {
    /// A copy of the graph before it is compiled; `None` if it has neither defaults nor dimensions of one name that may
    /// differ.
    pub(super) fn of(graph: &Graph, options: &SessionOptions, names: &Names) -> Option<Overrides> {
        let defaults: Vec<bool> = graph.inputs.iter().map(|input| graph.constants.contains_key(input)).collect();
        let wanted = defaults.contains(&true) || names.any() && held_bytes(graph) <= KEPT;
        wanted.then(|| Overrides::new(Source::Kept(Box::new(unread(graph))), defaults, options))
    }

    /// For a packed model: the graph is read from the ONNX files when it is needed, if these still match `files`.
    pub(super) fn of_file(
        files: Files,
        read: Read,
        inputs: &[Port],
        options: &SessionOptions,
        names: &Names,
    ) -> Option<Overrides> {
        let defaults: Vec<bool> = inputs.iter().map(|port| port.has_default).collect();
        let wanted = defaults.contains(&true) || names.any();
        wanted.then(|| Overrides::new(Source::Files(files, read), defaults, options))
    }

    fn new(source: Source, defaults: Vec<bool>, options: &SessionOptions) -> Overrides {
        Overrides {
            source,
            options: options.clone(),
            defaults,
            made: Arc::default(),
            making: std::sync::Mutex::new(()),
            origin: Origin::here(),
        }
    }

    /// The executable for a request with inputs in the model's order; `None` if it replaces no default and dimensions
    /// of one name are equal (`agreed`). Defaults that are inputs there and that the request leaves out are filled in.
    ///
    /// # Errors
    ///
    /// If the graph is not supported without its constants, which some operators need.
    pub(super) fn variant(
        &self,
        inputs: &mut [Option<Value>],
        agreed: bool,
        build: &BuildCx,
        parallel: &dyn Parallel,
    ) -> Result<Option<Arc<Variant>>, SessionError> {
        let given = |place: &usize| inputs[*place].is_some() && self.defaults.get(*place) == Some(&true);
        let replaced: Vec<usize> = (0..inputs.len()).filter(given).collect();
        if replaced.is_empty() && agreed {
            return Ok(None);
        }
        let made = || self.made.0[usize::from(agreed)].lock().unwrap_or_else(PoisonError::into_inner).clone();
        let serves = |variant: &Arc<Variant>| replaced.iter().all(|&place| variant.defaults[place].is_some());
        let variant = match made().filter(serves) {
            Some(variant) => variant,
            None => {
                // One at a time; a forked child has one thread only.
                let here = self.origin.is_here();
                let _making = here.then(|| self.making.lock().unwrap_or_else(PoisonError::into_inner));
                let before = made();
                match before.clone().filter(serves) {
                    Some(variant) => variant,
                    None => {
                        let known = before.as_ref().map_or(&[][..], |variant| &variant.defaults);
                        let open =
                            |place: &usize| replaced.contains(place) || matches!(known.get(*place), Some(Some(_)));
                        let fresh = Arc::new(self.make((0..inputs.len()).filter(open), agreed, build, parallel)?);
                        let mut made = self.made.0[usize::from(agreed)].lock().unwrap_or_else(PoisonError::into_inner);
                        made.insert(fresh).clone()
                    }
                }
            }
        };
        for (input, default) in inputs.iter_mut().zip(&variant.defaults) {
            if input.is_none() {
                input.clone_from(default);
            }
        }
        Ok(Some(variant))
    }

    /// The executables, to give back the memory of their states.
    pub(super) fn variants(&self) -> Arc<Variants> {
        self.made.clone()
    }

    fn make(
        &self,
        open: impl Iterator<Item = usize>,
        named: bool,
        build: &BuildCx,
        parallel: &dyn Parallel,
    ) -> Result<Variant, SessionError> {
        let mut graph = self.source.graph(&self.options)?;
        if !named {
            names::forget(&mut graph);
        }
        let mut defaults = vec![None; graph.inputs.len()];
        for place in open {
            let Some(tensor) = graph.constants.remove(&graph.inputs[place]) else { continue };
            tensor.fetch();
            defaults[place] = Some(Value::Tensor(tensor));
        }
        graph.backings.iter().try_for_each(onnx::read_whole)?;
        let stop = Stop::after(self.options.load_time_limit, None);
        let (executable, _) = compile(graph, &self.options, build, parallel, stop.as_ref())?;
        Ok(Variant { executable, idle: Mutex::new(Idle::new(self.options.buffer_bytes)), defaults })
    }
}

/// Bytes of constants that are in no file.
fn held_bytes(graph: &Graph) -> usize {
    let held = |tensor: &Tensor| if tensor.is_in_file() { 0 } else { tensor.byte_len() };
    let bodies = graph.nodes.iter().flat_map(|node| node.attrs.values()).map(|attr| match attr {
        Attr::Tensor(tensor) => held(tensor),
        Attr::Graph(body) => held_bytes(body),
        _ => 0,
    });
    graph.constants.values().map(held).chain(bodies).sum()
}

/// The same graph, with constants that will be read from their files once more.
fn unread(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    unread_in_place(&mut graph);
    graph
}

fn unread_in_place(graph: &mut Graph) {
    graph.constants.values_mut().for_each(|tensor| *tensor = tensor.unread());
    for attr in graph.nodes.iter_mut().flat_map(|node| node.attrs.values_mut()) {
        match attr {
            Attr::Tensor(tensor) => *tensor = tensor.unread(),
            Attr::Graph(body) => unread_in_place(Arc::make_mut(body)),
            _ => {}
        }
    }
}
