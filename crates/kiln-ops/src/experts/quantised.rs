//! Experts' weights of a few bits: codes with a scale, and perhaps a zero point, for each row of a matrix or for each
//! block of it.

use kiln_kernels::cpu::blockwise::{
    BlockFormat, BlockProductShape, BlockSource, CodeBytes, Codes, LeftElements, Offsets, ZeroPoints,
};
use kiln_kernels::memory::{self, Collect};
use kiln_run::exec::weights::{self, BlockWeights};
use kiln_tensor::{DType, Tensor};

use super::super::{LoadCx, OpError};
use super::sizes::Sizes;

/// Lengths of a kernel's blocks, for weights that share a scale along a whole row.
const BLOCKS: [u32; 4] = [128, 64, 32, 16];

/// Constants of a product, and their sizes.
struct Given<'a> {
    cx: &'a LoadCx<'a>,
    codes: Codes,
    sizes: Sizes,
    /// Weights that share a scale in the model; `None` where a whole row shares one.
    stated: Option<u32>,
    /// Weights of a block of the kernel.
    block: u32,
}

/// Packs the weights that are input `input`; scales are the next one.
pub(super) fn pack(
    cx: &LoadCx<'_>,
    input: usize,
    zeros: usize,
    bits: &str,
) -> Result<(BlockProductShape, Vec<BlockWeights>), OpError> {
    let given = Given::of(cx, input, bits)?;
    let Sizes { experts, n, k } = given.sizes;
    let row = k * given.codes.bits() / 8;
    let bytes = given.sized(input, DType::U8, &[experts, n, row])?.bytes();
    let (scales, zeros) = (given.scales(input + 1)?, given.zero_points(zeros)?);
    let format = BlockFormat {
        codes: given.codes,
        zeros: if zeros.is_empty() { ZeroPoints::Middle } else { ZeroPoints::Bytes },
        block: given.block,
    };
    let shape = BlockProductShape { m: 1, n: n as u64, k: k as u64, format, bias: false, left: given.left_elements() };
    let panels = shape.panels(cx.build.isa);
    let (matrix, blocks) = (n * row, n * given.blocks());
    // The last word of a row may reach beyond it.
    let mut codes: Vec<u8> = memory::zeroed(matrix + 4);
    let mut packed = memory::with_capacity(experts);
    for expert in 0..experts {
        codes[..matrix].copy_from_slice(&bytes[expert * matrix..][..matrix]);
        let source = BlockSource {
            codes: CodeBytes::Packed { bytes: &codes, stride: row },
            signed: false,
            scales: &scales[expert * blocks..][..blocks],
            zero_bytes: if zeros.is_empty() { &[] } else { &zeros[expert * blocks..][..blocks] },
            zeros: &[],
            at: Offsets { inner: 1, column: given.blocks() },
        };
        packed.push(
            weights::blockwise(cx.packing, &panels, &source)
                .map_err(|error| OpError::invalid(cx.node, error.to_string()))?,
        );
    }
    Ok((shape, packed))
}

impl<'a> Given<'a> {
    fn of(cx: &'a LoadCx<'a>, input: usize, bits: &str) -> Result<Given<'a>, OpError> {
        let (node, attributes) = (cx.node, cx.node.attributes());
        let bits = attributes.integer(bits).unwrap_or_else(|| attributes.int("expert_weight_bits"));
        let codes = match bits {
            2 => Codes::Int2,
            4 => Codes::Int4,
            8 => Codes::Int8,
            _ => return Err(OpError::unsupported(node, format!("weights of {bits} bits (input {input})"))),
        };
        let weights = constant(cx, input)?;
        let &[experts, n, row] = weights.shape() else {
            return Err(OpError::invalid(
                node,
                format!("input {input} has shape {:?}, not of rank 3", weights.shape()),
            ));
        };
        let k = row.checked_mul(8 / codes.bits()).filter(|&k| k > 0 && n > 0 && experts > 0);
        let k = k.ok_or_else(|| OpError::invalid(node, format!("input {input} has shape {:?}", weights.shape())))?;
        let stated = attributes.integer("block_size").filter(|&stated| stated != 0);
        let block = match stated {
            None => BLOCKS.into_iter().find(|&block| k.is_multiple_of(block as usize)).unwrap_or(32),
            Some(stated) => {
                let block = u32::try_from(stated).ok().filter(|&block| block >= 16 && block.is_power_of_two());
                let block = block.filter(|&block| block <= BlockFormat::LONGEST && k.is_multiple_of(block as usize));
                block.ok_or_else(|| OpError::invalid(node, format!("block_size = {stated} for rows of {k} weights")))?
            }
        };
        let sizes = Sizes { experts, n, k };
        Ok(Given { cx, codes, sizes, stated: stated.map(|_| block), block })
    }

    /// Blocks of a row, as kernels have them.
    fn blocks(&self) -> usize {
        self.sizes.k.div_ceil(self.block as usize)
    }

    /// As in ONNX Runtime, weights of 8 bits by blocks are always multiplied with bytes, and those of 4 bits on demand.
    fn left_elements(&self) -> LeftElements {
        let asked = self.cx.node.attributes().int("accuracy_level") == 4;
        match (self.stated, self.codes) {
            (Some(_), Codes::Int8) => LeftElements::Bytes,
            (Some(_), Codes::Int4) if asked => LeftElements::Bytes,
            _ => LeftElements::Floats.at_precision(self.cx.build.precision),
        }
    }

    fn sized(&self, index: usize, dtype: DType, shape: &[usize]) -> Result<&'a Tensor, OpError> {
        let tensor = constant(self.cx, index)?;
        if tensor.dtype() != dtype || tensor.shape() != shape {
            let (found, dims) = (tensor.dtype(), tensor.shape());
            let reason = format!("input {index} is {found} {dims:?} where {dtype} {shape:?} is needed");
            return Err(OpError::invalid(self.cx.node, reason));
        }
        Ok(tensor)
    }

    /// The values of the model's rows or blocks, for each block of the kernel.
    fn spread<T: Copy>(&self, values: &[T]) -> Vec<T> {
        match self.stated {
            Some(_) => memory::copied(values),
            None => values.iter().flat_map(|&value| std::iter::repeat_n(value, self.blocks())).collected(),
        }
    }

    /// A scale for each block.
    fn scales(&self, index: usize) -> Result<Vec<f32>, OpError> {
        let Sizes { experts, n, .. } = self.sizes;
        let tensor = match self.stated {
            Some(_) => self.sized(index, DType::F32, &[experts, n, self.blocks()])?,
            None => self.sized(index, DType::F32, &[experts, n])?,
        };
        let scales = tensor.as_slice().map_err(|error| OpError::invalid(self.cx.node, error.to_string()))?;
        Ok(self.spread(scales))
    }

    /// A zero point for each block; empty where all are the middle of the codes.
    fn zero_points(&self, index: usize) -> Result<Vec<u8>, OpError> {
        if self.cx.node.input(index).is_none() {
            return Ok(Vec::new());
        }
        let Sizes { experts, n, .. } = self.sizes;
        let bits = self.codes.bits();
        let packed = |count: usize| (count * bits).div_ceil(8);
        // Zero points of a line begin in a byte of their own.
        let (count, tensor) = match self.stated {
            Some(_) => (self.blocks(), self.sized(index, DType::U8, &[experts, n, packed(self.blocks())])?),
            None => (n, self.sized(index, DType::U8, &[experts, packed(n)])?),
        };
        let zero = |line: &[u8], at: usize| line[at * bits / 8] >> (at * bits % 8) & (u8::MAX >> (8 - bits));
        let lines = tensor.bytes().chunks_exact(packed(count));
        let zeros: Vec<u8> = lines.flat_map(|line| (0..count).map(move |at| zero(line, at))).collected();
        Ok(if zeros.iter().all(|&zero| zero == self.codes.middle()) { Vec::new() } else { self.spread(&zeros) })
    }
}

fn constant<'a>(cx: &LoadCx<'a>, index: usize) -> Result<&'a Tensor, OpError> {
    cx.graph
        .constant_input(cx.node, index)
        .ok_or_else(|| OpError::unsupported(cx.node, format!("input {index}, which is no constant")))
}
