//! Graphs drawn at random whose nodes keep the items of a batch apart: in any batch an item has the same bits as alone.

use kiln::session::{Numerics, Session, SessionOptions};
use kiln_kernels::Isa;
use kiln_run::record::CacheMode;
use kiln_tensor::Tensor;

use crate::cases::numbers;
use crate::draw::{Drawn, Form, draw};
use crate::native;

/// Graphs whose first axis is the batch, with layers on both sides of the size of a panel.
const FORM: Form = Form { kept: 1, wider: &[1, 3, 8] };
const GRAPHS: u64 = 400;
const BATCHES: [usize; 5] = [2, 3, 8, 17, 64];
const THREADS: [usize; 3] = [1, 2, 7];

/// The choices that draw a graph; they look random.
fn choices(seed: u64) -> Vec<u16> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u16
    };
    let count = 24 + usize::from(next() % 80);
    (0..count).map(|_| next()).collect()
}

fn session(drawn: &Drawn, isa: Isa, threads: usize, numerics: Numerics) -> Session {
    let cache_mode = CacheMode::Memory;
    let options = SessionOptions { threads, numerics, cache_mode, max_isa: Some(isa), ..SessionOptions::default() };
    Session::from_graph(drawn.graph.clone(), &options).unwrap_or_else(|error| panic!("{error}\n{}", drawn.told()))
}

/// The bytes of each item of each output, for a batch of these items.
fn items(session: &Session, drawn: &Drawn, items: std::ops::Range<usize>) -> Vec<Vec<Vec<u8>>> {
    // Sizes of an item: those of the first request or of the second.
    let like = &drawn.requests[drawn.graph.nodes.len() % 2];
    let inputs = like.iter().enumerate().map(|(input, (name, like))| {
        let each: usize = like.shape()[1..].iter().product();
        let values = items.clone().flat_map(|item| numbers(each, 11 + 3 * item + input)).collect();
        let shape = std::iter::once(items.len()).chain(like.shape()[1..].iter().copied());
        (name.as_str(), Tensor::from_vec(shape, values).unwrap())
    });
    let inputs: Vec<(&str, Tensor)> = inputs.collect();
    let outputs = session.run(&inputs).unwrap_or_else(|error| panic!("{error}\n{}", drawn.told()));
    let apart = |(_, output): (String, Tensor)| {
        assert_eq!(output.shape()[0], items.len(), "{}", drawn.told());
        let each = output.byte_len() / items.len();
        output.bytes().chunks(each.max(1)).map(<[u8]>::to_vec).collect()
    };
    outputs.into_iter().map(apart).collect()
}

/// The first batch with an item whose bits differ from those alone on one thread.
fn differing(drawn: &Drawn, isa: Isa, numerics: Numerics, threads: &[usize], batches: &[usize]) -> Option<String> {
    let alone = session(drawn, isa, 1, numerics);
    let most = batches.iter().copied().max().unwrap_or(0);
    let singles: Vec<Vec<Vec<Vec<u8>>>> = (0..most).map(|item| items(&alone, drawn, item..item + 1)).collect();
    for &threads in threads {
        let session = session(drawn, isa, threads, numerics);
        for &batch in batches {
            let all = items(&session, drawn, 0..batch);
            for (output, all) in all.iter().enumerate() {
                if let Some(item) = (0..batch).find(|&item| all[item] != singles[item][output][0]) {
                    return Some(format!("{isa}, {threads} threads: output {output} of item {item} of {batch}"));
                }
            }
        }
    }
    None
}

/// The smallest graph, drawn by fewer choices, that still differs, as text.
fn smallest(mut choices: Vec<u16>, differs: impl Fn(&Drawn) -> Option<String>) -> String {
    let mut at = 0;
    while at < choices.len() {
        let mut fewer = choices.clone();
        fewer.remove(at);
        match differs(&draw(&fewer, FORM)) {
            Some(_) => choices = fewer,
            None => at += 1,
        }
    }
    let drawn = draw(&choices, FORM);
    format!("{}\n{}", differs(&drawn).unwrap_or_default(), drawn.told())
}

#[test]
fn an_item_has_the_same_bits_in_any_batch_of_a_drawn_graph() {
    let (mut compared, mut operators) = (0, std::collections::BTreeSet::new());
    for seed in 0..GRAPHS {
        let choices = choices(seed);
        let drawn = draw(&choices, FORM);
        for isa in Isa::ALL {
            let (threads, batches): (&[usize], &[usize]) = match native(isa) {
                true => (&THREADS, &BATCHES),
                false if seed % 8 == 0 => (&[2], &[3, 8]),
                false => continue,
            };
            let differs = |drawn: &Drawn| differing(drawn, isa, Numerics::Invariant, threads, batches);
            if differs(&drawn).is_some() {
                panic!("graph {seed}: {}", smallest(choices, differs));
            }
            compared += 1;
        }
        operators.extend(drawn.graph.nodes.iter().map(|node| node.op.clone()));
    }
    println!("{GRAPHS} graphs, {compared} compared at a level");
    assert!(compared >= GRAPHS as usize / 8 * Isa::ALL.len(), "{compared} graphs were compared");
    for op in ["Conv", "ConvTranspose", "MatMul", "Gemm", "Softmax", "ReduceMean", "LayerNormalization"] {
        assert!(operators.contains(op), "no {op} was drawn: {operators:?}");
    }
}

#[test]
fn without_the_policy_some_drawn_graphs_differ() {
    let isa = Isa::Avx2.min(Isa::detect());
    let drawn = (0..GRAPHS).map(|seed| draw(&choices(seed), FORM));
    let differ = drawn.filter(|drawn| differing(drawn, isa, Numerics::Default, &[2], &BATCHES).is_some()).count();
    println!("{differ} of {GRAPHS} graphs differ by default");
    assert!(!isa.is_jit() || differ > 0, "this shows nothing");
}
