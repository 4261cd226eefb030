//! Block-quantised weights as a model's constants have them.

use kiln_kernels::cpu::blockwise::{CodeBytes, Codes, Offsets, ZeroPoints};
use kiln_kernels::memory::{self, Collect};
use kiln_model::{Graph, NodeDesc};
use kiln_tensor::{DType, Tensor};

use super::super::OpError;

/// The constants of a node, and their sizes.
pub(super) struct Given<'a> {
    pub(super) node: &'a NodeDesc,
    pub(super) graph: &'a Graph,
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) block: u32,
}

/// How zero points are stored where they are integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroPointBytes {
    /// As codes are packed, each column's from a byte of its own on.
    Packed,
    /// A byte each, of the codes' type; those that are left out are 0.
    Apart {
        /// Whether they are signed.
        signed: bool,
    },
}

/// Zero points of all blocks.
pub(super) struct Zeros<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) floats: &'a [f32],
}

impl Zeros<'_> {
    /// Where zero points come from.
    pub(super) fn of(&self) -> ZeroPoints {
        match (self.bytes.is_empty(), self.floats.is_empty()) {
            (false, _) => ZeroPoints::Bytes,
            (true, false) => ZeroPoints::F32,
            (true, true) => ZeroPoints::Middle,
        }
    }
}

/// A constant input.
pub(super) fn constant<'a>(node: &NodeDesc, graph: &'a Graph, index: usize) -> Result<&'a Tensor, OpError> {
    graph
        .constant_input(node, index)
        .ok_or_else(|| OpError::unsupported(node, format!("input {index}, which is no constant")))
}

impl<'a> Given<'a> {
    fn blocks(&self) -> usize {
        self.k.div_ceil(self.block as usize)
    }

    /// Blocks of one column follow each other.
    pub(super) fn by_columns(&self) -> Offsets {
        Offsets { inner: 1, column: self.blocks() }
    }

    /// Blocks of neighbouring columns follow each other.
    pub(super) fn by_rows(&self) -> Offsets {
        Offsets { inner: self.n, column: 1 }
    }

    fn sized(&self, index: usize, dtype: DType, len: usize) -> Result<&'a Tensor, OpError> {
        let tensor = constant(self.node, self.graph, index)?;
        if tensor.dtype() != dtype || tensor.len() != len {
            let (found, shape) = (tensor.dtype(), tensor.shape());
            let reason = format!("input {index} is {found} of shape {shape:?}, not {len} elements of {dtype}");
            return Err(OpError::invalid(self.node, reason));
        }
        Ok(tensor)
    }

    /// The bytes of an input, which must be `len`.
    pub(super) fn bytes(&self, index: usize, len: usize) -> Result<&'a [u8], OpError> {
        Ok(self.sized(index, DType::U8, len)?.bytes())
    }

    /// A number for each block.
    pub(super) fn factors(&self, index: usize) -> Result<&'a [f32], OpError> {
        self.numbers(index, self.blocks().saturating_mul(self.n))
    }

    pub(super) fn numbers(&self, index: usize, len: usize) -> Result<&'a [f32], OpError> {
        let tensor = self.sized(index, DType::F32, len)?;
        tensor.as_slice().map_err(|error| OpError::invalid(self.node, error.to_string()))
    }

    /// Codes of whole blocks, column after column.
    pub(super) fn packed(&self, index: usize, codes: Codes) -> Result<CodeBytes<'a>, OpError> {
        let stride = self.blocks() * (self.block as usize * codes.bits() / 8);
        Ok(CodeBytes::Packed { bytes: self.bytes(index, stride.saturating_mul(self.n))?, stride })
    }

    /// Codes of columns without gaps.
    pub(super) fn columns_of<'b>(&self, bytes: &'b [u8], codes: Codes) -> CodeBytes<'b> {
        CodeBytes::Packed { bytes, stride: self.k * codes.bits() / 8 }
    }

    /// Codes of a byte each, of a matrix of `k` rows, or of `n` rows if `transposed`.
    pub(super) fn apart<'b>(&self, bytes: &'b [u8], transposed: bool) -> CodeBytes<'b> {
        let at = match transposed {
            true => Offsets { inner: 1, column: self.k },
            false => Offsets { inner: self.n, column: 1 },
        };
        CodeBytes::Apart { bytes, at }
    }

    /// The kinds that zero points may be of; their elements decide which it is.
    pub(super) fn kinds_of_zeros(&self, index: usize, stored: ZeroPointBytes) -> &'static [ZeroPoints] {
        let zeros = self.graph.constant_input(self.node, index);
        match (self.node.input(index), zeros, stored) {
            (None, _, ZeroPointBytes::Apart { signed: false }) => &[ZeroPoints::Bytes],
            (None, ..) => &[ZeroPoints::Middle],
            (Some(_), Some(zeros), _) if zeros.dtype() == DType::F32 => &[ZeroPoints::Middle, ZeroPoints::F32],
            (Some(_), Some(_), _) => &[ZeroPoints::Middle, ZeroPoints::Bytes],
            (Some(_), None, _) => &[],
        }
    }

    /// The zero points of all blocks; empty where all are the middle of the codes.
    pub(super) fn zero_points(&self, index: usize, codes: Codes, stored: ZeroPointBytes) -> Result<Zeros<'a>, OpError> {
        let (middle, count) = (codes.middle(), self.blocks().saturating_mul(self.n));
        let is_float = self.graph.constant_input(self.node, index).is_some_and(|zeros| zeros.dtype() == DType::F32);
        let mut zeros = Zeros { bytes: Vec::new(), floats: &[] };
        if is_float {
            let floats = self.factors(index)?;
            zeros.floats = if floats.iter().all(|&zero| zero == f32::from(middle)) { &[] } else { floats };
            return Ok(zeros);
        }
        zeros.bytes = match (self.node.input(index), stored) {
            // Unsigned integers without zero points have zero points of 0.
            (None, ZeroPointBytes::Apart { signed: false }) => memory::zeroed(count),
            (None, _) => return Ok(zeros),
            (Some(_), ZeroPointBytes::Packed) => self.unpacked(index, codes)?,
            (Some(_), ZeroPointBytes::Apart { signed }) => {
                let dtype = constant(self.node, self.graph, 1)?.dtype();
                let bytes = self.sized(index, dtype, count)?.bytes().iter();
                bytes.map(|zero| if signed { zero.wrapping_add(middle) } else { *zero }).collected()
            }
        };
        if zeros.bytes.iter().all(|&zero| zero == middle) {
            zeros.bytes.clear();
        }
        Ok(zeros)
    }

    /// Zero points that are packed as codes are.
    fn unpacked(&self, index: usize, codes: Codes) -> Result<Vec<u8>, OpError> {
        let (bits, blocks) = (codes.bits(), self.blocks());
        let stride = (blocks * bits).div_ceil(8);
        let bytes = self.bytes(index, stride.saturating_mul(self.n))?;
        let zero =
            |column: &[u8], block: usize| column[block * bits / 8] >> (block * bits % 8) & (u8::MAX >> (8 - bits));
        Ok(bytes.chunks_exact(stride).flat_map(|column| (0..blocks).map(move |block| zero(column, block))).collected())
    }
}
