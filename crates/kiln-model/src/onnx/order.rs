//! Sorts nodes so that every value is made before it is used; an order that satisfies this is kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ModelError;
use crate::Graph;

/// Sorts the nodes of `graph`. Among nodes that could come next, the first in the file does, so that a sorted file
/// stays as it is.
pub(super) fn sort(graph: &mut Graph) -> Result<(), ModelError> {
    let producers = graph.producers();
    let count = graph.nodes.len();
    let mut waits_for = vec![0usize; count];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (index, node) in graph.nodes.iter().enumerate() {
        for maker in node.inputs.iter().flatten().filter_map(|value| producers[value.index()]) {
            waits_for[index] += 1;
            readers[maker].push(index);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..count).filter(|&node| waits_for[node] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &reader in &readers[node] {
            waits_for[reader] -= 1;
            if waits_for[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    if order.len() < count {
        let node = waits_for.iter().position(|&waits| waits > 0).map_or("", |node| &graph.nodes[node].name);
        return Err(ModelError::Cycle { node: super::shown(node) });
    }
    let mut nodes: Vec<_> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    graph.nodes = order.into_iter().filter_map(|index| nodes[index].take()).collect();
    Ok(())
}
