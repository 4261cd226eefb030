//! The quantised micro-kernel as its drivers call it: machine code, or the Rust version.

use std::sync::Arc;

use super::portable;
use super::strip::{Edge, Strip};
use super::tile::{QuantizedArgs, QuantizedCode};
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::jit::{Code, Given};

/// A micro-kernel that can be called.
#[derive(Clone, Debug)]
pub(crate) enum MicroKernel {
    /// Machine code.
    Emitted(QuantizedCode, Arc<Code>),
    /// The Rust version, where no code may be emitted.
    Portable(QuantizedCode),
}

impl MicroKernel {
    /// The micro-kernel of `key`: emitted, or the Rust one at [`Isa::Portable`](crate::Isa::Portable).
    pub(crate) fn new(key: QuantizedCode, source: &dyn CodeSource) -> Result<MicroKernel> {
        if !key.isa.is_jit() {
            return Ok(MicroKernel::Portable(key));
        }
        Ok(MicroKernel::Emitted(key, source.code(&CodeKey::Quantized(key))?))
    }

    /// Computes the tiles that `args` describes.
    ///
    /// # Safety
    ///
    /// `given` holds: every left-hand row over the reduction, the whole panel, an element of `start`, `scale` and
    /// `shift` for each column of the tile, and all columns of every row of the output, which no other task touches.
    /// `rows` is at most [`most_rows`](super::tile::most_rows) of the key.
    pub(crate) unsafe fn call(&self, args: &QuantizedArgs, given: &Given) {
        match self {
            // SAFETY: the caller vouches for the pointers; the struct is the one that the emitter reads.
            MicroKernel::Emitted(key, code) => unsafe { code.call(args, key, given) },
            // SAFETY: the same contract.
            MicroKernel::Portable(key) => unsafe {
                given.check(args, key);
                portable::tile(key, args);
            },
        }
    }

    /// Computes the tiles of a strip, and writes nothing outside of it.
    ///
    /// # Safety
    ///
    /// That of [`MicroKernel::call`], except for the output: the strip's own columns are no other task's.
    pub(super) unsafe fn write(&self, to: &Strip, edge: &mut Edge, args: &mut QuantizedArgs, given: &Given) {
        let call = |first: *mut u8, distance: usize, given: &Given| {
            args.ldc = distance;
            args.c.set(first);
            args.c_tile_stride = args.rows * distance;
            // SAFETY: the caller's contract; the output has room for whole rows.
            unsafe { self.call(args, given) };
        };
        // SAFETY: the caller's contract.
        unsafe { edge.write(to, given, call) };
    }
}
