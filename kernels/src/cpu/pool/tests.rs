//! Every implementation of pooling against the reference, at every level, in both layouts, with margins of NaN around
//! the output.

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::precision::from_bf16;
use crate::parallel::Serial;

/// Pseudo-random values that have few bits.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i.wrapping_mul(0x9e37_79b9) >> 13) % 2001) as f32 / 500.0 - 2.0).collect()
}

fn axis(input: u64, kernel: u64, stride: u64, dilation: u64, before: u64, after: u64, ceil: bool) -> Option<Window> {
    let span = (kernel - 1) * dilation + 1;
    let room = (input + before + after).checked_sub(span)?;
    let output = if ceil { room.div_ceil(stride) } else { room / stride } + 1;
    Some(Window { input, output, kernel, stride, dilation, before, after })
}

const KINDS: [PoolKind; 6] = [
    PoolKind::Max,
    PoolKind::Average { include_pad: false },
    PoolKind::Average { include_pad: true },
    PoolKind::Lp { p: 1 },
    PoolKind::Lp { p: 2 },
    PoolKind::Lp { p: 3 },
];

/// Runs the fastest implementation of one level and compares it with the reference; false where the level cannot run
/// here.
fn check(kind: PoolKind, shape: &PoolShape, isa: Isa, tasks: usize) -> bool {
    let path = Path::pick(kind, shape, isa);
    let pool = match Pool::new(kind, *shape, isa, path, tasks, &EmitEach) {
        Err(KernelError::IsaMissing(_)) => return false,
        other => other.unwrap(),
    };
    let input = values(shape.inputs());
    let mut want = vec![0.0; shape.outputs()];
    reference::pool::pool(kind, shape, &input, &mut want);
    const CANARY: usize = 32;
    let mut output = vec![f32::NAN; want.len() + CANARY];
    pool.run(&input, &mut output, &Serial).unwrap();
    for (index, (&got, &want)) in output.iter().zip(&want).enumerate() {
        let close = got == want || (got - want).abs() <= 1e-6 + 2e-6 * want.abs();
        assert!(close, "{index}: {got} for {want}; {kind:?} of {shape:?} by {path:?} at {isa}");
    }
    assert!(output[want.len()..].iter().all(|value| value.is_nan()), "{shape:?} wrote past its end");
    true
}

#[test]
fn windows_of_every_form_agree_with_the_reference() {
    let axes: Vec<Window> = [
        axis(7, 3, 2, 1, 1, 1, false),
        axis(6, 2, 2, 1, 0, 0, false),
        axis(5, 2, 2, 1, 0, 0, true),
        axis(9, 3, 1, 2, 2, 0, false),
        axis(4, 4, 1, 1, 0, 0, false),
        axis(3, 2, 1, 1, 0, 3, true),
        axis(1, 1, 1, 1, 0, 0, false),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(axes.len(), 7);
    for isa in Isa::ALL {
        for channels_last in [false, true] {
            for (index, &width) in axes.iter().enumerate() {
                let height = axes[(index + 2) % axes.len()];
                let depth = if index % 3 == 0 { axes[(index + 1) % axes.len()] } else { Window::NONE };
                let shape = PoolShape { batch: 2, channels: 5, axes: [depth, height, width], channels_last };
                for kind in KINDS {
                    check(kind, &shape, isa, 1 + index);
                }
            }
        }
    }
}

#[test]
fn channels_around_every_vector_border_agree_with_the_reference() {
    let window = axis(5, 3, 1, 1, 1, 1, false).unwrap();
    for isa in [Isa::Avx2, Isa::Avx512] {
        for channels in [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 100, 128, 129, 150] {
            let shape = PoolShape { batch: 1, channels, axes: [Window::NONE, window, window], channels_last: true };
            for kind in KINDS {
                check(kind, &shape, isa, 3);
            }
        }
    }
}

#[test]
fn whole_images_are_one_window() {
    let whole = |size| axis(size, size, 1, 1, 0, 0, false).unwrap();
    for isa in Isa::ALL {
        for (channels_last, channels) in [(true, 1), (true, 70), (false, 3)] {
            for (height, width) in [(7, 7), (1, 1000), (1, 3), (60, 41)] {
                let axes = [Window::NONE, whole(height), whole(width)];
                let shape = PoolShape { batch: 2, channels, axes, channels_last };
                for kind in KINDS {
                    check(kind, &shape, isa, 4);
                }
            }
        }
    }
}

#[test]
fn what_is_not_a_number_is_passed_over_and_windows_of_padding_hold_nothing() {
    let window = axis(2, 1, 1, 1, 1, 1, false).unwrap();
    for isa in Isa::ALL {
        for channels_last in [false, true] {
            let axes = [Window::NONE, Window::NONE, window];
            let shape = PoolShape { batch: 1, channels: 1, axes, channels_last };
            let pool = |kind| {
                let path = Path::pick(kind, &shape, isa);
                Pool::new(kind, shape, isa, path, 1, &EmitEach).ok().map(|pool| {
                    let mut output = [7.0f32; 4];
                    pool.run(&[f32::NAN, 3.0], &mut output, &Serial).unwrap();
                    output
                })
            };
            let least = f32::NEG_INFINITY;
            let Some(max) = pool(PoolKind::Max) else { continue };
            assert_eq!(max, [least, least, 3.0, least], "{isa}");
            assert_eq!(pool(PoolKind::Average { include_pad: false }).map(|mean| mean[3]), Some(0.0), "{isa}");
        }
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let window = axis(4, 2, 2, 1, 0, 0, false).unwrap();
    let axes = [Window::NONE, window, window];
    let shape = PoolShape { batch: 1, channels: 2, axes, channels_last: true };
    let new = |kind, shape, path| Pool::new(kind, shape, Isa::Portable, path, 1, &EmitEach);
    let pool = new(PoolKind::Max, shape, Path::Reference).unwrap();
    assert!(matches!(pool.run(&[0.0; 31], &mut [0.0; 8], &Serial), Err(KernelError::Bounds { .. })));
    assert!(matches!(pool.run(&[0.0; 32], &mut [0.0; 7], &Serial), Err(KernelError::Bounds { .. })));
    let huge = PoolShape { axes: [Window { input: 1 << 40, ..window }; 3], ..shape };
    let still = PoolShape { axes: [Window { stride: 0, ..window }; 3], ..shape };
    for (kind, shape, path) in [
        (PoolKind::Max, huge, Path::Reference),
        (PoolKind::Max, still, Path::Reference),
        (PoolKind::Lp { p: 0 }, shape, Path::Reference),
        (PoolKind::Max, shape, Path::Code),
        (PoolKind::Max, shape, Path::Planar),
    ] {
        assert!(matches!(new(kind, shape, path), Err(KernelError::Unsupported { .. })), "{kind:?} {shape:?} {path:?}");
    }
}

/// `bf16` is widened, pooled as `f32`, and rounded once.
#[test]
fn halves_are_pooled_as_what_they_stand_for() {
    let isa = Isa::Avx512;
    if !isa.usable() {
        return;
    }
    let windows = [axis(7, 3, 2, 1, 1, 1, false), axis(6, 2, 2, 1, 0, 0, false), axis(3, 2, 1, 1, 0, 3, true)];
    for (index, width) in windows.into_iter().flatten().enumerate() {
        for channels in [1, 15, 16, 17, 144, 160] {
            let axes = [Window::NONE, axis(5, 3, 1, 1, 1, 1, false).unwrap(), width];
            let shape = PoolShape { batch: 2, channels, axes, channels_last: true };
            for kind in [PoolKind::Max, PoolKind::Average { include_pad: false }] {
                let tasks = 1 + index * 2;
                let pool = Pool::stored(kind, shape, isa, Path::Code, Stored::Bf16, tasks, &EmitEach).unwrap();
                let halves: Vec<u16> = values(shape.inputs()).into_iter().map(to_bf16).collect();
                let input: Vec<f32> = halves.iter().copied().map(from_bf16).collect();
                let mut want = vec![0.0; shape.outputs()];
                reference::pool::pool(kind, &shape, &input, &mut want);
                let mut output = vec![0xABCD; want.len() + 32];
                let (from, to) = (Activations::Bf16(&halves), ActivationsMut::Bf16(&mut output));
                pool.run_stored(from, to, &Serial).unwrap();
                for (&got, &want) in output.iter().zip(&want) {
                    // Sums in another order may lie on the other side of a tie.
                    let got = from_bf16(got);
                    let most = if kind == PoolKind::Max { 0.0 } else { want.abs() / 128.0 + 1e-6 };
                    assert!(got == want || (got - want).abs() <= most, "{got} for {want}: {kind:?} of {shape:?}");
                }
                assert!(output[want.len()..].iter().all(|&half| half == 0xABCD), "{shape:?} wrote past its end");
            }
        }
    }
    let shape = PoolShape { batch: 1, channels: 3, axes: [Window::NONE; 3], channels_last: false };
    for path in [Path::Planar, Path::Reference] {
        assert!(Pool::stored(PoolKind::Max, shape, isa, path, Stored::Bf16, 1, &EmitEach).is_err());
    }
}
