//! Products, convolutions, attention and recurrent layers.

use crate::ir::NodeDesc;
use crate::operators::arithmetic::Arithmetic::{By, PerElement, Uncounted};
use crate::operators::attributes::{Attribute, int, number, optional, required, text};
use crate::operators::device::{Device, Form};
use crate::operators::row::{Count, Layout, Operator, RowWise, Shapes, Types, at_least, between, exactly};
use crate::operators::{arithmetic, einsum, kinds, sequences, shapes, spatial, work};

/// The attributes of convolutions of every element type.
pub(super) const CONV: &[Attribute] = &[
    text("auto_pad", "NOTSET"),
    optional("dilations"),
    int("group", 1),
    optional("kernel_shape"),
    optional("pads"),
    optional("strides"),
];

/// The attributes of all recurrent layers, and further ones of a single operator.
macro_rules! recurrent_attributes {
    [$($own:expr)?] => {
        &[
            optional("activation_alpha"),
            optional("activation_beta"),
            optional("activations"),
            optional("clip"),
            text("direction", "forward"),
            optional("hidden_size"),
            int("layout", 0),
            int("output_sequence", 0),
            $($own)?
        ]
    };
}

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::matmul),
        device: Device::Form(Form::ALWAYS),
        row_wise: Some(RowWise::Product(None)),
        ..Operator::keyed(By(arithmetic::matmul), "", "MatMul", &[1, 9, 13], exactly(2), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::gemm),
        device: Device::Form(Form::ALWAYS),
        row_wise: Some(RowWise::Product(Some("transA"))),
        ..Operator::keyed(
            By(arithmetic::gemm),
            "",
            "Gemm",
            &[1, 6, 7, 9, 11, 13],
            between(2, 3),
            &[number("alpha", 1.0), number("beta", 1.0), int("broadcast", 0), int("transA", 0), int("transB", 0)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(einsum::einsum),
        ..Operator::keyed(By(arithmetic::einsum), "", "Einsum", &[12, 28], at_least(1), &[required("equation")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::determinants),
        ..Operator::plain(work::RARE, By(arithmetic::matrices), "", "Det", &[11, 22], exactly(1), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::conv),
        layout: Layout::Pulls,
        device: Device::Form(Form::ALWAYS),
        ..Operator::keyed(By(arithmetic::conv), "", "Conv", &[1, 11, 22], between(2, 3), CONV)
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::conv_transpose),
        layout: Layout::Pulls,
        device: Device::By(symmetric),
        ..Operator::keyed(
            By(arithmetic::conv_transpose),
            "",
            "ConvTranspose",
            &[1, 11, 22],
            between(2, 3),
            &[
                text("auto_pad", "NOTSET"),
                optional("dilations"),
                int("group", 1),
                optional("kernel_shape"),
                optional("output_padding"),
                optional("output_shape"),
                optional("pads"),
                optional("strides"),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::conv),
        ..Operator::keyed(
            By(arithmetic::conv),
            "",
            "DeformConv",
            &[19, 22],
            between(3, 5),
            &[
                optional("dilations"),
                int("group", 1),
                optional("kernel_shape"),
                int("offset_group", 1),
                optional("pads"),
                optional("strides"),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(sequences::causal_conv),
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            By(arithmetic::causal_conv),
            "",
            "CausalConvWithState",
            &[27],
            between(2, 4),
            &[text("activation", "none")],
        )
    },
    Operator {
        types: Types::By(kinds::attention),
        shapes: Shapes::All(sequences::attention),
        ..Operator::keyed(
            By(arithmetic::attention),
            "",
            "Attention",
            &[23, 24, 25],
            between(3, 7),
            &[
                int("is_causal", 0),
                optional("kv_num_heads"),
                int("left_window_size", -1),
                optional("q_num_heads"),
                int("qk_matmul_output_mode", 0),
                int("right_window_size", -1),
                optional("scale"),
                number("softcap", 0.0),
                optional("softmax_precision"),
            ],
        )
    },
    Operator {
        types: Types::By(kinds::with_state_3),
        shapes: Shapes::All(sequences::linear_attention),
        ..Operator::keyed(
            By(arithmetic::linear_attention),
            "",
            "LinearAttention",
            &[27],
            between(3, 6),
            &[
                int("chunk_size", 64),
                required("kv_num_heads"),
                required("q_num_heads"),
                number("scale", 0.0),
                text("update_rule", "gated_delta"),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(
            PerElement,
            "",
            "RotaryEmbedding",
            &[23],
            between(3, 4),
            &[int("interleaved", 0), optional("num_heads"), int("rotary_embedding_dim", 0)],
        )
    },
    recurrent("LSTM", &[1, 7, 14, 22], between(3, 8), recurrent_attributes![int("input_forget", 0)]),
    recurrent("GRU", &[1, 3, 7, 14, 22], between(3, 6), recurrent_attributes![int("linear_before_reset", 0)]),
    recurrent("RNN", &[1, 7, 14, 22], between(3, 6), recurrent_attributes![]),
    Operator {
        types: Types::By(kinds::stored),
        shapes: Shapes::First(spatial::conv),
        layout: Layout::Pulls,
        device: Device::Form(Form::ALWAYS),
        ..Operator::keyed(
            Uncounted,
            "kiln",
            "FusedConv",
            &[1],
            at_least(2),
            &[int("group", 1), text("auto_pad", "NOTSET"), optional("to")],
        )
    },
    Operator {
        types: Types::By(kinds::stored),
        shapes: Shapes::First(spatial::conv_transpose),
        layout: Layout::Pulls,
        device: Device::By(symmetric),
        ..Operator::keyed(
            Uncounted,
            "kiln",
            "FusedConvTranspose",
            &[1],
            between(2, 3),
            &[int("group", 1), text("auto_pad", "NOTSET"), optional("to")],
        )
    },
    Operator {
        types: Types::By(kinds::stored),
        shapes: Shapes::First(shapes::matmul),
        device: Device::Form(Form::ALWAYS),
        row_wise: Some(RowWise::Product(Some("trans_a"))),
        ..Operator::keyed(
            Uncounted,
            "kiln",
            "FusedMatMul",
            &[1],
            between(2, 4),
            &[optional("activation"), number("alpha", 1.0), int("trans_a", 0), int("trans_b", 0), optional("to")],
        )
    },
    Operator {
        types: Types::By(kinds::stored_or_f32),
        shapes: Shapes::First(sequences::fused_attention),
        ..Operator::keyed(
            Uncounted,
            "kiln",
            "FusedAttention",
            &[1],
            between(3, 5),
            &[
                number("fill", 0.0),
                int("inverted", 0),
                text("key", "first"),
                int("key_heads", 1),
                text("output", "first"),
                text("query", "first"),
                int("query_heads", 1),
                int("rank", 4),
                number("scale", 1.0),
                optional("to"),
                text("value", "first"),
                int("value_heads", 1),
            ],
        )
    },
];

/// A layer over a sequence that carries a state from step to step.
const fn recurrent(
    name: &'static str,
    since: &'static [u8],
    inputs: Count,
    attributes: &'static [Attribute],
) -> Operator {
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(sequences::recurrent),
        ..Operator::keyed(By(arithmetic::recurrent), "", name, since, inputs, attributes)
    }
}

/// A transposed convolution whose pads are explicit and equal at both ends.
fn symmetric(node: &NodeDesc) -> Option<Form> {
    let pads = node.ints("pads").unwrap_or_default();
    let (before, after) = pads.split_at(pads.len() / 2);
    let strides = node.ints("strides").unwrap_or_default();
    let padding = node.ints("output_padding").unwrap_or_default().iter().enumerate();
    let mut padding = padding.map(|(axis, &more)| more < strides.get(axis).copied().unwrap_or(1));
    let symmetric = before == after
        && matches!(node.attributes().text("auto_pad"), "NOTSET" | "VALID")
        && node.ints("output_shape").is_none_or(<[i64]>::is_empty)
        && padding.all(|less| less);
    symmetric.then_some(Form::ALWAYS)
}
