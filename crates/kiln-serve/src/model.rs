//! The server's interface to a runtime: models that are loaded from files and run requests.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::datatype::Datatype;
use crate::language::Language;
use crate::ticket::{Failure, Ticket};

/// An input or output that a model declares.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its element type; `None` where the protocol has no name for it, so that no request can give or ask for it.
    pub datatype: Option<Datatype>,
    /// The model's name for the type.
    pub declared: String,
    /// Its dimensions, `None` for an unknown dimension; `None` for an unknown rank.
    pub shape: Option<Vec<Option<usize>>>,
    /// Whether a request may leave it out.
    pub is_optional: bool,
}

/// The elements of a tensor in row-major order.
#[derive(Clone, Debug)]
pub enum Values {
    /// Elements of a fixed width, little-endian, without padding.
    Bytes(Bytes),
    /// The elements of a tensor of [`Datatype::Bytes`].
    Texts(Vec<String>),
}

/// An input of a request or an output of its answer.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The port's name.
    pub name: String,
    /// The element type.
    pub datatype: Datatype,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// The elements, as many as the shape has.
    pub values: Values,
}

/// Whether the server's requests suffice for all its lanes when a request begins to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Some lanes are idle, so that a request may use more than its own thread.
    Light,
    /// At least as many requests run or wait as there are lanes: each is done soonest on its own thread.
    Full,
}

/// A request of a group.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its inputs, as [`Model::run`] takes them.
    pub inputs: &'a [Tensor],
    /// How long the request is wanted.
    pub ticket: &'a Arc<Ticket>,
}

/// Look-ups of a model's requests in the runtime's cache, by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// The value was there.
    pub hit: u64,
    /// The value was built from a record.
    pub record: u64,
    /// The value was chosen and built.
    pub miss: u64,
}

/// A model that is loaded. Requests of many threads run on it at the same time.
pub trait Model: Send + Sync {
    /// Its inputs. A language model has the protocol's inputs, and is not asked for them.
    fn inputs(&self) -> &[Port];

    /// Its outputs; for a language model as for inputs.
    fn outputs(&self) -> &[Port];

    /// Runs a request whose names, types, ranks and fixed dimensions have been checked against the ports. Returns all
    /// outputs in the model's order, without those whose type the protocol does not have. `load` is the server's load
    /// when the request begins.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    fn run(&self, inputs: Vec<Tensor>, ticket: &Arc<Ticket>, load: Load) -> Result<Vec<Tensor>, Failure>;

    /// The number of rows of a request whose inputs have these shapes, by their names, where it may run in a group with
    /// others; `None` where it runs alone. Called when the request arrives, by the thread of all connections.
    fn rows(&self, _inputs: &[(&str, &[usize])]) -> Option<usize> {
        None
    }

    /// Most rows of a group.
    fn most_rows(&self) -> usize {
        0
    }

    /// Runs requests that have [rows](Model::rows) as one group, and returns the outputs of each as [`Model::run`]
    /// does. A request whose [`Ticket`] ends meanwhile leaves the group and has no outputs. `None` where the group
    /// falls apart: each request then runs alone.
    fn run_group(&self, _requests: &[Request<'_>], _load: Load) -> Option<Vec<Option<Vec<Tensor>>>> {
        None
    }

    /// The language model, where this is one. Its requests go there and not to [`Model::run`].
    fn language(&self) -> Option<&dyn Language> {
        None
    }

    /// Its look-ups since it was loaded.
    fn lookups(&self) -> Lookups;

    /// Called once before the process ends: saves what the model has learnt.
    fn save(&self);
}

/// Loads models.
pub trait Loader: Send + Sync {
    /// Loads the file, and runs requests that are known from earlier processes, so that the first request meets a warm
    /// model.
    ///
    /// # Errors
    ///
    /// Why it cannot be loaded, without the path.
    fn load(&self, file: &Path) -> Result<Arc<dyn Model>, String>;

    /// Bytes in use, by purpose.
    fn memory(&self) -> Vec<(&'static str, u64)>;
}
