//! How much operators compute. This bounds constant folding while a model is loaded: a few bytes of a file can declare
//! matrices with any number of products.

use kiln_tensor::{Tensor, TensorSpec};

use super::attributes::Attributes;
use super::einsum::Equation;
use crate::ir::NodeDesc;

/// How much the nodes of an operator compute.
#[derive(Clone, Copy)]
pub enum Arithmetic {
    /// A few operations for each element that they read or write.
    PerElement,
    /// The number of products, or of elements under windows; `None` where a count overflows.
    By(fn(&Extents<'_>) -> Option<usize>),
    /// Not counted, so nodes are not folded: the elements of inputs decide it, or no node of constants has this
    /// operator.
    Uncounted,
}

/// A node with its inputs and outputs.
pub struct Extents<'a> {
    pub(super) node: &'a NodeDesc,
    pub(super) attributes: Attributes<'a>,
    pub(super) inputs: &'a [Option<&'a Tensor>],
    pub(super) outputs: &'a [TensorSpec],
}

impl Extents<'_> {
    /// The dimensions of an input, none where it is left out.
    fn shape(&self, input: usize) -> &[usize] {
        self.inputs.get(input).copied().flatten().map_or(&[], Tensor::shape)
    }

    /// Elements of an input, 0 where it is left out.
    fn input(&self, input: usize) -> usize {
        self.inputs.get(input).copied().flatten().map_or(0, Tensor::len)
    }

    /// Elements of the first output.
    fn output(&self) -> Option<usize> {
        self.outputs.first()?.elements().ok()
    }

    /// This many products for each element of the first output.
    fn each(&self, products: Option<usize>) -> Option<usize> {
        self.output()?.checked_mul(products?)
    }
}

impl Arithmetic {
    /// Products of a node; 0 where it is bound by reading and writing, `None` where they are too many to count or not
    /// known.
    pub(super) fn products(self, extents: &Extents<'_>) -> Option<usize> {
        match self {
            Arithmetic::PerElement => Some(0),
            Arithmetic::By(count) => count(extents),
            Arithmetic::Uncounted => None,
        }
    }
}

fn count(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim))
}

/// The last axis of the first operand is the reduction.
pub(super) fn matmul(extents: &Extents<'_>) -> Option<usize> {
    extents.each(extents.shape(0).last().copied())
}

/// The reduction is the last axis of the first operand, or the first where that is transposed.
pub(super) fn gemm(extents: &Extents<'_>) -> Option<usize> {
    let axis = if extents.attributes.flag("transA") { 0 } else { 1 };
    extents.each(extents.shape(0).get(axis).copied())
}

/// A window over all channels has the size of one filter.
pub(super) fn conv(extents: &Extents<'_>) -> Option<usize> {
    extents.each(extents.shape(1).get(1..).and_then(count))
}

/// The same, where weights are input 3.
pub(super) fn quantized_conv(extents: &Extents<'_>) -> Option<usize> {
    extents.each(extents.shape(3).get(1..).and_then(count))
}

/// Each element of the input is multiplied by the weights of its channel.
pub(super) fn conv_transpose(extents: &Extents<'_>) -> Option<usize> {
    count(extents.shape(0))?.checked_mul(extents.shape(1).get(1..).and_then(count)?)
}

/// Each element of the first input is multiplied by one number.
pub(super) fn first_input(extents: &Extents<'_>) -> Option<usize> {
    Some(extents.input(0))
}

/// Each result meets the keys and the queries of its row of the state.
pub(super) fn delta_net(extents: &Extents<'_>) -> Option<usize> {
    let vectors = if extents.shape(1).is_empty() { 6 } else { 0 };
    extents.each(extents.shape(vectors).last()?.checked_mul(2))
}

/// Each score is a product of a row of weights, where there are some.
pub(super) fn router(extents: &Extents<'_>) -> Option<usize> {
    extents.each(Some(extents.shape(2).last().copied().unwrap_or(1)))
}

/// Each element of the output is one channel's window of `[filters, 1, taps]`.
pub(super) fn causal_conv(extents: &Extents<'_>) -> Option<usize> {
    extents.each(extents.shape(1).last().copied())
}

/// Elements under the windows of a pooling.
pub(super) fn window(extents: &Extents<'_>) -> Option<usize> {
    let sides = extents.node.ints("kernel_shape").unwrap_or_default().iter();
    extents.each(sides.map(|&side| usize::try_from(side).ok()).try_fold(1usize, |count, side| count.checked_mul(side?)))
}

/// Channels around each element.
pub(super) fn local(extents: &Extents<'_>) -> Option<usize> {
    let size = usize::try_from(extents.attributes.int("size")).ok()?;
    extents.each(Some(size.min(extents.shape(0).get(1).copied().unwrap_or(1))))
}

/// Elimination in square matrices, `n` steps for each element.
pub(super) fn matrices(extents: &Extents<'_>) -> Option<usize> {
    extents.input(0).checked_mul(extents.shape(0).last().copied()?)
}

/// Every operand is read at every place of all axes that the equation names.
pub(super) fn einsum(extents: &Extents<'_>) -> Option<usize> {
    let equation = extents.attributes.word("equation").and_then(Equation::parse)?;
    let shapes: Vec<&[usize]> = (0..extents.inputs.len()).map(|input| extents.shape(input)).collect();
    let ranks: Vec<usize> = shapes.iter().map(|shape| shape.len()).collect();
    let operands = equation.names(&ranks)?.operands;
    let mut axes: Vec<_> =
        operands.iter().zip(&shapes).flat_map(|(names, shape)| names.iter().zip(shape.iter().copied())).collect();
    // The largest size of each name: the others are 1 and broadcast.
    axes.sort_unstable_by(|left, right| right.cmp(left));
    axes.dedup_by_key(|(name, _)| *name);
    axes.iter().try_fold(shapes.len(), |products, (_, size)| products.checked_mul(*size))
}

/// Queries by keys, and weights by values: every element of the queries and of the result meets every key, those of
/// the cache among them.
pub(super) fn attention(extents: &Extents<'_>) -> Option<usize> {
    // [batch, heads, positions, size] or [batch, positions, width].
    let positions = |input: usize| extents.shape(input).iter().rev().nth(1).copied();
    let keys = positions(1)?.checked_add(positions(4).unwrap_or(0))?;
    extents.input(0).checked_add(extents.output()?)?.checked_mul(keys)
}

/// Every element of the queries and of the keys meets a row of a head's state, which is as long as its values.
pub(super) fn linear_attention(extents: &Extents<'_>) -> Option<usize> {
    let heads = usize::try_from(extents.attributes.int("kv_num_heads")).ok()?;
    let row = extents.shape(2).last()?.checked_div(heads)?;
    extents.input(0).checked_add(extents.input(1))?.checked_mul(row)
}

/// Each step of each sequence is multiplied by all weights, those of the input and those of the state.
pub(super) fn recurrent(extents: &Extents<'_>) -> Option<usize> {
    let steps = count(extents.shape(0).get(..2)?)?;
    steps.checked_mul(extents.input(1).checked_add(extents.input(2))?)
}

#[cfg(test)]
mod tests;
