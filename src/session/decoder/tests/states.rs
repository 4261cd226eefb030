//! A model that hands a state from step to step beside its cache: the last columns of a causal convolution.

use super::small::{hybrid, recurrent};
use super::*;
use crate::session::batch::Batch;
use crate::session::generate::lookup::Lookup;
use crate::session::generate::{GenerateOptions, Generator};

fn hybrid_decoder() -> Decoder {
    Decoder::from_graph(hybrid(), &SessionOptions { threads: 2, ..SessionOptions::default() }).unwrap()
}

/// The logits after a text that the model's own graph computes as a whole, from zeros.
fn whole(text: &[i64]) -> Vec<f32> {
    whole_of(hybrid(), text)
}

/// The logits after a text that a graph computes as a whole, from zeros.
fn whole_of(graph: Graph, text: &[i64]) -> Vec<f32> {
    let session = Session::from_graph(graph, &SessionOptions { threads: 1, ..SessionOptions::default() }).unwrap();
    let row = |values: Vec<i64>| Tensor::from_vec([1, text.len()], values).unwrap();
    let mut inputs = vec![("input_ids", row(text.to_vec()))];
    for port in session.inputs() {
        match port.name.as_str() {
            "input_ids" => continue,
            "attention_mask" => {
                inputs.push(("attention_mask", row(vec![1; text.len()])));
                continue;
            }
            _ => {}
        }
        let known = |dim: &Dim| match dim {
            Dim::Fixed(size) => *size,
            Dim::Named(name) if name == "batch" => 1,
            Dim::Named(name) if name == "size" => SIZE,
            _ => 0,
        };
        let sizes: Vec<usize> = port.dims.as_ref().unwrap().iter().map(known).collect();
        inputs.push((&port.name, Tensor::zeros(kiln_tensor::TensorSpec::new(DType::F32, sizes)).unwrap()));
    }
    let outputs = session.run(&inputs).unwrap();
    // The state comes first.
    let (_, logits) = outputs.iter().find(|(name, _)| *name == "logits").unwrap();
    logits.as_slice::<f32>().unwrap()[(text.len() - 1) * WORDS..].to_vec()
}

#[test]
fn tokens_one_by_one_and_in_chunks_say_what_the_whole_text_says() {
    let (decoder, text) = (hybrid_decoder(), text(14, 1));
    for chunks in [vec![1; 14], vec![14], vec![5, 1, 1, 7]] {
        let mut cache = decoder.cache(1, 4, 40).unwrap();
        let mut filled = 0;
        for chunk in chunks {
            let logits = step(&decoder, &mut cache, &[&text[filled..filled + chunk]]);
            filled += chunk;
            close(&logits, &whole(&text[..filled]), &format!("{filled} in chunks"));
        }
    }
}

#[test]
fn a_model_without_a_cache_has_states_alone() {
    let decoder = Decoder::from_graph(recurrent(), &SessionOptions::default()).unwrap();
    let (text, run) = (text(300, 1), RunOptions::default());
    let mut cache = decoder.cache(2, 4, 400).unwrap();
    step(&decoder, &mut cache, &[&text[..200], &text[..200]]);
    let logits = decoder.step_one(&mut cache, 1, &text[200..], &run).unwrap();
    close(logits.as_slice::<f32>().unwrap(), &whole_of(recurrent(), &text), "a text");
    assert_eq!((cache.lengths(), cache.bytes()), (&[200, 300][..], 2 * 2 * 16 * 4));
    cache.fork(1, 0, 300).unwrap();
    let logits = decoder.step_some(&mut cache, &[(0, &[3])], &run).unwrap();
    close(logits.as_slice::<f32>().unwrap(), &whole_of(recurrent(), &[&text[..], &[3]].concat()), "its fork");
}

#[test]
fn sequences_of_a_batch_have_states_of_their_own() {
    let (decoder, run) = (hybrid_decoder(), RunOptions::default());
    let texts: Vec<Vec<i64>> = (0..5).map(|seed| text(12, seed)).collect();
    let mut cache = decoder.cache(5, 16, 16).unwrap();
    // All of them as long, then some tokens of some, one of each of five (which are six rows), and one sequence alone.
    step(&decoder, &mut cache, &texts.iter().map(|text| &text[..3]).collect::<Vec<_>>());
    let some = decoder.step_some(&mut cache, &[(3, &texts[3][3..7]), (1, &texts[1][3..4])], &run).unwrap();
    let one: Vec<(usize, &[i64])> = [4, 0, 1, 3, 2].map(|at| (at, &texts[at][cache.lengths()[at]..][..1])).into();
    let each = decoder.step_some(&mut cache, &one, &run).unwrap();
    let alone = decoder.step_one(&mut cache, 2, &texts[2][4..12], &run).unwrap();
    let rows = decoder.step_each(&mut cache, 0, &texts[0][4..7], &run).unwrap();
    assert_eq!(cache.lengths(), [7, 5, 12, 8, 4]);
    let row = |logits: &Tensor, row: usize| logits.as_slice::<f32>().unwrap()[row * WORDS..][..WORDS].to_vec();
    let mut expected = vec![(some.clone(), 0, 3, 7), (some, 1, 1, 4)];
    let lengths = [4, 4, 5, 8, 4];
    expected.extend(
        [4, 0, 1, 3, 2]
            .into_iter()
            .zip(lengths)
            .enumerate()
            .map(|(at, (text, length))| (each.clone(), at, text, length)),
    );
    expected.push((alone, 0, 2, 12));
    expected.extend((0..3).map(|at| (rows.clone(), at, 0, 5 + at)));
    for (logits, at, sequence, length) in expected {
        close(&row(&logits, at), &whole(&texts[sequence][..length]), &format!("text {sequence}, {length} tokens"));
    }
}

#[test]
fn a_sequence_is_forked_where_it_ends_and_rewound_to_nothing() {
    let (decoder, text) = (hybrid_decoder(), text(12, 4));
    let mut cache = decoder.cache(2, 16, 16).unwrap();
    decoder.step_one(&mut cache, 0, &text[..8], &RunOptions::default()).unwrap();
    let bytes = cache.bytes();
    let plain = Decoder::from_graph(model(None, false), &SessionOptions::default()).unwrap();
    assert!(bytes > plain.cache(2, 16, 16).unwrap().bytes(), "states are counted");
    cache.fork(0, 1, 8).unwrap();
    let logits = step(&decoder, &mut cache, &[&text[8..9], &[3]]);
    close(&logits[..WORDS], &whole(&text[..9]), "the text");
    close(&logits[WORDS..], &whole(&[&text[..8], &[3]].concat()), "its fork");
    for refused in [cache.fork(0, 1, 5), cache.rewind(1, 8)] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, DecoderError::Cache(reason) if reason.contains("states of 9 positions")), "{error}");
    }
    assert_eq!(cache.lengths(), [9, 9]);
    cache.rewind(0, 9).unwrap();
    cache.rewind(0, 0).unwrap();
    cache.fork(0, 1, 0).unwrap();
    let logits = step(&decoder, &mut cache, &[&text[..4], &text[..4]]);
    close(&logits[..WORDS], &whole(&text[..4]), "from the start");
    close(&logits[WORDS..], &whole(&text[..4]), "a fork of nothing");
}

#[test]
fn a_step_that_fails_leaves_states_as_they_were() {
    let (decoder, text) = (hybrid_decoder(), text(6, 2));
    let mut cache = decoder.cache(1, 16, 16).unwrap();
    step(&decoder, &mut cache, &[&text[..5]]);
    let late = RunOptions { time_limit: Some(Duration::ZERO), ..RunOptions::default() };
    decoder.step(&mut cache, &[&[7]], &late).unwrap_err();
    decoder.step(&mut cache, &[&[WORDS as i64]], &RunOptions::default()).unwrap_err();
    close(&step(&decoder, &mut cache, &[&text[5..]]), &whole(&text), "after failures");
    let other = Decoder::from_graph(model(None, false), &SessionOptions::default()).unwrap();
    let error = other.step(&mut cache, &[&[1]], &RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("another model's"), "{error}");
}

#[test]
fn texts_that_begin_alike_go_on_side_by_side_as_alone_and_look_ups_are_refused() {
    let decoder = hybrid_decoder();
    let options = || GenerateOptions { max_tokens: 6, context: 128, ..GenerateOptions::default() };
    let long = text(40, 3);
    let prompts = [long.clone(), [&long[..], &[1, 2]].concat(), [&long[..39], &[5]].concat(), text(3, 1)];
    let mut batch = Batch::new(&decoder, 2, 128).unwrap();
    let numbers: Vec<u64> = prompts.iter().map(|prompt| batch.push(prompt, options()).unwrap()).collect();
    let mut finished = Vec::new();
    while !batch.is_idle() {
        batch.step(&RunOptions::default()).unwrap();
        finished.extend(batch.finished());
    }
    for (number, prompt) in numbers.into_iter().zip(&prompts) {
        let mut generator = Generator::new(&decoder, options()).unwrap();
        generator.append(prompt).unwrap();
        for token in &mut generator {
            token.unwrap();
        }
        let text = &finished.iter().find(|text| text.id == number).unwrap().text;
        assert_eq!(text, generator.text(), "{prompt:?}");
    }
    let lookup = Some(Lookup::default());
    let refused = Generator::new(&decoder, GenerateOptions { lookup, ..options() }).err().unwrap();
    assert!(refused.to_string().contains("'past.0.conv' cannot go back"), "{refused}");
}
