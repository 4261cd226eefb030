//! Two kernels of [`emit`](super::emit) in Rust, for levels without JIT. Those levels do not stream: products take the
//! place of the streaming kernels.

use super::emit::{Adjust, RowState, ScaleArgs, WeighArgs};

/// Weights in place of scores.
///
/// # Safety
///
/// That of [`Kernels::weigh`](super::kernel::Kernels::weigh).
pub(super) unsafe fn weigh(adjust: Adjust, args: &WeighArgs) {
    for row in 0..args.rows {
        let seen = args.visible.get().saturating_add(args.step.saturating_mul(row as isize));
        let seen = usize::try_from(seen).unwrap_or(0).min(args.keys);
        // SAFETY: the caller vouches for rows of `keys` scores, and for a state each.
        let (scores, state) = unsafe {
            let scores = args.scores.wrapping_byte_add(row * args.stride);
            (std::slice::from_raw_parts_mut(scores, args.keys), &mut *args.state.wrapping_add(row))
        };
        let (scores, hidden) = scores.split_at_mut(seen);
        hidden.fill(0.0);
        // SAFETY: where they are read, mask and condition have an element for each key that a row sees.
        let (mask, keep) = unsafe {
            let part = |wanted: bool, start: *const f32, stride: usize| match wanted {
                true => std::slice::from_raw_parts(start.wrapping_byte_add(row * stride), seen),
                false => &[],
            };
            (part(adjust.mask, args.mask, args.mask_stride), part(adjust.select, args.keep, args.keep_stride))
        };
        for (key, score) in scores.iter_mut().enumerate() {
            if adjust.cap {
                *score = (*score * args.cap_inverse).tanh() * args.cap;
            }
            if keep.get(key).is_some_and(|keep| keep.to_bits() == 0) {
                *score = args.fill;
            }
            *score += mask.get(key).copied().unwrap_or(0.0);
        }
        exponentials(scores, state);
    }
}

fn exponentials(scores: &mut [f32], state: &mut RowState) {
    if scores.is_empty() {
        state.factor = 1.0;
        return;
    }
    let old = state.most;
    state.most = scores.iter().copied().fold(old, f32::max);
    let most = if state.most == f32::NEG_INFINITY { 0.0 } else { state.most };
    state.factor = (old - most).exp();
    let mut sum = 0.0;
    for score in scores {
        *score = (*score - most).exp();
        sum += *score;
    }
    state.sum = state.sum * state.factor + sum;
}

/// Rows times their factors.
///
/// # Safety
///
/// That of [`Kernels::scale`](super::kernel::Kernels::scale).
pub(super) unsafe fn scale(args: &ScaleArgs) {
    for row in 0..args.rows {
        // SAFETY: the caller vouches for rows of `columns` elements, and for a state each.
        unsafe {
            let from = args.from.wrapping_byte_add(row * args.from_stride);
            let to = args.to.wrapping_add(row * args.to_stride).cast::<f32>();
            let factor = (*args.state.wrapping_add(row)).factor;
            (0..args.columns).for_each(|column| *to.add(column) = *from.add(column) * factor);
        }
    }
}
