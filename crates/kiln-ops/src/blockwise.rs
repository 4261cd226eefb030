//! Products by block-quantised weights: MatMulNBits and MatMulBnb4 of ONNX Runtime, and MatMul and Gemm by constants
//! that DequantizeLinear would dequantise by blocks (the pass `blockwise`), or by numbers that a caller wants rounded
//! (the pass `round_weights`).
//!
//! Weights, scales and zero points have to be constants: they are packed as they are when the node is made. Results are
//! those of dequantised weights in `f32`, up to the order of additions. Where a model's `accuracy_level` is 4, rows are
//! quantised to bytes by blocks, as in ONNX Runtime, on processors that multiply bytes.

mod round;
mod source;

use kiln_kernels::cpu::blockwise::{
    BlockFormat, BlockProduct, BlockProductShape, BlockSource, Codes, LeftElements, ZeroPoints,
};
use kiln_kernels::memory::Collect;
use kiln_model::NodeDesc;
use kiln_run::exec::weights::{self, BlockWeights};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use self::round::{Bounds, Rounded};
use self::source::{Given, ZeroPointBytes};
use super::convert::narrow_through_f32;
use super::{LoadCx, OpError, Operator, optional, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("com.microsoft", "MatMulBnb4", |cx| narrow_through_f32(cx, make_bnb4)),
    ("com.microsoft", "MatMulNBits", |cx| narrow_through_f32(cx, make_nbits)),
    ("kiln", "BlockwiseMatMul", |cx| narrow_through_f32(cx, make_blockwise)),
];

/// The inputs that are packed: weights, scales, zero points.
const PACKED_INPUTS: u64 = 0b1110;

/// A product by block-quantised weights.
struct BlockwiseMatMul {
    /// The shape of the product of one row.
    shape: BlockProductShape,
    weights: BlockWeights,
    /// The input that is added to every row, if there is one.
    bias: Option<usize>,
    /// Inputs that were packed.
    kept: u64,
}

/// Sizes and blocks that attributes state.
struct Stated {
    k: usize,
    n: usize,
    block: u32,
}

impl Stated {
    fn of(node: &NodeDesc) -> Result<Stated, OpError> {
        let size = |name: &str| {
            let stated = node.attributes().integer(name);
            let size = stated.and_then(|stated| usize::try_from(stated).ok()).filter(|&size| size > 0);
            size.ok_or_else(|| OpError::invalid(node, format!("{name} = {}", shown(stated))))
        };
        Ok(Stated { k: size("K")?, n: size("N")?, block: block(node)? })
    }
}

/// The attribute `block_size`, if kernels take blocks of that length.
fn block(node: &NodeDesc) -> Result<u32, OpError> {
    let stated = node.attributes().integer("block_size");
    let block = stated.and_then(|stated| u32::try_from(stated).ok()).filter(|block| *block <= BlockFormat::LONGEST);
    block
        .filter(|block| *block > 0 && block.is_multiple_of(16))
        .ok_or_else(|| OpError::unsupported(node, format!("attribute block_size = {}", shown(stated))))
}

/// An integer for an error message.
fn shown(stated: Option<i64>) -> String {
    stated.map_or_else(|| "nothing".to_owned(), |stated| stated.to_string())
}

fn make_nbits(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let Stated { k, n, block } = Stated::of(node)?;
    let bits = node.attributes().int("bits");
    let codes = match bits {
        2 => Codes::Int2,
        4 => Codes::Int4,
        8 => Codes::Int8,
        _ => return Err(OpError::unsupported(node, format!("attribute bits = {bits}"))),
    };
    if node.input(4).is_some() {
        return Err(OpError::unsupported(node, "input 4 (g_idx): rows that are in blocks by number, not in order"));
    }
    let prepacked = node.attributes().int("weight_prepacked");
    if prepacked != 0 {
        return Err(OpError::unsupported(node, format!("attribute weight_prepacked = {prepacked}")));
    }
    let given = Given { node, graph: cx.graph, k, n, block };
    let bias = node.input(5).map(|_| 5);
    // As in ONNX Runtime, floats as zero points keep rows as they are.
    let level = node.attributes().int("accuracy_level");
    let left = |zeros: ZeroPoints| match level == 4 && zeros != ZeroPoints::F32 {
        true => LeftElements::Bytes,
        false => LeftElements::Floats,
    };
    let wanted = Wanted { cx, given: &given, codes, signed: false, bias };
    if let Some(made) = wanted.ready(given.kinds_of_zeros(3, ZeroPointBytes::Packed), left) {
        return Ok(made);
    }
    let zeros = given.zero_points(3, codes, ZeroPointBytes::Packed)?;
    let scales = given.factors(2)?;
    let source = BlockSource {
        codes: given.packed(1, codes)?,
        signed: false,
        scales,
        zero_bytes: &zeros.bytes,
        zeros: zeros.floats,
        at: given.by_columns(),
    };
    wanted.pack(zeros.of(), left(zeros.of()), &source)
}

fn make_bnb4(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let Stated { k, n, block } = Stated::of(node)?;
    let kind = node.attributes().integer("quant_type");
    let codes = match kind {
        Some(0) => Codes::Fp4,
        Some(1) => Codes::Nf4,
        _ => return Err(OpError::unsupported(node, format!("attribute quant_type = {}", shown(kind)))),
    };
    for (name, wanted) in [("training_mode", 0), ("transB", 1)] {
        let found = node.attributes().int(name);
        if found != wanted {
            return Err(OpError::unsupported(node, format!("attribute {name} = {found}")));
        }
    }
    let given = Given { node, graph: cx.graph, k, n, block };
    // Blocks run over the whole matrix, and kernels need blocks within a column.
    if !k.is_multiple_of(block as usize) {
        return crate::matmul::by_columns(cx, &widened_bnb4(&given, codes)?);
    }
    let wanted = Wanted { cx, given: &given, codes, signed: false, bias: None };
    if let Some(made) = wanted.ready(&[ZeroPoints::Middle], |_| LeftElements::Floats) {
        return Ok(made);
    }
    // The first of two codes is in the higher bits.
    let bytes: Vec<u8> = given.bytes(1, k * n / 2)?.iter().map(|pair| pair.rotate_left(4)).collected();
    let source = BlockSource {
        codes: given.columns_of(&bytes, codes),
        signed: false,
        scales: given.factors(2)?,
        zero_bytes: &[],
        zeros: &[],
        at: given.by_columns(),
    };
    wanted.pack(ZeroPoints::Middle, LeftElements::Floats, &source)
}

/// The weights of MatMulBnb4 as numbers, columns by rows.
fn widened_bnb4(given: &Given<'_>, codes: Codes) -> Result<Tensor, OpError> {
    let Given { node, k, n, block, .. } = *given;
    let count = k.checked_mul(n).ok_or_else(|| OpError::invalid(node, format!("{k} by {n} weights")))?;
    let (bytes, scales) = (given.bytes(1, count.div_ceil(2))?, given.numbers(2, count.div_ceil(block as usize))?);
    let mut matrix = Tensor::zeros(TensorSpec::new(DType::F32, [n, k]))
        .map_err(|error| OpError::invalid(node, error.to_string()))?;
    let numbers = matrix.as_mut_slice::<f32>().map_err(|error| OpError::invalid(node, error.to_string()))?;
    for (at, number) in numbers.iter_mut().enumerate() {
        // The first of two codes is in the higher bits.
        let code = bytes[at / 2] >> if at.is_multiple_of(2) { 4 } else { 0 };
        *number = codes.number(code) * scales[at / block as usize];
    }
    Ok(matrix)
}

/// Weights as DequantizeLinear reads them: `k` by `n`, or `n` by `k` if `trans_b`.
fn make_blockwise(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let (node, trans_b) = (cx.node, cx.node.attributes().flag("trans_b"));
    let weights = source::constant(node, cx.graph, 1)?;
    let &[rows, columns] = weights.shape() else {
        return Err(OpError::invalid(node, format!("weights of shape {:?}", weights.shape())));
    };
    let [k, n] = if trans_b { [columns, rows] } else { [rows, columns] };
    if weights.dtype() == DType::F32 {
        return make_rounded(cx, weights, [k, n], trans_b);
    }
    let (codes, signed) = match weights.dtype() {
        DType::I2 => (Codes::Int2, true),
        DType::U2 => (Codes::Int2, false),
        DType::I4 => (Codes::Int4, true),
        DType::U4 => (Codes::Int4, false),
        DType::I8 => (Codes::Int8, true),
        DType::U8 => (Codes::Int8, false),
        other => return Err(OpError::unsupported(node, format!("weights of {other}"))),
    };
    let given = Given { node, graph: cx.graph, k, n, block: block(node)? };
    let wanted = Wanted { cx, given: &given, codes, signed, bias: node.input(4).map(|_| 4) };
    let apart = ZeroPointBytes::Apart { signed };
    if let Some(made) = wanted.ready(given.kinds_of_zeros(3, apart), |_| LeftElements::Floats) {
        return Ok(made);
    }
    let zeros = given.zero_points(3, codes, apart)?;
    let source = BlockSource {
        codes: given.apart(weights.bytes(), trans_b),
        signed,
        scales: given.factors(2)?,
        zero_bytes: &zeros.bytes,
        zeros: &[],
        at: if trans_b { given.by_columns() } else { given.by_rows() },
    };
    wanted.pack(zeros.of(), LeftElements::Floats, &source)
}

/// Weights that are numbers, `k` by `n`, or `n` by `k` if `trans_b`: they are rounded to `bits` bits.
fn make_rounded(
    cx: &LoadCx<'_>,
    weights: &Tensor,
    [k, n]: [usize; 2],
    trans_b: bool,
) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let codes = match node.attributes().int("bits") {
        4 => Codes::Int4,
        8 => Codes::Int8,
        bits => return Err(OpError::invalid(node, format!("attribute bits = {bits}"))),
    };
    let given = Given { node, graph: cx.graph, k, n, block: block(node)? };
    let wanted = Wanted { cx, given: &given, codes, signed: true, bias: node.input(4).map(|_| 4) };
    if let Some(made) = wanted.ready(&[ZeroPoints::Middle], |_| LeftElements::Floats) {
        return Ok(made);
    }
    let mut numbers = weights.pieces().map_err(|error| OpError::invalid(node, error.to_string()))?;
    let bounds = Bounds { k, n, block: given.block as usize, largest: f32::from(codes.middle()) };
    let missing = || OpError::invalid(node, format!("fewer than {k} by {n} weights"));
    let Rounded { codes: bytes, scales } = bounds.round(&mut numbers, trans_b).ok_or_else(missing)?;
    let source = BlockSource {
        codes: given.apart(&bytes, trans_b),
        signed: true,
        scales: &scales,
        zero_bytes: &[],
        zeros: &[],
        at: if trans_b { given.by_columns() } else { given.by_rows() },
    };
    wanted.pack(ZeroPoints::Middle, LeftElements::Floats, &source)
}

/// A product before its weights are packed.
struct Wanted<'a> {
    cx: &'a LoadCx<'a>,
    given: &'a Given<'a>,
    codes: Codes,
    /// Whether integer codes are signed.
    signed: bool,
    /// The input that is added to every row, if there is one.
    bias: Option<usize>,
}

impl Wanted<'_> {
    /// The shape of the product of one row.
    fn shape(&self, zeros: ZeroPoints, left: LeftElements) -> BlockProductShape {
        let format = BlockFormat { codes: self.codes, zeros, block: self.given.block };
        let (n, k) = (self.given.n as u64, self.given.k as u64);
        let left = left.at_precision(self.cx.build.precision);
        BlockProductShape { m: 1, n, k, format, bias: self.bias.is_some(), left }
    }

    /// The node, where packed weights lie ready with zero points of one of these kinds. Reads no element.
    fn ready(&self, kinds: &[ZeroPoints], left: impl Fn(ZeroPoints) -> LeftElements) -> Option<Box<dyn Node>> {
        kinds.iter().find_map(|&zeros| {
            let shape = self.shape(zeros, left(zeros));
            let panels = shape.panels(self.cx.build.isa);
            let weights = weights::blockwise_ready(self.cx.packing, &panels, self.signed)?;
            Some(self.node(shape, weights))
        })
    }

    /// The node, whose weights are packed.
    fn pack(&self, zeros: ZeroPoints, left: LeftElements, source: &BlockSource<'_>) -> Result<Box<dyn Node>, OpError> {
        let shape = self.shape(zeros, left);
        let weights = weights::blockwise(self.cx.packing, &shape.panels(self.cx.build.isa), source)
            .map_err(|error| OpError::invalid(self.cx.node, error.to_string()))?;
        Ok(self.node(shape, weights))
    }

    fn node(&self, shape: BlockProductShape, weights: BlockWeights) -> Box<dyn Node> {
        let kept = (0..self.cx.node.inputs.len().min(4)).fold(0, |kept, index| kept | 1 << index) & PACKED_INPUTS;
        Box::new(BlockwiseMatMul { shape, weights, bias: self.bias, kept })
    }
}

impl Node for BlockwiseMatMul {
    fn family(&self) -> &'static str {
        "blockwise"
    }

    fn kept_inputs(&self) -> u64 {
        self.kept
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let left = required(inputs, 0)?;
        if left.dtype() != DType::F32 {
            return Err(NodeError::Unsupported(format!("a product of {} by block-quantised weights", left.dtype())));
        }
        if left.shape().last() != Some(&self.shape.k()) {
            return Err(refused(format!("rows of {:?} by weights of {} rows", left.shape(), self.shape.k)));
        }
        match self.bias.and_then(|index| optional(inputs, index)) {
            Some(bias) if bias.shape() != [self.shape.n()] || bias.dtype() != DType::F32 => {
                Err(refused(format!("a bias of {} {:?} for {} columns", bias.dtype(), bias.shape(), self.shape.n)))
            }
            _ => Ok(()),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let m = required(inputs, 0)?.len() / self.shape.k();
        Ok(Prepared::new(cx.executor(&cx.key(BlockProductShape { m: m as u64, ..self.shape }))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = self.multiply(prepared.get()?, &io.inputs(), io.alloc(0)?, cx)?;
        io.push(output);
        Ok(())
    }
}

impl BlockwiseMatMul {
    fn multiply(
        &self,
        product: &BlockProduct,
        inputs: &[Option<&Tensor>],
        mut output: Tensor,
        cx: &RunCx<'_>,
    ) -> Result<Tensor, NodeError> {
        let bias = self.bias.and_then(|index| optional(inputs, index)).map(Tensor::as_slice).transpose()?;
        let mut scratch = cx.scratch::<f32>(product.scratch_len())?;
        let (left, c) = (required(inputs, 0)?.as_slice()?, output.as_mut_slice()?);
        product.run(left, self.weights.bytes(), bias, c, scratch.as_mut_slice()?, cx.parallel)?;
        Ok(output)
    }
}

#[cfg(test)]
mod tests;
