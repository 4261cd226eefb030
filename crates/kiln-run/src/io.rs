//! The inputs and outputs of one execution of a node: the values, which inputs the node may take, and the outputs'
//! memory.
//!
//! In a running graph values are not moved for a node: it reads the request's values in place, and its outputs are
//! stored among them. Outside of one (constant folding, tests, nodes that run others) inputs are passed in.

use std::sync::Arc;

use kiln_kernels::memory::unclaimed_bytes;
use kiln_model::ir::ValueId;
use kiln_model::value::Value;
use kiln_tensor::{BufferPool, DType, Tensor, TensorError, TensorSpec};
use smallvec::SmallVec;

use super::bound::Bound;
use super::error::NodeError;
use super::lease::{Lease, Place};

/// The inputs and outputs of one execution.
///
/// An input that no later node reads is handed over, so that its memory may become the output's
/// ([`Io::can_reuse`]).
pub struct Io<'a> {
    operands: Operands<'a>,
    specs: &'a [TensorSpec],
    memory: Memory<'a>,
}

/// Where inputs are read and outputs are stored.
enum Operands<'a> {
    /// Among the values of a running graph; and the number of outputs so far.
    Graph(Edges<'a>, usize),
    /// In vectors of its own: inputs and outputs.
    Own(Vec<Option<Tensor>>, SmallVec<[Tensor; 1]>),
}

/// The values of a running graph, and those that a node reads and writes.
pub(super) struct Edges<'a> {
    /// The request's values, by number.
    pub(super) values: &'a mut [Option<Value>],
    /// Constants: values that are the same in every request.
    pub(super) constants: &'a [Option<Value>],
    /// The node's inputs.
    pub(super) inputs: &'a [Option<ValueId>],
    /// The node's outputs; `None` for those that are never read.
    pub(super) outputs: &'a [Option<ValueId>],
    /// Inputs that neither this node reads twice nor a later one reads, by bit.
    pub(super) owned: u64,
}

/// The memory of outputs.
pub(super) struct Memory<'a> {
    /// The pool.
    pub(super) pool: &'a Arc<BufferPool>,
    /// For outputs that have a place in a plan: the plan's lease, tried before the pool.
    pub(super) lease: Option<(&'a Lease, &'a [Option<Place>])>,
    /// For outputs of the graph: the memory that the request has bound, tried before both.
    pub(super) bound: Option<&'a Bound>,
}

impl Edges<'_> {
    /// A value of the request.
    #[inline]
    fn value(&self, value: ValueId) -> Option<&Value> {
        self.values[value.index()].as_ref().or_else(|| self.constants[value.index()].as_ref())
    }

    /// The tensor of input `index`. Other values were refused before the node was prepared.
    #[inline]
    fn input(&self, index: usize) -> Option<&Tensor> {
        match self.value((*self.inputs.get(index)?)?) {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    fn owns(&self, index: usize) -> bool {
        index < 64 && self.owned >> index & 1 == 1
    }

    fn take(&mut self, index: usize) -> Option<Tensor> {
        let value = (*self.inputs.get(index)?)?;
        if self.owns(index) && self.values[value.index()].as_ref().is_some_and(|value| value.as_tensor().is_some()) {
            return self.values[value.index()].take().and_then(|value| value.into_tensor().ok());
        }
        self.input(index).cloned()
    }
}

impl<'a> Io<'a> {
    /// An execution outside of a running graph, with outputs of `specs`.
    pub fn new(inputs: SmallVec<[Option<Tensor>; 4]>, specs: &'a [TensorSpec], buffers: &'a Arc<BufferPool>) -> Io<'a> {
        let memory = Memory { pool: buffers, lease: None, bound: None };
        Io { operands: Operands::Own(inputs.into_vec(), SmallVec::new()), specs, memory }
    }

    /// An execution within a running graph.
    #[inline]
    pub(super) fn within(edges: Edges<'a>, specs: &'a [TensorSpec], memory: Memory<'a>) -> Io<'a> {
        Io { operands: Operands::Graph(edges, 0), specs, memory }
    }

    /// Input number `index`; an error where it is absent.
    #[inline]
    pub fn input(&self, index: usize) -> Result<&Tensor, NodeError> {
        self.optional(index).ok_or_else(|| missing(index))
    }

    /// Input number `index`, if present.
    #[inline]
    #[must_use]
    pub fn optional(&self, index: usize) -> Option<&Tensor> {
        match &self.operands {
            Operands::Graph(edges, _) => edges.input(index),
            Operands::Own(inputs, _) => inputs.get(index).and_then(Option::as_ref),
        }
    }

    /// All inputs, as [`InferByValue::infer`](super::node::InferByValue::infer) sees them.
    #[must_use]
    pub fn inputs(&self) -> SmallVec<[Option<&Tensor>; 4]> {
        match &self.operands {
            Operands::Graph(edges, _) => (0..edges.inputs.len()).map(|index| edges.input(index)).collect(),
            Operands::Own(inputs, _) => inputs.iter().map(Option::as_ref).collect(),
        }
    }

    /// Takes input number `index` out, to pass it on or to write over it.
    pub fn take(&mut self, index: usize) -> Result<Tensor, NodeError> {
        let taken = match &mut self.operands {
            Operands::Graph(edges, _) => edges.take(index),
            Operands::Own(inputs, _) => inputs.get_mut(index).and_then(Option::take),
        };
        taken.ok_or_else(|| missing(index))
    }

    /// The type and shape of output number `index`.
    #[inline]
    #[must_use]
    pub fn spec(&self, index: usize) -> &TensorSpec {
        &self.specs[index]
    }

    /// All output specs.
    #[must_use]
    pub fn specs(&self) -> &'a [TensorSpec] {
        self.specs
    }

    /// Memory for output number `index`, with arbitrary contents.
    #[inline]
    pub fn alloc(&self, index: usize) -> Result<Tensor, NodeError> {
        let spec = self.specs[index].clone();
        if let Some((bound, value)) = self.bound(index)
            && let Some(tensor) = bound.lend(value, &spec)
        {
            return Ok(tensor);
        }
        if let Some((lease, places)) = self.memory.lease
            && let Some(Some(place)) = places.get(index)
            && let Some(buffer) = lease.lend(place, self.memory.pool)
        {
            return Ok(Tensor::over(spec, buffer));
        }
        if spec.dtype == DType::String {
            self.check_texts(&spec)?;
        }
        Ok(Tensor::from_pool(self.memory.pool, spec)?)
    }

    /// Refuses an output of strings that memory cannot hold. Each string has memory of its own, which can no longer be
    /// refused when the string is copied there.
    #[cold]
    fn check_texts(&self, spec: &TensorSpec) -> Result<(), TensorError> {
        let (mut given, mut bytes, mut longest) = (0, 0usize, 0);
        for texts in self.inputs().into_iter().flatten().filter_map(|input| input.as_strings().ok()) {
            given += texts.len();
            bytes = texts.iter().fold(bytes, |bytes, text| bytes.saturating_add(text.len()));
            longest = texts.iter().map(String::len).fold(longest, usize::max);
        }
        let made = spec.elements()?;
        // An output of fewer strings than the inputs is mostly a selection; one of more repeats some, perhaps the
        // longest.
        let need = if made <= given { bytes } else { made.saturating_mul(longest) };
        let room = self.memory.pool.room().min(unclaimed_bytes());
        let shape = || spec.shape.clone();
        if need <= room { Ok(()) } else { Err(TensorError::Memory { shape: shape(), need, room }) }
    }

    /// The request's bound outputs, and the value that output `index` is in the graph.
    #[inline]
    fn bound(&self, index: usize) -> Option<(&'a Bound, ValueId)> {
        let bound = self.memory.bound?;
        let Operands::Graph(edges, _) = &self.operands else { return None };
        edges.outputs.get(index).copied().flatten().map(|value| (bound, value))
    }

    /// Whether input `input` has output `output`'s type and shape and this node is the only owner of its memory. Not
    /// for an output that is bound to other memory, nor for an input in memory that is bound to another output.
    #[inline]
    pub fn can_reuse(&mut self, input: usize, output: usize) -> bool {
        let tensor = match &self.operands {
            Operands::Graph(edges, _) if !edges.owns(input) => None,
            Operands::Graph(edges, _) => edges.input(input),
            Operands::Own(inputs, _) => inputs.get(input).and_then(Option::as_ref),
        };
        let Some(tensor) = tensor.filter(|tensor| tensor.is_sole() && tensor.spec() == &self.specs[output]) else {
            return false;
        };
        let Some(bound) = self.memory.bound else { return true };
        let value = self.bound(output).map(|(_, value)| value);
        let is_lent = bound.is_lent(tensor, value);
        is_lent.unwrap_or_else(|| !value.is_some_and(|value| bound.is_for(value, &self.specs[output])))
    }

    /// Whether the request's caller has input `input` and output `output` in the same memory: elements that this node
    /// does not write stay as they are there.
    #[must_use]
    pub fn is_shared(&self, input: usize, output: usize) -> bool {
        let lent = self.optional(input).zip(self.bound(output));
        lent.is_some_and(|(tensor, (bound, value))| bound.is_lent(tensor, Some(value)) == Some(true))
    }

    /// Adds the next output.
    #[inline]
    pub fn push(&mut self, tensor: Tensor) {
        match &mut self.operands {
            Operands::Graph(edges, made) => {
                debug_assert_eq!(tensor.spec(), &self.specs[*made], "a node makes what it inferred");
                match edges.outputs.get(*made) {
                    Some(Some(value)) => edges.values[value.index()] = Some(Value::Tensor(tensor)),
                    _ => self.memory.recycle(tensor),
                }
                *made += 1;
            }
            Operands::Own(_, outputs) => {
                debug_assert_eq!(tensor.spec(), &self.specs[outputs.len()], "a node makes what it inferred");
                outputs.push(tensor);
            }
        }
    }

    /// The outputs, in order, of an execution outside of a running graph; within one they are among its values.
    #[must_use]
    pub fn into_outputs(self) -> SmallVec<[Tensor; 1]> {
        match self.operands {
            Operands::Graph(..) => SmallVec::new(),
            Operands::Own(_, outputs) => outputs,
        }
    }
}

impl Memory<'_> {
    fn recycle(&self, tensor: Tensor) {
        if let Some((lease, _)) = self.lease {
            lease.recycle(tensor);
        }
    }
}

#[cold]
fn missing(index: usize) -> NodeError {
    NodeError::Input(format!("input {index} is missing"))
}
