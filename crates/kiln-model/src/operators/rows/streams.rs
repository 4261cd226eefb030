//! Operators of ONNX Runtime's domain that decoders use besides attention: operators with a state, branches of
//! features, and the choice of experts.

use crate::operators::arithmetic::Arithmetic::{By, PerElement, Uncounted};
use crate::operators::attributes::{Attribute, int, number, optional, required, text};
use crate::operators::row::{Count, Operator, Shapes, Types, between, exactly};
use crate::operators::work;
use crate::operators::{arithmetic, kinds, streams};

/// An operator of one pass over its inputs.
const fn pass(name: &'static str, inputs: Count, attributes: &'static [Attribute]) -> Operator {
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::plain(work::BOUND_BY_MEMORY, PerElement, "com.microsoft", name, &[1], inputs, attributes)
    }
}

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(
            PerElement,
            "com.microsoft",
            "MRotaryEmbedding",
            &[1],
            exactly(4),
            &[
                int("interleaved", 0),
                int("is_packed_batching", 0),
                int("mrope_layout", 0),
                required("mrope_section"),
                int("num_heads", 0),
                int("rotary_embedding_dim", 0),
                number("scale", 1.0),
            ],
        )
    },
    Operator {
        shapes: Shapes::All(streams::causal_conv),
        arithmetic: By(arithmetic::causal_conv),
        ..pass(
            "CausalConvWithState",
            between(2, 4),
            &[
                text("activation", "none"),
                int("channels_last", 0),
                int("dilation", 1),
                int("input_channel_offset", 0),
                int("input_channels", 0),
                int("ndim", 1),
                int("state_channels_last", -1),
                int("state_length", 0),
                int("state_update_capacity", 0),
                int("state_window", 0),
            ],
        )
    },
    Operator {
        shapes: Shapes::All(streams::packed_conv),
        arithmetic: By(arithmetic::causal_conv),
        ..pass(
            "VarlenCausalConvWithState",
            between(5, 8),
            &[
                text("activation", "none"),
                int("delta_offset", 0),
                int("dilation", 1),
                int("group_size", 1),
                int("state_update_capacity", 0),
            ],
        )
    },
    Operator {
        types: Types::By(kinds::first_and_f32),
        shapes: Shapes::All(streams::delta_net),
        ..Operator::plain(
            work::SERIAL,
            By(arithmetic::delta_net),
            "com.microsoft",
            "GatedDeltaNet",
            &[1],
            between(1, 11),
            &[
                text("beta_activation", "none"),
                int("chunk_size", 64),
                text("gate_activation", "none"),
                number("gate_lower_bound", -5.0),
                int("qk_l2_norm", 0),
                number("scale", 0.0),
                int("state_update_capacity", 0),
                text("update_rule", "gated_delta"),
            ],
        )
    },
    Operator {
        types: Types::By(kinds::first_and_caches),
        shapes: Shapes::All(streams::sparse_attention),
        ..Operator::plain(
            work::SCATTERED,
            Uncounted,
            "com.microsoft",
            "SparseAttention",
            &[1],
            between(9, 11),
            &[
                int("do_rotary", 0),
                required("kv_num_heads"),
                required("num_heads"),
                int("rotary_interleaved", 0),
                optional("scale"),
                required("sparse_block_size"),
            ],
        )
    },
    pass("BranchwiseRMSNorm", between(1, 2), &[number("epsilon", 1e-5), int("num_branches", 0)]),
    Operator {
        shapes: Shapes::First(streams::one_branch),
        arithmetic: By(arithmetic::first_input),
        ..pass("HyperConnectionPreMix", exactly(2), &[int("num_branches", 0), number("reduction_scale", 1.0)])
    },
    pass("HyperConnectionPostMix", between(3, 4), &[int("num_branches", 0)]),
    Operator { shapes: Shapes::All(streams::twice), ..pass("EngramGate", between(5, 6), &[number("epsilon", 1e-5)]) },
    Operator {
        types: Types::By(kinds::first_and_f32),
        shapes: Shapes::All(streams::router),
        arithmetic: By(arithmetic::router),
        work: work::Work::Plain(work::ORDER),
        ..pass(
            "MoEGroupRouter",
            between(2, 3),
            &[
                int("group_topk", 2),
                int("n_group", 1),
                number("router_sentinel", -10000.0),
                required("top_k"),
                int("topk_group", 1),
            ],
        )
    },
];
