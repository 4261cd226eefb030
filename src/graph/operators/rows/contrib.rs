//! Operators of ONNX Runtime's domain that have nodes of their own, and what its expansions need besides ONNX's.

use crate::graph::operators::attributes::{int, number, optional, text};
use crate::graph::operators::contrib;
use crate::graph::operators::row::{Operator, Shapes, Types, between, exactly};

pub(in crate::graph::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::Input(1),
        shapes: Shapes::First(contrib::attention_mask),
        ..Operator::new("kiln", "AttentionMask", &[1], between(3, 4), &[number("fill", -10000.0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::new(
            "com.microsoft",
            "RotaryEmbedding",
            &[1],
            exactly(4),
            &[
                int("interleaved", 0),
                int("is_packed_batching", 0),
                int("num_heads", 0),
                int("rotary_embedding_dim", 0),
                number("scale", 1.0),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(contrib::quantized_lstm),
        ..Operator::new(
            "com.microsoft",
            "DynamicQuantizeLSTM",
            &[1],
            exactly(12),
            &[
                optional("activation_alpha"),
                optional("activation_beta"),
                optional("activations"),
                optional("clip"),
                text("direction", "forward"),
                optional("hidden_size"),
                int("input_forget", 0),
            ],
        )
    },
];
