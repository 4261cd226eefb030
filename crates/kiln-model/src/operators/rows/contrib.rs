//! Operators of ONNX Runtime's domain that have nodes of their own, and operators that expansions use besides ONNX's.

use kiln_tensor::DType;

use crate::operators::arithmetic::Arithmetic::{By, PerElement, Uncounted};
use crate::operators::attributes::{Attribute, int, number, optional, required, text};
use crate::operators::row::{Operator, Shapes, Types, between, exactly};
use crate::operators::{arithmetic, contrib, kinds, shapes, work};

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::Input(1),
        shapes: Shapes::First(contrib::attention_mask),
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "kiln",
            "AttentionMask",
            &[1],
            between(3, 4),
            &[number("fill", -10000.0)],
        )
    },
    Operator {
        types: Types::Is(DType::I64),
        shapes: Shapes::First(contrib::sequences),
        ..Operator::moves("kiln", "StepPosition", &[1], between(3, 7), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::moves("kiln", "BeamRows", &[1], exactly(3), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(
            PerElement,
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
        shapes: Shapes::First(contrib::stated_columns),
        ..Operator::keyed(
            By(arithmetic::matmul),
            "com.microsoft",
            "MatMulNBits",
            &[1],
            between(3, 6),
            &[
                required("K"),
                required("N"),
                int("accuracy_level", 0),
                int("bits", 4),
                required("block_size"),
                int("weight_prepacked", 0),
            ],
        )
    },
    Operator {
        types: Types::Input(2),
        shapes: Shapes::First(contrib::gather_block_quantized),
        ..Operator::moves(
            "com.microsoft",
            "GatherBlockQuantized",
            &[1],
            between(3, 4),
            &[int("bits", 4), int("block_size", 128), int("gather_axis", 0), int("quantize_axis", 1)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(contrib::stated_columns),
        ..Operator::keyed(
            By(arithmetic::matmul),
            "com.microsoft",
            "MatMulBnb4",
            &[1],
            exactly(3),
            &[
                required("K"),
                required("N"),
                required("block_size"),
                required("quant_type"),
                int("training_mode", 0),
                int("transB", 1),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::matmul),
        ..Operator::keyed(
            By(arithmetic::matmul),
            "kiln",
            "BlockwiseMatMul",
            &[1],
            between(2, 5),
            &[required("block_size"), int("trans_b", 0), int("bits", 0)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(contrib::quantized_lstm),
        ..Operator::keyed(
            By(arithmetic::recurrent),
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
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(contrib::square),
        ..Operator::plain(work::RARE, By(arithmetic::matrices), "com.microsoft", "Inverse", &[1], exactly(1), &[])
    },
    Operator {
        types: Types::By(kinds::with_state_3),
        shapes: Shapes::All(contrib::linear_attention),
        ..Operator::keyed(
            By(arithmetic::linear_attention),
            "com.microsoft",
            "LinearAttention",
            &[1],
            between(3, 6),
            &[
                int("chunk_size", 64),
                required("kv_num_heads"),
                required("q_num_heads"),
                number("scale", 0.0),
                int("state_window", 0),
                text("update_rule", "gated_delta"),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(Uncounted, "com.microsoft", "MoE", &[1], between(5, 8), EXPERTS)
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(Uncounted, "com.microsoft", "QMoE", &[1], between(6, 21), QUANTIZED_EXPERTS)
    },
    Operator {
        types: Types::By(contrib::group_query_types),
        shapes: Shapes::All(contrib::group_query),
        ..Operator::keyed(Uncounted, "com.microsoft", "GroupQueryAttention", &[1], between(7, 17), GROUP_QUERY)
    },
    // The same over a cache in pages, with one more input: the pages of each sequence.
    Operator {
        types: Types::By(contrib::group_query_types),
        shapes: Shapes::All(contrib::group_query),
        ..Operator::keyed(Uncounted, "kiln", "GroupQueryAttention", &[1], between(7, 18), GROUP_QUERY)
    },
    Operator {
        types: Types::Is(DType::String),
        ..Operator::plain(
            work::TEXTS,
            Uncounted,
            "com.microsoft",
            "Tokenizer",
            &[1],
            exactly(1),
            &[
                required("mark"),
                required("mincharnum"),
                required("pad_value"),
                optional("separators"),
                optional("tokenexp"),
            ],
        )
    },
    Operator {
        types: Types::Is(DType::I32),
        ..Operator::plain(work::SERIAL, Uncounted, "com.microsoft", "DynamicTimeWarping", &[1], exactly(1), &[])
    },
    Operator {
        types: Types::Input(1),
        shapes: Shapes::Input(1),
        ..Operator::plain(
            work::SCATTERED,
            Uncounted,
            "com.microsoft",
            "NGramRepeatBlock",
            &[1],
            exactly(2),
            &[required("ngram_size")],
        )
    },
    Operator {
        types: Types::By(contrib::hash),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::TEXTS,
            PerElement,
            "com.microsoft",
            "MurmurHash3",
            &[1],
            exactly(1),
            &[int("positive", 1), int("seed", 0)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(contrib::unfold),
        ..Operator::moves(
            "com.microsoft",
            "UnfoldTensor",
            &[1],
            exactly(1),
            &[int("dim", -1), required("size"), int("step", 1)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(contrib::crops),
        ..Operator::plain(
            work::SCATTERED,
            PerElement,
            "com.microsoft",
            "CropAndResize",
            &[1],
            exactly(4),
            &[number("extrapolation_value", 0.0), text("mode", "bilinear")],
        )
    },
];

/// Attributes of GroupQueryAttention.
const GROUP_QUERY: &[Attribute] = &[
    int("causal", 1),
    int("do_rotary", 0),
    optional("k_norm_epsilon"),
    text("k_quant_type", "NONE"),
    int("kv_cache_bit_width", 0),
    required("kv_num_heads"),
    int("local_window_size", -1),
    required("num_heads"),
    optional("q_norm_epsilon"),
    number("qk_norm_epsilon", 1e-6),
    int("past_present_share_buffer", 0),
    int("qk_output", 0),
    int("rotary_interleaved", 0),
    optional("scale"),
    int("sliding_window_cache", 0),
    int("smooth_softmax", -1),
    number("softcap", 0.0),
    text("v_quant_type", "NONE"),
];

/// Attributes of experts.
const EXPERTS: &[Attribute] = &[
    number("activation_alpha", 1.0),
    number("activation_beta", 0.0),
    text("activation_type", "relu"),
    int("k", 1),
    int("normalize_routing_weights", 0),
    int("swiglu_fusion", 0),
    number("swiglu_limit", f32::INFINITY),
    int("swiglu_limit_after_activation", 0),
    int("use_sparse_mixer", 0),
];

/// Attributes of experts whose weights have a few bits.
const QUANTIZED_EXPERTS: &[Attribute] = &[
    int("accuracy_level", 0),
    number("activation_alpha", 1.0),
    number("activation_beta", 0.0),
    text("activation_type", "relu"),
    optional("block_size"),
    int("expert_weight_bits", 4),
    optional("fc1_expert_weight_bits"),
    optional("fc2_expert_weight_bits"),
    optional("fc3_expert_weight_bits"),
    int("k", 1),
    int("normalize_routing_weights", 0),
    text("quant_type", "int"),
    int("swiglu_fusion", 0),
    number("swiglu_limit", f32::INFINITY),
    int("swiglu_limit_after_activation", 0),
    int("use_sparse_mixer", 0),
    int("weights_prepacked", -1),
];
