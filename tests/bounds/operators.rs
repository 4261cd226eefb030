//! Graphs of one computing operator each, and requests for them of shapes that never return.

use kiln_model::ir::Attr;
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

/// An operator whose shapes change.
pub(crate) struct Operator {
    pub name: &'static str,
    /// Makes the graph's only node from its inputs, which are named "0", "1" and so on.
    node: fn(&mut GraphBuilder, &[ValueId]) -> ValueId,
    /// Types of the inputs and how many axes they have.
    inputs: &'static [(DType, usize)],
    /// Shapes of the inputs, from three sizes. No two requests have the same sizes.
    shapes: fn([usize; 3]) -> Vec<Vec<usize>>,
    /// The exclusive bound of the whole numbers, from 0 on, that fill the inputs.
    below: usize,
}

const FLOATS: [&[(DType, usize)]; 2] = [&[(DType::F32, 3)], &[(DType::F32, 4)]];

/// Every family that computes, and the operators that move elements by tables.
pub(crate) const OPERATORS: &[Operator] = &[
    of("conv", |graph, x| window(graph, x, "Conv", [6, 4, 3, 3], &[]), FLOATS[1], |[n, h, w]| image(n, 4, h, w)),
    of("conv 1x1", |graph, x| window(graph, x, "Conv", [8, 4, 1, 1], &[]), FLOATS[1], |[n, h, w]| image(n, 4, h, w)),
    of(
        "conv stride 2",
        |graph, x| window(graph, x, "Conv", [16, 3, 7, 7], &[("strides", ints(&[2, 2]))]),
        FLOATS[1],
        |[n, h, w]| image(1 + n % 2, 3, h + 6 + n / 2, w + 6),
    ),
    of(
        "conv winograd",
        |graph, x| window(graph, x, "Conv", [32, 32, 3, 3], &[]),
        FLOATS[1],
        |[n, h, w]| image(1, 32, h + n, w + 2),
    ),
    of(
        "depthwise",
        |graph, x| window(graph, x, "Conv", [4, 1, 3, 3], &[("group", 4.into())]),
        FLOATS[1],
        |[n, h, w]| image(n, 4, h, w),
    ),
    of(
        "transposed conv",
        |graph, x| window(graph, x, "ConvTranspose", [4, 6, 2, 2], &[("strides", ints(&[2, 2]))]),
        FLOATS[1],
        |[n, h, w]| image(n, 4, h, w),
    ),
    of(
        "matmul by weights",
        |graph, x| {
            let weights = floats(graph, &[3, 5]);
            graph.op("MatMul", &[x[0], weights], &[])
        },
        FLOATS[1],
        |[a, b, c]| vec![vec![a, b, c, 3]],
    ),
    of(
        "matmul",
        |graph, x| graph.op("MatMul", x, &[]),
        &[(DType::F32, 2), (DType::F32, 2)],
        |[m, k, n]| vec![vec![m, k], vec![k, n]],
    ),
    of("resize nearest", |graph, x| resize(graph, x, "nearest", &[2.0, 3.0]), FLOATS[1], |[n, h, w]| image(n, 4, h, w)),
    of("resize linear", |graph, x| resize(graph, x, "linear", &[1.5, 2.5]), FLOATS[1], |[n, h, w]| image(n, 4, h, w)),
    of("resize cubic", |graph, x| resize(graph, x, "cubic", &[0.75, 2.5]), FLOATS[1], |[n, h, w]| image(n, 2, h, w)),
    of(
        "max pool",
        |graph, x| graph.op("MaxPool", x, &[("kernel_shape", ints(&[3, 3]))]),
        FLOATS[1],
        |[n, h, w]| image(n, 4, h, w),
    ),
    of(
        "average pool",
        |graph, x| graph.op("AveragePool", x, &[("kernel_shape", ints(&[2, 3]))]),
        FLOATS[1],
        |[n, h, w]| image(n, 4, h, w),
    ),
    of(
        "softmax",
        |graph, x| graph.op("Softmax", x, &[("axis", (-1).into())]),
        FLOATS[0],
        |[a, b, c]| vec![vec![a, b, c]],
    ),
    of(
        "layer norm",
        |graph, x| {
            let scale = floats(graph, &[8]);
            graph.op("LayerNormalization", &[x[0], scale], &[])
        },
        FLOATS[1],
        |[a, b, c]| vec![vec![a, b, c, 8]],
    ),
    of(
        "instance norm",
        |graph, x| {
            let (scale, bias) = (floats(graph, &[4]), floats(graph, &[4]));
            graph.op("InstanceNormalization", &[x[0], scale, bias], &[])
        },
        FLOATS[1],
        |[n, h, w]| image(n, 4, h, w),
    ),
    of(
        "reduce",
        |graph, x| {
            let axes = graph.constant(Tensor::from_slice([1], &[1i64]).expect("one axis"));
            graph.op("ReduceMean", &[x[0], axes], &[])
        },
        FLOATS[0],
        |[a, b, c]| vec![vec![a, b, c]],
    ),
    of(
        "transpose",
        |graph, x| graph.op("Transpose", x, &[("perm", ints(&[2, 0, 1]))]),
        FLOATS[0],
        |[a, b, c]| vec![vec![a, b, c]],
    ),
    of(
        "attention",
        |graph, x| graph.op("Attention", &[x[0], x[1], x[1]], &[]),
        &[(DType::F32, 4), (DType::F32, 4)],
        |[n, q, k]| vec![vec![n, 2, q, 8], vec![n, 2, k, 8]],
    ),
    of(
        "lstm",
        |graph, x| {
            let (w, r) = (floats(graph, &[1, 32, 6]), floats(graph, &[1, 32, 8]));
            graph.op("LSTM", &[x[0], w, r], &[("hidden_size", 8.into())])
        },
        FLOATS[0],
        |[t, n, m]| vec![vec![t + 48 * (m % 4), n + 48 * (m / 4), 6]],
    ),
    of(
        "chain",
        |graph, x| {
            let sum = graph.op("Add", x, &[]);
            let bounded = graph.op("Sigmoid", &[sum], &[]);
            graph.op("Mul", &[bounded, x[0]], &[])
        },
        &[(DType::F32, 3), (DType::F32, 3)],
        |[a, b, c]| vec![vec![a, b, c], vec![a, 1, c]],
    ),
    Operator {
        below: 200,
        ..of(
            "quantized matmul",
            |graph, x| {
                let weights: Vec<i8> = (0..3 * 5).map(|index| (index * 37 % 251) as i8).collect();
                let weights = graph.constant(Tensor::from_slice([3, 5], &weights).expect("as many as the shape"));
                graph.op("MatMulInteger", &[x[0], weights], &[])
            },
            &[(DType::U8, 4)],
            |[a, b, c]| vec![vec![a, b, c, 3]],
        )
    },
    Operator {
        below: 200,
        ..of(
            "quantized conv",
            |graph, x| {
                let weights: Vec<i8> = (0..6 * 4 * 9).map(|index| (index * 37 % 251) as i8).collect();
                let weights = graph.constant(Tensor::from_slice([6, 4, 3, 3], &weights).expect("as many as the shape"));
                graph.op("ConvInteger", &[x[0], weights], &[])
            },
            &[(DType::U8, 4)],
            |[n, h, w]| image(n, 4, h, w),
        )
    },
    Operator {
        below: 1,
        ..of(
            "gather",
            |graph, x| graph.op("Gather", x, &[("axis", 1.into())]),
            &[(DType::F32, 2), (DType::I64, 1)],
            |[a, b, c]| vec![vec![a, b], vec![c]],
        )
    },
    of(
        "pad",
        |graph, x| {
            let pads = graph.constant(Tensor::from_slice([6], &[1i64, 0, 2, 0, 3, 1]).expect("six pads"));
            graph.op("Pad", &[x[0], pads], &[])
        },
        FLOATS[0],
        |[a, b, c]| vec![vec![a, b, c]],
    ),
    of(
        "concat",
        |graph, x| graph.op("Concat", x, &[("axis", 1.into())]),
        &[(DType::F32, 3), (DType::F32, 3)],
        |[a, b, c]| vec![vec![a, b, c], vec![a, 2, c]],
    ),
    of(
        "einsum",
        |graph, x| graph.op("Einsum", x, &[("equation", "abc,c->ba".into())]),
        &[(DType::F32, 3), (DType::F32, 1)],
        |[a, b, c]| vec![vec![a, b, c], vec![c]],
    ),
    of(
        "top k",
        |graph, x| {
            let k = graph.constant(Tensor::from_slice([1], &[1i64]).expect("one number"));
            graph.op_many("TopK", &[Some(x[0]), Some(k)], 2, &[("axis", 1.into())])[0]
        },
        FLOATS[0],
        |[a, b, c]| vec![vec![a, b, c]],
    ),
    of("non zero", |graph, x| graph.op("NonZero", x, &[]), FLOATS[0], |[a, b, c]| vec![vec![a, b, c]]),
];

const fn of(
    name: &'static str,
    node: fn(&mut GraphBuilder, &[ValueId]) -> ValueId,
    inputs: &'static [(DType, usize)],
    shapes: fn([usize; 3]) -> Vec<Vec<usize>>,
) -> Operator {
    Operator { name, node, inputs, shapes, below: 5 }
}

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

fn image(batch: usize, channels: usize, height: usize, width: usize) -> Vec<Vec<usize>> {
    vec![vec![batch, channels, height + 2, width + 2]]
}

fn floats(graph: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|index| (index * 31 % 23) as f32 / 11.0 - 1.0).collect();
    graph.constant(Tensor::from_vec(shape.iter().copied(), values).expect("as many as the shape"))
}

fn window(graph: &mut GraphBuilder, x: &[ValueId], op: &str, weights: [usize; 4], attrs: &[(&str, Attr)]) -> ValueId {
    let weights = floats(graph, &weights);
    graph.op(op, &[x[0], weights], attrs)
}

fn resize(graph: &mut GraphBuilder, x: &[ValueId], mode: &str, scales: &[f32; 2]) -> ValueId {
    let scales = Tensor::from_slice([4], &[1.0, 1.0, scales[0], scales[1]]).expect("four scales");
    let scales = graph.constant(scales);
    let absent = None;
    graph.op_many("Resize", &[Some(x[0]), absent, Some(scales)], 1, &[("mode", mode.into())])[0]
}

impl Operator {
    /// The graph, in which no dimension is known.
    pub(crate) fn graph(&self) -> Graph {
        let mut graph = GraphBuilder::new(self.name, 23);
        let inputs: Vec<ValueId> = (0..)
            .zip(self.inputs)
            .map(|(number, &(dtype, axes))| {
                let name = ["0", "1"][number];
                graph.input(name, dtype, (0..axes).map(|axis| format!("{number}.{axis}").as_str().into()))
            })
            .collect();
        let made = (self.node)(&mut graph, &inputs);
        graph.output("y", made);
        graph.finish()
    }

    /// The inputs of request `number` out of `side` cubed. Sizes are at most `side`.
    pub(crate) fn request(&self, number: usize, side: usize) -> Vec<(&'static str, Tensor)> {
        // A stride that shares no divisor with the number of requests: early requests are as large as late ones.
        let number = number * 64_891 % side.pow(3);
        let sizes = [number % side + 1, number / side % side + 1, number / side / side + 1];
        let shapes = (self.shapes)(sizes);
        let inputs = self.inputs.iter().zip(shapes).zip(["0", "1"]);
        inputs.map(|((&(dtype, _), shape), name)| (name, self.tensor(dtype, &shape))).collect()
    }

    fn tensor(&self, dtype: DType, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let numbers = (0..count).map(|index| index % self.below);
        let shape = shape.iter().copied();
        match dtype {
            DType::U8 => Tensor::from_vec(shape, numbers.map(|number| number as u8).collect()),
            DType::I64 => Tensor::from_vec(shape, numbers.map(|number| number as i64).collect()),
            _ => Tensor::from_vec(shape, numbers.map(|number| number as f32).collect()),
        }
        .expect("as many as the shape")
    }
}
