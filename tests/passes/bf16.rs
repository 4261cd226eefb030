//! Activations stored as `bf16` where a caller asks for it: results are close to `f32`, closer still with weights alone
//! in `bf16`, and inputs and outputs keep the model's types. Where the processor does not multiply `bf16`, the pass
//! does nothing and all this still holds.

use kiln::session::{Session, SessionOptions};
use kiln_kernels::cpu::Precision;
use kiln_model::ir::Dim;
use kiln_model::passes::PassOptions;
use kiln_model::{Attr, Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

use super::distance;

/// Numbers between -1 and 1 that look random.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((((at + seed * 977) * 2_654_435_761) >> 7) % 2001) as f32 / 1000.0 - 1.0).collect()
}

struct Net(GraphBuilder, usize);

impl Net {
    /// A convolution whose sums are about as large as its inputs.
    fn conv(&mut self, x: ValueId, [channels, filters, kernel]: [usize; 3], more: &[(&str, Attr)]) -> ValueId {
        self.1 += 1;
        let scale = (2.0 / (channels * kernel * kernel) as f32).sqrt();
        let weights = numbers(filters * channels * kernel * kernel, self.1).iter().map(|w| w * scale).collect();
        let weights = self.0.constant(Tensor::from_vec([filters, channels, kernel, kernel], weights).unwrap());
        let bias = self.0.constant(Tensor::from_vec([filters], numbers(filters, self.1 + 100)).unwrap());
        let mut attrs = vec![("pads", Attr::from([(kernel / 2) as i64; 4]))];
        attrs.extend(more.iter().cloned());
        self.0.op("Conv", &[x, weights, bias], &attrs)
    }

    fn relu(&mut self, x: ValueId) -> ValueId {
        self.0.op("Relu", &[x], &[])
    }
}

/// A stem, blocks with residuals of odd widths, a stride, and a mean.
fn residual_network() -> Graph {
    let mut net = Net(GraphBuilder::new("residual", 17), 0);
    let x = net.0.input("x", DType::F32, ["N".into(), 3.into(), "H".into(), "W".into()]);
    let stem = net.conv(x, [3, 40, 7], &[("strides", [2i64, 2].into())]);
    let stem = net.relu(stem);
    let mut at = net.0.op(
        "MaxPool",
        &[stem],
        &[("kernel_shape", [3i64, 3].into()), ("strides", [2i64, 2].into()), ("pads", [1i64; 4].into())],
    );
    for _ in 0..3 {
        let a = net.conv(at, [40, 24, 1], &[]);
        let a = net.relu(a);
        let b = net.conv(a, [24, 24, 3], &[]);
        let b = net.relu(b);
        let c = net.conv(b, [24, 40, 1], &[]);
        let sum = net.0.op("Add", &[c, at], &[]);
        at = net.relu(sum);
    }
    let down = net.conv(at, [40, 64, 3], &[("strides", [2i64, 2].into())]);
    let last = net.conv(down, [64, 33, 1], &[]);
    let mean = net.0.op("GlobalAveragePool", &[last], &[]);
    net.0.output("y", mean);
    net.0.output("map", last);
    net.0.finish()
}

fn run(
    graph: &Graph,
    precision: Precision,
    passes: PassOptions,
    request: &[(&str, Tensor)],
    threads: usize,
) -> Vec<Tensor> {
    let options = SessionOptions { threads, precision, passes, ..SessionOptions::default() };
    let session = Session::from_graph(graph.clone(), &options).unwrap();
    session.run(request).unwrap().into_iter().map(|(_, tensor)| tensor).collect()
}

fn check<const RANK: usize>(graph: &Graph, inputs: &[[usize; RANK]]) {
    for (threads, shape) in inputs.iter().enumerate().map(|(index, shape)| (1 + index % 2, shape)) {
        let x = Tensor::from_vec(shape.iter().copied(), numbers(shape.iter().product(), 7)).unwrap();
        let request = [("x", x)];
        let all = PassOptions::default;
        let exact = run(graph, Precision::F32, all(), &request, threads);
        let halves = run(graph, Precision::Bf16, all(), &request, threads);
        let weights = run(graph, Precision::Bf16, all().without("bf16"), &request, threads);
        for ((exact, halves), weights) in exact.iter().zip(&halves).zip(&weights) {
            assert_eq!(halves.dtype(), DType::F32);
            let (far, near) = (distance(exact, halves).unwrap(), distance(weights, halves).unwrap());
            assert!(far <= 2e-2 && near <= 1e-2, "{shape:?}: {far} from f32, {near} from weights alone");
        }
    }
}

#[test]
fn a_residual_network_stays_close_at_every_shape() {
    check(&residual_network(), &[[1, 3, 33, 47], [2, 3, 40, 40], [1, 3, 9, 16], [1, 3, 33, 47]]);
}

/// Blocks of depthwise convolutions between others, with residuals between the narrow ends.
#[test]
fn inverted_residuals_stay_close() {
    let mut net = Net(GraphBuilder::new("inverted", 17), 0);
    let x = net.0.input("x", DType::F32, ["N".into(), 3.into(), "H".into(), "W".into()]);
    let mut at = net.conv(x, [3, 16, 3], &[("strides", [2i64, 2].into())]);
    for (stride, filters) in [(1, 16), (2, 24)] {
        let wide = net.conv(at, [16, 96, 1], &[]);
        let wide = net.relu(wide);
        let each = net.conv(wide, [1, 96, 3], &[("group", 96i64.into()), ("strides", [stride, stride].into())]);
        let each = net.relu(each);
        let narrow = net.conv(each, [96, filters, 1], &[]);
        at = if stride == 1 { net.0.op("Add", &[narrow, at], &[]) } else { narrow };
    }
    let y = net.conv(at, [24, 40, 1], &[]);
    net.0.output("y", y);
    check(&net.0.finish(), &[[1, 3, 32, 32], [2, 3, 21, 37], [1, 3, 8, 8]]);
}

/// An encoder whose values are used again later: joined, and enlarged by picking and by a transposed convolution.
#[test]
fn an_encoder_and_decoder_stay_close() {
    let mut net = Net(GraphBuilder::new("u", 17), 0);
    let x = net.0.input("x", DType::F32, ["N".into(), 3.into(), "H".into(), "W".into()]);
    let halve = [("kernel_shape", Attr::from([2i64, 2])), ("strides", [2i64, 2].into())];
    let a = net.conv(x, [3, 24, 3], &[]);
    let a = net.relu(a);
    let b = net.0.op("MaxPool", &[a], &halve);
    let b = net.conv(b, [24, 40, 3], &[]);
    let c = net.0.op("AveragePool", &[b], &halve);
    let c = net.conv(c, [40, 40, 3], &[]);
    let none = net.0.constant(Tensor::from_vec([0], Vec::<f32>::new()).unwrap());
    let scales = net.0.constant(Tensor::from_vec([4], vec![1f32, 1.0, 2.0, 2.0]).unwrap());
    let d = net.0.op("Resize", &[c, none, scales], &[("mode", "nearest".into())]);
    let d = net.0.op("Concat", &[b, d], &[("axis", 1i64.into())]);
    let weights = numbers(80 * 24 * 4, 50).iter().map(|w| w * 0.15).collect();
    let weights = net.0.constant(Tensor::from_vec([80, 24, 2, 2], weights).unwrap());
    let e = net.0.op("ConvTranspose", &[d, weights], &[("strides", [2i64, 2].into())]);
    let e = net.0.op("Concat", &[a, e], &[("axis", 1i64.into())]);
    let y = net.conv(e, [48, 5, 1], &[]);
    net.0.output("y", y);
    check(&net.0.finish(), &[[1, 3, 16, 24], [2, 3, 32, 8]]);
}

/// Layers of a transformer without attention: normalised before products and after them, with residuals of both kinds.
#[test]
fn products_and_normalisations_stay_close() {
    let mut build = GraphBuilder::new("layers", 17);
    let weights = |build: &mut GraphBuilder, shape: &[usize], seed: usize| {
        let scale = if shape.len() > 1 { (2.0 / shape[0] as f32).sqrt() } else { 1.0 };
        let values = numbers(shape.iter().product(), seed).iter().map(|w| w * scale).collect();
        build.constant(Tensor::from_vec(shape.iter().copied(), values).unwrap())
    };
    let x = build.input("x", DType::F32, ["N".into(), "S".into(), 40.into()]);
    let mut at = x;
    for layer in 0..4 {
        let seed = 10 * layer;
        let (scale, bias) = (weights(&mut build, &[40], seed), weights(&mut build, &[40], seed + 1));
        let norm = build.op("LayerNormalization", &[at, scale, bias], &[]);
        let (up, row) = (weights(&mut build, &[40, 96], seed + 2), weights(&mut build, &[96], seed + 3));
        let wide = build.op("MatMul", &[norm, up], &[]);
        let wide = build.op("Add", &[wide, row], &[]);
        let wide = build.op("Relu", &[wide], &[]);
        let down = weights(&mut build, &[96, 40], seed + 4);
        let narrow = build.op("MatMul", &[wide, down], &[]);
        at = build.op("Add", &[narrow, if layer % 2 == 0 { norm } else { at }], &[]);
    }
    let last = weights(&mut build, &[40, 33], 99);
    let y = build.op("MatMul", &[at, last], &[]);
    build.output("y", y);
    check(&build.finish(), &[[1, 1, 40], [2, 35, 40], [1, 16, 40], [3, 7, 40], [1, 1, 40]]);
}

/// Weights in blocks, whose rows are rounded where many are multiplied; one row is computed as in `f32`.
#[test]
fn products_by_weights_in_blocks_stay_close() {
    let (k, middle, n, block) = (96, 64, 70, 32);
    let mut build = GraphBuilder::new("blocks", 21);
    let x = build.input("x", DType::F32, [Dim::Any, k.into()]);
    let codes = (0..middle * k / 2).map(|at| (at * 37 % 251) as u8).collect();
    let codes = build.constant(Tensor::from_vec([middle, k / block, block / 2], codes).unwrap());
    let scales = build.constant(Tensor::from_vec([middle * k / block], numbers(middle * k / block, 3)).unwrap());
    let sizes = [("K", k), ("N", middle), ("bits", 4), ("block_size", block)];
    let attrs = sizes.map(|(name, size)| (name, Attr::Int(size as i64)));
    let y = build.op_of("com.microsoft", "MatMulNBits", &[Some(x), Some(codes), Some(scales)], &attrs);
    let codes = (0..middle * n).map(|at| (at * 41 % 255) as u8 as i8).collect();
    let codes = build.constant(Tensor::from_vec([middle, n], codes).unwrap());
    let scales = build.constant(Tensor::from_vec([middle / block, n], numbers(middle / block * n, 4)).unwrap());
    let axis = [("axis", Attr::Int(0)), ("block_size", Attr::Int(block as i64))];
    let weights = build.op("DequantizeLinear", &[codes, scales], &axis);
    let z = build.op("MatMul", &[y, weights], &[]);
    build.output("y", y);
    build.output("z", z);
    check(&build.finish(), &[[1, k], [40, k], [5, k], [200, k]]);
}
