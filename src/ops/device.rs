//! Which operators have a form on a device, and what has to stay with the processor for them.
//!
//! The forms themselves are with their operators ([`Node::prepare_device`](crate::graph::Node::prepare_device)); here is what
//! must be known of a node before it is made and before any shape is: whoever places nodes asks [`form`].

use crate::graph::NodeDesc;
use crate::tensor::DType;

/// When a node goes to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Always: it computes so much that its inputs are worth sending.
    Always,
    /// Where one of its inputs is there already.
    Follows,
    /// There too, and where its first input is a large constant.
    Table,
}

/// The form of an operator on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// When it goes there.
    pub pull: Pull,
    /// Inputs that the processor reads, by bit: shapes, axes, indices.
    pub host_inputs: u64,
    /// Whether elements of any type move; else all of them are `f32`, or booleans of chains.
    pub moves: bool,
}

const fn computes(pull: Pull) -> Form {
    Form { pull, host_inputs: 0, moves: false }
}

const fn moves(host_inputs: u64) -> Form {
    Form { pull: Pull::Follows, host_inputs, moves: true }
}

const REDUCES: Form = Form { pull: Pull::Follows, host_inputs: 1 << 1, moves: false };

/// The form of a node's operator; none where it has none, or where this use of it has none.
#[must_use]
pub fn form(node: &NodeDesc) -> Option<Form> {
    let outputs = node.outputs.iter().flatten().count();
    Some(match (node.domain.as_str(), node.op.as_str()) {
        ("", "Conv") | ("kiln", "FusedConv") => computes(Pull::Always),
        ("", "ConvTranspose") | ("kiln", "FusedConvTranspose") if symmetric(node) => computes(Pull::Always),
        ("", "MatMul" | "Gemm") | ("kiln", "FusedMatMul") => computes(Pull::Always),
        ("", "LayerNormalization" | "RMSNormalization") if outputs == 1 && node.outputs.len() == 1 => {
            computes(Pull::Follows)
        }
        ("", "InstanceNormalization" | "GroupNormalization") => computes(Pull::Follows),
        ("", "BatchNormalization")
            if node.outputs.len() == 1 && node.int("training_mode", 0) == 0 && node.int("spatial", 1) != 0 =>
        {
            computes(Pull::Follows)
        }
        ("", "Softmax" | "LogSoftmax") => computes(Pull::Follows),
        ("", "MaxPool") if node.outputs.len() == 1 => computes(Pull::Follows),
        ("", "AveragePool" | "GlobalMaxPool" | "GlobalAveragePool") => computes(Pull::Follows),
        ("", op) if op.starts_with("Reduce") => REDUCES,
        ("kiln", "Chain") => computes(Pull::Follows),
        ("", op) if CHAINED.contains(&op) => computes(Pull::Follows),
        ("", "Gather") => Form { pull: Pull::Table, host_inputs: 1 << 1, moves: true },
        ("", "Identity" | "Flatten" | "Transpose" | "DepthToSpace" | "SpaceToDepth" | "Concat") => moves(0),
        ("", "Reshape" | "Squeeze" | "Unsqueeze" | "Split" | "Expand" | "Tile") => moves(1 << 1),
        ("", "Slice") => moves(0b11110),
        ("", "Resize" | "Upsample") if node.string("coordinate_transformation_mode", "") != "tf_crop_and_resize" => {
            let pull = Pull::Follows;
            Form { pull, host_inputs: 0b1110, moves: node.string("mode", "nearest") == "nearest" }
        }
        _ => return None,
    })
}

/// Element-wise operators that are programs on `f32`, whatever their attributes.
const CHAINED: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "Div",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "PRelu",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
];

/// Whether a transposed convolution cuts as much off one end as off the other, and says so itself.
fn symmetric(node: &NodeDesc) -> bool {
    let pads = node.ints("pads").unwrap_or_default();
    let (before, after) = pads.split_at(pads.len() / 2);
    let strides = node.ints("strides").unwrap_or_default();
    let padding = node.ints("output_padding").unwrap_or_default().iter().enumerate();
    let mut padding = padding.map(|(axis, &more)| more < strides.get(axis).copied().unwrap_or(1));
    before == after
        && matches!(node.string("auto_pad", "NOTSET"), "NOTSET" | "VALID")
        && node.ints("output_shape").is_none_or(<[i64]>::is_empty)
        && padding.all(|less| less)
}

/// Which types elements may have in tensors that such a node reads or makes on a device.
#[must_use]
pub fn carried(form: &Form) -> fn(DType) -> bool {
    if form.moves {
        |dtype| dtype.size() > 0 && dtype.packed_bits() == 8 * dtype.size()
    } else {
        |dtype| matches!(dtype, DType::F32 | DType::Bool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Attr, ValueId};

    fn node(op: &str, attrs: &[(&str, Attr)]) -> NodeDesc {
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        NodeDesc { op: op.to_owned(), attrs, outputs: vec![Some(ValueId(0))], ..NodeDesc::default() }
    }

    #[test]
    fn what_a_device_cannot_do_stays_with_the_processor() {
        assert!(form(&node("ConvTranspose", &[("pads", [1, 1, 1, 1].into())])).is_some());
        for attrs in [
            ("pads", Attr::from([0, 1, 1, 1])),
            ("auto_pad", Attr::from("SAME_UPPER")),
            ("output_shape", Attr::from([8, 8])),
            ("output_padding", Attr::from([1, 1])),
        ] {
            assert_eq!(form(&node("ConvTranspose", std::slice::from_ref(&attrs))), None, "{attrs:?}");
        }
        let mut places = node("MaxPool", &[]);
        assert!(form(&places).is_some());
        places.outputs.push(Some(ValueId(1)));
        assert_eq!(form(&places), None);
        assert_eq!(form(&node("LSTM", &[])), None);
    }

    #[test]
    fn every_operator_with_a_form_exists() {
        let known: Vec<&str> = crate::ops::all().map(|(_, op)| op).collect();
        for op in CHAINED {
            assert!(known.contains(op), "{op}");
        }
    }

    #[test]
    fn computing_is_on_floats_and_moving_on_anything_with_bytes() {
        let (conv, slice) = (form(&node("Conv", &[])).unwrap(), form(&node("Slice", &[])).unwrap());
        let (computed, moved) = (carried(&conv), carried(&slice));
        assert!(computed(DType::F32) && !computed(DType::F16));
        assert!(moved(DType::I64) && !moved(DType::String));
    }
}
