//! Requests that what a model was compiled to does not serve: those that replace defaults, and those in which dimensions of
//! one name differ.
//!
//! Initialisers that a model also lists as inputs are defaults. A session compiles them as the constants that they are in nearly every request, so that they are folded and packed.
//! The first request that gives one makes a second executable, in which it is an input like any other; the other
//! defaults stay constants there. One that is asked for later joins those before it, so that a session compiles at most
//! as often as it has defaults, and usually once.
//!
//! Passes trust that dimensions of one name are equal. Models that break their own word are met all the same (a name for
//! whatever is not known), and other runtimes serve them: here an executable of the graph without its names does.
//!
//! What is kept for that is the graph as the model has it. Weights that came from a file stay in the file; those of a
//! model from memory stay in memory. For its names alone no large model is kept in memory.

use std::sync::{Arc, PoisonError};

use kiln_kernels::Parallel;

use super::compile::compile;
use super::names::{self, Names};
use super::options::SessionOptions;
use super::{Idle, SessionError};
use crate::exec::BuildCx;
use crate::fork::{Mutex, Origin};
use crate::graph::ir::Attr;
use crate::graph::{Executable, Graph, Stop, Value};
use crate::onnx;
use crate::tensor::Tensor;

/// A graph as the model has it, and what was made of it for requests that are not like most.
pub(super) struct Overrides {
    graph: Graph,
    options: SessionOptions,
    /// Whether there are any that a request could replace.
    defaults: bool,
    /// For requests in which dimensions of one name differ, and for those in which they do not.
    made: [Mutex<Option<Arc<Variant>>>; 2],
    /// Held while one is made.
    making: std::sync::Mutex<()>,
    /// The process in which somebody may hold it.
    origin: Origin,
}

/// Most bytes of constants that stay in memory for dimensions of one name that may differ.
const KEPT: usize = 16 << 20;

/// An executable in which some defaults are inputs.
pub(super) struct Variant {
    pub(super) executable: Executable,
    /// Run states between its requests.
    pub(super) idle: Mutex<Idle>,
    /// By input, the default of those that are inputs here: what a request gives that leaves them out.
    defaults: Vec<Option<Value>>,
}

impl Overrides {
    /// What a graph needs before it is compiled, if any of its constants are inputs too, or any of its dimensions of one name
    /// may differ.
    pub(super) fn of(graph: &Graph, options: &SessionOptions, names: &Names) -> Option<Overrides> {
        let defaults = graph.inputs.iter().any(|input| graph.constants.contains_key(input));
        let wanted = defaults || names.any() && held_bytes(graph) <= KEPT;
        wanted.then(|| Overrides {
            graph: unread(graph),
            options: options.clone(),
            defaults,
            made: Default::default(),
            making: std::sync::Mutex::new(()),
            origin: Origin::here(),
        })
    }

    /// The executable for a request whose inputs are given in the model's order; none where it replaces nothing and dimensions
    /// of one name are equal (`agreed`). Defaults that are inputs there and that the request leaves out are filled in.
    ///
    /// # Errors
    ///
    /// Where the graph is not supported without its constants: some operators ask for them.
    pub(super) fn variant(
        &self,
        inputs: &mut [Option<Value>],
        agreed: bool,
        build: &BuildCx,
        parallel: &dyn Parallel,
    ) -> Result<Option<Arc<Variant>>, SessionError> {
        if agreed && !self.defaults {
            return Ok(None);
        }
        let default = |place: usize| self.graph.constants.get(&self.graph.inputs[place]);
        let replaced: Vec<usize> =
            (0..inputs.len()).filter(|&place| inputs[place].is_some() && default(place).is_some()).collect();
        if replaced.is_empty() && agreed {
            return Ok(None);
        }
        let made = || self.made[usize::from(agreed)].lock().unwrap_or_else(PoisonError::into_inner).clone();
        let serves = |variant: &Arc<Variant>| replaced.iter().all(|&place| variant.defaults[place].is_some());
        let variant = match made().filter(serves) {
            Some(variant) => variant,
            None => {
                // One at a time; in a forked child, there is but one.
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
                        let mut made = self.made[usize::from(agreed)].lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Has the states between requests give their memory back.
    pub(super) fn release(&self) {
        for made in &self.made {
            let variant = made.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(variant) = variant {
                variant.idle.lock().unwrap_or_else(PoisonError::into_inner).release();
            }
        }
    }

    fn make(
        &self,
        open: impl Iterator<Item = usize>,
        named: bool,
        build: &BuildCx,
        parallel: &dyn Parallel,
    ) -> Result<Variant, SessionError> {
        let mut graph = unread(&self.graph);
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

/// The same graph, whose constants will be read from their files once more.
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
