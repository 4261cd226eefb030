//! Functions from bytes to bytes as tables.
//!
//! Nodes between a `DequantizeLinear` and a `QuantizeLinear` that compute each element from that element alone (an
//! activation, the products and sums of SiLU, a clip, or only another scale) have 256 possible results. These are
//! computed once, by the nodes themselves, and looked up: no tensor of numbers is made, and the bytes are the same.

use kiln_tensor::{DType, Tensor};

use super::super::PassCx;
use super::super::edit::Edit;
use super::{dequantised, is_number};
use crate::facts::Facts;
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};
use crate::operators;

/// The number of values of a byte.
const VALUES: usize = 256;

/// The most nodes of a function. Each runs once on all values when a model is loaded.
const MOST_NODES: usize = 16;

pub(in crate::passes) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let between = |node: &NodeDesc| node.is_fused("QuantizedAdd") || node.is_fused("QuantizedMul");
        let Some(node) = edit.cloned(slot, |node| node.is("QuantizeLinear") || between(node)) else { continue };
        if between(&node) {
            of_one_operand(&mut edit, slot, &node, cx);
        } else {
            tabled(&mut edit, slot, &node, cx);
        }
    }
    edit.finish()
}

/// Replaces a rounding to bytes by a look-up, if its operand is a function of single bytes.
fn tabled(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, cx: &PassCx<'_>) -> Option<()> {
    parameters(edit, node)?;
    let mut function = Function { edit, cx, bytes: None, nodes: 0, flat: true };
    let numbers = function.of(node.input(0)?)?;
    let table = function.scaled(node, &numbers)?;
    let (bytes, flat) = (function.bytes?, function.flat);
    put(edit, slot, node, cx, Table { bytes, table, flat })
}

/// Replaces a sum or product of two tensors of bytes by a look-up, if one operand is a constant number or both are one
/// tensor.
fn of_one_operand(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, cx: &PassCx<'_>) -> Option<()> {
    let operands = [node.input(0)?, node.input(3)?];
    let is_known = operands.map(|operand| edit.graph.constant(operand).is_some());
    let bytes = match is_known {
        [true, true] => return None,
        [false, true] => operands[0],
        [true, false] => operands[1],
        [false, false] => (operands[0] == operands[1]).then_some(operands[0])?,
    };
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        inputs.push(match input {
            None => None,
            Some(value) if *value == bytes => Some(all(&cx.facts, bytes)?),
            Some(value) => Some(edit.graph.constant(*value)?.reshaped([]).ok()?),
        });
    }
    let is_flat = |operand| edit.graph.constant(operand).is_none_or(|constant| constant.shape().is_empty());
    let flat = operands.into_iter().all(is_flat);
    let table = (cx.evaluate)(edit.graph, node, &inputs)?.pop()?;
    put(edit, slot, node, cx, Table { bytes, table, flat })
}

/// A function of single bytes.
struct Table {
    /// Its argument.
    bytes: ValueId,
    /// The result for each byte.
    table: Tensor,
    /// Whether all constants were without dimensions, so that the result has those of the argument.
    flat: bool,
}

/// All bytes, of the type of that value, in the order of their patterns.
fn all(facts: &Facts, bytes: ValueId) -> Option<Tensor> {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let all = match [DType::U8, DType::I8].into_iter().find(|&dtype| facts.is(bytes, dtype))? {
        DType::I8 => Tensor::from_slice([VALUES], bytemuck::cast_slice::<u8, i8>(&all)),
        _ => Tensor::from_slice([VALUES], &all),
    };
    all.ok()
}

/// Puts a look-up into the slot of `node`.
fn put(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, cx: &PassCx<'_>, function: Table) -> Option<()> {
    let Table { bytes, table, flat } = function;
    let eight_bits = |tensor: &Tensor| matches!(tensor.dtype(), DType::U8 | DType::I8) && tensor.shape() == [VALUES];
    let output = node.output(0)?;
    (eight_bits(&table) && (flat || keeps_rank(&cx.facts, bytes, output))).then_some(())?;
    let own = if cx.facts.is(bytes, DType::I8) { DType::I8 } else { DType::U8 };
    let is_identity = table.dtype() == own && table.bytes().iter().enumerate().all(|(at, &byte)| at == byte as usize);
    if is_identity && edit.bypass(slot, output, bytes) {
        return Some(());
    }
    let table = NodeDesc {
        name: node.name.clone(),
        domain: "kiln".to_owned(),
        op: "ByteTable".to_owned(),
        version: 1,
        attrs: Attrs::from([("table".to_owned(), Attr::Tensor(table))]),
        inputs: vec![Some(bytes)],
        outputs: node.outputs.clone(),
    };
    edit.put(slot, table);
    Some(())
}

/// A node's scale and zero point, if both are single constants.
fn parameters(edit: &Edit<'_>, node: &NodeDesc) -> Option<[Option<Tensor>; 2]> {
    let number = |index: usize| edit.constant(node, index).filter(|tensor| tensor.len() == 1)?.reshaped([]).ok();
    let plain = ["block_size", "output_dtype"].iter().all(|name| !node.attributes().flag(name));
    let scale = number(1).filter(|scale| plain && is_number(scale))?;
    let zero = match node.input(2) {
        None => None,
        Some(_) => Some(number(2)?),
    };
    Some([Some(scale), zero])
}

fn keeps_rank(facts: &Facts, bytes: ValueId, output: ValueId) -> bool {
    facts.rank(bytes).is_some_and(|rank| facts.rank(output) == Some(rank))
}

/// A function of single bytes while it is computed.
struct Function<'e, 'g, 'c> {
    edit: &'e Edit<'g>,
    cx: &'e PassCx<'c>,
    /// Its argument, once it is known.
    bytes: Option<ValueId>,
    nodes: usize,
    /// Whether all constants are without dimensions, so that the result has those of the argument.
    flat: bool,
}

impl Function<'_, '_, '_> {
    /// The value for each byte, in the order of their patterns; `None` where it is no such function.
    fn of(&mut self, value: ValueId) -> Option<Tensor> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return None;
        }
        if let Some(node) = dequantised(self.edit, value) {
            let bytes = node.input(0)?;
            (*self.bytes.get_or_insert(bytes) == bytes).then_some(())?;
            return self.scaled(&node, &all(&self.cx.facts, bytes)?);
        }
        let (_, node) = self.edit.maker(value)?;
        let is_function = operators::of(node).is_some_and(|row| row.is_element_wise()) && node.outputs.len() == 1;
        is_function.then_some(())?;
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (index, input) in node.inputs.iter().enumerate() {
            inputs.push(match (input, self.edit.constant(node, index)) {
                (None, _) => None,
                (Some(_), Some(constant)) => Some(self.number(constant)?),
                (Some(input), None) => Some(self.of(*input)?),
            });
        }
        self.evaluated(node, &inputs)
    }

    /// A constant of one element, without its dimensions.
    fn number(&mut self, constant: &Tensor) -> Option<Tensor> {
        self.flat &= constant.shape().is_empty();
        constant.reshaped([]).ok().filter(|_| constant.len() == 1)
    }

    /// The results of a node that scales or rounds, for all values.
    fn scaled(&self, node: &NodeDesc, all: &Tensor) -> Option<Tensor> {
        let [scale, zero] = parameters(self.edit, node)?;
        let mut inputs = vec![Some(all.clone()), scale];
        inputs.extend(zero.map(Some));
        self.evaluated(node, &inputs)
    }

    fn evaluated(&self, node: &NodeDesc, inputs: &[Option<Tensor>]) -> Option<Tensor> {
        let mut outputs = (self.cx.evaluate)(self.edit.graph, node, inputs)?;
        outputs.pop().filter(|output| outputs.is_empty() && output.shape() == [VALUES])
    }
}
