//! The library's answers about graphs without a device: it needs none to check graphs and to count engines.

use super::super::tests::options_with;
use super::descriptor::{Descriptor, KnobKind};
use super::engines::{configured, engine, engine_count, notes};
use super::operations::graph;
use crate::cpu::chain::UnaryOp;
use crate::error::KernelError;
use crate::gpu::{ConvProblem, Epilogue, Notes};
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

/// A convolution of 3x3 over 56x56, with 64 channels.
fn conv(activation: Option<UnaryOp>) -> ConvProblem {
    ConvProblem {
        batch: 2,
        channels: 64,
        filters: 64,
        groups: 1,
        input: [1, 56, 56],
        kernel: [1, 3, 3],
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0, 1, 1],
        output: [1, 56, 56],
        transposed: false,
        epilogue: Epilogue { bias: true, residual: false, activation },
    }
}

#[test]
fn a_fused_graph_is_whole_without_a_device_and_has_engines() {
    let Some(_) = options_with("the graph of a convolution", |libraries| &libraries.cudnn) else { return };
    let graph = graph(&conv(Some(UnaryOp::Relu)), None).unwrap();
    let count = engine_count(&graph).unwrap();
    assert!(count > 10, "{count} engines");
    #[allow(clippy::print_stderr, reason = "what the library says, for whoever runs this by hand")]
    {
        eprintln!("engines of conv + bias + ReLU in f32, NCHW: {count}");
    }
}

#[test]
fn every_epilogue_that_has_words_makes_a_graph() {
    let Some(_) = options_with("graphs of epilogues", |libraries| &libraries.cudnn) else { return };
    let (zero, six, tenth) = (0.0.into(), 6.0.into(), 0.1.into());
    let functions = [
        UnaryOp::Relu,
        UnaryOp::Clip { lo: zero, hi: six },
        UnaryOp::LeakyRelu { alpha: tenth },
        UnaryOp::Elu { alpha: six },
        UnaryOp::Silu,
        UnaryOp::Softplus,
        UnaryOp::Sigmoid,
        UnaryOp::Tanh,
        UnaryOp::Gelu,
        UnaryOp::GeluTanh,
    ];
    for op in functions {
        for (bias, residual) in [(false, false), (true, false), (true, true)] {
            let epilogue = Epilogue { bias, residual, activation: Some(op) };
            let made = graph(&ConvProblem { epilogue, ..conv(None) }, None);
            assert!(made.is_ok(), "{epilogue:?}: {made:?}");
        }
    }
    assert!(graph(&ConvProblem { epilogue: Epilogue::NONE, ..conv(None) }, None).is_ok());
    assert!(matches!(graph(&conv(Some(UnaryOp::Mish)), None), Err(KernelError::Unsupported { .. })));
    let back = ConvProblem { transposed: true, epilogue: Epilogue::NONE, ..conv(None) };
    assert!(graph(&back, None).is_ok());
    let deep = ConvProblem { input: [5, 56, 56], kernel: [3; 3], pads: [1; 3], output: [5, 56, 56], ..conv(None) };
    assert!(graph(&deep, None).is_ok());
    let grouped = ConvProblem { groups: 64, ..conv(None) };
    assert!(graph(&grouped, None).is_ok());
}

#[test]
fn choices_of_another_version_are_errors() {
    let Some(_) = options_with("engines", |libraries| &libraries.cudnn) else { return };
    let graph = graph(&conv(Some(UnaryOp::Relu)), None).unwrap();
    let count = engine_count(&graph).unwrap();
    for index in [-1, count, i64::MAX, i64::MIN] {
        assert!(matches!(engine(&graph, index), Err(KernelError::Unsupported { .. })), "engine {index}");
    }
    // Engine 0 uses plain multiply-adds; describing it needs no device.
    let notes = notes(&engine(&graph, 0).unwrap()).unwrap();
    assert!(!notes.has(Notes::TENSOR_CORE), "{notes:?}");
    let reason = |knobs: &[(i32, i64)]| configured(&graph, 0, knobs).unwrap_err().to_string();
    assert!(reason(&[(17, i64::MAX)]).contains("BAD_PARAM"), "a value that the knob does not have");
    assert!(reason(&[(17, 1), (17, 2)]).contains("BAD_PARAM"), "two values of one knob");
    assert!(reason(&[(0, 0); 65]).contains("65 knobs"));
    for knobs in [[(9999, 1)], [(-1, -1)], [(i32::MAX, 0)]] {
        assert!(configured(&graph, 0, &knobs).is_err(), "{knobs:?}");
    }
}

#[test]
fn malformed_descriptors_are_errors() {
    let Some(_) = options_with("descriptors", |libraries| &libraries.cudnn) else { return };
    for kind in [
        Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR,
        Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR,
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
    ] {
        assert!(Descriptor::new(kind).unwrap().finish().is_err(), "an empty {kind:?}");
    }
    let mut tensor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR).unwrap();
    assert!(tensor.set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[0i64]).is_err(), "an attribute of another kind");
    assert!(tensor.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[KnobKind(1)]).is_err(), "a value of another type");
    assert!(tensor.get_one(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID).is_err(), "read before it is whole");
    assert!(tensor.finish().is_err());
}
