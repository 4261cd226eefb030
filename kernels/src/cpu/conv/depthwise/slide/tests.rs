//! The memory that a call declares to touch, by hand-made arguments of a window of seven columns.

use super::*;
use crate::cpu::EmitEach;
use crate::jit::interpreted;

const CHANNELS: usize = 8;

const KEY: SlideCode =
    SlideCode { isa: Isa::Avx2, kernel: [1, 7], strides: [1, 1], activation: None, stored: Stored::F32 };

/// Runs a block of `positions` over a line of `columns`; the call is lent `outputs` output positions.
fn run(columns: usize, positions: usize, outputs: usize) -> Vec<f32> {
    let (x, weights) = (vec![1.0f32; columns * CHANNELS], vec![1.0f32; 7 * CHANNELS]);
    let mut y = vec![0.0f32; outputs * CHANNELS];
    let given = Given::new().read("input", &x).read("weights", &weights).write("output", &mut y);
    let mut lines = [std::ptr::null(); MOST_LINES];
    lines[0] = x.as_ptr().cast();
    let args = SlideArgs {
        lines,
        rows: 1,
        start: 0,
        step: CHANNELS * 4,
        missing: 0,
        ending: KEY.tail(),
        steady: positions.wrapping_sub(KEY.flight() - 1),
        positions,
        y: y.as_mut_ptr().cast(),
        y_row: 0,
        weights: weights.as_ptr(),
        bias: std::ptr::null(),
        channel: Cell::new(0),
        last: 0,
        first: Cell::new(Lanes([0.0; MOST_LANES])),
        table: Cell::new(MaybeUninit::uninit()),
    };
    let code = EmitEach.code(&CodeKey::Slide(KEY)).unwrap();
    // SAFETY: the buffers above are listed as given; a call that touches anything else does not begin.
    interpreted(|| unsafe { code.call(&args, &KEY, &given) });
    y
}

#[test]
fn a_block_inside_of_its_line_runs() {
    assert_eq!(run(12, 6, 6), vec![7.0; 6 * CHANNELS]);
    assert_eq!(run(20, 14, 14), vec![7.0; 14 * CHANNELS]);
}

#[test]
#[should_panic(expected = "depthwise: reads input -1 times")]
fn a_block_shorter_than_what_its_first_steps_start_is_refused() {
    run(12, 2, 6);
}

#[test]
#[should_panic(expected = "depthwise: reads 384 bytes of input")]
fn a_block_whose_window_leaves_the_line_is_refused() {
    run(11, 6, 6);
}

#[test]
#[should_panic(expected = "depthwise: writes 192 bytes of output")]
fn a_block_of_more_positions_than_were_lent_is_refused() {
    run(12, 6, 5);
}
