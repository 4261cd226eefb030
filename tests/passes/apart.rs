//! A fused node whose kernel refuses the fused parts falls apart into them: the result is right, and the case is
//! counted.
//!
//! No pass makes such a node, because passes ask the kernels; here it is written by hand.

use std::sync::Arc;

use half::bf16;
use kiln::session::{Session, SessionOptions};
use kiln_kernels::Isa;
use kiln_kernels::cpu::activation::is_fusible;
use kiln_kernels::cpu::chain::{Program, UnaryOp};
use kiln_model::ir::Attr;
use kiln_model::passes::PassOptions;
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor};

fn numbers(shape: &[usize], seed: usize) -> Vec<f32> {
    (0..shape.iter().product()).map(|at| ((at * 37 + seed) % 17) as f32 / 8.0 - 1.0).collect()
}

fn tensor(shape: &[usize], seed: usize) -> Tensor {
    Tensor::from_vec(shape.iter().copied(), numbers(shape, seed)).unwrap()
}

/// A node of our own on `x` of that shape and on weights, with a bias, and a residual if it takes one.
fn fused(op: &str, shape: &[usize], weights: &[usize], residual: Option<&[usize]>, function: Option<UnaryOp>) -> Graph {
    let mut build = GraphBuilder::new("fused", 17);
    let x = build.input("x", DType::F32, shape.iter().map(|&dim| dim.into()));
    let constant = |build: &mut GraphBuilder, shape: &[usize], seed| build.constant(tensor(shape, seed));
    let w = constant(&mut build, weights, 1);
    let outputs = if op == "FusedConv" { weights[0] } else { weights[1] };
    let bias = constant(&mut build, &[outputs], 2);
    let mut inputs: Vec<Option<ValueId>> = vec![Some(x), Some(w), Some(bias)];
    inputs.extend(residual.map(|shape| Some(constant(&mut build, shape, 3))));
    let attrs: Vec<(&str, Attr)> =
        function.map(|function| ("activation", Attr::Chain(Arc::new(Program::unary(function))))).into_iter().collect();
    let y = build.op_of("kiln", op, &inputs, &attrs);
    build.output("y", y);
    build.finish()
}

fn run(graph: Graph, x: Tensor, isa: Isa) -> (Tensor, u64) {
    // The nodes are as passes would leave them.
    let (cache_mode, passes) = (CacheMode::Memory, PassOptions::none());
    let options = SessionOptions { threads: 1, cache_mode, passes, max_isa: Some(isa), ..SessionOptions::default() };
    let session = Session::from_graph(graph, &options).unwrap();
    let y = session.run(&[("x", x)]).unwrap().remove(0).1;
    (y, session.share_stats().fell_apart)
}

#[test]
fn a_node_whose_kernel_refuses_its_function_falls_apart() {
    type Row = (&'static str, &'static [usize], &'static [usize], Option<&'static [usize]>);
    let table: [Row; 4] = [
        ("FusedConv", &[2, 3, 5, 6], &[4, 3, 3, 3], Some(&[2, 4, 3, 4])),
        ("FusedConv", &[2, 3, 5, 6], &[4, 3, 1, 1], None),
        ("FusedConvTranspose", &[2, 3, 5, 6], &[3, 4, 2, 2], None),
        ("FusedMatMul", &[2, 3, 5], &[5, 9], Some(&[2, 3, 9])),
    ];
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::detect()) {
        for (op, shape, weights, residual) in table {
            let x = tensor(shape, 0);
            let (plain, _) = run(fused(op, shape, weights, residual, None), x.clone(), isa);
            for function in [UnaryOp::Sin, UnaryOp::Atanh, UnaryOp::Relu, UnaryOp::Celu { alpha: (-0.5).into() }] {
                let (y, fell_apart) = run(fused(op, shape, weights, residual, Some(function)), x.clone(), isa);
                let expected = plain.as_slice::<f32>().unwrap().iter();
                let expected = expected.map(|&sum| kiln_kernels::reference::chain::unary(function, sum));
                for (&found, expected) in y.as_slice::<f32>().unwrap().iter().zip(expected) {
                    let same = found == expected || found.is_nan() && expected.is_nan();
                    assert!(same || (found - expected).abs() <= 1e-5, "{op} {function:?} {isa}: {found}, {expected}");
                }
                assert_eq!(fell_apart > 0, !is_fusible(function), "{op} {function:?} {isa}");
            }
        }
    }
}

#[test]
fn what_is_stored_as_bf16_falls_apart_as_well() {
    if Isa::detect() < Isa::Avx512 {
        // Depthwise convolutions take it only at that level.
        return;
    }
    let graph = |function: UnaryOp| {
        let mut build = GraphBuilder::new("halves", 17);
        let x = build.input("x", DType::BF16, [1.into(), 4.into(), 5.into(), 8.into()]);
        let w = build.constant(tensor(&[8, 1, 3, 3], 1));
        let attrs = [
            ("activation", Attr::Chain(Arc::new(Program::unary(function)))),
            ("channels_last", 1.into()),
            ("group", 8.into()),
            ("to", 16.into()),
        ];
        let y = build.op_of("kiln", "FusedConv", &[Some(x), Some(w)], &attrs);
        build.output("y", y);
        build.finish()
    };
    let halves: Vec<bf16> = numbers(&[160], 0).into_iter().map(bf16::from_f32).collect();
    let x = Tensor::from_vec([1, 4, 5, 8], halves).unwrap();
    let (sums, none) = run(graph(UnaryOp::Clip { lo: (-99.0).into(), hi: 99.0.into() }), x.clone(), Isa::Avx512);
    let growing = UnaryOp::Celu { alpha: (-0.5).into() };
    let (ends, fell_apart) = run(graph(growing), x, Isa::Avx512);
    assert_eq!((none, fell_apart), (0, 1));
    for (sum, end) in sums.as_slice::<bf16>().unwrap().iter().zip(ends.as_slice::<bf16>().unwrap()) {
        assert_eq!(*end, bf16::from_f32(kiln_kernels::reference::chain::unary(growing, sum.to_f32())));
    }
}
