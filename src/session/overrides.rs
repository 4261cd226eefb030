//! Initialisers that a model also lists as inputs: defaults, which a request may replace.
//!
//! A session compiles them as the constants that they are in nearly every request, so that they are folded and packed.
//! The first request that gives one makes a second executable, in which it is an input like any other; the other
//! defaults stay constants there. One that is asked for later joins those before it, so that a session compiles at most
//! as often as it has defaults, and usually once.
//!
//! What is kept for that is the graph as the model has it. Weights that came from a file stay in the file; those of a
//! model from memory stay in memory.

use std::sync::{Arc, Mutex, PoisonError};

use kiln_kernels::Parallel;

use super::compile::compile;
use super::options::SessionOptions;
use super::{Idle, SessionError};
use crate::exec::BuildCx;
use crate::graph::ir::Attr;
use crate::graph::{Executable, Graph, Stop, Value};
use crate::onnx;

/// The defaults of a model, and what was made for requests that replace some.
pub(super) struct Overrides {
    /// As the model has it.
    graph: Graph,
    options: SessionOptions,
    made: Mutex<Option<Arc<Variant>>>,
}

/// An executable in which some defaults are inputs.
pub(super) struct Variant {
    pub(super) executable: Executable,
    /// Run states between its requests.
    pub(super) idle: Mutex<Idle>,
    /// By input, the default of those that are inputs here: what a request gives that leaves them out.
    defaults: Vec<Option<Value>>,
}

impl Overrides {
    /// What a graph needs before it is compiled, if any of its constants are inputs too.
    pub(super) fn of(graph: &Graph, options: &SessionOptions) -> Option<Overrides> {
        let any = graph.inputs.iter().any(|input| graph.constants.contains_key(input));
        any.then(|| Overrides { graph: unread(graph), options: options.clone(), made: Mutex::new(None) })
    }

    /// The executable for a request whose inputs are given in the model's order; none where it replaces nothing. Defaults
    /// that are inputs there and that the request leaves out are filled in.
    ///
    /// # Errors
    ///
    /// Where the graph is not supported without its constants: some operators ask for them.
    pub(super) fn variant(
        &self,
        inputs: &mut [Option<Value>],
        build: &BuildCx,
        parallel: &dyn Parallel,
    ) -> Result<Option<Arc<Variant>>, SessionError> {
        let default = |place: usize| self.graph.constants.get(&self.graph.inputs[place]);
        let replaced: Vec<usize> =
            (0..inputs.len()).filter(|&place| inputs[place].is_some() && default(place).is_some()).collect();
        if replaced.is_empty() {
            return Ok(None);
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let serves = |variant: &Variant| replaced.iter().all(|&place| variant.defaults[place].is_some());
        let variant = match made.as_ref().filter(|variant| serves(variant)) {
            Some(variant) => Arc::clone(variant),
            None => {
                let before = made.as_ref().map_or(&[][..], |variant| &variant.defaults);
                let open = |place: &usize| replaced.contains(place) || matches!(before.get(*place), Some(Some(_)));
                let fresh = Arc::new(self.make((0..inputs.len()).filter(open), build, parallel)?);
                made.insert(fresh).clone()
            }
        };
        drop(made);
        for (input, default) in inputs.iter_mut().zip(&variant.defaults) {
            if input.is_none() {
                input.clone_from(default);
            }
        }
        Ok(Some(variant))
    }

    fn make(
        &self,
        open: impl Iterator<Item = usize>,
        build: &BuildCx,
        parallel: &dyn Parallel,
    ) -> Result<Variant, SessionError> {
        let mut graph = unread(&self.graph);
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
