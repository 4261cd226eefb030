//! Convolutions with weights of `f16`: the bits of the same numbers in `f32`, whatever strategy widens them and where.

use half::f16;

use super::*;
use crate::cpu::conv::WinogradTile;

/// Numbers of `f16` whose sums depend on the order of additions.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    integers(count, seed).iter().enumerate().map(|(at, &n)| f16::from_f32(n / 7.0 + at as f32 / 1e5).to_f32()).collect()
}

/// The output of a shape with these blocks, with a bias and a residual, as its bits.
fn bits(isa: Isa, shape: ConvShape, blocks: ConvBlocks) -> Vec<u32> {
    let layout = blocks.layout();
    let mut panels = vec![f32::NAN; shape.weights().packed_len(isa, layout)];
    let plain = numbers(shape.weights().len(), 2);
    shape.weights().pack(isa, layout, &plain, packed_mut(layout.elements(), &mut panels)).unwrap();
    let operands = [(shape.input_len(), 1), (shape.filters(), 3), (shape.output_len(), 4)];
    let [x, bias, residual] = operands.map(|(count, seed)| Poisoned::new(&numbers(count, seed)));
    let panels = Poisoned::new(&panels);
    let conv = Conv::new(isa, shape, blocks, Some(UnaryOp::Relu), &EmitEach).unwrap();
    let (mut scratch, mut y) = (Canaried::new(conv.scratch_len()), Canaried::new(shape.output_len()));
    let extras = ConvExtras { bias: Some(bias.inside()), residual: Some(residual.inside()) };
    let weights = packed(layout.elements(), panels.inside());
    conv.run(x.inside(), weights, y.inside(), extras, scratch.inside(), &Scoped).unwrap();
    scratch.open();
    y.open().into_iter().map(f32::to_bits).collect()
}

fn check(isa: Isa, shape: ConvShape, wide: ConvBlocks) {
    let narrow = ConvBlocks { elements: Elements::F16, ..wide };
    assert!(narrow.fits(&shape, isa), "{narrow:?} {shape:?}");
    assert_eq!(bits(isa, shape, narrow), bits(isa, shape, wide), "{isa} {wide:?} {shape:?}");
}

#[test]
fn direct_convolutions_and_products_widen_in_registers_and_into_scratch() {
    let planes = [
        Plane { channels: 17, filters: 70, ..PLANE },
        Plane { channels: 16, filters: 33, input: (20, 13), ..PLANE },
        Plane { channels: 21, filters: 33, kernel: (1, 1), pad: 0, ..PLANE },
        Plane { channels: 24, filters: 20, input: (2, 2), ..PLANE },
        Plane { channels: 36, filters: 40, groups: 2, stride: 2, ..PLANE },
        Plane { channels: 19, filters: 18, stride: 2, transposed: true, ..PLANE },
        // A reduction in parts.
        Plane { channels: 300, filters: 64, input: (9, 9), ..PLANE },
    ];
    for isa in levels() {
        for shape in planes.into_iter().map(Plane::shape).filter(|shape| !emulated(isa) || shape.work() < 1 << 20) {
            for threads in [1, 3] {
                let wide = ConvBlocks::pick(isa, &shape, Elements::F32, Numerics::Strict, threads);
                check(isa, shape, wide);
                for row_block in [1, 6] {
                    check(isa, shape, ConvBlocks { row_block, unit_tasks: 2, ..wide });
                }
            }
        }
    }
}

#[test]
fn transforms_widen_a_run_at_a_time_ahead_and_along() {
    for isa in levels() {
        let few = Plane { channels: 18, filters: 20, input: (30, 26), ..PLANE };
        let many = Plane { channels: 65, filters: 70, input: (9, 13), batch: 2, ..PLANE };
        for shape in [few, many].map(Plane::shape).into_iter().take(if emulated(isa) { 1 } else { 2 }) {
            for tile in WinogradTile::ALL {
                for threads in [1, 2] {
                    let wide = ConvBlocks::winograd(isa, &shape, Elements::F32, tile, threads).unwrap();
                    for row_block in [wide.row_block, 24] {
                        check(isa, shape, ConvBlocks { row_block, ..wide });
                    }
                }
            }
        }
    }
}

#[test]
fn a_choice_for_weights_of_f16_is_the_one_for_f32() {
    for isa in levels() {
        for [channels, filters, size] in [[16, 16, 64], [64, 64, 56], [256, 256, 14], [512, 512, 7], [96, 24, 20]] {
            for kernel in [1, 3] {
                let pad = kernel / 2;
                let plane = Plane { channels, filters, kernel: (kernel, kernel), pad, input: (size, size), ..PLANE };
                for threads in [1, 2, 4] {
                    let pick = |elements| ConvBlocks::pick(isa, &plane.shape(), elements, Numerics::Default, threads);
                    let wide = pick(Elements::F32);
                    assert_eq!(pick(Elements::F16), ConvBlocks { elements: Elements::F16, ..wide }, "{plane:?}");
                }
            }
        }
    }
}
