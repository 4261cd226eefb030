//! Products of `f32`: queries by keys, weights by values, with [`gemm`](crate::cpu::gemm)'s micro-kernel.

use std::ops::Range;

use crate::cpu::CodeSource;
use crate::cpu::gemm::micro_kernel::MicroKernel;
use crate::cpu::gemm::tile::{LeftRows, RightColumns, TileArgs, TileCode};
use crate::cpu::gemm::{Panels, Tiles, most_rows, panel_vectors};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;

/// A right-hand operand: its panel width in vectors, and the micro-kernels for packed panels and for panels in place in
/// a row-major matrix.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) panels: Panels,
    /// The index of the first packed panel.
    packed_from: usize,
    packed: Option<MicroKernel>,
    plain: Option<MicroKernel>,
    most_rows: usize,
    lanes: usize,
}

/// The right-hand side of a multiplication.
pub(super) struct Right {
    /// The row-major matrix.
    pub(super) plain: *const f32,
    /// The first packed panel.
    pub(super) packed: *const f32,
    /// Its columns; they begin at the start of a panel.
    pub(super) columns: Range<usize>,
}

/// The rows of a multiplication.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    /// The first row of the left-hand side, and of the result.
    pub(super) left: *const f32,
    pub(super) to: *mut f32,
}

impl Product {
    /// A product with micro-kernels for each number of rows in `blocks`.
    pub(super) fn new(
        isa: Isa,
        [rows, columns]: [usize; 2],
        pack: bool,
        blocks: &[usize],
        source: &dyn CodeSource,
    ) -> Result<Product> {
        let vectors = panel_vectors(isa, columns);
        let panels = Panels { rows, columns, width: vectors * isa.lanes() };
        let most_rows = most_rows(isa, vectors);
        let tile = |right: RightColumns| {
            let key = TileCode::sums(isa, vectors as u8, LeftRows::Strided, right);
            MicroKernel::new(key, blocks.iter().map(|&rows| Tiles::new(rows, most_rows)), source)
        };
        let packed_from = if pack { 0 } else { columns / panels.width };
        let make = |wanted: bool, right| if !blocks.is_empty() && wanted { tile(right).map(Some) } else { Ok(None) };
        let packed = make(packed_from < panels.count(), RightColumns::Packed)?;
        let plain = make(packed_from > 0, RightColumns::Plain)?;
        Ok(Product { panels, packed_from, packed, plain, most_rows, lanes: isa.lanes() })
    }

    /// Elements of the packed panels.
    pub(super) fn packed_len(&self) -> usize {
        (self.panels.count() - self.packed_from) * self.panels.panel_len()
    }

    /// Packs the first `rows` rows, which are `stride` apart, of the panels that are not read in place.
    ///
    /// # Safety
    ///
    /// The rows are readable and no more than the panels have, and `to` has [`Product::packed_len`] elements that no
    /// other task touches.
    pub(super) unsafe fn pack(&self, from: *const f32, stride: usize, rows: usize, to: *mut f32) {
        let width = self.panels.width;
        for panel in self.packed_from..self.panels.count() {
            let count = self.panels.columns_of(panel);
            for row in 0..rows {
                let from = from.wrapping_add(row * stride + panel * width);
                let to = to.wrapping_add((panel - self.packed_from) * self.panels.panel_len() + row * width);
                // SAFETY: a row of the matrix, and a row of a panel.
                unsafe {
                    std::ptr::copy_nonoverlapping(from, to, count);
                    to.add(count).write_bytes(0, width - count);
                }
            }
        }
    }

    /// Multiplies rows by columns, with the other arguments of `args`.
    pub(super) fn multiply(&self, args: &mut TileArgs, right: Right, rows: Rows, given: &Given) {
        let Right { plain, packed, columns } = right;
        let width = self.panels.width;
        let tiles = Tiles::new(rows.count, self.most_rows);
        for first in columns.clone().step_by(width) {
            let panel = first / width;
            let is_packed = panel >= self.packed_from;
            args.keep_columns(width.min(columns.end - first), width, self.lanes);
            let from = match is_packed {
                true => packed.wrapping_add((panel - self.packed_from) * self.panels.panel_len()),
                false => plain.wrapping_add(first),
            };
            args.b = from.cast();
            let Some(tile) = (if is_packed { &self.packed } else { &self.plain }) else { continue };
            let rows = Rows { to: rows.to.wrapping_add(first - columns.start), ..rows };
            // SAFETY: a block's rows of scores and its rows of the output are the task's own, and only whole panels are
            // read in place.
            unsafe { multiply_panel(tile, args, tiles, &rows, given) };
        }
    }
}

/// Multiplies rows, cut into tiles, by the panel that `args` has.
///
/// # Safety
///
/// That of [`MicroKernel::call`], for all rows.
pub(super) unsafe fn multiply_panel(
    kernel: &MicroKernel,
    args: &mut TileArgs,
    tiles: Tiles,
    rows: &Rows,
    given: &Given,
) {
    for run in tiles.runs(0..tiles.count()) {
        args.rows = run.height;
        args.tiles.set(run.count);
        args.a.set(rows.left.wrapping_byte_add(run.row * args.lda).cast());
        args.a_tile_stride = run.height * args.lda;
        args.c.set(rows.to.wrapping_byte_add(run.row * args.ldc).cast());
        args.c_tile_stride = run.height * args.ldc;
        // SAFETY: the caller's contract.
        unsafe { kernel.call(args, given) };
    }
}
