//! Texts that a small model continues: the chosen tokens, the steps in which prompts are read, and how texts end.

use std::time::Duration;

use kiln_model::Stopped;
use kiln_run::NodeError;

use super::*;
use crate::session::decoder::choose::ChoiceError;
use crate::session::decoder::tests::small::{WORDS, model};
use crate::session::{Cancel, Numerics, SessionError, SessionOptions};

fn decoder() -> Decoder {
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    Decoder::from_graph(model(None, false), &options).unwrap()
}

fn prompt(count: usize) -> Vec<i64> {
    (0..count).map(|at| (at * (at + 3) % WORDS) as i64).collect()
}

/// The model's tokens, a step at a time and by hand.
fn expected(decoder: &Decoder, prompt: &[i64], count: usize) -> Vec<i64> {
    let mut cache = decoder.cache(1, 64, 64).unwrap();
    let (mut read, mut said) = (prompt.to_vec(), Vec::new());
    for _ in 0..count {
        let logits = decoder.step(&mut cache, &[&read], &RunOptions::default()).unwrap();
        let logits = logits.as_slice::<f32>().unwrap();
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let token = logits.iter().position(|&logit| logit == largest).unwrap() as i64;
        said.push(token);
        read = vec![token];
    }
    said
}

fn options() -> GenerateOptions {
    GenerateOptions { max_tokens: 12, context: 64, ..GenerateOptions::default() }
}

fn all(generator: &mut Generator<&Decoder>) -> Vec<i64> {
    generator.map(Result::unwrap).collect()
}

#[test]
fn a_text_goes_on_as_by_steps_of_ones_own_until_it_ends() {
    let decoder = decoder();
    for length in [1, 3, 11, 40] {
        let prompt = prompt(length);
        let said = expected(&decoder, &prompt, 12);
        let mut generator = Generator::new(&decoder, options()).unwrap();
        generator.append(&prompt).unwrap();
        assert_eq!(generator.ended(), None);
        assert_eq!(all(&mut generator), said, "{length}");
        assert_eq!(generator.ended(), Some(Ended::MaxTokens));
        assert_eq!(generator.text(), [prompt.clone(), said.clone()].concat());
        // The end is a token that the model chooses: only tokens before its first occurrence are returned.
        let end = said[7];
        let before = said.iter().position(|&token| token == end).unwrap();
        let mut generator = Generator::new(&decoder, GenerateOptions { ends: vec![99, end], ..options() }).unwrap();
        generator.append(&prompt).unwrap();
        assert_eq!(all(&mut generator), said[..before]);
        assert_eq!(generator.ended(), Some(Ended::Token(end)));
        assert_eq!(generator.text().last(), Some(&end));
        assert!(generator.next().is_none(), "an ended text stays so");
    }
}

#[test]
fn a_text_repeats_no_sequence_and_does_not_end_too_early() {
    let decoder = decoder();
    let free = expected(&decoder, &prompt(5), 40);
    let said = |options: GenerateOptions| {
        let mut generator = Generator::new(&decoder, GenerateOptions { max_tokens: 40, ..options }).unwrap();
        generator.append(&prompt(5)).unwrap();
        (all(&mut generator), generator.text().to_vec())
    };
    let pairs = |text: &[i64]| {
        let mut pairs: Vec<&[i64]> = text[4..].windows(2).collect();
        let count = pairs.len();
        pairs.sort_unstable();
        pairs.dedup();
        count - pairs.len()
    };
    assert!(pairs(&[prompt(5), free.clone()].concat()) > 0, "the text repeats itself: {free:?}");
    for lookup in [None, Some(Lookup { tokens: 4, ngram: 1 })] {
        let (tokens, text) = said(GenerateOptions { no_repeat_ngram: 2, lookup, ..options() });
        assert_eq!((tokens.len(), pairs(&text)), (40, 0), "{text:?}");
    }
    let (tokens, _) = said(GenerateOptions { ends: vec![free[0]], min_tokens: 3, ..options() });
    assert!(tokens.len() >= 3 && !tokens.contains(&free[0]), "{tokens:?}");
}

#[test]
fn tokens_that_are_suppressed_are_not_chosen() {
    let decoder = decoder();
    let said = |suppress: Vec<i64>, begin_suppress: Vec<i64>| {
        let options = GenerateOptions { suppress, begin_suppress, ..options() };
        let mut generator = Generator::new(&decoder, options).unwrap();
        generator.append(&prompt(5)).unwrap();
        all(&mut generator)
    };
    let free = expected(&decoder, &prompt(5), 12);
    // Numbers that are no tokens suppress nothing.
    assert_eq!(said(vec![-1, i64::MIN, WORDS as i64], vec![i64::MAX]), free);
    let never = said(vec![free[0], free[3]], Vec::new());
    assert!(never.len() == 12 && !never.contains(&free[0]) && !never.contains(&free[3]));
    let first = said(Vec::new(), vec![free[0]]);
    assert_ne!(first[0], free[0]);
    assert_eq!(first[1..], expected(&decoder, &[prompt(5), vec![first[0]]].concat(), 11));
    // Tokens after an append to a text that has begun are not its first ones.
    let options = GenerateOptions { begin_suppress: (0..WORDS as i64).collect(), ..options() };
    let mut none = Generator::new(&decoder, options.clone()).unwrap();
    none.append(&prompt(5)).unwrap();
    assert!(matches!(none.next(), Some(Err(DecoderError::Choice(ChoiceError::Nothing(_))))));
    let mut again = Generator::new(&decoder, GenerateOptions { begin_suppress: vec![free[0]], ..options }).unwrap();
    again.append(&prompt(5)).unwrap();
    again.next().unwrap().unwrap();
    again.append(&prompt(5)).unwrap();
    let text = again.text().to_vec();
    assert_eq!(again.next().unwrap().unwrap(), expected(&decoder, &text, 1)[0]);
}

#[test]
fn a_text_fills_its_context_and_no_more() {
    let decoder = decoder();
    let full = GenerateOptions { max_tokens: 99, context: 10, ..GenerateOptions::default() };
    let mut generator = Generator::new(&decoder, full).unwrap();
    assert!(matches!(generator.append(&prompt(11)), Err(DecoderError::Tokens(_))));
    assert_eq!(generator.text(), [0i64; 0]);
    generator.append(&prompt(4)).unwrap();
    assert_eq!(all(&mut generator), expected(&decoder, &prompt(4), 6));
    assert_eq!(generator.ended(), Some(Ended::Context));
    assert_eq!(generator.text().len(), 10);
    generator.append(&[]).unwrap();
    assert!(generator.next().is_none());
}

#[test]
fn a_text_is_taken_up_behind_its_end() {
    let decoder = decoder();
    let mut generator = Generator::new(&decoder, GenerateOptions { max_tokens: 3, ..options() }).unwrap();
    generator.append(&prompt(5)).unwrap();
    let first = all(&mut generator);
    generator.append(&[1, 2]).unwrap();
    let second = all(&mut generator);
    assert_eq!(second, expected(&decoder, &[prompt(5), first, vec![1, 2]].concat(), 3));
}

#[test]
fn prompts_of_all_lengths_are_read_in_steps_of_nine_shapes() {
    let mut sizes = std::collections::BTreeSet::new();
    for length in 1..3000 {
        let (mut left, mut steps) = (length, Vec::new());
        while left > 0 {
            steps.push(chunk(left));
            left -= steps[steps.len() - 1];
        }
        assert!(steps.len() <= length / CHUNK + 8, "{length}: {steps:?}");
        sizes.extend(steps);
    }
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    let decoder = decoder();
    let read = |length: usize| {
        let mut generator = Generator::new(&decoder, options()).unwrap();
        generator.append(&prompt(length)).unwrap();
        all(&mut generator);
    };
    read(31);
    let planned = decoder.session().plan_stats().misses;
    (1..=31).for_each(read);
    assert_eq!(decoder.session().plan_stats().misses, planned, "shapes that were there");
}

#[test]
fn a_step_that_fails_ends_the_text_until_it_is_tried_again() {
    let decoder = decoder();
    let cancel = Cancel::new();
    let run = RunOptions { cancel: Some(cancel.clone()), ..RunOptions::default() };
    let mut generator = Generator::new(&decoder, GenerateOptions { run, ..options() }).unwrap();
    generator.append(&prompt(6)).unwrap();
    let first = generator.next().unwrap().unwrap();
    cancel.cancel();
    let refused = generator.next().unwrap();
    let Err(DecoderError::Session(SessionError::Run(error))) = &refused else { panic!("{refused:?}") };
    assert!(matches!(error.error, NodeError::Stopped(Stopped::Cancelled)), "{error}");
    assert_eq!((generator.ended(), generator.next().is_none()), (Some(Ended::Failed), true));
    generator.options.run.cancel = None;
    generator.append(&[]).unwrap();
    assert_eq!([vec![first], all(&mut generator)].concat()[..12], expected(&decoder, &prompt(6), 12));

    let run = RunOptions { time_limit: Some(Duration::ZERO), ..RunOptions::default() };
    let mut late = Generator::new(&decoder, GenerateOptions { run, ..options() }).unwrap();
    late.append(&prompt(6)).unwrap();
    assert!(matches!(late.next(), Some(Err(DecoderError::Session(SessionError::Run(_))))));
    let mut empty = Generator::new(&decoder, options()).unwrap();
    assert!(matches!(empty.next(), Some(Err(DecoderError::Tokens(_)))), "a text without a token");
    let sampling = Sampling { top_p: 2.0, ..Sampling::default() };
    let refused = Generator::new(&decoder, GenerateOptions { sampling, ..options() }).map(|_| ());
    assert!(matches!(refused, Err(DecoderError::Choice(ChoiceError::Setting { .. }))));
}

#[test]
fn drawn_texts_are_those_of_their_seed() {
    let decoder = decoder();
    let said = |seed: u64| {
        let sampling = Sampling { temperature: 5.0, seed, ..Sampling::default() };
        let mut generator = Generator::new(&decoder, GenerateOptions { sampling, ..options() }).unwrap();
        generator.append(&prompt(4)).unwrap();
        all(&mut generator)
    };
    assert_eq!(said(1), said(1));
    assert_ne!(said(1), said(2));
    assert!(said(1).iter().all(|&token| token < WORDS as i64));
}

#[test]
fn logits_of_half_precision_are_widened_and_those_of_other_types_refused() {
    let mut kept = vec![7.0];
    let half = Tensor::from_vec([1, 2], vec![half::f16::from_f32(0.5), half::f16::from_f32(-2.0)]).unwrap();
    keep(&half, &mut kept).unwrap();
    assert_eq!(kept, [0.5, -2.0]);
    let texts = keep(&Tensor::from_vec([1, 1], vec![1i64]).unwrap(), &mut kept);
    assert!(matches!(texts, Err(DecoderError::Model(_))));
}

/// The tokens with look-ups, and the counts of proposals.
fn looked_up(decoder: &Decoder, prompt: &[i64], options: GenerateOptions, lookup: Lookup) -> (Vec<i64>, LookupStats) {
    let options = GenerateOptions { lookup: Some(lookup), ..options };
    let mut generator = Generator::new(decoder, options).unwrap();
    generator.append(prompt).unwrap();
    let said = all(&mut generator);
    (said, generator.lookup_stats())
}

#[test]
fn texts_with_a_look_up_are_token_by_token_those_without_one() {
    let mut total = LookupStats::default();
    for (numerics, window) in [(Numerics::default(), None), (Numerics::Invariant, None), (Numerics::Invariant, Some(5))]
    {
        let options = SessionOptions { threads: 2, numerics, ..SessionOptions::default() };
        let decoder = Decoder::from_graph(model(window, false), &options).unwrap();
        for (length, seed) in (1..24).flat_map(|length| [None, Some(1), Some(2)].map(|seed| (length, seed))) {
            // Prompts that repeat themselves, and drawn texts beside the likeliest.
            let prompt: Vec<i64> = (0..length).map(|at| (at % 5 * (at % 5 + 3 + length) % WORDS) as i64).collect();
            let sampling = seed.map_or(Sampling::default(), |seed| Sampling {
                temperature: 1.5,
                repetition_penalty: 1.2,
                seed,
                ..Sampling::default()
            });
            let options = GenerateOptions { sampling, max_tokens: 99, context: 60, ..GenerateOptions::default() };
            let mut plain = Generator::new(&decoder, options.clone()).unwrap();
            plain.append(&prompt).unwrap();
            let said = all(&mut plain);
            for (tokens, ngram) in [(1, 1), (3, 1), (3, 2), (10, 2), (255, 1)] {
                let (found, stats) = looked_up(&decoder, &prompt, options.clone(), Lookup { tokens, ngram });
                assert_eq!(found, said, "{numerics:?}, prompt {prompt:?}, seed {seed:?}, {tokens} by {ngram}");
                total.proposed += stats.proposed;
                total.kept += stats.kept;
            }
        }
    }
    assert!(total.kept > 1000 && total.proposed > total.kept, "both kinds: {total:?}");
}

#[test]
fn a_step_with_a_look_up_gives_the_logits_of_steps_alone_where_numerics_are_invariant() {
    let options = SessionOptions { threads: 2, numerics: Numerics::Invariant, ..SessionOptions::default() };
    let decoder = Decoder::from_graph(model(None, false), &options).unwrap();
    let [mut alone, mut together] = [(); 2].map(|()| decoder.cache(2, 64, 64).unwrap());
    let tokens = prompt(11);
    let run = RunOptions::default();
    let all = decoder.step_each(&mut together, 1, &tokens, &run).unwrap();
    assert_eq!((all.shape(), together.lengths()), (&[11, WORDS][..], &[0, 11][..]));
    for (token, row) in tokens.iter().zip(all.as_slice::<f32>().unwrap().chunks_exact(WORDS)) {
        let logits = decoder.step_some(&mut alone, &[(1, &[*token])], &run).unwrap();
        assert_eq!(logits.as_slice::<f32>().unwrap(), row);
    }
    let refused = [decoder.step_each(&mut together, 2, &tokens, &run), decoder.step_each(&mut together, 0, &[], &run)];
    assert!(refused.iter().all(|refused| matches!(refused, Err(DecoderError::Tokens(_)))), "{refused:?}");
}

#[test]
fn a_text_with_a_look_up_ends_and_goes_on_as_one_without() {
    let decoder = decoder();
    let lookup = Lookup { tokens: 6, ngram: 1 };
    let cancel = Cancel::new();
    let said = expected(&decoder, &prompt(9), 30);
    let mut kept = 0;
    for count in 1..=30 {
        let options = GenerateOptions { max_tokens: count, lookup: Some(lookup), ..options() };
        let mut generator = Generator::new(&decoder, options).unwrap();
        generator.append(&prompt(9)).unwrap();
        assert_eq!(all(&mut generator), said[..count]);
        assert_eq!(generator.ended(), Some(Ended::MaxTokens));
        kept = generator.lookup_stats().kept;
        // Appends after tokens that the model has read but that were not chosen, and after a cancelled step.
        generator.append(&[4, 5, 4]).unwrap();
        cancel.cancel();
        generator.set_run(RunOptions { cancel: Some(cancel.clone()), ..RunOptions::default() });
        assert!(generator.next().unwrap().is_err());
        generator.set_run(RunOptions::default());
        generator.append(&[]).unwrap();
        let text = [prompt(9), said[..count].to_vec(), vec![4, 5, 4]].concat();
        let more = count.min(64 - text.len());
        assert_eq!(all(&mut generator), expected(&decoder, &text, more), "{count}");
    }
    assert!(kept > 3, "{kept} proposed tokens were chosen");
    let end = said[9];
    let before = said.iter().position(|&token| token == end).unwrap();
    let ends = GenerateOptions { ends: vec![end], max_tokens: 30, ..options() };
    assert_eq!(looked_up(&decoder, &prompt(9), ends, lookup).0, said[..before]);
}

#[test]
fn a_look_up_that_cannot_be_is_refused_by_name() {
    let decoder = decoder();
    for lookup in [Lookup { tokens: 0, ngram: 2 }, Lookup { tokens: 256, ngram: 2 }, Lookup { tokens: 4, ngram: 0 }] {
        let made = Generator::new(&decoder, GenerateOptions { lookup: Some(lookup), ..options() }).map(|_| ());
        let Err(DecoderError::Tokens(what)) = made else { panic!("{lookup:?}: {made:?}") };
        assert!(what.contains("look-up"), "{what}");
    }
    let mut batch = crate::Batch::new(&decoder, 2, 64).unwrap();
    let pushed = batch.push(&[1], GenerateOptions { lookup: Some(Lookup::default()), ..options() });
    assert!(matches!(pushed, Err(DecoderError::Tokens(_))), "{pushed:?}");
}
