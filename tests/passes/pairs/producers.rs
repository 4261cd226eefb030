//! Operators that a function may follow: every family of operators that keeps floats.

use kiln_model::ValueId;
use kiln_model::ir::Attr;
use kiln_tensor::{DType, Tensor};

use super::Make;

/// The input of a producer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Images of four channels.
    Image,
    /// Rows of eight, in sequences.
    Rows,
}

/// An operator with its attributes and weights.
pub(super) struct Producer {
    pub(super) name: &'static str,
    pub(super) source: Source,
    /// Fewest rows and columns that it takes.
    pub(super) least: usize,
    pub(super) make: fn(&mut Make, ValueId) -> ValueId,
}

const fn image(name: &'static str, least: usize, make: fn(&mut Make, ValueId) -> ValueId) -> Producer {
    Producer { name, source: Source::Image, least, make }
}

const fn rows(name: &'static str, make: fn(&mut Make, ValueId) -> ValueId) -> Producer {
    Producer { name, source: Source::Rows, least: 1, make }
}

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

/// A convolution with filters of that shape, with a bias if asked for.
fn conv(make: &mut Make, x: ValueId, op: &str, filters: [usize; 4], bias: usize, attrs: &[(&str, Attr)]) -> ValueId {
    let mut inputs = vec![x, make.weights(&filters)];
    if bias > 0 {
        inputs.push(make.weights(&[bias]));
    }
    make.op(op, &inputs, attrs)
}

fn recurrent(make: &mut Make, x: ValueId, op: &str, gates: usize) -> ValueId {
    // Sequences come first in the shape of the tests, and second in the operator's.
    let x = make.op("Transpose", &[x], &[("perm", ints(&[1, 0, 2]))]);
    let (w, r) = (make.weights(&[1, gates * 3, 8]), make.weights(&[1, gates * 3, 3]));
    make.op(op, &[x, w, r], &[("hidden_size", 3.into())])
}

fn reduced(make: &mut Make, x: ValueId, op: &str, axes: &[i64], keep: i64) -> ValueId {
    let axes = make.ints(axes);
    make.op(op, &[x, axes], &[("keepdims", keep.into())])
}

fn heads(make: &mut Make, x: ValueId) -> ValueId {
    let w = make.weights(&[8, 8]);
    let projected = make.op("MatMul", &[x, w], &[]);
    let target = make.ints(&[0, -1, 2, 4]);
    let apart = make.op("Reshape", &[projected, target], &[]);
    make.op("Transpose", &[apart], &[("perm", ints(&[0, 2, 1, 3]))])
}

/// All producers.
pub(super) const PRODUCERS: &[Producer] = &[
    image("Conv 3x3", 1, |m, x| conv(m, x, "Conv", [6, 4, 3, 3], 6, &[("pads", ints(&[1, 1, 1, 1]))])),
    image("Conv 1x1", 1, |m, x| conv(m, x, "Conv", [6, 4, 1, 1], 0, &[])),
    image("Conv 3x3 by 2", 3, |m, x| conv(m, x, "Conv", [5, 4, 3, 3], 5, &[("strides", ints(&[2, 2]))])),
    image("Conv in groups", 1, |m, x| {
        conv(m, x, "Conv", [6, 2, 3, 3], 6, &[("pads", ints(&[1, 1, 1, 1])), ("group", 2.into())])
    }),
    image("Conv dilated", 1, |m, x| {
        conv(m, x, "Conv", [4, 4, 3, 3], 0, &[("pads", ints(&[2, 2, 2, 2])), ("dilations", ints(&[2, 2]))])
    }),
    image("Conv depthwise", 1, |m, x| {
        conv(m, x, "Conv", [4, 1, 3, 3], 4, &[("pads", ints(&[1, 1, 1, 1])), ("group", 4.into())])
    }),
    image("Conv depthwise 5x5 by 2", 1, |m, x| {
        let attrs = [("pads", ints(&[2, 2, 2, 2])), ("group", 4.into()), ("strides", ints(&[2, 2]))];
        conv(m, x, "Conv", [4, 1, 5, 5], 0, &attrs)
    }),
    image("Conv of padded", 1, |m, x| {
        let pads = m.ints(&[0, 0, 1, 1, 0, 0, 1, 1]);
        let padded = m.op("Pad", &[x, pads], &[]);
        conv(m, padded, "Conv", [6, 4, 3, 3], 6, &[])
    }),
    image("Conv, BatchNormalization", 1, |m, x| {
        let y = conv(m, x, "Conv", [4, 4, 3, 3], 0, &[("pads", ints(&[1, 1, 1, 1]))]);
        batch_norm(m, y)
    }),
    image("Conv of a Concat", 1, |m, x| {
        let other = m.op("Neg", &[x], &[]);
        let both = m.op("Concat", &[x, other], &[("axis", 1.into())]);
        conv(m, both, "Conv", [4, 8, 3, 3], 4, &[("pads", ints(&[1, 1, 1, 1]))])
    }),
    image("Conv of one dimension", 1, |m, x| {
        let target = m.ints(&[0, 4, -1]);
        let line = m.op("Reshape", &[x, target], &[]);
        let w = m.weights(&[5, 4, 3]);
        m.op("Conv", &[line, w], &[("pads", ints(&[1, 1]))])
    }),
    image("Conv of three dimensions", 1, |m, x| {
        let axes = m.ints(&[2]);
        let space = m.op("Unsqueeze", &[x, axes], &[]);
        let w = m.weights(&[5, 4, 1, 3, 3]);
        m.op("Conv", &[space, w], &[("pads", ints(&[0, 1, 1, 0, 1, 1]))])
    }),
    image("ConvTranspose 2x2 by 2", 1, |m, x| {
        conv(m, x, "ConvTranspose", [4, 5, 2, 2], 5, &[("strides", ints(&[2, 2]))])
    }),
    image("ConvTranspose in groups", 1, |m, x| {
        conv(m, x, "ConvTranspose", [4, 3, 3, 3], 0, &[("group", 2.into()), ("pads", ints(&[1, 1, 1, 1]))])
    }),
    image("MaxPool", 2, |m, x| m.op("MaxPool", &[x], &[("kernel_shape", ints(&[2, 2])), ("strides", ints(&[2, 2]))])),
    image("MaxPool rounded up", 1, |m, x| {
        let attrs = [("kernel_shape", ints(&[2, 2])), ("strides", ints(&[2, 2])), ("ceil_mode", 1.into())];
        m.op("MaxPool", &[x], &attrs)
    }),
    image("AveragePool", 1, |m, x| {
        let attrs = [("kernel_shape", ints(&[3, 3])), ("pads", ints(&[1, 1, 1, 1])), ("count_include_pad", 1.into())];
        m.op("AveragePool", &[x], &attrs)
    }),
    image("LpPool", 2, |m, x| m.op("LpPool", &[x], &[("kernel_shape", ints(&[2, 2]))])),
    image("GlobalAveragePool", 1, |m, x| m.op("GlobalAveragePool", &[x], &[])),
    image("GlobalMaxPool", 1, |m, x| m.op("GlobalMaxPool", &[x], &[])),
    image("BatchNormalization", 1, batch_norm),
    image("InstanceNormalization", 1, |m, x| {
        let (scale, shift) = (m.weights(&[4]), m.weights(&[4]));
        m.op("InstanceNormalization", &[x, scale, shift], &[("epsilon", 0.01.into())])
    }),
    image("GroupNormalization", 1, |m, x| {
        let (scale, shift) = (m.weights(&[4]), m.weights(&[4]));
        m.op("GroupNormalization", &[x, scale, shift], &[("num_groups", 2.into()), ("epsilon", 0.01.into())])
    }),
    image("LRN", 1, |m, x| m.op("LRN", &[x], &[("size", 3.into())])),
    image("Resize nearest", 1, |m, x| {
        let scales = m.build.constant(Tensor::from_vec([4], vec![1f32, 1.0, 2.0, 2.0]).unwrap());
        m.build.op_of("", "Resize", &[Some(x), None, Some(scales)], &[])
    }),
    image("Resize linear", 1, |m, x| {
        let scales = m.build.constant(Tensor::from_vec([4], vec![1f32, 1.0, 2.0, 1.5]).unwrap());
        m.build.op_of("", "Resize", &[Some(x), None, Some(scales)], &[("mode", "linear".into())])
    }),
    image("Concat", 1, |m, x| {
        let other = m.op("Neg", &[x], &[]);
        m.op("Concat", &[x, other], &[("axis", 1.into())])
    }),
    image("Split", 1, |m, x| {
        m.build.op_many("Split", &[Some(x)], 2, &[("axis", 1.into()), ("num_outputs", 2.into())])[1]
    }),
    image("Slice", 1, |m, x| {
        let (from, to, axis) = (m.ints(&[1]), m.ints(&[4]), m.ints(&[1]));
        m.op("Slice", &[x, from, to, axis], &[])
    }),
    image("Pad", 1, |m, x| {
        let pads = m.ints(&[0, 0, 1, 0, 0, 1, 0, 2]);
        m.op("Pad", &[x, pads], &[])
    }),
    image("Pad by edges", 1, |m, x| {
        let pads = m.ints(&[0, 1, 1, 0, 0, 0, 0, 2]);
        m.op("Pad", &[x, pads], &[("mode", "edge".into())])
    }),
    image("Transpose", 1, |m, x| m.op("Transpose", &[x], &[("perm", ints(&[0, 2, 3, 1]))])),
    image("Reshape", 1, |m, x| {
        let target = m.ints(&[0, -1]);
        m.op("Reshape", &[x, target], &[])
    }),
    image("Flatten", 1, |m, x| m.op("Flatten", &[x], &[])),
    image("DepthToSpace", 1, |m, x| m.op("DepthToSpace", &[x], &[("blocksize", 2.into())])),
    image("Gather", 1, |m, x| {
        let places = m.ints(&[3, 0, 0]);
        m.op("Gather", &[x, places], &[("axis", 1.into())])
    }),
    image("Expand", 1, |m, x| {
        let shape = m.ints(&[1, 2, 1, 1, 1]);
        let axes = m.ints(&[1]);
        let x = m.op("Unsqueeze", &[x, axes], &[]);
        m.op("Expand", &[x, shape], &[])
    }),
    image("Tile", 1, |m, x| {
        let repeats = m.ints(&[1, 2, 1, 2]);
        m.op("Tile", &[x, repeats], &[])
    }),
    image("Softmax over channels", 1, |m, x| m.op("Softmax", &[x], &[("axis", 1.into())])),
    image("ReduceMean over space", 1, |m, x| reduced(m, x, "ReduceMean", &[2, 3], 1)),
    image("ReduceMax over channels", 1, |m, x| reduced(m, x, "ReduceMax", &[1], 0)),
    image("ReduceL2 over columns", 1, |m, x| reduced(m, x, "ReduceL2", &[-1], 0)),
    image("ReduceLogSumExp over rows", 1, |m, x| reduced(m, x, "ReduceLogSumExp", &[2], 1)),
    image("PRelu", 1, |m, x| {
        let slope = m.weights(&[4, 1, 1]);
        m.op("PRelu", &[x, slope], &[])
    }),
    image("Sigmoid", 1, |m, x| m.op("Sigmoid", &[x], &[])),
    image("Add", 1, |m, x| {
        let other = m.weights(&[4, 1, 1]);
        m.op("Add", &[x, other], &[])
    }),
    image("Where", 1, |m, x| {
        let zero = m.number(0.0);
        let above = m.op("Greater", &[x, zero], &[]);
        let other = m.weights(&[4, 1, 1]);
        m.op("Where", &[above, x, other], &[])
    }),
    rows("MatMul", |m, x| {
        let w = m.weights(&[8, 5]);
        m.op("MatMul", &[x, w], &[])
    }),
    rows("MatMul of a wide matrix", |m, x| {
        let w = m.weights(&[8, 40]);
        m.op("MatMul", &[x, w], &[])
    }),
    rows("MatMul of sequences", |m, x| {
        let transposed = m.op("Transpose", &[x], &[("perm", ints(&[0, 2, 1]))]);
        m.op("MatMul", &[x, transposed], &[])
    }),
    rows("MatMul with a vector", |m, x| {
        let w = m.weights(&[8]);
        m.op("MatMul", &[x, w], &[])
    }),
    rows("MatMul scaled, with a bias", |m, x| {
        let (w, bias, by) = (m.weights(&[8, 5]), m.weights(&[5]), m.number(0.5));
        let product = m.op("MatMul", &[x, w], &[]);
        let scaled = m.op("Mul", &[product, by], &[]);
        m.op("Add", &[scaled, bias], &[])
    }),
    rows("MatMul between reshapes", |m, x| {
        let (w, flat, back) = (m.weights(&[8, 5]), m.ints(&[-1, 8]), m.ints(&[0, -1, 5]));
        let flat = m.op("Reshape", &[x, flat], &[]);
        let product = m.op("MatMul", &[flat, w], &[]);
        let axes = m.ints(&[0]);
        let product = m.op("Unsqueeze", &[product, axes], &[]);
        m.op("Reshape", &[product, back], &[])
    }),
    rows("Gemm", |m, x| {
        let flat = m.ints(&[-1, 8]);
        let flat = m.op("Reshape", &[x, flat], &[]);
        let (w, c) = (m.weights(&[5, 8]), m.weights(&[5]));
        m.op("Gemm", &[flat, w, c], &[("transB", 1.into()), ("alpha", 0.5.into()), ("beta", 2.0.into())])
    }),
    rows("Gemm without a bias", |m, x| {
        let flat = m.ints(&[-1, 8]);
        let flat = m.op("Reshape", &[x, flat], &[]);
        let w = m.weights(&[8, 33]);
        m.op("Gemm", &[flat, w], &[])
    }),
    rows("Einsum", |m, x| {
        let w = m.weights(&[8, 5]);
        m.op("Einsum", &[x, w], &[("equation", "bij,jk->bik".into())])
    }),
    rows("LayerNormalization", |m, x| {
        let (scale, shift) = (m.weights(&[8]), m.weights(&[8]));
        m.op("LayerNormalization", &[x, scale, shift], &[("epsilon", 0.01.into())])
    }),
    rows("LayerNormalization in parts", |m, x| {
        let (scale, shift, tiny, two) = (m.weights(&[8]), m.weights(&[8]), m.number(0.01), m.number(2.0));
        let mean = reduced(m, x, "ReduceMean", &[-1], 1);
        let centred = m.op("Sub", &[x, mean], &[]);
        let square = m.op("Pow", &[centred, two], &[]);
        let variance = reduced(m, square, "ReduceMean", &[-1], 1);
        let sum = m.op("Add", &[variance, tiny], &[]);
        let root = m.op("Sqrt", &[sum], &[]);
        let quotient = m.op("Div", &[centred, root], &[]);
        let scaled = m.op("Mul", &[quotient, scale], &[]);
        m.op("Add", &[scaled, shift], &[])
    }),
    rows("LpNormalization", |m, x| m.op("LpNormalization", &[x], &[])),
    rows("Softmax", |m, x| m.op("Softmax", &[x], &[])),
    rows("LogSoftmax", |m, x| m.op("LogSoftmax", &[x], &[])),
    rows("ReduceSum over rows", |m, x| reduced(m, x, "ReduceSum", &[1], 1)),
    rows("CumSum", |m, x| {
        let axis = m.build.constant(Tensor::scalar(2i64));
        m.op("CumSum", &[x, axis], &[])
    }),
    rows("TopK", |m, x| {
        let (k, count) = (m.ints(&[3]), 2);
        m.build.op_many("TopK", &[Some(x), Some(k)], count, &[])[0]
    }),
    rows("LSTM", |m, x| recurrent(m, x, "LSTM", 4)),
    rows("GRU", |m, x| recurrent(m, x, "GRU", 3)),
    rows("RNN", |m, x| recurrent(m, x, "RNN", 1)),
    rows("attention in parts", |m, x| {
        let (q, k, v) = (heads(m, x), heads(m, x), heads(m, x));
        let k = m.op("Transpose", &[k], &[("perm", ints(&[0, 1, 3, 2]))]);
        let scores = m.op("MatMul", &[q, k], &[]);
        let by = m.number(0.5);
        let scores = m.op("Mul", &[scores, by], &[]);
        let weights = m.op("Softmax", &[scores], &[]);
        let context = m.op("MatMul", &[weights, v], &[]);
        let context = m.op("Transpose", &[context], &[("perm", ints(&[0, 2, 1, 3]))]);
        let joined = m.ints(&[0, 0, 8]);
        m.op("Reshape", &[context, joined], &[])
    }),
    rows("Dropout", |m, x| m.op("Dropout", &[x], &[])),
    rows("Clip", |m, x| {
        let (low, high) = (m.number(-0.5), m.number(0.75));
        m.op("Clip", &[x, low, high], &[])
    }),
    rows("Cast there and back", |m, x| {
        let to = if m.dtype == DType::F16 { 10 } else { 1 };
        let wide = m.op("Cast", &[x], &[("to", 11.into())]);
        m.op("Cast", &[wide], &[("to", to.into())])
    }),
];

fn batch_norm(make: &mut Make, x: ValueId) -> ValueId {
    let [scale, shift, mean] = [(); 3].map(|()| make.weights(&[4]));
    let variance = super::of_floats(make.dtype, &[4], &[0.25, 1.0, 4.0, 0.0625]);
    let variance = make.build.constant(variance);
    make.op("BatchNormalization", &[x, scale, shift, mean, variance], &[("epsilon", 0.0.into())])
}
