//! Operators that move elements, or make tensors of shapes and numbers.

use kiln_tensor::DType;

use crate::operators::arithmetic::Arithmetic::PerElement;
use crate::operators::attributes::{int, number, optional, required, required_before, text};
use crate::operators::device::{Device, Form, Pull};
use crate::operators::row::{Folds, Layout, Operator, RowWise, Shapes, Types, at_least, between, exactly};
use crate::operators::{elements, kinds, shapes, work};

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        elements: Some(elements::same),
        layout: Layout::ElementWise,
        device: Device::Form(Form::moves(0)),
        ..Operator::moves("", "Identity", &[1, 13, 14, 16, 19, 21, 23, 24, 25], exactly(1), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::reshape),
        elements: Some(elements::reshape),
        layout: Layout::Reshape,
        device: Device::Form(Form::moves(1 << 1)),
        folds: Folds::Unsized,
        ..Operator::moves("", "Reshape", &[1, 5, 13, 14, 19, 21, 23, 24, 25], exactly(2), &[int("allowzero", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::flatten),
        layout: Layout::Reshape,
        device: Device::Form(Form::moves(0)),
        ..Operator::moves("", "Flatten", &[1, 9, 11, 13, 21, 23, 24, 25], exactly(1), &[int("axis", 1)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::squeeze),
        elements: Some(elements::same),
        layout: Layout::Squeeze,
        device: Device::Form(Form::moves(1 << 1)),
        folds: Folds::Unsized,
        ..Operator::moves("", "Squeeze", &[1, 11, 13, 21, 23, 24, 25], between(1, 2), &[optional("axes")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::unsqueeze),
        elements: Some(elements::unsqueeze),
        layout: Layout::Unsqueeze,
        device: Device::Form(Form::moves(1 << 1)),
        folds: Folds::Unsized,
        ..Operator::moves("", "Unsqueeze", &[1, 11, 13, 21, 23, 24, 25], between(1, 2), &[required_before("axes", 13)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::transpose),
        layout: Layout::Transpose,
        device: Device::Form(Form::moves(0)),
        folds: Folds::Unsized,
        ..Operator::keyed(PerElement, "", "Transpose", &[1, 13, 21, 23, 24, 25], exactly(1), &[optional("perm")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::concat),
        elements: Some(elements::concat),
        layout: Layout::Axis { since: 1, all: true },
        device: Device::Form(Form::moves(0)),
        ..Operator::moves("", "Concat", &[1, 4, 11, 13], at_least(1), &[int("axis", 1)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(shapes::split),
        layout: Layout::Axis { since: 1, all: false },
        device: Device::Form(Form::moves(1 << 1)),
        folds: Folds::Unsized,
        ..Operator::moves(
            "",
            "Split",
            &[1, 2, 11, 13, 18],
            between(1, 2),
            &[int("axis", 0), optional("num_outputs"), optional("split")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::slice),
        elements: Some(elements::slice),
        layout: Layout::Slices,
        device: Device::Form(Form::moves(0b11110)),
        folds: Folds::Unsized,
        ..Operator::moves(
            "",
            "Slice",
            &[1, 10, 11, 13],
            between(1, 5),
            &[optional("axes"), required_before("ends", 10), required_before("starts", 10)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::tile),
        device: Device::Form(Form::moves(1 << 1)),
        ..Operator::moves("", "Tile", &[1, 6, 13], exactly(2), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::expand),
        device: Device::Form(Form::moves(1 << 1)),
        ..Operator::moves("", "Expand", &[8, 13], exactly(2), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::gather),
        elements: Some(elements::gather),
        device: Device::Form(Form { pull: Pull::Table, ..Form::moves(1 << 1) }),
        row_wise: Some(RowWise::Table),
        ..Operator::moves("", "Gather", &[1, 11, 13], exactly(2), &[int("axis", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(1),
        ..Operator::moves("", "GatherElements", &[11, 13], exactly(2), &[int("axis", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::gather_nd),
        folds: Folds::Unsized,
        ..Operator::moves("", "GatherND", &[11, 12, 13], exactly(2), &[int("batch_dims", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::plain(work::SCATTERED, PerElement, "", "Scatter", &[9, 11], exactly(3), &[int("axis", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::SCATTERED,
            PerElement,
            "",
            "ScatterElements",
            &[11, 13, 16, 18],
            exactly(3),
            &[int("axis", 0), text("reduction", "none")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::SCATTERED,
            PerElement,
            "",
            "ScatterND",
            &[11, 13, 16, 18],
            exactly(3),
            &[text("reduction", "none")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::moves("", "TensorScatter", &[24], between(2, 3), &[int("axis", -2), text("mode", "linear")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::moves("", "Trilu", &[14], between(1, 2), &[int("upper", 1)])
    },
    Operator {
        types: Types::By(kinds::drawn_like),
        shapes: Shapes::Input(0),
        ..Operator::moves("", "EyeLike", &[9, 22], exactly(1), &[optional("dtype"), int("k", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::moves("", "ReverseSequence", &[10, 28], exactly(2), &[int("batch_axis", 1), int("time_axis", 0)])
    },
    Operator {
        types: Types::Input(1),
        shapes: Shapes::Input(0),
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "",
            "CastLike",
            &[15, 19, 21, 23, 24, 25],
            exactly(2),
            &[text("round_mode", "up"), int("saturate", 1)],
        )
    },
    Operator {
        types: Types::By(|view, _| kinds::named(view, "to")),
        shapes: Shapes::Input(0),
        ..Operator::moves("", "BitCast", &[26], exactly(1), &[required("to")])
    },
    Operator {
        types: Types::By(kinds::first_and_mask),
        shapes: Shapes::All(shapes::alike),
        draws: true,
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "",
            "Dropout",
            &[1, 6, 7, 10, 12, 13, 22],
            between(1, 3),
            &[int("is_test", 0), number("ratio", 0.5), optional("seed")],
        )
    },
    Operator {
        types: Types::Is(DType::I64),
        shapes: Shapes::First(shapes::shape),
        elements: Some(elements::shape),
        layout: Layout::Shape,
        measures: true,
        ..Operator::moves(
            "",
            "Shape",
            &[1, 13, 15, 19, 21, 23, 24, 25],
            exactly(1),
            &[optional("end"), int("start", 0)],
        )
    },
    Operator {
        types: Types::Is(DType::I64),
        shapes: Shapes::First(shapes::scalar),
        elements: Some(elements::size),
        measures: true,
        ..Operator::moves("", "Size", &[1, 13, 19, 21, 23, 24, 25], exactly(1), &[])
    },
    Operator::moves(
        "",
        "Constant",
        &[1, 9, 11, 12, 13, 19, 21, 23, 24, 25],
        exactly(0),
        &[
            optional("sparse_value"),
            optional("value"),
            optional("value_float"),
            optional("value_floats"),
            optional("value_int"),
            optional("value_ints"),
            optional("value_string"),
            optional("value_strings"),
        ],
    ),
    Operator {
        types: Types::By(kinds::filled),
        shapes: Shapes::First(shapes::constant_of_shape),
        elements: Some(elements::constant_of_shape),
        folds: Folds::Filled,
        ..Operator::moves("", "ConstantOfShape", &[9, 20, 21, 23, 24, 25], exactly(1), &[optional("value")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(shapes::range),
        folds: Folds::Unsized,
        ..Operator::plain(work::RARE, PerElement, "", "Range", &[11, 27], exactly(3), &[int("stash_type", 1)])
    },
    Operator {
        types: Types::Input(2),
        shapes: Shapes::First(shapes::one_hot),
        ..Operator::moves("", "OneHot", &[9, 11, 28], exactly(3), &[int("axis", -1)])
    },
    Operator {
        types: Types::By(kinds::widened),
        shapes: Shapes::Input(0),
        ..Operator::plain(work::BOUND_BY_MEMORY, PerElement, "kiln", "Widen", &[1], exactly(1), &[])
    },
    Operator {
        types: Types::By(kinds::chain),
        shapes: Shapes::Broadcast,
        layout: Layout::ElementWise,
        device: Device::Form(Form::FOLLOWS),
        ..Operator::keyed(PerElement, "kiln", "Chain", &[1], at_least(1), &[required("program")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        ..Operator::keyed(PerElement, "kiln", "ChannelPRelu", &[1], exactly(2), &[])
    },
];
