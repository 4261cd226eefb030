//! The micro-kernel: tile rows by a vector of columns. A tile is the integer sum of one block; it is stored, and added
//! to sums of `f32` in registers in the order of [`dots`](crate::cpu::blockwise::dots).
//!
//! Each block is multiplied before the sums of the block before it are stored and added, so that neither waits for the
//! other. Blocks take turns between two sets of tiles, each with its room for integer sums. In a loop of C intrinsics on an
//! Intel Xeon (family 6, model 207) a block of 32 then takes 24 ns; it takes 31 ns if each block is added before the next
//! one is multiplied.
//!
//! Integers are codes less their middle, so that blocks without zero points need nothing else. Where there are zero
//! points, the middle times the sum of the row's bytes is put back first: sums over a block are exact as `f32`, so that
//! both ways have the same bits.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::amx::{CONFIGS, LANES, LEFT_TILES, RIGHT_TILES, TILE_ROWS, TileConfig};
use crate::cpu::blockwise::FAMILY;
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Cond, Extents, Gpr, Mem, Tile, Vreg, arg, counted_down};
use crate::problem::blockwise::ZeroPoints;

/// Bytes of a line of right-hand codes, and of a row of sums.
const LINE_BYTES: usize = 64;

/// Sets of tiles.
pub(super) const SETS: usize = 2;

/// Bytes of a tile of integer sums.
const SUMS_BYTES: usize = TILE_ROWS * LINE_BYTES;

/// Bytes of a tile row's heads for a block: a sum and a step of each row.
const HEAD_BYTES: usize = 2 * TILE_ROWS * 4;

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockTileCode {
    /// Level: AVX-512, with AMX besides.
    pub isa: Isa,
    /// Where zero points come from.
    pub zeros: ZeroPoints,
}

/// The arguments of one call. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct TileArgs {
    /// The configuration for the words of a step.
    pub(super) config: *const TileConfig,
    /// Tile rows, at least 1, and from one to the next: of heads and of bytes.
    pub(super) tiles: usize,
    pub(super) tile_stride: usize,
    /// Heads of the first tile row's blocks.
    pub(super) heads: *const u32,
    /// Its bytes, and from row to row in a block: the elements of a block.
    pub(super) bytes: *const u32,
    pub(super) row_stride: usize,
    /// From the end of a block's steps to the next block, in the first row.
    pub(super) rest: usize,
    /// Codes as signed bytes, and the lines of a step.
    pub(super) codes: *const u8,
    pub(super) step_stride: usize,
    /// Blocks, and steps of each, both at least 1.
    pub(super) blocks: usize,
    pub(super) steps: usize,
    /// Scales and zero points of the first block, and from block to block.
    pub(super) scales: *const u8,
    pub(super) zeros: *const u8,
    pub(super) block_stride: usize,
    /// Room for the integer sums of [`SETS`] tiles.
    pub(super) sums: *mut i32,
    pub(super) c: *mut f32,
    pub(super) ldc: usize,
    /// The sums to begin with, or null; and bytes from row to row, 0 where all rows begin with the bias.
    pub(super) from: *const f32,
    pub(super) from_stride: usize,
    /// The middle of the codes.
    pub(super) middle: f32,
}

impl TileArgs {
    /// Arguments without operands, for blocks of `block` elements: a multiple of four up to 64, or a multiple of 64.
    pub(super) fn of_blocks(block: usize) -> TileArgs {
        let step = block.min(LINE_BYTES);
        let (words, steps) = (step / 4, block / step.max(1));
        TileArgs {
            config: &raw const CONFIGS[words.clamp(1, CONFIGS.len()) - 1],
            tiles: 0,
            tile_stride: 0,
            heads: std::ptr::null(),
            bytes: std::ptr::null(),
            row_stride: block,
            rest: (TILE_ROWS * block).saturating_sub(steps * LINE_BYTES),
            codes: std::ptr::null(),
            step_stride: words * LINE_BYTES,
            blocks: 0,
            steps,
            scales: std::ptr::null(),
            zeros: std::ptr::null(),
            block_stride: 0,
            sums: std::ptr::null_mut(),
            c: std::ptr::null_mut(),
            ldc: 0,
            from: std::ptr::null(),
            from_stride: 0,
            middle: 0.0,
        }
    }
}

impl Arguments for TileArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = BlockTileCode;

    fn extents(&self, code: &BlockTileCode, extents: &mut Extents<'_>) {
        extents.constant("AMX's configurations", &CONFIGS);
        extents.read("a configuration", self.config).bytes(size_of::<TileConfig>());
        let (tiles, blocks, steps) = (counted_down(self.tiles), counted_down(self.blocks), counted_down(self.steps));
        let heads = extents.read("heads of rows", self.heads).over(tiles, self.tile_stride);
        heads.over(blocks, HEAD_BYTES).bytes(HEAD_BYTES);
        let bytes = extents.read("bytes of rows", self.bytes).over(tiles, self.tile_stride);
        let bytes = bytes.over(blocks, TILE_ROWS * self.row_stride).over(TILE_ROWS, self.row_stride);
        bytes.bytes(self.row_stride);
        let codes = blocks.saturating_mul(steps);
        extents.read("codes", self.codes).over(codes, self.step_stride).bytes(self.step_stride);
        extents.read("scales", self.scales).over(blocks, self.block_stride).bytes(LANES * 4);
        if code.zeros != ZeroPoints::Middle {
            let zeros = extents.read("zero points", self.zeros).over(blocks, self.block_stride);
            zeros.bytes(LANES * code.zeros.bytes());
        }
        extents.write("sums", self.sums).bytes(SETS * SUMS_BYTES);
        let rows = tiles.saturating_mul(TILE_ROWS);
        extents.write("C", self.c).over(rows, self.ldc).bytes(LANES * 4);
        if !self.from.is_null() {
            extents.read("what sums begin with", self.from).over(rows, self.from_stride).bytes(LANES * 4);
        }
    }
}

const HEADS: Gpr = Gpr::RCX;
const BYTES: Gpr = Gpr::RSI;
const CODES: Gpr = Gpr::RDX;
const SCALES: Gpr = Gpr::R8;
const ZEROS: Gpr = Gpr::R9;
const BLOCKS: Gpr = Gpr::R10;
const STEPS: Gpr = Gpr::R11;
const SUMS: Gpr = Gpr::R12;
const C: Gpr = Gpr::R13;
const TILES: Gpr = Gpr::R14;
const ROW_STRIDE: Gpr = Gpr::R15;
/// The stride of lines and of rows of sums.
const LINE: Gpr = Gpr::RBX;
/// Bytes from the first tile row to the current one.
const OFFSET: Gpr = Gpr::RBP;
const FROM: Gpr = Gpr::RAX;

/// The tiles of a set.
const fn sum(set: usize) -> Tile {
    Tile(set as u8)
}
const fn right(set: usize) -> Tile {
    Tile((RIGHT_TILES + set) as u8)
}
const fn left(set: usize) -> Tile {
    Tile((LEFT_TILES + set) as u8)
}

/// The sums of a row.
const fn total(row: usize) -> Vreg {
    Vreg(row as u8)
}
const SCALE: Vreg = Vreg(16);
const ZERO: Vreg = Vreg(17);
const MIDDLE: Vreg = Vreg(18);
/// A row's part of the sum, and its head of the block. Rows take turns, so that none waits for another.
const fn part(row: usize) -> Vreg {
    Vreg((20 + row % 4) as u8)
}
const fn head(row: usize) -> Vreg {
    Vreg((24 + row % 4) as u8)
}

impl BlockTileCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        if self.isa != Isa::Avx512 {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("a kernel of {self:?}") });
        }
        asm.prologue();
        asm.load(FROM, arg!(TileArgs.config));
        asm.tile_config(Mem::at(FROM, 0));
        asm.mov_imm(LINE, LINE_BYTES as i64);
        asm.mov_imm(OFFSET, 0);
        for (register, field) in [
            (ROW_STRIDE, arg!(TileArgs.row_stride)),
            (SUMS, arg!(TileArgs.sums)),
            (C, arg!(TileArgs.c)),
            (FROM, arg!(TileArgs.from)),
            (TILES, arg!(TileArgs.tiles)),
        ] {
            asm.load(register, field);
        }
        if self.has_zeros() {
            asm.vbroadcast(MIDDLE, arg!(TileArgs.middle));
        }
        asm.repeat(TILES, |asm| self.tile_row(asm));
        asm.tile_release();
        asm.epilogue();
        Ok(())
    }

    fn has_zeros(&self) -> bool {
        self.zeros != ZeroPoints::Middle
    }

    /// A tile row: its sums over all blocks.
    fn tile_row(&self, asm: &mut Asm) {
        asm.unless_zero_else(
            FROM,
            |asm| {
                for row in 0..TILE_ROWS {
                    asm.vload(total(row), Mem::at(FROM, 0));
                    asm.add_mem(FROM, arg!(TileArgs.from_stride));
                }
            },
            |asm| (0..TILE_ROWS).for_each(|row| asm.vzero(total(row))),
        );
        for (register, field) in [
            (HEADS, arg!(TileArgs.heads)),
            (BYTES, arg!(TileArgs.bytes)),
            (CODES, arg!(TileArgs.codes)),
            (SCALES, arg!(TileArgs.scales)),
            (BLOCKS, arg!(TileArgs.blocks)),
        ] {
            asm.load(register, field);
        }
        asm.add(HEADS, OFFSET);
        asm.add(BYTES, OFFSET);
        if self.has_zeros() {
            asm.load(ZEROS, arg!(TileArgs.zeros));
        }
        self.blocks(asm);
        for row in 0..TILE_ROWS {
            asm.vstore(Mem::at(C, 0), total(row));
            asm.add_mem(C, arg!(TileArgs.ldc));
        }
        asm.add_mem(OFFSET, arg!(TileArgs.tile_stride));
    }

    /// All blocks of a tile row, whose number is in `BLOCKS`.
    fn blocks(&self, asm: &mut Asm) {
        multiply(asm, 0);
        asm.align(32);
        let (again, done) = (asm.label(), asm.label());
        asm.bind(again);
        for set in 0..SETS {
            asm.sub_imm(BLOCKS, 1);
            asm.unless_zero(BLOCKS, |asm| multiply(asm, (set + 1) % SETS));
            self.add(asm, set);
            asm.test(BLOCKS);
            if set + 1 < SETS {
                asm.jump_if(Cond::Equal, done);
            } else {
                asm.jump_if(Cond::NotEqual, again);
            }
        }
        asm.bind(done);
    }

    /// Adds the part of a block to the sums.
    fn add(&self, asm: &mut Asm, set: usize) {
        let sums = (set * SUMS_BYTES) as i32;
        asm.tile_store(Mem::indexed(SUMS, LINE, 1, sums), sum(set));
        asm.vload(SCALE, Mem::at(SCALES, 0));
        match self.zeros {
            ZeroPoints::Middle => {}
            ZeroPoints::Bytes => {
                asm.vload_u8(ZERO, Mem::at(ZEROS, 0));
                asm.vcvt_f32(ZERO, ZERO);
            }
            ZeroPoints::F32 => asm.vload(ZERO, Mem::at(ZEROS, 0)),
        }
        for row in 0..TILE_ROWS {
            let (part, head) = (part(row), head(row));
            asm.vload(part, Mem::at(SUMS, sums + (row * LINE_BYTES) as i32));
            asm.vcvt_f32(part, part);
            if self.has_zeros() {
                asm.vbroadcast(head, Mem::at(HEADS, (row * 4) as i32));
                asm.vfma231(part, head, MIDDLE);
                asm.vfnma231(part, ZERO, head);
            }
            asm.vbroadcast(head, Mem::at(HEADS, ((TILE_ROWS + row) * 4) as i32));
            asm.vmul(head, head, SCALE);
            asm.vfma231(total(row), part, head);
        }
        asm.add_imm(HEADS, HEAD_BYTES as i32);
        asm.add_mem(SCALES, arg!(TileArgs.block_stride));
        if self.has_zeros() {
            asm.add_mem(ZEROS, arg!(TileArgs.block_stride));
        }
    }
}

/// Begins the integer sums of the next block in the tiles of a set.
fn multiply(asm: &mut Asm, set: usize) {
    asm.tile_zero(sum(set));
    asm.load(STEPS, arg!(TileArgs.steps));
    asm.repeat(STEPS, |asm| {
        asm.tile_load(left(set), Mem::indexed(BYTES, ROW_STRIDE, 1, 0));
        asm.tile_load(right(set), Mem::indexed(CODES, LINE, 1, 0));
        asm.tile_dot_signed_bytes(sum(set), left(set), right(set));
        asm.add_imm(BYTES, LINE_BYTES as i32);
        asm.add_mem(CODES, arg!(TileArgs.step_stride));
    });
    asm.add_mem(BYTES, arg!(TileArgs.rest));
}
