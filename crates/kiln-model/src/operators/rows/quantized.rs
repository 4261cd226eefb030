//! Operators between quantised tensors.

use kiln_tensor::DType;

use super::products::CONV;
use crate::operators::arithmetic::Arithmetic::{By, PerElement, Uncounted};
use crate::operators::attributes::{Attribute, int, number, optional, required, text};
use crate::operators::row::{Layout, Operator, Shapes, Types, between, exactly};
use crate::operators::{arithmetic, kinds, shapes, spatial, work};

/// The bounds of a result before it is rounded to bytes.
const LOW: Attribute = number("low", f32::NEG_INFINITY);
const HIGH: Attribute = number("high", f32::INFINITY);

/// The bounds of a fused sum, and whether the product is its second operand.
const SUM_LOW: Attribute = number("sum_low", f32::NEG_INFINITY);
const SUM_HIGH: Attribute = number("sum_high", f32::INFINITY);
const SUM_SECOND: Attribute = int("sum_second", 0);

pub(in crate::operators) const ROWS: &[Operator] = &[
    Operator {
        types: Types::By(kinds::quantized),
        shapes: Shapes::Input(0),
        layout: Layout::Quantizes,
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "",
            "QuantizeLinear",
            &[10, 13, 19, 21, 23, 24, 25, 28],
            between(2, 3),
            &[int("axis", 1), int("block_size", 0), int("output_dtype", 0), int("precision", 0), int("saturate", 1)],
        )
    },
    Operator {
        types: Types::By(kinds::dequantized),
        shapes: Shapes::Input(0),
        layout: Layout::Quantizes,
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "",
            "DequantizeLinear",
            &[10, 13, 19, 21, 23, 24, 25, 28],
            between(2, 3),
            &[int("axis", 1), int("block_size", 0), int("output_dtype", 0)],
        )
    },
    Operator {
        types: Types::By(kinds::quantized_with_parameters),
        shapes: Shapes::All(shapes::quantized_with_parameters),
        layout: Layout::Measures,
        ..Operator::plain(work::BOUND_BY_MEMORY, PerElement, "", "DynamicQuantizeLinear", &[11], exactly(1), &[])
    },
    Operator {
        types: Types::Is(DType::I32),
        shapes: Shapes::First(shapes::matmul),
        ..Operator::keyed(By(arithmetic::matmul), "", "MatMulInteger", &[10], between(2, 4), &[])
    },
    Operator {
        types: Types::Is(DType::I32),
        shapes: Shapes::First(spatial::conv),
        ..Operator::keyed(By(arithmetic::conv), "", "ConvInteger", &[10], between(2, 4), CONV)
    },
    Operator {
        types: Types::Input(7),
        shapes: Shapes::First(shapes::quantized_matmul),
        ..Operator::keyed(By(arithmetic::matmul), "", "QLinearMatMul", &[10, 21], exactly(8), &[])
    },
    Operator {
        types: Types::Input(7),
        shapes: Shapes::First(spatial::quantized_conv),
        ..Operator::keyed(By(arithmetic::quantized_conv), "", "QLinearConv", &[10], between(8, 9), CONV)
    },
    Operator {
        types: Types::By(kinds::quantized_product),
        shapes: Shapes::First(shapes::quantized_matmul),
        ..Operator::keyed(
            By(arithmetic::gemm),
            "com.microsoft",
            "QGemm",
            &[1],
            between(6, 9),
            &[number("alpha", 1.0), int("transA", 0), int("transB", 0)],
        )
    },
    Operator {
        types: Types::By(kinds::zero_point_7),
        shapes: Shapes::First(shapes::quantized_sum),
        ..Operator::plain(work::BOUND_BY_MEMORY, PerElement, "com.microsoft", "QLinearAdd", &[1], between(7, 8), &[])
    },
    Operator {
        types: Types::By(kinds::zero_point_4),
        shapes: Shapes::First(spatial::global_pool),
        ..Operator::keyed(
            PerElement,
            "com.microsoft",
            "QLinearGlobalAveragePool",
            &[1],
            between(4, 5),
            &[int("channels_last", 0)],
        )
    },
    Operator {
        types: Types::By(kinds::quantized_product),
        shapes: Shapes::First(spatial::conv),
        layout: Layout::Pulls,
        ..Operator::keyed(
            Uncounted,
            "kiln",
            "QuantizedConv",
            &[1],
            between(8, 10),
            &[text("auto_pad", "NOTSET"), int("group", 1), LOW, HIGH, SUM_LOW, SUM_HIGH, SUM_SECOND],
        )
    },
    Operator {
        types: Types::By(kinds::quantized_product),
        shapes: Shapes::First(shapes::matmul),
        ..Operator::keyed(
            Uncounted,
            "kiln",
            "QuantizedMatMul",
            &[1],
            between(8, 10),
            &[int("trans_a", 0), int("trans_b", 0), LOW, HIGH, SUM_LOW, SUM_HIGH, SUM_SECOND],
        )
    },
    Operator {
        types: Types::By(kinds::zero_point_7),
        shapes: Shapes::First(shapes::quantized_sum),
        layout: Layout::ElementWise,
        ..Operator::plain(work::BOUND_BY_MEMORY, PerElement, "kiln", "QuantizedAdd", &[1], between(7, 8), &[LOW, HIGH])
    },
    Operator {
        types: Types::By(kinds::zero_point_7),
        shapes: Shapes::First(shapes::quantized_sum),
        layout: Layout::ElementWise,
        ..Operator::plain(work::BOUND_BY_MEMORY, PerElement, "kiln", "QuantizedMul", &[1], between(7, 8), &[LOW, HIGH])
    },
    Operator {
        types: Types::By(kinds::zero_point_4),
        shapes: Shapes::First(spatial::global_pool),
        layout: Layout::Follows,
        ..Operator::keyed(
            PerElement,
            "kiln",
            "QuantizedGlobalAveragePool",
            &[1],
            between(4, 5),
            &[int("channels_last", 0), LOW, HIGH],
        )
    },
    Operator {
        types: Types::By(kinds::zero_point_4),
        shapes: Shapes::All(spatial::pool),
        layout: Layout::Pulls,
        ..Operator::keyed(
            By(arithmetic::window),
            "kiln",
            "QuantizedAveragePool",
            &[1],
            between(4, 5),
            &[
                text("auto_pad", "NOTSET"),
                int("ceil_mode", 0),
                int("count_include_pad", 0),
                optional("dilations"),
                required("kernel_shape"),
                optional("pads"),
                optional("strides"),
                LOW,
                HIGH,
            ],
        )
    },
    Operator {
        types: Types::By(kinds::looked_up),
        shapes: Shapes::Input(0),
        layout: Layout::ElementWise,
        ..Operator::keyed(PerElement, "kiln", "ByteTable", &[1], exactly(1), &[required("table")])
    },
];
