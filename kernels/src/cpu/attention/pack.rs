//! Packs keys into panels: rows are transposed, so that the micro-kernel reads one feature of neighbouring keys as a
//! vector.
//!
//! Square tiles are transposed in registers by the code of [`transpose`](crate::cpu::transpose); the edges go element
//! by element.

use std::sync::Arc;

use crate::cpu::transpose::{Form, Stores, TransposeArgs, TransposeCode, TransposeKernel};
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Code, Given};

/// Transposes rows into panels of `width` columns.
#[derive(Clone, Debug)]
pub(super) struct KeyPacker {
    code: Option<Arc<Code>>,
    lanes: usize,
    width: usize,
}

impl KeyPacker {
    pub(super) fn new(isa: Isa, width: usize, source: &dyn CodeSource) -> Result<KeyPacker> {
        let code = match isa.is_jit() {
            true => Some(source.code(&CodeKey::Transpose(TransposeCode { isa, form: Form::Tile(Stores::Near) }))?),
            false => None,
        };
        Ok(KeyPacker { code, lanes: isa.lanes(), width })
    }

    /// Packs `keys` rows of `size` features, `stride` elements apart, into consecutive panels of `size * width`.
    ///
    /// # Safety
    ///
    /// `given` holds the rows and all panels, and no other task touches the panels.
    pub(super) unsafe fn pack(
        &self,
        from: *const f32,
        stride: usize,
        [keys, size]: [usize; 2],
        to: *mut f32,
        given: &Given,
    ) {
        for first in (0..keys).step_by(self.width) {
            let count = self.width.min(keys - first);
            let (from, to) = (from.wrapping_add(first * stride), to.wrapping_add(first * size));
            // SAFETY: a panel of its own, of rows that exist.
            unsafe { self.panel(from, stride, [count, size], to, given) };
        }
    }

    /// One panel of `count` rows.
    unsafe fn panel(&self, from: *const f32, stride: usize, [count, size]: [usize; 2], to: *mut f32, given: &Given) {
        let (lanes, width) = (self.lanes, self.width);
        let squares = |length: usize| length / lanes;
        let (down, across) = match &self.code {
            Some(_) => (squares(count), squares(size)),
            None => (0, 0),
        };
        if let Some(code) = self.code.as_ref().filter(|_| down > 0 && across > 0) {
            let (row, panel_row) = (stride * 4, width * 4);
            let args = TransposeArgs {
                src: from.cast(),
                dst: to.cast(),
                src_stride: row,
                dst_stride: panel_row,
                inner: across,
                inner_src: lanes * 4,
                inner_dst: lanes * panel_row,
                outer: down,
                outer_src: (lanes * row) as isize - (across * lanes * 4) as isize,
                outer_dst: (lanes * 4) as isize - (across * lanes * panel_row) as isize,
            };
            let kernel = TransposeKernel { isa: code.isa(), form: Form::Tile(Stores::Near) };
            // SAFETY: `down * lanes` rows of `across * lanes` features are read, which the caller vouches for, and the
            // same number of elements of the panel is written. The code takes `TransposeArgs`.
            unsafe { code.call(&args, &kernel, given) };
        }
        let turned = if down > 0 { across * lanes } else { 0 };
        for key in 0..count {
            let first = if key < down * lanes { turned } else { 0 };
            for feature in first..size {
                // SAFETY: inside of the rows and of the panel.
                unsafe { *to.add(feature * width + key) = *from.add(key * stride + feature) };
            }
        }
        for key in count..width {
            for feature in 0..size {
                // SAFETY: inside of the panel. The micro-kernel reads whole panels.
                unsafe { *to.add(feature * width + key) = 0.0 };
            }
        }
    }
}
