//! The choice of calls, and descriptors with the library where it is installed.

use super::super::tests::options_with;
use super::*;

/// A convolution of 3x3 over 8x8.
fn conv(epilogue: Epilogue, transposed: bool) -> ConvProblem {
    ConvProblem {
        batch: 1,
        channels: 4,
        filters: 4,
        groups: 2,
        input: [1, 8, 8],
        kernel: [1, 3, 3],
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0, 1, 1],
        output: [1, 8, 8],
        transposed,
        epilogue,
    }
}

fn fused(activation: Option<UnaryOp>) -> Epilogue {
    Epilogue { bias: true, residual: true, activation }
}

#[test]
fn each_epilogue_has_a_call_or_is_refused() {
    assert_eq!(Call::of(&conv(Epilogue::NONE, false)).unwrap(), Call::Plain);
    assert_eq!(Call::of(&conv(Epilogue::NONE, true)).unwrap(), Call::Gradient);
    assert_eq!(Call::of(&conv(fused(None), false)).unwrap(), Call::Fused { relu: false });
    assert_eq!(Call::of(&conv(fused(Some(UnaryOp::Relu)), false)).unwrap(), Call::Fused { relu: true });
    let refused = [
        conv(fused(Some(UnaryOp::Sigmoid)), false),
        conv(fused(None), true),
        conv(Epilogue { bias: false, residual: true, activation: None }, false),
        conv(Epilogue { bias: false, residual: false, activation: Some(UnaryOp::Relu) }, false),
    ];
    for conv in refused {
        assert!(matches!(Call::of(&conv), Err(KernelError::Unsupported { .. })), "{conv:?}");
    }
}

#[test]
fn algorithms_are_those_that_a_call_takes_with_what_their_names_say() {
    let all: Vec<i32> = (-1..10).filter(|&algo| Call::Plain.takes(algo)).collect();
    assert_eq!(all, (0..8).collect::<Vec<i32>>());
    let alone: Vec<i32> = (-1..10).filter(|&algo| Call::Fused { relu: false }.takes(algo)).collect();
    assert_eq!(alone, [1]);
    assert!(!Call::Gradient.takes(6));
    for (number, algo) in FORWARD.iter().enumerate() {
        assert_eq!(*algo as usize, number);
        let name = format!("{algo:?}");
        assert_eq!(Call::Plain.notes(number as i32).has(Notes::FFT), name.contains("FFT"), "{name}");
        assert_eq!(Call::Plain.notes(number as i32).has(Notes::WINOGRAD), name.contains("WINOGRAD"), "{name}");
    }
    for (number, algo) in BACKWARD.iter().enumerate() {
        assert_eq!(*algo as usize, number);
        let name = format!("{algo:?}");
        assert_eq!(Call::Gradient.notes(number as i32).has(Notes::FFT), name.contains("FFT"), "{name}");
        assert_eq!(Call::Gradient.notes(number as i32).has(Notes::WINOGRAD), name.contains("WINOGRAD"), "{name}");
    }
    assert!(math_of(3).is_ok() && math_of(0).is_ok());
    assert!(math_of(2).is_err() && math_of(-1).is_err());
}

#[test]
fn descriptors_are_made_without_a_device() {
    let Some(_) = options_with("descriptors", |libraries| &libraries.cudnn) else { return };
    for transposed in [false, true] {
        Descriptors::new(&conv(Epilogue::NONE, transposed), Math::CUDNN_FMA_MATH).unwrap();
    }
    let flat = ConvProblem {
        input: [1, 1, 8],
        kernel: [1, 1, 3],
        pads: [0, 0, 1],
        output: [1, 1, 8],
        ..conv(fused(Some(UnaryOp::Relu)), false)
    };
    Descriptors::new(&flat, Math::CUDNN_TENSOR_OP_MATH).unwrap();
    let deep = ConvProblem {
        input: [5, 8, 8],
        kernel: [3; 3],
        pads: [1; 3],
        output: [5, 8, 8],
        ..conv(Epilogue::NONE, false)
    };
    Descriptors::new(&deep, Math::CUDNN_FMA_MATH).unwrap();
    let huge =
        ConvProblem { input: [1, 1 << 20, 1 << 20], output: [1, 1 << 20, 1 << 20], ..conv(Epilogue::NONE, false) };
    assert!(matches!(Descriptors::new(&huge, Math::CUDNN_FMA_MATH), Err(KernelError::Unsupported { .. })));
}
