//! GatherBlockQuantized of ONNX Runtime: elements are picked by index from data that are quantised by blocks, and only
//! picked elements are dequantised. Language models keep their embeddings so.
//!
//! The data stay as they are stored: codes of 2 and 4 bits are in bytes, several a byte, the first in the lowest bits.

use kiln_kernels::memory::{Collect, Pace};
use kiln_kernels::parallel::{Parallel, for_each_chunk};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::compact::widen;
use kiln_tensor::grain::{Grain, Place};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::super::convert::narrow_through_f32;
use super::super::{LoadCx, OpError, Operator, around, axis_of, index_of, optional, refused, required};
use super::whole_numbers;

/// The operators of this file.
pub(crate) const OPERATORS: &[Operator] =
    &[("com.microsoft", "GatherBlockQuantized", |cx| narrow_through_f32(cx, make))];

/// Elements of a task: below, a task would be shorter than its wake-up.
const SHARE: usize = 1 << 14;

struct GatherBlockQuantized {
    /// The axis that indices pick from.
    gathered: i64,
    /// The axis whose neighbours share a scale.
    quantized: i64,
    /// How many share one; 0 is the whole axis, of floats alone.
    block: usize,
    /// Bits of a code that is stored in bytes.
    bits: usize,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    let (bits, block) = (attributes.int("bits"), attributes.int("block_size"));
    let bits = match bits {
        2 | 4 | 8 => bits as usize,
        _ => return Err(OpError::unsupported(cx.node, format!("attribute bits = {bits}"))),
    };
    let block = usize::try_from(block).ok().filter(|&block| block == 0 || block >= 16 && block.is_power_of_two());
    let Some(block) = block else {
        let block = attributes.int("block_size");
        return Err(OpError::invalid(cx.node, format!("block_size = {block}, which is no power of two from 16 on")));
    };
    let (gathered, quantized) = (attributes.int("gather_axis"), attributes.int("quantize_axis"));
    Ok(Box::new(GatherBlockQuantized { gathered, quantized, block, bits }))
}

/// Where elements, scales and zero points lie.
struct Layout {
    /// Codes that share a byte.
    packed: usize,
    /// Size of the gathered axis.
    size: usize,
    /// Elements from one of its indices to the next.
    inner: usize,
    /// Which elements share a scale and a zero point.
    grain: Grain,
    /// Zero points in a row of whole bytes.
    zeros: usize,
    /// The zero point where none are given.
    middle: f32,
}

/// The data with the scales and zero points of its blocks.
struct Table<'a> {
    layout: Layout,
    data: &'a Tensor,
    scales: &'a [f32],
    zeros: Zeros<'a>,
}

/// The zero points of blocks.
enum Zeros<'a> {
    /// All blocks have this one.
    All(f32),
    /// Each has its own: stored as the data are, `count` zero points in a row of whole bytes.
    Each { tensor: &'a Tensor, packed: usize, count: usize },
}

impl Zeros<'_> {
    /// The zero point of a block.
    fn of(&self, block: usize) -> f32 {
        match *self {
            Zeros::All(zero) => zero,
            Zeros::Each { tensor, packed, count } => {
                let (row, column) = (block / count, block % count);
                let byte = tensor.bytes()[row * count.div_ceil(packed) + column / packed];
                let mut zero = [0.0];
                widen(tensor.dtype(), &[code(byte, packed, column)], &mut zero);
                zero[0]
            }
        }
    }
}

/// The code of element `index` in the byte that holds it.
fn code(byte: u8, packed: usize, index: usize) -> u8 {
    let bits = 8 / packed;
    byte >> (index % packed * bits) & (u8::MAX >> (8 - bits))
}

impl GatherBlockQuantized {
    /// The layout of the inputs, from their types and shapes.
    fn layout(&self, inputs: &[Option<&Tensor>]) -> Result<Layout, NodeError> {
        let (data, scales) = (required(inputs, 0)?, required(inputs, 2)?);
        let (dtype, mut shape) = (data.dtype(), data.shape().to_vec());
        let (gathered, quantized) = (axis_of(self.gathered, shape.len())?, axis_of(self.quantized, shape.len())?);
        let (mut packed, mut middle) = (1, 0.0);
        match dtype {
            DType::U8 if gathered != 0 || quantized == 0 || quantized + 1 != shape.len() => {
                let axes = format!("gather_axis = {gathered} and quantize_axis = {quantized}");
                return Err(refused(format!(
                    "{axes} of bytes of shape {shape:?}, of which 0 and the last can be used"
                )));
            }
            DType::U8 => (packed, middle) = (8 / self.bits, f32::from(1u8 << (self.bits - 1))),
            DType::I4 | DType::U4 if self.bits == 4 => {}
            _ if dtype.is_minifloat() => {}
            _ => return Err(NodeError::Unsupported(format!("data of {dtype} and {} bits", self.bits))),
        }
        let axis = &mut shape[quantized];
        *axis = axis.checked_mul(packed).ok_or_else(|| refused(format!("data of shape {:?}", data.shape())))?;
        let block = match self.block {
            0 if dtype.is_minifloat() => (*axis).max(1),
            0 => return Err(refused(format!("block_size = 0 for data of {dtype}"))),
            block => block,
        };
        let mut blocks = shape.clone();
        blocks[quantized] = shape[quantized].div_ceil(block);
        if scales.dtype() != DType::F32 || scales.shape() != blocks {
            let found = format!("scales of {} {:?}", scales.dtype(), scales.shape());
            return Err(refused(format!("{found} for {shape:?} in blocks of {block}: expected {blocks:?}")));
        }
        if let Some(zeros) = optional(inputs, 3) {
            let mut stored = blocks.clone();
            stored[quantized] = stored[quantized].div_ceil(packed);
            if dtype.is_minifloat() || zeros.dtype() != dtype || zeros.shape() != stored {
                let found = format!("zero points of {} {:?}", zeros.dtype(), zeros.shape());
                return Err(refused(format!("{found} for data of {dtype} with scales {blocks:?}")));
            }
        }
        let (_, size, inner) = around(&shape, gathered);
        let grain = Grain::Blocks {
            size: shape[quantized],
            inner: shape[quantized + 1..].iter().product(),
            blocks: blocks[quantized],
            block,
        };
        let zeros = if packed > 1 { blocks[quantized] } else { 1 };
        Ok(Layout { packed, size, inner, grain, zeros, middle })
    }

    /// The data, scales and zero points of the inputs.
    fn table<'a>(&self, inputs: &[Option<&'a Tensor>]) -> Result<Table<'a>, NodeError> {
        let layout = self.layout(inputs)?;
        let zeros = match optional(inputs, 3) {
            Some(tensor) => Zeros::Each { tensor, packed: layout.packed, count: layout.zeros },
            None => Zeros::All(layout.middle),
        };
        Ok(Table { layout, data: required(inputs, 0)?, scales: required(inputs, 2)?.as_slice()?, zeros })
    }
}

impl Table<'_> {
    /// Writes the numbers of the elements from `first` on.
    fn write(&self, first: usize, to: &mut [f32]) {
        let (bytes, packed) = (self.data.bytes(), self.layout.packed);
        if packed == 1 {
            widen(self.data.dtype(), &bytes[first..first + to.len()], to);
        } else {
            let codes = (first..).map(|index| code(bytes[index / packed], packed, index));
            to.iter_mut().zip(codes).for_each(|(to, code)| *to = f32::from(code));
        }
        self.layout.grain.runs(first..first + to.len(), |run, place| {
            let values = &mut to[run.start - first..run.end - first];
            match place {
                Place::Shared(block) => {
                    let (zero, scale) = (self.zeros.of(block), self.scales[block]);
                    values.iter_mut().for_each(|value| *value = (*value - zero) * scale);
                }
                Place::Own(block) => values.iter_mut().zip(block..).for_each(|(value, block)| {
                    *value = (*value - self.zeros.of(block)) * self.scales[block];
                }),
            }
        });
    }
}

impl GatherBlockQuantized {
    fn gather(
        &self,
        inputs: &[Option<&Tensor>],
        mut output: Tensor,
        parallel: &dyn Parallel,
    ) -> Result<Tensor, NodeError> {
        let (table, indices) = (self.table(inputs)?, whole_numbers(required(inputs, 1)?)?);
        let Layout { size, inner, .. } = table.layout;
        // As in ONNX Runtime, an index outside picks zeros.
        let places: Vec<Option<usize>> = indices.iter().map(|&index| index_of(index, size).ok()).collected();
        if inner == 0 || places.is_empty() {
            return Ok(output);
        }
        let rows = (SHARE / inner).max(1);
        for_each_chunk(parallel, output.as_mut_slice()?, rows * inner, &|task, to| {
            let mut pace = Pace::default();
            for (row, to) in (task * rows..).zip(to.chunks_exact_mut(inner)) {
                pace.step(inner);
                match places[row % places.len()] {
                    Some(place) => table.write((row / places.len() * size + place) * inner, to),
                    None => to.fill(0.0),
                }
            }
        });
        Ok(output)
    }
}

impl Node for GatherBlockQuantized {
    fn family(&self) -> &'static str {
        "GatherBlockQuantized"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let indices = required(inputs, 1)?;
        if !matches!(indices.dtype(), DType::I32 | DType::I64) {
            return Err(refused(format!("indices of {}", indices.dtype())));
        }
        self.layout(inputs).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = io.alloc(0)?;
        let output = self.gather(&io.inputs(), output, cx.parallel)?;
        io.push(output);
        Ok(())
    }
}
