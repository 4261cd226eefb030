//! Transpositions. Where the innermost axis stays innermost, a transposition is a strided copy. Otherwise tiles of 32
//! by 32 elements are transposed in shared memory, so that loads and stores coalesce.

use serde::{Deserialize, Serialize};

use super::copy::{CopyKernel, Strided, moved};
use super::space::{IterationSpace, SpaceCode};
use super::{Kernel, KernelCode, launch_blocks, operand, parameters, product, refuse, source};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device transpose";

/// Elements of a side of a tile, and rows of a tile that a block copies at once.
const SIDE: u64 = 32;
const ROWS: u32 = 8;

/// Shortest side of a matrix that is transposed by tiles: with shorter sides, most of a tile is empty, and caches serve
/// a strided copy.
const SHORTEST: u64 = 8;

/// What shapes the instructions of a transposition by tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TransposeCode {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub width: u8,
    /// Dimensions of the tiles, and their strides in input and output.
    pub space: SpaceCode,
}

/// A transposition at its sizes.
#[derive(Debug)]
pub struct TransposeKernel {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Copy(CopyKernel),
    Tiles {
        code: TransposeCode,
        elements: u64,
        /// Tiles of all matrices.
        total: u64,
        space: Vec<u8>,
        /// Rows and columns of the input's matrix, the stride of rows in the input and of columns in the output.
        matrix: [u64; 4],
    },
}

impl TransposeKernel {
    /// Transposes a tensor of that shape, with elements of `width` bytes: axis `i` of the output is axis `perm[i]` of
    /// the input. Inputs: the tensor.
    ///
    /// # Errors
    ///
    /// Unsupported where `perm` is no permutation of the axes, or too many axes remain.
    pub fn new(width: u8, shape: &[u64], perm: &[u32]) -> Result<TransposeKernel> {
        moved(FAMILY, width)?;
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        if perm.len() != shape.len() || sorted.iter().enumerate().any(|(at, &axis)| at as u64 != u64::from(axis)) {
            return Err(refuse(FAMILY, format!("{perm:?} is no order of the axes of {shape:?}")));
        }
        let elements = product(FAMILY, shape)?;
        let mut steps = vec![1i64; shape.len()];
        for axis in (1..shape.len()).rev() {
            // Strides of a tensor without elements are not used.
            steps[axis - 1] = steps[axis].wrapping_mul(shape[axis] as i64);
        }
        let counts: Vec<u64> = perm.iter().map(|&axis| shape[axis as usize]).collect();
        let from: Vec<i64> = perm.iter().map(|&axis| steps[axis as usize]).collect();
        let mut to = vec![1i64; counts.len()];
        for axis in (1..counts.len()).rev() {
            to[axis - 1] = to[axis].wrapping_mul(counts[axis] as i64);
        }
        if elements > 0 {
            let space = IterationSpace::new(FAMILY, &counts, &[(0, &from), (0, &to)])?;
            if let Some(form) = tiles(width, elements, &space)? {
                return Ok(TransposeKernel { form });
            }
        }
        Ok(TransposeKernel {
            form: Form::Copy(CopyKernel::new(width, &counts, Strided::new(0, &from), Strided::new(0, &to))?),
        })
    }
}

/// The tiles, where they pay: the output's innermost axis is not the input's, and both are long enough.
fn tiles(width: u8, elements: u64, space: &IterationSpace) -> Result<Option<Form>> {
    let last = space.counts.len() - 1;
    let [(_, from), (_, to)] = space.operands.as_slice() else { return Ok(None) };
    let inner = from.iter().position(|&step| step == 1);
    let Some(inner) = inner.filter(|&inner| inner != last) else { return Ok(None) };
    let (columns, rows) = (space.counts[inner], space.counts[last]);
    if columns.min(rows) < SHORTEST {
        return Ok(None);
    }
    // Tiles are numbered over the other axes, then by rows and columns of tiles.
    let rest = (0..=last).filter(|&axis| axis != inner && axis != last);
    let mut counts: Vec<u64> = rest.clone().map(|axis| space.counts[axis]).collect();
    counts.extend([rows.div_ceil(SIDE), columns.div_ceil(SIDE)]);
    let side = SIDE as i64;
    let steps = |steps: &[i64]| {
        let mut own: Vec<i64> = rest.clone().map(|axis| steps[axis]).collect();
        own.extend([steps[last] * side, steps[inner] * side]);
        own
    };
    // The third and fourth operand have no memory: their offsets are the first row and column of the tile.
    let place = |row: i64, column: i64| {
        let mut own = vec![0; counts.len() - 2];
        own.extend([row * side, column * side]);
        own
    };
    let own = [steps(from), steps(to), place(1, 0), place(0, 1)];
    let operands: Vec<(i64, Vec<i64>)> = own.into_iter().map(|steps| (0, steps)).collect();
    let space_of_tiles = IterationSpace { counts, operands, tail: 0 };
    if space_of_tiles.counts.len() > super::space::MAX_RANK {
        return Ok(None);
    }
    let mut code = space_of_tiles.code(FAMILY)?;
    code.wide |= super::is_wide(elements);
    Ok(Some(Form::Tiles {
        code: TransposeCode { width, space: code },
        elements,
        total: space_of_tiles.total(FAMILY)?,
        space: space_of_tiles.bytes(code),
        matrix: [rows, columns, from[last] as u64, to[inner] as u64],
    }))
}

impl TransposeCode {
    pub(super) fn source(self) -> Result<Source> {
        if !self.space.is_valid() || self.space.operands != 4 || self.width == 16 {
            return Err(refuse(FAMILY, "tiles have four operands"));
        }
        let kind = moved(FAMILY, self.width)?;
        // A column of padding puts the elements of a column into different banks.
        let body = format!(
            "    KILN_SHARED {kind} tile[32][33];
    Index x = KILN_THREAD_X;
    for (Index at = KILN_BLOCK_X; at < space.total; at += KILN_BLOCKS_X) {{
{}        Index here = offset3 + x;
        for (Index y = KILN_THREAD_Y; y < 32; y += {ROWS})
            if (offset2 + y < (Index)rows && here < (Index)columns) tile[y][x] = in[offset0 + y * (Index)row_step + x];
        KILN_SYNC();
        here = offset2 + x;
        for (Index y = KILN_THREAD_Y; y < 32; y += {ROWS})
            if (offset3 + y < (Index)columns && here < (Index)rows) out[offset1 + y * (Index)column_step + x] = tile[x][y];
        KILN_SYNC();
    }}
",
            self.space.offsets("at", |_, _| false)
        );
        let (from, to) = (format!("const {kind}*"), format!("{kind}*"));
        let parameters = parameters(&[
            (&from, "in"),
            (&to, "out"),
            ("Space", "space"),
            ("long long", "rows"),
            ("long long", "columns"),
            ("long long", "row_step"),
            ("long long", "column_step"),
        ]);
        Ok(source("kiln_transpose", &self.space.structure(), &parameters, &body))
    }
}

impl Kernel for TransposeKernel {
    fn code(&self) -> KernelCode {
        match &self.form {
            Form::Copy(copy) => copy.code(),
            Form::Tiles { code, .. } => KernelCode::Transpose(*code),
        }
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let (code, elements, total, space, matrix) = match &self.form {
            Form::Copy(copy) => return copy.launch(module, inputs, output),
            Form::Tiles { code, elements, total, space, matrix } => (code, *elements, *total, space, matrix),
        };
        let input = operand(FAMILY, inputs, 0, elements, u64::from(code.width))?;
        output.holds(FAMILY, "output", elements, u64::from(code.width))?;
        let [rows, columns, row_step, column_step] = matrix.map(|size| Arg::I64(size as i64));
        let (from, to) = (Arg::Memory(Some(input)), Arg::Memory(Some(output)));
        let args = [from, to, Arg::Bytes(space), rows, columns, row_step, column_step];
        launch_blocks(module, total, [SIDE as u32, ROWS, 1], &args)
    }
}
