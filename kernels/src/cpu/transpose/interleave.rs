//! Square tiles of elements of 1 and 2 bytes, turned by interleaving rows.
//!
//! A tile is as many rows of 16 bytes as a row has elements. Interleaving row `i` with row `i + side / 2`, element by
//! element, moves one bit of the row's number into the column's: after as many rounds as a side has bits, rows are
//! columns. Each round is one instruction for each row, of those that every x86-64 processor has; so this is compiled and not
//! emitted, and other processors go element by element.

use super::emit::TransposeArgs;

/// Whether this processor has such tiles.
pub(super) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// Elements of a side, of elements of that many bytes.
pub(super) const fn side(element: usize) -> usize {
    16 / element
}

/// Turns the tiles that `args` describes, of elements of 1 or 2 bytes.
///
/// # Safety
///
/// Every tile is readable in the input and writable in the output, and nobody else writes it.
pub(super) unsafe fn turn(element: usize, args: &TransposeArgs) {
    let (mut src, mut dst) = (args.src, args.dst);
    for _ in 0..args.outer {
        for _ in 0..args.inner {
            // SAFETY: the caller's contract, tile by tile.
            unsafe {
                match element {
                    1 => tile::<16>(src, args.src_stride, dst, args.dst_stride),
                    _ => tile::<8>(src, args.src_stride, dst, args.dst_stride),
                }
            }
            src = src.wrapping_add(args.inner_src);
            dst = dst.wrapping_add(args.inner_dst);
        }
        src = src.wrapping_offset(args.outer_src);
        dst = dst.wrapping_offset(args.outer_dst);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn tile<const SIDE: usize>(src: *const u8, src_stride: usize, dst: *mut u8, dst_stride: usize) {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpacklo_epi8,
        _mm_unpacklo_epi16,
    };
    use std::array::from_fn;

    // SAFETY: the caller's contract; any address will do.
    let mut rows: [__m128i; SIDE] =
        from_fn(|row| unsafe { _mm_loadu_si128(src.wrapping_add(row * src_stride).cast()) });
    for _ in 0..SIDE.ilog2() {
        rows = from_fn(|row| {
            let (a, b) = (rows[row / 2], rows[row / 2 + SIDE / 2]);
            // SAFETY: every x86-64 processor has these.
            unsafe {
                match (SIDE, row % 2) {
                    (16, 0) => _mm_unpacklo_epi8(a, b),
                    (16, _) => _mm_unpackhi_epi8(a, b),
                    (_, 0) => _mm_unpacklo_epi16(a, b),
                    (_, _) => _mm_unpackhi_epi16(a, b),
                }
            }
        });
    }
    for (row, value) in rows.into_iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe { _mm_storeu_si128(dst.wrapping_add(row * dst_stride).cast(), value) };
    }
}

/// The driver asks [`AVAILABLE`] first.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn tile<const SIDE: usize>(_: *const u8, _: usize, _: *mut u8, _: usize) {
    unreachable!("tiles of bytes where there are none");
}
