//! Operators over batch, channels and space.

use crate::ir::NodeDesc;
use crate::operators::arithmetic::Arithmetic::{By, PerElement, Uncounted};
use crate::operators::attributes::{int, number, optional, required, required_before, text, text_since};
use crate::operators::device::{Device, Form, Pull};
use crate::operators::row::{Layout, Operator, Shapes, Types, between, exactly};
use crate::operators::{arithmetic, kinds, spatial, work};

/// The attributes of poolings with windows, and one further attribute of each.
macro_rules! pool_attributes {
    [$own:expr] => {
        &[
            text("auto_pad", "NOTSET"),
            int("ceil_mode", 0),
            optional("dilations"),
            required("kernel_shape"),
            optional("pads"),
            optional("strides"),
            $own,
        ]
    };
}

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::By(kinds::first_and_places),
        shapes: Shapes::All(spatial::pool),
        layout: Layout::Pulls,
        device: Device::By(single_output),
        ..Operator::keyed(
            By(arithmetic::window),
            "",
            "MaxPool",
            &[1, 8, 10, 11, 12, 22],
            exactly(1),
            pool_attributes![int("storage_order", 0)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(spatial::pool),
        layout: Layout::Pulls,
        device: Device::Form(Form::FOLLOWS),
        ..Operator::keyed(
            By(arithmetic::window),
            "",
            "AveragePool",
            &[1, 7, 10, 11, 19, 22],
            exactly(1),
            pool_attributes![int("count_include_pad", 0)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::All(spatial::pool),
        layout: Layout::Pulls,
        ..Operator::keyed(
            By(arithmetic::window),
            "",
            "LpPool",
            &[1, 2, 11, 18, 22],
            exactly(1),
            pool_attributes![int("p", 2)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::global_pool),
        layout: Layout::Follows,
        device: Device::Form(Form::FOLLOWS),
        ..Operator::keyed(PerElement, "", "GlobalMaxPool", &[1, 22], exactly(1), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::global_pool),
        layout: Layout::Follows,
        device: Device::Form(Form::FOLLOWS),
        ..Operator::keyed(PerElement, "", "GlobalAveragePool", &[1, 22], exactly(1), &[])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::global_pool),
        ..Operator::keyed(PerElement, "", "GlobalLpPool", &[1, 2, 22], exactly(1), &[int("p", 2)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::unpool),
        ..Operator::moves(
            "",
            "MaxUnpool",
            &[9, 11, 22],
            between(2, 3),
            &[required("kernel_shape"), optional("pads"), optional("strides")],
        )
    },
    Operator {
        types: Types::By(kinds::first_and_running),
        shapes: Shapes::All(spatial::batch_normalization),
        layout: Layout::Follows,
        device: Device::By(normalises_batches),
        ..Operator::keyed(
            PerElement,
            "",
            "BatchNormalization",
            &[1, 6, 7, 9, 14, 15],
            exactly(5),
            &[
                number("epsilon", 1e-05),
                int("is_test", 0),
                number("momentum", 0.9),
                int("spatial", 1),
                int("training_mode", 0),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        layout: Layout::Follows,
        device: Device::Form(Form::FOLLOWS),
        ..Operator::keyed(PerElement, "", "InstanceNormalization", &[1, 6, 22], exactly(3), &[number("epsilon", 1e-05)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        layout: Layout::Follows,
        device: Device::Form(Form::FOLLOWS),
        ..Operator::keyed(
            PerElement,
            "",
            "GroupNormalization",
            &[18, 21],
            exactly(3),
            &[number("epsilon", 1e-05), required("num_groups"), int("stash_type", 1)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::Input(0),
        layout: Layout::Follows,
        ..Operator::keyed(
            By(arithmetic::local),
            "",
            "LRN",
            &[1, 13],
            exactly(1),
            &[number("alpha", 0.0001), number("beta", 0.75), number("bias", 1.0), required("size")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::resize),
        layout: Layout::Follows,
        device: Device::By(resizes),
        ..Operator::keyed(
            PerElement,
            "",
            "Resize",
            &[10, 11, 13, 18, 19],
            between(1, 4),
            &[
                int("antialias", 0),
                optional("axes"),
                text_since("coordinate_transformation_mode", 11, "asymmetric", "half_pixel"),
                number("cubic_coeff_a", -0.75),
                int("exclude_outside", 0),
                number("extrapolation_value", 0.0),
                text("keep_aspect_ratio_policy", "stretch"),
                text("mode", "nearest"),
                text_since("nearest_mode", 11, "floor", "round_prefer_floor"),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::upsample),
        device: Device::By(resizes),
        ..Operator::keyed(
            PerElement,
            "",
            "Upsample",
            &[1, 7, 9, 10],
            between(1, 2),
            &[optional("height_scale"), text("mode", "nearest"), required_before("scales", 9), optional("width_scale")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::depth_to_space),
        device: Device::Form(Form::moves(0)),
        ..Operator::keyed(
            PerElement,
            "",
            "DepthToSpace",
            &[1, 11, 13, 28],
            exactly(1),
            &[required("blocksize"), text("mode", "DCR")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::space_to_depth),
        device: Device::Form(Form::moves(0)),
        ..Operator::keyed(
            PerElement,
            "",
            "SpaceToDepth",
            &[1, 13, 28],
            exactly(1),
            &[required("blocksize"), text("mode", "DCR")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::pad),
        layout: Layout::Pads,
        ..Operator::moves(
            "",
            "Pad",
            &[1, 2, 11, 13, 18, 19, 21, 23, 24, 25],
            between(1, 4),
            &[text("mode", "constant"), required_before("pads", 11), number("value", 0.0)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::crop_pad),
        ..Operator::moves("", "CenterCropPad", &[18], exactly(2), &[optional("axes")])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::col2im),
        ..Operator::plain(
            work::RARE,
            PerElement,
            "",
            "Col2Im",
            &[18],
            exactly(3),
            &[optional("dilations"), optional("pads"), optional("strides")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::grid_sample),
        ..Operator::keyed(
            PerElement,
            "",
            "GridSample",
            &[16, 20, 22],
            exactly(2),
            &[int("align_corners", 0), text("mode", "linear"), text("padding_mode", "zeros")],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::affine_grid),
        ..Operator::plain(work::RARE, PerElement, "", "AffineGrid", &[20], exactly(2), &[int("align_corners", 0)])
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::regions),
        ..Operator::keyed(
            Uncounted,
            "",
            "RoiAlign",
            &[10, 16, 22],
            exactly(3),
            &[
                text_since("coordinate_transformation_mode", 16, "output_half_pixel", "half_pixel"),
                text("mode", "avg"),
                int("output_height", 1),
                int("output_width", 1),
                int("sampling_ratio", 0),
                number("spatial_scale", 1.0),
            ],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(spatial::region_maxima),
        ..Operator::plain(
            work::SCATTERED,
            Uncounted,
            "",
            "MaxRoiPool",
            &[1, 22],
            exactly(2),
            &[required("pooled_shape"), number("spatial_scale", 1.0)],
        )
    },
];

/// Where nothing but the first output is asked for.
fn single_output(node: &NodeDesc) -> Option<Form> {
    (node.outputs.len() == 1).then_some(Form::FOLLOWS)
}

/// With given statistics for each channel.
fn normalises_batches(node: &NodeDesc) -> Option<Form> {
    let attributes = node.attributes();
    let given = !attributes.flag("training_mode") && attributes.flag("spatial");
    single_output(node).filter(|_| given)
}

/// By sizes and scales that the processor reads; nearest elements are moved, of any type.
fn resizes(node: &NodeDesc) -> Option<Form> {
    let attributes = node.attributes();
    let moves = attributes.text("mode") == "nearest";
    let crops = node.is("Resize") && attributes.text("coordinate_transformation_mode") == "tf_crop_and_resize";
    (!crops).then_some(Form { pull: Pull::Follows, host_inputs: 0b1110, moves })
}
