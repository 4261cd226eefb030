//! Every operator with a form on a device, at shapes that change from request to request.

use kiln_model::{Attr, Graph, GraphBuilder, ValueId};
use kiln_run::device::ON_DEVICE;
use kiln_tensor::{DType, Tensor};

use super::devices::{Request, same_everywhere};
use super::graphs::floats;

const TOLERANCE: f32 = 2e-4;

/// An operator on inputs `x0`, `x1` and so on, all `f32`, after a node that is sure to be on the device; and the shapes
/// of each request.
struct Row {
    op: &'static str,
    attrs: Vec<(&'static str, Attr)>,
    /// Integer lists that follow the inputs.
    lists: Vec<Vec<i64>>,
    requests: Vec<Vec<Vec<usize>>>,
    outputs: usize,
    /// Scales of a resize, behind a region that is left out.
    scales: Option<Vec<f32>>,
}

fn row(op: &'static str, requests: &[&[&[usize]]]) -> Row {
    let requests = requests.iter().map(|shapes| shapes.iter().map(|shape| shape.to_vec()).collect()).collect();
    Row { op, attrs: Vec::new(), lists: Vec::new(), requests, outputs: 1, scales: None }
}

impl Row {
    fn attr(mut self, name: &'static str, value: impl Into<Attr>) -> Row {
        self.attrs.push((name, value.into()));
        self
    }

    fn list(mut self, values: &[i64]) -> Row {
        self.lists.push(values.to_vec());
        self
    }

    fn outputs(mut self, outputs: usize) -> Row {
        self.outputs = outputs;
        self
    }

    /// The operator after a product with the identity, so that its first input lies on the device.
    fn graph(&self) -> Graph {
        let mut net = GraphBuilder::new(self.op, 18);
        let ranks: Vec<usize> = self.requests[0].iter().map(Vec::len).collect();
        let mut inputs: Vec<ValueId> = Vec::new();
        for (index, &rank) in ranks.iter().enumerate() {
            let dims = (0..rank).map(|axis| kiln_model::ir::Dim::Named(format!("d{index}{axis}")));
            let input = net.input(&format!("x{index}"), DType::F32, dims);
            inputs.push(if index == 0 {
                // A product with the identity keeps everything as it is, whatever the shape.
                let column = net.constant(Tensor::from_vec([2], vec![-1i64, 1]).unwrap());
                let one = net.constant(Tensor::from_vec([1, 1], vec![1f32]).unwrap());
                let shape = net.op("Shape", &[input], &[]);
                let column = net.op("Reshape", &[input, column], &[]);
                let same = net.op("MatMul", &[column, one], &[]);
                net.op("Reshape", &[same, shape], &[("allowzero", 1.into())])
            } else {
                input
            });
        }
        for list in &self.lists {
            inputs.push(net.constant(Tensor::from_vec([list.len()], list.clone()).unwrap()));
        }
        let mut inputs: Vec<Option<ValueId>> = inputs.into_iter().map(Some).collect();
        if let Some(scales) = &self.scales {
            let scales = net.constant(Tensor::from_vec([scales.len()], scales.clone()).unwrap());
            inputs.extend([None, Some(scales)]);
        }
        let made = net.op_many(self.op, &inputs, self.outputs, &self.attrs);
        for (index, value) in made.into_iter().enumerate() {
            net.output(&format!("y{index}"), value);
        }
        net.finish()
    }

    fn check(&self) {
        let request = |(seed, shapes): (usize, &Vec<Vec<usize>>)| -> Request {
            let one =
                |(index, shape): (usize, &Vec<usize>)| (format!("x{index}"), floats(shape, (seed * 7 + index) as u32));
            shapes.iter().enumerate().map(one).collect()
        };
        let requests: Vec<Request> = self.requests.iter().enumerate().map(request).collect();
        let what = format!("{} {:?} {:?}", self.op, self.attrs, self.lists);
        for session in same_everywhere(&what, &self.graph(), &requests, TOLERANCE) {
            let nodes = &session.describe().graph.nodes;
            let there = nodes.iter().any(|node| node.op.contains(self.op) && node.is_marked(ON_DEVICE));
            assert!(there || nodes.iter().all(|node| !node.op.contains(self.op)), "{what} did not run on the device");
        }
    }
}

#[test]
fn convolutions() {
    let images: &[&[&[usize]]] = &[&[&[1, 4, 9, 9], &[6, 4, 3, 3]], &[&[2, 4, 5, 12], &[6, 4, 3, 3]]];
    row("Conv", images).check();
    row("Conv", images).attr("pads", [1, 1, 1, 1]).attr("strides", [2, 1]).check();
    row("Conv", images).attr("auto_pad", "SAME_UPPER").attr("strides", [2, 2]).check();
    row("Conv", images).attr("dilations", [2, 2]).attr("pads", [2, 2, 2, 2]).check();
    row("Conv", images).attr("pads", [0, 1, 2, 0]).check();
    row("Conv", &[&[&[1, 4, 9, 9], &[8, 2, 3, 3]]]).attr("group", 2).check();
    row("Conv", &[&[&[1, 4, 9, 9], &[4, 1, 3, 3], &[4]]]).attr("group", 4).check();
    row("Conv", &[&[&[2, 3, 17], &[5, 3, 4], &[5]], &[&[1, 3, 9], &[5, 3, 4], &[5]]]).check();
    row("Conv", &[&[&[1, 2, 4, 5, 6], &[3, 2, 2, 3, 3], &[3]]]).attr("pads", [0, 1, 1, 0, 1, 1]).check();
    let transposed: &[&[&[usize]]] = &[&[&[1, 4, 5, 5], &[4, 3, 3, 3]], &[&[2, 4, 2, 7], &[4, 3, 3, 3]]];
    row("ConvTranspose", transposed).check();
    row("ConvTranspose", transposed)
        .attr("strides", [2, 2])
        .attr("pads", [1, 1, 1, 1])
        .attr("output_padding", [1, 0])
        .check();
    row("ConvTranspose", &[&[&[1, 4, 5, 5], &[4, 2, 2, 2], &[4]]]).attr("strides", [2, 2]).attr("group", 2).check();
}

#[test]
fn matrix_products() {
    row("MatMul", &[&[&[5, 7], &[7, 3]], &[&[1, 9], &[9, 33]], &[&[4, 0], &[0, 3]]]).check();
    row("MatMul", &[&[&[2, 3, 5, 7], &[2, 3, 7, 4]], &[&[1, 1, 5, 7], &[2, 3, 7, 4]], &[&[2, 3, 1, 7], &[1, 1, 7, 4]]])
        .check();
    row("MatMul", &[&[&[2, 3, 5, 7], &[2, 1, 7, 4]], &[&[2, 1, 5, 7], &[1, 3, 7, 4]]]).check();
    row("MatMul", &[&[&[7], &[7, 3]]]).check();
    row("MatMul", &[&[&[4, 7], &[7]]]).check();
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let shapes = |m: usize, n: usize, k: usize| {
            vec![if a == 0 { vec![m, k] } else { vec![k, m] }, if b == 0 { vec![k, n] } else { vec![n, k] }, vec![n]]
        };
        let mut gemm = row("Gemm", &[]).attr("transA", a).attr("transB", b).attr("alpha", Attr::Float(0.5));
        gemm.requests = vec![shapes(4, 6, 5), shapes(1, 9, 3)];
        gemm.check();
    }
    row("Gemm", &[&[&[4, 5], &[5, 6], &[4, 1]], &[&[4, 5], &[5, 6], &[4, 6]]]).attr("beta", Attr::Float(0.25)).check();
}

#[test]
fn rows() {
    let shapes: &[&[&[usize]]] = &[&[&[3, 5, 7]], &[&[1, 1, 1]], &[&[2, 33, 300]], &[&[2, 0, 3]]];
    for axis in [0, 1, -1] {
        row("Softmax", shapes).attr("axis", axis).check();
        row("LogSoftmax", shapes).attr("axis", axis).check();
    }
    row("LayerNormalization", &[&[&[3, 8], &[8], &[8]], &[&[40, 8], &[8], &[8]]]).check();
    row("LayerNormalization", &[&[&[2, 3, 500], &[500]]]).attr("epsilon", Attr::Float(1e-3)).check();
    row("LayerNormalization", &[&[&[2, 3, 4], &[1, 4], &[1]]]).attr("axis", 1).check();
}

#[test]
fn channels() {
    let images: &[&[&[usize]]] = &[&[&[2, 6, 4, 5], &[6], &[6]], &[&[1, 6, 1, 40], &[6], &[6]]];
    row("InstanceNormalization", images).check();
    row("GroupNormalization", &[&[&[2, 6, 4, 5], &[3], &[3]]]).attr("num_groups", 3).check();
    let mut batch = row(
        "BatchNormalization",
        &[&[&[2, 6, 4, 5], &[6], &[6], &[6], &[6]], &[&[3, 6, 2, 9], &[6], &[6], &[6], &[6]]],
    );
    // Random variances have either sign; with this epsilon all are positive and far enough from zero.
    batch = batch.attr("epsilon", Attr::Float(1.5));
    batch.check();
}

#[test]
fn windows() {
    let images: &[&[&[usize]]] = &[&[&[1, 3, 9, 9]], &[&[2, 3, 6, 13]]];
    for op in ["MaxPool", "AveragePool"] {
        let pool = || row(op, images).attr("kernel_shape", [3, 2]).attr("strides", [2, 2]);
        pool().check();
        pool().attr("pads", [1, 1, 1, 0]).check();
        pool().attr("ceil_mode", 1).check();
    }
    row("AveragePool", images)
        .attr("kernel_shape", [3, 3])
        .attr("pads", [1, 1, 1, 1])
        .attr("count_include_pad", 1)
        .check();
    row("MaxPool", images).attr("kernel_shape", [2, 2]).attr("dilations", [2, 3]).check();
    row("MaxPool", &[&[&[2, 3, 11]]]).attr("kernel_shape", [3]).check();
    row("AveragePool", &[&[&[1, 2, 5, 6, 7]]]).attr("kernel_shape", [2, 3, 2]).check();
    for op in ["GlobalAveragePool", "GlobalMaxPool"] {
        row(op, images).check();
    }
}

#[test]
fn reductions() {
    let shapes: &[&[&[usize]]] = &[&[&[3, 4, 50]], &[&[1, 7, 3]], &[&[2, 1, 700]]];
    for op in [
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSumSquare",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSumExp",
    ] {
        for axes in [&[0][..], &[1], &[2], &[0, 2], &[1, 2], &[0, 1, 2]] {
            row(op, shapes).list(axes).attr("keepdims", 0).check();
        }
    }
}

#[test]
fn elements() {
    let shapes: &[&[&[usize]]] = &[&[&[3, 5]], &[&[1, 1]], &[&[7, 1000]], &[&[0, 4]]];
    for op in [
        "Abs",
        "Ceil",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Mish",
        "Neg",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Tanh",
    ] {
        let mut row = row(op, shapes);
        if op == "Gelu" {
            row = row.attr("approximate", "none");
        }
        row.check();
    }
    let pairs: &[&[&[usize]]] =
        &[&[&[3, 5], &[3, 5]], &[&[3, 5], &[1, 5]], &[&[3, 1], &[1, 5]], &[&[1, 1], &[40, 5]], &[&[2, 600], &[2, 1]]];
    for op in ["Add", "Sub", "Mul", "Div", "Max", "Min"] {
        row(op, pairs).check();
    }
}

#[test]
fn movement() {
    let shapes: &[&[&[usize]]] = &[&[&[2, 3, 4, 5]], &[&[1, 7, 33, 40]], &[&[3, 1, 1, 2]]];
    for perm in [[0, 2, 1, 3], [3, 2, 1, 0], [0, 1, 3, 2], [1, 0, 3, 2], [0, 1, 2, 3]] {
        row("Transpose", shapes).attr("perm", perm).check();
    }
    row("DepthToSpace", &[&[&[1, 8, 2, 3]]]).attr("blocksize", 2).check();
    row("SpaceToDepth", &[&[&[1, 2, 4, 6]]]).attr("blocksize", 2).check();
    let three: &[&[&[usize]]] = &[&[&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]]];
    for axis in 0..3 {
        row("Concat", three).attr("axis", axis).check();
    }
    row("Concat", &[&[&[2, 3], &[2, 1]], &[&[2, 3], &[2, 0]]]).attr("axis", 1).check();
    row("Split", &[&[&[2, 6, 4]]]).list(&[1, 2, 3]).attr("axis", 1).outputs(3).check();
    row("Split", &[&[&[6, 2]]]).list(&[4, 2]).outputs(2).check();
    let slice = |starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]| {
        row("Slice", &[&[&[5, 6, 7]], &[&[9, 6, 8]]]).list(starts).list(ends).list(axes).list(steps).check();
    };
    slice(&[1, 0], &[4, 3], &[0, 2], &[1, 1]);
    slice(&[-1], &[-100], &[1], &[-1]);
    slice(&[0, 5], &[100, 0], &[0, 1], &[2, -2]);
    slice(&[3], &[3], &[0], &[1]);
    row("Expand", &[&[&[3, 1]], &[&[1, 4]]]).list(&[2, 3, 4]).check();
    row("Tile", &[&[&[2, 3]]]).list(&[2, 3]).check();
    row("Squeeze", &[&[&[1, 5, 1]]]).list(&[0]).check();
    row("Unsqueeze", &[&[&[5, 2]]]).list(&[0, 3]).check();
    row("Flatten", &[&[&[2, 3, 4]]]).attr("axis", 2).check();
    row("Gather", &[&[&[5, 6, 7]], &[&[5, 2, 3]]]).list(&[4, 0, -1, -5]).check();
    row("Gather", &[&[&[5, 6, 7]]]).list(&[5, 0, -6]).attr("axis", 1).check();
}

#[test]
fn resizing() {
    let images: &[&[&[usize]]] = &[&[&[1, 3, 4, 5]], &[&[2, 3, 7, 2]]];
    let resize = |mode: &'static str, coordinates: &'static str| {
        let mut row = row("Resize", images).attr("mode", mode).attr("coordinate_transformation_mode", coordinates);
        row.scales = Some(vec![1.0, 1.0, 2.0, 1.5]);
        row
    };
    for coordinates in ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"] {
        resize("nearest", coordinates).check();
        resize("linear", coordinates).check();
        resize("cubic", coordinates).check();
    }
    resize("nearest", "asymmetric").attr("nearest_mode", "floor").check();
    let mut whole = resize("linear", "half_pixel");
    whole.scales = Some(vec![1.0; 4]);
    whole.check();
    let mut less = resize("linear", "half_pixel").attr("antialias", 1);
    less.scales = Some(vec![1.0, 1.0, 0.5, 0.4]);
    less.check();
}
