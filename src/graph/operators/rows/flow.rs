//! Operators with bodies, sequences and optional values: what sees more than tensors.

use crate::graph::operators::attributes::{int, optional, required};
use crate::graph::operators::row::{Operator, Types, at_least, between, exactly};
use crate::tensor::DType;

pub(in crate::graph::operators) const ROWS: &[Operator] = &[
    Operator::new(
        "",
        "If",
        &[1, 11, 13, 16, 19, 21, 23, 24, 25],
        exactly(1),
        &[required("else_branch"), required("then_branch")],
    ),
    Operator::new("", "Loop", &[1, 11, 13, 16, 19, 21, 23, 24, 25], at_least(2), &[required("body")]),
    Operator::new(
        "",
        "Scan",
        &[8, 9, 11, 16, 19, 21, 23, 24, 25],
        at_least(1),
        &[
            required("body"),
            optional("directions"),
            required("num_scan_inputs"),
            optional("scan_input_axes"),
            optional("scan_input_directions"),
            optional("scan_output_axes"),
            optional("scan_output_directions"),
        ],
    ),
    Operator::new("", "SequenceEmpty", &[11], exactly(0), &[optional("dtype")]),
    Operator::new("", "SequenceConstruct", &[11], at_least(1), &[]),
    Operator::new("", "SequenceInsert", &[11], between(2, 3), &[]),
    Operator::new("", "SequenceErase", &[11], between(1, 2), &[]),
    Operator::new("", "SequenceAt", &[11], exactly(2), &[]),
    Operator::new("", "SequenceLength", &[11], exactly(1), &[]),
    Operator::new("", "SplitToSequence", &[11, 24], between(1, 2), &[int("axis", 0), int("keepdims", 1)]),
    Operator::new("", "ConcatFromSequence", &[11], exactly(1), &[required("axis"), int("new_axis", 0)]),
    Operator::new("", "SequenceMap", &[17], at_least(1), &[required("body")]),
    Operator::new("", "Optional", &[15, 28], between(0, 1), &[optional("type")]),
    Operator::new("", "OptionalHasElement", &[15, 18, 28], between(0, 1), &[]),
    Operator::new("", "OptionalGetElement", &[15, 18, 28], exactly(1), &[]),
    Operator {
        types: Types::Is(DType::I64),
        ..Operator::new("", "NonMaxSuppression", &[10, 11], between(2, 5), &[int("center_point_box", 0)])
    },
];
