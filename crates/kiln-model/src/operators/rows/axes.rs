//! Operators along axes: normalisations, softmax, reductions, orders, selections.

use kiln_tensor::DType;

use crate::ir::NodeDesc;
use crate::operators::arithmetic::Arithmetic::PerElement;
use crate::operators::attributes::{Attribute, int, int_since, number, optional, required_before, text};
use crate::operators::device::{Device, Form};
use crate::operators::row::{Folds, Layout, Operator, RowWise, Shapes, Types, between, exactly};
use crate::operators::{kinds, shapes, work};

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        layout: Layout::Axis { since: 13, all: false },
        device: Device::Form(Form::FOLLOWS),
        row_wise: Some(RowWise::LastAxis { since: 13 }),
        ..Operator::keyed(PerElement, "", "Softmax", &[1, 11, 13], exactly(1), &[int_since("axis", 13, 1, -1)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        layout: Layout::Axis { since: 13, all: false },
        device: Device::Form(Form::FOLLOWS),
        row_wise: Some(RowWise::LastAxis { since: 13 }),
        ..Operator::keyed(PerElement, "", "LogSoftmax", &[1, 11, 13], exactly(1), &[int_since("axis", 13, 1, -1)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        layout: Layout::Axis { since: 13, all: false },
        ..Operator::keyed(PerElement, "", "Hardmax", &[1, 11, 13], exactly(1), &[int_since("axis", 13, 1, -1)])
    },
    Operator {
        types: Types::By(kinds::stored_and_moments),
        shapes: Shapes::All(shapes::with_moments),
        device: Device::By(single_output),
        // ONNX Runtime defines it in ONNX's domain from version 1 on, and saves models of older operator sets with it.
        first: 1,
        row_wise: Some(RowWise::LastAxis { since: 1 }),
        ..Operator::keyed(
            PerElement,
            "",
            "LayerNormalization",
            &[17],
            between(2, 3),
            &[int("axis", -1), number("epsilon", 1e-05), int("stash_type", 1), optional("to")],
        )
    },
    Operator {
        types: Types::By(kinds::stored),
        shapes: Shapes::Input(0),
        device: Device::By(single_output),
        row_wise: Some(RowWise::LastAxis { since: 1 }),
        ..Operator::keyed(
            PerElement,
            "",
            "RMSNormalization",
            &[23],
            exactly(2),
            &[int("axis", -1), number("epsilon", 1e-05), int("stash_type", 1), optional("to")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        layout: Layout::Axis { since: 1, all: false },
        ..Operator::keyed(PerElement, "", "LpNormalization", &[1, 22], exactly(1), &[int("axis", -1), int("p", 2)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(PerElement, "", "MeanVarianceNormalization", &[9, 13], exactly(1), &[optional("axes")])
    },
    reduction("ReduceSum", &[1, 11, 13]),
    reduction("ReduceMean", &[1, 11, 13, 18]),
    reduction("ReduceMax", &[1, 11, 12, 13, 18, 20]),
    reduction("ReduceMin", &[1, 11, 12, 13, 18, 20]),
    reduction("ReduceProd", &[1, 11, 13, 18]),
    reduction("ReduceSumSquare", &[1, 11, 13, 18]),
    reduction("ReduceL1", &[1, 11, 13, 18]),
    reduction("ReduceL2", &[1, 11, 13, 18]),
    reduction("ReduceLogSum", &[1, 11, 13, 18, 28]),
    reduction("ReduceLogSumExp", &[1, 11, 13, 18, 28]),
    place("ArgMax"),
    place("ArgMin"),
    Operator {
        types: Types::By(kinds::first_and_places),
        shapes: Shapes::All(shapes::top_k),
        folds: Folds::Unsized,
        ..Operator::plain(
            work::ORDER,
            PerElement,
            "",
            "TopK",
            &[1, 10, 11, 24],
            between(1, 2),
            &[int("axis", -1), required_before("k", 10), int("largest", 1), int("sorted", 1)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(PerElement, "", "CumSum", &[11, 14], exactly(2), &[int("exclusive", 0), int("reverse", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(PerElement, "", "CumProd", &[26], exactly(2), &[int("exclusive", 0), int("reverse", 0)])
    },
    Operator {
        types: Types::By(kinds::first_and_places),
        folds: Folds::Unsized,
        ..Operator::plain(
            work::ORDER,
            PerElement,
            "",
            "Unique",
            &[11, 28],
            exactly(1),
            &[optional("axis"), int("sorted", 1)],
        )
    },
    Operator {
        types: Types::Is(DType::I64),
        folds: Folds::Unsized,
        ..Operator::plain(work::ORDER, PerElement, "", "NonZero", &[9, 13], exactly(1), &[])
    },
    Operator {
        types: Types::Input(0),
        folds: Folds::Unsized,
        ..Operator::moves("", "Compress", &[9, 11, 28], exactly(2), &[optional("axis")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(shapes::losses),
        ..Operator::plain(
            work::RARE,
            PerElement,
            "",
            "NegativeLogLikelihoodLoss",
            &[12, 13, 22],
            between(2, 3),
            &[optional("ignore_index"), text("reduction", "mean")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(shapes::losses),
        ..Operator::plain(
            work::RARE,
            PerElement,
            "",
            "SoftmaxCrossEntropyLoss",
            &[12, 13],
            between(2, 3),
            &[optional("ignore_index"), text("reduction", "mean")],
        )
    },
];

/// The place of an extreme element along an axis.
const fn place(name: &'static str) -> Operator {
    const ATTRIBUTES: &[Attribute] = &[int("axis", 0), int("keepdims", 1), int("select_last_index", 0)];
    Operator {
        types: Types::Is(DType::I64),
        shapes: Shapes::First(shapes::reduce_axis),
        layout: Layout::Axis { since: 1, all: false },
        ..Operator::keyed(PerElement, "", name, &[1, 11, 12, 13], exactly(1), ATTRIBUTES)
    }
}

/// A reduction along axes that are an attribute of older versions and an input of newer ones.
const fn reduction(name: &'static str, since: &'static [u8]) -> Operator {
    const ATTRIBUTES: &[Attribute] = &[optional("axes"), int("keepdims", 1), int("noop_with_empty_axes", 0)];
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::reduce),
        layout: Layout::Reduces,
        device: Device::Form(Form { host_inputs: 1 << 1, ..Form::FOLLOWS }),
        ..Operator::keyed(PerElement, "", name, since, between(1, 2), ATTRIBUTES)
    }
}

/// Where nothing but the first output is asked for.
fn single_output(node: &NodeDesc) -> Option<Form> {
    (node.outputs.len() == 1).then_some(Form::FOLLOWS)
}
