//! Where transposes end up, and which operators run channels-last.

use super::*;

const LAYOUT: &[&str] = &["layout", "identity", "transpose", "reshape", "cse", "dead"];

fn laid_out(build: GraphBuilder, y: ValueId) -> Graph {
    rewritten_by(build, y, LAYOUT)
}

fn conv(build: &mut GraphBuilder, x: ValueId, kernel: usize) -> ValueId {
    let w = floats(build, &[4, 4, kernel, kernel]);
    let pad = (kernel / 2) as i64;
    build.op("Conv", &[x, w], &[("pads", [pad; 4].into())])
}

fn transposes(graph: &Graph) -> usize {
    graph.nodes.iter().filter(|node| node.op == "Transpose").count()
}

#[test]
fn a_network_transposes_its_input_once_and_its_output_once() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let a = conv(&mut build, x, 3);
    let b = build.op("Relu", &[a], &[]);
    let c = build.op("MaxPool", &[b], &[("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())]);
    let d = conv(&mut build, c, 1);
    let y = build.op("Add", &[d, c], &[]);
    let graph = laid_out(build, y);
    assert_eq!(
        ops(&graph),
        ["Transpose", "Conv+channels_last", "Relu", "MaxPool+channels_last", "Conv+channels_last", "Add", "Transpose"]
    );
    assert_eq!(graph.nodes[0].ints("perm"), Some(&[0, 2, 3, 1][..]));
    assert_eq!(graph.nodes[6].ints("perm"), Some(&[0, 3, 1, 2][..]));
}

#[test]
fn a_dynamically_quantised_network_transposes_its_input_once_and_its_output_once() {
    let (mut build, mut y) = with_x(&[-2, 4, -3, -4]);
    for _ in 0..3 {
        let parts = build.op_many("DynamicQuantizeLinear", &[Some(y)], 3, &[]);
        let w = build.constant(Tensor::from_slice([4, 4, 3, 3], &[3i8; 144]).unwrap());
        let scale = build.constant(Tensor::scalar(0.25f32));
        let scale = build.op("Mul", &[parts[1], scale], &[]);
        let sums = build.op("ConvInteger", &[parts[0], w, parts[2]], &[("pads", [1; 4].into())]);
        let cast = build.op("Cast", &[sums], &[("to", 1.into())]);
        let scaled = build.op("Mul", &[cast, scale], &[]);
        y = build.op("Relu", &[scaled], &[]);
    }
    let graph = rewritten_by(build, y, &[&["quantized"], LAYOUT].concat());
    let found = ops(&graph);
    assert_eq!(found.iter().filter(|op| op.starts_with("QuantizedConv+channels_last")).count(), 3, "{found:?}");
    assert_eq!((found[0].as_str(), transposes(&graph)), ("DynamicQuantizeLinear", 2), "{found:?}");
}

#[test]
fn without_convolutions_and_pools_nothing_is_transposed() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let y = build.op("GlobalAveragePool", &[x], &[]);
    assert_eq!(ops(&laid_out(build, y)), ["GlobalAveragePool"]);
}

#[test]
fn a_pooled_vector_needs_no_transpose() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let a = conv(&mut build, x, 1);
    let pooled = build.op("GlobalAveragePool", &[a], &[]);
    let y = build.op("Flatten", &[pooled], &[]);
    let graph = laid_out(build, y);
    assert_eq!(
        ops(&graph),
        ["Transpose", "Conv+channels_last", "GlobalAveragePool+channels_last", "Reshape", "Flatten"]
    );
}

#[test]
fn an_image_of_one_channel_needs_no_transpose() {
    let (mut build, x) = with_x(&[-2, 1, 32, -4]);
    let w = floats(&mut build, &[4, 1, 3, 3]);
    let a = build.op("Conv", &[x, w], &[]);
    let y = build.op("ReduceMean", &[a], &[("axes", [2, 3].into()), ("keepdims", 0.into())]);
    let graph = laid_out(build, y);
    assert_eq!(ops(&graph), ["Reshape", "Conv+channels_last", "ReduceMean"]);
    assert_eq!(graph.nodes[2].ints("axes"), Some(&[1, 2][..]));
}

#[test]
fn axes_pads_and_channel_constants_are_permuted() {
    type Make = fn(&mut GraphBuilder, ValueId) -> ValueId;
    type IsPermuted = fn(&Graph, &NodeDesc) -> bool;
    let cases: [(&str, Make, IsPermuted); 7] = [
        ("Concat", |b, x| b.op("Concat", &[x, x], &[("axis", 1.into())]), |_, n| n.attributes().int("axis") == 3),
        ("Softmax", |b, x| b.op("Softmax", &[x], &[("axis", (-1).into())]), |_, n| n.attributes().int("axis") == 2),
        ("ReduceMax", |b, x| b.op("ReduceMax", &[x], &[("axes", [1].into())]), |_, n| n.ints("axes") == Some(&[3])),
        (
            "Pad",
            |b, x| {
                let p = ints(b, &[0, 1, 2, 3, 4, 5, 6, 7]);
                b.op("Pad", &[x, p], &[])
            },
            |g, n| g.constant_input(n, 1).unwrap().as_slice::<i64>().unwrap() == [0, 2, 3, 1, 4, 6, 7, 5],
        ),
        (
            "Slice",
            |b, x| {
                let (s, e, a) = (ints(b, &[0]), ints(b, &[2]), ints(b, &[1]));
                b.op("Slice", &[x, s, e, a], &[])
            },
            |g, n| g.constant_input(n, 3).unwrap().as_slice::<i64>().unwrap() == [3],
        ),
        (
            "Mul",
            |b, x| {
                let c = floats(b, &[4, 1, 1]);
                b.op("Mul", &[c, x], &[])
            },
            |g, n| g.constant_input(n, 0).unwrap().shape() == [1, 1, 1, 4],
        ),
        (
            "PRelu",
            |b, x| {
                let c = floats(b, &[4, 1, 1]);
                b.op("PRelu", &[x, c], &[])
            },
            |g, n| g.constant_input(n, 1).unwrap().shape() == [1, 1, 1, 4],
        ),
    ];
    for (op, make, is_permuted) in cases {
        let (mut build, x) = with_x(&[-2, 4, -3, -4]);
        let a = conv(&mut build, x, 1);
        let b = make(&mut build, a);
        let w = floats(
            &mut build,
            &[
                4,
                if op == "Concat" {
                    8
                } else if op == "Slice" {
                    2
                } else if op == "ReduceMax" {
                    1
                } else if op == "Pad" {
                    10
                } else {
                    4
                },
                1,
                1,
            ],
        );
        let y = build.op("Conv", &[b, w], &[]);
        let graph = laid_out(build, y);
        assert_eq!(transposes(&graph), 2, "{op}: {:?}", ops(&graph));
        let node = graph.nodes.iter().find(|node| node.op == op).expect(op);
        assert!(is_permuted(&graph, node), "{op}: {:?}", node.attrs);
    }
}

#[test]
fn operators_of_onnx_order_get_it_once() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let a = conv(&mut build, x, 1);
    let two = ints(&mut build, &[1, 1, 2, 2]);
    let [b, c] = [(); 2].map(|()| build.op("Tile", &[a, two], &[]));
    let y = build.op("MatMul", &[b, c], &[]);
    let graph = laid_out(build, y);
    assert_eq!(ops(&graph), ["Transpose", "Conv+channels_last", "Transpose", "Tile", "MatMul"]);
}

#[test]
fn a_value_that_is_read_in_both_orders_is_transposed_once_each_way() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let [a, b] = [1, 3].map(|kernel| conv(&mut build, x, kernel));
    let y = build.op("Add", &[a, b], &[]);
    let graph = laid_out(build, y);
    assert_eq!(ops(&graph), ["Transpose", "Conv+channels_last", "Conv+channels_last", "Add", "Transpose"]);
}

#[test]
fn the_shape_is_that_of_onnx_order() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let a = conv(&mut build, x, 1);
    let y = build.op("Shape", &[a], &[("start", 1.into())]);
    let graph = laid_out(build, y);
    assert_eq!(ops(&graph), ["Transpose", "Conv+channels_last", "Shape", "Gather"]);
    assert_eq!(graph.constant_input(&graph.nodes[3], 1).unwrap().as_slice::<i64>().unwrap(), [3, 1, 2]);
}

#[test]
fn features_become_a_sequence_with_one_transpose() {
    // [batch, channels, 1, width] to [width, batch, channels], as text recognisers do.
    let (mut build, x) = with_x(&[-2, 4, 1, -4]);
    let a = conv(&mut build, x, 1);
    let axes = ints(&mut build, &[2]);
    let b = build.op("Squeeze", &[a, axes], &[]);
    let y = build.op("Transpose", &[b], &[("perm", [2, 0, 1].into())]);
    let graph = laid_out(build, y);
    assert_eq!(ops(&graph), ["Transpose", "Conv+channels_last", "Squeeze", "Transpose"]);
    assert_eq!(graph.nodes[3].ints("perm"), Some(&[1, 0, 2][..]));
}

#[test]
fn patches_become_rows_without_a_transpose() {
    // [batch, channels, 2, 3] to [batch, 6, channels], as vision transformers do, and back.
    let (mut build, x) = with_x(&[-2, 4, 2, 3]);
    let a = conv(&mut build, x, 1);
    let target = ints(&mut build, &[0, 4, -1]);
    let b = build.op("Reshape", &[a, target], &[]);
    let rows = build.op("Transpose", &[b], &[("perm", [0, 2, 1].into())]);
    let soft = build.op("LayerNormalization", &[rows, rows], &[]);
    let back = build.op("Transpose", &[soft], &[("perm", [0, 2, 1].into())]);
    let target = ints(&mut build, &[0, 4, 2, 3]);
    let image = build.op("Reshape", &[back, target], &[]);
    let b = conv(&mut build, image, 1);
    let y = build.op("ReduceMean", &[b], &[("axes", [2, 3].into()), ("keepdims", 0.into())]);
    let graph = laid_out(build, y);
    let expected = [
        "Transpose",
        "Conv+channels_last",
        "Reshape",
        "LayerNormalization",
        "Reshape",
        "Conv+channels_last",
        "ReduceMean",
    ];
    assert_eq!(ops(&graph), expected);
}

#[test]
fn places_of_maxima_are_counted_in_onnx_order() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let pooled = build.op_many("MaxPool", &[Some(x)], 2, &[("kernel_shape", [2, 2].into())]);
    build.output("places", pooled[1]);
    assert_eq!(ops(&laid_out(build, pooled[0])), ["MaxPool"]);
}

#[test]
fn a_rank_that_is_not_known_stays_in_onnx_order() {
    let mut build = GraphBuilder::new("g", 17);
    let x = input(&mut build, "x", &[-2, 4, -3, -4]);
    let shape = build.input("shape", DType::I64, [Dim::Any]);
    let unknown = build.op("Reshape", &[x, shape], &[]);
    let y = build.op("MaxPool", &[unknown], &[("kernel_shape", [2, 2].into())]);
    assert_eq!(ops(&laid_out(build, y)), ["Reshape", "MaxPool"]);
}
