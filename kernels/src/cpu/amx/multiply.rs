//! The AMX micro-kernel: blocks of one or two tile rows by one or more packed panels, over all taps.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::fused::{FusedEpilogue, FusedEpilogueArgs};
use super::prefetch::{PrefetchLines, Prefetches, STREAMS};
use super::registers::{
    LEFT, LEFT_STRIDE, LINE, OUT, OUT_STRIDE, RIGHT, ROW_STRIDE, STEPS_LEFT, T0, TABLE, TAPS, TAPS_LEFT,
};
use super::{CONFIGS, LEFT_TILES, RIGHT_TILES, STEP_WORDS, TALLEST, TILE_ROWS, TileConfig};
use crate::cpu::gemm::operands::{self, MultiplyAdd, Operands};
use crate::cpu::{CodeKey, CodeSource, MOST_PARTS, PartSet};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Code, Cond, Extents, Given, Gpr, Mem, Tile, arg, counted_down};

/// What shapes the instructions. The code has a part for each number of tile rows of a block, 1 to [`TALLEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct MultiplyCode {
    /// Level: AVX-512, with AMX besides.
    pub isa: Isa,
    /// Types of the factors.
    pub factors: Factors,
    /// The epilogue of `bf16` sums; `None` stores raw sums, for an epilogue kernel to read.
    pub epilogue: Option<FusedEpilogue>,
}

/// Types of the factors. A step, 64 bytes of each row, has 32 `bf16` or 64 int8 elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Factors {
    /// bf16 pairs; sums are `f32` and start from zero.
    Bf16,
    /// Unsigned bytes on the left, signed ones on the right; sums are `i32` and start from a value per column.
    Bytes,
    /// Signed bytes on both sides; sums as for [`Factors::Bytes`].
    SignedBytes,
}

impl Factors {
    fn operands(self) -> Operands {
        match self {
            Factors::Bf16 => operands::AMX_BF16,
            Factors::Bytes => operands::AMX_UNSIGNED,
            Factors::SignedBytes => operands::AMX_SIGNED,
        }
    }
}

/// The name of the code.
pub(crate) const FAMILY: &str = "amx";

/// The arguments of one call. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MultiplyArgs {
    /// The tile configuration to load first; null where a [`Held`] has loaded it.
    config: *const TileConfig,
    /// Not 0 if the tile registers are released at the end.
    release: usize,
    /// Blocks below each other.
    pub(crate) blocks: usize,
    /// A pointer to the first row of each tile row, block after block.
    pub(crate) rows: *const *const u8,
    /// From one row of a tile row to the next.
    pub(crate) row_stride: usize,
    /// From one step to the next in each left-hand row.
    pub(crate) left_stride: usize,
    /// Byte offset from the pointers in `rows`, for each tap.
    pub(crate) taps: *const isize,
    /// Taps, at least one.
    pub(crate) tap_count: usize,
    /// Steps of each tap, at least one.
    pub(crate) steps: usize,
    /// The first packed panel, from the first step of this call's reduction on.
    pub(crate) right: *const f32,
    /// Panels that all blocks are multiplied by, at least one.
    pub(crate) panels: usize,
    /// From one step of a panel to the next: its words times the row of a panel.
    pub(crate) right_stride: usize,
    /// From one panel to the next.
    pub(crate) panel_stride: usize,
    /// Sums: rows of block after block.
    pub(crate) out: *mut f32,
    /// From one row of sums to the next; 32 words unless set.
    pub(crate) out_stride: usize,
    /// From the sums of one panel to those of the next.
    pub(crate) out_panel_stride: usize,
    /// Not 0 if sums start from those in `out`: the reduction goes on.
    pub(crate) resume: usize,
    /// Lines to prefetch into L2 during the call.
    prefetches: Prefetches,
    /// Rows of the result and bias, for code with an epilogue.
    pub(crate) epilogue: FusedEpilogueArgs,
    /// Scratch of the code: the current panel, its sums and start values, and the panels and blocks left.
    current: Current,
    /// Start values of integer sums, one for each column; those of the next panel follow.
    pub(crate) start: *const i32,
}

#[derive(Debug)]
#[repr(C)]
struct Current {
    right: Cell<*const f32>,
    out: Cell<*mut f32>,
    panels: Cell<usize>,
    blocks: Cell<usize>,
    start: Cell<*const i32>,
}

impl MultiplyArgs {
    /// Arguments of a call without blocks.
    pub(crate) fn empty() -> MultiplyArgs {
        MultiplyArgs {
            config: &raw const CONFIGS[STEP_WORDS - 1],
            release: 1,
            blocks: 0,
            rows: std::ptr::null(),
            row_stride: 0,
            left_stride: 0,
            taps: std::ptr::null(),
            tap_count: 0,
            steps: 0,
            right: std::ptr::null(),
            panels: 1,
            right_stride: STEP_BYTES as usize,
            panel_stride: 0,
            out: std::ptr::null_mut(),
            out_stride: LINE_BYTES as usize,
            out_panel_stride: 0,
            resume: 0,
            start: std::ptr::null(),
            prefetches: Prefetches::nothing(),
            epilogue: FusedEpilogueArgs::nothing(),
            current: Current {
                right: Cell::new(std::ptr::null()),
                start: Cell::new(std::ptr::null()),
                out: Cell::new(std::ptr::null_mut()),
                panels: Cell::new(0),
                blocks: Cell::new(0),
            },
        }
    }
}

/// Where the prefetch streams and the arguments of the epilogue are in [`MultiplyArgs`], in bytes.
const PREFETCHES: usize = offset_of!(MultiplyArgs, prefetches);
const EPILOGUE: usize = offset_of!(MultiplyArgs, epilogue);

impl MultiplyArgs {
    /// Prefetches `lines` in calls with `steps` steps for each panel: up to a stream for each.
    pub(crate) fn prefetch(&mut self, lines: &[Option<PrefetchLines>; STREAMS], steps: usize) {
        self.prefetches.set(PREFETCHES, lines, steps);
    }

    /// Prefetches contiguous memory from `at` on, going on from call to call, `step` bytes in each step.
    pub(crate) fn prefetch_onwards(&mut self, at: *const u8, step: usize) {
        self.prefetches = Prefetches::onwards(PREFETCHES, at, step);
    }

    /// Ends all prefetching.
    pub(crate) fn prefetch_nothing(&self) {
        self.prefetches.stop();
    }
}

/// What the extents of a call depend on besides its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    code: MultiplyCode,
    /// Tile rows of a block.
    height: usize,
    /// Words of a step in the loaded tile configuration.
    words: usize,
}

impl Arguments for MultiplyArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = Blocks;

    fn extents(&self, &Blocks { code, height, words }: &Blocks, extents: &mut Extents<'_>) {
        if !self.config.is_null() {
            extents.constant("AMX's configurations", &CONFIGS);
            extents.read("a configuration", self.config).bytes(size_of::<TileConfig>());
        }
        if self.blocks == 0 {
            return;
        }
        let (line, columns) = (LINE_BYTES as usize, code.vectors() * 64);
        let (panels, steps) = (counted_down(self.panels), counted_down(self.steps));
        let tile_rows = self.blocks.saturating_mul(height);
        let taps = extents.list("taps", self.taps, counted_down(self.tap_count));
        for row in extents.list("tile rows", self.rows, tile_rows) {
            for &tap in taps {
                let rows = extents.read("the left-hand rows", *row).from(tap).over(steps, self.left_stride);
                rows.over(TILE_ROWS, self.row_stride).bytes(words * 4);
            }
        }
        let right = extents.read("panels", self.right).over(panels, self.panel_stride);
        right.over(taps.len().saturating_mul(steps), self.right_stride).over(words, line).bytes(columns);
        let sums = extents.write("sums", self.out).over(panels, self.out_panel_stride);
        sums.over(tile_rows.saturating_mul(TILE_ROWS), self.out_stride).bytes(columns);
        if code.starts() && self.resume == 0 {
            extents.read("what sums start from", self.start).over(panels, line).bytes(columns);
        }
        if let Some(epilogue) = code.epilogue {
            self.epilogue.extents(&epilogue, panels, extents);
        }
    }
}

/// The AMX micro-kernel, with code for some heights of blocks.
#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    code: MultiplyCode,
    parts: [Option<Arc<Code>>; MOST_PARTS],
}

impl Multiply {
    /// The micro-kernel of bf16 pairs without epilogue, for blocks of these heights in tile rows.
    pub(crate) fn new(isa: Isa, heights: impl IntoIterator<Item = usize>, source: &dyn CodeSource) -> Result<Multiply> {
        Multiply::of(MultiplyCode { isa, factors: Factors::Bf16, epilogue: None }, heights, source)
    }

    /// The micro-kernel of `code`, for blocks of these heights in tile rows.
    pub(crate) fn of(
        code: MultiplyCode,
        heights: impl IntoIterator<Item = usize>,
        source: &dyn CodeSource,
    ) -> Result<Multiply> {
        let wanted = heights.into_iter().fold(PartSet::default(), |parts, height| parts.and(height - 1));
        let emitted = source.parts(&CodeKey::Multiply(code), wanted)?;
        Ok(Multiply { code, parts: Arc::unwrap_or_clone(emitted).into_parts() })
    }

    /// Computes blocks of `height` tile rows.
    ///
    /// # Safety
    ///
    /// `given` holds: every row of every tile row over all taps and steps, the panels over as many, the lists of tile
    /// rows and taps, and `out` for all blocks and panels. No other task touches those sums.
    ///
    /// # Panics
    ///
    /// Where `height` is not among the heights passed to [`Multiply::of`].
    pub(crate) unsafe fn call(&self, height: usize, args: &MultiplyArgs, given: &Given) {
        // SAFETY: the caller's contract.
        unsafe { self.blocks(args, Blocks { code: self.code, height, words: STEP_WORDS }, given) };
    }

    /// [`Multiply::call`] for a configuration with steps of `blocks.words` words.
    unsafe fn blocks(&self, args: &MultiplyArgs, blocks: Blocks, given: &Given) {
        let height = blocks.height;
        match self.parts.get(height.wrapping_sub(1)) {
            // SAFETY: the caller vouches for the pointers; the struct is the one that the emitter reads.
            Some(Some(code)) => unsafe { code.call(args, &blocks, given) },
            _ => panic!("a block of {height} tile rows, for which no code was asked"),
        }
    }

    /// Loads the tile configuration once for many calls: loading takes as long as a short call.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.hold_for(STEP_WORDS)
    }

    /// [`Multiply::hold`] for steps of 1 to 16 words: no more words of a row are read.
    pub(crate) fn hold_for(&self, words: usize) -> Held<'_> {
        // The emulator's tile registers live for one call, so that each call loads the configuration.
        let words = words.clamp(1, STEP_WORDS);
        let config = &CONFIGS[words - 1];
        let emulated = self.parts.iter().flatten().any(|code| code.is_interpreted());
        let held = Held { multiply: self, words, config, emulated };
        held.switch(MultiplyArgs { config, release: 0, ..MultiplyArgs::empty() });
        held
    }
}

/// The tile registers of this thread, configured until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    multiply: &'a Multiply,
    words: usize,
    config: &'static TileConfig,
    emulated: bool,
}

impl Held<'_> {
    /// Computes blocks of `height` tile rows.
    ///
    /// # Safety
    ///
    /// That of [`Multiply::call`].
    pub(crate) unsafe fn call(&self, height: usize, args: &mut MultiplyArgs, given: &Given) {
        (args.config, args.release) = match self.emulated {
            true => (std::ptr::from_ref(self.config), 1),
            false => (std::ptr::null(), 0),
        };
        // SAFETY: the caller's contract; the tile registers are configured.
        unsafe { self.multiply.blocks(args, self.blocks(height), given) };
    }

    fn blocks(&self, height: usize) -> Blocks {
        Blocks { code: self.multiply.code, height, words: self.words }
    }

    /// A call without blocks, which loads or releases the tile configuration.
    fn switch(&self, args: MultiplyArgs) {
        if let (Some(code), false) = (self.multiply.parts.iter().flatten().next(), self.emulated) {
            // SAFETY: there are no blocks, so no pointer is read through but that of the configuration.
            unsafe { code.call(&args, &self.blocks(0), &Given::new()) };
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.switch(MultiplyArgs { config: std::ptr::null(), ..MultiplyArgs::empty() });
    }
}

/// Vectors of a panel.
const VECTORS: usize = 2;
/// Bytes of a row of a panel, which holds one word of the reduction for each column, and of a whole step.
const LINE_BYTES: i32 = 128;
const STEP_BYTES: i32 = 16 * LINE_BYTES;

impl MultiplyCode {
    /// Vectors of a panel that are multiplied: one if the result has at most 16 columns of it.
    fn vectors(&self) -> usize {
        self.epilogue.map_or(VECTORS, |epilogue| epilogue.columns.vectors())
    }

    /// Whether sums start from values per column.
    fn starts(&self) -> bool {
        self.factors != Factors::Bf16
    }

    /// Assembles the code for blocks of `height` tile rows.
    pub(crate) fn emit(&self, height: usize, asm: &mut Asm) -> Result<()> {
        self.epilogue.map_or(Ok(()), |epilogue| epilogue.check(FAMILY))?;
        let height = height.min(TALLEST);
        asm.prologue();
        asm.load(T0, arg!(MultiplyArgs.config));
        asm.unless_zero(T0, |asm| asm.tile_config(Mem::at(T0, 0)));
        asm.load(T0, arg!(MultiplyArgs.blocks));
        asm.unless_zero(T0, |asm| self.panels(asm, height));
        asm.load(T0, arg!(MultiplyArgs.release));
        asm.unless_zero(T0, Asm::tile_release);
        asm.epilogue();
        Ok(())
    }

    /// Tile registers of a block's sums, by tile row and vector.
    fn sums(&self, height: usize) -> impl Iterator<Item = (usize, usize, Tile)> + use<> {
        let vectors = self.vectors();
        (0..height)
            .flat_map(move |row| (0..vectors).map(move |vector| (row, vector, Tile((row * VECTORS + vector) as u8))))
    }

    /// All panels, each with all blocks.
    fn panels(&self, asm: &mut Asm, height: usize) {
        asm.mov_imm(LINE, i64::from(LINE_BYTES));
        asm.load(ROW_STRIDE, arg!(MultiplyArgs.row_stride));
        asm.load(LEFT_STRIDE, arg!(MultiplyArgs.left_stride));
        asm.load(T0, arg!(MultiplyArgs.right));
        asm.store(arg!(MultiplyArgs.current.right), T0);
        if self.starts() {
            asm.load(T0, arg!(MultiplyArgs.start));
            asm.store(arg!(MultiplyArgs.current.start), T0);
        }
        asm.load(T0, arg!(MultiplyArgs.panels));
        asm.store(arg!(MultiplyArgs.current.panels), T0);
        asm.load(OUT, arg!(MultiplyArgs.out));
        if self.epilogue.is_some() {
            FusedEpilogue::emit_begin(asm, EPILOGUE);
        }
        let panel = asm.label();
        asm.bind(panel);
        asm.store(arg!(MultiplyArgs.current.out), OUT);
        asm.load(TABLE, arg!(MultiplyArgs.rows));
        asm.load(T0, arg!(MultiplyArgs.blocks));
        asm.store(arg!(MultiplyArgs.current.blocks), T0);
        asm.align(16);
        asm.repeat_in_memory(arg!(MultiplyArgs.current.blocks), T0, |asm| self.block(asm, height));
        if let Some(epilogue) = self.epilogue {
            epilogue.emit(asm, EPILOGUE);
        }
        Prefetches::emit_panel(asm, PREFETCHES);
        if self.starts() {
            asm.load(T0, arg!(MultiplyArgs.current.start));
            asm.add_imm(T0, LINE_BYTES);
            asm.store(arg!(MultiplyArgs.current.start), T0);
        }
        asm.load(T0, arg!(MultiplyArgs.current.panels));
        asm.sub_imm(T0, 1);
        asm.store(arg!(MultiplyArgs.current.panels), T0);
        asm.load(RIGHT, arg!(MultiplyArgs.current.right));
        asm.add_mem(RIGHT, arg!(MultiplyArgs.panel_stride));
        asm.store(arg!(MultiplyArgs.current.right), RIGHT);
        asm.load(OUT, arg!(MultiplyArgs.current.out));
        asm.add_mem(OUT, arg!(MultiplyArgs.out_panel_stride));
        asm.test(T0);
        asm.jump_if(Cond::NotEqual, panel);
    }

    /// One block: its sums over all taps, stored.
    fn block(&self, asm: &mut Asm, height: usize) {
        let at = |base: Gpr, vector: usize| Mem::indexed(base, OUT_STRIDE, 1, vector as i32 * 64);
        // to += the rows of sums of a tile row
        let tile_row_on = |asm: &mut Asm, to: Gpr| (0..2).for_each(|_| asm.lea(to, Mem::indexed(to, OUT_STRIDE, 8, 0)));
        let last = self.vectors() - 1;
        asm.load(T0, arg!(MultiplyArgs.resume));
        asm.unless_zero_else(
            T0,
            |asm| {
                asm.mov(T0, OUT);
                asm.load(OUT_STRIDE, arg!(MultiplyArgs.out_stride));
                for (_, vector, sum) in self.sums(height) {
                    asm.tile_load(sum, at(T0, vector));
                    if vector == last {
                        tile_row_on(asm, T0);
                    }
                }
            },
            |asm| self.start(asm, height),
        );
        asm.load(RIGHT, arg!(MultiplyArgs.current.right));
        asm.load(TAPS, arg!(MultiplyArgs.taps));
        asm.load(TAPS_LEFT, arg!(MultiplyArgs.tap_count));
        asm.repeat(TAPS_LEFT, |asm| {
            for (row, &left) in LEFT[..height].iter().enumerate() {
                asm.load(left, Mem::at(TABLE, row as i32 * 8));
                asm.load(T0, Mem::at(TAPS, 0));
                asm.add(left, T0);
            }
            asm.load(STEPS_LEFT, arg!(MultiplyArgs.steps));
            asm.align(16);
            asm.repeat(STEPS_LEFT, |asm| self.step(asm, height));
            asm.add_imm(TAPS, 8);
        });
        asm.load(OUT_STRIDE, arg!(MultiplyArgs.out_stride));
        for (_, vector, sum) in self.sums(height) {
            asm.tile_store(at(OUT, vector), sum);
            if vector == last {
                tile_row_on(asm, OUT);
            }
        }
        asm.add_imm(TABLE, height as i32 * 8);
    }

    /// Sums from start values or zero.
    fn start(&self, asm: &mut Asm, height: usize) {
        if !self.starts() {
            return self.sums(height).for_each(|(_, _, sum)| asm.tile_zero(sum));
        }
        // A stride of 0 loads the same row of start values into every row of the tile.
        asm.load(T0, arg!(MultiplyArgs.current.start));
        asm.mov_imm(OUT_STRIDE, 0);
        for (_, vector, sum) in self.sums(height) {
            asm.tile_load(sum, Mem::indexed(T0, OUT_STRIDE, 1, vector as i32 * 64));
        }
    }

    /// One step of the reduction.
    fn step(&self, asm: &mut Asm, height: usize) {
        Prefetches::emit_step(asm, PREFETCHES);
        for (row, vector, sum) in self.sums(height) {
            let (left, right) = (Tile((LEFT_TILES + row) as u8), Tile((RIGHT_TILES + vector) as u8));
            if vector == 0 {
                asm.tile_load(left, Mem::indexed(LEFT[row], ROW_STRIDE, 1, 0));
            }
            if row == 0 {
                asm.tile_load(right, Mem::indexed(RIGHT, LINE, 1, vector as i32 * 64));
            }
            if let MultiplyAdd::Tiles(multiply) = self.factors.operands().multiply {
                multiply(asm, sum, left, right);
            }
        }
        for &left in &LEFT[..height] {
            asm.add(left, LEFT_STRIDE);
        }
        asm.add_mem(RIGHT, arg!(MultiplyArgs.right_stride));
    }
}
