//! The context in which a node is prepared: look-ups in the caches, and what the node keeps of their answers.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Debug};
use std::sync::Arc;

use kiln_cache::{Account, Outcome};
use kiln_kernels::cpu::{Elements, Numerics};
use kiln_kernels::gpu::source::KernelCode;
use kiln_kernels::gpu::{Module, Problem};
use kiln_kernels::{Isa, crash};
use kiln_tensor::TensorSpec;
use smallvec::SmallVec;

use super::error::NodeError;
use crate::exec::GpuCx;
use crate::exec::gpu::{Solution, SolverKey};
use crate::exec::tune::{Standing, Tuner};
use crate::exec::{BuildCx, ExecutorKey, Family, Share};

/// Specs of a node's outputs.
pub type Specs = SmallVec<[TensorSpec; 1]>;

/// What [`Node::prepare_params`](super::Node::prepare_params) leaves for [`Node::execute`](super::Node::execute):
/// executors, or nothing for nodes that compute nothing.
#[derive(Clone, Default)]
pub struct Prepared {
    kept: Option<Arc<dyn Any + Send + Sync>>,
    /// The keys that the node looked up; only in programs that report crashes.
    asked: Option<Arc<AskedKeys>>,
    bytes: usize,
}

/// Keys that a node looked up, for the last line of a crash.
#[derive(Default)]
pub(super) struct AskedKeys(SmallVec<[Box<dyn Debug + Send + Sync>; 1]>);

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

    /// Keeps an executor, or a struct of several, without memory of its own.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Prepared {
        Prepared::holding(value, 0)
    }

    /// Keeps a value with `bytes` of memory (tables, lists) that no cache is charged for.
    pub fn holding<T: Any + Send + Sync>(value: Arc<T>, bytes: usize) -> Prepared {
        Prepared { kept: Some(value), asked: None, bytes: bytes + size_of::<T>() + 32 }
    }

    /// Bytes that the plan or memo with this value is charged for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The keys that the node looked up, in programs that report crashes.
    pub(super) fn asked(&self) -> Option<&AskedKeys> {
        self.asked.as_deref()
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// If `execute` expects another type than `prepare_params` kept: a fault of the node.
    pub fn get<T: Any + Send + Sync>(&self) -> Result<&T, NodeError> {
        self.kept
            .as_deref()
            .and_then(|any| any.downcast_ref())
            .ok_or_else(|| NodeError::Input("the node was run before it was prepared".to_owned()))
    }
}

/// The standings that say whether a node's executors have been replaced by better ones.
pub(super) type Standings = SmallVec<[Arc<Standing>; 1]>;

/// What a node may use while it is prepared. All look-ups go through it, so that outcomes are counted.
pub struct PrepareCx<'a> {
    build: &'a BuildCx,
    /// The tuner that notes the keys, if there is one.
    tuner: Option<&'a Tuner>,
    /// The counters of the session's look-ups.
    share: Option<&'a Share>,
    outcome: Cell<Option<Outcome>>,
    standings: RefCell<Standings>,
    /// The keys; only in programs that report crashes.
    asked: RefCell<AskedKeys>,
    /// The keys in words; only for tools that show them, because making them allocates.
    keys: Option<RefCell<Vec<String>>>,
}

impl<'a> PrepareCx<'a> {
    /// A context without look-ups so far.
    #[must_use]
    pub fn new(build: &'a BuildCx) -> PrepareCx<'a> {
        let (outcome, standings, asked) = (Cell::new(None), RefCell::default(), RefCell::default());
        PrepareCx { build, tuner: None, share: None, outcome, standings, asked, keys: None }
    }

    /// A context that also keeps every key in words, for tools that show them.
    #[must_use]
    pub fn noting_keys(build: &'a BuildCx) -> PrepareCx<'a> {
        PrepareCx { keys: Some(RefCell::default()), ..PrepareCx::new(build) }
    }

    /// The same context, with a tuner that notes every key.
    #[must_use]
    pub fn with_tuner(self, tuner: Option<&'a Tuner>) -> PrepareCx<'a> {
        PrepareCx { tuner, ..self }
    }

    /// The same context, with counters of look-ups.
    #[must_use]
    pub fn with_share(self, share: Option<&'a Share>) -> PrepareCx<'a> {
        PrepareCx { share, ..self }
    }

    /// The account that executors are charged to.
    pub(super) fn account(&self) -> &Arc<Account> {
        self.build.cache.account()
    }

    /// The executor of the key: from the cache, rebuilt from a record, or built.
    pub fn executor<K: Family>(&self, key: &K) -> Result<Arc<K::Value>, NodeError> {
        self.note_key(key);
        // Before the look-up: a replacement between the two costs one more look-up, and none is missed.
        let standing = self.tuner.and_then(|tuner| tuner.note(key));
        let (executor, outcome) = self.build.executor(key)?;
        self.standings.borrow_mut().extend(standing);
        self.count(outcome, K::weigh(&executor));
        Ok(executor)
    }

    /// Counts a node whose fused operators have no common executor and run one after the other.
    pub fn count_apart(&self) {
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
        // A node with several look-ups reports the most expensive outcome.
        self.outcome.set(self.outcome.get().max(Some(outcome)));
    }

    /// The solver of a problem on the device: from the cache, from a record, or the first that the libraries propose.
    pub fn solver(&self, problem: &Problem) -> Result<Arc<Solution>, NodeError> {
        let key = SolverKey::new(problem, self.build.gpu()?);
        self.note_key(&key);
        let standing = self.tuner.and_then(|tuner| tuner.note_solver(&key));
        let (solution, outcome) = self.build.solver_of(&key)?;
        self.standings.borrow_mut().extend(standing);
        self.count(outcome, solution.weigh());
        Ok(solution)
    }

    /// The compiled kernel of that code on the device: from the cache, or compiled, ahead of need where a record has
    /// it.
    pub fn module(&self, code: &KernelCode) -> Result<Arc<dyn Module>, NodeError> {
        self.note_key(code);
        let (compiled, outcome) = self.build.module(code)?;
        self.count(outcome, compiled.weigh());
        Ok(compiled.module.clone())
    }

    /// The device, if there is one to be used.
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

    /// The element type of products of two computed matrices, a part of the keys of kernels for such products.
    #[must_use]
    pub fn computed_elements(&self) -> Elements {
        self.build.computed_elements()
    }

    /// How far rounding may go, a part of every key whose kernels have a choice.
    #[must_use]
    pub fn numerics(&self) -> Numerics {
        self.build.numerics
    }

    /// The outcome of its look-ups, if there were any.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get()
    }

    /// `prepared` with the keys that were looked up, in programs that report crashes.
    pub(super) fn with_asked(&self, prepared: Prepared) -> Prepared {
        let asked = self.asked.take();
        if asked.0.is_empty() { prepared } else { Prepared { asked: Some(Arc::new(asked)), ..prepared } }
    }

    /// The standings of the executors that were handed out, for later checks.
    pub(super) fn take_standings(&self) -> Standings {
        self.standings.take()
    }

    /// The keys in words, if they were noted.
    #[must_use]
    pub fn into_keys(self) -> Vec<String> {
        self.keys.map(RefCell::into_inner).unwrap_or_default()
    }
}
