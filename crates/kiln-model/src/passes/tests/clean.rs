//! Captures, folding, no-ops, reshapes, transposes, equal nodes, dead nodes.

use super::*;

#[test]
fn nodes_that_hand_on_their_input_go() {
    type Make = fn(&mut GraphBuilder, ValueId) -> ValueId;
    let cases: [(&str, Make); 13] = [
        ("Identity", |b, x| b.op("Identity", &[x], &[])),
        ("Dropout", |b, x| b.op("Dropout", &[x], &[])),
        ("a cast to the same type", |b, x| b.op("Cast", &[x], &[("to", 1.into())])),
        ("a cast to its own type", |b, x| b.op("CastLike", &[x, x], &[])),
        ("Concat of one", |b, x| b.op("Concat", &[x], &[("axis", 0.into())])),
        ("Sum of one", |b, x| b.op("Sum", &[x], &[])),
        ("a transpose that moves nothing", |b, x| b.op("Transpose", &[x], &[("perm", [0, 1, 2].into())])),
        ("padding by nothing", |b, x| {
            let pads = ints(b, &[0; 6]);
            b.op("Pad", &[x, pads], &[])
        }),
        ("a reshape to the same sizes", |b, x| {
            let target = ints(b, &[0, 3, -1]);
            b.op("Reshape", &[x, target], &[])
        }),
        ("a slice of everything", |b, x| {
            let (start, end) = (ints(b, &[0]), ints(b, &[i64::MAX]));
            b.op("Slice", &[x, start, end], &[])
        }),
        ("expansion to the same sizes", |b, x| {
            let shape = b.op("Shape", &[x], &[]);
            b.op("Expand", &[x, shape], &[])
        }),
        ("tiling once", |b, x| {
            let repeats = ints(b, &[1, 1, 1]);
            b.op("Tile", &[x, repeats], &[])
        }),
        ("two transposes that undo each other", |b, x| {
            let transposed = b.op("Transpose", &[x], &[("perm", [2, 0, 1].into())]);
            b.op("Transpose", &[transposed], &[("perm", [1, 2, 0].into())])
        }),
    ];
    for (case, make) in cases {
        let (mut build, x) = with_x(&[-2, 3, 4]);
        let before = build.op("Relu", &[x], &[]);
        let same = make(&mut build, before);
        let y = build.op("Softmax", &[same], &[]);
        assert_eq!(ops(&optimised(build, y)), ["Relu", "Softmax"], "{case}");
    }
}

#[test]
fn nodes_that_only_look_like_no_ops_stay() {
    type Make = fn(&mut GraphBuilder, ValueId) -> ValueId;
    let cases: [(&str, Make); 6] = [
        ("Cast", |b, x| b.op("Cast", &[x], &[("to", 10.into())])),
        ("CastLike", |b, x| {
            let whole = ints(b, &[0]);
            b.op("CastLike", &[x, whole], &[])
        }),
        ("Transpose", |b, x| b.op("Transpose", &[x], &[])),
        ("Pad", |b, x| {
            let pads = ints(b, &[0, 0, 0, 0, 0, 1]);
            b.op("Pad", &[x, pads], &[])
        }),
        ("Slice", |b, x| {
            let (start, end, axes, steps) = (ints(b, &[-1]), ints(b, &[i64::MIN]), ints(b, &[2]), ints(b, &[-1]));
            b.op("Slice", &[x, start, end, axes, steps], &[])
        }),
        ("Dropout", |b, x| {
            let mut outputs = b.op_many("Dropout", &[Some(x)], 2, &[]);
            b.output("mask", outputs[1]);
            outputs.remove(0)
        }),
    ];
    for (op, make) in cases {
        let (mut build, x) = with_x(&[-2, 3, 4]);
        let before = build.op("Relu", &[x], &[]);
        let other = make(&mut build, before);
        let y = build.op("Softmax", &[other], &[]);
        assert!(ops(&rewritten_by(build, y, &["identity"])).contains(&op.to_owned()), "{op}");
    }
}

#[test]
fn an_output_keeps_its_name_and_an_identity_of_an_input_its_node() {
    let (mut build, x) = with_x(&[2]);
    let relu = build.op("Relu", &[x], &[]);
    let y = build.op("Identity", &[relu], &[]);
    assert_eq!(ops(&optimised(build, y)), ["Relu"]);

    let (mut build, x) = with_x(&[2]);
    let y = build.op("Identity", &[x], &[]);
    assert_eq!(ops(&optimised(build, y)), ["Identity"]);

    let (mut build, x) = with_x(&[2]);
    let relu = build.op("Relu", &[x], &[]);
    build.output("z", relu);
    let y = build.op("Identity", &[relu], &[]);
    assert_eq!(ops(&optimised(build, y)), ["Relu", "Identity"]);
}

/// An evaluator that adds, and counts its calls.
fn adding(node: &NodeDesc, inputs: &[Option<Tensor>]) -> Option<Vec<Tensor>> {
    if node.op != "Add" {
        return None;
    }
    let sides: Vec<&[f32]> = inputs.iter().map(|input| input.as_ref()?.as_slice().ok()).collect::<Option<_>>()?;
    let sums: Vec<f32> = sides[0].iter().zip(sides[1]).map(|(a, b)| a + b).collect();
    Some(vec![Tensor::from_vec(inputs[0].as_ref()?.shape().to_vec(), sums).ok()?])
}

#[test]
fn constant_nodes_are_computed_once() {
    let (mut build, x) = with_x(&[3]);
    let (a, b) = (floats(&mut build, &[3]), floats(&mut build, &[3]));
    let sum = build.op("Add", &[a, b], &[]);
    let twice = build.op("Add", &[sum, sum], &[]);
    let y = build.op("Mul", &[x, twice], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    let report = optimise_until(None, &mut graph, &PassOptions::default(), &|_, node, inputs| adding(node, inputs));
    assert_eq!(ops(&graph), ["Mul"]);
    assert_eq!(graph.constant_input(&graph.nodes[0], 1).unwrap().as_slice::<f32>().unwrap(), [2.0, 6.0, 10.0]);
    assert_eq!((report.changes("fold"), graph.constants.len()), (2, 1));
}

#[test]
fn sizes_of_fixed_dimensions_are_constants_though_the_tensor_is_not() {
    let (mut build, x) = with_x(&[-2, 3, 4]);
    let shape = build.op("Shape", &[x], &[]);
    let index = build.constant(Tensor::scalar(2i64));
    let last = build.op("Gather", &[shape, index], &[]);
    let axes = ints(&mut build, &[0]);
    let last = build.op("Unsqueeze", &[last, axes], &[]);
    let zeros = build.op("ConstantOfShape", &[last], &[]);
    let y = build.op("Mul", &[x, zeros], &[]);
    let graph = rewritten_by(build, y, &["fold", "dead"]);
    assert_eq!(ops(&graph), ["ConstantOfShape", "Mul"]);
    assert_eq!(graph.constant_input(&graph.nodes[0], 0).unwrap().as_slice::<i64>().unwrap(), [4]);
}

#[test]
fn nothing_large_random_or_unbounded_is_folded() {
    type Make = fn(&mut GraphBuilder) -> ValueId;
    let cases: [(&str, Make); 5] = [
        ("a tensor above the limit", |b| {
            let shape = ints(b, &[1 << 12, 1 << 13]);
            b.op("ConstantOfShape", &[shape], &[])
        }),
        ("a tensor above every limit", |b| {
            let shape = ints(b, &[i64::MAX, i64::MAX]);
            b.op("ConstantOfShape", &[shape], &[])
        }),
        ("an expansion of a unknown result", |b| {
            let (x, shape) = (floats(b, &[1]), ints(b, &[2; 3]));
            let target = b.op("NonZero", &[shape], &[]);
            b.op("Expand", &[x, target], &[])
        }),
        ("random numbers", |b| b.op("RandomNormal", &[], &[("shape", [2, 2].into())])),
        ("a negative size", |b| {
            let shape = ints(b, &[-1]);
            b.op("ConstantOfShape", &[shape], &[])
        }),
    ];
    for (case, make) in cases {
        let (mut build, x) = with_x(&[1]);
        let other = make(&mut build);
        let y = build.op("Mul", &[x, other], &[]);
        build.output("y", y);
        let mut graph = build.finish();
        let asked = std::cell::RefCell::new(Vec::new());
        optimise_until(None, &mut graph, &PassOptions::default(), &|_, node, _| {
            asked.borrow_mut().push(node.op.clone());
            None
        });
        assert!(asked.borrow().iter().all(|op| op == "NonZero"), "{case}: {asked:?} was evaluated");
    }
}

#[test]
fn an_expanded_constant_stays_small() {
    let (mut build, x) = with_x(&[1]);
    let (one, shape) = (floats(&mut build, &[1]), ints(&mut build, &[1 << 20]));
    let large = build.op("Expand", &[one, shape], &[]);
    let y = build.op("Mul", &[x, large], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    let full = Tensor::from_vec([1 << 20], vec![0.5f32; 1 << 20]).unwrap();
    optimise_until(None, &mut graph, &PassOptions::default(), &|_, _, _| Some(vec![full.clone()]));
    assert_eq!(ops(&graph), ["Expand", "Mul"]);
}

#[test]
fn targets_of_reshapes_become_constants_and_their_arithmetic_dies() {
    // As exporters split heads: [batch, steps, 12] to [batch, steps, 3, 4].
    let (mut build, x) = with_x(&[-2, -3, 12]);
    let mut sizes = Vec::new();
    for axis in 0..2 {
        let shape = build.op("Shape", &[x], &[]);
        let index = build.constant(Tensor::scalar(axis));
        let size = build.op("Gather", &[shape, index], &[]);
        let axes = ints(&mut build, &[0]);
        sizes.push(build.op("Unsqueeze", &[size, axes], &[]));
    }
    sizes.extend([ints(&mut build, &[3]), ints(&mut build, &[4])]);
    let target = build.op("Concat", &sizes, &[("axis", 0.into())]);
    let split = build.op("Reshape", &[x, target], &[]);
    let y = build.op("Softmax", &[split], &[]);
    let graph = optimised(build, y);
    assert_eq!(ops(&graph), ["Reshape", "Softmax"]);
    assert_eq!(graph.constant_input(&graph.nodes[0], 1).unwrap().as_slice::<i64>().unwrap(), [0, 0, 3, 4]);
}

#[test]
fn reshapes_of_reshapes_are_one() {
    let (mut build, x) = with_x(&[-2, 3, 4]);
    let flat = build.op("Flatten", &[x], &[]);
    let target = ints(&mut build, &[-1, 2, 2]);
    let y = build.op("Reshape", &[flat, target], &[]);
    assert_eq!(ops(&optimised(build, y)), ["Reshape"]);

    // A 0 is the size of the view in between, which is not the source's.
    let (mut build, x) = with_x(&[-2, 3, 4]);
    let target = ints(&mut build, &[-1, 2]);
    let pairs = build.op("Reshape", &[x, target], &[]);
    let target = ints(&mut build, &[0, 2, 1]);
    let y = build.op("Reshape", &[pairs, target], &[]);
    assert_eq!(ops(&optimised(build, y)), ["Reshape", "Reshape"]);
}

#[test]
fn equal_nodes_are_one_though_their_constants_are_two() {
    let (mut build, x) = with_x(&[-2, -3]);
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let shape = build.op("Shape", &[x], &[]);
        let index = build.constant(Tensor::scalar(0i64));
        sizes.push(build.op("Gather", &[shape, index], &[]));
    }
    let y = build.op("Mul", &sizes, &[]);
    assert_eq!(ops(&optimised(build, y)), ["Shape", "Gather", "Mul"]);
}

#[test]
fn nodes_that_differ_stay_two() {
    type Make = fn(&mut GraphBuilder, ValueId) -> [ValueId; 2];
    let cases: [(&str, Make); 3] = [
        ("attributes", |b, x| [1, 2].map(|axis: i64| b.op("Softmax", &[x], &[("axis", axis.into())]))),
        ("contents of constants", |b, x| {
            [0.25, 0.75].map(|value| {
                let value = scalar(b, value);
                b.op("Pow", &[x, value], &[])
            })
        }),
        ("chance", |b, x| [(), ()].map(|()| b.op("RandomNormalLike", &[x], &[]))),
    ];
    for (case, make) in cases {
        let (mut build, x) = with_x(&[2, 3, 4]);
        let pair = make(&mut build, x);
        let y = build.op("MatMul", &pair, &[]);
        assert_eq!(ops(&rewritten_by(build, y, &["cse"])).len(), 3, "{case}");
    }
}

#[test]
fn what_is_not_read_goes() {
    let (mut build, x) = with_x(&[1, 3, 8, 8]);
    let unread = build.op("Relu", &[x], &[]);
    build.op("Abs", &[unread], &[]);
    let pooled = build.op_many("MaxPool", &[Some(x)], 2, &[("kernel_shape", [2, 2].into())]);
    floats(&mut build, &[5]);
    let graph = rewritten_by(build, pooled[0], &["dead"]);
    assert_eq!(ops(&graph), ["MaxPool"]);
    assert_eq!((graph.nodes[0].output(1), graph.constants.len()), (None, 0));
}

#[test]
fn constants_go_into_bodies() {
    let (mut build, x) = with_x(&[2]);
    let k = floats(&mut build, &[2]);
    let body = {
        let (mut body, own) = with_x(&[2]);
        let handed = input(&mut body, "k", &[2]);
        let sum = body.op("Add", &[own, handed], &[]);
        body.output("r", sum);
        body.finish()
    };
    let outputs = build.op_with_bodies(
        "If",
        &[Some(x)],
        &[x, k],
        1,
        &[("then_branch", body.clone().into()), ("else_branch", body.into())],
    );
    let graph = rewritten_by(build, outputs[0], &["captures"]);
    assert_eq!((graph.nodes[0].inputs.len(), graph.nodes[0].captures()), (2, 1));
    for name in ["then_branch", "else_branch"] {
        let Some(Attr::Graph(body)) = graph.nodes[0].attrs.get(name) else { panic!("a body") };
        assert_eq!((body.inputs.len(), body.constants.len()), (1, 1));
    }
}

#[test]
fn a_gather_comes_before_the_transposition_of_a_constant_and_of_nothing_else() {
    let gathered = |constant: bool| {
        let (mut build, x) = with_x(&[4, 6]);
        let table = if constant { floats(&mut build, &[4, 6]) } else { build.op("Relu", &[x], &[]) };
        let transposed = build.op("Transpose", &[table], &[]);
        let rows = ints(&mut build, &[5, 0]);
        let y = build.op("Gather", &[transposed, rows], &[]);
        ops(&rewritten_by(build, y, &["gather", "dead"]))
    };
    assert_eq!(gathered(true), ["Gather", "Transpose"]);
    assert_eq!(gathered(false), ["Relu", "Transpose", "Gather"]);
}
