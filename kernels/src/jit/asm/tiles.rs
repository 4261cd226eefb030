//! Tile registers: matrices of up to 16 rows of up to 64 bytes, and sums of their products.
//!
//! Needs [`Extension::Amx`](crate::isa::Extension), which the kernel names when it is sealed. A kernel that uses tiles
//! configures them first and releases them before it returns.

use super::{Asm, Mem, Tile};
use crate::jit::vex::{self, Form};

/// Values of the prefix field of VEX.
const NONE: u8 = 0;
const P66: u8 = 1;
const PF3: u8 = 2;
const PF2: u8 = 3;
/// Tile registers.
const TILES: u8 = 8;

impl Asm {
    /// Loads the shapes of all tiles from 64 bytes in memory, and clears the tiles.
    pub fn tile_config(&mut self, from: Mem) {
        self.tile_memory(NONE, 0x49, 0, from);
    }

    /// Releases all tiles.
    pub fn tile_release(&mut self) {
        self.tile_registers(NONE, 0x49, 0, 0, 0);
    }

    /// Clears a tile.
    pub fn tile_zero(&mut self, tile: Tile) {
        self.tile_registers(PF2, 0x49, tile.0, 0, 0);
    }

    /// Loads a tile. The index register of the address holds the bytes from row to row: `[base + row * index + disp]`.
    pub fn tile_load(&mut self, tile: Tile, from: Mem) {
        self.tile_rows(PF2, tile, from);
    }

    /// Stores a tile to an address of that form.
    pub fn tile_store(&mut self, to: Mem, tile: Tile) {
        self.tile_rows(PF3, tile, to);
    }

    /// sum += left x right, for bf16 pairs: a row of `left` has 32 elements of the reduction, a row of `right` two
    /// elements of each of 16 columns. For each column, even and odd products are summed separately, then both sums are
    /// added, then the result and `sum`. Denormals count as zeros.
    pub fn tile_dot_bf16(&mut self, sum: Tile, left: Tile, right: Tile) {
        self.tile_registers(PF3, 0x5C, sum.0, left.0, right.0);
    }

    /// sum += left x right, for unsigned by signed bytes: a row of `left` has 64 elements of the reduction, a row of
    /// `right` four elements of each of 16 columns. Exact, modulo 2^32.
    pub fn tile_dot_bytes(&mut self, sum: Tile, left: Tile, right: Tile) {
        self.tile_registers(P66, 0x5E, sum.0, left.0, right.0);
    }

    /// As [`Asm::tile_dot_bytes`], for signed by signed bytes.
    pub fn tile_dot_signed_bytes(&mut self, sum: Tile, left: Tile, right: Tile) {
        self.tile_registers(PF2, 0x5E, sum.0, left.0, right.0);
    }

    fn tile_registers(&mut self, prefix: u8, opcode: u8, reg: u8, rm: u8, vvvv: u8) {
        self.check_tiles(reg | rm | vvvv);
        let (word, len) = vex::vector(form(prefix, opcode), reg, vvvv, vex::Place::register(rm));
        self.ops.append_long(word, len);
    }

    fn tile_rows(&mut self, prefix: u8, tile: Tile, mem: Mem) {
        if !matches!(mem.index, Some((_, 1))) {
            self.refuse("a tile whose rows have no distance in bytes");
        }
        self.tile_memory(prefix, 0x4B, tile.0, mem);
    }

    fn tile_memory(&mut self, prefix: u8, opcode: u8, reg: u8, mem: Mem) {
        self.check_tiles(reg);
        self.check_address(mem);
        let (word, len) = vex::vector(form(prefix, opcode), reg, 0, vex::Place::memory(mem));
        self.ops.append_long(word, len);
    }

    fn check_tiles(&mut self, numbers: u8) {
        if !self.wide() || numbers >= TILES {
            self.refuse("a tile register that this level lacks");
        }
    }
}

/// Tiles are encoded as 128-bit registers of the second opcode map.
fn form(prefix: u8, opcode: u8) -> Form {
    Form::new(2, prefix, opcode).half()
}
