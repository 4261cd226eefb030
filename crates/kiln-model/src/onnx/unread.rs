//! Outputs that nothing reads. Exporters name all outputs that an operator may have; an output without a name is not
//! asked for, and an operator that cannot make it need not be refused.

use std::collections::HashSet;

use super::contrib::MICROSOFT;
use super::proto::{GraphProto, NodeProto};

/// Takes the names of outputs of nodes of com.microsoft that no node reads, bodies included, and that are not among
/// `results`. The first output of a node keeps its name.
pub(super) fn unname<'r>(nodes: &mut [NodeProto], results: impl Iterator<Item = &'r str>) {
    let may_have_some = |node: &NodeProto| node.domain() == MICROSOFT && node.output.len() > 1;
    if !nodes.iter().any(may_have_some) {
        return;
    }
    let mut read: HashSet<String> = results.map(str::to_owned).collect();
    add_read(nodes, &mut read);
    for node in nodes.iter_mut().filter(|node| may_have_some(node)) {
        node.output.iter_mut().skip(1).filter(|name| !read.contains(name.as_str())).for_each(String::clear);
        let last = node.output.iter().rposition(|name| !name.is_empty());
        node.output.truncate(last.map_or(1, |last| last + 1));
    }
}

/// Adds what nodes and their bodies read, whichever graph has made it.
fn add_read(nodes: &[NodeProto], read: &mut HashSet<String>) {
    for node in nodes {
        read.extend(node.input.iter().cloned());
        for body in node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs)) {
            let GraphProto { node, output, .. } = body;
            read.extend(output.iter().map(|info| info.name().to_owned()));
            add_read(node, read);
        }
    }
}
