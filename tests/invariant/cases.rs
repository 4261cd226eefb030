//! The networks: one kind of computing each, with sizes on both sides of the thresholds of kernels.

use kiln_model::{Attr, GraphBuilder, ValueId};
use kiln_tensor::Tensor;

/// A network that is applied to a batch of items.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The shape of an item.
    pub(crate) item: &'static [usize],
    pub(crate) make: fn(&mut GraphBuilder, ValueId) -> ValueId,
    /// Whether the first dimension of an item is a length whose positions see only the next `reach` positions after
    /// them.
    pub(crate) lengths: bool,
    pub(crate) reach: usize,
    /// Whether it is too slow for levels that are emulated.
    pub(crate) heavy: bool,
}

impl Case {
    const fn new(name: &'static str, item: &'static [usize], make: fn(&mut GraphBuilder, ValueId) -> ValueId) -> Case {
        let mut elements = 1;
        let mut dim = 0;
        while dim < item.len() {
            elements *= item[dim];
            dim += 1;
        }
        Case { name, item, make, lengths: false, reach: 0, heavy: elements > 4096 }
    }

    const fn along(mut self, reach: usize) -> Case {
        (self.lengths, self.reach) = (true, reach);
        self
    }

    const fn heavy(mut self) -> Case {
        self.heavy = true;
        self
    }
}

/// Numbers between -1 and 1 that look random.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let mixed = |at: usize| (at as u64 ^ (seed as u64) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..count).map(|at| (mixed(at + 1) >> 40) as f32 / (1u64 << 23) as f32 - 1.0).collect()
}

fn weights(build: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    let count: usize = shape.iter().product();
    let fan = count / shape[0].max(1);
    let scale = 1.0 / (fan.max(1) as f32).sqrt();
    let values = numbers(count, 3 + shape.len()).iter().map(|value| value * scale).collect();
    build.constant(Tensor::from_vec(shape.iter().copied(), values).unwrap())
}

/// A convolution with a bias and Relu.
fn conv(build: &mut GraphBuilder, x: ValueId, shape: &[usize], attrs: &[(&str, Attr)]) -> ValueId {
    let (weight, bias) = (weights(build, shape), weights(build, &shape[..1]));
    let y = build.op("Conv", &[x, weight, bias], attrs);
    build.op("Relu", &[y], &[])
}

fn pads(by: i64) -> (&'static str, Attr) {
    ("pads", [by; 4].into())
}

fn product(build: &mut GraphBuilder, x: ValueId, [k, n]: [usize; 2]) -> ValueId {
    let (right, bias) = (weights(build, &[k, n]), weights(build, &[n]));
    let y = build.op("MatMul", &[x, right], &[]);
    build.op("Add", &[y, bias], &[])
}

fn gemm(build: &mut GraphBuilder, x: ValueId, [k, n]: [usize; 2]) -> ValueId {
    let (right, bias) = (weights(build, &[n, k]), weights(build, &[n]));
    build.op("Gemm", &[x, right, bias], &[("transB", 1i64.into()), ("alpha", 0.7f32.into())])
}

/// Attention in parts, which a pass fuses; its queries and keys are made from the item.
fn attention(build: &mut GraphBuilder, x: ValueId, width: usize) -> ValueId {
    let [query, key, value] = [0.9f32, 1.1, 0.8].map(|factor| {
        let factor = build.constant(Tensor::from_vec([1], vec![factor]).unwrap());
        build.op("Mul", &[x, factor], &[])
    });
    let key = build.op("Transpose", &[key], &[("perm", [0i64, 2, 1].into())]);
    let scores = build.op("MatMul", &[query, key], &[]);
    let scale = build.constant(Tensor::from_vec([1], vec![1.0 / (width as f32).sqrt()]).unwrap());
    let scores = build.op("Mul", &[scores, scale], &[]);
    let weights = build.op("Softmax", &[scores], &[("axis", (-1i64).into())]);
    build.op("MatMul", &[weights, value], &[])
}

/// A recurrent layer over `[batch, steps, features]`.
fn recurrent(build: &mut GraphBuilder, x: ValueId, op: &str, gates: usize, [input, hidden]: [usize; 2]) -> ValueId {
    let x = build.op("Transpose", &[x], &[("perm", [1i64, 0, 2].into())]);
    let (w, r) = (weights(build, &[2, gates * hidden, input]), weights(build, &[2, gates * hidden, hidden]));
    let bias = weights(build, &[2, 2 * gates * hidden]);
    let attrs = [("hidden_size", (hidden as i64).into()), ("direction", Attr::Str("bidirectional".to_owned()))];
    let y = build.op_many(op, &[Some(x), Some(w), Some(r), Some(bias)], 1, &attrs)[0];
    build.op("Transpose", &[y], &[("perm", [2i64, 0, 1, 3].into())])
}

fn scaled(build: &mut GraphBuilder, op: &str, x: ValueId, channels: usize, attrs: &[(&str, Attr)]) -> ValueId {
    let (scale, bias) = (weights(build, &[channels]), weights(build, &[channels]));
    build.op(op, &[x, scale, bias], attrs)
}

fn reduce(build: &mut GraphBuilder, op: &str, x: ValueId, axes: &[i64]) -> ValueId {
    let axes = build.constant(Tensor::from_vec([axes.len()], axes.to_vec()).unwrap());
    build.op(op, &[x, axes], &[("keepdims", 0i64.into())])
}

/// A product by weights in blocks of 32 of four bits.
fn nibbles(build: &mut GraphBuilder, x: ValueId, [k, n]: [usize; 2]) -> ValueId {
    let blocks = k.div_ceil(32);
    let codes = (0..n * blocks * 16).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let codes = build.constant(Tensor::from_vec([n, blocks, 16], codes).unwrap());
    let scales = build.constant(Tensor::from_vec([n * blocks], numbers(n * blocks, 5)).unwrap());
    let int = |value: usize| Attr::Int(value as i64);
    let attrs = [("K", int(k)), ("N", int(n)), ("bits", int(4)), ("block_size", int(32))];
    build.op_of("com.microsoft", "MatMulNBits", &[Some(x), Some(codes), Some(scales)], &attrs)
}

/// A mean over these axes.
fn mean(build: &mut GraphBuilder, x: ValueId, axes: &[i64]) -> ValueId {
    reduce(build, "ReduceMean", x, axes)
}

pub(crate) const CASES: &[Case] = &[
    // Products.
    Case::new("product of few columns", &[40], |g, x| product(g, x, [40, 10])),
    Case::new("product of one panel", &[33], |g, x| product(g, x, [33, 16])),
    Case::new("product of five panels and a rest", &[70], |g, x| product(g, x, [70, 5 * 32 + 3])),
    Case::new("product of a long reduction", &[4096], |g, x| product(g, x, [4096, 100])).heavy(),
    Case::new("product of many columns", &[128], |g, x| product(g, x, [128, 1000])),
    Case::new("product of one column", &[257], |g, x| product(g, x, [257, 1])),
    Case::new("gemm", &[96], |g, x| gemm(g, x, [96, 50])),
    Case::new("gemm of a thousand", &[512], |g, x| gemm(g, x, [512, 1000])).heavy(),
    Case::new("product with an activation", &[64], |g, x| {
        let y = product(g, x, [64, 72]);
        g.op("Gelu", &[y], &[])
    }),
    Case::new("product of positions", &[9, 48], |g, x| product(g, x, [48, 37])).along(0),
    Case::new("product of positions, wide", &[5, 300], |g, x| product(g, x, [300, 400])).along(0).heavy(),
    Case::new("product of computed matrices", &[6, 20], |g, x| {
        let right = g.op("Transpose", &[x], &[("perm", [0i64, 2, 1].into())]);
        g.op("MatMul", &[x, right], &[])
    }),
    Case::new("product of computed matrices of many columns", &[3, 130], |g, x| {
        let left = g.op("Transpose", &[x], &[("perm", [0i64, 2, 1].into())]);
        g.op("MatMul", &[left, x], &[])
    }),
    Case::new("product by weights of four bits", &[96], |g, x| nibbles(g, x, [96, 70])),
    // Convolutions.
    Case::new("conv of an image", &[3, 20, 20], |g, x| {
        conv(g, x, &[16, 3, 7, 7], &[pads(3), ("strides", [2i64, 2].into())])
    }),
    Case::new("conv 3x3 of few channels", &[3, 9, 11], |g, x| conv(g, x, &[20, 3, 3, 3], &[pads(1)])),
    Case::new("conv 3x3 of 32 channels", &[32, 12, 12], |g, x| conv(g, x, &[32, 32, 3, 3], &[pads(1)])),
    Case::new("conv 3x3 of 64 channels", &[64, 14, 14], |g, x| conv(g, x, &[64, 64, 3, 3], &[pads(1)])),
    Case::new("conv 3x3 of 128 channels, small", &[128, 7, 7], |g, x| conv(g, x, &[128, 128, 3, 3], &[pads(1)]))
        .heavy(),
    Case::new("conv 3x3 of 256 channels, tiny", &[256, 4, 4], |g, x| conv(g, x, &[128, 256, 3, 3], &[pads(1)])).heavy(),
    Case::new("conv 3x3 of 160 channels, one line", &[160, 1, 9], |g, x| conv(g, x, &[64, 160, 3, 3], &[pads(1)]))
        .heavy(),
    Case::new("conv 3x3 strided", &[48, 10, 10], |g, x| {
        conv(g, x, &[40, 48, 3, 3], &[pads(1), ("strides", [2i64, 2].into())])
    }),
    Case::new("conv 1x1", &[40, 5, 5], |g, x| conv(g, x, &[24, 40, 1, 1], &[])),
    Case::new("conv 1x1 of one position", &[72, 1, 1], |g, x| conv(g, x, &[30, 72, 1, 1], &[])),
    Case::new("conv 1x1 strided", &[64, 6, 6], |g, x| conv(g, x, &[96, 64, 1, 1], &[("strides", [2i64, 2].into())])),
    Case::new("conv of one output", &[24, 5, 5], |g, x| conv(g, x, &[18, 24, 5, 5], &[])),
    Case::new("conv dilated", &[20, 9, 9], |g, x| {
        conv(g, x, &[12, 20, 3, 3], &[pads(2), ("dilations", [2i64, 2].into())])
    }),
    Case::new("conv grouped", &[48, 8, 8], |g, x| conv(g, x, &[32, 12, 3, 3], &[pads(1), ("group", 4i64.into())])),
    Case::new("conv depthwise", &[40, 9, 9], |g, x| conv(g, x, &[40, 1, 3, 3], &[pads(1), ("group", 40i64.into())])),
    Case::new("conv depthwise strided", &[24, 11, 11], |g, x| {
        conv(g, x, &[24, 1, 5, 5], &[pads(2), ("group", 24i64.into()), ("strides", [2i64, 2].into())])
    }),
    Case::new("conv with a residual", &[32, 8, 8], |g, x| {
        let y = conv(g, x, &[32, 32, 3, 3], &[pads(1)]);
        let sum = g.op("Add", &[y, x], &[]);
        g.op("Relu", &[sum], &[])
    }),
    Case::new("transposed conv", &[24, 5, 5], |g, x| {
        let w = weights(g, &[24, 16, 2, 2]);
        g.op("ConvTranspose", &[x, w], &[("strides", [2i64, 2].into())])
    }),
    Case::new("transposed conv 3x3", &[16, 4, 4], |g, x| {
        let w = weights(g, &[16, 20, 3, 3]);
        g.op("ConvTranspose", &[x, w], &[("strides", [2i64, 2].into()), pads(1)])
    }),
    Case::new("conv along a length", &[21, 12], |g, x| {
        let x = g.op("Transpose", &[x], &[("perm", [0i64, 2, 1].into())]);
        let y = conv(g, x, &[20, 12, 3], &[("pads", [1i64, 1].into())]);
        g.op("Transpose", &[y], &[("perm", [0i64, 2, 1].into())])
    })
    .along(1),
    Case::new("conv along a length, few channels", &[30, 2], |g, x| {
        let x = g.op("Transpose", &[x], &[("perm", [0i64, 2, 1].into())]);
        let y = conv(g, x, &[9, 2, 5], &[("pads", [2i64, 2].into())]);
        g.op("Transpose", &[y], &[("perm", [0i64, 2, 1].into())])
    })
    .along(2),
    // Attention and recurrent layers.
    Case::new("attention of one query", &[1, 24], |g, x| attention(g, x, 24)),
    Case::new("attention of few queries", &[3, 32], |g, x| attention(g, x, 32)),
    Case::new("attention", &[50, 20], |g, x| attention(g, x, 20)),
    Case::new("attention of many keys", &[800, 8], |g, x| attention(g, x, 8)).heavy(),
    Case::new("lstm", &[4, 10], |g, x| recurrent(g, x, "LSTM", 4, [10, 12])),
    Case::new("lstm of 100", &[3, 33], |g, x| recurrent(g, x, "LSTM", 4, [33, 100])),
    Case::new("gru", &[5, 9], |g, x| recurrent(g, x, "GRU", 3, [9, 20])),
    Case::new("rnn", &[4, 8], |g, x| recurrent(g, x, "RNN", 1, [8, 7])),
    // Rows, channels and positions.
    Case::new("softmax", &[37], |g, x| g.op("Softmax", &[x], &[("axis", (-1i64).into())])),
    Case::new("softmax of columns", &[9, 14], |g, x| g.op("Softmax", &[x], &[("axis", 1i64.into())])),
    Case::new("layer norm", &[6, 50], |g, x| scaled(g, "LayerNormalization", x, 50, &[("axis", (-1i64).into())]))
        .along(0),
    Case::new("instance norm", &[6, 9, 9], |g, x| scaled(g, "InstanceNormalization", x, 6, &[])),
    Case::new("batch norm", &[10, 5, 5], |g, x| {
        let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|seed| {
            let values = numbers(10, seed).iter().map(|value| value + 1.5).collect();
            g.constant(Tensor::from_vec([10], values).unwrap())
        });
        g.op("BatchNormalization", &[x, scale, bias, mean, variance], &[])
    }),
    Case::new("local response", &[8, 6, 6], |g, x| g.op("LRN", &[x], &[("size", 5i64.into())])),
    Case::new("mean of positions", &[20, 7, 7], |g, x| mean(g, x, &[2, 3])),
    Case::new("mean of channels", &[20, 7, 7], |g, x| mean(g, x, &[1])),
    Case::new("mean of all", &[20, 7, 7], |g, x| mean(g, x, &[1, 2, 3])),
    Case::new("mean of a long row", &[70_000], |g, x| mean(g, x, &[1])),
    Case::new("mean of long columns", &[6000, 20], |g, x| mean(g, x, &[1])),
    Case::new("norm of rows", &[3, 1000], |g, x| reduce(g, "ReduceL2", x, &[2])),
    Case::new("log of a sum of exponentials", &[300, 5], |g, x| reduce(g, "ReduceLogSumExp", x, &[1])),
    Case::new("mean of an image", &[32, 80, 80], |g, x| {
        let y = conv(g, x, &[16, 32, 1, 1], &[]);
        g.op("GlobalAveragePool", &[y], &[])
    }),
    Case::new("average pool", &[12, 9, 9], |g, x| {
        g.op("AveragePool", &[x], &[("kernel_shape", [3i64, 3].into()), pads(1), ("strides", [2i64, 2].into())])
    }),
    Case::new("max pool behind a conv", &[6, 10, 10], |g, x| {
        let y = conv(g, x, &[12, 6, 3, 3], &[pads(1)]);
        g.op("MaxPool", &[y], &[("kernel_shape", [2i64, 2].into()), ("strides", [2i64, 2].into())])
    }),
    Case::new("resize", &[5, 6, 6], |g, x| {
        let scales = g.constant(Tensor::from_vec([4], vec![1.0f32, 1.0, 1.7, 2.3]).unwrap());
        let attrs = [("mode", Attr::Str("linear".to_owned()))];
        g.op_many("Resize", &[Some(x), None, Some(scales)], 1, &attrs)[0]
    }),
    Case::new("chain of functions", &[101], |g, x| {
        let y = g.op("Erf", &[x], &[]);
        let y = g.op("Tanh", &[y], &[]);
        let y = g.op("Exp", &[y], &[]);
        let sum = g.op("Mul", &[y, x], &[]);
        g.op("Sigmoid", &[sum], &[])
    }),
    // A network of several kinds.
    Case::new("residual network", &[3, 32, 32], |g, x| {
        let x = conv(g, x, &[32, 3, 3, 3], &[pads(1)]);
        let y = conv(g, x, &[32, 32, 3, 3], &[pads(1)]);
        let y = g.op("Add", &[x, y], &[]);
        let y = conv(g, y, &[64, 32, 3, 3], &[pads(1), ("strides", [2i64, 2].into())]);
        let y = conv(g, y, &[64, 64, 3, 3], &[pads(1)]);
        let y = conv(g, y, &[128, 64, 1, 1], &[]);
        let y = g.op("GlobalAveragePool", &[y], &[]);
        let y = g.op("Flatten", &[y], &[]);
        gemm(g, y, [128, 10])
    }),
    Case::new("transformer", &[12, 32], |g, x| {
        let y = attention(g, x, 32);
        let y = product(g, y, [32, 32]);
        let y = g.op("Add", &[y, x], &[]);
        let y = scaled(g, "LayerNormalization", y, 32, &[("axis", (-1i64).into())]);
        let y = product(g, y, [32, 96]);
        let y = g.op("Relu", &[y], &[]);
        product(g, y, [96, 32])
    }),
];
