//! A matrix product by constant weights that DequantizeLinear dequantises by blocks along the reduction becomes a
//! product that reads the stored weights. This pass runs before folding, which would dequantise them.

use kiln_kernels::cpu::blockwise::BlockFormat;
use kiln_tensor::DType;

use super::PassCx;
use super::edit::Edit;
use crate::facts::{Facts, axis};
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.is("MatMul") || node.is("Gemm")) else { continue };
        if let Some(fused) = fused(&edit, &node, &cx.facts) {
            edit.put(slot, fused);
        }
    }
    edit.finish()
}

fn fused(edit: &Edit<'_>, node: &NodeDesc, facts: &Facts) -> Option<NodeDesc> {
    let (left, right) = (node.input(0)?, node.input(1)?);
    let dequantize = edit.maker(right).map(|(_, maker)| maker).filter(|maker| maker.is("DequantizeLinear"))?;
    let attributes = node.attributes();
    let is_gemm = node.is("Gemm");
    let trans_b = is_gemm && attributes.flag("transB");
    let bias = match is_gemm {
        false => None,
        true => {
            plain_gemm(node)?;
            node.input(2)
        }
    };
    let (stored, scales) = (edit.constant(dequantize, 0)?, edit.constant(dequantize, 1)?);
    let small = [DType::I2, DType::U2, DType::I4, DType::U4, DType::I8, DType::U8].contains(&stored.dtype());
    let &[rows, columns] = stored.shape() else { return None };
    let block = u32::try_from(dequantize.attributes().int("block_size")).ok()?;
    let along = axis(dequantize.attributes().int("axis"), 2)?;
    let (k, n) = if trans_b { (columns, rows) } else { (rows, columns) };
    let blocks = k.div_ceil((block as usize).max(1));
    let shape = if trans_b { [n, blocks] } else { [blocks, n] };
    let zeros = match dequantize.input(2) {
        None => None,
        Some(zeros) => {
            let constant = edit.graph.constant(zeros)?;
            (constant.dtype() == stored.dtype() && constant.shape() == shape).then_some(Some(zeros))?
        }
    };
    // 0 stands for the scales' type.
    let output = DType::of_onnx(dequantize.attributes().int("output_dtype")).unwrap_or(scales.dtype());
    let fits = small
        && block > 0
        && block.is_multiple_of(16)
        && block <= BlockFormat::LONGEST
        && along == usize::from(trans_b)
        && k > 0
        && scales.shape() == shape
        && [scales.dtype(), output] == [DType::F32; 2]
        && facts.is(left, DType::F32)
        && facts.rank(left).is_some_and(|rank| rank >= 1)
        && bias.is_none_or(|bias| is_row(bias, n, DType::F32, facts));
    fits.then(|| {
        let mut attrs = Attrs::new();
        attrs.insert("block_size".to_owned(), Attr::Int(i64::from(block)));
        attrs.insert("trans_b".to_owned(), Attr::Int(i64::from(trans_b)));
        NodeDesc {
            domain: "kiln".to_owned(),
            op: "BlockwiseMatMul".to_owned(),
            version: 1,
            attrs,
            inputs: vec![Some(left), dequantize.inputs[0], dequantize.inputs[1], zeros, bias],
            ..node.clone()
        }
    })
}

/// `Some` if a Gemm has no factors and its left-hand side is not transposed.
pub(super) fn plain_gemm(node: &NodeDesc) -> Option<()> {
    let attributes = node.attributes();
    let plain = node.version >= 7
        && !attributes.flag("transA")
        && attributes.float("alpha") == 1.0
        && (node.input(2).is_none() || attributes.float("beta") == 1.0);
    plain.then_some(())
}

/// Whether a value is a vector of that type with `columns` elements.
pub(super) fn is_row(value: ValueId, columns: usize, dtype: DType, facts: &Facts) -> bool {
    let dims = facts.dims(value).and_then(|dims| if let [size] = dims { size.known() } else { None });
    facts.is(value, dtype) && dims == i64::try_from(columns).ok()
}
