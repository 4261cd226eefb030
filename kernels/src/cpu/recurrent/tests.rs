//! Layers of every cell against the reference: directions, layouts, lengths, first states, clipping, activations, at
//! every level, with margins of NaN around the outputs.

use super::*;
use crate::cpu::canaries::{self, Canaried, levels, packed_mut};
use crate::cpu::chain::{Bits, UnaryOp};
use crate::cpu::gemm::{Panels, Source};
use crate::cpu::{Elements, EmitEach};
use crate::reference::recurrent::{Inputs, recurrent};

/// Values between -1 and 1 that look random.
fn values(count: usize, seed: usize) -> Vec<f32> {
    let mix = |i: usize| (i + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9) | 1) >> 7;
    (0..count).map(|i| (mix(i) % 2001) as f32 / 1000.0 - 1.0).collect()
}

fn direction(reverse: bool) -> Direction {
    let [sigmoid, tanh] = [UnaryOp::Sigmoid, UnaryOp::Tanh].map(Activation::Unary);
    Direction { reverse, activations: [sigmoid, tanh, tanh] }
}

fn layer(cell: Cell, steps: usize, batch: usize, input: usize, hidden: usize) -> RecurrentShape {
    let directions = SmallVec::from_slice(&[direction(false)]);
    RecurrentShape {
        cell,
        clip: None,
        directions,
        steps: steps as u64,
        batch: batch as u64,
        input: input as u64,
        hidden: hidden as u64,
        batch_first: false,
        elements: Elements::F32,
    }
}

const CELLS: [Cell; 6] = [
    Cell::Lstm { input_forget: false, peepholes: false },
    Cell::Lstm { input_forget: false, peepholes: true },
    Cell::Lstm { input_forget: true, peepholes: true },
    Cell::Gru { linear_before_reset: false },
    Cell::Gru { linear_before_reset: true },
    Cell::Rnn,
];

/// The packed form of `[columns, rows]`.
fn pack(isa: Isa, elements: Elements, weights: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let width = elements.panel_vectors(isa, columns) * isa.lanes();
    let panels = Panels { rows: elements.words(rows), columns, width };
    let mut out = vec![0.0; panels.len()];
    panels.pack_as(&Source::column_major(weights, rows, rows), 1.0, packed_mut(elements, &mut out)).unwrap();
    out
}

struct Packed {
    input: Vec<f32>,
    recurrent: Vec<f32>,
    faded: Vec<f32>,
    bias: Vec<f32>,
    reset_bias: Vec<f32>,
    peepholes: Vec<f32>,
}

/// The packed form of ONNX's weights for one direction.
fn prepare(shape: &RecurrentShape, isa: Isa, inputs: &Inputs<'_>, direction: usize) -> Packed {
    let (hidden, columns, input) = (shape.hidden(), shape.gate_columns(), shape.input());
    let w = &inputs.w[direction * columns * input..][..columns * input];
    let r = &inputs.r[direction * columns * hidden..][..columns * hidden];
    let kept = if fades(shape.cell) { 2 * hidden } else { columns };
    let b = inputs.b.map_or(vec![0.0; 2 * columns], |b| b[direction * 2 * columns..][..2 * columns].to_vec());
    let after = matches!(shape.cell, Cell::Gru { linear_before_reset: true });
    let summed = |place: usize| !after || place < 2 * hidden;
    let peepholes = inputs.peepholes.map_or(&[][..], |p| &p[direction * 3 * hidden..][..3 * hidden]);
    Packed {
        input: pack(isa, shape.elements, w, input, columns),
        recurrent: pack(isa, shape.elements, &r[..kept * hidden], hidden, kept),
        faded: if kept < columns { pack(isa, shape.elements, &r[kept * hidden..], hidden, hidden) } else { vec![] },
        bias: (0..columns).map(|i| b[i] + if summed(i) { b[columns + i] } else { 0.0 }).collect(),
        reset_bias: if after { b[columns + 2 * hidden..].to_vec() } else { vec![] },
        peepholes: peepholes.to_vec(),
    }
}

/// Checks a layer against the reference; returns its outputs, one after another. Weights are numbers of `f16`.
fn check(shape: &RecurrentShape, isa: Isa, states: bool, lengths: Option<&[usize]>, apart: bool) -> Vec<f32> {
    let (directions, hidden, columns) = (shape.directions.len(), shape.hidden(), shape.gate_columns());
    let half = |value: &f32| half::f16::from_f32(value * 0.5).to_f32();
    let scaled = |count, seed| values(count, seed).iter().map(half).collect::<Vec<f32>>();
    let (x, w) = (values(shape.xs(), 3), scaled(directions * columns * shape.input(), 5));
    let (r, b) = (scaled(directions * columns * hidden, 7), values(directions * 2 * columns, 11));
    let (peepholes, h, c) =
        (values(directions * 3 * hidden, 13), values(shape.states(), 17), values(shape.states(), 19));
    let seen = matches!(shape.cell, Cell::Lstm { peepholes: true, .. });
    let inputs = Inputs {
        x: &x,
        w: &w,
        r: &r,
        b: states.then_some(&b),
        peepholes: seen.then_some(&peepholes),
        lengths,
        h: states.then_some(&h),
        c: states.then_some(&c),
    };
    let memory = if shape.cell.has_memory() { shape.states() } else { 0 };
    let mut want = [vec![0.0; shape.ys()], vec![0.0; shape.states()], vec![0.0; memory]];
    let [y, last_h, last_c] = &mut want;
    recurrent(shape, &inputs, &mut Outputs { y, h: last_h, c: last_c });

    // Rounding weights and states costs eight bits of each product; they add up over steps.
    let most = if matches!(shape.elements, Elements::F32 | Elements::F16) { 2e-5 } else { 4e-2 };
    let layer = Recurrent::new(shape.clone(), isa, apart, 3, &EmitEach).unwrap();
    let packed: Vec<Packed> = (0..directions).map(|direction| prepare(shape, isa, &inputs, direction)).collect();
    let weights: Vec<DirectionWeights<'_>> = packed
        .iter()
        .map(|packed| DirectionWeights {
            input: canaries::packed(shape.elements, &packed.input),
            recurrent: canaries::packed(shape.elements, &packed.recurrent),
            faded: canaries::packed(shape.elements, &packed.faded),
            bias: &packed.bias,
            reset_bias: &packed.reset_bias,
            peepholes: &packed.peepholes,
        })
        .collect();
    let operands = Operands { x: &x, weights: &weights, lengths, h: inputs.h, c: inputs.c };
    let mut got = [shape.ys(), shape.states(), memory].map(Canaried::new);
    let mut scratch = Canaried::new(layer.scratch_len());
    let [y, last_h, last_c] = &mut got;
    let mut outputs = Outputs { y: y.inside(), h: last_h.inside(), c: last_c.inside() };
    layer.run(&operands, &mut outputs, scratch.inside(), &Serial).unwrap();
    scratch.open();
    let mut all = Vec::new();
    for (name, got, want) in got.into_iter().zip(want).zip(["y", "h", "c"]).map(|((got, want), name)| (name, got, want))
    {
        for (index, (got, want)) in got.open().into_iter().zip(want).enumerate() {
            assert!((got - want).abs() <= most, "{name}[{index}]: {got} for {want}; {shape:?} at {isa}, {lengths:?}");
            all.push(got);
        }
    }
    all
}

#[test]
fn cells_agree_with_the_reference_at_units_around_every_vector_border() {
    for isa in levels() {
        for cell in CELLS {
            for hidden in [1, 3, 8, 9, 16, 17, 31, 40] {
                check(&layer(cell, 3, 2, 5, hidden), isa, hidden % 2 == 1, None, false);
            }
        }
    }
}

#[test]
fn cells_in_lower_precision_agree_with_the_reference() {
    for isa in levels() {
        for elements in [Elements::Bf16, Elements::Bf16Dot, Elements::Bf16Tiles] {
            if !elements.suit(isa) {
                continue;
            }
            for cell in CELLS {
                for (batch, input, hidden) in [(1, 5, 9), (3, 33, 17), (17, 5, 32), (20, 40, 40)] {
                    let shape = RecurrentShape { elements, ..layer(cell, 3, batch, input, hidden) };
                    check(&shape, isa, true, None, false);
                    let both = SmallVec::from_slice(&[direction(false), direction(true)]);
                    check(&RecurrentShape { directions: both, ..shape }, isa, false, None, true);
                }
            }
        }
    }
}

#[test]
fn weights_of_f16_give_the_bits_of_the_same_numbers_in_f32() {
    let bits = |numbers: Vec<f32>| numbers.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
    for isa in levels() {
        for cell in CELLS {
            // Products of few rows widen in registers, products of many rows into scratch.
            for (steps, batch, input, hidden) in [(3, 1, 5, 9), (2, 3, 33, 17), (6, 1, 40, 300), (4, 40, 31, 70)] {
                let shape = layer(cell, steps, batch, input, hidden);
                let halves = RecurrentShape { elements: Elements::F16, ..shape.clone() };
                let [wide, narrow] = [shape, halves].map(|shape| bits(check(&shape, isa, true, None, false)));
                assert_eq!(wide, narrow, "{cell:?} at {isa}, {steps} steps of {batch}");
            }
        }
    }
}

#[test]
fn directions_layouts_and_lengths_agree_with_the_reference() {
    for isa in levels() {
        for cell in CELLS {
            for (reverse, both) in [(false, false), (true, false), (false, true)] {
                for batch_first in [false, true] {
                    let mut shape = layer(cell, 4, 3, 6, 10);
                    shape.batch_first = batch_first;
                    shape.directions = SmallVec::from_slice(&[direction(reverse)]);
                    if both {
                        shape.directions.push(direction(true));
                    }
                    for lengths in [None, Some(&[4, 0, 2][..])] {
                        check(&shape, isa, batch_first, lengths, both);
                    }
                }
            }
        }
    }
}

#[test]
fn every_activation_is_applied_to_clipped_values() {
    let bits = Bits::from;
    let activations = [
        Activation::Unary(UnaryOp::Relu),
        Activation::Unary(UnaryOp::LeakyRelu { alpha: bits(0.1) }),
        Activation::Unary(UnaryOp::ThresholdedRelu { alpha: bits(0.2) }),
        Activation::Unary(UnaryOp::HardSigmoid { alpha: bits(0.3), beta: bits(0.4) }),
        Activation::Unary(UnaryOp::Elu { alpha: bits(0.7) }),
        Activation::Unary(UnaryOp::Softsign),
        Activation::Unary(UnaryOp::Softplus),
        Activation::Unary(UnaryOp::Sin),
        Activation::Affine { alpha: bits(0.5), beta: bits(-0.1) },
        Activation::ScaledTanh { alpha: bits(1.5), beta: bits(0.6) },
    ];
    for isa in levels() {
        for cell in CELLS {
            for (index, &activation) in activations.iter().enumerate() {
                let mut shape = layer(cell, 2, 1, 3, 9);
                shape.clip = Some(bits(0.75));
                shape.directions[0].activations = [direction(false).activations[0], activation, activation];
                shape.directions[0].activations[index % 2] = activation;
                check(&shape, isa, true, None, false);
            }
        }
    }
}

#[test]
fn no_steps_and_no_sequences_are_layers_too() {
    for isa in levels() {
        for cell in CELLS {
            check(&layer(cell, 0, 2, 3, 4), isa, true, None, false);
            check(&layer(cell, 2, 0, 3, 4), isa, true, None, false);
        }
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let shape = layer(CELLS[0], 2, 1, 2, 3);
    let layer = Recurrent::new(shape.clone(), Isa::Portable, false, 1, &EmitEach).unwrap();
    let operands = Operands { x: &[0.0; 3], weights: &[], lengths: None, h: None, c: None };
    let (mut y, mut h, mut c) = ([0.0; 6], [0.0; 3], [0.0; 3]);
    let mut scratch = vec![0.0; layer.scratch_len()];
    let refused = layer.run(&operands, &mut Outputs { y: &mut y, h: &mut h, c: &mut c }, &mut scratch, &Serial);
    assert!(matches!(refused, Err(KernelError::Bounds { operand: "x", .. })));
    let operands = Operands { x: &[0.0; 4], lengths: Some(&[3]), ..operands };
    let refused = layer.run(&operands, &mut Outputs { y: &mut y, h: &mut h, c: &mut c }, &mut scratch, &Serial);
    assert!(matches!(refused, Err(KernelError::Bounds { operand: "weights", .. })));
    for broken in [
        RecurrentShape { directions: SmallVec::new(), ..shape.clone() },
        RecurrentShape { hidden: u64::MAX / 2, ..shape.clone() },
        RecurrentShape { clip: Some(Bits::from(-1.0)), ..shape },
    ] {
        let refused = Recurrent::new(broken, Isa::Portable, false, 1, &EmitEach);
        assert!(matches!(refused, Err(KernelError::Unsupported { .. })));
    }
}
