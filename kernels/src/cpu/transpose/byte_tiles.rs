//! Square tiles of elements of 1 and 2 bytes, transposed by interleaving their rows.
//!
//! A tile has rows of 16 bytes, and is square. Interleaving row `i` with row `i + side / 2`, element by element, moves
//! one bit of the row's number into the column's: after as many rounds as a side has bits, rows are columns. Each round
//! takes one instruction a row that every x86-64 processor has, so this is compiled and not emitted; other processors
//! go element by element.

use std::mem::MaybeUninit;
use std::ptr::copy_nonoverlapping;

use super::emit::TransposeArgs;

/// Whether this processor has the instructions.
pub(super) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// Elements along a side of a tile, for elements of `element` bytes.
pub(super) const fn side(element: usize) -> usize {
    16 / element
}

/// Transposes the tiles that `args` describes, of elements of 1 or 2 bytes. With `ahead`, as
/// [`Stores::Ahead`](super::emit::Stores::Ahead): the inner loop runs along the rows of the output, at most [`ROW`]
/// bytes of each row.
///
/// # Safety
///
/// Every tile is readable in the input and writable in the output, and no other task writes it.
pub(super) unsafe fn transpose(element: usize, ahead: bool, args: &TransposeArgs) {
    // SAFETY: the caller's contract.
    unsafe {
        match (element, ahead) {
            (1, false) => tiles::<16>(args),
            (1, true) => lines::<16>(args),
            (_, false) => tiles::<8>(args),
            (_, true) => lines::<8>(args),
        }
    }
}

/// # Safety
///
/// As [`transpose`], with elements of `16 / SIDE` bytes.
unsafe fn tiles<const SIDE: usize>(args: &TransposeArgs) {
    let (mut src, mut dst) = (args.src, args.dst);
    for _ in 0..args.outer {
        for _ in 0..args.inner {
            // SAFETY: the caller's contract, tile by tile.
            unsafe { tile::<SIDE>(src, args.src_stride, dst, args.dst_stride) };
            src = src.wrapping_add(args.inner_src);
            dst = dst.wrapping_add(args.inner_dst);
        }
        src = src.wrapping_offset(args.outer_src);
        dst = dst.wrapping_offset(args.outer_dst);
    }
}

/// Bytes of a row of the output that are written together: a pair of cache lines.
pub(super) const ROW: usize = 128;
/// Tiles along one cache line of the input.
const ACROSS: usize = 4;

/// As [`tiles`], through a block on the stack that holds whole cache lines of input and output. A tile has only a
/// quarter of a line in each row; where rows fall into the same sets of L1, lines would be evicted before the next tile
/// reads them.
///
/// # Safety
///
/// As [`tiles`].
unsafe fn lines<const SIDE: usize>(args: &TransposeArgs) {
    let mut block = [const { MaybeUninit::<[u8; ROW]>::uninit() }; ACROSS * 16];
    let block = block.as_mut_ptr().cast::<u8>();
    let across = args.outer_src.wrapping_add_unsigned(args.inner * args.inner_src);
    let down = args.outer_dst.wrapping_add_unsigned(args.inner * args.inner_dst);
    let bytes = args.inner * args.inner_dst;
    for first in (0..args.outer).step_by(ACROSS) {
        let count = ACROSS.min(args.outer - first);
        let (src, dst) =
            (args.src.wrapping_offset(across * first as isize), args.dst.wrapping_offset(down * first as isize));
        for inner in 0..args.inner {
            for column in 0..count {
                let from = src.wrapping_offset(across * column as isize).wrapping_add(inner * args.inner_src);
                let to = block.wrapping_add(column * SIDE * ROW + inner * args.inner_dst);
                // SAFETY: the caller's contract, tile by tile; the block has room for `ACROSS` tiles and `ROW` bytes.
                unsafe { tile::<SIDE>(from, args.src_stride, to, ROW) };
            }
        }
        for row in 0..count * SIDE {
            let (from, to) = (block.wrapping_add(row * ROW), dst.wrapping_add(row * args.dst_stride));
            // Prefetches the addresses to which the next tiles are stored.
            let next = to.wrapping_add(count * SIDE * args.dst_stride);
            prefetch(next);
            prefetch(next.wrapping_add(ROW / 2));
            // SAFETY: rows of the tiles that have just been transposed. A length known at compile time turns the call
            // into a few moves.
            unsafe {
                match bytes {
                    ROW => copy_nonoverlapping(from, to, ROW),
                    _ => copy_nonoverlapping(from, to, bytes),
                }
            }
        }
    }
}

/// Prefetches the cache line of an address, valid or not.
#[inline(always)]
fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it, and it never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn tile<const SIDE: usize>(src: *const u8, src_stride: usize, dst: *mut u8, dst_stride: usize) {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16,
        _mm_unpacklo_epi8, _mm_unpacklo_epi16,
    };

    /// A round: each row of `to` interleaves two rows of `from`. Loops over two arrays, which the compiler keeps in
    /// registers; an array that is replaced by another is moved through memory.
    #[inline(always)]
    fn interleave<const SIDE: usize>(from: &[__m128i; SIDE], to: &mut [__m128i; SIDE]) {
        for row in 0..SIDE / 2 {
            let (a, b) = (from[row], from[row + SIDE / 2]);
            // SAFETY: every x86-64 processor has these.
            (to[2 * row], to[2 * row + 1]) = unsafe {
                match SIDE {
                    16 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                    _ => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                }
            };
        }
    }

    // SAFETY: every x86-64 processor has it.
    let zero = unsafe { _mm_setzero_si128() };
    let (mut rows, mut other) = ([zero; SIDE], [zero; SIDE]);
    for (row, value) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's contract; any address will do.
        *value = unsafe { _mm_loadu_si128(src.wrapping_add(row * src_stride).cast()) };
    }
    interleave(&rows, &mut other);
    interleave(&other, &mut rows);
    interleave(&rows, &mut other);
    if SIDE == 16 {
        interleave(&other, &mut rows);
    }
    let turned = if SIDE == 16 { rows } else { other };
    for (row, value) in turned.into_iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe { _mm_storeu_si128(dst.wrapping_add(row * dst_stride).cast(), value) };
    }
}

/// Never called: drivers check [`AVAILABLE`] first.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn tile<const SIDE: usize>(_: *const u8, _: usize, _: *mut u8, _: usize) {
    unreachable!("tiles of bytes where there are none");
}
