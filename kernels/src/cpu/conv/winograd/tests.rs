//! The matrices exactly, the transforms and whole convolutions against sums in `f64`, at every level that runs here.

use super::super::{Conv, ConvBlocks, ConvExtras, ConvShape, ConvStored};
use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels, packed, packed_mut};
use crate::cpu::precision::{from_bf16, to_bf16};
use crate::cpu::{Activations, ActivationsMut, Elements, EmitEach, Numerics, PackedWeights, PackedWeightsMut, Stored};
use crate::reference;

/// The value in fifteenths: every product of the three matrices is a multiple of 1/15, times a power of two.
fn fifteenths(value: f64) -> i64 {
    let scaled = value * 15.0 * 65536.0;
    let whole = scaled.round();
    // Products of `G` are rounded, so its thirds and fifteenths are near the true values, not equal to them.
    assert!((scaled - whole).abs() < 1e-6, "{value} is no multiple of a power of two over 15");
    whole as i64
}

#[test]
fn the_matrices_compute_a_filter_exactly() {
    for tile in WinogradTile::ALL {
        for output in 0..tile.outputs() {
            for tap in 0..3 {
                for input in 0..tile.side() {
                    let factor: i64 = (0..tile.side())
                        .map(|point| {
                            let [a, b] = [tile.output()[output][point], tile.input()[point][input]].map(f64::from);
                            fifteenths(tile.filter()[point][tap]) * (a * 8.0) as i64 * (b * 8.0) as i64
                        })
                        .sum();
                    // Output `i` is the sum of inputs `i + tap` times taps.
                    let expected = if input == output + tap { 15 * 65536 * 64 } else { 0 };
                    assert_eq!(factor, expected, "{tile:?}: output {output}, tap {tap}, input {input}");
                }
            }
        }
    }
}

#[test]
fn every_row_has_a_column_taken_as_it_is_and_the_bias_point_reaches_all_outputs() {
    for tile in WinogradTile::ALL {
        for rows in [tile.input(), tile.output()] {
            assert!(rows.iter().all(|row| row.len() == tile.side() && row.contains(&1.0)));
        }
        assert!(tile.output().iter().all(|row| row[tile.bias_point() % tile.side()] == 1.0));
        assert_eq!(tile.bias_point() / tile.side(), tile.bias_point() % tile.side());
    }
}

/// A 3x3 convolution of images.
struct Images {
    batch: u64,
    channels: u64,
    filters: u64,
    /// Height and width.
    input: [u64; 2],
    pad: u64,
    /// Outputs beyond those that padding on both sides gives.
    beyond: u64,
}

impl Images {
    fn shape(&self) -> ConvShape {
        let [height, width] = self.input;
        let out = |size: u64| size + 2 * self.pad - 2 + self.beyond;
        ConvShape {
            batch: self.batch,
            channels: self.channels,
            filters: self.filters,
            groups: 1,
            input: [1, height, width],
            output: [1, out(height), out(width)],
            kernel: [1, 3, 3],
            strides: [1; 3],
            dilations: [1; 3],
            pads: [0, self.pad, self.pad],
            transposed: false,
        }
    }
}

/// Images whose outputs are of their own size.
fn shape(batch: u64, channels: u64, filters: u64, input: [u64; 2]) -> ConvShape {
    Images { batch, channels, filters, input, pad: 1, beyond: 0 }.shape()
}

/// Numbers between -1 and 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Runs a shape on tiles and compares: every output must be within the tile's bound of the exact one, in units of the
/// outputs' root mean square.
fn check(isa: Isa, tile: WinogradTile, shape: ConvShape, activation: Option<UnaryOp>, change: fn(&mut ConvBlocks)) {
    let mut blocks = ConvBlocks::winograd(isa, &shape, Elements::F32, tile, 2).unwrap();
    change(&mut blocks);
    let (x, weights) = (numbers(shape.input_len(), 1), numbers(shape.weights().len(), 2));
    let (bias, residual) = (numbers(shape.filters(), 3), numbers(shape.output_len(), 4));
    let layout = blocks.layout();
    let mut packed = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
    shape.weights().pack(isa, layout, &weights, PackedWeightsMut::F32(&mut packed)).unwrap();
    let plain = reference::conv::conv(&shape, &x, &weights);
    let scale = (plain.iter().map(|y| y * y).sum::<f32>() / plain.len() as f32).sqrt().max(1.0);
    let bound = scale * if tile == WinogradTile::Two { 4e-6 } else { 2e-5 };
    let (x, packed) = (Poisoned::new(&x), Poisoned::new(&packed));
    let (bias_data, residual_data) = (Poisoned::new(&bias), Poisoned::new(&residual));
    for (with_bias, with_residual) in [(false, false), (true, false), (true, true)] {
        let conv = Conv::new(isa, shape, blocks, activation, &EmitEach).unwrap();
        let extras = ConvExtras {
            bias: with_bias.then(|| bias_data.inside()),
            residual: with_residual.then(|| residual_data.inside()),
        };
        let mut scratch = Canaried::new(conv.scratch_len());
        let mut y = Canaried::new(shape.output_len());
        conv.run(x.inside(), PackedWeights::F32(packed.inside()), y.inside(), extras, scratch.inside(), &Scoped)
            .unwrap();
        let y = y.open();
        if with_residual {
            let mut over = Canaried::new(shape.output_len());
            over.inside().copy_from_slice(&residual);
            let (x, to, bias) = (x.inside().into(), over.inside().into(), extras.bias);
            conv.run_over_residual(x, PackedWeights::F32(packed.inside()), to, bias, scratch.inside(), &Scoped)
                .unwrap();
            assert_eq!(over.open(), y, "over the residual: {isa} {blocks:?} {shape:?}");
        }
        scratch.open();
        for (index, (&found, &plain)) in y.iter().zip(&plain).enumerate() {
            let mut expected = plain;
            expected += if with_bias { bias[index % shape.filters()] } else { 0.0 };
            expected += if with_residual { residual[index] } else { 0.0 };
            expected = activation.map_or(expected, |op| reference::chain::unary(op, expected));
            let error = (found - expected).abs();
            assert!(error <= bound, "{isa} {blocks:?} {shape:?}: {found} for {expected} at {index}");
        }
    }
}

fn emulated(isa: Isa) -> bool {
    isa > Isa::detect()
}

/// Small sizes of all kinds, drawn at random but always the same.
fn cases(count: usize) -> impl Iterator<Item = ConvShape> {
    let mut state = 88_172_645_463_325_252u64;
    let mut draw = move |from: u64, to: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        from + (state >> 33) % (to - from + 1)
    };
    std::iter::repeat_with(move || {
        let pad = draw(0, 2);
        // Without padding an input must be as large as the kernel.
        let least = 3 - 2 * pad.min(1);
        let input = [draw(least, 15), draw(least, 15)];
        let (batch, channels, filters) = (draw(1, 3), draw(1, 40), draw(1, 40));
        Images { batch, channels, filters, input, pad, beyond: draw(0, 2) }.shape()
    })
    .take(count)
}

#[test]
fn random_shapes_are_near_the_exact_sums() {
    for isa in levels() {
        for shape in cases(if emulated(isa) { 4 } else { 60 }) {
            for tile in WinogradTile::ALL {
                check(isa, tile, shape, Some(UnaryOp::Relu), |_| ());
            }
        }
    }
}

/// Runs a shape with weights of these elements and activations of these types, and compares: outputs in `bf16` may be
/// one rounding further off.
fn check_stored(elements: Elements, stored: ConvStored, tile: WinogradTile, shape: ConvShape, op: Option<UnaryOp>) {
    let isa = Isa::Avx512;
    let blocks = ConvBlocks::winograd(isa, &shape, elements, tile, 2).unwrap();
    let halves = |count: usize, seed: u64| numbers(count, seed).into_iter().map(to_bf16).collect::<Vec<u16>>();
    let widened = |halves: &[u16]| halves.iter().copied().map(from_bf16).collect::<Vec<f32>>();
    let (x, weights) = (halves(shape.input_len(), 1), widened(&halves(shape.weights().len(), 2)));
    let (bias, residual) = (numbers(shape.filters(), 3), halves(shape.output_len(), 4));
    let layout = blocks.layout();
    let mut panels = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
    shape.weights().pack(isa, layout, &weights, packed_mut(elements, &mut panels)).unwrap();
    let (wide_x, wide_residual, panels) = (widened(&x), widened(&residual), Poisoned::new(&panels));
    let [half_x, half_residual] = [&x, &residual].map(|halves| Poisoned::new(halves));
    let [full_x, full_residual] = [&wide_x, &wide_residual].map(|floats| Poisoned::new(floats));
    let expected = reference::conv::conv(&shape, &wide_x, &weights);
    let scale = (expected.iter().map(|y| y * y).sum::<f32>() / expected.len() as f32).sqrt().max(1.0);
    let conv = Conv::stored(isa, shape, blocks, stored, op, &EmitEach).unwrap();
    let mut scratch = Canaried::new(conv.scratch_len());
    let (mut y, mut half_y) = (Canaried::new(shape.output_len()), Canaried::<u16>::new(shape.output_len()));
    let input = match stored.input {
        Stored::F32 => Activations::F32(full_x.inside()),
        Stored::Bf16 => Activations::Bf16(half_x.inside()),
    };
    let added = match stored.residual {
        Stored::F32 => Activations::F32(full_residual.inside()),
        Stored::Bf16 => Activations::Bf16(half_residual.inside()),
    };
    let to = match stored.output {
        Stored::F32 => ActivationsMut::F32(y.inside()),
        Stored::Bf16 => ActivationsMut::Bf16(half_y.inside()),
    };
    let extras = ConvExtras { bias: Some(&bias[..]), residual: Some(added) };
    let weights = packed(elements, panels.inside());
    conv.run_stored(input.into(), weights, to, extras, scratch.inside(), &Scoped).unwrap();
    scratch.open();
    let (found, step) = match stored.output {
        Stored::F32 => (y.open(), 0.0),
        Stored::Bf16 => (widened(&half_y.open()), 1.0 / 256.0),
    };
    for (index, (&found, &plain)) in found.iter().zip(&expected).enumerate() {
        let expected = plain + bias[index % shape.filters()] + wide_residual[index];
        let expected = op.map_or(expected, |op| reference::chain::unary(op, expected));
        let error = (found - expected).abs();
        let most = scale * 2e-5 + step * expected.abs();
        assert!(error <= most, "{blocks:?} {stored:?} {shape:?}: {found} for {expected} at {index}");
    }
}

#[test]
fn weights_in_pairs_and_activations_in_bf16_are_widened() {
    if !Isa::Avx512.usable() {
        return;
    }
    let (f32, bf16) = (Stored::F32, Stored::Bf16);
    let types = [[bf16, bf16, bf16], [f32, f32, bf16], [bf16, bf16, f32], [bf16, f32, bf16], [f32, f32, f32]];
    let few = if emulated(Isa::Avx512) { 1 } else { types.len() };
    for [input, residual, output] in types.into_iter().take(few) {
        let stored = ConvStored { input, residual, output };
        for tile in WinogradTile::ALL {
            // Silu needs more registers than are free, so outputs that are to be rounded wait on the stack.
            for op in [None, Some(UnaryOp::Relu), Some(UnaryOp::Silu)] {
                check_stored(Elements::F32, stored, tile, shape(1, 5, 19, [5, 6]), op);
                check_stored(Elements::Bf16Dot, stored, tile, shape(1, 6, 19, [5, 6]), op);
            }
            for [channels, filters] in [[34, 200], [64, 48], [2, 16]] {
                check_stored(Elements::Bf16Dot, stored, tile, shape(2, channels, filters, [13, 9]), None);
            }
        }
    }
}

#[test]
fn many_channels_stay_within_the_bound() {
    for isa in levels().into_iter().filter(|&isa| !emulated(isa)) {
        for tile in WinogradTile::ALL {
            check(isa, tile, shape(1, 256, 32, [8, 12]), None, |_| ());
            check(isa, tile, shape(1, 512, 24, [7, 7]), None, |_| ());
        }
    }
}

#[test]
fn any_cut_of_the_work_gives_the_same_result() {
    let cuts: [fn(&mut ConvBlocks); 5] = [
        |blocks| (blocks.row_block, blocks.row_tasks, blocks.unit_tasks) = (1, 1, 1),
        |blocks| (blocks.row_block, blocks.row_tasks, blocks.unit_tasks) = (2, 5, 1),
        |blocks| (blocks.row_block, blocks.row_tasks, blocks.unit_tasks) = (3, 2, 2),
        |blocks| (blocks.row_block, blocks.row_tasks, blocks.unit_tasks) = (65536, 1, 3),
        |blocks| (blocks.row_block, blocks.vectors) = (7, 1),
    ];
    for isa in levels() {
        for change in cuts {
            let filters = 3 * isa.lanes() as u64 * 4 - 3;
            check(isa, WinogradTile::Two, shape(1, 9, filters, [9, 7]), Some(UnaryOp::Relu), change);
            if !emulated(isa) {
                check(isa, WinogradTile::Four, shape(2, 17, filters, [18, 17]), Some(UnaryOp::Silu), change);
            }
        }
    }
}

#[test]
fn activations_of_all_lengths_are_applied_to_outputs_that_exist() {
    let clip = UnaryOp::Clip { lo: (-0.5).into(), hi: 0.75.into() };
    for isa in levels() {
        for op in [clip, UnaryOp::HardSwish, UnaryOp::Silu, UnaryOp::Tanh, UnaryOp::GeluTanh] {
            for tile in WinogradTile::ALL {
                check(isa, tile, shape(1, 5, 19, [5, 6]), Some(op), |_| ());
            }
        }
    }
}

#[test]
fn planes_of_a_volume_are_images_of_a_batch() {
    for isa in levels() {
        let mut solid = shape(2, 6, 10, [5, 6]);
        (solid.input[0], solid.output[0]) = (3, 3);
        check(isa, WinogradTile::Four, solid, None, |_| ());
    }
}

#[test]
fn shapes_that_have_no_tiles_and_cuts_without_work_are_refused() {
    let good = shape(1, 8, 16, [9, 9]);
    let isa = Isa::Portable;
    let blocks = ConvBlocks::winograd(isa, &good, Elements::F32, WinogradTile::Four, 1).unwrap();
    assert!(blocks.fits(&good, isa));
    let bad: [fn(&mut ConvShape); 6] = [
        |shape| shape.strides[2] = 2,
        |shape| shape.dilations[1] = 2,
        |shape| shape.kernel[2] = 5,
        |shape| shape.groups = 2,
        |shape| shape.transposed = true,
        |shape| shape.pads[0] = 1,
    ];
    for change in bad {
        let mut shape = good;
        change(&mut shape);
        assert!(!blocks.fits(&shape, isa), "{shape:?}");
        assert!(ConvBlocks::winograd(isa, &shape, Elements::F32, WinogradTile::Four, 1).is_none());
        assert!(Conv::new(isa, shape, blocks, None, &EmitEach).is_err());
    }
    let cuts: [fn(&mut ConvBlocks); 5] = [
        |blocks| blocks.row_block = 0,
        |blocks| blocks.row_tasks = 10,
        |blocks| blocks.unit_tasks = 2,
        |blocks| blocks.vectors = 7,
        |blocks| (blocks.row_tasks, blocks.unit_tasks) = (1 << 16, 1 << 16),
    ];
    for change in cuts {
        let mut blocks = blocks;
        change(&mut blocks);
        assert!(!blocks.fits(&good, isa), "{blocks:?}");
    }
}

#[test]
fn a_policy_allows_what_it_says() {
    let shape = shape(1, 128, 128, [28, 28]);
    for isa in levels() {
        for numerics in [Numerics::Strict, Numerics::Precise, Numerics::Default] {
            let blocks = ConvBlocks::pick(isa, &shape, Elements::F32, numerics, 1);
            assert!(blocks.allowed(numerics) && blocks.fits(&shape, isa));
            let tiles =
                WinogradTile::ALL.map(|tile| ConvBlocks::winograd(isa, &shape, Elements::F32, tile, 1).unwrap());
            let allowed = tiles.map(|blocks| blocks.allowed(numerics));
            assert_eq!(allowed, [numerics > Numerics::Strict, numerics > Numerics::Precise]);
        }
    }
}
