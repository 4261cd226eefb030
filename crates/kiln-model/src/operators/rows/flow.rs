//! Operators with bodies, sequences and optional values, which handle more than tensors.

use kiln_tensor::DType;

use crate::operators::arithmetic::Arithmetic::Uncounted;
use crate::operators::attributes::{Attribute, int, optional, required};
use crate::operators::row::{Count, Folds, Operator, Types, at_least, between, exactly};
use crate::operators::work;

pub(in crate::operators) const ROWS: &[Operator] = &[
    with_bodies(
        "If",
        &[1, 11, 13, 16, 19, 21, 23, 24, 25],
        exactly(1),
        &[required("else_branch"), required("then_branch")],
    ),
    with_bodies("Loop", &[1, 11, 13, 16, 19, 21, 23, 24, 25], at_least(2), &[required("body")]),
    with_bodies(
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
    Operator::moves("", "SequenceEmpty", &[11], exactly(0), &[optional("dtype")]),
    Operator::moves("", "SequenceConstruct", &[11], at_least(1), &[]),
    Operator::moves("", "SequenceInsert", &[11], between(2, 3), &[]),
    Operator::moves("", "SequenceErase", &[11], between(1, 2), &[]),
    Operator::moves("", "SequenceAt", &[11], exactly(2), &[]),
    Operator::moves("", "SequenceLength", &[11], exactly(1), &[]),
    Operator::moves("", "SplitToSequence", &[11, 24], between(1, 2), &[int("axis", 0), int("keepdims", 1)]),
    Operator::moves("", "ConcatFromSequence", &[11], exactly(1), &[required("axis"), int("new_axis", 0)]),
    with_bodies("SequenceMap", &[17], at_least(1), &[required("body")]),
    Operator::moves("", "Optional", &[15, 28], between(0, 1), &[optional("type")]),
    Operator::moves("", "OptionalHasElement", &[15, 18, 28], between(0, 1), &[]),
    Operator::moves("", "OptionalGetElement", &[15, 18, 28], exactly(1), &[]),
    Operator {
        types: Types::Is(DType::I64),
        ..Operator::plain(
            work::ORDER,
            Uncounted,
            "",
            "NonMaxSuppression",
            &[10, 11],
            between(2, 5),
            &[int("center_point_box", 0)],
        )
    },
];

/// An operator that runs the nodes of graphs that are its attributes.
const fn with_bodies(
    name: &'static str,
    since: &'static [u8],
    inputs: Count,
    attributes: &'static [Attribute],
) -> Operator {
    Operator { folds: Folds::Never, ..Operator::plain(work::BODIES, Uncounted, "", name, since, inputs, attributes) }
}
