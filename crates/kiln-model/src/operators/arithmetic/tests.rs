//! The counts of products against what shapes say, two cases for every operator that has a count.

use std::collections::BTreeMap;

use kiln_tensor::DType;

use super::*;
use crate::ir::Attr;
use crate::operators;

/// A node on inputs of these shapes, and how many products it computes.
struct Case {
    domain: &'static str,
    op: &'static str,
    attrs: Vec<(&'static str, Attr)>,
    inputs: Vec<Vec<usize>>,
    output: Vec<usize>,
    products: usize,
}

/// A node of ONNX's own domain without attributes.
fn case(op: &'static str, inputs: &[&[usize]], output: &[usize], products: usize) -> Case {
    let inputs = inputs.iter().map(|shape| shape.to_vec()).collect();
    Case { domain: "", op, attrs: Vec::new(), inputs, output: output.to_vec(), products }
}

impl Case {
    fn of(self, domain: &'static str) -> Case {
        Case { domain, ..self }
    }

    fn with(mut self, name: &'static str, attr: Attr) -> Case {
        self.attrs.push((name, attr));
        self
    }

    fn int(self, name: &'static str, value: i64) -> Case {
        self.with(name, Attr::Int(value))
    }

    fn text(self, name: &'static str, value: &str) -> Case {
        self.with(name, Attr::Str(value.to_owned()))
    }

    fn window(self, sides: &[i64]) -> Case {
        self.with("kernel_shape", Attr::Ints(sides.to_vec()))
    }

    /// What its row counts.
    fn counted(&self) -> Option<usize> {
        let attrs = self.attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        let (domain, op) = (self.domain.to_owned(), self.op.to_owned());
        let node = NodeDesc { domain, op, attrs, ..NodeDesc::default() };
        let spec = |shape: &[usize]| TensorSpec::new(DType::F32, shape.iter().copied());
        let inputs: Vec<Tensor> = self.inputs.iter().map(|shape| Tensor::hollow(spec(shape))).collect();
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        operators::of(&node).expect("a row").products(&node, &inputs, &[spec(&self.output)])
    }
}

fn matrices() -> Vec<Case> {
    let transposed = |op| case(op, &[&[5, 3], &[5, 7]], &[3, 7], 3 * 5 * 7).int("transA", 1);
    vec![
        case("MatMul", &[&[2, 3, 5], &[5, 7]], &[2, 3, 7], 2 * 3 * 5 * 7),
        case("MatMul", &[&[5], &[5, 7]], &[7], 5 * 7),
        case("MatMulInteger", &[&[3, 5], &[5, 7]], &[3, 7], 3 * 5 * 7),
        case("MatMulInteger", &[&[1, 1], &[1, 9]], &[1, 9], 9),
        case("QLinearMatMul", &[&[3, 5], &[], &[], &[5, 7]], &[3, 7], 3 * 5 * 7),
        case("QLinearMatMul", &[&[2, 3, 5], &[], &[], &[5, 7]], &[2, 3, 7], 2 * 3 * 5 * 7),
        case("MatMulNBits", &[&[2, 3, 32], &[8, 1, 16]], &[2, 3, 8], 2 * 3 * 32 * 8).of("com.microsoft"),
        case("MatMulNBits", &[&[1, 64], &[4, 2, 16]], &[1, 4], 64 * 4).of("com.microsoft"),
        case("MatMulBnb4", &[&[3, 32], &[128]], &[3, 8], 3 * 32 * 8).of("com.microsoft"),
        case("MatMulBnb4", &[&[1, 64], &[128]], &[1, 4], 64 * 4).of("com.microsoft"),
        case("BlockwiseMatMul", &[&[3, 32], &[32, 8]], &[3, 8], 3 * 32 * 8).of("kiln"),
        case("BlockwiseMatMul", &[&[2, 3, 32], &[32, 8]], &[2, 3, 8], 2 * 3 * 32 * 8).of("kiln"),
        case("Gemm", &[&[3, 5], &[5, 7]], &[3, 7], 3 * 5 * 7),
        transposed("Gemm"),
        case("QGemm", &[&[3, 5], &[], &[], &[5, 7]], &[3, 7], 3 * 5 * 7).of("com.microsoft"),
        transposed("QGemm").of("com.microsoft"),
        case("Det", &[&[2, 5, 5]], &[2], 2 * 125),
        case("Det", &[&[3, 3]], &[], 27),
        case("Inverse", &[&[2, 5, 5]], &[2, 5, 5], 2 * 125).of("com.microsoft"),
        case("Inverse", &[&[3, 3]], &[3, 3], 27).of("com.microsoft"),
        case("Einsum", &[&[3, 5], &[5, 7]], &[3, 7], 2 * 3 * 5 * 7).text("equation", "ij,jk->ik"),
        case("Einsum", &[&[3, 1], &[5, 7]], &[3, 7], 2 * 3 * 5 * 7).text("equation", "ij,jk->ik"),
        case("Einsum", &[&[4, 4]], &[], 4).text("equation", "ii->"),
        case("Einsum", &[&[2, 3, 5], &[5]], &[2, 3], 2 * 30).text("equation", "...i,i->..."),
    ]
}

fn convolutions() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in ["Conv", "ConvInteger", "DeformConv"] {
        cases.push(case(op, &[&[1, 4, 8, 8], &[6, 2, 3, 3]], &[1, 6, 6, 6], 6 * 36 * 2 * 9));
        cases.push(case(op, &[&[2, 4, 10], &[6, 4, 3]], &[2, 6, 8], 2 * 6 * 8 * 4 * 3));
    }
    cases.extend([
        case("QLinearConv", &[&[1, 4, 8, 8], &[], &[], &[6, 2, 3, 3]], &[1, 6, 6, 6], 6 * 36 * 2 * 9),
        case("QLinearConv", &[&[2, 4, 10], &[], &[], &[6, 4, 3]], &[2, 6, 8], 2 * 6 * 8 * 4 * 3),
        case("ConvTranspose", &[&[1, 4, 8, 8], &[4, 6, 3, 3]], &[1, 6, 10, 10], 4 * 64 * 6 * 9),
        case("ConvTranspose", &[&[2, 4, 10], &[4, 3, 5]], &[2, 3, 14], 2 * 4 * 10 * 3 * 5),
        case("CausalConvWithState", &[&[2, 4, 10], &[4, 1, 3]], &[2, 4, 10], 2 * 4 * 10 * 3),
        case("CausalConvWithState", &[&[1, 4, 10], &[4, 1, 1]], &[1, 4, 10], 4 * 10),
        case("LRN", &[&[1, 4, 8, 8]], &[1, 4, 8, 8], 4 * 64 * 3).int("size", 3),
        case("LRN", &[&[1, 4, 8, 8]], &[1, 4, 8, 8], 4 * 64 * 4).int("size", 1 << 40),
    ]);
    for (domain, op) in [("", "AveragePool"), ("", "LpPool"), ("", "MaxPool"), ("kiln", "QuantizedAveragePool")] {
        cases.push(case(op, &[&[1, 4, 8, 8]], &[1, 4, 6, 6], 4 * 36 * 9).of(domain).window(&[3, 3]));
        cases.push(case(op, &[&[1, 4, 8]], &[1, 4, 7], 4 * 7 * 2).of(domain).window(&[2]));
    }
    cases
}

fn sequences() -> Vec<Case> {
    let heads: &[&[usize]] = &[&[2, 4, 5, 8], &[2, 4, 7, 8], &[2, 4, 7, 6]];
    // Five queries meet seven keys and nine of the cache.
    let cached: &[&[usize]] = &[&[1, 5, 32], &[1, 7, 32], &[1, 7, 32], &[], &[1, 4, 9, 8]];
    let mut cases = vec![
        case("Attention", heads, &[2, 4, 5, 6], 2 * 4 * 5 * 7 * (8 + 6)),
        case("Attention", cached, &[1, 5, 32], 5 * 16 * (32 + 32)),
    ];
    for domain in ["", "com.microsoft"] {
        // Heads have keys of 8 and values of 6.
        let packed: &[&[usize]] = &[&[1, 10, 32], &[1, 10, 16], &[1, 10, 12]];
        let shared = case("LinearAttention", packed, &[1, 10, 24], 10 * (4 + 2) * 8 * 6).of(domain);
        cases.push(shared.int("q_num_heads", 4).int("kv_num_heads", 2));
        let single: &[&[usize]] = &[&[3, 7, 8], &[3, 7, 8], &[3, 7, 5]];
        let single = case("LinearAttention", single, &[3, 7, 5], 3 * 7 * 2 * 8 * 5).of(domain);
        cases.push(single.int("q_num_heads", 1).int("kv_num_heads", 1));
    }
    let apart: &[&[usize]] = &[&[10, 2, 8], &[10, 2, 8], &[10, 4, 6]];
    cases.push(case("GatedDeltaNet", apart, &[10, 4, 6], 10 * 4 * 6 * 8 * 2).of("com.microsoft"));
    let packed: &[&[usize]] = &[&[10, 56], &[], &[], &[], &[], &[], &[1, 4, 6, 8]];
    cases.push(case("GatedDeltaNet", packed, &[10, 4, 6], 10 * 4 * 6 * 8 * 2).of("com.microsoft"));
    let (conv, weights) = ("VarlenCausalConvWithState", &[4, 1, 3]);
    cases.push(case(conv, &[&[10, 4], weights], &[10, 4], 10 * 4 * 3).of("com.microsoft"));
    cases.push(case(conv, &[&[1, 4], weights], &[1, 4], 4 * 3).of("com.microsoft"));
    cases.push(case("CausalConvWithState", &[&[2, 4, 10], weights], &[2, 4, 10], 240).of("com.microsoft"));
    cases.push(case("CausalConvWithState", &[&[1, 4, 10], &[4, 1, 1]], &[1, 4, 10], 40).of("com.microsoft"));
    cases.push(case("HyperConnectionPreMix", &[&[3, 4, 5], &[3, 4]], &[3, 5], 60).of("com.microsoft"));
    cases.push(case("HyperConnectionPreMix", &[&[2, 2, 7], &[2, 2]], &[2, 7], 28).of("com.microsoft"));
    cases.push(case("MoEGroupRouter", &[&[3, 8], &[8]], &[3, 8], 24).of("com.microsoft"));
    cases.push(case("MoEGroupRouter", &[&[3, 256], &[8], &[8, 256]], &[3, 8], 3 * 8 * 256).of("com.microsoft"));
    for (op, gates) in [("LSTM", 4), ("GRU", 3), ("RNN", 1)] {
        let both: &[&[usize]] = &[&[10, 3, 8], &[2, gates * 4, 8], &[2, gates * 4, 4]];
        cases.push(case(op, both, &[10, 2, 3, 4], 10 * 3 * 2 * gates * 4 * (8 + 4)));
        let one: &[&[usize]] = &[&[6, 1, 5], &[1, gates * 7, 5], &[1, gates * 7, 7]];
        cases.push(case(op, one, &[6, 1, 1, 7], 6 * gates * 7 * (5 + 7)));
    }
    let both: &[&[usize]] = &[&[10, 3, 8], &[2, 8, 16], &[2, 4, 16]];
    let one: &[&[usize]] = &[&[6, 1, 5], &[1, 5, 28], &[1, 7, 28]];
    cases.push(case("DynamicQuantizeLSTM", both, &[10, 2, 3, 4], 10 * 3 * 2 * 16 * (8 + 4)).of("com.microsoft"));
    cases.push(case("DynamicQuantizeLSTM", one, &[6, 1, 1, 7], 6 * 28 * (5 + 7)).of("com.microsoft"));
    cases
}

#[test]
fn products_are_those_of_the_shapes() {
    let mut cases = matrices();
    cases.extend(convolutions());
    cases.extend(sequences());
    let mut tried: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for case in &cases {
        let Case { domain, op, inputs, output, .. } = case;
        assert_eq!(case.counted(), Some(case.products), "{domain}.{op} of {inputs:?} to {output:?}");
        *tried.entry((domain, op)).or_default() += 1;
    }
    for row in operators::all().filter(|row| matches!(row.arithmetic, Arithmetic::By(_))) {
        let cases = tried.get(&(row.domain, row.name)).copied().unwrap_or(0);
        assert!(cases >= 2, "{}.{} has a count and {cases} cases", row.domain, row.name);
    }
}

#[test]
fn operators_of_elements_compute_nothing_worth_counting_and_others_say_that_they_do_not_know() {
    assert_eq!(case("Add", &[&[9], &[9]], &[9], 0).counted(), Some(0));
    assert_eq!(case("RoiAlign", &[&[1, 1, 9, 9], &[1, 4], &[1]], &[1, 1, 1, 1], 0).counted(), None, "by its regions");
    assert_eq!(case("Loop", &[&[], &[]], &[1], 0).counted(), None, "by its body");
}

#[test]
fn products_too_many_to_count_are_not_known() {
    let windows = case("MaxPool", &[&[1, 4, 8, 8]], &[1, 4, 6, 6], 0);
    assert_eq!(windows.window(&[i64::MAX, 4]).counted(), None);
    let letters = case("Einsum", &[&[1 << 40], &[1 << 40]], &[], 0);
    assert_eq!(letters.text("equation", "i,j->").counted(), None);
    assert_eq!(case("Gemm", &[&[1 << 40, 1 << 40], &[1]], &[1 << 40], 0).counted(), None);
}
