//! The attributes of a convolution node, read and checked once.

use kiln_kernels::cpu::conv::Weights;
use kiln_model::NodeDesc;
use kiln_run::NodeError;
use smallvec::SmallVec;

use super::super::{OpError, refused};

/// Sizes along the spatial dimensions, as many as the model has.
pub(crate) type Sizes = SmallVec<[usize; 3]>;

/// How the padding is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoPad {
    /// As the model gives it.
    Given,
    /// None.
    Valid,
    /// Padding that keeps the size, with an odd element at the end.
    SameUpper,
    /// Padding that keeps the size, with an odd element at the start.
    SameLower,
}

/// The attributes of Conv and ConvTranspose. Lists are empty where the model leaves them out.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    pub(crate) transposed: bool,
    pub(crate) groups: usize,
    pub(crate) auto_pad: AutoPad,
    pub(crate) kernel: Sizes,
    pub(crate) strides: Sizes,
    pub(crate) dilations: Sizes,
    /// At the start of each dimension, then at the end of each.
    pub(crate) pads: SmallVec<[usize; 6]>,
    pub(crate) output_padding: Sizes,
    pub(crate) output_shape: Option<Sizes>,
}

impl Attributes {
    /// Reads the attributes of a node.
    pub(crate) fn read(node: &NodeDesc) -> Result<Attributes, OpError> {
        let list = |name: &str, least: i64| -> Result<Vec<usize>, OpError> {
            let values = node.ints(name).unwrap_or_default();
            let value = |&value: &i64| usize::try_from(value).ok().filter(|_| value >= least);
            let list: Option<Vec<usize>> = values.iter().map(value).collect();
            list.ok_or_else(|| OpError::invalid(node, format!("{name} {values:?}")))
        };
        let auto_pad = match node.attributes().text("auto_pad") {
            "NOTSET" => AutoPad::Given,
            "VALID" => AutoPad::Valid,
            "SAME_UPPER" => AutoPad::SameUpper,
            "SAME_LOWER" => AutoPad::SameLower,
            other => return Err(OpError::invalid(node, format!("auto_pad '{other}'"))),
        };
        let groups = node.attributes().int("group");
        let groups = usize::try_from(groups).ok().filter(|&groups| groups > 0);
        let output_shape = list("output_shape", 0)?;
        let pads = list("pads", 0)?;
        if !pads.len().is_multiple_of(2) {
            return Err(OpError::invalid(node, format!("pads {pads:?}: as many for the end as for the start")));
        }
        Ok(Attributes {
            transposed: node.op.ends_with("ConvTranspose"),
            groups: groups
                .ok_or_else(|| OpError::invalid(node, format!("group {}", node.attributes().int("group"))))?,
            auto_pad,
            kernel: list("kernel_shape", 1)?.into(),
            strides: list("strides", 1)?.into(),
            dilations: list("dilations", 1)?.into(),
            pads: pads.into(),
            output_padding: list("output_padding", 0)?.into(),
            output_shape: (!output_shape.is_empty()).then(|| output_shape.into()),
        })
    }

    /// The sizes of weights of that shape.
    pub(crate) fn weights(&self, shape: &[usize]) -> Result<Weights, NodeError> {
        let [outer, inner, ref kernel @ ..] = *shape else {
            return Err(refused(format!("weights of shape {shape:?}")));
        };
        if kernel.is_empty() || kernel.len() > 3 {
            return Err(NodeError::Unsupported(format!("convolution over {} spatial dimensions", kernel.len())));
        }
        if !self.kernel.is_empty() && self.kernel.as_slice() != kernel {
            return Err(refused(format!("kernel_shape {:?} with weights of shape {shape:?}", self.kernel)));
        }
        if kernel.contains(&0) {
            return Err(refused(format!("weights of shape {shape:?}")));
        }
        for (name, len) in
            [("strides", self.strides.len()), ("dilations", self.dilations.len()), ("pads", self.pads.len() / 2)]
        {
            if len != 0 && len != kernel.len() {
                return Err(refused(format!("{len} {name} for {} spatial dimensions", kernel.len())));
            }
        }
        let grouped = |size: usize| {
            size.checked_mul(self.groups).ok_or_else(|| refused(format!("{} groups of {size} channels", self.groups)))
        };
        if !outer.is_multiple_of(self.groups) {
            return Err(refused(format!("weights of shape {shape:?} in {} groups", self.groups)));
        }
        let (channels, filters) = if self.transposed { (outer, grouped(inner)?) } else { (grouped(inner)?, outer) };
        Ok(Weights {
            channels,
            filters,
            groups: self.groups,
            kernel: solid(kernel, 1),
            transposed: self.transposed.then(|| [solid(&self.strides, 1), solid(&self.dilations, 1)]),
        })
    }
}

/// Sizes as three dimensions: the ones that are missing come first.
pub(crate) fn solid(sizes: &[usize], missing: usize) -> [usize; 3] {
    let mut solid = [missing; 3];
    let offset = 3usize.saturating_sub(sizes.len());
    solid[offset..].iter_mut().zip(sizes).for_each(|(to, &size)| *to = size);
    solid
}
