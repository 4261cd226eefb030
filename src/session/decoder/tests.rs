//! A small language model as onnxruntime-genai's builder writes them: a token at a time it gives the same as for whole
//! prompts; and what a step touches.

mod embedding;
pub(super) mod halves;
pub(in crate::session) mod small;
mod states;

use std::sync::Arc;
use std::time::Duration;

use kiln_kernels::cpu::Precision;
use kiln_model::GraphBuilder;
use kiln_model::ir::Dim;
use kiln_model::passes::PassOptions;
use kiln_tensor::DType;

use self::small::{SIZE, WORDS, by_length, model};
use super::*;
use crate::session::batch::Batch;
use crate::session::generate::{GenerateOptions, Generator};

fn decoder(window: Option<i64>, threads: usize) -> Decoder {
    Decoder::from_graph(model(window, false), &SessionOptions { threads, ..SessionOptions::default() }).unwrap()
}

fn step(decoder: &Decoder, cache: &mut DecoderCache, tokens: &[&[i64]]) -> Vec<f32> {
    let logits = decoder.step(cache, tokens, &RunOptions::default()).unwrap();
    assert_eq!(logits.shape(), [tokens.len(), WORDS]);
    logits.as_slice::<f32>().unwrap().to_vec()
}

fn close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-4, "{what}: {found}, expected {expected}");
    }
}

fn text(count: usize, seed: usize) -> Vec<i64> {
    (0..count).map(|at| ((at * 7 + seed * 5) * (at + 3) % WORDS) as i64).collect()
}

/// The logits after a text that the session computes as a whole, without a cache, on the model's own graph.
fn whole(window: Option<i64>, text: &[i64]) -> Vec<f32> {
    let mut graph = model(window, false);
    graph.nodes.iter_mut().for_each(|node| drop(node.attrs.remove("sliding_window_cache")));
    let session = Session::from_graph(graph, &SessionOptions { threads: 1, ..SessionOptions::default() }).unwrap();
    let row = |values: Vec<i64>| Tensor::from_vec([1, text.len()], values).unwrap();
    let mut inputs = vec![("input_ids", row(text.to_vec())), ("attention_mask", row(vec![1; text.len()]))];
    let names: Vec<String> =
        session.inputs().iter().map(|port| port.name.clone()).filter(|name| name.starts_with("past")).collect();
    inputs.extend(names.iter().map(|name| (name.as_str(), Tensor::from_vec([1, 1, 0, SIZE], vec![0f32; 0]).unwrap())));
    let outputs = session.run(&inputs).unwrap();
    outputs[0].1.as_slice::<f32>().unwrap()[(text.len() - 1) * WORDS..].to_vec()
}

#[test]
fn memory_that_an_earlier_prompt_needed_is_not_made_present() {
    let records = Arc::new(kiln_run::record::Store::in_memory());
    let options = || SessionOptions { threads: 1, records: Some(records.clone()), ..SessionOptions::default() };
    let first = Decoder::from_graph(model(None, false), &options()).unwrap();
    first.session.footprint.key.note(256 << 20, &records);
    let second = Decoder::from_graph(model(None, false), &options()).unwrap();
    assert_eq!(second.session.footprint.key.recall(&records), 256 << 20);
    assert!(second.session.kept.buffers.free_bytes() < 2 << 20, "{}", second.session.kept.buffers.free_bytes());
}

#[test]
fn tokens_one_by_one_and_in_chunks_say_what_the_whole_text_says() {
    for window in [None, Some(1), Some(4)] {
        for threads in [1, 2] {
            let decoder = decoder(window, threads);
            let text = text(23, 1);
            for chunks in [vec![1; 23], vec![23], vec![5, 1, 1, 16], vec![3, 20]] {
                let mut cache = decoder.cache(1, 4, 40).unwrap();
                let mut filled = 0;
                for chunk in chunks {
                    let logits = step(&decoder, &mut cache, &[&text[filled..filled + chunk]]);
                    filled += chunk;
                    close(&logits, &whole(window, &text[..filled]), &format!("{window:?}, {filled} in chunks"));
                }
                assert_eq!(cache.lengths(), [23]);
                assert!((23..=40).contains(&cache.room()), "{}", cache.room());
            }
        }
    }
}

/// Prompts are multiplied in pairs where the processor has them; single tokens read the same cache.
#[test]
fn prompts_at_lower_precision_stay_close() {
    for window in [None, Some(9)] {
        let options = SessionOptions { threads: 2, precision: Precision::Bf16, ..SessionOptions::default() };
        let decoder = Decoder::from_graph(model(window, false), &options).unwrap();
        let (tokens, mut cache) = (text(60, 2), decoder.cache(1, 16, 100).unwrap());
        let mut read = 0;
        for count in [25, 16, 18, 1] {
            let found = step(&decoder, &mut cache, &[&tokens[read..read + count]]);
            read += count;
            let expected = whole(window, &tokens[..read]);
            let most = expected.iter().fold(0f32, |most, logit| most.max(logit.abs()));
            for (found, expected) in found.iter().zip(&expected) {
                let far = (found - expected).abs() / most;
                assert!(far < 6e-2, "{window:?}, {read} tokens: {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn sequences_of_a_batch_have_lengths_of_their_own_and_are_rewound() {
    let decoder = decoder(Some(6), 2);
    let texts = [text(12, 1), text(12, 2), text(12, 3)];
    let mut cache = decoder.cache(3, 16, 16).unwrap();
    let all: Vec<&[i64]> = texts.iter().map(Vec::as_slice).collect();
    step(&decoder, &mut cache, &all);
    for (sequence, length) in [(1, 5), (2, 1)] {
        cache.rewind(sequence, length).unwrap();
    }
    let logits = step(&decoder, &mut cache, &[&[4], &[7], &[2]]);
    assert_eq!(cache.lengths(), [13, 6, 2]);
    for (sequence, (length, token)) in [(12, 4), (5, 7), (1, 2)].into_iter().enumerate() {
        let text = [&texts[sequence][..length], &[token]].concat();
        close(&logits[sequence * WORDS..][..WORDS], &whole(Some(6), &text), &format!("sequence {sequence}"));
    }
    assert!(matches!(cache.rewind(0, 14), Err(DecoderError::Cache(_))), "it has no such position");
    assert!(matches!(cache.rewind(3, 0), Err(DecoderError::Cache(_))), "there is no such sequence");
}

#[test]
fn steps_of_any_length_plan_and_build_nothing_and_write_their_own_rows() {
    let decoder = decoder(None, 1);
    let mut cache = decoder.cache(1, 60, 60).unwrap();
    step(&decoder, &mut cache, &[&text(3, 1)]);
    step(&decoder, &mut cache, &[&[1]]);
    let made = || (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses);
    let addresses = |cache: &DecoderCache| -> Vec<(usize, Vec<u8>)> {
        let look = |part: &Arc<Destination>| {
            let tensor = part.lend(part.spec()).unwrap();
            (tensor.bytes().as_ptr().addr(), tensor.bytes().to_vec())
        };
        cache.parts.iter().map(look).collect()
    };
    let (first, row) = (made(), SIZE * 4);
    let mut before = addresses(&cache);
    for token in text(50, 3) {
        let length = cache.lengths()[0];
        step(&decoder, &mut cache, &[&[token]]);
        let after = addresses(&cache);
        for ((place, old), (now, new)) in before.iter().zip(&after) {
            assert_eq!(place, now, "the cache stays where it is");
            let differs = |at: &usize| old[*at] != new[*at];
            let outside = (0..old.len()).filter(|at| !(length * row..(length + 1) * row).contains(at)).find(differs);
            assert_eq!(outside, None, "position {length}");
        }
        before = after;
    }
    assert_eq!(made(), first, "plans and executors of the first step served all");
    assert_eq!(cache.bytes(), 4 * 60 * row);
}

#[test]
fn a_text_that_is_read_in_parts_is_as_long_as_it_will_be() {
    let decoder = Decoder::from_graph(by_length(280), &SessionOptions::default()).unwrap();
    let text = text(300, 2);
    let mut whole = decoder.cache(1, 8, 400).unwrap();
    let expected = step(&decoder, &mut whole, &[&text]);
    let mut cache = decoder.cache(1, 8, 400).unwrap();
    let read = |cache: &mut DecoderCache| {
        step(&decoder, cache, &[&text[..250]]);
        step(&decoder, cache, &[&text[250..]])
    };
    cache.announce(0, 300).unwrap();
    let unknown = cache.announce(1, 300).unwrap_err();
    assert_eq!(unknown.to_string(), "cache: there is no sequence 1");
    close(&read(&mut cache), &expected, "announced");
    cache.rewind(0, 0).unwrap();
    let without = read(&mut cache);
    assert!(without.iter().zip(&expected).any(|(a, b)| (a - b).abs() > 1e-3), "the first part was taken as short");
    // Generators and batches read prompts in parts.
    let best = |logits: &[f32]| (0..WORDS).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as i64;
    let mut likeliest = vec![best(&expected)];
    for at in 0..7 {
        likeliest.push(best(&step(&decoder, &mut whole, &[&[likeliest[at]]])));
    }
    let options = || GenerateOptions { max_tokens: 8, context: 400, ..GenerateOptions::default() };
    let mut generator = Generator::new(&decoder, options()).unwrap();
    generator.append(&text).unwrap();
    let said: Vec<i64> = generator.map(Result::unwrap).collect();
    assert_eq!(said, likeliest);
    let mut batch = Batch::new(&decoder, 2, 400).unwrap();
    batch.push(&text, options()).unwrap();
    while !batch.is_idle() {
        batch.step(&RunOptions::default()).unwrap();
    }
    assert_eq!(batch.finished()[0].text[300..], likeliest);
}

#[test]
fn positions_are_given_to_models_that_read_them() {
    let decoder = Decoder::from_graph(model(None, true), &SessionOptions::default()).unwrap();
    let mut cache = decoder.cache(1, 8, 8).unwrap();
    for (at, token) in text(8, 2).into_iter().enumerate() {
        let logits = step(&decoder, &mut cache, &[&[token]]);
        close(&logits, &whole(None, &text(8, 2)[..=at]), &format!("position {at}"));
    }
}

#[test]
fn a_step_that_fails_changes_no_sequence() {
    let decoder = decoder(None, 1);
    let mut cache = decoder.cache(1, 8, 8).unwrap();
    let text = text(7, 4);
    step(&decoder, &mut cache, &[&text[..6]]);
    let unknown = decoder.step(&mut cache, &[&[WORDS as i64]], &RunOptions::default());
    assert!(matches!(unknown, Err(DecoderError::Session(SessionError::Run(_)))), "a word that the table has not");
    let late = RunOptions { time_limit: Some(Duration::ZERO), ..RunOptions::default() };
    assert!(matches!(decoder.step(&mut cache, &[&[1]], &late), Err(DecoderError::Session(SessionError::Run(_)))));
    let long = decoder.step(&mut cache, &[&[1, 2, 3]], &RunOptions::default());
    assert!(matches!(long, Err(DecoderError::Cache(_))), "nine positions in a cache of eight");
    for tokens in [&[][..], &[&[][..]], &[&[1][..], &[2]], &[&[1, 2][..], &[3]]] {
        let refused = decoder.step(&mut cache, tokens, &RunOptions::default());
        assert!(matches!(refused, Err(DecoderError::Tokens(_))), "{tokens:?}");
    }
    assert_eq!(cache.lengths(), [6]);
    close(&step(&decoder, &mut cache, &[&text[6..]]), &whole(None, &text), "as if nothing had been");
}

#[test]
fn caches_and_models_that_do_not_fit_are_refused() {
    let decoder = decoder(None, 1);
    assert!(matches!(decoder.cache(0, 8, 8), Err(DecoderError::Cache(_))));
    let huge = decoder.cache(1 << 20, 1 << 40, 1 << 40);
    assert!(matches!(huge, Err(DecoderError::Memory(_))), "more than any memory");
    let mut graph = model(None, false);
    let other = graph.nodes.iter().position(|node| node.op == "GroupQueryAttention").unwrap();
    let why = |graph: Graph| match Decoder::from_graph(graph, &SessionOptions::default()) {
        Err(DecoderError::Model(reason)) => reason,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    };
    graph.outputs.retain(|&output| Some(output) != graph.nodes[other].output(1));
    assert!(why(graph).contains("output 1 is no output of the model"));
    let mut plain = model(None, false);
    plain.nodes.iter_mut().for_each(|node| node.domain.clear());
    assert!(why(plain).contains("no node is a GroupQueryAttention"));
    let mut build = GraphBuilder::new("none", 21);
    let x = build.input("x", DType::F32, [Dim::from("n")]);
    build.output("x", x);
    assert!(why(build.finish()).contains("GroupQueryAttention"));
    let mut two = model(None, true);
    let ids = two.values.iter_mut().find(|value| value.name == "position_ids").unwrap();
    ids.name = "other_ids".to_owned();
    assert!(why(two).contains("may both be the tokens"));
}

#[test]
fn a_cache_of_another_model_is_refused() {
    let (decoder, other) =
        (decoder(None, 1), Decoder::from_graph(model(None, true), &SessionOptions::default()).unwrap());
    let mut cache = other.cache(1, 8, 8).unwrap();
    step(&decoder, &mut cache, &[&[1]]);
    cache.parts.pop();
    let refused = decoder.step(&mut cache, &[&[1]], &RunOptions::default());
    assert!(matches!(refused, Err(DecoderError::Cache(reason)) if reason.contains("another model's")));
}

/// The model with caches of int8 or int4, and with sinks.
fn quantized(bits: i64) -> Graph {
    let mut graph = model(None, false);
    let scale = graph.add_constant("scale", Tensor::from_vec([1], vec![1f32 / 16.0]).unwrap());
    let sink = graph.add_constant("sink", Tensor::from_vec([2], vec![0.5f32, -1.0]).unwrap());
    let dtype = if bits == 8 { DType::I8 } else { DType::U8 };
    graph.values.iter_mut().filter(|value| value.name.starts_with("past")).for_each(|value| value.dtype = Some(dtype));
    for node in graph.nodes.iter_mut().filter(|node| node.op == "GroupQueryAttention") {
        node.inputs.resize(14, None);
        node.inputs[11] = Some(sink);
        node.inputs[12] = Some(scale);
        node.inputs[13] = Some(scale);
        node.attrs.insert("kv_cache_bit_width".to_owned(), bits.into());
        for name in ["k_quant_type", "v_quant_type"] {
            node.attrs.insert(name.to_owned(), kiln_model::ir::Attr::Str("PER_TENSOR".to_owned()));
        }
    }
    graph
}

#[test]
fn caches_of_codes_are_written_a_row_at_a_time_and_no_length_builds_anything() {
    for (bits, row) in [(8, SIZE), (4, SIZE / 2)] {
        let decoder = Decoder::from_graph(quantized(bits), &SessionOptions::default()).unwrap();
        let mut cache = decoder.cache(1, 40, 40).unwrap();
        assert_eq!(cache.bytes(), 4 * 40 * row, "{bits} bits");
        let words = text(30, 1);
        let mut last = step(&decoder, &mut cache, &[&words[..1]]);
        let made = || (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses);
        let first = made();
        for (at, word) in words.iter().enumerate().skip(1) {
            let before: Vec<Vec<u8>> =
                cache.parts.iter().map(|part| part.lend(part.spec()).unwrap().bytes().to_vec()).collect();
            last = step(&decoder, &mut cache, &[&[*word]]);
            for (part, before) in cache.parts.iter().zip(before) {
                let after = part.lend(part.spec()).unwrap().bytes().to_vec();
                let changed = (0..after.len()).find(|&byte| byte / row != at && after[byte] != before[byte]);
                assert_eq!(changed, None, "position {at} of {bits} bits");
            }
        }
        assert_eq!(made(), first, "the first step's plan and executors serve all lengths");
        let mut at_once = decoder.cache(1, 40, 40).unwrap();
        close(&step(&decoder, &mut at_once, &[&words]), &last, "the text at once");
    }
}

fn step_some(decoder: &Decoder, cache: &mut DecoderCache, tokens: &[(usize, &[i64])]) -> Vec<f32> {
    let logits = decoder.step_some(cache, tokens, &RunOptions::default()).unwrap();
    assert_eq!(logits.shape(), [tokens.len(), WORDS]);
    logits.as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn a_step_of_some_sequences_reads_a_token_of_one_and_a_chunk_of_another() {
    for (window, threads, positions) in [(None, 1, false), (Some(4), 2, false), (None, 1, true)] {
        let options = SessionOptions { threads, ..SessionOptions::default() };
        let decoder = Decoder::from_graph(model(window, positions), &options).unwrap();
        let texts: Vec<Vec<i64>> = (0..4).map(|seed| text(30, seed)).collect();
        let mut cache = decoder.cache(4, 4, 40).unwrap();
        let mut lengths = [0; 4];
        let steps: [&[(usize, usize)]; 7] = [
            &[(2, 5)],
            &[(0, 9), (2, 1)],
            &[(3, 1), (2, 1), (0, 1)],
            &[(1, 17), (0, 1), (3, 2)],
            &[(0, 1), (1, 1), (2, 1), (3, 1)],
            &[(3, 1)],
            &[(2, 7), (1, 4)],
        ];
        for parts in steps {
            let tokens: Vec<(usize, &[i64])> = parts
                .iter()
                .map(|&(sequence, count)| (sequence, &texts[sequence][lengths[sequence]..][..count]))
                .collect();
            let logits = step_some(&decoder, &mut cache, &tokens);
            parts.iter().for_each(|&(sequence, count)| lengths[sequence] += count);
            assert_eq!(cache.lengths(), lengths);
            for (&(sequence, _), logits) in parts.iter().zip(logits.chunks(WORDS)) {
                let expected = whole(window, &texts[sequence][..lengths[sequence]]);
                close(logits, &expected, &format!("sequence {sequence} of {parts:?}"));
            }
        }
    }
}

#[test]
fn a_sequence_that_takes_no_part_is_not_touched_and_no_composition_of_as_many_rows_builds_anything() {
    let decoder = decoder(None, 1);
    let mut cache = decoder.cache(5, 32, 32).unwrap();
    let words = text(30, 1);
    step_some(&decoder, &mut cache, &[(0, &words[..6])]);
    step_some(&decoder, &mut cache, &[(0, &words[..2])]);
    let made = || (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses);
    let first = made();
    let compositions: [&[(usize, usize)]; 6] =
        [&[(4, 5)], &[(1, 1), (2, 4)], &[(3, 2), (1, 1), (2, 1), (0, 1)], &[(1, 6)], &[(2, 1), (3, 1)], &[(4, 2)]];
    for parts in compositions {
        let bytes = |cache: &DecoderCache| -> Vec<Vec<u8>> {
            cache.parts.iter().map(|part| part.lend(part.spec()).unwrap().bytes().to_vec()).collect()
        };
        let (before, lengths) = (bytes(&cache), cache.lengths().to_vec());
        let tokens: Vec<(usize, &[i64])> = parts.iter().map(|&(sequence, count)| (sequence, &words[..count])).collect();
        step_some(&decoder, &mut cache, &tokens);
        for (before, after) in before.iter().zip(bytes(&cache)) {
            for (byte, (before, after)) in before.iter().zip(&after).enumerate() {
                let (page, row) = (byte / (32 * SIZE * 4), byte / (SIZE * 4) % 32);
                let sequence = (0..5).find(|&sequence| cache.pages.of(sequence).contains(&page));
                let own = |sequence: usize| lengths[sequence]..cache.lengths()[sequence];
                let is_new = sequence.is_some_and(|sequence| own(sequence).contains(&row));
                assert!(is_new || before == after, "{parts:?}: row {row} of page {page}, of {sequence:?}");
            }
        }
    }
    assert_eq!(made(), first, "six rows and two were seen");
}

#[test]
fn a_step_of_some_sequences_that_cannot_be_changes_none() {
    let decoder = decoder(None, 1);
    let mut cache = decoder.cache(2, 8, 8).unwrap();
    step_some(&decoder, &mut cache, &[(1, &[1, 2, 3])]);
    let tries: [(&[(usize, &[i64])], &str); 5] = [
        (&[], "no sequence gets any"),
        (&[(2, &[1])], "sequence 2 is none of the cache's"),
        (&[(0, &[1]), (0, &[2])], "sequence 0 is named twice"),
        (&[(0, &[1]), (1, &[])], "sequence 1 gets none"),
        (&[(0, &[1]), (1, &[1; 6])], "9 positions, where 8 are the most"),
    ];
    for (tokens, reason) in tries {
        let refused = decoder.step_some(&mut cache, tokens, &RunOptions::default()).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let unknown = decoder.step_some(&mut cache, &[(0, &[1]), (1, &[WORDS as i64])], &RunOptions::default());
    assert!(matches!(unknown, Err(DecoderError::Session(SessionError::Run(_)))), "a word that the table has not");
    assert_eq!(cache.lengths(), [0, 3]);
    let logits = step_some(&decoder, &mut cache, &[(1, &[4])]);
    close(&logits, &whole(None, &[1, 2, 3, 4]), "as if nothing had been");
}

#[test]
fn a_chunk_of_one_sequence_leaves_the_others_and_is_refused_as_rows_are() {
    for window in [None, Some(4)] {
        let decoder = decoder(window, 2);
        let (mut cache, words, other) = (decoder.cache(3, 8, 40).unwrap(), text(37, 2), text(5, 1));
        step_some(&decoder, &mut cache, &[(0, &other)]);
        for range in [0..20, 20..36, 36..37] {
            let end = range.end;
            let logits = decoder.step_one(&mut cache, 2, &words[range], &RunOptions::default()).unwrap();
            assert_eq!((logits.shape(), cache.lengths()), (&[1, WORDS][..], &[5, 0, end][..]));
            close(logits.as_slice::<f32>().unwrap(), &whole(window, &words[..end]), &format!("{end} tokens"));
        }
        for (sequence, count, reason) in [(3, 1, "3 is none"), (1, 0, "1 gets none"), (2, 4, "41 positions")] {
            let refused = decoder.step_one(&mut cache, sequence, &words[..count], &RunOptions::default()).unwrap_err();
            assert!(refused.to_string().contains(reason), "{refused}");
        }
        let next = [other.as_slice(), &[4]].concat();
        close(&step_some(&decoder, &mut cache, &[(0, &[4])]), &whole(window, &next), "as if nothing had been");
    }
}

#[test]
fn steps_of_some_sequences_over_caches_of_codes_say_what_steps_of_one_say() {
    for bits in [8, 4] {
        let decoder = Decoder::from_graph(quantized(bits), &SessionOptions::default()).unwrap();
        let mut cache = decoder.cache(3, 16, 16).unwrap();
        let mut alone = decoder.cache(1, 16, 16).unwrap();
        let words = text(9, 2);
        for (sequences, tokens) in [(&[2, 0][..], &words[..5]), (&[2], &words[5..6]), (&[1, 2], &words[6..9])] {
            let parts: Vec<(usize, &[i64])> = sequences.iter().map(|&sequence| (sequence, tokens)).collect();
            let logits = step_some(&decoder, &mut cache, &parts);
            let expected = step(&decoder, &mut alone, &[tokens]);
            let own = sequences.iter().position(|&sequence| sequence == 2).unwrap();
            close(&logits[own * WORDS..][..WORDS], &expected, &format!("{bits} bits"));
        }
    }
}

/// The pages that sequences have.
fn taken(cache: &DecoderCache) -> usize {
    let all = (0..cache.lengths().len()).flat_map(|sequence| cache.pages.of(sequence).iter().copied());
    all.collect::<std::collections::BTreeSet<usize>>().len()
}

#[test]
fn texts_that_begin_alike_share_their_pages_until_one_writes_them() {
    for window in [None, Some(200)] {
        let decoder = decoder(window, 2);
        let mut texts = vec![text(2 * PAGE + 50, 1); 3];
        let mut cache = decoder.cache(3, 1, 4 * PAGE).unwrap();
        let options = RunOptions::default();
        decoder.step_one(&mut cache, 0, &texts[0], &options).unwrap();
        for to in [1, 2] {
            cache.fork(0, to, texts[0].len()).unwrap();
        }
        assert_eq!(taken(&cache), 3, "nothing is copied");
        for round in 0..3 {
            let tokens: Vec<i64> = (0..3).map(|sequence| (3 * round + sequence) % WORDS as i64).collect();
            texts.iter_mut().zip(&tokens).for_each(|(text, &token)| text.push(token));
            let each: Vec<(usize, &[i64])> = tokens.chunks(1).enumerate().collect();
            let logits = step_some(&decoder, &mut cache, &each);
            for (sequence, (logits, text)) in logits.chunks_exact(WORDS).zip(&texts).enumerate() {
                close(logits, &whole(window, text), &format!("{window:?}, round {round}, sequence {sequence}"));
            }
            assert_eq!(taken(&cache), 2 + 3, "two whole pages are shared, the last one is each text's own");
        }
        // What was shared is rewound into and written by one: the others keep it.
        cache.rewind(1, PAGE + 3).unwrap();
        texts[1].truncate(PAGE + 3);
        texts[1].extend([5, 1, 2]);
        let logits = step_some(&decoder, &mut cache, &[(1, &[5, 1, 2])]);
        close(&logits, &whole(window, &texts[1]), "rewound");
        assert_eq!(cache.pages.of(1)[0], cache.pages.of(0)[0]);
        assert_ne!(cache.pages.of(1)[1], cache.pages.of(0)[1]);
        for (sequence, text) in texts.iter_mut().enumerate() {
            let more: Vec<i64> = (0..250).map(|at| (at * 7 + sequence as i64) % WORDS as i64).collect();
            text.extend(&more);
            let logits = decoder.step_one(&mut cache, sequence, &more, &options).unwrap();
            close(
                logits.as_slice().unwrap(),
                &whole(window, text),
                &format!("{window:?}, sequence {sequence}, longer"),
            );
        }
        for sequence in 0..3 {
            cache.rewind(sequence, 0).unwrap();
        }
        assert_eq!(taken(&cache), 0);
    }
}

#[test]
fn a_cache_takes_memory_by_what_its_texts_need_together() {
    let decoder = decoder(None, 1);
    let mut cache = decoder.cache(8, 1, 20 * PAGE).unwrap();
    let page = 4 * PAGE * SIZE * 4;
    assert_eq!(cache.bytes(), 8 * page);
    let long = text(6 * PAGE, 1);
    for tokens in long.chunks(256) {
        decoder.step_one(&mut cache, 3, tokens, &RunOptions::default()).unwrap();
    }
    assert_eq!((cache.bytes(), cache.lengths()[3]), (8 * page, 6 * PAGE), "one long text, and others of no position");
    step_some(&decoder, &mut cache, &[(0, &[1]), (1, &[2]), (2, &[3]), (4, &[4])]);
    assert_eq!((cache.bytes(), taken(&cache)), (16 * page, 10));
    cache.rewind(3, 0).unwrap();
    let other = decoder.step_one(&mut cache, 5, &long[..9 * PAGE / 2], &RunOptions::default()).unwrap();
    close(other.as_slice().unwrap(), &whole(None, &long[..9 * PAGE / 2]), "pages that another text had");
    assert_eq!((cache.bytes(), taken(&cache)), (16 * page, 9));
}

#[test]
fn a_sequence_begins_as_a_copy_of_anothers_first_positions() {
    let decoder = decoder(None, 1);
    let texts = [text(12, 1), text(12, 2)];
    let mut cache = decoder.cache(3, 16, 16).unwrap();
    step_some(&decoder, &mut cache, &[(0, &texts[0]), (2, &texts[1])]);
    cache.fork(0, 2, 7).unwrap();
    cache.fork(2, 1, 0).unwrap();
    assert_eq!(cache.lengths(), [12, 0, 7]);
    let logits = step_some(&decoder, &mut cache, &[(2, &[3, 4]), (0, &[5])]);
    close(&logits[..WORDS], &whole(None, &[&texts[0][..7], &[3, 4]].concat()), "the copy");
    close(&logits[WORDS..], &whole(None, &[&texts[0][..], &[5]].concat()), "what it was made of");
    for (from, to, positions) in [(3, 0, 1), (0, 3, 1), (2, 0, 10)] {
        assert!(matches!(cache.fork(from, to, positions), Err(DecoderError::Cache(_))), "{from} {to} {positions}");
    }
    assert_eq!(cache.lengths(), [13, 0, 9]);
}

#[test]
fn rows_of_steps_come_in_classes() {
    let classes: Vec<usize> = (1..=17).map(row_class).collect();
    assert_eq!(classes, [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16, 24]);
}
