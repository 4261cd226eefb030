//! Strings, and what classic machine learning does to tables.

use kiln_tensor::DType;

use crate::operators::arithmetic::Arithmetic::{PerElement, Uncounted};
use crate::operators::attributes::{int, number, optional, required, text};
use crate::operators::row::{Operator, Shapes, Types, exactly};
use crate::operators::{kinds, shapes, work};

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator::plain(
        work::TEXTS,
        PerElement,
        "",
        "StringSplit",
        &[20],
        exactly(1),
        &[optional("delimiter"), optional("maxsplit")],
    ),
    Operator {
        types: Types::Is(DType::String),
        ..Operator::plain(
            work::TEXTS,
            PerElement,
            "",
            "StringNormalizer",
            &[10],
            exactly(1),
            &[
                text("case_change_action", "NONE"),
                int("is_case_sensitive", 0),
                optional("locale"),
                optional("stopwords"),
            ],
        )
    },
    Operator {
        types: Types::Is(DType::Bool),
        shapes: Shapes::Input(0),
        ..Operator::plain(work::TEXTS, PerElement, "", "RegexFullMatch", &[20], exactly(1), &[text("pattern", "")])
    },
    Operator {
        types: Types::Is(DType::F32),
        shapes: Shapes::First(shapes::n_grams),
        ..Operator::plain(
            work::TEXTS,
            Uncounted,
            "",
            "TfIdfVectorizer",
            &[9],
            exactly(1),
            &[
                required("max_gram_length"),
                required("max_skip_count"),
                required("min_gram_length"),
                required("mode"),
                required("ngram_counts"),
                required("ngram_indexes"),
                optional("pool_int64s"),
                optional("pool_strings"),
                optional("weights"),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::features),
        ..Operator::moves("ai.onnx.ml", "ArrayFeatureExtractor", &[1], exactly(2), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "ai.onnx.ml",
            "Binarizer",
            &[1],
            exactly(1),
            &[number("threshold", 0.0)],
        )
    },
    Operator {
        types: Types::By(kinds::labels),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::TEXTS,
            PerElement,
            "ai.onnx.ml",
            "LabelEncoder",
            &[1, 2, 4],
            exactly(1),
            &[
                optional("classes_strings"),
                number("default_float", -0.0),
                int("default_int64", -1),
                text("default_string", "_Unused"),
                optional("default_tensor"),
                optional("keys_floats"),
                optional("keys_int64s"),
                optional("keys_strings"),
                optional("keys_tensor"),
                optional("values_floats"),
                optional("values_int64s"),
                optional("values_strings"),
                optional("values_tensor"),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::targets),
        ..Operator::plain(
            work::TREES,
            Uncounted,
            "ai.onnx.ml",
            "TreeEnsemble",
            &[5],
            exactly(1),
            &[
                int("aggregate_function", 1),
                required("leaf_targetids"),
                required("leaf_weights"),
                optional("membership_values"),
                int("n_targets", 1),
                required("nodes_falseleafs"),
                required("nodes_falsenodeids"),
                required("nodes_featureids"),
                optional("nodes_hitrates"),
                optional("nodes_missing_value_tracks_true"),
                required("nodes_modes"),
                required("nodes_splits"),
                required("nodes_trueleafs"),
                required("nodes_truenodeids"),
                int("post_transform", 0),
                required("tree_roots"),
            ],
        )
    },
];
