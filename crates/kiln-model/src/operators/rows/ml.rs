//! Classical models over tables: trees, support vector machines, scalers, and maps from and to rows.

use kiln_tensor::DType;

use crate::operators::arithmetic::Arithmetic::{PerElement, Uncounted};
use crate::operators::attributes::{Attribute, int, optional, required, text};
use crate::operators::row::{Operator, Shapes, Types, exactly};
use crate::operators::{contrib, kinds, work};

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::By(kinds::category),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::TEXTS,
            PerElement,
            "ai.onnx.ml",
            "CategoryMapper",
            &[1],
            exactly(1),
            &[
                required("cats_int64s"),
                required("cats_strings"),
                int("default_int64", -1),
                text("default_string", "_Unused"),
            ],
        )
    },
    Operator::moves(
        "ai.onnx.ml",
        "CastMap",
        &[1],
        exactly(1),
        &[text("cast_to", "TO_FLOAT"), text("map_form", "DENSE"), int("max_map", 1)],
    ),
    Operator::moves(
        "ai.onnx.ml",
        "DictVectorizer",
        &[1],
        exactly(1),
        &[optional("int64_vocabulary"), optional("string_vocabulary")],
    ),
    Operator {
        types: Types::Is(DType::F32),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "ai.onnx.ml",
            "Scaler",
            &[1],
            exactly(1),
            &[optional("offset"), optional("scale")],
        )
    },
    Operator {
        types: Types::By(kinds::label_and_scores),
        shapes: Shapes::All(contrib::machine_classes),
        ..Operator::plain(
            work::KERNEL_ROWS,
            Uncounted,
            "ai.onnx.ml",
            "SVMClassifier",
            &[1],
            exactly(1),
            &[
                optional("classlabels_ints"),
                optional("classlabels_strings"),
                optional("coefficients"),
                optional("kernel_params"),
                text("kernel_type", "LINEAR"),
                text("post_transform", "NONE"),
                optional("prob_a"),
                optional("prob_b"),
                optional("rho"),
                optional("support_vectors"),
                optional("vectors_per_class"),
            ],
        )
    },
    Operator {
        types: Types::Is(DType::F32),
        shapes: Shapes::First(contrib::one_target),
        ..Operator::plain(
            work::KERNEL_ROWS,
            Uncounted,
            "ai.onnx.ml",
            "SVMRegressor",
            &[1],
            exactly(1),
            &[
                optional("coefficients"),
                optional("kernel_params"),
                text("kernel_type", "LINEAR"),
                int("n_supports", 0),
                int("one_class", 0),
                text("post_transform", "NONE"),
                optional("rho"),
                optional("support_vectors"),
            ],
        )
    },
    Operator {
        types: Types::Is(DType::F32),
        shapes: Shapes::First(contrib::tree_targets),
        ..Operator::plain(work::TREES, Uncounted, "ai.onnx.ml", "TreeEnsembleRegressor", &[1, 3], exactly(1), REGRESSOR)
    },
    Operator {
        types: Types::By(kinds::label_and_scores),
        shapes: Shapes::All(contrib::tree_classes),
        ..Operator::plain(
            work::TREES,
            Uncounted,
            "ai.onnx.ml",
            "TreeEnsembleClassifier",
            &[1, 3],
            exactly(1),
            CLASSIFIER,
        )
    },
    Operator::moves(
        "ai.onnx.ml",
        "ZipMap",
        &[1],
        exactly(1),
        &[optional("classlabels_int64s"), optional("classlabels_strings")],
    ),
];

const REGRESSOR: &[Attribute] = &[
    text("aggregate_function", "SUM"),
    optional("base_values"),
    optional("base_values_as_tensor"),
    int("n_targets", 1),
    required("nodes_falsenodeids"),
    required("nodes_featureids"),
    optional("nodes_hitrates"),
    optional("nodes_hitrates_as_tensor"),
    optional("nodes_missing_value_tracks_true"),
    required("nodes_modes"),
    required("nodes_nodeids"),
    required("nodes_treeids"),
    required("nodes_truenodeids"),
    optional("nodes_values"),
    optional("nodes_values_as_tensor"),
    text("post_transform", "NONE"),
    required("target_ids"),
    required("target_nodeids"),
    required("target_treeids"),
    optional("target_weights"),
    optional("target_weights_as_tensor"),
];

const CLASSIFIER: &[Attribute] = &[
    optional("base_values"),
    optional("base_values_as_tensor"),
    required("class_ids"),
    required("class_nodeids"),
    required("class_treeids"),
    optional("class_weights"),
    optional("class_weights_as_tensor"),
    optional("classlabels_int64s"),
    optional("classlabels_strings"),
    required("nodes_falsenodeids"),
    required("nodes_featureids"),
    optional("nodes_hitrates"),
    optional("nodes_hitrates_as_tensor"),
    optional("nodes_missing_value_tracks_true"),
    required("nodes_modes"),
    required("nodes_nodeids"),
    required("nodes_treeids"),
    required("nodes_truenodeids"),
    optional("nodes_values"),
    optional("nodes_values_as_tensor"),
    text("post_transform", "NONE"),
];
