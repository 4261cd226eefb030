//! Where a caller asks for integer weights, a product by a constant matrix of floats becomes one that rounds the matrix
//! at load. The pass runs after a bias has been fused into the product, and before a residual is.

use kiln_tensor::DType;

use super::PassCx;
use super::blockwise::{self, is_row};
use super::edit::Edit;
use super::matmul::FUSED;
use crate::facts::Facts;
use crate::ir::{Attr, Attrs, Graph, NodeDesc};

/// Weights of a column that share a scale, the default of quantisers that write MatMulNBits.
const BLOCK: usize = 32;

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let Some(bits) = cx.code_bits else { return 0 };
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let product = |node: &NodeDesc| node.is("MatMul") || node.is("Gemm") || node.is_fused(FUSED);
        let Some(node) = edit.cloned(slot, product) else { continue };
        if let Some(rounded) = rounded(&edit, &node, bits, &cx.facts) {
            edit.put(slot, rounded);
        }
    }
    edit.finish()
}

fn rounded(edit: &Edit<'_>, node: &NodeDesc, bits: u8, facts: &Facts) -> Option<NodeDesc> {
    let (left, right) = (node.input(0)?, node.input(1)?);
    let attributes = node.attributes();
    let (trans_b, bias) = if node.is("MatMul") {
        (false, None)
    } else if node.is("Gemm") {
        blockwise::plain_gemm(node)?;
        (attributes.flag("transB"), node.input(2))
    } else {
        let plain = attributes.float("alpha") == 1.0
            && !attributes.flag("trans_a")
            && node.input(3).is_none()
            && !node.attrs.contains_key("activation");
        plain.then_some(())?;
        (attributes.flag("trans_b"), node.input(2))
    };
    let weights = edit.graph.constant(right)?;
    let &[rows, columns] = weights.shape() else { return None };
    let (k, n) = if trans_b { (columns, rows) } else { (rows, columns) };
    let dtype = weights.dtype();
    let fits = [DType::F32, DType::F16, DType::BF16].contains(&dtype)
        && k >= BLOCK
        && n > 0
        && facts.is(left, dtype)
        && facts.rank(left).is_some_and(|rank| rank >= 1)
        && bias.is_none_or(|bias| is_row(bias, n, dtype, facts));
    fits.then(|| {
        let mut attrs = Attrs::new();
        attrs.insert("block_size".to_owned(), Attr::Int(BLOCK as i64));
        attrs.insert("trans_b".to_owned(), Attr::Int(i64::from(trans_b)));
        attrs.insert("bits".to_owned(), Attr::Int(i64::from(bits)));
        NodeDesc {
            domain: "kiln".to_owned(),
            op: "BlockwiseMatMul".to_owned(),
            version: 1,
            attrs,
            inputs: vec![Some(left), Some(right), None, None, bias],
            ..node.clone()
        }
    })
}
