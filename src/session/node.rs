//! The running form of one node: on the processor, or on the device where it is placed there.

use kiln_model::ir::{Graph, NodeDesc};
use kiln_model::operators;
use kiln_ops::{LoadCx, OpError};
use kiln_run::Node;
use kiln_run::device::transfer::{ToDevice, ToHost};
use kiln_run::device::{ON_DEVICE, OnDevice, TO_DEVICE, TO_HOST};
use kiln_run::exec::BuildCx;
use kiln_run::exec::weights::Packing;

/// The running form of one node.
pub(super) fn make(
    graph: &Graph,
    node: &NodeDesc,
    build: &BuildCx,
    packing: &Packing<'_>,
) -> Result<Box<dyn Node>, OpError> {
    if let Some(gpu) = &build.gpu {
        if node.is_fused(TO_DEVICE) {
            return Ok(Box::new(ToDevice(gpu.clone())));
        }
        if node.is_fused(TO_HOST) {
            return Ok(Box::new(ToHost(gpu.clone())));
        }
    }
    // Nodes that passes make have as many inputs as the passes give them.
    if let Some(row) = operators::find(&node.domain, &node.op).filter(|row| row.domain != "kiln") {
        let given = node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if !row.inputs.allows(given) {
            return Err(OpError::invalid(node, format!("{given} inputs where it takes {}", row.inputs)));
        }
    }
    let make = kiln_ops::lookup(&node.domain, &node.op).ok_or_else(|| OpError::Unknown(node.op.clone()))?;
    let made = make(&LoadCx { node, graph, build, packing })?;
    if let Some(gpu) = build.gpu.as_ref().filter(|_| node.is_marked(ON_DEVICE)) {
        let form = kiln_ops::device::form(node).ok_or_else(|| OpError::unsupported(node, "no form on a device"))?;
        return Ok(Box::new(OnDevice::new(made, gpu.clone(), kiln_ops::device::carried(&form))));
    }
    Ok(made)
}
