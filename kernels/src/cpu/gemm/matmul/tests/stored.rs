//! Products of activations stored as `bf16`: equal to products of the same numbers in `f32`, rounded once where results
//! are stored as `bf16`.

use super::*;
use crate::cpu::Stored;

const TYPES: [Stored; 2] = [Stored::F32, Stored::Bf16];

/// Every combination of types of the left-hand side, the residual and the result.
fn all() -> impl Iterator<Item = MatmulStored> {
    (0..8).map(|at| MatmulStored { left: TYPES[at & 1], residual: TYPES[at >> 1 & 1], output: TYPES[at >> 2] })
}

fn halves(values: &[f32]) -> Vec<u16> {
    values.iter().map(|&value| if value.is_nan() { 0x7FC0 } else { to_bf16(value) }).collect()
}

/// Two products with rows `slack` apart. Their left-hand matrices lie in one buffer, and they share the weights.
fn check(isa: Isa, elements: Elements, [m, n, k]: [usize; 3], slack: usize, cut: impl Fn(&mut MatmulBlocks)) {
    let stride = k + slack;
    let (a, b) = (integers(2 * m * k, 1), integers(k * n, 2));
    let (bias, residual) = (integers(n, 3), integers(2 * m * n, 4));
    let left_data = lay_out(2 * m, k, stride, |row, column| a[row * k + column]);
    let right = Right::Packed { vectors: elements.panel_vectors(isa, n), elements };
    let batch = smallvec![BatchDim { size: 2, left: m * stride, right: 0 }];
    let shape = MatmulShape { m, n, k, batch, left: Left::Rows { stride }, right };
    let epilogue = Epilogue { scale: 1.0, bias: true, activation: Some(UnaryOp::Relu) };
    let mut blocks = MatmulBlocks::pick(isa, &shape, &epilogue, 2);
    cut(&mut blocks);
    let right_data = pack(isa, elements, &b, k, n);
    let right = packed(elements, &right_data);
    let sums = (0..2).flat_map(|matrix| matmul(m, n, k, &a[matrix * m * k..][..m * k], &b));
    let sums = sums.enumerate().map(|(index, sum)| (sum + bias[index % n] + residual[index]).max(0.0));
    let expected: Vec<f32> = sums.collect();
    // Rounded to bf16, numbers of that size would not be exact.
    let rounded: Vec<f32> = expected.iter().map(|&value| from_bf16(to_bf16(value))).collect();
    let (left, left_halves) = (Poisoned::new(&left_data), Poisoned::new(&halves(&left_data)));
    let (added, added_halves) = (Poisoned::new(&residual), Poisoned::new(&halves(&residual)));
    for stored in all() {
        let product = Matmul::stored(isa, shape.clone(), blocks, stored, epilogue, &EmitEach).unwrap();
        let left = match stored.left {
            Stored::F32 => Activations::F32(left.inside()),
            Stored::Bf16 => Activations::Bf16(left_halves.inside()),
        };
        let residual = match stored.residual {
            Stored::F32 => Activations::F32(added.inside()),
            Stored::Bf16 => Activations::Bf16(added_halves.inside()),
        };
        let extras = Extras { bias: Some(&bias), residual: Some(residual) };
        let mut scratch = Canaried::new(product.scratch_len());
        let (mut whole, mut half) = (Canaried::new(2 * m * n), Canaried::<u16>::new(2 * m * n));
        let c = match stored.output {
            Stored::F32 => ActivationsMut::F32(whole.inside()),
            Stored::Bf16 => ActivationsMut::Bf16(half.inside()),
        };
        product.run_stored(left, right, c, extras, scratch.inside(), &Scoped).unwrap();
        scratch.open();
        let what = format!("{isa} {elements:?} {stored:?} {m}x{n}x{k}");
        match stored.output {
            Stored::F32 => assert_eq!(whole.open(), expected, "{what}"),
            Stored::Bf16 => {
                let found: Vec<f32> = half.open().into_iter().map(from_bf16).collect();
                assert_eq!(found, rounded, "{what}");
            }
        }
    }
}

#[test]
fn activations_of_either_type_give_the_same_product() {
    for (isa, elements) in forms() {
        // A row, rows that fill tile rows and rows that do not; steps that do and do not.
        for m in [1, 2, 16, 35] {
            for [n, k] in [[5, 7], [33, 64], [70, 96]] {
                check(isa, elements, [m, n, k], 0, |_| ());
            }
        }
        check(isa, elements, [19, 40, 32], 32, |_| ());
        check(isa, elements, [19, 40, 32], 5, |_| ());
        check(isa, elements, [3, 9, 0], 0, |_| ());
    }
}

#[test]
fn any_cut_of_the_work_reads_all_rows() {
    for (isa, elements) in forms().filter(|(_, elements)| *elements == Elements::Bf16Tiles) {
        let cut = |blocks: &mut MatmulBlocks| (blocks.row_block, blocks.k_block) = (1, 32);
        check(isa, elements, [53, 70, 96], 0, cut);
        check(isa, elements, [37, 40, 64], 0, |blocks| (blocks.row_tasks, blocks.panel_tasks) = (3, 2));
    }
}

#[test]
fn a_left_hand_side_of_columns_is_f32() {
    let isa = levels()[0];
    let right = Right::Rows { stride: 4 };
    let shape = MatmulShape { m: 2, n: 4, k: 3, batch: smallvec![], left: Left::Columns { stride: 2 }, right };
    let stored = MatmulStored { left: Stored::Bf16, ..MatmulStored::default() };
    let blocks = MatmulBlocks::pick(isa, &shape, &Epilogue::default(), 1);
    let made = Matmul::stored(isa, shape, blocks, stored, Epilogue::default(), &EmitEach);
    assert!(matches!(made, Err(KernelError::Unsupported { .. })));
}

#[test]
fn activations_that_are_stored_otherwise_are_refused() {
    let isa = levels()[0];
    let right = Right::Rows { stride: 4 };
    let shape = MatmulShape { m: 2, n: 4, k: 3, batch: smallvec![], left: Left::Rows { stride: 3 }, right };
    let product = Matmul::picked(isa, shape, Epilogue::default(), 1, &EmitEach).unwrap();
    let (left, mut c) = ([0u16; 6], [0.0; 8]);
    let mut scratch = vec![0.0; product.scratch_len()];
    let (left, c) = (Activations::Bf16(&left), ActivationsMut::F32(&mut c));
    let ran = product.run_stored(left, PackedWeights::F32(&[0.0; 12]), c, Extras::default(), &mut scratch, &Serial);
    assert!(matches!(ran, Err(KernelError::Unsupported { .. })));
}
