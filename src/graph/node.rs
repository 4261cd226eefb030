//! The running form of a node, after the executor-cache checklist.
//!
//! For every request the graph walks its nodes. Where the request's shapes have a plan, or a node remembers its input
//! types and shapes (and the contents of its [`Node::value_inputs`]), nothing is asked: the outputs' specs and the
//! prepared executor stand. Otherwise the operator's rule computes the outputs' specs ([`Inference`]), [`Node::check`]
//! refuses what the node cannot use, and [`Node::prepare_params`] fills in a key and asks the cache. Then
//! [`Node::execute`] runs.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Debug};
use std::sync::Arc;

use kiln_kernels::cpu::{Elements, Numerics};
#[cfg(feature = "device")]
use kiln_kernels::gpu::source::KernelCode;
#[cfg(feature = "device")]
use kiln_kernels::gpu::{Module, Problem};
use kiln_kernels::{Isa, KernelError, Parallel, crash};
use smallvec::SmallVec;

#[cfg(feature = "device")]
use super::device::DeviceCx;
use super::inference::InferByValue;
#[cfg(doc)]
use super::inference::Inference;
pub use super::io::Io;
pub use super::operators::error::{Extents, ShapeError};
use super::stop::{Stop, Stopped};
use crate::cache::{Account, Outcome};
#[cfg(feature = "device")]
use crate::exec::GpuCx;
#[cfg(feature = "device")]
use crate::exec::gpu::{Solution, SolverKey};
use crate::exec::tune::{Standing, Tuner};
use crate::exec::{BuildCx, BuildError, ExecutorKey, Family, Share};
use crate::tensor::{BufferPool, Tensor, TensorError, TensorSpec};

/// Why a node could not be prepared or run. The graph adds the node's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Inputs whose shapes, types or values the operator does not allow.
    #[error("{0}")]
    Input(String),
    /// Something the operator allows and Kiln does not do.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Inputs of which the operator makes no output.
    #[error(transparent)]
    Shape(#[from] Box<ShapeError>),
    /// A tensor was not what it had to be.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An executor could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A node of one of its bodies failed.
    #[error("in its body: {0}")]
    Body(Box<super::RunError>),
    /// The request was ended before the node was done.
    #[error("ended here: {0}")]
    Stopped(#[from] Stopped),
    /// Something in it panicked: a fault of Kiln's own. The request is lost, the session serves the next one.
    #[error("a fault of Kiln's own, please report it: {0}")]
    Panicked(String),
    /// The request's loops, or one operator's, did more than they may.
    #[error("{what}: more than the limit of {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
}

/// What a panic said, for errors that stand in its place.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

/// Specs of a node's outputs.
pub type Specs = SmallVec<[TensorSpec; 1]>;

/// What [`Node::prepare_params`] leaves for [`Node::execute`]: executors, or nothing for nodes that compute nothing.
#[derive(Clone, Default)]
pub struct Prepared {
    kept: Option<Arc<dyn Any + Send + Sync>>,
    /// What it was asked for by; only in programs that tell of their crashes.
    asked: Option<Arc<AskedKeys>>,
    bytes: usize,
}

/// Keys that a node asked for, for the last line of a crash.
#[derive(Default)]
struct AskedKeys(SmallVec<[Box<dyn Debug + Send + Sync>; 1]>);

impl fmt::Display for AskedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(place, key)| {
            let separator = if place == 0 { "" } else { " and " };
            write!(f, "{separator}{key:?}")
        })
    }
}

impl Prepared {
    /// Nothing to keep.
    pub const NONE: Prepared = Prepared { kept: None, asked: None, bytes: 0 };

    /// Keeps an executor, or a struct of several, which has no memory of its own besides.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Prepared {
        Prepared::holding(value, 0)
    }

    /// Keeps what has that many bytes of memory of its own that no cache is charged for: tables, lists.
    pub fn holding<T: Any + Send + Sync>(value: Arc<T>, bytes: usize) -> Prepared {
        Prepared { kept: Some(value), asked: None, bytes: bytes + size_of::<T>() + 32 }
    }

    /// Bytes that whoever keeps this is charged for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was kept.
    ///
    /// # Errors
    ///
    /// Only where `execute` asks for another type than `prepare_params` kept: a broken invariant of the node.
    pub fn get<T: Any + Send + Sync>(&self) -> Result<&T, NodeError> {
        self.kept
            .as_deref()
            .and_then(|any| any.downcast_ref())
            .ok_or_else(|| NodeError::Input("the node was run before it was prepared".to_owned()))
    }
}

/// What says whether the executors of a node are still the best that are known.
pub(super) type Standings = SmallVec<[Arc<Standing>; 1]>;

/// What a node may use while it prepares: the caches, through the one door that counts outcomes.
pub struct PrepareCx<'a> {
    build: &'a BuildCx,
    /// Who wants to know which keys are asked for, if anybody.
    tuner: Option<&'a Tuner>,
    /// Whose look-ups these are.
    share: Option<&'a Share>,
    outcome: Cell<Option<Outcome>>,
    standings: RefCell<Standings>,
    /// The keys themselves; only in programs that tell of their crashes.
    asked: RefCell<AskedKeys>,
    /// Texts of the keys that were asked for; only where somebody wants to read them, because making them allocates.
    keys: Option<RefCell<Vec<String>>>,
}

impl<'a> PrepareCx<'a> {
    /// A context that has not been asked yet.
    #[must_use]
    pub fn new(build: &'a BuildCx) -> PrepareCx<'a> {
        let (outcome, standings, asked) = (Cell::new(None), RefCell::default(), RefCell::default());
        PrepareCx { build, tuner: None, share: None, outcome, standings, asked, keys: None }
    }

    /// A context that also notes every key in words, for tools that show them.
    #[must_use]
    pub fn noting_keys(build: &'a BuildCx) -> PrepareCx<'a> {
        PrepareCx { keys: Some(RefCell::default()), ..PrepareCx::new(build) }
    }

    /// The same context, which tells a tuner of every key.
    #[must_use]
    pub fn told_to(self, tuner: Option<&'a Tuner>) -> PrepareCx<'a> {
        PrepareCx { tuner, ..self }
    }

    /// The same context, whose look-ups are counted there.
    #[must_use]
    pub fn counted_in(self, share: Option<&'a Share>) -> PrepareCx<'a> {
        PrepareCx { share, ..self }
    }

    /// What executors are charged to.
    pub(super) fn account(&self) -> &Arc<Account> {
        self.build.cache.account()
    }

    /// The executor of that key: from the cache, from a record, or built.
    pub fn executor<K: Family>(&self, key: &K) -> Result<Arc<K::Value>, NodeError> {
        self.note_key(key);
        // Before the executor: one that is replaced between the two is asked for once more, and none is missed.
        let standing = self.tuner.and_then(|tuner| tuner.note(key));
        let (executor, outcome) = self.build.executor(key)?;
        self.standings.borrow_mut().extend(standing);
        self.count(outcome, K::weigh(&executor));
        Ok(executor)
    }

    /// Counts a node that was not given the executor of all that was fused into it, and does it one after the other.
    pub(crate) fn count_apart(&self) {
        if let Some(share) = self.share {
            share.count_apart();
        }
    }

    fn note_key<K: Debug + Clone + Send + Sync + 'static>(&self, key: &K) {
        if crash::is_watched() {
            self.asked.borrow_mut().0.push(Box::new(key.clone()));
        }
        if let Some(keys) = &self.keys {
            keys.borrow_mut().push(format!("{key:?}"));
        }
    }

    fn count(&self, outcome: Outcome, bytes: usize) {
        if let Some(share) = self.share {
            share.count(outcome, bytes);
        }
        // A node that asks several times reports its most expensive answer.
        self.outcome.set(self.outcome.get().max(Some(outcome)));
    }

    /// How a problem is solved on the device: from the cache, from a record, or as its libraries propose.
    #[cfg(feature = "device")]
    pub fn solver(&self, problem: &Problem) -> Result<Arc<Solution>, NodeError> {
        let key = SolverKey::new(problem, self.build.gpu()?);
        self.note_key(&key);
        let standing = self.tuner.and_then(|tuner| tuner.note_solver(&key));
        let (solution, outcome) = self.build.solver_of(&key)?;
        self.standings.borrow_mut().extend(standing);
        self.count(outcome, solution.weigh());
        Ok(solution)
    }

    /// The compiled kernel of that code on the device: from the cache, ahead of need by a record, or compiled now.
    #[cfg(feature = "device")]
    pub fn module(&self, code: &KernelCode) -> Result<Arc<dyn Module>, NodeError> {
        self.note_key(code);
        let (compiled, outcome) = self.build.module(code)?;
        self.count(outcome, compiled.weigh());
        Ok(compiled.module.clone())
    }

    /// The device, if there is one to be used.
    #[cfg(feature = "device")]
    #[must_use]
    pub fn gpu(&self) -> Option<&'a GpuCx> {
        self.build.gpu.as_deref()
    }

    /// The key of an executor that solves a problem here.
    #[must_use]
    pub fn key<P>(&self, problem: P) -> ExecutorKey<P> {
        ExecutorKey::new(self.build.target(), problem)
    }

    /// The instruction-set level in force, a part of every key.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.build.isa
    }

    /// Threads that executors may use, a part of every key that splits work.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.build.threads
    }

    /// What products of two computed matrices are of, a part of the keys of kernels that multiply such.
    #[must_use]
    pub fn computed_elements(&self) -> Elements {
        self.build.elements().of_computed()
    }

    /// How far rounding may go, a part of every key whose kernels have a choice.
    #[must_use]
    pub fn numerics(&self) -> Numerics {
        self.build.numerics
    }

    /// What the cache answered, if it was asked.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get()
    }

    /// Prepares a node of this context.
    ///
    /// # Errors
    ///
    /// The node's.
    pub(super) fn prepare(
        &self,
        node: &dyn Node,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let prepared = node.prepare_params(self, inputs, outputs)?;
        let asked = self.asked.take();
        Ok(if asked.0.is_empty() { prepared } else { Prepared { asked: Some(Arc::new(asked)), ..prepared } })
    }

    /// What says whether the executors that were given are replaced.
    pub(super) fn take_standings(&self) -> Standings {
        self.standings.take()
    }

    /// The keys that were asked for, if they were noted.
    #[must_use]
    pub fn into_keys(self) -> Vec<String> {
        self.keys.map(RefCell::into_inner).unwrap_or_default()
    }
}

/// What a node may use while it runs.
pub struct RunCx<'a> {
    /// Threads.
    pub parallel: &'a dyn Parallel,
    /// Memory of outputs and scratch.
    pub buffers: &'a Arc<BufferPool>,
    /// Most steps that a node may take whose attributes turn a few elements into any number of them.
    pub steps: u64,
    /// What may end the request, for nodes whose own loops are long.
    pub stop: Option<&'a Stop>,
}

impl RunCx<'_> {
    /// Whether a node that takes many steps shall take another one.
    ///
    /// # Errors
    ///
    /// [`NodeError::Stopped`] where the request has ended.
    pub fn check_stop(&self) -> Result<(), NodeError> {
        match self.stop {
            None => Ok(()),
            Some(stop) => Ok(stop.check()?),
        }
    }

    /// Runs a node.
    ///
    /// # Errors
    ///
    /// The node's, and [`NodeError::Stopped`] where it left a part of its work because the request has ended.
    pub fn execute(&self, node: &dyn Node, prepared: &Prepared, io: &mut Io<'_>) -> Result<(), NodeError> {
        let done = match &prepared.asked {
            None => node.execute(prepared, io, self),
            Some(keys) => crash::within(&**keys, || node.execute(prepared, io, self)),
        };
        // What was left unfinished may look like another fault.
        self.check_whole()?;
        done
    }

    /// Whether all tasks and blocks of work that a node has begun were done, for nodes that go on with what they made.
    ///
    /// # Errors
    ///
    /// [`NodeError::Stopped`] where the request has ended.
    pub fn check_whole(&self) -> Result<(), NodeError> {
        match self.stop {
            None => Ok(()),
            Some(stop) => Ok(stop.check_whole()?),
        }
    }

    /// Holds the steps that a node is about to take against their bound.
    ///
    /// # Errors
    ///
    /// [`NodeError::Limit`] where they are more.
    pub fn check_steps(&self, steps: u64) -> Result<(), NodeError> {
        let limit = self.steps;
        if steps <= limit { Ok(()) } else { Err(NodeError::Limit { what: "steps of one operator", limit }) }
    }

    /// Scratch of `count` elements that hold whatever was in them.
    pub fn scratch<T: crate::tensor::Element>(&self, count: usize) -> Result<Tensor, NodeError> {
        Ok(Tensor::from_pool(self.buffers, TensorSpec::new(T::DTYPE, [count]))?)
    }
}

/// An operator with its attributes and constants, ready to run at any shape.
pub trait Node: Send + Sync {
    /// The kernel family, or the operator's name where it computes nothing; for verbose lines and profiles.
    fn family(&self) -> &'static str;

    /// Inputs whose contents, not only shapes, decide the outputs' specs or the key, by bit: bit 1 is input 1.
    /// Only small tensors (shapes, axes, pads) should be named.
    fn value_inputs(&self) -> u64 {
        0
    }

    /// Inputs that are constants and of which the node has kept all that it needs, packed in its own way, by bit. Their
    /// elements are let go where no other node wants them; the node then finds their specs alone.
    fn kept_inputs(&self) -> u64 {
        0
    }

    /// What infers the outputs where the rule of the operator's row cannot, because their shapes depend on contents.
    fn by_value(&self) -> Option<&dyn InferByValue> {
        None
    }

    /// Refuses inputs that the rule of the operator's row lets through and the node cannot use: element types, operands
    /// that do not belong to the outputs. Called with what was inferred, before any key is made.
    ///
    /// # Errors
    ///
    /// What cannot be used.
    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// The checklist's step: fill in the key from shapes and attributes and ask the cache. Called only when shapes
    /// (or contents of value inputs) have changed. Nodes that need no executor keep the default.
    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let _ = (cx, inputs, outputs);
        Ok(Prepared::NONE)
    }

    /// The same where the node runs on a device: writes down what the device shall do, instead of asking for an executor of the
    /// processor's. Called of nodes alone whose operator has a form there.
    #[cfg(feature = "device")]
    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let _ = (cx, inputs, outputs);
        Err(NodeError::Unsupported(format!("{} on a device", self.family())))
    }

    /// Computes the outputs: one [`Io::push`] for each.
    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError>;
}
