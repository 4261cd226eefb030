//! Fuses element-wise nodes into one node that goes over memory once.
//!
//! A node takes in the maker of an operand if it is the operand's only reader and if the maker computes as many
//! elements as the node does. (A function of a row that is added to a matrix is computed once for the row; inside the
//! chain it would be computed for every element of the matrix. Fusing it would still be correct, because the operands
//! of a chain broadcast together.) Composing programs simplifies them, which turns the long forms of GELU and SiLU into
//! one function.

mod lower;

use std::sync::Arc;

use kiln_kernels::cpu::chain::Program;

use super::PassCx;
use super::edit::Edit;
use crate::facts::Facts;
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};

pub(super) use lower::may_be_element_wise;

/// An element-wise node as a program and the values of its operands.
pub(super) struct Lowered {
    pub(super) program: Program,
    pub(super) args: Vec<ValueId>,
}

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        while absorb(&mut edit, slot, &cx.facts) {}
    }
    edit.finish()
}

/// The node as a program, if it is element-wise on `f32` and booleans.
pub(super) fn lowered(edit: &Edit<'_>, node: &NodeDesc, facts: &Facts) -> Option<Lowered> {
    if !node.is_fused("Chain") {
        return lower::lower(node, edit.graph, facts);
    }
    let Some(Attr::Chain(program)) = node.attrs.get("program") else { return None };
    let args: Vec<ValueId> = node.inputs.iter().copied().collect::<Option<_>>()?;
    Some(Lowered { program: Program::clone(program), args })
}

/// Fuses the node in `slot` with the maker of one of its operands.
fn absorb(edit: &mut Edit<'_>, slot: usize, facts: &Facts) -> bool {
    let Some(node) = edit.cloned(slot, may_be_element_wise) else { return false };
    let (Some(outer), Some(output)) = (lowered(edit, &node, facts), node.output(0)) else { return false };
    for &arg in &outer.args {
        let own_uses = node.inputs.iter().filter(|&&input| input == Some(arg)).count();
        if edit.uses(arg) as usize != own_uses || !facts.is_as_large(arg, output) {
            continue;
        }
        let Some((maker, before)) = edit.maker(arg).filter(|(_, before)| may_be_element_wise(before)) else {
            continue;
        };
        let Some(inner) = lowered(edit, before, facts) else { continue };
        let joined = Program::compose(&outer.program, &outer.args, arg, &inner.program, &inner.args);
        let Some((program, args)) = joined else { continue };
        let joined = NodeDesc {
            name: node.name.clone(),
            domain: "kiln".to_owned(),
            op: "Chain".to_owned(),
            version: 1,
            attrs: Attrs::from([("program".to_owned(), Attr::Chain(Arc::new(program)))]),
            inputs: args.into_iter().map(Some).collect(),
            outputs: vec![Some(output)],
        };
        edit.take(maker);
        edit.put(slot, joined);
        return true;
    }
    false
}
