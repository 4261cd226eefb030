//! Every candidate of many products: different from the others, accepted, and right bit by bit.

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, integers, levels};
use crate::cpu::gemm::{BatchDim, Extras, Left, Matmul, Panels, Source, panel_vectors};
use crate::cpu::{Elements, EmitEach, PackedWeights};
use crate::reference::gemm::matmul;

#[derive(Clone, Debug)]
struct Product {
    batches: usize,
    m: usize,
    n: usize,
    k: usize,
    right: u32,
    factor: bool,
    threads: usize,
}

fn products(isa: Isa) -> impl Strategy<Value = Product> {
    let (m, n, k) = if isa > Isa::detect() { (9usize, 40usize, 8usize) } else { (40, 120, 400) };
    (1..=3usize, 1..=m, 1..=n, 1..=k, 0..3u32, any::<bool>(), 1..=4usize)
        .prop_map(|(batches, m, n, k, right, factor, threads)| Product { batches, m, n, k, right, factor, threads })
}

fn check(isa: Isa, product: &Product) {
    let &Product { batches, m, n, k, right, factor, threads } = product;
    let (a, b) = (integers(batches * m * k, 1), integers(k * n, 2));
    let (right, right_data) = match right {
        0 => {
            let vectors = panel_vectors(isa, n);
            let panels = Panels { rows: k, columns: n, width: vectors * isa.lanes() };
            let mut packed = vec![0.0; panels.len()];
            panels.pack(&Source::row_major(&b, k, n), 1.0, &mut packed).unwrap();
            (Right::Packed { vectors, elements: Elements::F32 }, packed)
        }
        1 => (Right::Rows { stride: n }, b.clone()),
        _ => {
            let turned = (0..k * n).map(|index| b[index % k * n + index / k]).collect();
            (Right::Columns { stride: k }, turned)
        }
    };
    let batch = smallvec![BatchDim { size: batches, left: m * k, right: 0 }];
    let packed = matches!(right, Right::Packed { .. });
    let shape = MatmulShape { m, n, k, batch, left: Left::Rows { stride: k }, right };
    // A factor beside a bias asks for a right-hand side that is packed in the run.
    let epilogue = Epilogue { scale: if factor && !packed { 2.0 } else { 1.0 }, bias: factor, activation: None };
    let bias = integers(n, 3);
    let expected: Vec<f32> = (0..batches)
        .flat_map(|batch| matmul(m, n, k, &a[batch * m * k..][..m * k], &b))
        .enumerate()
        .map(|(index, sum)| sum * epilogue.scale + if factor { bias[index % n] } else { 0.0 })
        .collect();
    let candidates = MatmulBlocks::candidates(isa, &shape, &epilogue, threads, 24);
    assert_eq!(candidates[0], MatmulBlocks::pick(isa, &shape, &epilogue, threads));
    let (a, right_data, bias) = (Poisoned::new(&a), Poisoned::new(&right_data), Poisoned::new(&bias));
    for (place, blocks) in candidates.iter().enumerate() {
        assert!(!candidates[..place].contains(blocks), "{blocks:?} twice");
        assert!(blocks.fits(&shape, isa), "{blocks:?} for {shape:?}");
        let product = Matmul::new(isa, shape.clone(), *blocks, epilogue, &EmitEach).unwrap();
        let (mut scratch, mut c) = (Canaried::new(product.scratch_len()), Canaried::new(batches * m * n));
        let extras = Extras { bias: factor.then(|| bias.inside()), residual: None };
        let right = PackedWeights::F32(right_data.inside());
        product.run(a.inside(), right, c.inside(), extras, scratch.inside(), &Scoped).unwrap();
        scratch.open();
        assert_eq!(c.open(), expected, "{isa} {blocks:?} {shape:?}");
    }
}

#[test]
fn every_candidate_is_accepted_and_right() {
    for isa in levels() {
        let cases = if isa > Isa::detect() { 8 } else { 60 };
        let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(product in products(isa))| check(isa, &product));
    }
}

#[test]
fn a_row_on_one_thread_leaves_little_to_choose() {
    let shape = |m: usize| MatmulShape {
        m,
        n: 64,
        k: 100,
        batch: smallvec![],
        left: Left::Rows { stride: 100 },
        right: Right::Packed { vectors: 2, elements: Elements::F32 },
    };
    let count = |m: usize, threads: usize| {
        MatmulBlocks::candidates(Isa::Avx2, &shape(m), &Epilogue::default(), threads, 24).len()
    };
    assert_eq!(count(1, 1), 1, "one tile of rows sees one panel after another in any case");
    assert!(count(1, 2) > 1, "panels can be split");
    assert!(count(6_000, 2) > 8, "rows of several blocks in any L2");
}
