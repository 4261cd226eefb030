//! The depthwise kernel in Rust: the contract of [`RowArgs`], loop by loop.

use super::{DepthwiseCode, MOST_POSITIONS, RowArgs};
use crate::reference::chain::unary;

/// Channels done at a time, a constant so that the inner loops become vector code.
const LANES: usize = 8;

/// Computes the stretch that `args` describes.
///
/// # Safety
///
/// Taps point at readable inputs and weights for every position and channel, the outputs are writable and no
/// other task's, bias and residual are readable, and blocks have at most [`MOST_POSITIONS`] positions.
pub(super) unsafe fn row(key: &DepthwiseCode, args: &RowArgs) {
    for _ in 0..args.blocks.get() {
        let whole = args.whole / 4;
        for channel in (0..whole).step_by(LANES) {
            // SAFETY: the caller's contract.
            unsafe { vector(key, args, channel, LANES) };
        }
        if args.rest > 0 {
            // SAFETY: as above.
            unsafe { vector(key, args, whole, args.rest) };
        }
        args.x_offset.set(args.x_offset.get() + args.x_block);
        args.y.set(args.y.get().wrapping_byte_add(args.y_block));
    }
}

/// `lanes` channels of one block.
unsafe fn vector(key: &DepthwiseCode, args: &RowArgs, channel: usize, lanes: usize) {
    let positions = args.positions.min(MOST_POSITIONS);
    let mut sums = [[0.0f32; LANES]; MOST_POSITIONS];
    // SAFETY: from first to last tap is one array.
    let taps = unsafe { std::slice::from_raw_parts(args.taps, args.taps_end.offset_from_unsigned(args.taps)) };
    // SAFETY: all addresses below are those of the caller's contract, `lanes` channels from `channel`.
    unsafe {
        if !args.bias.is_null() {
            let bias = std::slice::from_raw_parts(args.bias.add(channel), lanes);
            sums.iter_mut().for_each(|sums| sums[..lanes].copy_from_slice(bias));
        }
        for tap in taps {
            let weights = std::slice::from_raw_parts(tap.weights.add(channel), lanes);
            for (position, sums) in sums[..positions].iter_mut().enumerate() {
                let at = args.x_offset.get() + position * args.x_stride;
                let x = std::slice::from_raw_parts(tap.x.byte_add(at).cast::<f32>().add(channel), lanes);
                for ((sum, x), weight) in sums.iter_mut().zip(x).zip(weights) {
                    *sum += x * weight;
                }
            }
        }
        for (position, sums) in sums[..positions].iter().enumerate() {
            let y = args.y.get().byte_add(position * args.y_stride).cast::<f32>().add(channel);
            for (lane, &sum) in sums[..lanes].iter().enumerate() {
                let mut value = sum;
                if args.residual != 0 {
                    value += *y.add(lane).cast_const().wrapping_byte_offset(args.residual_offset);
                }
                y.add(lane).write(key.activation.map_or(value, |op| unary(op, value)));
            }
        }
    }
}
