//! The quantised micro-kernel in Rust: the contract of [`QuantizedArgs`], loop by loop.

use super::epilogue::Epilogue;
use super::tile::{Form, LeftRows, QuantizedArgs, QuantizedCode};
use crate::cpu::gemm::tile_size::MOST_ROWS;
use crate::problem::quantized::Output;

/// Columns of the widest tile without emitted code: two vectors of eight.
const MOST_WIDTH: usize = 16;

/// Computes the tiles that `args` describes.
///
/// # Safety
///
/// That of [`MicroKernel::call`](super::micro_kernel::MicroKernel::call).
pub(super) unsafe fn tile(key: &QuantizedCode, args: &QuantizedArgs) {
    for _ in 0..args.tiles.get() {
        // SAFETY: the caller's contract, tile after tile.
        unsafe { one(key, args) };
        args.a.set(args.a.get().wrapping_add(args.a_tile_stride));
        if key.left == LeftRows::Table {
            args.table.set(args.table.get().wrapping_add(args.taps * args.rows));
        }
        args.c.set(args.c.get().wrapping_add(args.c_tile_stride));
    }
}

unsafe fn one(key: &QuantizedCode, args: &QuantizedArgs) {
    let (rows, width) = (args.rows.min(MOST_ROWS), key.width().min(MOST_WIDTH));
    // SAFETY: the start of every column of the tile is readable.
    let start = unsafe { std::slice::from_raw_parts(args.start, width) };
    let mut sums = [[0i32; MOST_WIDTH]; MOST_ROWS];
    sums[..rows].iter_mut().for_each(|sums| sums[..width].copy_from_slice(start));
    let mut panel = args.b;
    for tap in 0..args.taps {
        let mut left = [std::ptr::null::<u8>(); MOST_ROWS];
        for (row, left) in left[..rows].iter_mut().enumerate() {
            *left = match key.left {
                LeftRows::Strided => args.a.get().wrapping_add(row * args.lda),
                // SAFETY: the table holds a pointer for each tap and row.
                LeftRows::Table => unsafe { *args.table.get().add(tap * args.rows + row) },
                LeftRows::Own => {
                    // SAFETY: the table holds a pointer for each tap.
                    let tap = unsafe { *args.table.get().add(tap) };
                    tap.wrapping_add(args.a.get().addr()).wrapping_add(row * args.lda)
                }
            };
        }
        if key.left == LeftRows::Own {
            for (column, weights) in (0..width).map(|column| (column, panel.cast::<[i16; 2]>().wrapping_add(column))) {
                for (left, sums) in left[..rows].iter().zip(&mut sums) {
                    // SAFETY: rows and weights are readable over all columns.
                    let ([a, b], [x, y]) =
                        unsafe { (left.cast::<[i16; 2]>().add(column).read_unaligned(), weights.read_unaligned()) };
                    let pair = i32::from(a) * i32::from(x) + i32::from(b) * i32::from(y);
                    sums[column] = sums[column].wrapping_add(pair);
                }
            }
            panel = panel.wrapping_add(width * 4);
            continue;
        }
        for at in (args.first..args.end).step_by(4) {
            // SAFETY: a group of the panel holds two weights of each column, of the form's size.
            let weights: [[i16; 2]; MOST_WIDTH] = unsafe { group(key.form, panel, width) };
            for (left, sums) in left[..rows].iter().zip(&mut sums) {
                // SAFETY: left-hand rows are readable over the reduction.
                let [a, b] = unsafe { left.add(at).cast::<[i16; 2]>().read_unaligned() };
                for (sum, [x, y]) in sums[..width].iter_mut().zip(&weights) {
                    let pair = i32::from(a) * i32::from(*x) + i32::from(b) * i32::from(*y);
                    *sum = sum.wrapping_add(pair);
                }
            }
            panel = panel.wrapping_add(width * 2 * key.form.weight_bytes());
        }
    }
    let columns = |pointer| {
        // SAFETY: factors and addends are readable over the tile's columns; they are null where none are used.
        if f32_is_used(key) { unsafe { std::slice::from_raw_parts(pointer, width) } } else { &[][..] }
    };
    let (scale, shift) = (columns(args.scale), columns(args.shift));
    let epilogue = Epilogue { output: key.output, scale, shift, low: args.low, high: args.high, zero: args.zero };
    for (row, sums) in sums[..rows].iter().enumerate() {
        let to = args.c.get().wrapping_add(row * args.ldc);
        // SAFETY: every column of every row of the output is writable.
        let to = unsafe { std::slice::from_raw_parts_mut(to, width * key.output.bytes()) };
        epilogue.row(&sums[..width], 0, to);
    }
}

fn f32_is_used(key: &QuantizedCode) -> bool {
    key.output != Output::Sums
}

/// Two weights of each of `width` columns.
unsafe fn group(form: Form, panel: *const u8, width: usize) -> [[i16; 2]; MOST_WIDTH] {
    let mut weights = [[0; 2]; MOST_WIDTH];
    for (column, to) in weights[..width].iter_mut().enumerate() {
        // SAFETY: the caller's contract.
        *to = unsafe {
            match form {
                Form::Words => panel.cast::<[i16; 2]>().add(column).read_unaligned(),
                Form::Widened | Form::Bytes | Form::Tiles | Form::Few => {
                    panel.cast::<[i8; 2]>().add(column).read().map(i16::from)
                }
            }
        };
    }
    weights
}
