//! The weights of channels-last convolutions, for passes that depend on their kernels.

use kiln_kernels::cpu::conv::Weights;
use kiln_tensor::DType;

use crate::ir::{Graph, NodeDesc};

/// The weights of a convolution as its kernels take them.
pub(super) fn convolution(graph: &Graph, node: &NodeDesc) -> Option<Weights> {
    let conv = ["Conv", "ConvTranspose"].iter().any(|op| node.is(op));
    let fused = ["FusedConv", "FusedConvTranspose"].iter().any(|op| node.is_fused(op));
    let suits = (conv || fused) && node.is_channels_last();
    if suits { weights(graph, node) } else { None }
}

/// The sizes of a convolution's weights, where they are known.
fn weights(graph: &Graph, node: &NodeDesc) -> Option<Weights> {
    let tensor = graph.constant_input(node, 1).filter(|tensor| tensor.dtype() == DType::F32)?;
    let [outer, inner, ref kernel @ ..] = *tensor.shape() else { return None };
    let groups = usize::try_from(node.attributes().int("group")).ok().filter(|&groups| groups > 0)?;
    let solid = |sizes: &[usize]| {
        let mut solid = [1; 3];
        solid.get_mut(3usize.checked_sub(sizes.len())?..)?.copy_from_slice(sizes);
        Some(solid)
    };
    let list = |name: &str| {
        let sizes: Option<Vec<usize>> =
            node.ints(name).unwrap_or_default().iter().map(|&size| usize::try_from(size).ok()).collect();
        solid(&sizes?)
    };
    let transposed = node.op.ends_with("ConvTranspose");
    let grouped = inner.checked_mul(groups)?;
    let (channels, filters) = if transposed { (outer, grouped) } else { (grouped, outer) };
    let transposed = if transposed { Some([list("strides")?, list("dilations")?]) } else { None };
    let sizes = Weights { channels, filters, groups, kernel: solid(kernel)?, transposed };
    sizes.validate().is_ok().then_some(sizes)
}
