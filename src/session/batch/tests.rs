//! Texts in a batch get the tokens that each gets alone, whenever they come and go.

use std::time::Duration;

use super::*;
use crate::session::decoder::choose::{ChoiceError, Sampling};
use crate::session::decoder::tests::small::{WORDS, model};
use crate::session::generate::Generator;
use crate::session::{SessionError, SessionOptions};

fn decoder() -> Decoder {
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    Decoder::from_graph(model(None, false), &options).unwrap()
}

fn prompt(count: usize, seed: usize) -> Vec<i64> {
    (0..count).map(|at| (at * (at + 3 + seed) % WORDS) as i64).collect()
}

fn options(max_tokens: usize, seed: Option<u64>) -> GenerateOptions {
    let sampling =
        seed.map_or_else(Sampling::default, |seed| Sampling { temperature: 0.8, seed, ..Sampling::default() });
    GenerateOptions { max_tokens, context: 64, sampling, ..GenerateOptions::default() }
}

/// The tokens of a text alone, and why it ends.
fn alone(decoder: &Decoder, prompt: &[i64], options: GenerateOptions) -> (Vec<i64>, Option<Ended>) {
    let mut generator = Generator::new(decoder, options).unwrap();
    generator.append(prompt).unwrap();
    let said = (&mut generator).map(Result::unwrap).collect();
    (said, generator.ended())
}

/// Steps until nothing runs; returns the tokens of each text.
fn all(batch: &mut Batch<&Decoder>, texts: usize) -> Vec<Vec<i64>> {
    let mut said = vec![Vec::new(); texts];
    while !batch.is_idle() {
        for (id, token) in batch.step(&RunOptions::default()).unwrap() {
            said[id as usize].push(token);
        }
    }
    said
}

#[test]
fn texts_say_what_they_say_alone() {
    let decoder = decoder();
    for places in [1, 3, 8] {
        let mut batch = Batch::new(&decoder, places, 64).unwrap();
        let mut texts = Vec::new();
        for (at, length) in [3usize, 20, 1, 40, 7, 11, 30].into_iter().enumerate() {
            let (prompt, options) = (prompt(length, at), options(4 + 2 * at, (at % 2 == 1).then_some(at as u64)));
            let options = GenerateOptions { suppress: vec![at as i64], begin_suppress: vec![7, 9], ..options };
            assert_eq!(batch.push(&prompt, options.clone()).unwrap(), at as u64);
            texts.push((prompt, options));
        }
        let said = all(&mut batch, texts.len());
        let mut finished = batch.finished();
        assert!(batch.finished().is_empty(), "each ends once");
        finished.sort_by_key(|text| text.id);
        for ((said, finished), (prompt, options)) in said.iter().zip(&finished).zip(texts) {
            let (expected, ended) = alone(&decoder, &prompt, options);
            assert_eq!(*said, expected, "text {} of {places} at a time", finished.id);
            assert_eq!(finished.text, [prompt, expected].concat());
            assert_eq!(Some(finished.ended), ended);
        }
    }
}

#[test]
fn a_text_joins_while_others_go_on_and_one_leaves() {
    let decoder = decoder();
    let mut batch = Batch::new(&decoder, 2, 64).unwrap();
    let prompts = [prompt(5, 1), prompt(9, 2), prompt(12, 3)];
    batch.push(&prompts[0], options(20, None)).unwrap();
    for _ in 0..3 {
        assert_eq!(batch.step(&RunOptions::default()).unwrap().len(), 1);
    }
    batch.push(&prompts[1], options(20, None)).unwrap();
    assert_eq!(batch.step(&RunOptions::default()).unwrap().len(), 2, "a prompt is read beside a text that goes on");
    batch.push(&prompts[2], options(6, Some(3))).unwrap();
    assert_eq!(batch.step(&RunOptions::default()).unwrap().len(), 2, "one waits");
    assert!(batch.cancel(0) && !batch.cancel(0) && !batch.cancel(9));
    let said = all(&mut batch, 3);
    let expected = alone(&decoder, &prompts[1], options(20, None)).0;
    assert_eq!(said[1], expected[2..], "two were said before");
    assert_eq!(said[2], alone(&decoder, &prompts[2], options(6, Some(3))).0);
    assert!(said[0].is_empty(), "it was called off");
    assert_eq!(batch.finished().len(), 2);
    batch.push(&prompts[0], options(2, None)).unwrap();
    assert!(batch.cancel(3) && batch.is_idle(), "one that waits is called off as well");
    assert!(batch.step(&RunOptions::default()).unwrap().is_empty(), "nothing runs");
}

#[test]
fn a_beginning_that_another_text_has_read_is_copied() {
    let decoder = decoder();
    let mut batch = Batch::new(&decoder, 2, 64).unwrap();
    let (first, second) = (prompt(30, 1), [&prompt(30, 1)[..25], &[7, 7]].concat());
    batch.push(&first, options(12, None)).unwrap();
    assert!(batch.step(&RunOptions::default()).unwrap().is_empty(), "16 tokens of a long prompt are read first");
    let begun = batch.step(&RunOptions::default()).unwrap();
    batch.push(&second, options(12, None)).unwrap();
    batch.begin().unwrap();
    assert_eq!(batch.cache.lengths()[1], 25, "two tokens are left to be read");
    let said = all(&mut batch, 2);
    assert_eq!([vec![begun[0].1], said[0].clone()].concat(), alone(&decoder, &first, options(12, None)).0);
    assert_eq!(said[1], alone(&decoder, &second, options(12, None)).0);
}

#[test]
fn no_composition_of_texts_plans_anew_once_its_rows_were_seen() {
    let decoder = decoder();
    let run = |seed: usize| {
        let mut batch = Batch::new(&decoder, 4, 64).unwrap();
        for at in 0..6 {
            batch.push(&prompt(1 + (at * 5 + seed) % 9, at + seed), options(3 + at, None)).unwrap();
        }
        all(&mut batch, 6);
    };
    // All classes of numbers of rows, up to 36.
    let mut cache = decoder.cache(4, 64, 64).unwrap();
    let mut rows = 1;
    while rows <= 48 {
        cache.rewind(0, 0).unwrap();
        decoder.step_some(&mut cache, &[(0, &prompt(rows, 1))], &RunOptions::default()).unwrap();
        rows += 1;
    }
    let made = || (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses);
    let first = made();
    (0..5).for_each(run);
    assert_eq!(made(), first);
}

#[test]
fn a_text_that_fails_ends_alone() {
    let decoder = decoder();
    let mut batch = Batch::new(&decoder, 3, 64).unwrap();
    let good = prompt(6, 1);
    batch.push(&good, options(5, None)).unwrap();
    batch.push(&[1, 2, 99], options(5, None)).unwrap();
    batch.push(&good, options(5, Some(4))).unwrap();
    let said = all(&mut batch, 3);
    assert_eq!(said[0], alone(&decoder, &good, options(5, None)).0);
    assert_eq!(said[2], alone(&decoder, &good, options(5, Some(4))).0);
    assert!(said[1].is_empty());
    let finished = batch.finished();
    let failed = finished.iter().find(|text| text.id == 1).unwrap();
    assert_eq!(failed.ended, Ended::Failed);
    assert!(matches!(failed.error, Some(DecoderError::Session(SessionError::Run(_)))));
    assert!(finished.iter().all(|text| (text.id == 1) == text.error.is_some()));
}

#[test]
fn a_step_out_of_time_is_tried_again() {
    let decoder = decoder();
    let mut batch = Batch::new(&decoder, 2, 64).unwrap();
    let prompts = [prompt(6, 1), prompt(8, 2)];
    for prompt in &prompts {
        batch.push(prompt, options(5, Some(1))).unwrap();
    }
    let late = RunOptions { time_limit: Some(Duration::ZERO), ..RunOptions::default() };
    assert!(matches!(batch.step(&late), Err(DecoderError::Session(SessionError::Run(_)))));
    let said = all(&mut batch, 2);
    for (said, prompt) in said.iter().zip(&prompts) {
        assert_eq!(*said, alone(&decoder, prompt, options(5, Some(1))).0);
    }
}

#[test]
fn texts_end_by_a_token_by_their_number_and_by_their_context() {
    let decoder = decoder();
    let start = prompt(6, 1);
    let said = alone(&decoder, &start, options(12, None)).0;
    let ends = GenerateOptions { ends: vec![said[4]], ..options(12, None) };
    let full = GenerateOptions { context: 9, ..options(12, None) };
    let mut batch = Batch::new(&decoder, 2, 64).unwrap();
    for options in [ends.clone(), full, options(0, None)] {
        batch.push(&start, options).unwrap();
    }
    all(&mut batch, 3);
    let mut finished = batch.finished();
    finished.sort_by_key(|text| text.id);
    assert_eq!(finished[0].ended, Ended::Token(said[4]));
    assert_eq!(finished[0].text.last(), Some(&said[4]), "the token that ended it is there");
    assert_eq!((finished[1].ended, finished[1].text.len()), (Ended::Context, 9));
    assert_eq!((finished[2].ended, finished[2].text.len()), (Ended::MaxTokens, 6));
    for (prompt, options) in [(&[][..], options(1, None)), (&[1; 65], options(1, None))] {
        assert!(matches!(batch.push(prompt, options), Err(DecoderError::Tokens(_))));
    }
    let impossible = GenerateOptions { sampling: Sampling { top_p: 2.0, ..Sampling::default() }, ..ends };
    let refused = batch.push(&start, impossible);
    assert!(matches!(refused, Err(DecoderError::Choice(ChoiceError::Setting { .. }))));
    assert!(batch.is_idle());
}
