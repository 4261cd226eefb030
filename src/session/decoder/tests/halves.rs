//! Models of 16 bits: their caches of `f16` or of codes are written and read in place, like those of `f32`.

use half::f16;
use kiln_model::ir::{Attr, NodeDesc, ValueId, ValueInfo};

use super::*;

/// The same model with its numbers, inputs and outputs in `f16`; scales of codes stay `f32`.
pub(in crate::session::decoder) fn halved(mut graph: Graph) -> Graph {
    let is_scale = |graph: &Graph, value: kiln_model::ir::ValueId| graph.value(value).name.starts_with("scale");
    for value in graph.constants.keys().copied().collect::<Vec<_>>() {
        let tensor = &graph.constants[&value];
        if tensor.dtype() == DType::F32 && !is_scale(&graph, value) {
            let halves = tensor.as_slice::<f32>().unwrap().iter().map(|&number| f16::from_f32(number)).collect();
            let tensor = Tensor::from_vec(tensor.shape().to_vec(), halves).unwrap();
            graph.constants.insert(value, tensor);
        }
    }
    for value in graph.values.iter_mut().filter(|value| !value.name.starts_with("scale")) {
        value.dtype = value.dtype.map(|dtype| if dtype == DType::F32 { DType::F16 } else { dtype });
    }
    graph
}

/// The model in `f32` with numbers that `f16` holds.
fn rounded(mut graph: Graph) -> Graph {
    for tensor in graph.constants.values_mut().filter(|tensor| tensor.dtype() == DType::F32) {
        let numbers = tensor.as_slice::<f32>().unwrap().iter().map(|&number| f16::from_f32(number).to_f32()).collect();
        *tensor = Tensor::from_vec(tensor.shape().to_vec(), numbers).unwrap();
    }
    graph
}

fn load(graph: Graph, passes: PassOptions) -> Decoder {
    let options = SessionOptions { threads: 1, passes, ..SessionOptions::default() };
    Decoder::from_graph(graph, &options).unwrap()
}

fn logits(decoder: &Decoder, cache: &mut DecoderCache, tokens: &[&[i64]]) -> Vec<f32> {
    let logits = decoder.step(cache, tokens, &RunOptions::default()).unwrap();
    match logits.dtype() {
        DType::F16 => logits.as_slice::<f16>().unwrap().iter().map(|number| number.to_f32()).collect(),
        _ => logits.as_slice::<f32>().unwrap().to_vec(),
    }
}

/// Checks that logits are near those of `f32`, to which the bound `allowed` is relative.
fn near(found: &[f32], expected: &[f32], allowed: f32, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= allowed * expected.abs().max(1.0), "{what}: {found}, expected {expected}");
    }
}

#[test]
fn caches_of_f16_say_what_those_of_f32_say_forked_and_rewound() {
    let all = PassOptions::default;
    for (window, passes, allowed) in [(None, all(), 0.15), (Some(4), all(), 0.15), (Some(4), PassOptions::none(), 0.3)]
    {
        let [narrow, wide] = [halved(model(window, false)), rounded(model(window, false))];
        let (narrow, wide) = (load(narrow, passes.clone()), load(wide, PassOptions::default()));
        let texts = [text(12, 1), text(12, 2)];
        let mut caches = [&narrow, &wide].map(|decoder| decoder.cache(2, 4, 40).unwrap());
        let both = |caches: &mut [DecoderCache; 2], tokens: &[&[i64]], what: &str| {
            let [small, large] = caches;
            let (found, expected) = (logits(&narrow, small, tokens), logits(&wide, large, tokens));
            near(&found, &expected, allowed, &format!("{window:?}, {what}"));
        };
        both(&mut caches, &[&texts[0], &texts[1]], "a prompt");
        (1..9).for_each(|token| both(&mut caches, &[&[token], &[token + 3]], "a step"));
        caches.iter_mut().for_each(|cache| cache.rewind(1, 7).unwrap());
        both(&mut caches, &[&[4], &[5]], "rewound");
        caches.iter_mut().for_each(|cache| cache.fork(0, 1, 9).unwrap());
        both(&mut caches, &[&[6], &[7]], "forked");
        assert_eq!(caches[0].bytes() * 2, caches[1].bytes());
        // Steps read the same rows as a prompt: only the rounding of logits differs.
        let mut at_once = narrow.cache(1, 16, 16).unwrap();
        let whole = logits(&narrow, &mut at_once, &[&texts[0]]);
        let mut by_token = narrow.cache(1, 16, 16).unwrap();
        let each = texts[0].iter().map(|&token| logits(&narrow, &mut by_token, &[&[token]]));
        let by_token = each.last().unwrap();
        near(&by_token, &whole, 4e-3, "a token at a time");
    }
}

/// The model with its caches in `f32` at its inputs and outputs, and casts behind and before these.
pub(in crate::session::decoder) fn with_wide_ports(mut graph: Graph) -> Graph {
    let cast = |from, to, dtype: i64| NodeDesc {
        op: "Cast".to_owned(),
        version: 13,
        attrs: [("to".to_owned(), Attr::Int(dtype))].into(),
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
        ..NodeDesc::default()
    };
    let wide = |graph: &mut Graph, narrow: ValueId| {
        let info = graph.value(narrow).clone();
        graph.values[narrow.index()].name = format!("narrow/{}", info.name);
        graph.add_value(ValueInfo { dtype: Some(DType::F32), ..info })
    };
    let named = |graph: &Graph, value: &ValueId, stem: &str| graph.value(*value).name.starts_with(stem);
    for place in 0..graph.inputs.len() {
        let narrow = graph.inputs[place];
        if named(&graph, &narrow, "past_key_values") {
            graph.inputs[place] = wide(&mut graph, narrow);
            graph.nodes.insert(0, cast(graph.inputs[place], narrow, 10));
        }
    }
    for place in 0..graph.outputs.len() {
        let narrow = graph.outputs[place];
        if named(&graph, &narrow, "present") {
            graph.outputs[place] = wide(&mut graph, narrow);
            graph.nodes.push(cast(narrow, graph.outputs[place], 1));
        }
    }
    graph
}

#[test]
fn caches_that_are_converted_at_inputs_and_outputs_are_of_f16() {
    let narrow = load(halved(model(None, false)), PassOptions::default());
    let converted = load(with_wide_ports(halved(model(None, false))), PassOptions::default());
    let mut caches = [&narrow, &converted].map(|decoder| decoder.cache(1, 4, 40).unwrap());
    assert_eq!(caches[0].bytes(), caches[1].bytes());
    for tokens in [&text(9, 1)[..], &[3], &[5, 6]] {
        let [of_narrow, of_converted] = &mut caches;
        let expected = logits(&narrow, of_narrow, &[tokens]);
        assert_eq!(logits(&converted, of_converted, &[tokens]), expected);
    }
}

#[test]
fn a_step_writes_its_own_rows_of_a_cache_of_f16_or_of_codes_and_copies_none() {
    const ROOM: usize = 700 * PAGE;
    // A copy of a part of the cache would take memory that a step over one of f32 does not.
    let beside = |decoder: &Decoder, cache: &DecoderCache| {
        decoder.session().kept.buffers.most_present().saturating_sub(cache.bytes())
    };
    let wide = load(model(None, false), PassOptions::default());
    let mut cache = wide.cache(1, ROOM, ROOM).unwrap();
    for tokens in [&[1, 2, 3][..], &[1], &[2]] {
        logits(&wide, &mut cache, &[tokens]);
    }
    let of_f32 = beside(&wide, &cache);
    let all = [(model(None, false), 2 * SIZE), (super::quantized(8), SIZE), (super::quantized(4), SIZE / 2)];
    for (graph, row) in all {
        let decoder = load(halved(graph), PassOptions::default());
        let mut cache = decoder.cache(1, ROOM, ROOM).unwrap();
        assert_eq!(cache.bytes(), 4 * ROOM * row);
        logits(&decoder, &mut cache, &[&text(3, 1)]);
        logits(&decoder, &mut cache, &[&[1]]);
        // Rows of no sequence are NaN of f16 whose bits a conversion would change.
        for part in &cache.parts {
            let mut part = part.lend(part.spec()).unwrap();
            part.bytes_mut()[4 * row..].chunks_exact_mut(2).for_each(|half| half.copy_from_slice(&[0x01, 0x7d]));
        }
        let made = || (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses);
        let first = made();
        for length in 4..9 {
            let look = |part: &Arc<Destination>| {
                let tensor = part.lend(part.spec()).unwrap();
                (tensor.bytes().as_ptr().addr(), tensor.bytes().to_vec())
            };
            let before: Vec<(usize, Vec<u8>)> = cache.parts.iter().map(look).collect();
            assert!(logits(&decoder, &mut cache, &[&[length as i64]]).iter().all(|logit| logit.is_finite()));
            for ((place, old), (now, new)) in before.iter().zip(cache.parts.iter().map(look)) {
                assert_eq!(*place, now, "the cache stays where it is");
                let own = length * row..(length + 1) * row;
                let outside = (0..old.len()).find(|at| !own.contains(at) && old[*at] != new[*at]);
                assert_eq!(outside, None, "position {length} of rows of {row} bytes");
                assert_ne!(old[own.clone()], new[own], "the row itself");
            }
        }
        assert_eq!(made(), first, "the first step's plan and executors serve all lengths");
        let beside = beside(&decoder, &cache);
        assert!(beside < of_f32 + ROOM * row, "{beside} bytes beside a cache of rows of {row}, {of_f32} for f32");
    }
}
