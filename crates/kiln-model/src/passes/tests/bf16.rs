//! Which values are stored as `bf16`, and the attributes of the nodes around them.

use kiln_kernels::cpu::Elements;

use super::*;

fn stored(build: GraphBuilder, y: ValueId) -> Graph {
    stored_for(build, y, Elements::Bf16Tiles)
}

fn stored_for(build: GraphBuilder, y: ValueId, elements: Elements) -> Graph {
    let passes = ["layout", "residual", "activation", "chain", "identity", "dead", "bf16"];
    let options = passes.iter().fold(PassOptions::none(), |options, pass| options.with(pass));
    rewritten(build, y, &options.with_elements(elements))
}

fn conv(build: &mut GraphBuilder, x: ValueId, [channels, filters, kernel]: [usize; 3]) -> ValueId {
    let w = floats(build, &[filters, channels, kernel, kernel]);
    build.op("Conv", &[x, w], &[("pads", [(kernel / 2) as i64; 4].into())])
}

/// The output type in the attribute of a node.
fn named(node: &NodeDesc) -> Option<DType> {
    match node.attrs.get("to") {
        Some(Attr::Int(number)) => DType::of_onnx(*number),
        _ => None,
    }
}

/// The output types in the attributes of convolutions, in order.
fn written(graph: &Graph) -> Vec<Option<DType>> {
    graph.nodes.iter().filter(|node| node.op.contains("Conv")).map(named).collect()
}

/// Checks that a value is marked as `bf16` exactly if its maker has the attribute, and the graph's inputs and outputs
/// never.
fn is_consistent(graph: &Graph) {
    for node in &graph.nodes {
        let made = node.output(0).and_then(|value| graph.value(value).dtype);
        assert!(made != Some(DType::BF16) || named(node) == made, "{}", node.op);
    }
    for value in graph.inputs.iter().chain(&graph.outputs) {
        assert_ne!(graph.value(*value).dtype, Some(DType::BF16));
    }
    let facts = Facts::of(graph, true);
    for node in graph.nodes.iter().filter(|node| node.attrs.contains_key("to")) {
        assert!(facts.is(node.output(0).unwrap(), named(node).unwrap()));
    }
}

const BF16: Option<DType> = Some(DType::BF16);
const F32: Option<DType> = Some(DType::F32);

#[test]
fn what_convolutions_hand_to_convolutions_is_stored_as_bf16() {
    let (mut build, x) = with_x(&[-2, 16, -3, -4]);
    let a = conv(&mut build, x, [16, 32, 3]);
    let b = build.op("Relu", &[a], &[]);
    let c = conv(&mut build, b, [32, 32, 1]);
    let d = conv(&mut build, c, [32, 16, 3]);
    let y = build.op("Sigmoid", &[d], &[]);
    let graph = stored(build, y);
    assert_eq!(written(&graph), [BF16, BF16, F32]);
    assert!(graph.nodes.iter().filter(|node| node.op.contains("Conv")).all(|node| node.domain == "kiln"));
    is_consistent(&graph);
}

#[test]
fn a_residual_is_stored_as_bf16_too() {
    let (mut build, x) = with_x(&[1, 16, 8, 8]);
    let a = conv(&mut build, x, [16, 16, 3]);
    let b = conv(&mut build, a, [16, 16, 3]);
    let sum = build.op("Add", &[b, a], &[]);
    let c = conv(&mut build, sum, [16, 16, 3]);
    let y = build.op("Abs", &[c], &[]);
    let graph = stored(build, y);
    assert_eq!(written(&graph), [BF16, BF16, F32]);
    is_consistent(&graph);
}

#[test]
fn a_value_that_anybody_reads_as_f32_stays_so() {
    let (mut build, x) = with_x(&[1, 16, 8, 8]);
    let a = conv(&mut build, x, [16, 16, 3]);
    let b = conv(&mut build, a, [16, 16, 3]);
    // A softmax reads what the second convolution reads, and the last one's output is the graph's.
    let soft = build.op("Softmax", &[a], &[("axis", 1.into())]);
    let sum = build.op("Mul", &[b, soft], &[]);
    let y = conv(&mut build, sum, [16, 16, 3]);
    let graph = stored(build, y);
    assert_eq!(written(&graph), [None, None, None]);
    is_consistent(&graph);
}

#[test]
fn a_lone_convolution_is_left_alone_and_so_is_one_off_the_unit() {
    let (mut build, x) = with_x(&[1, 16, 8, 8]);
    let y = conv(&mut build, x, [16, 16, 3]);
    assert_eq!(written(&stored(build, y)), [None]);
    // Too few channels for AMX, and weights that are not constant.
    let (mut build, x) = with_x(&[1, 4, 8, 8]);
    let a = conv(&mut build, x, [4, 16, 1]);
    let weights = input(&mut build, "w", &[16, 16, 1, 1]);
    let b = build.op("Conv", &[a, weights], &[]);
    let y = conv(&mut build, b, [16, 16, 1]);
    assert_eq!(written(&stored(build, y)), [None, None, None]);
}

#[test]
fn what_pools_joins_and_picks_hands_on_what_it_is_given() {
    let (mut build, x) = with_x(&[1, 16, 8, 8]);
    let a = conv(&mut build, x, [16, 16, 3]);
    let pooled = build.op("MaxPool", &[a], &[("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())]);
    let b = conv(&mut build, pooled, [16, 16, 3]);
    let none = build.constant(Tensor::from_vec([0], Vec::<f32>::new()).unwrap());
    let sizes = ints(&mut build, &[1, 16, 8, 8]);
    let large = build.op("Resize", &[b, none, none, sizes], &[("mode", "nearest".into())]);
    let joined = build.op("Concat", &[a, large], &[("axis", 1.into())]);
    let y = conv(&mut build, joined, [32, 16, 1]);
    let graph = stored(build, y);
    assert_eq!(written(&graph), [BF16, BF16, F32]);
    let in_bf16 = graph.values.iter().filter(|value| value.dtype == Some(DType::BF16)).count();
    assert_eq!(in_bf16, 5, "two convolutions, the pool, the picked and the joined");
}

#[test]
fn depthwise_convolutions_hand_on_bf16_between_others() {
    for elements in [Elements::Bf16Tiles, Elements::Bf16Dot] {
        let (mut build, x) = with_x(&[1, 16, 8, 8]);
        let each = |build: &mut GraphBuilder, x: ValueId| {
            let w = floats(build, &[32, 1, 3, 3]);
            build.op("Conv", &[x, w], &[("pads", [1; 4].into()), ("group", 32.into())])
        };
        let a = conv(&mut build, x, [16, 32, 1]);
        let b = each(&mut build, a);
        let c = conv(&mut build, b, [32, 32, 1]);
        // The next node needs `f32`, so this one's input stays `f32` too.
        let d = each(&mut build, c);
        let y = build.op("Softmax", &[d], &[("axis", 1.into())]);
        let graph = stored_for(build, y, elements);
        assert_eq!(written(&graph), [BF16, BF16, F32, None], "{elements:?}");
        is_consistent(&graph);
    }
}

#[test]
fn one_full_part_keeps_all_that_is_joined_with_it_full() {
    let (mut build, x) = with_x(&[1, 16, 8, 8]);
    let a = conv(&mut build, x, [16, 16, 3]);
    let b = conv(&mut build, a, [16, 16, 3]);
    let soft = build.op("Softmax", &[b], &[("axis", 1.into())]);
    let joined = build.op("Concat", &[b, soft], &[("axis", 1.into())]);
    let y = conv(&mut build, joined, [32, 16, 1]);
    assert_eq!(written(&stored(build, y)), [BF16, F32, None]);
}

#[test]
fn readers_of_a_shape_keep_no_value_from_bf16() {
    let (mut build, x) = with_x(&[1, 16, -3, 8]);
    let a = conv(&mut build, x, [16, 16, 3]);
    let shape = build.op("Shape", &[a], &[("start", 0.into()), ("end", 1.into())]);
    let b = conv(&mut build, a, [16, 16, 3]);
    let flat = build.op("Flatten", &[b], &[]);
    let y = build.op("Expand", &[flat, shape], &[]);
    let graph = stored(build, y);
    assert_eq!(written(&graph)[1], F32);
}

#[test]
fn other_elements_change_nothing() {
    let (mut build, x) = with_x(&[1, 16, 8, 8]);
    let a = conv(&mut build, x, [16, 16, 3]);
    let y = conv(&mut build, a, [16, 16, 3]);
    assert_eq!(written(&stored_for(build, y, Elements::Bf16)), [None, None]);
}

#[test]
fn convolutions_in_pairs_hand_bf16_to_each_other() {
    let (mut build, x) = with_x(&[1, 3, 8, 8]);
    // A convolution of an image multiplies `f32`, and its result is rounded.
    let first = conv(&mut build, x, [3, 16, 3]);
    let a = conv(&mut build, first, [16, 16, 3]);
    let sum = build.op("Add", &[a, first], &[]);
    // Nine channels are no pairs.
    let odd = conv(&mut build, sum, [16, 9, 1]);
    let last = conv(&mut build, odd, [9, 16, 1]);
    let flat = build.op("Flatten", &[last], &[]);
    let y = product(&mut build, flat, [16 * 64, 10]);
    let graph = stored_for(build, y, Elements::Bf16Dot);
    assert_eq!(written(&graph), [BF16, BF16, F32, None]);
    assert!(graph.nodes.iter().filter(|node| node.op.contains("MatMul")).all(|node| named(node).is_none()));
    is_consistent(&graph);
}

/// The output types in the attributes of all nodes, by operator.
fn all_written(graph: &Graph) -> Vec<(&str, Option<DType>)> {
    graph.nodes.iter().map(|node| (node.op.as_str(), named(node))).collect()
}

fn product(build: &mut GraphBuilder, x: ValueId, [rows, columns]: [usize; 2]) -> ValueId {
    let w = floats(build, &[rows, columns]);
    build.op("MatMul", &[x, w], &[])
}

#[test]
fn what_products_hand_to_products_is_stored_as_bf16() {
    let (mut build, x) = with_x(&[-2, -3, 16]);
    let a = product(&mut build, x, [16, 64]);
    let a = build.op("Relu", &[a], &[]);
    let b = product(&mut build, a, [64, 8]);
    let y = build.op("Softmax", &[b], &[]);
    let graph = stored(build, y);
    assert_eq!(all_written(&graph), [("FusedMatMul", BF16), ("FusedMatMul", F32), ("Softmax", None)]);
    is_consistent(&graph);
}

#[test]
fn a_normalisation_hands_bf16_to_products_and_to_their_residuals() {
    let (mut build, x) = with_x(&[-2, -3, 16]);
    let (scale, bias) = (floats(&mut build, &[16]), floats(&mut build, &[16]));
    let norm = build.op("LayerNormalization", &[x, scale, bias], &[]);
    let a = product(&mut build, norm, [16, 32]);
    let b = product(&mut build, a, [32, 16]);
    let sum = build.op("Add", &[b, norm], &[]);
    let y = build.op("LayerNormalization", &[sum, scale, bias], &[]);
    let graph = stored(build, y);
    // Sums that are normalised stay `f32`, and so does the result.
    let (norm, product) = ("LayerNormalization", "FusedMatMul");
    assert_eq!(all_written(&graph), [(norm, BF16), (product, BF16), (product, F32), (norm, None)]);
    is_consistent(&graph);
}

#[test]
fn who_multiplies_what_is_made_at_run_time_or_shows_moments_takes_f32() {
    let (mut build, x) = with_x(&[-2, 16, 16]);
    let a = product(&mut build, x, [16, 16]);
    let y = build.op("MatMul", &[x, a], &[]);
    assert_eq!(all_written(&stored(build, y)), [("MatMul", None), ("MatMul", None)]);
    let (mut build, x) = with_x(&[-2, 16]);
    let scale = floats(&mut build, &[16]);
    let outputs = build.op_many("LayerNormalization", &[Some(x), Some(scale)], 2, &[]);
    let a = product(&mut build, outputs[0], [16, 16]);
    let y = build.op("Add", &[a, outputs[1]], &[]);
    assert!(all_written(&stored(build, y)).iter().all(|(_, to)| to.is_none()));
}

#[test]
fn attention_takes_bf16_where_queries_keys_and_values_all_are() {
    for (full, of_attention) in [(false, BF16), (true, BF16)] {
        let (mut build, x) = with_x(&[-2, -3, 16]);
        let [query, key, value] = [0; 3].map(|_| product(&mut build, x, [16, 16]));
        // A KV cache keeps keys in `f32`, so queries and values stay `f32` too.
        let key = if full { build.op("Tanh", &[key], &[]) } else { key };
        let apart = |build: &mut GraphBuilder, layer: ValueId, perm: [i64; 4]| {
            let target = ints(build, &[0, 0, 4, 4]);
            let heads = build.op("Reshape", &[layer, target], &[]);
            build.op("Transpose", &[heads], &[("perm", perm.into())])
        };
        let query = apart(&mut build, query, [0, 2, 1, 3]);
        let key = apart(&mut build, key, [0, 2, 3, 1]);
        let value = apart(&mut build, value, [0, 2, 1, 3]);
        let scores = build.op("MatMul", &[query, key], &[]);
        let weights = build.op("Softmax", &[scores], &[("axis", (-1).into())]);
        let context = build.op("MatMul", &[weights, value], &[]);
        let behind = build.op("Transpose", &[context], &[("perm", [0, 2, 1, 3].into())]);
        let target = ints(&mut build, &[0, 0, 16]);
        let joined = build.op("Reshape", &[behind, target], &[]);
        let y = product(&mut build, joined, [16, 8]);
        let options = PassOptions::default().without("activation").with_elements(Elements::Bf16Tiles);
        let graph = rewritten(build, y, &options);
        let said: Vec<_> = graph.nodes.iter().filter(|node| node.domain == "kiln").map(named).collect();
        let attention = graph.nodes.iter().find(|node| node.is_fused("FusedAttention")).expect("attention");
        assert_eq!(named(attention), of_attention);
        let in_bf16 = said.iter().filter(|to| **to == BF16).count();
        assert_eq!(in_bf16, if full { 1 } else { 4 }, "{said:?}");
        is_consistent(&graph);
    }
}
