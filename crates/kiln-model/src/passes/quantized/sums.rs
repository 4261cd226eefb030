//! Dynamic quantisation: sums of `MatMulInteger` and `ConvInteger` that are cast to `f32` and multiplied by a scale are
//! scaled where they are made. Other nodes make the scales, and the bias of a convolution, which is in units of the
//! scales.

use kiln_tensor::{DType, Tensor};

use super::{BIAS, INPUTS, Y_SCALE, operands};
use crate::facts::Facts;
use crate::ir::{Attrs, NodeDesc, ValueId};
use crate::passes::edit::Edit;

/// Most dimensions of weights that executors of convolutions take.
const MOST_RANK: usize = 5;

/// The node that makes the sums, and the nodes that it replaces besides the multiplication.
struct Sums {
    product: NodeDesc,
    /// Integers that are added to the sums of each filter, one-dimensional.
    bias: Option<ValueId>,
    replaced: Vec<usize>,
}

/// Fuses sums that are cast to `f32` and multiplied by a scale, or by one for each column.
pub(super) fn scaled(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) -> Option<()> {
    for (value, scale) in operands(node)? {
        let Some((cast, before)) = edit.sole_maker(value).filter(|(_, node)| node.is("Cast")) else { continue };
        if before.attributes().dtype("to") != Some(DType::F32) {
            continue;
        }
        let Some(value) = before.input(0) else { continue };
        let Some(sums) = matrix(edit, value, scale, facts).or_else(|| convolution(edit, value, scale, facts)) else {
            continue;
        };
        let Sums { product, bias, replaced } = sums;
        let (op, attrs) = match product.op.as_str() {
            "ConvInteger" => ("QuantizedConv", product.attrs.clone()),
            _ => ("QuantizedMatMul", Attrs::new()),
        };
        let mut inputs = vec![product.inputs[0], product.inputs[1], bias, None];
        inputs.extend([product.input(2), Some(scale), product.input(3)]);
        inputs.resize(INPUTS, None);
        let outputs = node.outputs.clone();
        edit.take(cast);
        replaced.into_iter().for_each(|slot| drop(edit.take(slot)));
        edit.put(slot, NodeDesc { domain: "kiln".to_owned(), op: op.to_owned(), attrs, inputs, outputs, ..product });
        return Some(());
    }
    None
}

/// `MatMulInteger` by a constant matrix.
fn matrix(edit: &Edit<'_>, value: ValueId, scale: ValueId, facts: &Facts) -> Option<Sums> {
    let (maker, product) = edit.sole_maker(value).filter(|(_, node)| node.is("MatMulInteger"))?;
    let &[_, columns] = edit.constant(product, 1)?.shape() else { return None };
    let vector = product.input(0).and_then(|x| facts.rank(x)).is_none_or(|rank| rank < 2);
    let fits = !vector && is_scale(scale, Some(columns), facts) && zeros_fit(edit, product, columns, facts);
    fits.then(|| Sums { product: product.clone(), bias: None, replaced: vec![maker] })
}

/// `ConvInteger` by constant weights, and a bias of integers.
fn convolution(edit: &mut Edit<'_>, value: ValueId, scale: ValueId, facts: &Facts) -> Option<Sums> {
    let of = |edit: &Edit<'_>, value| {
        let found = edit.sole_maker(value).filter(|(_, node)| node.is("ConvInteger"));
        found.map(|(slot, node)| (slot, node.clone()))
    };
    let (product, added, replaced) = if let Some((slot, product)) = of(edit, value) {
        (product, None, vec![slot])
    } else {
        let (sum, add) = edit.sole_maker(value).filter(|(_, node)| node.is("Add"))?;
        let found = operands(add)?.into_iter().find_map(|(sums, bias)| Some((of(edit, sums)?, bias)));
        let ((slot, product), bias) = found?;
        (product, Some(bias), vec![slot, sum])
    };
    let weights = edit.constant(&product, 1)?.shape();
    let (filters, rank) = (*weights.first()?, weights.len());
    if !(3..=MOST_RANK).contains(&rank) || !is_scale(scale, None, facts) || !zeros_fit(edit, &product, filters, facts) {
        return None;
    }
    let bias = match added {
        None => None,
        Some(bias) => Some(flat(edit, bias, filters, rank, facts)?),
    };
    Some(Sums { product, bias, replaced })
}

/// Whether the scale is one `f32` number, or one for each of `columns` columns.
fn is_scale(scale: ValueId, columns: Option<usize>, facts: &Facts) -> bool {
    let dims = facts.dims(scale).filter(|dims| dims.len() <= 1 && facts.is(scale, DType::F32));
    let columns = columns.map(|columns| columns as i64);
    dims.is_some_and(|dims| dims.iter().all(|size| size.is_one() || columns.is_some() && size.known() == columns))
}

/// Whether a product has one zero point for the left-hand side, and for the weights a constant one or one for each
/// filter.
fn zeros_fit(edit: &Edit<'_>, product: &NodeDesc, filters: usize, facts: &Facts) -> bool {
    let left =
        product.input(2).is_none_or(|zero| facts.dims(zero).is_some_and(|dims| dims.iter().all(|size| size.is_one())));
    let right = product.input(3).is_none()
        || edit.constant(product, 3).is_some_and(|zero| zero.len() == 1 || zero.shape() == [filters]);
    left && right
}

/// A bias of integers that is added to a convolution's sums, in one dimension: a constant, or the input of a reshape.
fn flat(edit: &mut Edit<'_>, bias: ValueId, filters: usize, rank: usize, facts: &Facts) -> Option<ValueId> {
    // Dimensions from the last one on: as many ones as there are places, then the filters.
    let places = rank - 2;
    let fits = |sizes: &[Option<i64>]| {
        let is_one = |size: &Option<i64>| *size == Some(1);
        sizes.len() <= rank
            && sizes.len().checked_sub(places + 1).is_some_and(|channel| {
                sizes[channel] == Some(filters as i64)
                    && sizes[..channel].iter().chain(&sizes[channel + 1..]).all(is_one)
            })
    };
    if let Some(constant) = edit.graph.constant(bias) {
        let sizes: Vec<Option<i64>> = constant.shape().iter().map(|&size| Some(size as i64)).collect();
        let numbers = constant.as_slice::<i32>().ok().filter(|_| fits(&sizes))?.to_vec();
        return Some(edit.add_constant("bias", Tensor::from_vec([filters], numbers).ok()?));
    }
    let sizes: Vec<Option<i64>> = facts.dims(bias)?.iter().map(|size| size.known()).collect();
    let (_, reshape) = edit.maker(bias).filter(|(_, node)| node.is("Reshape"))?;
    let row = reshape.input(0)?;
    let is_row =
        facts.is(row, DType::I32) && matches!(facts.dims(row)?, [size] if size.known() == Some(filters as i64));
    (fits(&sizes) && is_row).then_some(row)
}

/// Fuses a row that is added to such a product of matrices.
pub(super) fn biased(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) -> Option<()> {
    for (product, bias) in operands(node)? {
        let is_bare = |node: &NodeDesc| {
            node.is_fused("QuantizedMatMul") && node.input(BIAS).is_none() && node.input(Y_SCALE).is_none()
        };
        let Some((maker, before)) = edit.sole_maker(product).filter(|(_, node)| is_bare(node)) else { continue };
        let transposed = before.attributes().flag("trans_b");
        let Some(&columns) = edit.constant(before, 1).and_then(|w| w.shape().get(usize::from(!transposed))) else {
            continue;
        };
        let row = edit.graph.constant(bias).is_some_and(|bias| bias.shape() == [columns]);
        if !row || !facts.is(bias, DType::F32) {
            continue;
        }
        let mut fused = before.clone();
        fused.inputs[BIAS] = Some(bias);
        fused.outputs.clone_from(&node.outputs);
        edit.take(maker);
        edit.put(slot, fused);
        return Some(());
    }
    None
}
