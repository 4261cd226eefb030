//! Searches over small models find the texts that trying all of them finds, and end by the rules of `early_stopping`.

use super::*;
use crate::session::decoder::choose::Sampling;
use crate::session::decoder::tests::small::{WORDS, hybrid, model, recurrent};
use crate::session::generate::lookup::Lookup;
use crate::session::{RunOptions, SessionOptions};

fn decoder() -> Decoder {
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    Decoder::from_graph(model(None, false), &options).unwrap()
}

fn prompt(count: usize) -> Vec<i64> {
    (0..count).map(|at| (at * (at + 3) % WORDS) as i64).collect()
}

fn options(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens, context: 64, ..GenerateOptions::default() }
}

/// The logarithm of a token's probability behind a text that is read at once.
fn log_probability(decoder: &Decoder, text: &[i64], token: i64) -> f64 {
    let mut cache = decoder.cache(1, 64, 64).unwrap();
    let logits = decoder.step(&mut cache, &[text], &RunOptions::default()).unwrap();
    let logits: Vec<f64> = logits.as_slice::<f32>().unwrap().iter().copied().map(f64::from).collect();
    logits[token as usize] - logits.iter().map(|logit| logit.exp()).sum::<f64>().ln()
}

/// All continuations of `length` tokens and their sums, the likeliest first.
fn all(decoder: &Decoder, prompt: &[i64], length: usize) -> Vec<(Vec<i64>, f64)> {
    let mut texts = vec![(Vec::new(), 0.0)];
    for _ in 0..length {
        let longer = |(tokens, sum): &(Vec<i64>, f64)| {
            let text = [prompt, tokens].concat();
            let with = |token| ([&tokens[..], &[token]].concat(), sum + log_probability(decoder, &text, token));
            (0..WORDS as i64).map(with).collect::<Vec<_>>()
        };
        texts = texts.iter().flat_map(longer).collect();
    }
    texts.sort_by(|one, other| other.1.total_cmp(&one.1));
    texts
}

fn tokens(found: &[Hypothesis]) -> Vec<&[i64]> {
    found.iter().map(|text| &text.tokens[..]).collect()
}

#[test]
fn as_many_beams_as_tokens_find_the_likeliest_of_all_texts() {
    let decoder = decoder();
    for length in [1, 5, 20] {
        let prompt = prompt(length);
        let beams = Beams { number: WORDS, ..Beams::default() };
        let found = decoder.search(&prompt, &options(2), &beams).unwrap();
        let expected = all(&decoder, &prompt, 2);
        assert_eq!(found.len(), WORDS);
        for (found, (tokens, sum)) in found.iter().zip(&expected) {
            assert_eq!((&found.tokens, found.ended), (tokens, Ended::MaxTokens));
            assert!((found.score - sum / 2.0).abs() < 1e-5, "{} for {}", found.score, sum / 2.0);
        }
    }
}

#[test]
fn the_score_of_every_text_is_that_of_its_tokens_alone() {
    let decoder = decoder();
    let prompt = prompt(7);
    for (number, length_penalty, counted) in
        [(1, 1.0, 0), (3, 0.0, 0), (4, 2.0, 1), (5, -1.5, 0), (2, 0.01, usize::MAX)]
    {
        let beams = Beams { number, length_penalty, counted, stop: BeamStop::Impossible };
        let end = all(&decoder, &prompt, 1)[1].0[0];
        let options = GenerateOptions { ends: vec![end], ..options(9) };
        let found = decoder.search(&prompt, &options, &beams).unwrap();
        assert!(!found.is_empty() && found.len() <= number);
        assert!(found.is_sorted_by(|one, other| one.score >= other.score));
        for text in found {
            let mut whole = text.tokens.clone();
            whole.extend(matches!(text.ended, Ended::Token(_)).then_some(end));
            let sum: f64 = (0..whole.len())
                .map(|at| log_probability(&decoder, &[&prompt, &whole[..at]].concat(), whole[at]))
                .sum();
            let expected = sum / (whole.len().saturating_add(counted) as f64).powf(f64::from(length_penalty));
            assert!((text.score - expected).abs() < 1e-4 * expected.abs(), "{} for {expected}", text.score);
        }
    }
}

#[test]
fn one_beam_takes_the_likeliest_tokens() {
    let decoder = decoder();
    let mut generator = crate::Generator::new(&decoder, options(12)).unwrap();
    generator.append(&prompt(5)).unwrap();
    let greedy: Vec<i64> = generator.map(Result::unwrap).collect();
    let one = Beams { number: 1, ..Beams::default() };
    assert_eq!(tokens(&decoder.search(&prompt(5), &options(12), &one).unwrap()), [&greedy[..]]);
    // More beams find texts that are at least as likely.
    let score = |number| decoder.search(&prompt(5), &options(12), &Beams { number, ..one }).unwrap()[0].score;
    assert!(score(6) >= score(1));
}

#[test]
fn texts_with_states_are_searched_as_those_of_any_model() {
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    for graph in [hybrid(), recurrent()] {
        let decoder = Decoder::from_graph(graph, &options).unwrap();
        let beams = Beams { number: WORDS, ..Beams::default() };
        let found = decoder.search(&prompt(5), &super::tests::options(2), &beams).unwrap();
        let expected = all(&decoder, &prompt(5), 2);
        assert_eq!(tokens(&found), expected[..WORDS].iter().map(|(tokens, _)| &tokens[..]).collect::<Vec<_>>());
    }
}

#[test]
fn penalties_and_suppressed_tokens_change_what_is_found() {
    let decoder = decoder();
    let beams = Beams { number: 3, ..Beams::default() };
    let free = decoder.search(&prompt(5), &options(6), &beams).unwrap();
    let (first, never) = (free[0].tokens[0], free[0].tokens[3]);
    let options = GenerateOptions { suppress: vec![never, -1], begin_suppress: vec![first], ..options(6) };
    let found = decoder.search(&prompt(5), &options, &beams).unwrap();
    assert!(found.iter().all(|text| text.tokens[0] != first && !text.tokens.contains(&never)));
    // A penalty multiplies the logarithms of the probabilities of tokens that the text has.
    let sampling = Sampling { repetition_penalty: 1e6, ..Sampling::default() };
    let options = GenerateOptions { sampling, ..super::tests::options(6) };
    let found = decoder.search(&[1], &options, &beams).unwrap();
    for text in found {
        let mut whole = [&[1], &text.tokens[..]].concat();
        whole.sort_unstable();
        whole.dedup();
        assert_eq!(whole.len(), 7, "no token is repeated: {:?}", text.tokens);
    }
}

#[test]
fn no_sequence_is_repeated_and_no_text_is_too_short() {
    let decoder = decoder();
    let beams = Beams { number: 3, ..Beams::default() };
    let no_pairs = GenerateOptions { no_repeat_ngram: 2, ..options(30) };
    for text in decoder.search(&prompt(9), &no_pairs, &beams).unwrap() {
        let whole = [&prompt(9), &text.tokens[..]].concat();
        let chosen = &whole[8..];
        for at in 0..chosen.len() - 1 {
            let before = &whole[..8 + at + 1];
            assert!(!before.windows(2).any(|pair| pair == &chosen[at..at + 2]), "{whole:?} at {at}");
        }
    }
    // Without a least length, texts end with the likeliest first token.
    let end = all(&decoder, &prompt(5), 1)[0].0[0];
    let search = |min_tokens| {
        let options = GenerateOptions { ends: vec![end], min_tokens, ..options(9) };
        decoder.search(&prompt(5), &options, &Beams { stop: BeamStop::Full, ..beams }).unwrap()
    };
    assert!(search(0).iter().any(|text| text.tokens.is_empty()));
    // Where no text can go on, because no token is left, those that have ended are found.
    let exhausted = GenerateOptions { no_repeat_ngram: 1, ends: vec![end], ..options(30) };
    let found = decoder.search(&[end], &GenerateOptions { ends: vec![], ..exhausted.clone() }, &beams);
    assert!(found.unwrap_err().to_string().contains("none of 13 tokens"));
    let other = (end + 1) % WORDS as i64;
    let found = decoder.search(&[other], &exhausted, &Beams { stop: BeamStop::Impossible, ..beams }).unwrap();
    assert!(found.iter().all(|text| text.ended == Ended::Token(end)));
    assert!(search(4).iter().all(|text| text.tokens.len() >= 4));
}

#[test]
fn texts_end_at_their_context_and_at_their_most_tokens() {
    let decoder = decoder();
    let beams = Beams { number: 2, ..Beams::default() };
    let search = |prompt: &[i64], max_tokens, context| {
        let options = GenerateOptions { max_tokens, context, ..GenerateOptions::default() };
        let found = decoder.search(prompt, &options, &beams).unwrap();
        found.into_iter().map(|text| (text.tokens.len(), text.ended)).collect::<Vec<_>>()
    };
    assert_eq!(search(&prompt(5), 3, 64), [(3, Ended::MaxTokens); 2]);
    assert_eq!(search(&prompt(5), 9, 7), [(2, Ended::Context); 2]);
    assert_eq!(search(&prompt(5), 0, 64), [(0, Ended::MaxTokens)]);
    assert_eq!(search(&prompt(5), 9, 5), [(0, Ended::Context)]);
}

#[test]
fn what_no_search_can_do_is_refused() {
    let decoder = decoder();
    let why = |prompt: &[i64], options: GenerateOptions, beams: Beams| {
        decoder.search(prompt, &options, &beams).unwrap_err().to_string()
    };
    let (some, beams) = (prompt(3), Beams::default());
    assert!(why(&[], options(4), beams).contains("none to go on from"));
    assert!(why(&prompt(65), options(4), beams).contains("65 in all"));
    assert!(why(&[WORDS as i64], options(4), beams).contains("13"));
    assert!(why(&some, options(4), Beams { number: 0, ..beams }).contains("beams is 0"));
    assert!(why(&some, options(4), Beams { length_penalty: f32::NAN, ..beams }).contains("length_penalty"));
    let drawn = Sampling { temperature: 0.5, ..Sampling::default() };
    assert!(why(&some, GenerateOptions { sampling: drawn, ..options(4) }, beams).contains("temperature is 0.5"));
    let lookup = Some(Lookup::default());
    assert!(why(&some, GenerateOptions { lookup, ..options(4) }, beams).contains("look-up"));
    let nothing = GenerateOptions { suppress: (0..WORDS as i64).collect(), ..options(4) };
    assert!(why(&some, nothing, beams).contains("none of 13 tokens"));
    assert!(why(&some, options(4), Beams { number: usize::MAX, ..beams }).contains("cache"));
}

fn ranking(stop: BeamStop, length_penalty: f32) -> Ranking {
    Ranking::new(&Beams { number: 2, length_penalty, stop, counted: 0 }, 10)
}

/// Adds two texts of two and three tokens, whose scores are -1 and -2 under a penalty of 1.
fn ended(ranking: &mut Ranking) {
    ranking.add(vec![7], -6.0, 3, Ended::Token(0));
    ranking.add(vec![8], -2.0, 2, Ended::Token(0));
    ranking.close();
}

#[test]
fn a_search_ends_by_the_rule_that_was_asked_for() {
    let mut full = ranking(BeamStop::Full, 1.0);
    assert!(!full.is_done(Some(-1e9), 3), "no text has ended");
    ended(&mut full);
    assert!(full.is_done(Some(0.0), 3));

    let mut unlikely = ranking(BeamStop::Unlikely, 1.0);
    ended(&mut unlikely);
    // -8 over four tokens is -2, the score of the last one.
    assert!(unlikely.is_done(Some(-8.1), 4) && !unlikely.is_done(Some(-7.9), 4));

    let mut impossible = ranking(BeamStop::Impossible, 1.0);
    ended(&mut impossible);
    // The same text may have ten tokens.
    assert!(!impossible.is_done(Some(-19.9), 4) && impossible.is_done(Some(-20.1), 4));
    let mut short = ranking(BeamStop::Impossible, -1.0);
    ended(&mut short);
    // Texts become no better by being longer: the scores are -4 and -18.
    assert!(short.is_done(Some(-4.5), 4) && !short.is_done(Some(-4.4), 4));
    assert!(short.is_done(None, 4), "no text goes on");
}

#[test]
fn the_texts_of_the_highest_scores_are_kept() {
    let mut ranking = ranking(BeamStop::Unlikely, 1.0);
    ended(&mut ranking);
    ranking.add(vec![9], -4.5, 3, Ended::MaxTokens);
    ranking.add(vec![10], -9.0, 3, Ended::MaxTokens);
    ranking.close();
    let best = ranking.best();
    assert_eq!(tokens(&best), [&[8][..], &[9]]);
    assert!((best[0].score + 1.0).abs() < 1e-14 && (best[1].score + 1.5).abs() < 1e-14);
}

#[test]
fn the_likeliest_continuations_come_in_order_and_equals_by_text_and_token() {
    let mut likeliest = Likeliest::new(5);
    let scores: Vec<f32> = (0..1000).map(|token| -((token * 389 % 500) as f32)).collect();
    likeliest.add(0, -1.0, &scores);
    likeliest.add(1, 0.0, &scores);
    likeliest.add(2, 0.0, &[f32::NEG_INFINITY]);
    let found = likeliest.in_order();
    // Tokens 0 and 500 have a logarithm of 0, and 9 and 509 one of -1.
    let expected = [(1, 0, 0.0), (1, 500, 0.0), (0, 0, -1.0), (0, 500, -1.0), (1, 9, -1.0)];
    assert_eq!(found, expected.map(|(beam, token, sum)| Candidate { beam, token, sum }));
}
