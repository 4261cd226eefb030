//! The micro-kernel as its drivers call it: machine code, or the Rust version.

use std::sync::Arc;

use super::portable;
use super::rows::Tiles;
use super::tile::{TileArgs, TileCode};
use super::tile_size::MOST_ROWS;
use crate::cpu::{CodeKey, CodeSource, MOST_PARTS, PartSet};
use crate::error::Result;
use crate::jit::{Code, Given};

/// A micro-kernel that can be called, for the numbers of rows that it was made for.
#[derive(Clone, Debug)]
pub(crate) enum MicroKernel {
    /// Machine code: a part for each number of rows, that of one row first.
    Emitted(TileCode, [Option<Arc<Code>>; MOST_PARTS]),
    /// The Rust version, where no code may be emitted.
    Portable(TileCode),
}

// A part for each number of rows.
const _: () = assert!(MOST_ROWS <= MOST_PARTS);

impl MicroKernel {
    /// The micro-kernel for every height of the tiles in `cuts`: emitted, or the Rust one at
    /// [`Isa::Portable`](crate::Isa::Portable).
    pub(crate) fn new(
        key: TileCode,
        cuts: impl IntoIterator<Item = Tiles>,
        source: &dyn CodeSource,
    ) -> Result<MicroKernel> {
        if !key.isa.is_jit() {
            return Ok(MicroKernel::Portable(key));
        }
        let key = TileCode { in_order: key.in_order || source.in_order(), ..key };
        let heights = cuts.into_iter().flat_map(|tiles| tiles.heights());
        let wanted = heights.fold(PartSet::default(), |parts, height| parts.and(height - 1));
        if wanted.is_empty() {
            return Ok(MicroKernel::Emitted(key, Default::default()));
        }
        let emitted = source.parts(&CodeKey::Tile(key), wanted)?;
        Ok(MicroKernel::Emitted(key, Arc::unwrap_or_clone(emitted).into_parts()))
    }

    /// Computes the tiles that `args` describes.
    ///
    /// # Safety
    ///
    /// `given` holds: every left-hand row over the reduction, the right-hand columns (whole panels where packed), and
    /// bias, residual and C over the columns of C. No other task touches those elements of C.
    ///
    /// # Panics
    ///
    /// Where `rows` is not among the heights that it was made for.
    pub(crate) unsafe fn call(&self, args: &TileArgs, given: &Given) {
        match self {
            MicroKernel::Emitted(key, parts) => match parts.get(args.rows.wrapping_sub(1)) {
                // SAFETY: the caller vouches for the pointers; the struct is the one that the emitter reads, and this
                // is the part for its number of rows.
                Some(Some(code)) => unsafe { code.call(args, key, given) },
                _ => unmade(args.rows),
            },
            // SAFETY: the same contract.
            MicroKernel::Portable(key) => unsafe {
                given.check(args, key);
                portable::tile(key, args);
            },
        }
    }
}

/// The panic for a height that the driver did not request: it must name all heights when it is built.
#[cold]
#[inline(never)]
fn unmade(rows: usize) -> ! {
    panic!("a tile of {rows} rows, for which no code was asked");
}
