//! One node that fits into memory and computes for seconds to hours, from a few hundred bytes of file and one number of
//! the request. Only the time limit of a request ends these, in the middle of their single step.

use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, Dim};
use kiln_tensor::{DType, Tensor};

use crate::Case;

type Attrs = Vec<(&'static str, Attr)>;

/// Operator, number of outputs, the shapes of its operands, their type, attributes.
type Row = (&'static str, usize, Vec<Vec<i64>>, DType, Attrs);

fn square(side: i64) -> Vec<i64> {
    vec![1, 1, side, side]
}

fn window(side: i64) -> Attrs {
    vec![("kernel_shape", Attr::Ints(vec![side; 2])), ("pads", Attr::Ints(vec![side / 2; 4]))]
}

fn rows() -> Vec<Row> {
    let pads = |pad: i64| vec![("pads", Attr::Ints(vec![pad; 4]))];
    let with = |mut attrs: Attrs, name, value| {
        attrs.push((name, value));
        attrs
    };
    let heads = |positions: i64| vec![1, 2, positions, 16];
    vec![
        ("Conv", 1, vec![square(400), square(400)], DType::F32, pads(399)),
        ("Conv", 1, vec![vec![1, 64, 100, 100], vec![32, 64, 31, 31]], DType::F32, pads(15)),
        (
            "Conv",
            1,
            vec![vec![1, 16, 300, 300], vec![16, 1, 201, 201]],
            DType::F32,
            with(pads(100), "group", 16.into()),
        ),
        ("ConvTranspose", 1, vec![square(400), square(400)], DType::F32, vec![]),
        ("ConvInteger", 1, vec![square(500), square(500)], DType::U8, pads(499)),
        ("DeformConv", 1, vec![vec![1, 64, 32, 32], vec![64, 64, 9, 9], vec![1, 162, 24, 24]], DType::F64, vec![]),
        // A product of f64 that takes long has more elements (`tests/control/ending.rs`).
        ("MatMul", 1, vec![vec![800, 800]; 2], DType::I64, vec![]),
        ("MatMul", 1, vec![vec![1300, 1300]; 2], DType::I32, vec![]),
        ("MaxPool", 1, vec![square(1200)], DType::F32, window(1001)),
        ("MaxPool", 2, vec![square(900)], DType::F32, window(901)),
        ("MaxPool", 1, vec![square(1200)], DType::U8, window(1001)),
        (
            "AveragePool",
            1,
            vec![vec![1, 1, 1, 1_500_000]],
            DType::F32,
            with(vec![], "kernel_shape", Attr::Ints(vec![1, 700_000])),
        ),
        ("LpPool", 1, vec![square(1200)], DType::F32, with(window(1001), "p", 3.into())),
        ("LRN", 1, vec![vec![1, 4000, 20, 20]], DType::F32, vec![("size", 4001.into())]),
        (
            "RoiAlign",
            1,
            vec![square(100), vec![50, 4], vec![50]],
            DType::F32,
            vec![("sampling_ratio", 4096.into()), ("mode", "max".into())],
        ),
        ("Attention", 1, vec![heads(40_000); 3], DType::F32, vec![]),
        ("Attention", 1, vec![heads(40_000); 3], DType::F32, vec![("softcap", Attr::Float(2.0))]),
        ("CausalConvWithState", 1, vec![vec![1, 1, 300_000], vec![1, 1, 100_000]], DType::F32, vec![]),
    ]
}

/// Steps whose tensors reach the bound of memory before a fast processor computes for 50 ms.
pub(crate) fn short_cases() -> Vec<Case> {
    let rows: Vec<Row> = vec![
        (
            "LSTM",
            1,
            vec![vec![1500, 1, 1], vec![1, 2048, 1], vec![1, 2048, 512]],
            DType::F32,
            vec![("hidden_size", 512.into())],
        ),
        (
            "LinearAttention",
            1,
            vec![vec![1, 2000, 500]; 3],
            DType::F32,
            vec![("q_num_heads", 1.into()), ("kv_num_heads", 1.into()), ("update_rule", "linear".into())],
        ),
    ];
    rows.iter().map(case).collect()
}

fn case(row: &Row) -> Case {
    let (op, outputs, shapes, dtype, attrs) = row;
    let mut graph = GraphBuilder::new("g", 27);
    let one = graph.input("x", DType::F32, [Dim::Fixed(1)]);
    let mut operands: Vec<_> = shapes
        .iter()
        .map(|shape| {
            let shape = graph.constant(Tensor::from_slice([shape.len()], shape).unwrap());
            let wide = graph.op("Expand", &[one, shape], &[]);
            let cast = |number: i64| vec![("to", number.into())];
            Some(match dtype {
                DType::U8 => graph.op("Cast", &[wide], &cast(2)),
                DType::I32 => graph.op("Cast", &[wide], &cast(6)),
                DType::I64 => graph.op("Cast", &[wide], &cast(7)),
                DType::F64 => graph.op("Cast", &[wide], &cast(11)),
                _ => wide,
            })
        })
        .collect();
    if *op == "RoiAlign" {
        operands[2] = operands[2].map(|batches| graph.op("Cast", &[batches], &[("to", 7.into())]));
    }
    for (index, made) in graph.op_many(op, &operands, *outputs, attrs).into_iter().enumerate() {
        graph.output(&format!("y{index}"), made);
    }
    let name = format!("{op} of {shapes:?} {dtype}").chars().take(60).collect();
    // The request is zero: regions lie inside the images and belong to the first one.
    Case { name, graph: graph.finish(), inputs: vec![("x".to_owned(), Tensor::from_slice([1], &[0f32]).unwrap())] }
}

pub(crate) fn cases() -> Vec<Case> {
    let matrix = |op: &str| {
        let mut graph = GraphBuilder::new("g", 27);
        let one = graph.input("x", DType::F32, [Dim::Fixed(1)]);
        let shape = graph.constant(Tensor::from_slice([2], &[1300i64, 1300]).unwrap());
        let wide = graph.op("Expand", &[one, shape], &[]);
        let whole = graph.op("EyeLike", &[wide], &[]);
        let domain = if op == "Det" { "" } else { "com.microsoft" };
        let made = graph.op_of(domain, op, &[Some(whole)], &[]);
        graph.output("y", made);
        let inputs = vec![("x".to_owned(), Tensor::from_slice([1], &[0f32]).unwrap())];
        Case { name: format!("{op} of 1300 rows"), graph: graph.finish(), inputs }
    };
    let suppression = || {
        let mut graph = GraphBuilder::new("g", 27);
        let one = graph.input("x", DType::F32, [Dim::Fixed(1)]);
        let mut wide = |shape: [i64; 3]| {
            let shape = graph.constant(Tensor::from_slice([3], &shape).unwrap());
            graph.op("Expand", &[one, shape], &[])
        };
        let (boxes, scores) = (wide([1, 60_000, 4]), wide([1, 1, 60_000]));
        let most = graph.constant(Tensor::scalar(i64::MAX));
        let made = graph.op("NonMaxSuppression", &[boxes, scores, most], &[]);
        graph.output("y", made);
        let inputs = vec![("x".to_owned(), Tensor::from_slice([1], &[0f32]).unwrap())];
        // Boxes without an area are all kept.
        Case { name: "NonMaxSuppression of 60000 boxes".to_owned(), graph: graph.finish(), inputs }
    };
    let repeats = || {
        let mut graph = GraphBuilder::new("g", 27);
        let one = graph.input("x", DType::F32, [Dim::Fixed(1)]);
        let mut wide = |count: i64| {
            let shape = graph.constant(Tensor::from_slice([2], &[1, count]).unwrap());
            graph.op("Expand", &[one, shape], &[])
        };
        let (tokens, scores) = (wide(2_000_000), wide(4));
        let tokens = graph.op("Cast", &[tokens], &[("to", 7.into())]);
        // Each n-gram is compared up to its end.
        let attrs = [("ngram_size", 1_000_000.into())];
        let made = graph.op_of("com.microsoft", "NGramRepeatBlock", &[Some(tokens), Some(scores)], &attrs);
        graph.output("y", made);
        let inputs = vec![("x".to_owned(), Tensor::from_slice([1], &[0f32]).unwrap())];
        Case { name: "NGramRepeatBlock of a million tokens".to_owned(), graph: graph.finish(), inputs }
    };
    rows().iter().map(case).chain([matrix("Det"), matrix("Inverse"), suppression(), repeats()]).collect()
}
