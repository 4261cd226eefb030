//! Every family on the processor, against the references and plain loops, and properties that all texts share.

mod chain;
mod elements;
mod folds;
mod movement;
mod rows;

use std::collections::BTreeSet;

use super::*;
use crate::cpu::chain::{BinaryOp, Bits, Geometry, Program, Step, Storage, UnaryOp};
use crate::cpu::pool::PoolKind;
use crate::cpu::reduce::Reduction;

/// All functions of one element, with parameters that affect results.
pub(super) fn unary_ops() -> Vec<UnaryOp> {
    use UnaryOp::*;
    let bits = |value: f32| Bits::from(value);
    let plain = [
        Abs, Neg, Reciprocal, Sqrt, Exp, Log, Erf, Tanh, Sigmoid, Relu, HardSwish, Softplus, Softsign, Mish, Silu,
        Gelu, GeluTanh, Floor, Ceil, Round, Sign, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh,
        Not, IsNan,
    ];
    let with = [
        Clip { lo: bits(-1.0), hi: bits(1.5) },
        LeakyRelu { alpha: bits(0.1) },
        Elu { alpha: bits(1.3) },
        Selu { alpha: bits(1.673), gamma: bits(1.051) },
        Celu { alpha: bits(1.7) },
        ThresholdedRelu { alpha: bits(0.7) },
        HardSigmoid { alpha: bits(0.2), beta: bits(0.5) },
    ];
    plain.into_iter().chain(with).collect()
}

/// All functions of two elements.
pub(super) fn binary_ops() -> Vec<BinaryOp> {
    use BinaryOp::*;
    vec![
        Add,
        Sub,
        Mul,
        Div,
        Max,
        Min,
        Pow,
        Fmod,
        PRelu,
        Equal,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
        And,
        Or,
        Xor,
    ]
}

/// A program of one step over `inputs` float operands.
pub(super) fn single(inputs: usize, step: Step) -> Program {
    Program { inputs: (0..inputs).map(|_| Storage::F32).collect(), steps: vec![step], output: Storage::F32 }
}

/// A code of every form that a family has, and every step of a chain.
pub(crate) fn every_code() -> Vec<KernelCode> {
    let mut codes = vec![KernelCode::Fill];
    let mut kernel = |kernel: Result<Box<dyn Kernel>>| codes.push(kernel.unwrap().code());
    let chain = |program: &Program, output: &[usize], operands: &[&[usize]]| -> Result<Box<dyn Kernel>> {
        Ok(Box::new(ChainKernel::new(program, &Geometry::new(output, operands)?)?))
    };
    for op in unary_ops() {
        kernel(chain(&single(1, Step::Unary(op, 0)), &[64], &[&[64]]));
    }
    for op in binary_ops() {
        let program = single(2, Step::Binary(op, 0, 1));
        kernel(chain(&program, &[64], &[&[64], &[64]]));
        kernel(chain(&program, &[2, 3, 8], &[&[2, 3, 8], &[3, 1]]));
        kernel(chain(&program, &[2, 3, 7], &[&[2, 3, 7], &[3, 1]]));
    }
    kernel(chain(&chain::masked(), &[4, 5, 8], &[&[4, 5, 8], &[5, 1], &[4, 5, 8]]));
    for width in [1, 2, 4, 8] {
        for size in [3, 64] {
            kernel(
                CopyKernel::new(width, &[3, 5, size], Strided::new(1, &[400, 70, 1]), Strided::new(0, &[500, 80, 1]))
                    .map(|copy| Box::new(copy) as _),
            );
        }
        kernel(TransposeKernel::new(width, &[2, 33, 40], &[0, 2, 1]).map(|transposed| Box::new(transposed) as _));
        kernel(TransposeKernel::new(width, &[2, 33, 40], &[1, 0, 2]).map(|transposed| Box::new(transposed) as _));
    }
    for (length, inner, logarithm) in [(7, 1, false), (5000, 1, true), (7, 3, false), (7, 3, true), (1 << 33, 1, false)]
    {
        kernel(SoftmaxKernel::new(2, length, inner, logarithm).map(|softmax| Box::new(softmax) as _));
    }
    for (length, step) in [(12, 1), (12, 4), (4096, 1), (4096, 4)] {
        for (centred, scaled, bias) in [(true, true, true), (false, true, false), (true, false, false)] {
            let scaling = scaled.then_some(Scaling { period: 3, step });
            kernel(RowNormKernel::new(6, length, 1e-5, centred, scaling, bias).map(|norm| Box::new(norm) as _));
        }
    }
    for (form, window) in
        [(1, 1), (1, 2), (2, 1), (3, 2)].into_iter().flat_map(|form| [(form, 0), (form, 1), (form, 2)])
    {
        let kind = [PoolKind::Max, PoolKind::Average { include_pad: true }, PoolKind::Average { include_pad: false }];
        let shape = folds::images(form.0, 9, 3, 2, form.1, 1);
        kernel(PoolKernel::new(kind[window], &shape).map(|pool| Box::new(pool) as _));
    }
    for reduction in Reduction::ALL {
        for (length, inner) in [(9, 1), (5000, 1), (9, 7), (90, 7)] {
            kernel(ReduceKernel::of(reduction, 2, length, inner).map(|reduce| Box::new(reduce) as _));
        }
    }
    for (width, inner, index) in [(1, 1, 8), (2, 3, 4), (4, 3, 8), (8, 1, 8), (4, 4, 8)] {
        kernel(GatherKernel::new(width, 2, 5, inner, 4, index).map(|gather| Box::new(gather) as _));
    }
    for (from, to) in Scalar::ALL.into_iter().flat_map(|from| Scalar::ALL.map(|to| (from, to))) {
        kernel(CastKernel::new(from, to, 9).map(|cast| Box::new(cast) as _));
    }
    let axis = Resized { input: 4, output: 8, taps: 2 };
    for axes in 1..=3 {
        for mix in [Mix::Blend, Mix::Pick { width: 1 }, Mix::Pick { width: 4 }, Mix::Pick { width: 8 }] {
            kernel(ResizeKernel::new(mix, 3, &[axis; 3][..axes], 1).map(|resize| Box::new(resize) as _));
        }
    }
    codes.extend(wide_codes());
    codes
}

/// A code of each family whose indices have 64 bits.
fn wide_codes() -> Vec<KernelCode> {
    let huge = 1u64 << 33;
    let add = single(2, Step::Binary(BinaryOp::Add, 0, 1));
    let geometry = |output: &[usize], right: &[usize]| Geometry::new(output, &[output, right]).unwrap();
    let mut shape = folds::images(2, 9, 3, 2, 1, 1);
    shape.batch = 1 << 30;
    let axis = Resized { input: 4, output: 8, taps: 2 };
    let kernels: Vec<Result<Box<dyn Kernel>>> = vec![
        ChainKernel::new(&add, &geometry(&[1 << 33], &[1])).map(|kernel| Box::new(kernel) as _),
        ChainKernel::new(&add, &geometry(&[1 << 30, 7], &[1 << 30, 1])).map(|kernel| Box::new(kernel) as _),
        CopyKernel::new(4, &[huge], Strided::new(0, &[1]), Strided::new(0, &[2])).map(|kernel| Box::new(kernel) as _),
        TransposeKernel::new(4, &[1 << 17, 1 << 17], &[1, 0]).map(|kernel| Box::new(kernel) as _),
        SoftmaxKernel::new(2, huge, 1, false).map(|kernel| Box::new(kernel) as _),
        RowNormKernel::new(huge, 9, 1e-5, true, Some(Scaling { period: 3, step: 3 }), true)
            .map(|kernel| Box::new(kernel) as _),
        PoolKernel::new(PoolKind::Max, &shape).map(|kernel| Box::new(kernel) as _),
        ReduceKernel::of(Reduction::LogSumExp, huge, 9, 1).map(|kernel| Box::new(kernel) as _),
        GatherKernel::new(4, 1, huge, 1, 3, 8).map(|kernel| Box::new(kernel) as _),
        CastKernel::new(Scalar::F32, Scalar::I64, huge).map(|kernel| Box::new(kernel) as _),
        ResizeKernel::new(Mix::Blend, huge, &[axis; 2], 1).map(|kernel| Box::new(kernel) as _),
    ];
    kernels.into_iter().map(|kernel| kernel.unwrap().code()).collect()
}

#[test]
fn every_text_includes_nothing_and_is_one_kernel_of_its_name() {
    let codes = every_code();
    let distinct: BTreeSet<String> = codes.iter().map(|code| code.source().unwrap().text).collect();
    assert!(distinct.len() > 60, "{} texts", distinct.len());
    for code in codes {
        let source = code.source().unwrap();
        assert!(source.text.starts_with(PRELUDE) && !source.text.contains("#include"), "{code:?}");
        let head = format!("KILN_KERNEL void {}(", source.entry);
        assert_eq!(source.text.matches(&head).count(), 1, "{code:?}");
        assert!(source.text.is_ascii() && code.family().starts_with("device "), "{code:?}");
    }
}

#[test]
fn what_has_more_than_31_bits_of_places_has_indices_of_64() {
    for code in wide_codes() {
        let source = code.source().unwrap();
        assert!(source.text.contains("typedef u64 Index;"), "{code:?}");
        crate::gpu::emulated::compiler::compile(&source).unwrap();
    }
}

#[test]
fn another_shape_has_the_same_code() {
    let softmax = |length| SoftmaxKernel::new(5, length, 1, false).unwrap().code();
    assert_eq!(softmax(10), softmax(1000));
    assert_eq!(softmax(2000), softmax(50_000));
    let add = single(2, Step::Binary(BinaryOp::Add, 0, 1));
    let chain = |output: &[usize], right: &[usize]| {
        ChainKernel::new(&add, &Geometry::new(output, &[output, right]).unwrap()).unwrap().code()
    };
    assert_eq!(chain(&[1], &[1]), chain(&[3, 5, 7], &[3, 5, 7]));
    assert_eq!(chain(&[3, 5, 8], &[5, 1]), chain(&[7, 11, 56 * 56], &[11, 1]));
    let transposed = |rows, columns| TransposeKernel::new(4, &[rows, columns], &[1, 0]).unwrap().code();
    assert_eq!(transposed(8, 9), transposed(1000, 64));
    let norm = |rows, length| RowNormKernel::new(rows, length, 1e-5, true, None, false).unwrap().code();
    assert_eq!(norm(1, 768), norm(77, 512));
    let pool = |size, kernel| PoolKernel::new(PoolKind::Max, &folds::images(2, size, kernel, 1, 1, 0)).unwrap().code();
    assert_eq!(pool(7, 2), pool(56, 3));
    let axis = |input, output, taps| Resized { input, output, taps };
    let resize = |axis| ResizeKernel::new(Mix::Blend, 3, &[axis], 1).unwrap().code();
    assert_eq!(resize(axis(3, 6, 2)), resize(axis(30, 7, 4)));
}

#[test]
fn codes_that_a_record_could_hold_are_refused() {
    let space = super::space::SpaceCode { rank: 0, operands: 2, wide: false };
    assert!(KernelCode::Copy(CopyCode { width: 4, space }).source().is_err());
    let space = super::space::SpaceCode { rank: 1, operands: 2, wide: false };
    assert!(KernelCode::Copy(CopyCode { width: 3, space }).source().is_err());
    assert!(KernelCode::Transpose(TransposeCode { width: 4, space }).source().is_err());
    let program = single(1, Step::Unary(UnaryOp::Abs, 3));
    assert!(KernelCode::Chain(ChainCode { program, space, lanes: Default::default() }).source().is_err());
    assert!(KernelCode::Pool(PoolCode { kind: PoolKind::Lp { p: 2 }, space, dilated: false }).source().is_err());
    assert!(KernelCode::Gather(GatherCode { width: 4, index_width: 2, space }).source().is_err());
    assert!(KernelCode::Resize(ResizeCode { mix: Mix::Pick { width: 16 }, space }).source().is_err());
}
