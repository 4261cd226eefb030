//! Every candidate of many shapes: different from the others, accepted, and right.

use proptest::prelude::*;

use crate::cpu::canaries::{Canaried, Poisoned, Scoped, integers, levels, packed, packed_mut};
use crate::cpu::conv::{self, Conv, ConvBlocks, ConvExtras, ConvShape};
use crate::cpu::numerics::Numerics;
use crate::cpu::{Elements, EmitEach};
use crate::isa::Isa;
use crate::reference;

/// Sizes in two dimensions, small where instructions are interpreted.
fn shapes(isa: Isa) -> impl Strategy<Value = ConvShape> {
    let (widest, largest) = if isa > Isa::detect() { (36u64, 6u64) } else { (70, 13) };
    let sizes = (1..=2u64, 1..=widest, 1..=widest, 2..=largest, 2..=largest);
    // Mostly one group and neighbouring taps: most candidates are there.
    let kind = (0..10u32, 1..=2u64, 1..=3u64, 0..=1u64);
    (sizes, kind).prop_map(|((batch, channels, filters, height, width), (kind, stride, side, pad))| {
        let (kernel, stride, pad) = if kind < 5 { (3, 1, 1) } else { (side, stride, pad) };
        let groups = if kind == 9 { channels } else { 1 };
        let filters = if kind == 9 { channels } else { filters };
        let transposed = kind == 8;
        let (kernel, pad) = (kernel.min(height).min(width), pad.min(kernel - 1));
        let out = |size: u64| match transposed {
            true => (size - 1) * stride + kernel - 2 * pad.min((size - 1) * stride / 2),
            false => (size + 2 * pad - kernel) / stride + 1,
        };
        ConvShape {
            batch,
            channels,
            filters,
            groups,
            input: [1, height, width],
            output: [1, out(height), out(width)],
            kernel: [1, kernel, kernel],
            strides: [1, stride, stride],
            dilations: [1; 3],
            pads: [0, pad, pad],
            transposed,
        }
    })
}

fn check(isa: Isa, shape: &ConvShape, elements: Elements, numerics: Numerics, threads: usize) {
    let candidates = ConvBlocks::candidates(isa, shape, elements, numerics, threads, 24);
    assert_eq!(candidates[0], ConvBlocks::pick(isa, shape, elements, numerics, threads));
    let x = integers(shape.input_len(), 1);
    let weights = integers(shape.weights().len(), 2);
    let expected = reference::conv::conv(shape, &x, &weights);
    let rms = (expected.iter().map(|&y| f64::from(y).powi(2)).sum::<f64>() / expected.len() as f64).sqrt();
    let x = Poisoned::new(&x);
    for (place, blocks) in candidates.iter().enumerate() {
        assert!(!candidates[..place].contains(blocks), "{blocks:?} twice");
        assert!(blocks.allowed(numerics) && blocks.fits(shape, isa), "{blocks:?} for {shape:?}");
        let layout = blocks.layout();
        let mut panels = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
        shape.weights().pack(isa, layout, &weights, packed_mut(layout.elements(), &mut panels)).unwrap();
        let panels = Poisoned::new(&panels);
        let weights = packed(layout.elements(), panels.inside());
        let conv = Conv::new(isa, *shape, *blocks, None, &EmitEach).unwrap();
        let (mut scratch, mut y) = (Canaried::new(conv.scratch_len()), Canaried::new(shape.output_len()));
        let extras = ConvExtras::default();
        conv.run(x.inside(), weights, y.inside(), extras, scratch.inside(), &Scoped).unwrap();
        scratch.open();
        let y = y.open();
        // Sums of small integers are exact; a transform is as far off as its policy says.
        let most = match blocks.strategy {
            conv::Strategy::Winograd(_) => 1e-4 * rms.max(1.0),
            _ => 0.0,
        };
        for (have, want) in y.iter().zip(&expected) {
            assert!(f64::from((have - want).abs()) <= most, "{isa} {blocks:?} {shape:?}: {have}, not {want}");
        }
    }
}

fn at_every_level(cases: u32, numerics: Numerics) {
    for isa in levels() {
        let cases = if isa > Isa::detect() { cases / 6 } else { cases };
        let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(shape in shapes(isa), threads in 1..=4usize)| {
            if shape.validate().is_ok() {
                check(isa, &shape, Elements::F32, numerics, threads);
                for wanted in [Elements::Bf16Dot, Elements::Bf16Tiles] {
                    let elements = shape.weights().elements(wanted);
                    if elements != Elements::F32 && elements.suit(isa) {
                        check(isa, &shape, elements, numerics, threads);
                    }
                }
            }
        });
    }
}

#[test]
fn every_candidate_is_accepted_and_right() {
    at_every_level(60, Numerics::Default);
}

#[test]
fn a_strict_policy_has_exact_candidates_only() {
    at_every_level(24, Numerics::Strict);
}

#[test]
fn the_few_are_the_strategies_and_the_many_are_cuts_of_them() {
    let shape = ConvShape {
        batch: 1,
        channels: 128,
        filters: 128,
        groups: 1,
        input: [1, 28, 28],
        output: [1, 28, 28],
        kernel: [1, 3, 3],
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0, 1, 1],
        transposed: false,
    };
    let strategies = |most: usize, numerics: Numerics| -> Vec<conv::Strategy> {
        ConvBlocks::candidates(Isa::Avx2, &shape, Elements::F32, numerics, 2, most)
            .iter()
            .map(|blocks| blocks.strategy)
            .collect()
    };
    let mut three = strategies(3, Numerics::Default);
    three.sort_by_key(|strategy| format!("{strategy:?}"));
    three.dedup();
    assert_eq!(three.len(), 3, "both transforms and the direct one");
    assert_eq!(strategies(24, Numerics::Default).len(), 24);
    assert!(strategies(24, Numerics::Strict).iter().all(|&strategy| strategy == conv::Strategy::Direct));
    assert_eq!(strategies(1, Numerics::Default).len(), 1);
}
