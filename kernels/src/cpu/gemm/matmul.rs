//! The driver of matrix products: C = activation(scale * A B + bias + residual), in batches with broadcasting.
//!
//! A [`Matmul`] holds everything that can be known before the data: kernels, blocks, how work is split. Running it
//! touches only the operands and scratch that the caller lends.

mod amx;
mod check;
mod order;
mod shape;
mod stored;
mod streamed;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::convert::Bf16Convert;
use super::micro_kernel::MicroKernel;
use super::panels::{Panels, Source};
use super::reduction::UNROLL;
use super::row::{Row, RowCode, STREAMS};
use super::rows::{Tiles, part};
use super::tile::{LeftRows, RightColumns, TileArgs, TileCode};
use super::tile_size::most_rows;
use super::widen::Widen;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::machine::Caches;
use crate::cpu::{Activations, ActivationsMut, CodeSource, Elements, PackedWeights};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::{Disjoint, Parallel, Piece, Pieces, Reads, for_each_chunk, has_shares, in_shares};
use crate::problem::description::sizes;

use self::amx::{AmxBuffers, AmxKernels};
use self::shape::Place;
pub use self::shape::{BatchDim, Left, MatmulShape, Right};
pub use self::stored::MatmulStored;
use self::streamed::Streamed;

const FAMILY: &str = "matmul";

/// Left-hand rows that a task converts to bf16 pairs at a time.
const CONVERTED_ROWS: usize = 16;

/// How the work is cut: a builder's choice. Any values that [`MatmulBlocks::fits`] lets pass give the same result up to
/// the order of additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MatmulBlocks {
    /// Vectors that a tile is wide.
    pub vectors: u8,
    /// Whether an unpacked right-hand side is packed first.
    pub pack: bool,
    /// Tiles of rows that are done before the next panel is begun.
    pub row_block: u32,
    /// Panels that all rows see before the next panels are begun.
    pub panel_block: u32,
    /// Longest reduction before sums are stored in C and loaded again.
    pub k_block: u32,
    /// Parts that the batch is split into for threads.
    pub batch_tasks: u32,
    /// Parts that rows are split into.
    pub row_tasks: u32,
    /// Parts that columns are split into.
    pub panel_tasks: u32,
}

sizes!(MatmulBlocks {
    vectors: usize,
    row_block: usize,
    panel_block: usize,
    k_block: usize,
    batch_tasks: usize,
    row_tasks: usize,
    panel_tasks: usize,
});

/// The epilogue of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Factor of the product.
    pub scale: f32,
    /// Whether a bias is added to every row.
    pub bias: bool,
    /// Applied last.
    pub activation: Option<UnaryOp>,
}

impl Default for Epilogue {
    fn default() -> Self {
        Epilogue { scale: 1.0, bias: false, activation: None }
    }
}

/// Optional operands.
#[derive(Clone, Copy, Debug)]
pub struct Extras<'a, R = &'a [f32]> {
    /// Added to every row: `n` elements.
    pub bias: Option<&'a [f32]>,
    /// Added to C, of C's own shape, before the activation.
    pub residual: Option<R>,
}

impl<R> Default for Extras<'_, R> {
    fn default() -> Self {
        Extras { bias: None, residual: None }
    }
}

/// A matrix product that is ready to run.
#[derive(Clone, Debug)]
pub struct Matmul {
    shape: MatmulShape,
    blocks: MatmulBlocks,
    epilogue: Epilogue,
    stored: MatmulStored,
    isa: Isa,
    /// The micro-kernel for packed panels, and the one for a row-major right-hand side.
    packed: Option<MicroKernel>,
    plain: Option<MicroKernel>,
    /// The kernel of a single row, for panels that come packed.
    row: Option<Row>,
    /// The kernel of one row or one column of results, which computes the product instead of tiles.
    streamed: Option<Streamed>,
    tiles: Tiles,
    panels: Panels,
    /// The AMX kernels, where AMX computes the product instead of tiles.
    amx: Option<AmxKernels>,
    /// The bf16 conversion of left-hand rows, where bf16 pairs are multiplied.
    convert: Option<Bf16Convert>,
    /// The first panel that the driver packs.
    packed_from: usize,
    /// Whether each task packs the panels that it alone needs, right before it multiplies them.
    pack_in_task: bool,
    /// The kernel that widens parts of panels into scratch, where tasks widen parts before they multiply them
    /// ([`MatmulShape::widens`]).
    widen: Option<Widen>,
}

impl MatmulBlocks {
    /// Whether a driver can take these blocks for that shape and level: a builder's choice may come from a file.
    #[must_use]
    pub fn fits(&self, shape: &MatmulShape, isa: Isa) -> bool {
        // More tasks than this only cost time; more than tiles would be empty.
        const MOST_TASKS: u32 = 1 << 16;
        let packed = match shape.right {
            Right::Packed { vectors, elements } => vectors == self.vectors() && !self.pack && elements.suit(isa),
            Right::Columns { .. } => self.pack,
            Right::Rows { .. } => true,
        };
        let positive =
            [self.row_block, self.panel_block, self.k_block, self.batch_tasks, self.row_tasks, self.panel_tasks];
        let tasks = self.batch_tasks.checked_mul(self.row_tasks).and_then(|tasks| tasks.checked_mul(self.panel_tasks));
        // Each task has scratch of its own for widened panels.
        const MOST_WIDENED: usize = 1 << 26;
        let room = || self.tasks().saturating_mul(self.widened_block(shape, isa));
        // Each part of the reduction starts with a whole row of words.
        let whole = self.k_block().is_multiple_of(shape.elements().rows_of_a_word()) || self.k_block() >= shape.k;
        packed
            && whole
            && amx::fits(shape, self, isa)
            && most_rows(isa, self.vectors()) > 0
            && !positive.contains(&0)
            && tasks.is_some_and(|tasks| tasks <= MOST_TASKS)
            && (!shape.widens(isa, self.vectors()) || room() <= MOST_WIDENED)
    }
}

impl MatmulBlocks {
    /// Tasks in all.
    fn tasks(&self) -> usize {
        self.batch_tasks() * self.row_tasks() * self.panel_tasks()
    }

    /// Elements of the panels that a task widens at a time.
    fn widened_block(&self, shape: &MatmulShape, isa: Isa) -> usize {
        let width = self.vectors() * isa.lanes();
        let panels = self.panel_block().min(shape.n.div_ceil(width.max(1)).div_ceil(self.panel_tasks()));
        panels.saturating_mul(self.k_block().min(shape.k)).saturating_mul(width)
    }

    /// Whether a driver with these blocks can apply this epilogue. A scale besides a bias needs packing here: the
    /// kernel adds the bias, to which the scale does not apply, before it scales, so the scale goes into the packed
    /// panels.
    #[must_use]
    pub fn takes(&self, epilogue: &Epilogue) -> bool {
        self.pack || epilogue.scale == 1.0 || !epilogue.bias
    }
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    left: &'a [f32],
    right: PackedWeights<'a>,
    packed: Disjoint<'a, f32>,
    c: Disjoint<'a, f32>,
    extras: Extras<'a>,
    given: Given,
}

impl Matmul {
    /// Makes a product of `f32` ready: gets its kernels from `source`.
    ///
    /// # Errors
    ///
    /// For blocks that do not fit, sizes that cannot be addressed, an activation that is not
    /// [fusible](activation::is_fusible), and where kernels cannot be made.
    pub fn new(
        isa: Isa,
        shape: MatmulShape,
        blocks: MatmulBlocks,
        epilogue: Epilogue,
        source: &dyn CodeSource,
    ) -> Result<Matmul> {
        Matmul::stored(isa, shape, blocks, MatmulStored::default(), epilogue, source)
    }

    /// As [`Matmul::new`], for activations stored as `stored` says.
    ///
    /// # Errors
    ///
    /// As [`Matmul::new`], and for a transposed left-hand side of `bf16`.
    pub fn stored(
        isa: Isa,
        shape: MatmulShape,
        blocks: MatmulBlocks,
        stored: MatmulStored,
        epilogue: Epilogue,
        source: &dyn CodeSource,
    ) -> Result<Matmul> {
        let refuse = |reason: String| Err(KernelError::Unsupported { family: FAMILY, reason });
        activation::check(FAMILY, epilogue.activation)?;
        if !shape.is_addressable() {
            return refuse(format!("{shape:?} is too large"));
        }
        if !blocks.fits(&shape, isa) {
            return refuse(format!("{blocks:?} do not fit {shape:?}"));
        }
        if !stored.suits(&shape) {
            return refuse(format!("{stored:?} does not fit {shape:?}"));
        }
        let width = blocks.vectors() * isa.lanes();
        let elements = shape.elements();
        let panels = Panels { rows: elements.words(shape.k), columns: shape.n, width };
        if !blocks.takes(&epilogue) {
            return refuse("a factor besides a bias, where nothing is packed that could take the factor".to_owned());
        }
        let streamed = Streamed::new(isa, &shape, stored, &epilogue, width, source)?;
        let packed_from = match shape.right {
            _ if streamed.is_some() => panels.count(),
            Right::Packed { .. } => panels.count(),
            _ if blocks.pack => 0,
            _ => shape.n / width,
        };
        let amx = AmxKernels::new(isa, &shape, stored, epilogue.activation, source)?;
        let tiles = match amx {
            Some(_) => Tiles::new(amx::tile_rows(shape.m), 1),
            None => Tiles::new(shape.m, most_rows(isa, blocks.vectors())),
        };
        let in_order = shape.is_lone_row(isa, blocks.vectors());
        let tile = |right: RightColumns| {
            let (vectors, activation) = (blocks.vectors, epilogue.activation);
            let sums = TileCode::sums(isa, vectors, LeftRows::Strided, right);
            let key = TileCode { activation, in_order, ..sums };
            MicroKernel::new(key, [tiles], source)
        };
        let is_tiled = amx.is_none() && streamed.is_none();
        let plain_panels = is_tiled && !matches!(shape.right, Right::Packed { .. }) && packed_from > 0;
        let plain = if plain_panels { Some(tile(RightColumns::Plain)?) } else { None };
        let any_packed = is_tiled && (!plain_panels || packed_from < panels.count());
        let widen = shape.widens(isa, blocks.vectors()).then(|| Widen::new(isa, source)).transpose()?;
        let columns = if widen.is_some() { RightColumns::Packed } else { RightColumns::packed(elements) };
        let packed = if any_packed { Some(tile(columns)?) } else { None };
        let row = in_order.then(|| {
            let (vectors, right) = (blocks.vectors, RightColumns::packed(elements));
            Row::new(RowCode { isa, vectors, right, activation: epilogue.activation }, panels, source)
        });
        let row = row.transpose()?;
        let pack_in_task = blocks.row_tasks == 1 && shape.right_matrices() == shape.batches();
        let convert = (elements == Elements::Bf16Dot).then(|| Bf16Convert::new(isa, source)).transpose()?;
        Ok(Matmul {
            shape,
            blocks,
            epilogue,
            stored,
            isa,
            packed,
            plain,
            row,
            streamed,
            tiles,
            panels,
            amx,
            convert,
            packed_from,
            pack_in_task,
            widen,
        })
    }

    /// Elements of scratch that [`Matmul::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.left_scratch() + self.right_scratch() + self.widened_len()
    }

    /// The blocks in use.
    #[must_use]
    pub fn blocks(&self) -> &MatmulBlocks {
        &self.blocks
    }

    fn left_scratch(&self) -> usize {
        let rows = self.shape.left_matrices() * self.shape.m;
        let transposed = match self.shape.left {
            Left::Rows { .. } => 0,
            Left::Columns { .. } if self.streamed.is_some() => 0,
            Left::Columns { .. } => rows * self.shape.k,
        };
        let rounded = match (&self.amx, &self.convert) {
            (Some(amx), _) => self.shape.left_matrices() * amx.left_words(&self.shape),
            (None, Some(_)) => rows * self.panels.rows,
            (None, None) => 0,
        };
        transposed + rounded
    }

    /// Elements of the panels that the driver packs, or of the parts of panels that tasks widen.
    fn right_scratch(&self) -> usize {
        if self.widen.is_some() {
            return self.blocks.tasks() * self.blocks.widened_block(&self.shape, self.isa);
        }
        self.shape.right_matrices() * self.packed_len()
    }

    /// Elements of the panels that the driver packs for one right-hand matrix.
    fn packed_len(&self) -> usize {
        match self.shape.right {
            Right::Packed { .. } => 0,
            _ => (self.panels.count() - self.packed_from) * self.panels.panel_len(),
        }
    }

    /// Multiplies `f32` activations.
    ///
    /// # Errors
    ///
    /// Where an operand is shorter than its shape says, activations are not `f32`, or extras are not the announced
    /// ones.
    pub fn run(
        &self,
        left: &[f32],
        right: PackedWeights<'_>,
        c: &mut [f32],
        extras: Extras<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let extras = Extras { bias: extras.bias, residual: extras.residual.map(Activations::from) };
        self.run_stored(left.into(), right, c.into(), extras, scratch, parallel)
    }

    /// As [`Matmul::run`], for activations stored as `f32` or `bf16`.
    ///
    /// # Errors
    ///
    /// Those of [`Matmul::run`], and where activations are not of the types that the product was made for.
    pub fn run_stored(
        &self,
        left: Activations<'_>,
        right: PackedWeights<'_>,
        mut c: ActivationsMut<'_>,
        extras: Extras<'_, Activations<'_>>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        self.check(left, right, &c, extras, scratch)?;
        if c.read().is_empty() {
            return Ok(());
        }
        if let Some(amx) = &self.amx {
            let given = Given::new().read("left", left.bytes()).read("right", right.bytes()).maybe("bias", extras.bias);
            let given = given.maybe("residual", extras.residual.map(|residual| residual.bytes()));
            let given = given.write("C", c.bytes_mut()).read("scratch", scratch);
            let left = self.left_for_amx(amx, left, &mut scratch[..self.left_scratch()], parallel);
            let buffers = AmxBuffers { left, right, c: Disjoint::new(c.bytes_mut()), extras, given };
            self.tasks(parallel, &|_, batch, tiles, panels| {
                self.product_on_amx(amx, &buffers, batch, tiles, panels, parallel);
            });
            return Ok(());
        }
        match (left, c) {
            (Activations::F32(left), ActivationsMut::F32(c)) if self.widened_len() == 0 => {
                let extras = Extras { bias: extras.bias, residual: extras.residual.and_then(|it| it.as_f32()) };
                self.run_on_vectors(left, right, c, extras, scratch, parallel);
            }
            (left, c) => self.run_widened(left, right, c, extras, scratch, parallel),
        }
        Ok(())
    }

    /// Runs all tasks. A task's number says its part of a product: the batch, some tiles of rows, some panels.
    fn tasks(&self, parallel: &dyn Parallel, product: &(dyn Fn(usize, usize, Range<usize>, Range<usize>) + Sync)) {
        let blocks = &self.blocks;
        let (batch_tasks, row_tasks, panel_tasks) = (blocks.batch_tasks(), blocks.row_tasks(), blocks.panel_tasks());
        parallel.run(blocks.tasks(), &|task| {
            let (rest, panels) = (task / panel_tasks, task % panel_tasks);
            let (batches, rows) = (rest / row_tasks, rest % row_tasks);
            let batches = part(self.shape.batches(), batch_tasks, batches);
            let tiles = part(self.tiles.count(), row_tasks, rows);
            let panels = part(self.panels.count(), panel_tasks, panels);
            // There may be more tasks than tiles or panels.
            if tiles.is_empty() || panels.is_empty() {
                return;
            }
            for batch in batches {
                product(task, batch, tiles.clone(), panels.clone());
            }
        });
    }

    /// Multiplies `f32` activations on vectors.
    fn run_on_vectors(
        &self,
        left: &[f32],
        right: PackedWeights<'_>,
        c: &mut [f32],
        extras: Extras<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let given = Given::new().read("left", left).read("right", right.bytes()).read("scratch", scratch);
        let given = given.maybe("bias", extras.bias).maybe("residual", extras.residual).write("C", c);
        let (rows, packed) = scratch.split_at_mut(self.left_scratch());
        let left = if self.streamed.is_some() { left } else { self.left_rows(left, rows, parallel) };
        let buffers = Buffers { left, right, packed: Disjoint::new(packed), c: Disjoint::new(c), extras, given };
        if self.packed_len() > 0 && !self.pack_in_task {
            let panels = self.panels.count() - self.packed_from;
            parallel.run(self.shape.right_matrices() * panels, &|task| {
                let (matrix, panel) = (task / panels, self.packed_from + task % panels);
                self.pack(&buffers, self.shape.right_start(matrix), matrix, panel);
            });
        }
        if let Some(streamed) = &self.streamed {
            return self.tasks(parallel, &|_, batch, tiles, panels| {
                let rows = self.tiles.start(tiles.start)..self.tiles.start(tiles.end);
                let columns = panels.start * self.panels.width..self.shape.n.min(panels.end * self.panels.width);
                streamed.run(&self.shape, &buffers, batch, rows, columns);
            });
        }
        let is_lone = self.shape.batches() == 1 && self.blocks.row_tasks == 1;
        if let Some(row) = self.row.as_ref().filter(|_| is_lone && has_shares(parallel, self.blocks.tasks())) {
            return self.lone_row(row, &buffers, parallel);
        }
        self.tasks(parallel, &|task, batch, tiles, panels| {
            self.product(&buffers, [task, batch], tiles, panels, parallel);
        });
    }

    /// A single row, which reads each panel once, so that memory bounds it. Threads take panels from each other: one
    /// that has prefetched its own is done sooner. An element adds in one order, whichever kernel computes its panel.
    fn lone_row(&self, row: &Row, buffers: &Buffers<'_>, parallel: &dyn Parallel) {
        let (units, bytes) = (self.panels.count(), self.panels.panel_len() * 4);
        let address = buffers.right.at(self.shape.place(0).right) as usize;
        let pieces = [STREAMS, STREAMS];
        let reads = Reads { address, units, bytes, pieces, room: Caches::of_machine().room_ahead() };
        in_shares(parallel, reads, &|piece| match row.takes(piece) {
            true => self.row_pieces(row, buffers, 0, std::iter::once(piece)),
            false => piece.units().for_each(|panel| {
                self.product(buffers, [0, 0], 0..self.tiles.count(), panel..panel + 1, parallel);
            }),
        });
    }

    /// Packs one panel of one right-hand matrix into scratch.
    fn pack(&self, buffers: &Buffers<'_>, start: usize, matrix: usize, panel: usize) {
        let PackedWeights::F32(data) = buffers.right else { return };
        let data = &data[start..];
        let source = match self.shape.right {
            Right::Rows { stride } => Source::row_major(data, self.shape.k, stride),
            Right::Columns { stride } => Source::column_major(data, self.shape.k, stride),
            Right::Packed { .. } => return,
        };
        let length = self.panels.panel_len();
        let at = matrix * self.packed_len() + (panel - self.packed_from) * length;
        // SAFETY: scratch is `right_matrices * packed_len` long, and a panel is packed by one task only: tasks of
        // `run` each have a panel of their own, and `product` packs where no other task has the same matrix and panel.
        let to = unsafe { buffers.packed.part(at..at + length) };
        let scale = if self.scale_when_packed() { self.epilogue.scale } else { 1.0 };
        self.panels.pack_panel(&source, panel, scale, to);
    }

    /// Whether packing applies the scale. The kernel adds the bias, to which the scale does not apply, before it
    /// scales.
    fn scale_when_packed(&self) -> bool {
        self.blocks.pack && self.epilogue.bias
    }

    /// The left-hand rows as the micro-kernel reads them: in place, or transposed and converted in `scratch`.
    fn left_rows<'a>(&self, left: &'a [f32], scratch: &'a mut [f32], parallel: &dyn Parallel) -> &'a [f32] {
        let (m, k) = (self.shape.m, self.shape.k);
        let transposed = match self.shape.left {
            Left::Rows { .. } => 0,
            Left::Columns { .. } => self.shape.left_matrices() * m * k,
        };
        let (transposed, rounded) = scratch.split_at_mut(transposed);
        if let Left::Columns { stride } = self.shape.left {
            self.transpose_left(left, stride, transposed, parallel);
        }
        let Some(convert) = self.convert.as_ref().filter(|_| !rounded.is_empty()) else {
            return if transposed.is_empty() { left } else { transposed };
        };
        for_each_chunk(parallel, rounded, CONVERTED_ROWS * self.panels.rows, &|chunk, words| {
            for (index, words) in words.chunks_exact_mut(self.panels.rows).enumerate() {
                let row = chunk * CONVERTED_ROWS + index;
                let from = match self.shape.left {
                    Left::Rows { stride } => &left[self.shape.left_start(row / m) + row % m * stride..],
                    Left::Columns { .. } => &transposed[row * k..],
                };
                convert.row(&from[..k], words);
            }
        });
        rounded
    }

    /// Transposes left-hand matrices that are stored by columns.
    fn transpose_left(&self, left: &[f32], stride: usize, rows: &mut [f32], parallel: &dyn Parallel) {
        // Rows that a task transposes at a time: one cache line of each column.
        const STRIP: usize = 16;
        let (m, k) = (self.shape.m, self.shape.k);
        let strips = m.div_ceil(STRIP);
        let to = Disjoint::new(rows);
        parallel.run(self.shape.left_matrices() * strips, &|task| {
            let (matrix, strip) = (task / strips, task % strips * STRIP);
            let at = matrix * m * k + strip * k;
            let start = self.shape.left_start(matrix) + strip;
            let height = STRIP.min(m - strip);
            // SAFETY: strips are disjoint parts of `rows`, which is `left_matrices * m * k` long.
            let to = unsafe { to.part(at..at + height * k) };
            for column in 0..k {
                let from = &left[start + column * stride..][..height];
                for (row, &value) in from.iter().enumerate() {
                    to[row * k + column] = value;
                }
            }
        });
    }

    /// The left-hand rows of one product of the batch, and elements from one to the next.
    fn left_of(&self, buffers: &Buffers<'_>, place: &Place) -> (*const f32, usize) {
        let left = |at: usize| buffers.left.as_ptr().wrapping_add(at);
        match self.shape.left {
            _ if self.convert.is_some() => {
                let words = self.panels.rows;
                (left(place.left_index * self.shape.m * words), words)
            }
            Left::Rows { stride } => (left(place.left), stride),
            Left::Columns { .. } => (left(place.left_index * self.shape.m * self.shape.k), self.shape.k),
        }
    }

    /// The arguments that are the same for all tiles.
    fn args(&self, buffers: &Buffers<'_>) -> TileArgs {
        let mut args = TileArgs::empty();
        args.scale = self.epilogue.scale;
        if let Some(residual) = buffers.extras.residual {
            args.residual = 1;
            // Both were checked to be as long as all of C, so that one byte offset holds for every element.
            args.residual_offset = (residual.as_ptr() as isize).wrapping_sub(buffers.c.at(0) as isize);
        }
        args
    }

    /// Pieces of one product of the batch that the kernel of one row computes.
    fn row_pieces(&self, row: &Row, buffers: &Buffers<'_>, batch: usize, pieces: impl Iterator<Item = Piece>) {
        let place = self.shape.place(batch);
        let mut args = self.args(buffers);
        args.reduce_over(0, self.shape.k);
        let (left, _) = self.left_of(buffers, &place);
        let right: *const f32 = buffers.right.at(place.right).cast();
        let bias = buffers.extras.bias.map_or(std::ptr::null(), <[f32]>::as_ptr);
        let c = buffers.c.at(batch * self.shape.m * self.shape.n);
        for piece in pieces {
            // SAFETY: `check` made sure that every operand spans what its shape says, and tasks have panels of their
            // own.
            unsafe { row.run(&args, left, right, bias, c, piece, &buffers.given) };
        }
    }

    /// A task's part of one product of the batch: some tiles of rows, some panels.
    fn product(
        &self,
        buffers: &Buffers<'_>,
        [task, batch]: [usize; 2],
        tiles: Range<usize>,
        panels: Range<usize>,
        parallel: &dyn Parallel,
    ) {
        let (shape, blocks) = (&self.shape, &self.blocks);
        let panels = match &self.row {
            Some(row) if !tiles.is_empty() => {
                let whole = panels.end.min(shape.n / self.panels.width).saturating_sub(panels.start);
                let rest = panels.start + whole / STREAMS * STREAMS;
                self.row_pieces(row, buffers, batch, Pieces::new(panels.start..rest, [STREAMS; 2]).all());
                rest..panels.end
            }
            _ => panels,
        };
        let place = shape.place(batch);
        let (left, stride) = self.left_of(buffers, &place);
        let mut args = self.args(buffers);
        args.lda = stride * 4;
        args.ldc = shape.n * 4;
        let c = buffers.c.at(batch * shape.m * shape.n);
        for block in panels.clone().step_by(blocks.panel_block()) {
            let block = block..panels.end.min(block + blocks.panel_block());
            if self.pack_in_task && self.packed_len() > 0 {
                for panel in block.clone().filter(|&panel| panel >= self.packed_from) {
                    self.pack(buffers, place.right, place.right_index, panel);
                }
            }
            // An empty reduction still writes zeros.
            for k in (0..shape.k.max(1)).step_by(blocks.k_block()) {
                let count = blocks.k_block().min(shape.k - k);
                match self.convert {
                    Some(_) => args.reduce_over(k / 2, count.div_ceil(2)),
                    None => args.reduce_over(k, count),
                }
                args.resume = usize::from(k > 0);
                args.unfinished = usize::from(k + count < shape.k);
                let scaled = self.epilogue.scale != 1.0 && !self.scale_when_packed() && args.unfinished == 0;
                args.scaled = usize::from(scaled);
                args.summarise();
                let widened = self.widen.as_ref();
                let widened =
                    widened.map(|widen| self.widen_panels(widen, buffers, &place, task, block.clone(), k..k + count));
                for rows in tiles.clone().step_by(blocks.row_block()) {
                    if parallel.is_stopped() {
                        return;
                    }
                    let rows = rows..tiles.end.min(rows + blocks.row_block());
                    for panel in block.clone() {
                        let Some(tile) = self.aim(&mut args, buffers, &place, panel, k) else { continue };
                        let right: *const f32 = buffers.right.at(place.right).cast();
                        let next = self.next(panel, k, &block, panels.end);
                        let next = next.map(|next| right.wrapping_add(next).cast());
                        if let Some(widened) = widened {
                            args.b = widened.wrapping_add((panel - block.start) * count * self.panels.width).cast();
                        }
                        args.prefetch(next, self.row_bytes(), rows.len());
                        for run in self.tiles.runs(rows.clone()) {
                            args.rows = run.height;
                            args.tiles.set(run.count);
                            args.a.set(left.wrapping_add(run.row * stride).cast());
                            args.a_tile_stride = run.height * args.lda;
                            args.c.set(c.wrapping_add(run.row * shape.n + panel * self.panels.width).cast());
                            args.c_tile_stride = run.height * args.ldc;
                            // SAFETY: `check` made sure that every operand spans what its shape says, and tasks have
                            // disjoint parts of C.
                            unsafe { tile.call(&args, &buffers.given) };
                        }
                    }
                }
            }
        }
    }

    /// Widens some rows of some panels of `f16` to `f32` in the task's part of scratch, where they follow each other.
    fn widen_panels(
        &self,
        widen: &Widen,
        buffers: &Buffers<'_>,
        place: &Place,
        task: usize,
        panels: Range<usize>,
        rows: Range<usize>,
    ) -> *const f32 {
        let (width, room) = (self.panels.width, self.blocks.widened_block(&self.shape, self.isa));
        // SAFETY: scratch has a room for each task.
        let to = unsafe { buffers.packed.part(task * room..(task + 1) * room) };
        if let PackedWeights::F16(halves) = buffers.right {
            for (panel, to) in panels.zip(to.chunks_exact_mut((rows.len() * width).max(1))) {
                let first = 2 * (place.right + self.in_panels(panel, rows.start));
                widen.run(&halves[first..first + rows.len() * width], to);
            }
        }
        to.as_ptr()
    }

    /// The offset, in elements, of the rows that are multiplied after this part of a panel, if they are packed. Tiles
    /// prefetch these rows while they multiply this part: the hardware prefetchers look ahead only where a panel is
    /// read for the first time, and memory would be idle in all other tiles. With panels that are widened first, it is
    /// the part that is widened after the block, in place of this one.
    fn next(&self, panel: usize, k: usize, block: &Range<usize>, end: usize) -> Option<usize> {
        let packed = matches!(self.shape.right, Right::Packed { .. });
        let (panel, k) = match (panel + 1 < block.end, k + self.blocks.k_block()) {
            _ if self.widen.is_some() && k + self.blocks.k_block() < self.shape.k => (panel, k + self.blocks.k_block()),
            _ if self.widen.is_some() => (panel + block.len(), 0),
            (true, _) => (panel + 1, k),
            (false, next) if next < self.shape.k => (block.start, next),
            _ => (block.end, 0),
        };
        (packed && panel < end).then(|| self.in_panels(panel, k))
    }

    /// Element offset of a row of a packed panel.
    fn in_panels(&self, panel: usize, row: usize) -> usize {
        panel * self.panels.panel_len() + self.shape.elements().words(row) * self.panels.width
    }

    /// Bytes of a panel's row, for each element of the micro-kernel's reduction.
    fn row_bytes(&self) -> usize {
        // A micro-kernel that multiplies bf16 pairs counts a pair as one element.
        let elements = if self.convert.is_some() { Elements::F32 } else { self.shape.elements() };
        elements.words(UNROLL) * self.panels.width * 4 / UNROLL
    }

    /// Sets the right-hand side, bias and columns of `args` for a panel; returns the micro-kernel for it.
    fn aim(
        &self,
        args: &mut TileArgs,
        buffers: &Buffers<'_>,
        place: &Place,
        panel: usize,
        k: usize,
    ) -> Option<&MicroKernel> {
        let width = self.panels.width;
        args.keep_columns(self.panels.columns_of(panel), width, self.isa.lanes());
        args.bias = buffers.extras.bias.map_or(std::ptr::null(), |bias| bias.as_ptr().wrapping_add(panel * width));
        let right: *const f32 = buffers.right.at(place.right).cast();
        match self.shape.right {
            Right::Packed { .. } => {
                args.b = right.wrapping_add(self.in_panels(panel, k)).cast();
                self.packed.as_ref()
            }
            _ if panel >= self.packed_from => {
                let at = place.right_index * self.packed_len() + (panel - self.packed_from) * self.panels.panel_len();
                args.b = buffers.packed.at(at + k * width).cast_const().cast();
                self.packed.as_ref()
            }
            Right::Rows { stride } | Right::Columns { stride } => {
                args.ldb = stride * 4;
                args.b = right.wrapping_add(k * stride + panel * width).cast();
                self.plain.as_ref()
            }
        }
    }
}

#[cfg(test)]
mod tests;
