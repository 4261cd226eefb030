//! Attention that a pass has put together: queries, keys and values in the layouts that exporters write ([`Heads`]).
//!
//! Inputs are queries, keys, values, a mask that is added to scores, and a condition that says which scores are kept
//! (or, if `inverted`, replaced). Everything broadcasts as it did in the nodes that this one replaces.

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::attention::{Attention as Executor, AttentionShape, Held, KeyRange, Operands, Strides};
use kiln_kernels::memory;
use kiln_model::NodeDesc;
use kiln_model::heads::Heads;
use kiln_run::exec::attention::AttentionKey;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Shape, Tensor, TensorError, TensorSpec};

use crate::stored::{self, activations, activations_mut};
use crate::{LoadCx, OpError, View, optional, refused, required, strides};

struct Fused {
    /// The layouts of queries, keys, values and results.
    layouts: [Heads; 4],
    /// Heads of operands whose heads are joined.
    heads: [usize; 3],
    /// Axes of the scores.
    rank: usize,
    scale: f32,
    fill: f32,
    inverted: bool,
    /// The type that results are stored in, where the pass `bf16` has decided it: then queries, keys and values may be
    /// of either type, too.
    output: Option<Stored>,
}

pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node: &NodeDesc = cx.node;
    let layout = |name: &str| {
        Heads::of(&node.attributes(), name)
            .ok_or_else(|| OpError::invalid(node, format!("{name} has an unknown layout")))
    };
    let heads = |name: &str| usize::try_from(node.attributes().int(name)).unwrap_or(1).max(1);
    let rank = usize::try_from(node.attributes().int("rank")).ok().filter(|rank| (2..=4).contains(rank));
    Ok(Box::new(Fused {
        layouts: [layout("query")?, layout("key")?, layout("value")?, layout("output")?],
        heads: ["query_heads", "key_heads", "value_heads"].map(heads),
        rank: rank.ok_or_else(|| OpError::invalid(node, "a rank out of 2 to 4"))?,
        scale: node.attributes().float("scale"),
        fill: node.attributes().float("fill"),
        inverted: node.attributes().flag("inverted"),
        output: stored::output(node)?,
    }))
}

/// Sizes and strides of batch, head, row and feature, in elements.
#[derive(Clone, Copy)]
struct Operand {
    sizes: [usize; 4],
    steps: [usize; 4],
}

impl Operand {
    /// Its strides along batches, heads and rows; 0 where its size differs from `sizes`, because one serves all.
    fn strides(&self, sizes: [usize; 3]) -> Strides {
        let step = |axis: usize| if self.sizes[axis] == sizes[axis] { self.steps[axis] as u64 } else { 0 };
        Strides { batch: step(0), head: step(1), row: step(2) }
    }
}

/// The problem that these inputs state.
struct Problem {
    query: Operand,
    key: Operand,
    value: Operand,
    mask: Option<Operand>,
    keep: Option<Operand>,
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
}

/// The size that two broadcast to.
fn common(a: usize, b: usize) -> Result<usize, NodeError> {
    match (a, b) {
        _ if a == b || b == 1 => Ok(a),
        (1, _) => Ok(b),
        _ => Err(refused(format!("attention over sizes {a} and {b}, which do not broadcast"))),
    }
}

impl Fused {
    fn operand(&self, index: usize, shape: &[usize]) -> Result<Operand, NodeError> {
        let unfit = || refused(format!("input {index} of shape {shape:?} for attention of rank {}", self.rank));
        let places = self.layouts[index].places(shape.len()).ok_or_else(unfit)?;
        let all = strides(shape);
        let mut operand = Operand {
            sizes: places.map(|place| place.map_or(1, |axis| shape[axis])),
            steps: places.map(|place| place.map_or(0, |axis| all[axis])),
        };
        if self.layouts[index] == Heads::Joined {
            let (heads, width) = (self.heads[index], operand.sizes[3]);
            if width % heads != 0 {
                return Err(unfit());
            }
            (operand.sizes[1], operand.sizes[3], operand.steps[1]) = (heads, width / heads, width / heads);
        }
        Ok(operand)
    }

    /// A mask or a condition: its axes are the last of the scores'.
    fn beside(&self, tensor: &Tensor) -> Result<Operand, NodeError> {
        let shape = tensor.shape();
        let lead = self.rank.checked_sub(shape.len());
        let lead =
            lead.ok_or_else(|| refused(format!("a mask of shape {shape:?} for scores of rank {}", self.rank)))?;
        let all = strides(shape);
        let places = Heads::First.places(self.rank).unwrap_or_default();
        let own = places.map(|place| place.and_then(|axis| axis.checked_sub(lead)));
        Ok(Operand {
            sizes: own.map(|axis| axis.map_or(1, |axis| shape[axis])),
            steps: own.map(|axis| axis.map_or(0, |axis| all[axis])),
        })
    }

    fn problem(&self, inputs: &[Option<&Tensor>]) -> Result<Problem, NodeError> {
        let operand = |index: usize| self.operand(index, required(inputs, index)?.shape());
        let (query, key, value) = (operand(0)?, operand(1)?, operand(2)?);
        let beside = |index: usize| optional(inputs, index).map(|tensor| self.beside(tensor)).transpose();
        let (mask, keep) = (beside(3)?, beside(4)?);
        let (mut sizes, mut queries, mut keys) = ([1; 2], query.sizes[2], key.sizes[2]);
        for other in [query, key, value].into_iter().chain(mask).chain(keep) {
            for (axis, size) in sizes.iter_mut().enumerate() {
                *size = common(*size, other.sizes[axis])?;
            }
        }
        for other in mask.into_iter().chain(keep) {
            queries = common(queries, other.sizes[2])?;
            keys = common(keys, other.sizes[3])?;
        }
        if query.sizes[3] != key.sizes[3] || keys != value.sizes[2] {
            let shapes: Vec<&[usize]> = inputs.iter().flatten().map(|tensor| tensor.shape()).collect();
            return Err(refused(format!("attention over shapes {shapes:?}")));
        }
        Ok(Problem { query, key, value, mask, keep, batch: sizes[0], heads: sizes[1], queries, keys })
    }

    fn key(&self, problem: &Problem, stored: Stored, cx: &PrepareCx<'_>) -> AttentionKey {
        let Problem { query, key, value, batch, heads, queries, keys, .. } = *problem;
        let (size, value_size) = (query.sizes[3], value.sizes[3]);
        // A single key that all queries share is a row in either layout.
        let key_columns = self.layouts[1] == Heads::Columns && key.sizes[2] == keys;
        let mut key_strides = key.strides([batch, heads, keys]);
        if key_columns {
            key_strides.row = key.steps[3] as u64;
        }
        let (whole, row) = (queries * heads * value_size, heads * value_size);
        let output = match self.layouts[3] {
            Heads::Behind | Heads::Joined => [whole, value_size, row],
            _ => [whole, queries * value_size, value_size],
        };
        let beside = |other: Option<Operand>| {
            // A mask or condition that repeats along the keys is expanded first.
            let spread = |other: Operand| if other.sizes[3] == keys { other } else { spread(other, keys) };
            other.map(|other| spread(other).strides([batch, heads, queries]))
        };
        let shape = AttentionShape {
            batch: batch as u64,
            heads: heads as u64,
            shared: 1,
            queries: queries as u64,
            keys: keys as u64,
            size: size as u64,
            value_size: value_size as u64,
            query: query.strides([batch, heads, queries]),
            key: key_strides,
            key_columns,
            value: value.strides([batch, heads, keys]),
            output: Strides { batch: output[0] as u64, head: output[1] as u64, row: output[2] as u64 },
            mask: beside(problem.mask),
            keep: beside(problem.keep),
            inverted: self.inverted,
            fill: self.fill.into(),
            scale: self.scale.into(),
            cap: None,
            causal: None,
            range: KeyRange::Shape,
            held: Held::F32,
            blind_is_zero: false,
            elements: cx.computed_elements(),
            stored,
            written: self.output.unwrap_or_default(),
        };
        cx.key(shape)
    }
}

/// An operand beside the scores once its last axis has an element for each key.
fn spread(other: Operand, keys: usize) -> Operand {
    let [batch, heads, rows, _] = other.sizes;
    Operand { sizes: [batch, heads, rows, keys], steps: [heads * rows * keys, rows * keys, keys, 1] }
}

/// The elements of a mask or condition, with one for each key.
fn along_keys<T: Copy + Default>(tensor: &Tensor, elements: &[T], keys: usize) -> Result<Option<Vec<T>>, NodeError> {
    let shape = tensor.shape();
    if shape.last() == Some(&keys) {
        return Ok(None);
    }
    let mut wide = Shape::from_slice(shape);
    wide.pop();
    wide.push(keys);
    let mut all = memory::filled(T::default(), wide.iter().product());
    View::broadcast(shape, &wide)?.copy(elements, &mut all);
    Ok(Some(all))
}

impl Node for Fused {
    fn family(&self) -> &'static str {
        "attention"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let layers = match required(inputs, 0)?.dtype() {
            DType::BF16 if self.output.is_some() => DType::BF16,
            _ => DType::F32,
        };
        for (index, expected) in [layers, layers, layers, DType::F32, DType::Bool].into_iter().enumerate() {
            if let Some(found) = optional(inputs, index).map(Tensor::dtype).filter(|&dtype| dtype != expected) {
                return Err(TensorError::Type { expected, found }.into());
            }
        }
        Ok(())
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let key = self.key(&self.problem(inputs)?, stored::stored(required(inputs, 0)?), cx);
        Ok(Prepared::new(cx.executor(&key)?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Executor>()?;
        let keys = executor.shape().keys();
        let mask = io.optional(3).map(Tensor::as_slice::<f32>).transpose()?;
        let keep = io.optional(4).map(Tensor::bytes);
        let wide_mask = io.optional(3).zip(mask).map(|(tensor, elements)| along_keys(tensor, elements, keys));
        let wide_keep = io.optional(4).zip(keep).map(|(tensor, bytes)| along_keys(tensor, bytes, keys));
        let (wide_mask, wide_keep) = (wide_mask.transpose()?.flatten(), wide_keep.transpose()?.flatten());
        let mut output = io.alloc(0)?;
        let operands = Operands {
            query: activations(io.input(0)?)?,
            key: activations(io.input(1)?)?,
            value: activations(io.input(2)?)?,
            mask: wide_mask.as_deref().or(mask),
            // A boolean is a byte.
            keep: wide_keep.as_deref().or(keep),
        };
        let mut scratch = cx.scratch::<f32>(executor.scratch_len())?;
        executor.run_stored(&operands, activations_mut(&mut output)?, scratch.as_mut_slice()?, cx.parallel)?;
        io.push(output);
        Ok(())
    }
}
