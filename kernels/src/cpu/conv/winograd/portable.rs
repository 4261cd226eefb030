//! The transforms in Rust: the contracts of [`InputArgs`] and [`OutputArgs`], loop by loop, over the same matrices.

use super::args::{InputArgs, OutputArgs};
use super::matrices::{MOST_SIDE, Rows, WinogradTile};
use crate::cpu::chain::UnaryOp;
use crate::reference::chain::unary;

/// Channels done at a time, a constant so that the inner loops become vector code.
const LANES: usize = 8;

type Lanes = [f32; LANES];

/// A tile's vectors, row by row.
type Square = [[Lanes; MOST_SIDE]; MOST_SIDE];

/// The sums of `values` with the factors of `row`.
fn sum(row: &[f32], values: impl Fn(usize) -> Lanes) -> Lanes {
    let mut sums = [0.0; LANES];
    for (index, &factor) in row.iter().enumerate().filter(|(_, factor)| **factor != 0.0) {
        sums.iter_mut().zip(values(index)).for_each(|(sum, value)| *sum += factor * value);
    }
    sums
}

/// The matrix applied to the columns and to the rows of a square.
fn transform(rows: Rows, from: &Square) -> Square {
    let side = rows[0].len();
    let mut half = Square::default();
    for (row, half) in rows.iter().zip(&mut half) {
        for (column, half) in half[..side].iter_mut().enumerate() {
            *half = sum(row, |index| from[index][column]);
        }
    }
    let mut whole = Square::default();
    for (half, whole) in half.iter().zip(&mut whole[..rows.len()]) {
        for (row, whole) in rows.iter().zip(whole) {
            *whole = sum(row, |index| half[index]);
        }
    }
    whole
}

/// The parts of `whole` bytes and `rest` elements that are done at a time: first element and lanes.
fn parts(whole: usize, rest: usize) -> impl Iterator<Item = (usize, usize)> {
    let total = whole / 4 + rest;
    (0..total).step_by(LANES).map(move |first| (first, LANES.min(total - first)))
}

/// Transforms the inputs that `args` describes.
///
/// # Safety
///
/// The table's pointers are readable over the channels. Rows of points are writable over whole vectors, and no other
/// task touches them.
pub(super) unsafe fn input(tile: WinogradTile, args: &InputArgs) {
    let side = tile.side();
    for index in 0..args.tiles {
        let table = args.table.wrapping_add(index * tile.points());
        for (first, lanes) in parts(args.whole, args.rest) {
            let mut from = Square::default();
            for (row, from) in from[..side].iter_mut().enumerate() {
                for (column, from) in from[..side].iter_mut().enumerate() {
                    // SAFETY: the caller's contract.
                    let place = unsafe {
                        std::slice::from_raw_parts((*table.add(row * side + column)).cast::<f32>().add(first), lanes)
                    };
                    from[..lanes].copy_from_slice(place);
                }
            }
            let points = transform(tile.input(), &from);
            for point in 0..tile.points() {
                let to =
                    args.to.wrapping_byte_add(index * args.to_stride + point * args.point_stride).wrapping_add(first);
                // SAFETY: a whole vector of this point's row, at any address.
                unsafe { to.cast::<Lanes>().write_unaligned(points[point / side][point % side]) };
            }
        }
    }
}

/// Transforms the products that `args` describes.
///
/// # Safety
///
/// Rows of points are readable over whole vectors. Outputs that exist are writable over the channels, no other task
/// touches them, and the residual is readable there.
pub(super) unsafe fn output(tile: WinogradTile, activation: Option<UnaryOp>, args: &OutputArgs) {
    let (side, outputs) = (tile.side(), tile.outputs());
    for index in 0..args.tiles {
        let table = args.table.wrapping_add(index * outputs * outputs);
        for (first, lanes) in parts(args.whole, args.rest) {
            let mut from = Square::default();
            for point in 0..tile.points() {
                let at = args.from.wrapping_byte_add(index * args.from_stride + point * args.point_stride);
                // SAFETY: a whole vector of this point's row, at any address.
                from[point / side][point % side] = unsafe { at.wrapping_add(first).cast::<Lanes>().read_unaligned() };
            }
            let results = transform(tile.output(), &from);
            for output in 0..outputs * outputs {
                // SAFETY: the table has a pointer for each output.
                let place = unsafe { *table.add(output) };
                if place.is_null() {
                    continue;
                }
                let place = place.wrapping_add(args.column).cast::<f32>().wrapping_add(first);
                let values = &results[output / outputs][output % outputs];
                for (lane, &value) in values[..lanes].iter().enumerate() {
                    let to = place.wrapping_add(lane);
                    let mut value = value;
                    if args.residual != 0 {
                        // SAFETY: the residual is readable where the output is writable.
                        value += unsafe { *to.cast_const().wrapping_byte_offset(args.residual_offset) };
                    }
                    // SAFETY: the output exists.
                    unsafe { to.write(activation.map_or(value, |op| unary(op, value))) };
                }
            }
        }
    }
}
