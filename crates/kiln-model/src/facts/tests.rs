//! Sizes that facts prove equal, and sizes that they do not.

use kiln_tensor::Tensor;

use super::*;
use crate::GraphBuilder;
use crate::ir::Attr;

fn known(size: i64) -> Size {
    Size::Known(size)
}

#[test]
fn equal_computations_are_equal_sizes() {
    let mut sizes = Sizes::default();
    let (n, m) = (sizes.named("n"), sizes.named("m"));
    assert_eq!(n, sizes.named("n"));
    assert_ne!(n, m);
    assert_ne!(sizes.fresh(), sizes.fresh());
    let sum = sizes.add(n, m);
    assert_eq!(sum, sizes.add(m, n));
    assert_eq!(sizes.sub(sum, m), n);
    let more = sizes.add(n, known(3));
    assert_eq!((sizes.sub(more, n), sizes.sub(more, known(3))), (known(3), n));
    let product = sizes.mul(n, known(12));
    assert_eq!((sizes.div(product, known(4)), sizes.div(product, n)), (sizes.mul(n, known(3)), known(12)));
}

#[test]
fn the_rest_of_a_reshape_cancels() {
    let mut sizes = Sizes::default();
    let (n, s) = (sizes.named("n"), sizes.named("s"));
    let rows = sizes.mul(n, s);
    let cases: [(&[Size], &[Size], Size); 5] = [
        (&[n, s, known(12)], &[n, s, known(4)], known(3)),
        (&[n, s, known(12)], &[known(12)], rows),
        (&[rows, known(12)], &[n, known(12)], s),
        (&[n, known(12), s], &[n, known(4), s], known(3)),
        (&[known(6), known(4)], &[known(8)], known(3)),
    ];
    for (of, by, expected) in cases {
        assert_eq!(sizes.ratio(of, by), expected, "{of:?} / {by:?}");
    }
}

#[test]
fn as_many_from_the_front_as_another_size_broadcast_to_that() {
    let mut sizes = Sizes::default();
    let [length, other] = ["s", "t"].map(|name| sizes.named(name));
    let front = sizes.front(length, known(512));
    assert_eq!(sizes.front(length, known(512)), front);
    assert_eq!([sizes.broadcast(front, length), sizes.broadcast(length, front)], [length; 2]);
    assert_ne!(sizes.broadcast(front, other), other, "as many as something else");
    let none = sizes.front(length, known(0));
    assert_ne!(sizes.broadcast(none, length), length, "a length of 1 becomes 0");
    let named = |size: i64| move |_: &str| Some(size);
    assert_eq!([3, 512, 900].map(|size| sizes.value(front, &named(size))), [Some(3), Some(512), Some(512)]);
    assert_eq!([-2, 0, 5].map(|end| sizes.front(known(end), known(4))), [known(2), known(0), known(4)]);
}

#[test]
fn sizes_that_exporters_hold_against_minus_one_are_followed() {
    let mut build = GraphBuilder::new("types", 17);
    let ids = build.input("ids", DType::I64, ["n".into(), Dim::Any]);
    let table = build.input("table", DType::F32, [2.into(), 8.into()]);
    let [zero, none, ones] = [(1, 0), (2, -1), (2, 1)].map(|(count, value)| build.constant(ints(&vec![value; count])));
    let shape = build.op("Shape", &[ids], &[]);
    let is_open = build.op("Equal", &[shape, none], &[]);
    let target = build.op("Where", &[is_open, ones, shape], &[]);
    let types = build.op("Expand", &[zero, target], &[]);
    let rows = build.op("Gather", &[table, types], &[]);
    let less = build.op("Sub", &[shape, ones], &[]);
    let may_be = build.op("Equal", &[less, none], &[]);
    build.output("y", rows);
    build.output("z", may_be);
    let facts = Facts::of(&build.finish(), true);
    let ids = facts.dims(ids).unwrap();
    assert_eq!(facts.dims(rows).unwrap(), [ids[0], ids[1], known(8)]);
    assert_eq!(facts.get(may_be).elements, None, "a length of 0 would be");
}

#[test]
fn ranges_from_a_size_to_the_same_size_and_more_have_known_lengths() {
    let mut build = GraphBuilder::new("positions", 17);
    let past = build.input("past", DType::F32, ["n".into(), 2.into()]);
    let number = |build: &mut GraphBuilder, value: i64| build.constant(Tensor::scalar(value));
    let [zero, one, two, three] = [0, 1, 2, 3].map(|value| number(&mut build, value));
    let shape = build.op("Shape", &[past], &[]);
    let length = build.op("Gather", &[shape, zero], &[]);
    let longer = build.op("Add", &[length, three], &[]);
    let ranges = [[length, longer, one], [longer, length, one], [length, longer, two], [zero, longer, one]];
    let ranges = ranges.map(|bounds| build.op("Range", &bounds, &[]));
    ranges.iter().zip(["a", "b", "c", "d"]).for_each(|(&range, name)| build.output(name, range));
    let facts = Facts::of(&build.finish(), true);
    let lengths = ranges.map(|range| facts.dims(range).unwrap()[0].known());
    assert_eq!(lengths, [Some(3), Some(0), None, None]);
}

#[test]
fn what_overflows_is_not_known() {
    let mut sizes = Sizes::default();
    for size in [
        sizes.mul(known(i64::MAX), known(2)),
        sizes.add(known(i64::MAX), known(1)),
        sizes.sub(known(i64::MIN), known(1)),
    ] {
        assert_eq!(size.known(), None);
    }
    assert_eq!(sizes.div(known(1), known(0)).known(), None);
    assert_eq!(sizes.ratio(&[known(i64::MAX), known(3)], &[known(5)]).known(), None);
}

/// The output dimensions of a node on an input `[n, 4, h, 10]`, as text: numbers, `n`, `h`, or `?` for any other
/// symbol.
fn dims_of(op: &str, extra: &[Tensor], attrs: &[(&str, Attr)]) -> Option<Vec<String>> {
    let mut build = GraphBuilder::new("g", 17);
    let x = build.input("x", DType::F32, ["n".into(), 4.into(), "h".into(), 10.into()]);
    let mut inputs = vec![x];
    inputs.extend(extra.iter().map(|tensor| build.constant(tensor.clone())));
    let y = build.op(op, &inputs, attrs);
    build.output("y", y);
    let graph = build.finish();
    let facts = Facts::of(&graph, true);
    let (n, h) = (facts.dims(x)?[0], facts.dims(x)?[2]);
    let text = |size: &Size| match *size {
        Size::Known(size) => size.to_string(),
        size if size == n => "n".to_owned(),
        size if size == h => "h".to_owned(),
        Size::Symbol { .. } => "?".to_owned(),
    };
    facts.dims(y).map(|dims| dims.iter().map(text).collect())
}

/// Operator, constant inputs, attributes.
type Case<'a> = (&'a str, Vec<Tensor>, Vec<(&'a str, Attr)>);

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_vec([values.len()], values.to_vec()).unwrap()
}

fn weights(shape: [usize; 4]) -> Tensor {
    Tensor::zeros(kiln_tensor::TensorSpec::new(DType::F32, shape)).unwrap()
}

#[test]
fn operators_make_the_sizes_that_onnx_says() {
    let same: Attr = [1, 1, 1, 1].into();
    let twos: Attr = [2, 2].into();
    let kernel = ("kernel_shape", Attr::from([2, 2]));
    let cases: Vec<(Case<'_>, &[&str])> = vec![
        (("Relu", vec![], vec![]), &["n", "4", "h", "10"]),
        (("Conv", vec![weights([8, 4, 3, 3])], vec![("pads", same.clone())]), &["n", "8", "h", "10"]),
        (("Conv", vec![weights([8, 4, 3, 3])], vec![("pads", same), ("strides", twos.clone())]), &["n", "8", "?", "5"]),
        (("Conv", vec![weights([8, 4, 3, 3])], vec![("auto_pad", "SAME_UPPER".into())]), &["n", "8", "h", "10"]),
        (("ConvTranspose", vec![weights([4, 6, 2, 2])], vec![("strides", twos.clone())]), &["n", "6", "?", "20"]),
        (("MaxPool", vec![], vec![kernel.clone(), ("strides", twos)]), &["n", "4", "?", "5"]),
        (("AveragePool", vec![], vec![kernel, ("ceil_mode", 1.into())]), &["n", "4", "?", "9"]),
        (("GlobalMaxPool", vec![], vec![]), &["n", "4", "1", "1"]),
        (("Transpose", vec![], vec![("perm", [2, 0, 3, 1].into())]), &["h", "n", "10", "4"]),
        (("Transpose", vec![], vec![]), &["10", "h", "4", "n"]),
        (("Flatten", vec![], vec![("axis", 3.into())]), &["?", "10"]),
        (("Reshape", vec![ints(&[0, 0, 0, 2, -1])], vec![]), &["n", "4", "h", "2", "5"]),
        (("Reshape", vec![ints(&[-1, 40])], vec![]), &["?", "40"]),
        (("Unsqueeze", vec![ints(&[-1, 0])], vec![]), &["1", "n", "4", "h", "10", "1"]),
        (("Concat", vec![weights([1, 4, 1, 5])], vec![("axis", 3.into())]), &["n", "4", "h", "15"]),
        (("Gather", vec![ints(&[0, 1])], vec![("axis", 2.into())]), &["n", "4", "2", "10"]),
        (("ReduceSum", vec![ints(&[1, -1])], vec![]), &["n", "1", "h", "1"]),
        (("ReduceSum", vec![ints(&[1, -1])], vec![("keepdims", 0.into())]), &["n", "h"]),
        (("Slice", vec![ints(&[1]), ints(&[-1]), ints(&[3])], vec![]), &["n", "4", "h", "8"]),
        (("Pad", vec![ints(&[0, 0, 0, 1, 0, 0, 0, 2])], vec![]), &["n", "4", "h", "13"]),
        (("Expand", vec![ints(&[3, 1, 1, 1, 10])], vec![]), &["3", "n", "4", "h", "10"]),
        (("Tile", vec![ints(&[1, 2, 1, 3])], vec![]), &["n", "8", "h", "30"]),
        (("MatMul", vec![weights([1, 1, 10, 7])], vec![]), &["n", "4", "h", "7"]),
        (("SpaceToDepth", vec![], vec![("blocksize", 2.into())]), &["n", "16", "?", "5"]),
    ];
    for ((op, extra, attrs), expected) in cases {
        let dims = dims_of(op, &extra, &attrs).unwrap_or_default();
        assert_eq!(dims, expected, "{op} {attrs:?}");
    }
}

#[test]
fn what_a_model_gets_wrong_is_not_known() {
    let cases: Vec<Case<'_>> = vec![
        ("Conv", vec![weights([8, 4, 3, 3])], vec![("strides", [0, 1].into())]),
        ("Conv", vec![weights([8, 4, 3, 3])], vec![("pads", [1].into())]),
        ("Conv", vec![weights([8, 4, 3, 3])], vec![("pads", [i64::MAX; 4].into())]),
        ("Conv", vec![Tensor::scalar(1.0f32)], vec![]),
        ("Transpose", vec![], vec![("perm", [0, 1, 2, 9].into())]),
        ("Transpose", vec![], vec![("perm", [0, 1].into())]),
        ("Gather", vec![ints(&[0])], vec![("axis", i64::MIN.into())]),
        ("Unsqueeze", vec![ints(&[99])], vec![]),
        ("Reshape", vec![ints(&[-2, 4])], vec![]),
        ("Reshape", vec![ints(&[1, 1, 1, 1, 0])], vec![]),
        ("Pad", vec![ints(&[1, 2])], vec![]),
        ("Concat", vec![ints(&[1])], vec![("axis", 1.into())]),
        ("AnOperatorOfTheFuture", vec![], vec![]),
    ];
    for (op, extra, attrs) in cases {
        assert_eq!(dims_of(op, &extra, &attrs), None, "{op} {attrs:?}");
    }
}

#[test]
fn inputs_of_bodies_have_no_sizes() {
    let mut build = GraphBuilder::new("body", 17);
    let x = build.input("x", DType::F32, [3.into()]);
    build.output("y", x);
    let graph = build.finish();
    assert_eq!((Facts::of(&graph, true).rank(x), Facts::of(&graph, false).rank(x)), (Some(1), None));
    assert!(Facts::of(&graph, false).is(x, DType::F32));
}
