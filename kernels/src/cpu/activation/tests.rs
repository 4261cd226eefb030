//! Every function either has code in every kernel that can end in a function, at every level, or is refused by all
//! these kernels: a pass is never told to fuse a function that a kernel refuses.

use smallvec::smallvec;

use super::is_fusible;
use crate::cpu::canaries::{Scoped, integers, levels, packed, packed_mut};
use crate::cpu::chain::UnaryOp;
use crate::cpu::conv::{Conv, ConvBlocks, ConvExtras, ConvShape, Strategy};
use crate::cpu::gemm::{Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, Panels, Right, Source};
use crate::cpu::{Elements, EmitEach, Numerics};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::reference::chain::unary;

/// All functions, with parameters on both sides of where their code differs.
fn functions() -> Vec<UnaryOp> {
    let b = |value: f32| value.into();
    let all = vec![
        UnaryOp::Abs,
        UnaryOp::Neg,
        UnaryOp::Reciprocal,
        UnaryOp::Sqrt,
        UnaryOp::Exp,
        UnaryOp::Log,
        UnaryOp::Erf,
        UnaryOp::Tanh,
        UnaryOp::Sigmoid,
        UnaryOp::Relu,
        UnaryOp::Clip { lo: b(-1.5), hi: b(6.0) },
        UnaryOp::LeakyRelu { alpha: b(0.01) },
        UnaryOp::LeakyRelu { alpha: b(1.5) },
        UnaryOp::Elu { alpha: b(1.0) },
        UnaryOp::Selu { alpha: b(1.673_263_2), gamma: b(1.050_701) },
        UnaryOp::Celu { alpha: b(0.7) },
        UnaryOp::Celu { alpha: b(-0.7) },
        UnaryOp::ThresholdedRelu { alpha: b(1.0) },
        UnaryOp::HardSigmoid { alpha: b(0.2), beta: b(0.5) },
        UnaryOp::HardSwish,
        UnaryOp::Softplus,
        UnaryOp::Softsign,
        UnaryOp::Mish,
        UnaryOp::Silu,
        UnaryOp::Gelu,
        UnaryOp::GeluTanh,
        UnaryOp::Floor,
        UnaryOp::Ceil,
        UnaryOp::Round,
        UnaryOp::Sign,
        UnaryOp::Sin,
        UnaryOp::Cos,
        UnaryOp::Tan,
        UnaryOp::Asin,
        UnaryOp::Acos,
        UnaryOp::Atan,
        UnaryOp::Sinh,
        UnaryOp::Cosh,
        UnaryOp::Asinh,
        UnaryOp::Acosh,
        UnaryOp::Atanh,
        UnaryOp::Not,
        UnaryOp::IsNan,
    ];
    // A new function belongs into the list: this does not compile without it.
    let listed = |op: UnaryOp| match op {
        UnaryOp::Abs | UnaryOp::Neg | UnaryOp::Reciprocal | UnaryOp::Sqrt | UnaryOp::Exp | UnaryOp::Log => {}
        UnaryOp::Erf | UnaryOp::Tanh | UnaryOp::Sigmoid | UnaryOp::Relu | UnaryOp::Clip { .. } => {}
        UnaryOp::LeakyRelu { .. } | UnaryOp::Elu { .. } | UnaryOp::Selu { .. } | UnaryOp::Celu { .. } => {}
        UnaryOp::ThresholdedRelu { .. } | UnaryOp::HardSigmoid { .. } | UnaryOp::HardSwish => {}
        UnaryOp::Softplus | UnaryOp::Softsign | UnaryOp::Mish | UnaryOp::Silu | UnaryOp::Gelu => {}
        UnaryOp::GeluTanh | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Sign => {}
        UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan | UnaryOp::Asin | UnaryOp::Acos | UnaryOp::Atan => {}
        UnaryOp::Sinh | UnaryOp::Cosh | UnaryOp::Asinh | UnaryOp::Acosh | UnaryOp::Atanh => {}
        UnaryOp::Not | UnaryOp::IsNan => {}
    };
    all.iter().copied().for_each(listed);
    all
}

/// The results of one kernel that ends in a function.
type Ending<'a> = dyn Fn(Option<UnaryOp>) -> Result<Vec<f32>> + 'a;

/// The kernel ends in every function that is fusible as if it came after, and refuses all others.
fn check(what: &str, ending: &Ending<'_>) {
    let plain = ending(None).expect("without a function");
    for op in functions() {
        let made = ending(Some(op));
        if !is_fusible(op) {
            assert!(matches!(made, Err(KernelError::Unsupported { .. })), "{what}: {op:?} is not refused");
            continue;
        }
        let made = made.unwrap_or_else(|error| panic!("{what}: {op:?}: {error}"));
        for (&have, &sum) in made.iter().zip(&plain) {
            let want = unary(op, sum);
            let close = (have - want).abs() <= 1e-5 * want.abs().max(1.0);
            assert!(close || have == want || have.is_nan() && want.is_nan(), "{what}: {op:?} of {sum}: {have}, {want}");
        }
    }
}

/// Numbers of either sign and zeros, whose sums stay where functions are not flat.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    integers(count, seed).into_iter().map(|value| value / 8.0).collect()
}

fn plane(channels: u64, filters: u64, groups: u64, kernel: u64, transposed: bool) -> ConvShape {
    let (input, pad) = (7, kernel / 2);
    let output = if transposed { input - 1 + kernel - 2 * pad } else { input + 2 * pad - kernel + 1 };
    ConvShape {
        batch: 1,
        channels,
        filters,
        groups,
        input: [1, input, input],
        output: [1, output, output],
        kernel: [1, kernel, kernel],
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0, pad, pad],
        transposed,
    }
}

fn convolve(isa: Isa, shape: ConvShape, blocks: ConvBlocks, activation: Option<UnaryOp>) -> Result<Vec<f32>> {
    let conv = Conv::new(isa, shape, blocks, activation, &EmitEach)?;
    let (x, weights) = (numbers(shape.input_len(), 1), numbers(shape.weights().len(), 2));
    let (bias, residual) = (numbers(shape.filters(), 3), numbers(shape.output_len(), 4));
    let layout = blocks.layout();
    let mut panels = vec![0.0; shape.weights().packed_len(isa, layout)];
    shape.weights().pack(isa, layout, &weights, packed_mut(layout.elements(), &mut panels))?;
    let mut scratch = vec![0.0; conv.scratch_len()];
    let mut y = vec![f32::NAN; shape.output_len()];
    let extras = ConvExtras { bias: Some(&bias[..]), residual: Some(&residual[..]) };
    conv.run(&x, packed(layout.elements(), &panels), &mut y, extras, &mut scratch, &Scoped)?;
    Ok(y)
}

#[test]
fn convolutions_of_every_strategy_end_in_every_function() {
    // Dense, by lines, by tiles; pointwise; depthwise; in groups; transposed.
    let shapes = [
        plane(5, 33, 1, 3, false),
        plane(32, 32, 1, 3, false),
        plane(3, 8, 1, 3, false),
        plane(9, 17, 1, 1, false),
        plane(35, 35, 35, 3, false),
        plane(6, 10, 2, 3, false),
        plane(5, 9, 1, 3, true),
    ];
    let mut seen: Vec<Strategy> = Vec::new();
    for isa in levels() {
        for shape in shapes {
            let all = [Elements::F32, Elements::Bf16Dot, Elements::Bf16Tiles];
            for elements in all.map(|wanted| shape.weights().elements(wanted)) {
                if !elements.suit(isa) {
                    continue;
                }
                let mut done = Vec::new();
                for blocks in ConvBlocks::candidates(isa, &shape, elements, Numerics::Default, 2, 64) {
                    if done.contains(&blocks.strategy) {
                        continue;
                    }
                    done.push(blocks.strategy);
                    let what = format!("{isa} {blocks:?} {shape:?}");
                    check(&what, &|activation| convolve(isa, shape, blocks, activation));
                }
                seen.extend(done);
            }
        }
    }
    let strategies = [Strategy::Direct, Strategy::Pointwise, Strategy::Lines, Strategy::Depthwise, Strategy::Amx];
    for strategy in strategies {
        assert!(seen.contains(&strategy), "{strategy:?} was not tried: {seen:?}");
    }
    assert!(seen.iter().any(|strategy| matches!(strategy, Strategy::Winograd(_))), "no tiles: {seen:?}");
}

fn multiply(isa: Isa, [m, n, k]: [usize; 3], right: Option<Elements>, op: Option<UnaryOp>) -> Result<Vec<f32>> {
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let (side, data) = match right {
        None => (Right::Rows { stride: n }, b),
        Some(elements) => {
            let vectors = elements.panel_vectors(isa, n);
            let panels = Panels { rows: elements.words(k), columns: n, width: vectors * isa.lanes() };
            let mut right = vec![0.0; panels.len()];
            panels.pack_as(&Source::row_major(&b, k, n), 1.0, packed_mut(elements, &mut right))?;
            (Right::Packed { vectors, elements }, right)
        }
    };
    let shape = MatmulShape { m, n, k, batch: smallvec![], left: Left::Rows { stride: k }, right: side };
    let epilogue = Epilogue { scale: 1.0, bias: true, activation: op };
    let blocks = MatmulBlocks::pick(isa, &shape, &epilogue, 2);
    let product = Matmul::new(isa, shape, blocks, epilogue, &EmitEach)?;
    let (bias, residual) = (numbers(n, 3), numbers(m * n, 4));
    let mut scratch = vec![0.0; product.scratch_len()];
    let mut c = vec![f32::NAN; m * n];
    let extras = Extras { bias: Some(&bias[..]), residual: Some(&residual[..]) };
    let data = packed(right.unwrap_or(Elements::F32), &data);
    product.run(&a, data, &mut c, extras, &mut scratch, &Scoped)?;
    Ok(c)
}

#[test]
fn products_of_every_kind_end_in_every_function() {
    for isa in levels() {
        // A single row of many columns streams its panels.
        for sizes in [[5, 37, 9], [1, 400, 6], [1, 3, 4], [20, 16, 40]] {
            let all = [Elements::F32, Elements::Bf16, Elements::Bf16Dot, Elements::Bf16Tiles];
            let packed = all.into_iter().filter(|elements| elements.suit(isa)).map(Some);
            for right in packed.chain([None]) {
                let what = format!("{isa} {sizes:?} {right:?}");
                check(&what, &|op| multiply(isa, sizes, right, op));
            }
        }
    }
}
