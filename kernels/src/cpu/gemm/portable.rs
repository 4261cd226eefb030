//! The micro-kernel in Rust, for machines where no code may be emitted: the contract of [`TileArgs`], loop by loop.

use half::f16;

use super::tile::{LeftRows, RightColumns, TileArgs, TileCode};
use super::tile_size::MOST_ROWS;
use crate::cpu::precision::from_bf16;
use crate::reference::chain::unary;

/// Computes the tiles that `args` describes.
///
/// # Safety
///
/// That of [`MicroKernel::call`](super::micro_kernel::MicroKernel::call).
pub(super) unsafe fn tile(key: &TileCode, args: &TileArgs) {
    // SAFETY: the caller's contract; the width is a constant so that the inner loops become vector code.
    unsafe {
        match key.width() {
            8 => tiles::<8>(key, args),
            16 => tiles::<16>(key, args),
            _ => tiles::<24>(key, args),
        }
    }
}

unsafe fn tiles<const WIDTH: usize>(key: &TileCode, args: &TileArgs) {
    let columns: usize = args.lanes.iter().sum::<usize>().min(WIDTH);
    for _ in 0..args.tiles.get() {
        // SAFETY: the caller's contract, tile after tile.
        unsafe { one::<WIDTH>(key, args, columns) };
        args.a.set(args.a.get().wrapping_add(args.a_tile_stride));
        args.table.set(args.table.get().wrapping_add(args.taps * args.rows));
        args.c.set(args.c.get().wrapping_add(args.c_tile_stride));
    }
}

unsafe fn one<const WIDTH: usize>(key: &TileCode, args: &TileArgs, columns: usize) {
    let mut sums = [[0.0f32; WIDTH]; MOST_ROWS];
    let rows = args.rows.min(MOST_ROWS);
    for (row, sums) in sums[..rows].iter_mut().enumerate() {
        let c: *mut f32 = args.c.get().wrapping_add(row * args.ldc).cast();
        for (column, sum) in sums[..columns].iter_mut().enumerate() {
            // SAFETY: C and bias are readable over their own columns.
            *sum = unsafe {
                match (args.resume != 0, args.bias.is_null()) {
                    (true, _) => *c.add(column),
                    (false, false) => *args.bias.add(column),
                    (false, true) => 0.0,
                }
            };
        }
    }
    let mut b = args.b;
    for tap in 0..args.taps {
        let mut left = [std::ptr::null::<u8>(); MOST_ROWS];
        for (row, left) in left[..rows].iter_mut().enumerate() {
            *left = match key.left {
                LeftRows::Strided => args.a.get().wrapping_add(row * args.lda),
                LeftRows::Lines => args.a.get().wrapping_add(row * args.lda + tap * args.tap_stride),
                // SAFETY: the table holds a pointer for each tap and row.
                LeftRows::Table => unsafe { *args.table.get().add(tap * args.rows + row) },
            };
        }
        if key.right == RightColumns::Pairs {
            // SAFETY: the caller's contract.
            b = unsafe { pairs(&left[..rows], args, b, &mut sums) };
            continue;
        }
        for at in (args.first..args.end).step_by(4) {
            // SAFETY: a right-hand row has `WIDTH` readable elements.
            let right: [f32; WIDTH] = unsafe {
                match key.right {
                    RightColumns::Halves => (*b.cast::<[u16; WIDTH]>()).map(|bits| f16::from_bits(bits).to_f32()),
                    _ => *b.cast(),
                }
            };
            for (left, sums) in left[..rows].iter().zip(&mut sums) {
                // SAFETY: left-hand rows are readable over the reduction.
                let a = unsafe { *left.add(at).cast::<f32>() };
                for (sum, b) in sums.iter_mut().zip(&right) {
                    *sum += a * b;
                }
            }
            b = match key.right {
                RightColumns::Packed | RightColumns::Pairs | RightColumns::Dots => b.wrapping_add(4 * WIDTH),
                RightColumns::Halves => b.wrapping_add(2 * WIDTH),
                RightColumns::Plain => b.wrapping_add(args.ldb),
            };
        }
    }
    for (row, sums) in sums[..rows].iter().enumerate() {
        let c: *mut f32 = args.c.get().wrapping_add(row * args.ldc).cast();
        for (column, &sum) in sums[..columns].iter().enumerate() {
            let mut value = if args.scaled != 0 { sum * args.scale } else { sum };
            let to = c.wrapping_add(column);
            if args.unfinished == 0 {
                if args.residual != 0 {
                    // SAFETY: the residual is readable over C's own columns.
                    value += unsafe { *to.cast_const().wrapping_byte_offset(args.residual_offset) };
                }
                if let Some(op) = key.activation {
                    value = unary(op, value);
                }
            }
            // SAFETY: C is writable over its own columns.
            unsafe { to.write(value) };
        }
    }
}

/// One tap of a tile with right-hand bf16 pairs; returns where the next tap's pairs start.
unsafe fn pairs<const WIDTH: usize>(
    left: &[*const u8],
    args: &TileArgs,
    mut b: *const u8,
    sums: &mut [[f32; WIDTH]; MOST_ROWS],
) -> *const u8 {
    for at in (args.first..args.end).step_by(8) {
        // SAFETY: a row of pairs has `WIDTH` readable words.
        let words = unsafe { &*b.cast::<[[u16; 2]; WIDTH]>() };
        let elements = [0, 1].map(|element| words.map(|word| from_bf16(word[element])));
        // The second element of a last pair may have no left-hand element.
        let count = if at + 4 < args.end { 2 } else { 1 };
        for (element, right) in elements[..count].iter().enumerate() {
            for (left, sums) in left.iter().zip(sums.iter_mut()) {
                // SAFETY: left-hand rows are readable over the reduction.
                let a = unsafe { *left.add(at + 4 * element).cast::<f32>() };
                for (sum, b) in sums.iter_mut().zip(right) {
                    *sum += a * b;
                }
            }
        }
        b = b.wrapping_add(4 * WIDTH);
    }
    b
}
