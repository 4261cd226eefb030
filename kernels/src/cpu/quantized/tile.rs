//! The contract of the quantised micro-kernel: the key that shapes its instructions, and its arguments.

use std::cell::Cell;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::epilogue::{Epilogue, GROUPED};
use crate::cpu::PackedElement;
use crate::cpu::conv::{ConvShape, Weights};
use crate::cpu::gemm::operands::{self, Operands};
use crate::cpu::gemm::reduction::UNROLL;
use crate::cpu::gemm::tile_size::least_waste;
use crate::isa::Isa;
use crate::jit::{Arguments, Extents};
use crate::problem::quantized::Output;

/// The name of the family.
pub(crate) const FAMILY: &str = "quantized";

/// Most vectors that a tile is wide.
pub(crate) const MOST_VECTORS: usize = 4;

/// How factors are stored and multiplied. Every form gives the same sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Form {
    /// Both sides as pairs of 16-bit integers less their zero points, which always fit 16 bits.
    Words,
    /// As [`Form::Words`], with weights stored as bytes and widened when loaded: where all weights less their zero
    /// points are bytes.
    Widened,
    /// Unsigned bytes by signed ones, four at a time (VNNI). The left-hand zero point is subtracted from the sums. Only
    /// with [`Extension::Vnni`](crate::Extension::Vnni), and where weights are bytes as for [`Form::Widened`].
    Bytes,
    /// Signed or unsigned bytes by signed ones on AMX, sixteen rows at a time. Only with
    /// [`Extension::Amx`](crate::Extension::Amx), and where weights are bytes as for [`Form::Widened`].
    Tiles,
    /// Weights packed as for [`Form::Tiles`], multiplied as in [`Form::Bytes`]: for products so small that configuring
    /// AMX would take longer.
    Few,
}

impl Form {
    /// The operand types.
    pub(crate) const fn operands(self) -> Operands {
        match self {
            Form::Words => operands::INT16_PAIRS,
            Form::Widened => operands::INT8_WIDENED,
            Form::Bytes | Form::Few => operands::INT8,
            Form::Tiles => operands::AMX_UNSIGNED,
        }
    }

    /// Elements of the reduction that one instruction adds (KR): they fill 32 bits of the left-hand side.
    #[must_use]
    pub const fn group(self) -> usize {
        self.operands().group
    }

    /// Bytes of a left-hand element.
    #[must_use]
    pub const fn left_bytes(self) -> usize {
        self.operands().left_bytes()
    }

    /// Bytes of a packed weight.
    #[must_use]
    pub const fn weight_bytes(self) -> usize {
        self.operands().right.bytes()
    }

    /// Whether kernels of this form can be made at that level on this machine.
    #[must_use]
    pub fn usable(self, isa: Isa) -> bool {
        // Other shapes may multiply the same weights, packed for AMX, on AMX.
        self.operands().usable(isa) && (self != Form::Few || Form::Tiles.usable(isa))
    }
}

impl From<Form> for PackedElement {
    fn from(form: Form) -> PackedElement {
        form.operands().right
    }
}

impl Form {
    /// Whether weights are packed for AMX.
    pub(crate) const fn is_in_steps(self) -> bool {
        matches!(self, Form::Tiles | Form::Few)
    }

    /// The form in which weights packed in this form are multiplied for that shape.
    #[must_use]
    pub fn of_shape(self, isa: Isa, shape: &ConvShape) -> Form {
        let few = shape.work() < if shape.output_len() == shape.filters() { FEW_OF_ONE_ROW } else { FEW };
        if self == Form::Tiles && few && Form::Few.usable(isa) { Form::Few } else { self }
    }

    /// The form in which weights of these sizes are packed at that level, where all of them less their zero points are
    /// bytes.
    #[must_use]
    pub fn of_bytes(isa: Isa, sizes: &Weights) -> Form {
        if Form::Tiles.usable(isa) && Form::tiles_pay(sizes) {
            Form::Tiles
        } else if Form::Bytes.usable(isa) {
            Form::Bytes
        } else {
            Form::Widened
        }
    }

    /// Whether weights of these sizes are multiplied faster on AMX than in [`Form::Bytes`], whatever the rows: its
    /// panels have twice the columns of a vector, and its steps sixteen times the elements of a group.
    #[must_use]
    fn tiles_pay(sizes: &Weights) -> bool {
        let groups = sizes.groups.max(1);
        let (columns, elements) = (sizes.filters / groups, sizes.channels / groups * sizes.kernel[2]);
        !sizes.is_depthwise() && columns >= LEAST_COLUMNS && elements >= LEAST_ELEMENTS
    }
}

/// The least columns, and elements of a line of the window, for which AMX pays for its padding.
const LEAST_COLUMNS: usize = 8;
const LEAST_ELEMENTS: usize = 16;

/// Multiply-adds up to which configuring AMX, about half a microsecond, takes longer than it saves. One row is
/// multiplied no faster by AMX.
const FEW: usize = 1 << 17;
const FEW_OF_ONE_ROW: usize = 1 << 20;

/// Where a tile's left-hand rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum LeftRows {
    /// At a constant stride.
    Strided,
    /// Behind an indirection table: a pointer for each tap and row of the tile.
    Table,
    /// At a constant stride, with its own elements for each column: a group as wide as the column's sum. The table
    /// holds one pointer for each tap, to which rows are relative.
    Own,
}

/// What shapes the instructions: one code for all sizes, strides and numbers of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct QuantizedCode {
    /// Level.
    pub isa: Isa,
    /// How factors are multiplied.
    pub form: Form,
    /// Vectors that a tile is wide.
    pub vectors: u8,
    /// Where left-hand rows are.
    pub left: LeftRows,
    /// Type and rounding of the output.
    pub output: Output,
}

impl QuantizedCode {
    /// Columns of a tile.
    #[must_use]
    pub fn width(&self) -> usize {
        usize::from(self.vectors) * self.isa.lanes()
    }
}

/// Most rows of a tile that is `vectors` wide; 0 where no such tile is emitted.
///
/// Sums, a register for each vector of weights, one for the broadcast group of the left-hand side and one for products
/// must fit. The sums' own addition takes one cycle, so that few sums keep the multipliers busy.
#[must_use]
pub const fn most_rows(isa: Isa, vectors: usize) -> usize {
    match (isa, vectors) {
        (Isa::Portable | Isa::Avx2, 1) | (Isa::Avx512, 1..=3) => 8,
        (Isa::Portable | Isa::Avx2, 2) | (Isa::Avx512, MOST_VECTORS) => 6,
        _ => 0,
    }
}

/// The panel width, in vectors, for that many columns: the width that wastes least of its last panel.
#[must_use]
pub fn panel_vectors(isa: Isa, columns: usize) -> usize {
    // Percent of the peak that the tallest tile of each width can reach, by the instructions that it takes.
    let efficiency: &[(usize, usize)] = match isa {
        Isa::Avx512 => &[(4, 98), (3, 97), (2, 96), (1, 85)],
        Isa::Portable | Isa::Avx2 => &[(2, 98), (1, 90)],
    };
    least_waste(isa, columns, efficiency)
}

/// The arguments of one call: `tiles` tiles of `rows` rows below each other, over the same columns. Strides are in
/// bytes. All columns of the tile are written: for a partial panel the driver lends a buffer.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QuantizedArgs {
    /// Rows of each tile, 1 to [`most_rows`].
    pub(crate) rows: usize,
    /// Tiles still to do.
    pub(crate) tiles: Cell<usize>,
    /// The first left-hand row, if rows are strided; a byte offset from the table's pointers, if each column has its
    /// own.
    pub(crate) a: Cell<*const u8>,
    /// From one left-hand row to the next.
    pub(crate) lda: usize,
    /// From the left-hand rows of one tile to those of the next.
    pub(crate) a_tile_stride: usize,
    /// Pointers `[tile][tap][row]`, if left-hand rows come through a table; `[tap]` if each column has its own.
    pub(crate) table: Cell<*const *const u8>,
    /// Taps of the table; 1 for strided rows.
    pub(crate) taps: usize,
    /// Byte offset in each row at which the reduction starts.
    pub(crate) first: usize,
    /// Byte offset at which the reduction's last whole [`UNROLL`] groups end.
    pub(crate) unrolled: usize,
    /// Byte offset at which the reduction ends: a whole number of groups behind `first`.
    pub(crate) end: usize,
    /// The packed panel.
    pub(crate) b: *const u8,
    /// The first row of the output.
    pub(crate) c: Cell<*mut u8>,
    /// From one row of the output to the next.
    pub(crate) ldc: usize,
    /// From the output rows of one tile to those of the next.
    pub(crate) c_tile_stride: usize,
    /// Start value of each column's sum.
    pub(crate) start: *const i32,
    /// Each column's factor, unless sums are stored.
    pub(crate) scale: *const f32,
    /// Each column's addend.
    pub(crate) shift: *const f32,
    /// Least value before rounding.
    pub(crate) low: f32,
    /// Greatest value before rounding.
    pub(crate) high: f32,
    /// Added after rounding.
    pub(crate) zero: i32,
    /// [`GROUPED`].
    pub(crate) order: *const u32,
}

impl Arguments for QuantizedArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = QuantizedCode;

    fn extents(&self, key: &QuantizedCode, extents: &mut Extents<'_>) {
        if !(1..=most_rows(key.isa, key.vectors.into())).contains(&self.rows) {
            return;
        }
        // The loop over tiles runs at least once.
        let (tiles, width) = (self.tiles.get().max(1), key.width());
        let output = extents.write("output", self.c.get()).over(tiles, self.c_tile_stride).over(self.rows, self.ldc);
        output.bytes(width * key.output.bytes());
        extents.read("what sums start from", self.start).bytes(width * 4);
        if key.output != Output::Sums {
            extents.read("factors", self.scale).bytes(width * 4);
            extents.read("addends", self.shift).bytes(width * 4);
        }
        if key.output.is_packed(key.isa) {
            extents.read("order", self.order).bytes(size_of_val(&GROUPED));
        }
        let (first, bytes) = (self.first as isize, self.unrolled.max(self.end).saturating_sub(self.first));
        let group = width * key.form.group() * key.form.weight_bytes();
        let panel = bytes.div_ceil(4).saturating_mul(group);
        let weights = |extents: &mut Extents<'_>, taps: usize, bytes: usize| {
            extents.read("weights", self.b).over(taps, bytes).bytes(bytes);
        };
        match key.left {
            LeftRows::Strided => {
                let rows = extents.read("the left-hand rows", self.a.get()).from(first);
                rows.over(tiles, self.a_tile_stride).over(self.rows, self.lda).bytes(bytes);
                weights(extents, 1, panel);
            }
            LeftRows::Table => {
                let pointers = tiles.saturating_mul(self.taps).saturating_mul(self.rows);
                for &row in extents.list("the table of left-hand rows", self.table.get(), pointers) {
                    extents.read("the left-hand rows", row).from(first).bytes(bytes);
                }
                weights(extents, self.taps, panel);
            }
            LeftRows::Own => {
                for &tap in extents.list("the table of taps", self.table.get(), self.taps) {
                    let rows = extents.read("the left-hand rows", tap.wrapping_add(self.a.get().addr()));
                    rows.over(tiles, self.a_tile_stride).over(self.rows, self.lda).bytes(width * 4);
                }
                weights(extents, self.taps, width * 4);
            }
        }
    }
}

impl QuantizedArgs {
    /// Arguments with the epilogue of the columns from `column` on, and nothing else.
    pub(crate) fn with_epilogue(start: &[i32], epilogue: &Epilogue<'_>, column: usize) -> QuantizedArgs {
        QuantizedArgs {
            rows: 0,
            tiles: 0.into(),
            a: std::ptr::null::<u8>().into(),
            lda: 0,
            a_tile_stride: 0,
            table: std::ptr::null::<*const u8>().into(),
            taps: 0,
            first: 0,
            unrolled: 0,
            end: 0,
            b: std::ptr::null(),
            c: std::ptr::null_mut::<u8>().into(),
            ldc: 0,
            c_tile_stride: 0,
            start: start.as_ptr(),
            scale: epilogue.scale.get(column..).unwrap_or_default().as_ptr(),
            shift: epilogue.shift.get(column..).unwrap_or_default().as_ptr(),
            low: epilogue.low,
            high: epilogue.high,
            zero: epilogue.zero,
            order: GROUPED.as_ptr(),
        }
    }

    /// Sets the range of each row that the reduction runs over: byte offset of its start, and groups.
    pub(crate) fn reduce_over(&mut self, first: usize, groups: usize) {
        self.first = first;
        self.unrolled = first + groups / UNROLL * UNROLL * 4;
        self.end = first + groups * 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_fits_the_registers() {
        for isa in Isa::ALL {
            for vectors in 1..=MOST_VECTORS {
                let rows = most_rows(isa, vectors);
                assert!(rows == 0 || rows * vectors + vectors + 2 <= usize::from(isa.registers()));
            }
        }
        for (columns, vectors) in [(1, 1), (9, 2), (16, 2), (24, 1), (64, 2), (1000, 2)] {
            assert_eq!(panel_vectors(Isa::Avx2, columns), vectors, "{columns} columns");
        }
    }
}
