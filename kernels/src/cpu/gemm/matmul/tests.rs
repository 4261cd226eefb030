//! Every product against the plain one, bit by bit on small integers, at every level that can run here.

mod stored;

use half::f16;
use smallvec::smallvec;

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, integers, levels, packed, packed_mut};
use crate::cpu::precision::{from_bf16, to_bf16};
use crate::parallel::Serial;
use crate::reference::gemm::matmul;

/// One product: sizes, the layout of operands, and the epilogue.
#[derive(Clone, Debug)]
struct Case {
    isa: Isa,
    m: usize,
    n: usize,
    k: usize,
    /// Elements between the end of a row and the next, filled with NaN.
    slack: usize,
    left_transposed: bool,
    right: char,
    scale: f32,
    bias: bool,
    residual: bool,
    activation: Option<UnaryOp>,
    blocks: Option<fn(&mut MatmulBlocks)>,
    /// The elements of packed right-hand sides.
    elements: Elements,
}

impl Case {
    fn new(isa: Isa, m: usize, n: usize, k: usize) -> Case {
        Case {
            isa,
            m,
            n,
            k,
            slack: 3,
            left_transposed: false,
            right: 'p',
            scale: 1.0,
            bias: false,
            residual: false,
            activation: None,
            blocks: None,
            elements: Elements::F32,
        }
    }

    fn check(&self) {
        let Case { isa, m, n, k, slack, .. } = *self;
        let (a, b) = (integers(m * k, 1), integers(k * n, 2));
        let left =
            if self.left_transposed { Left::Columns { stride: m + slack } } else { Left::Rows { stride: k + slack } };
        let left_data = match left {
            Left::Rows { stride } => lay_out(m, k, stride, |row, column| a[row * k + column]),
            Left::Columns { stride } => lay_out(k, m, stride, |column, row| a[row * k + column]),
        };
        let (right, right_data) = match self.right {
            'p' => {
                let vectors = self.elements.panel_vectors(isa, n);
                (Right::Packed { vectors, elements: self.elements }, pack(isa, self.elements, &b, k, n))
            }
            't' => (Right::Columns { stride: k + slack }, lay_out(n, k, k + slack, |column, row| b[row * n + column])),
            _ => (Right::Rows { stride: n + slack }, lay_out(k, n, n + slack, |row, column| b[row * n + column])),
        };
        let shape = MatmulShape { m, n, k, batch: smallvec![], left, right };
        let epilogue = Epilogue { scale: self.scale, bias: self.bias, activation: self.activation };
        let mut blocks = MatmulBlocks::pick(isa, &shape, &epilogue, 1);
        if let Some(change) = self.blocks {
            change(&mut blocks);
        }
        let product = Matmul::new(isa, shape, blocks, epilogue, &EmitEach).unwrap();
        let (bias, residual) = (integers(n, 3), integers(m * n, 4));
        let (bias_data, residual_data) = (Poisoned::new(&bias), Poisoned::new(&residual));
        let extras = Extras {
            bias: self.bias.then(|| bias_data.inside()),
            residual: self.residual.then(|| residual_data.inside()),
        };
        let (left_data, right_data) = (Poisoned::new(&left_data), Poisoned::new(&right_data));
        let mut scratch = Canaried::new(product.scratch_len());
        let mut c = Canaried::new(m * n);
        let elements = if self.right == 'p' { self.elements } else { Elements::F32 };
        let right = packed(elements, right_data.inside());
        product.run(left_data.inside(), right, c.inside(), extras, scratch.inside(), &Scoped).unwrap();
        scratch.open();
        let found = c.open();
        let mut expected = matmul(m, n, k, &a, &b);
        for (index, value) in expected.iter_mut().enumerate() {
            *value *= self.scale;
            *value += if self.bias { bias[index % n] } else { 0.0 };
            *value += if self.residual { residual[index] } else { 0.0 };
            if self.activation == Some(UnaryOp::Relu) {
                *value = value.max(0.0);
            }
        }
        assert_eq!(found, expected, "{self:?}");
    }
}

#[test]
fn one_row_or_one_column_is_read_where_it_is() {
    for isa in levels() {
        for (m, n) in [(1, 1), (1, 9), (1, 33), (1, 70), (2, 1), (16, 1), (37, 1), (3, 3), (4, 5), (2, 39)] {
            for k in [1, 7, 16, 40] {
                for (slack, right) in [(0, 'r'), (3, 't'), (0, 't')] {
                    let case = Case { slack, right, ..Case::new(isa, m, n, k) };
                    case.check();
                    // More tasks than rows and panels.
                    let blocks = |blocks: &mut MatmulBlocks| (blocks.row_tasks, blocks.panel_tasks) = (4, 5);
                    Case { blocks: Some(blocks), bias: true, ..case.clone() }.check();
                    Case { scale: 2.0, ..case.clone() }.check();
                    // A left-hand row that is stored as columns.
                    Case { left_transposed: true, ..case.clone() }.check();
                    if right == 't' {
                        Case { scale: -3.0, bias: true, residual: true, ..case }.check();
                    } else {
                        Case { bias: true, residual: true, ..case }.check();
                    }
                }
            }
        }
        let streamed = |shape: MatmulShape| {
            let blocks = MatmulBlocks::pick(isa, &shape, &Epilogue::default(), 1);
            let product = Matmul::new(isa, shape, blocks, Epilogue::default(), &EmitEach).unwrap();
            product.streamed.is_some() && product.scratch_len() == 0
        };
        let (left, right) = (Left::Rows { stride: 20 }, Right::Columns { stride: 20 });
        let shape = MatmulShape { m: 1, n: 40, k: 20, batch: smallvec![], left, right };
        assert_eq!(streamed(shape.clone()), isa.is_jit());
        assert!(!streamed(MatmulShape { m: 2, ..shape.clone() }));
        let tiny = |k: usize| MatmulShape { m: 4, n: 4, k, right: Right::Rows { stride: 4 }, ..shape.clone() };
        assert_eq!((streamed(tiny(4)), streamed(tiny(9))), (isa.is_jit(), false));
        assert_eq!(streamed(MatmulShape { m: 2, n: 1, ..shape.clone() }), isa.is_jit());
        // Whole panels of rows are multiplied in place by tiles.
        let rows = |n: usize| MatmulShape { n, right: Right::Rows { stride: n }, ..shape.clone() };
        assert_eq!((streamed(rows(41)), streamed(rows(64))), (isa.is_jit(), false));
    }
}

/// A right-hand side in panels.
fn pack(isa: Isa, elements: Elements, b: &[f32], k: usize, n: usize) -> Vec<f32> {
    let width = elements.panel_vectors(isa, n) * isa.lanes();
    let panels = Panels { rows: elements.words(k), columns: n, width };
    let mut right = vec![0.0; panels.len()];
    panels.pack_as(&Source::row_major(b, k, n), 1.0, packed_mut(elements, &mut right)).unwrap();
    right
}

/// Every level with every operand type that its kernels multiply.
fn forms() -> impl Iterator<Item = (Isa, Elements)> {
    let all = [Elements::F32, Elements::Bf16, Elements::Bf16Dot, Elements::Bf16Tiles, Elements::F16];
    levels().into_iter().flat_map(move |isa| all.into_iter().filter(move |it| it.suit(isa)).map(move |it| (isa, it)))
}

/// A matrix with NaN between its rows.
fn lay_out(rows: usize, columns: usize, stride: usize, value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let mut data = vec![f32::NAN; if rows == 0 || columns == 0 { 0 } else { (rows - 1) * stride + columns }];
    for row in 0..rows {
        for column in 0..columns {
            data[row * stride + column] = value(row, column);
        }
    }
    data
}

/// Sizes around vector, tile and panel widths and the kernel's unrolling; fewer sizes where every instruction is
/// interpreted.
fn sizes(isa: Isa) -> (&'static [usize], &'static [usize], &'static [usize]) {
    if isa <= Isa::detect() {
        (
            &[1, 2, 3, 4, 5, 6, 7, 11, 13, 31],
            &[1, 7, 8, 9, 15, 16, 17, 24, 25, 47, 64, 100],
            &[1, 2, 3, 4, 5, 8, 17, 67],
        )
    } else {
        (&[1, 3, 6, 9], &[1, 15, 17, 33, 48, 65], &[1, 4, 9])
    }
}

#[test]
fn packed_products_of_all_sizes_are_exact() {
    // Eight bits hold these small integers, so that lower precision is exact too.
    for (isa, elements) in forms() {
        let (m, n, k) = sizes(isa);
        for &m in m {
            for &n in n {
                for &k in k {
                    Case { elements, ..Case::new(isa, m, n, k) }.check();
                }
            }
        }
    }
}

#[test]
fn operands_may_lie_in_any_way() {
    for isa in levels() {
        let (m, n, _) = sizes(isa);
        for &m in m {
            for &n in n {
                for (left_transposed, right) in [(false, 'r'), (false, 't'), (true, 'p'), (true, 'r')] {
                    for pack in [false, true] {
                        let blocks: fn(&mut MatmulBlocks) = match (right, pack) {
                            ('r', true) => |blocks| blocks.pack = true,
                            ('r', false) => |blocks| blocks.pack = false,
                            _ => |_| (),
                        };
                        Case { left_transposed, right, blocks: Some(blocks), ..Case::new(isa, m, n, 9) }.check();
                    }
                }
            }
        }
    }
}

#[test]
fn factor_bias_residual_and_activation_come_in_that_order() {
    for isa in levels() {
        for (m, n) in [(1, 5), (1, 71), (7, 40), (6, 16), (13, 67)] {
            for bits in 0..16 {
                let on = |bit: u32| bits >> bit & 1 == 1;
                let activation = on(0).then_some(UnaryOp::Relu);
                let (bias, residual, scale) = (on(1), on(2), if on(3) { 0.5 } else { 1.0 });
                for right in ['r', 't'] {
                    Case { activation, bias, residual, scale, right, ..Case::new(isa, m, n, 6) }.check();
                }
                if scale == 1.0 || !bias {
                    Case { activation, bias, residual, scale, ..Case::new(isa, m, n, 6) }.check();
                    for (isa, elements) in forms().filter(|&(level, _)| level == isa) {
                        Case { activation, bias, residual, scale, elements, ..Case::new(isa, m, n, 7) }.check();
                    }
                }
            }
        }
    }
}

#[test]
fn a_single_row_takes_activations_of_any_length() {
    // Short activations are applied in registers, long ones to stored results.
    for (isa, elements) in forms() {
        for activation in [UnaryOp::HardSwish, UnaryOp::Gelu] {
            let (n, k) = (5 * 64 + 3, 7);
            let vectors = elements.panel_vectors(isa, n);
            let right = Right::Packed { vectors, elements };
            let shape = MatmulShape { m: 1, n, k, batch: smallvec![], left: Left::Rows { stride: k }, right };
            let epilogue = Epilogue { scale: 0.125, bias: false, activation: Some(activation) };
            let product = Matmul::picked(isa, shape, epilogue, 2, &EmitEach).unwrap();
            let (a, b) = (integers(k, 1), integers(k * n, 2));
            let mut c = Canaried::new(n);
            let mut scratch = Canaried::new(product.scratch_len());
            let right = pack(isa, elements, &b, k, n);
            product
                .run(&a, packed(elements, &right), c.inside(), Extras::default(), scratch.inside(), &Scoped)
                .unwrap();
            scratch.open();
            for (found, sum) in c.open().into_iter().zip(matmul(1, n, k, &a, &b)) {
                let expected = crate::reference::chain::unary(activation, sum * 0.125);
                assert!((found - expected).abs() <= 2e-6 * expected.abs().max(1.0), "{found} for {expected}, {isa}");
            }
        }
    }
}

#[test]
fn equal_columns_of_a_single_row_are_equal_to_the_last_bit() {
    // Softmax of large sums amplifies the least difference: results must not depend on the kernel that computes a
    // column.
    for (isa, elements) in forms() {
        let (n, k) = if isa <= Isa::detect() { (1000, 530) } else { (5 * 64 + 3, 21) };
        let vectors = elements.panel_vectors(isa, n);
        let right = Right::Packed { vectors, elements };
        let shape = MatmulShape { m: 1, n, k, batch: smallvec![], left: Left::Rows { stride: k }, right };
        let epilogue = Epilogue { scale: 1.0, bias: true, activation: None };
        let a: Vec<f32> = (0..k).map(|index| 1.0 + (index as f32 * 0.37).sin()).collect();
        let row = |row: usize| std::iter::repeat_n((row as f32 * 0.71).cos(), n);
        let b: Vec<f32> = (0..k).flat_map(row).collect();
        let (right_data, bias) = (pack(isa, elements, &b, k, n), vec![0.1; n]);
        // Four threads take panels from each other.
        for threads in [1, 3, 4] {
            let picked = MatmulBlocks::pick(isa, &shape, &epilogue, threads);
            let blocks = MatmulBlocks { panel_tasks: (n / (vectors * isa.lanes())).min(threads) as u32, ..picked };
            let product = Matmul::new(isa, shape.clone(), blocks, epilogue, &EmitEach).unwrap();
            let extras = Extras { bias: Some(&bias), residual: None };
            let (mut c, mut scratch) = (vec![0.0; n], vec![0.0; product.scratch_len()]);
            product.run(&a, packed(elements, &right_data), &mut c, extras, &mut scratch, &Scoped).unwrap();
            let other = c.iter().position(|value| value.to_bits() != c[0].to_bits());
            assert_eq!(other.map(|column| (column, c[column])), None, "{} on {isa}, {elements:?}", c[0]);
        }
    }
}

#[test]
fn any_cut_of_the_work_gives_the_same_product() {
    let cuts: [fn(&mut MatmulBlocks); 6] = [
        |blocks| blocks.k_block = 5,
        |blocks| (blocks.row_block, blocks.panel_block) = (1, 1),
        |blocks| (blocks.row_block, blocks.panel_block, blocks.k_block) = (2, 3, 7),
        |blocks| (blocks.row_tasks, blocks.panel_tasks) = (3, 2),
        |blocks| (blocks.row_tasks, blocks.panel_tasks, blocks.k_block) = (100, 100, 4),
        |blocks| (blocks.batch_tasks, blocks.row_tasks) = (3, 2),
    ];
    for isa in levels() {
        for blocks in cuts.map(Some) {
            for right in ['p', 'r', 't'] {
                let case = Case { blocks, right, ..Case::new(isa, 23, 75, 19) };
                case.check();
                Case { bias: true, residual: true, activation: Some(UnaryOp::Relu), ..case.clone() }.check();
                Case { scale: 0.25, residual: true, ..case }.check();
            }
        }
    }
}

#[test]
fn a_reduction_is_cut_between_rows_of_words_alone() {
    let cuts: [fn(&mut MatmulBlocks); 5] = [
        |blocks| blocks.k_block = 64,
        |blocks| (blocks.row_block, blocks.panel_block, blocks.k_block) = (2, 3, 96),
        |blocks| (blocks.row_tasks, blocks.panel_tasks) = (3, 2),
        |blocks| (blocks.row_tasks, blocks.panel_tasks, blocks.k_block) = (100, 100, 32),
        |blocks| (blocks.batch_tasks, blocks.row_tasks) = (3, 2),
    ];
    for (isa, elements) in forms().filter(|(_, elements)| elements.rows_of_a_word() == 2) {
        for blocks in cuts.map(Some) {
            // AMX's parts of a reduction are whole steps.
            let case = Case { blocks, elements, ..Case::new(isa, 23, 75, 147) };
            case.check();
            Case { bias: true, residual: true, activation: Some(UnaryOp::Relu), ..case.clone() }.check();
            Case { left_transposed: true, ..case }.check();
        }
        let right = Right::Packed { vectors: elements.panel_vectors(isa, 5), elements };
        let shape = MatmulShape { m: 3, n: 5, k: 9, batch: smallvec![], left: Left::Rows { stride: 9 }, right };
        let good = MatmulBlocks::pick(isa, &shape, &Epilogue::default(), 1);
        assert!(good.fits(&shape, isa));
        assert!(!MatmulBlocks { k_block: 5, ..good }.fits(&shape, isa), "a part that starts inside of a row of words");
        let below = Right::Packed { vectors: good.vectors(), elements: Elements::Bf16Dot };
        let foreign = MatmulShape { right: below, ..shape };
        assert_eq!(good.fits(&foreign, isa), isa == Isa::Avx512);
    }
}

#[test]
fn blocks_that_would_widen_panels_into_too_much_memory_are_refused() {
    for isa in levels() {
        let right = Right::Packed { vectors: Elements::F16.panel_vectors(isa, 4096), elements: Elements::F16 };
        let left = Left::Rows { stride: 4096 };
        let shape = MatmulShape { m: 512, n: 4096, k: 4096, batch: smallvec![], left, right };
        let picked = MatmulBlocks::pick(isa, &shape, &Epilogue::default(), 64);
        assert!(picked.fits(&shape, isa), "{picked:?}");
        let wide = MatmulBlocks { row_tasks: 1 << 12, panel_tasks: 1, panel_block: 64, k_block: 4096, ..picked };
        assert!(!wide.fits(&shape, isa), "{isa}");
        let few = MatmulShape { m: 2, ..shape };
        assert!(wide.fits(&few, isa), "{isa}: few rows widen nothing");
    }
}

#[test]
fn lower_precision_rounds_what_it_says_and_nothing_else() {
    // Numbers that bf16 does not hold exactly, of sizes that differ by up to 2^12.
    let numbers = |count: usize, seed: u32| -> Vec<f32> {
        let (mantissas, exponents) = (integers(count, seed), integers(count, seed + 100));
        let index = 0..count;
        index.map(|i| (mantissas[i] + (i * 7919 % 1000) as f32 * 1e-3) * (exponents[i] * 1.5).exp2()).collect()
    };
    for (isa, elements) in forms() {
        let emulated = isa > Isa::detect();
        for (m, n, k) in [(1, 33, 7), (2, 16, 100), (3, 24, 64), (5, 50, 301), (13, 40, 129)] {
            let k = if emulated { k.min(67) } else { k };
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            let right = Right::Packed { vectors: elements.panel_vectors(isa, n), elements };
            let shape = MatmulShape { m, n, k, batch: smallvec![], left: Left::Rows { stride: k }, right };
            let product = Matmul::picked(isa, shape, Epilogue::default(), 1, &EmitEach).unwrap();
            let (mut c, mut scratch) = (vec![0.0; m * n], vec![0.0; product.scratch_len()]);
            let right = pack(isa, elements, &b, k, n);
            product.run(&a, packed(elements, &right), &mut c, Extras::default(), &mut scratch, &Serial).unwrap();
            let both = elements == Elements::Bf16Dot || elements == Elements::Bf16Tiles && m > 1;
            let round = |value: f32, on: bool| f64::from(if on { from_bf16(to_bf16(value)) } else { value });
            let weight = |value: f32| match elements {
                Elements::F32 => f64::from(value),
                Elements::Bf16 | Elements::Bf16Dot | Elements::Bf16Tiles => round(value, true),
                Elements::F16 => f16::from_f32(value).to_f64(),
            };
            for (index, &found) in c.iter().enumerate() {
                let (row, column) = (index / n, index % n);
                let terms = (0..k).map(|at| round(a[row * k + at], both) * weight(b[at * n + column]));
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                // Each of k additions, and each product that is not fused with one, is off by at most 2^-24 of the sum
                // of all terms.
                let allowed = 2.0 * k as f64 * size * 2f64.powi(-24);
                let error = (f64::from(found) - sum).abs();
                assert!(error <= allowed, "{isa} {elements:?} {m}x{n}x{k} at {index}: {found} for {sum}");
            }
        }
    }
}

#[test]
fn weights_that_are_not_finite_stay_what_they_are() {
    for (isa, elements) in forms() {
        for (weight, k) in [(f32::NAN, 3), (f32::from_bits(0x7F80_0001), 4), (f32::INFINITY, 5)] {
            let (mut b, a) = (vec![1.0; k * 9], vec![1.0; k]);
            b[(k - 1) * 9 + 4] = weight;
            let right = Right::Packed { vectors: elements.panel_vectors(isa, 9), elements };
            let shape = MatmulShape { m: 1, n: 9, k, batch: smallvec![], left: Left::Rows { stride: k }, right };
            let product = Matmul::picked(isa, shape, Epilogue::default(), 1, &EmitEach).unwrap();
            let (mut c, mut scratch) = (vec![0.0; 9], vec![0.0; product.scratch_len()]);
            let right = pack(isa, elements, &b, k, 9);
            let right = packed(elements, &right);
            product.run(&a, right, &mut c, Extras::default(), &mut scratch, &Serial).unwrap();
            for (column, value) in c.into_iter().enumerate() {
                match column {
                    4 => assert!(if weight.is_nan() { value.is_nan() } else { value == weight }),
                    _ => assert_eq!(value, k as f32),
                }
            }
        }
    }
}

#[test]
fn empty_sizes_are_products_too() {
    for isa in levels() {
        for right in ['p', 'r', 't'] {
            for (m, n, k) in [(0, 4, 4), (4, 0, 4), (4, 5, 0), (1, 1, 0)] {
                Case { right, bias: true, ..Case::new(isa, m, n, k) }.check();
                for (isa, elements) in forms().filter(|&(level, _)| level == isa && right == 'p') {
                    Case { elements, bias: true, ..Case::new(isa, m, n, k) }.check();
                }
            }
        }
    }
}

#[test]
fn batches_broadcast_either_side() {
    let (m, n, k) = (5, 19, 7);
    for isa in levels() {
        for (sizes, left_repeats, right_repeats) in [
            (vec![3], vec![false], vec![false]),
            (vec![3], vec![false], vec![true]),
            (vec![2, 3], vec![true, false], vec![false, true]),
            (vec![2, 3], vec![false, false], vec![false, true]),
            (vec![2, 1, 2], vec![true, true, false], vec![false, false, false]),
        ] {
            let strides = |repeats: &[bool], matrix: usize| {
                let mut next = matrix;
                let mut strides: Vec<usize> = vec![0; sizes.len()];
                for dim in (0..sizes.len()).rev() {
                    if !repeats[dim] && sizes[dim] > 1 {
                        strides[dim] = next;
                        next *= sizes[dim];
                    }
                }
                (strides, next)
            };
            let (left_steps, left_len) = strides(&left_repeats, m * k);
            let (right_steps, right_len) = strides(&right_repeats, k * n);
            let (a, b) = (integers(left_len, 5), integers(right_len, 6));
            let dims = (0..sizes.len()).map(|dim| BatchDim {
                size: sizes[dim],
                left: left_steps[dim],
                right: right_steps[dim],
            });
            for (left, right) in [
                (Left::Rows { stride: k }, Right::Rows { stride: n }),
                (Left::Columns { stride: m }, Right::Columns { stride: k }),
            ] {
                let shape = MatmulShape { m, n, k, batch: dims.clone().collect(), left, right };
                for (pack, row_tasks) in [(false, 1), (true, 1), (true, 2)] {
                    let mut blocks = MatmulBlocks::pick(isa, &shape, &Epilogue::default(), 3);
                    blocks.pack |= pack;
                    blocks.row_tasks = row_tasks;
                    let product = Matmul::new(isa, shape.clone(), blocks, Epilogue::default(), &EmitEach).unwrap();
                    let mut c = Canaried::new(shape.batches() * m * n);
                    let mut scratch = Canaried::new(product.scratch_len());
                    product
                        .run(&a, PackedWeights::F32(&b), c.inside(), Extras::default(), scratch.inside(), &Scoped)
                        .unwrap();
                    scratch.open();
                    let c = c.open();
                    for batch in 0..shape.batches() {
                        let place = shape.place(batch);
                        let turn = |from: &[f32], rows: usize, columns: usize| -> Vec<f32> {
                            (0..rows * columns).map(|i| from[i % columns * rows + i / columns]).collect()
                        };
                        let (mut x, mut y) = (a[place.left..][..m * k].to_vec(), b[place.right..][..k * n].to_vec());
                        if matches!(left, Left::Columns { .. }) {
                            (x, y) = (turn(&x, m, k), turn(&y, k, n));
                        }
                        assert_eq!(c[batch * m * n..][..m * n], matmul(m, n, k, &x, &y), "{isa} {shape:?} {batch}");
                    }
                }
            }
        }
    }
}

#[test]
fn short_buffers_and_foreign_blocks_are_refused() {
    let (left, right) = (Left::Rows { stride: 4 }, Right::Rows { stride: 5 });
    let shape = MatmulShape { m: 3, n: 5, k: 4, batch: smallvec![], left, right };
    let epilogue = Epilogue::default();
    let product = Matmul::picked(Isa::Portable, shape.clone(), epilogue, 1, &EmitEach).unwrap();
    let mut scratch = vec![0.0; product.scratch_len()];
    let mut run = |a: usize, b: usize, c: usize, bias: Option<usize>| {
        let bias = bias.map(|len| vec![0.0; len]);
        let extras = Extras { bias: bias.as_deref(), residual: None };
        product.run(&vec![0.0; a], PackedWeights::F32(&vec![0.0; b]), &mut vec![0.0; c], extras, &mut scratch, &Serial)
    };
    assert!(run(12, 20, 15, None).is_ok());
    for (a, b, c, bias) in [(11, 20, 15, None), (12, 19, 15, None), (12, 20, 14, None), (12, 20, 15, Some(5))] {
        assert!(run(a, b, c, bias).is_err(), "{a} {b} {c} {bias:?}");
    }
    let good = MatmulBlocks::pick(Isa::Portable, &shape, &epilogue, 1);
    let bad: [fn(&mut MatmulBlocks); 5] = [
        |blocks| blocks.vectors = 9,
        |blocks| blocks.row_block = 0,
        |blocks| blocks.k_block = 0,
        |blocks| blocks.panel_tasks = u32::MAX,
        |blocks| (blocks.row_tasks, blocks.panel_tasks) = (1 << 31, 1 << 31),
    ];
    for change in bad {
        let mut blocks = good;
        change(&mut blocks);
        assert!(!blocks.fits(&shape, Isa::Portable), "{blocks:?}");
        assert!(Matmul::new(Isa::Portable, shape.clone(), blocks, epilogue, &EmitEach).is_err());
    }
    let huge = MatmulShape { m: usize::MAX / 2, n: 3, ..shape };
    assert!(Matmul::new(Isa::Portable, huge, good, epilogue, &EmitEach).is_err());
}

#[test]
fn a_thousand_shapes_are_served_by_at_most_eight_blobs() {
    use std::cell::RefCell;
    use std::collections::HashSet;

    use crate::cpu::{CodeKey, CodeParts, CodeSource, PartSet};

    /// Notes the keys that are requested. Nothing is called, so that no code has to be sealed twice.
    struct Count(RefCell<HashSet<CodeKey>>);
    impl CodeSource for Count {
        fn parts(&self, key: &CodeKey, wanted: PartSet) -> Result<std::sync::Arc<CodeParts>> {
            self.0.borrow_mut().insert(key.clone());
            EmitEach.parts(key, wanted)
        }
    }
    let kinds = levels().into_iter().filter(|isa| isa.is_jit()).flat_map(|isa| (0..3).map(move |kind| (isa, kind)));
    for (isa, kind) in kinds {
        let count = Count(RefCell::default());
        for index in 0..1000 {
            let size = |salt: usize, most: usize| (index * 7919 + salt * 104_729) % most + 1;
            let (m, n, k) = (size(1, 700), size(2, 3000), size(3, 3000));
            // A node's right-hand side is of one kind, whatever its shapes.
            let right = match kind {
                0 => Right::Packed { vectors: crate::cpu::gemm::panel_vectors(isa, n), elements: Elements::F32 },
                1 => Right::Rows { stride: n },
                _ => Right::Columns { stride: k },
            };
            let shape = MatmulShape { m, n, k, batch: smallvec![], left: Left::Rows { stride: k }, right };
            Matmul::picked(isa, shape, Epilogue::default(), 1 + index % 4, &count).unwrap();
        }
        let keys = count.0.into_inner();
        assert!(keys.len() <= 8, "{isa}: {keys:?}");
    }
}
