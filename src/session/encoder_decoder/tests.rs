//! Small encoder-decoders give a token at a time the same as for the whole text, without computing keys and values of
//! the encoder again; other models are refused with the file and the name.

mod small;

use self::small::{FEATURES, Form, KINDS, Kind, LAYERS, WORDS, encoder, graphs, whole, with_past};
use super::*;
use crate::session::beams::Beams;
use crate::session::decoder::choose::Sampling;

fn options() -> SessionOptions {
    SessionOptions { threads: 1, ..SessionOptions::default() }
}

fn text(count: usize, seed: usize) -> Vec<i64> {
    (0..count).map(|at| ((at * 7 + seed * 5) * (at + 3) % WORDS) as i64).collect()
}

/// The inputs of an encoder.
fn source(kind: Kind, length: usize) -> Vec<(&'static str, Tensor)> {
    if kind == Kind::Features {
        let values = (0..FEATURES * length).map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0).collect();
        return vec![("input_features", Tensor::from_vec([1, FEATURES, length], values).unwrap())];
    }
    let mask = (0..length).map(|at| i64::from(at + 2 < length)).collect();
    let mask = Tensor::from_vec([1, length], mask).unwrap();
    vec![("input_ids", Tensor::from_vec([1, length], text(length, 3)).unwrap()), ("attention_mask", mask)]
}

/// The logits after a text that the decoder without a cache reads at once.
fn expected(kind: Kind, source: &[(&str, Tensor)], text: &[i64]) -> Vec<f32> {
    let states = Session::from_graph(encoder(kind), &options()).unwrap().run(source).unwrap().swap_remove(0).1;
    let decoder = Session::from_graph(whole(kind), &options()).unwrap();
    let mut inputs = vec![("encoder_hidden_states", states)];
    inputs.push(("input_ids", Tensor::from_vec([1, text.len()], text.to_vec()).unwrap()));
    inputs.extend(
        source.iter().filter(|(name, _)| *name == "attention_mask").map(|(_, mask)| (ENCODER_MASK, mask.clone())),
    );
    let logits = decoder.run(&inputs).unwrap().swap_remove(0).1;
    logits.as_slice::<f32>().unwrap()[(text.len() - 1) * WORDS..].to_vec()
}

fn likeliest(logits: &[f32]) -> i64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|&logit| logit == largest).unwrap() as i64
}

fn close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-4, "{what}: {found}, expected {expected}");
    }
}

fn made(graphs: EncoderDecoderGraphs) -> EncoderDecoder {
    EncoderDecoder::from_graphs(graphs, &options()).unwrap_or_else(|error| panic!("{error}"))
}

fn why(graphs: EncoderDecoderGraphs) -> String {
    match EncoderDecoder::from_graphs(graphs, &options()) {
        Err(DecoderError::Model(reason)) => reason,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    }
}

fn renamed(graph: &mut Graph, from: &str, to: &str) {
    let info = graph.values.iter_mut().find(|info| info.name == from).unwrap();
    to.clone_into(&mut info.name);
}

#[test]
fn tokens_over_a_cache_say_what_the_whole_text_says() {
    for (kind, form) in KINDS.into_iter().flat_map(|kind| [(kind, Form::Apart), (kind, Form::Merged)]) {
        let model = made(graphs(kind, form));
        for length in [9, 4] {
            let source = source(kind, length);
            let encoded = model.encode(&source, &RunOptions::default()).unwrap();
            // The cache grows from 4 positions to 40.
            let mut cache = encoded.cache(4, 40).unwrap();
            let text = text(40, 1);
            for end in 1..=40 {
                let logits = model.step(&mut cache, &text[end - 1..end], &RunOptions::default()).unwrap();
                let what = format!("{kind:?}, {form:?}, {end} tokens");
                close(logits.as_slice().unwrap(), &expected(kind, &source, &text[..end]), &what);
            }
        }
    }
}

#[test]
fn texts_are_those_of_full_recomputation() {
    for (kind, form) in KINDS.into_iter().flat_map(|kind| [(kind, Form::Apart), (kind, Form::Merged)]) {
        let source = source(kind, 7);
        let mut text = vec![2, 5];
        for _ in 0..15 {
            text.push(likeliest(&expected(kind, &source, &text)));
        }
        let encoded = made(graphs(kind, form)).encode(&source, &RunOptions::default()).unwrap();
        let options = GenerateOptions { max_tokens: 15, ..GenerateOptions::default() };
        let mut generator = encoded.generator(options.clone()).unwrap();
        generator.append(&[2, 5]).unwrap();
        let said: Vec<i64> = generator.by_ref().map(Result::unwrap).collect();
        assert_eq!((said.as_slice(), generator.text()), (&text[2..], text.as_slice()), "{kind:?}, {form:?}");
        let sampling = Sampling { temperature: 3.0, seed: 4, ..Sampling::default() };
        let drawn = || {
            let mut generator = encoded.generator(GenerateOptions { sampling, ..options.clone() }).unwrap();
            generator.append(&[2]).unwrap();
            generator.map(Result::unwrap).collect::<Vec<i64>>()
        };
        assert_eq!(drawn(), drawn());
    }
}

#[test]
fn beams_find_the_likeliest_of_all_texts() {
    for (kind, form) in KINDS.into_iter().flat_map(|kind| [(kind, Form::Apart), (kind, Form::Merged)]) {
        let source = source(kind, 7);
        let likely = |text: &[i64]| {
            let logits: Vec<f64> = expected(kind, &source, text).into_iter().map(f64::from).collect();
            let all = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
            logits.into_iter().map(|logit| logit - all).collect::<Vec<f64>>()
        };
        // All texts of two tokens and their sums, the likeliest first.
        let mut texts = Vec::new();
        for (first, sum) in likely(&[2, 5]).into_iter().enumerate() {
            let second = likely(&[2, 5, first as i64]).into_iter().enumerate();
            texts.extend(second.map(|(second, own)| (vec![first as i64, second as i64], sum + own)));
        }
        texts.sort_by(|one, other| other.1.total_cmp(&one.1));
        let encoded = made(graphs(kind, form)).encode(&source, &RunOptions::default()).unwrap();
        let options = GenerateOptions { max_tokens: 2, ..GenerateOptions::default() };
        let beams = Beams { number: WORDS, ..Beams::default() };
        let found = encoded.search(&[2, 5], &options, &beams).unwrap();
        for (found, (tokens, sum)) in found.iter().zip(&texts) {
            assert_eq!(&found.tokens, tokens, "{kind:?}, {form:?}");
            assert!((found.score - sum / 2.0).abs() < 1e-4, "{kind:?}, {form:?}: {}", found.score);
        }
        assert_eq!(found.len(), WORDS);
    }
}

#[test]
fn steps_of_any_length_plan_and_build_nothing_and_copy_no_keys_of_the_encoder() {
    for (kind, form) in KINDS.into_iter().flat_map(|kind| [(kind, Form::Apart), (kind, Form::Merged)]) {
        let model = made(graphs(kind, form));
        let encoded = model.encode(&source(kind, 6), &RunOptions::default()).unwrap();
        let own = |cross: &Tensor| cross.bytes().as_ptr().addr();
        let places: Vec<usize> = encoded.beside.iter().map(own).collect();
        assert!(encoded.beside.len() >= 2 * LAYERS && encoded.bytes() > 0);
        let mut cache = encoded.cache(40, 40).unwrap();
        let mut step = |token: i64| {
            model.step(&mut cache, &[token], &RunOptions::default()).unwrap();
            let [encoder, cross, steps] = model.sessions().map(|session| session.plan_stats().misses);
            (encoder, cross, steps, model.sessions()[2].cache_stats().misses)
        };
        step(1);
        let first = step(2);
        for token in text(30, 2) {
            assert_eq!(step(token), first, "{kind:?}, {form:?}");
        }
        assert_eq!(encoded.beside.iter().map(own).collect::<Vec<_>>(), places, "they are where they were");
    }
}

#[test]
fn texts_of_one_length_go_on_together() {
    let kind = Kind::Relative;
    let model = made(graphs(kind, Form::Apart));
    let sources = [1, 2].map(|seed| text(6, seed));
    let both = Tensor::from_vec([2, 6], sources.concat()).unwrap();
    let encoded = model.encode(&[("input_ids", both)], &RunOptions::default()).unwrap();
    assert_eq!(encoded.sequences(), 2);
    let mut cache = encoded.cache(2, 20).unwrap();
    let said = [text(9, 4), text(9, 5)];
    for at in 0..9 {
        let tokens = [said[0][at], said[1][at]];
        let logits = model.step(&mut cache, &tokens, &RunOptions::default()).unwrap();
        for (own, source) in sources.iter().enumerate() {
            let row = |values: Vec<i64>| Tensor::from_vec([1, 6], values).unwrap();
            let source = [("input_ids", row(source.clone())), ("attention_mask", row(vec![1; 6]))];
            let found = &logits.as_slice::<f32>().unwrap()[own * WORDS..][..WORDS];
            close(found, &expected(kind, &source, &said[own][..=at]), &format!("text {own}, {at}"));
        }
    }
    assert!(matches!(encoded.generator(GenerateOptions::default()), Err(DecoderError::Tokens(_))));
    // A graph that counts positions counts them for one text.
    let model = made(graphs(Kind::Learned, Form::Apart));
    let both = Tensor::from_vec([2, 6], sources.concat()).unwrap();
    let encoded = model.encode(&[("input_ids", both)], &RunOptions::default()).unwrap();
    assert!(matches!(encoded.cache(2, 20), Err(DecoderError::Cache(_))));
}

#[test]
fn models_without_an_output_or_an_input_are_refused_with_its_name() {
    let apart = || graphs(Kind::Learned, Form::Apart);
    let refused = |edit: &dyn Fn(&mut EncoderDecoderGraphs)| {
        let mut graphs = apart();
        edit(&mut graphs);
        why(graphs)
    };
    let steps = |graphs: &mut EncoderDecoderGraphs, from: &str, to: &str| {
        renamed(graphs.with_past.as_mut().unwrap(), from, to);
    };
    let cases: [(&str, String); 8] = [
        (
            "encoder_model: it has no output 'last_hidden_state'",
            refused(&|graphs| {
                renamed(&mut graphs.encoder, "last_hidden_state", "other");
            }),
        ),
        ("no output 'logits'", refused(&|graphs| steps(graphs, "logits", "scores"))),
        ("no output 'present.0.decoder.key'", refused(&|graphs| steps(graphs, "present.0.decoder.key", "other"))),
        ("no input 'input_ids'", refused(&|graphs| steps(graphs, "input_ids", "tokens"))),
        (
            "decoder_model: steps read 'present.1.encoder.value'",
            refused(&|graphs| {
                renamed(&mut graphs.decoder, "present.1.encoder.value", "other");
            }),
        ),
        (
            "decoder_model: its output 'present.7.encoder.key' is read by no step",
            refused(&|graphs| {
                let first = graphs.decoder.outputs[3];
                let name = "present.7.encoder.key".to_owned();
                let more = graphs.decoder.add_value(kiln_model::ir::ValueInfo { name, ..Default::default() });
                let identity = kiln_model::ir::NodeDesc {
                    op: "Identity".to_owned(),
                    version: 16,
                    inputs: vec![Some(first)],
                    outputs: vec![Some(more)],
                    ..Default::default()
                };
                graphs.decoder.nodes.push(identity);
                graphs.decoder.outputs.push(more);
            }),
        ),
        ("decoder_model: it has no input 'use_cache_branch'", refused(&|graphs| graphs.with_past = None)),
        (
            "encoder_model: output 'last_hidden_state' is float64",
            refused(&|graphs| {
                let output = graphs.encoder.outputs[0];
                graphs.encoder.values[output.index()].dtype = Some(DType::F64);
            }),
        ),
    ];
    for (expected, reason) in cases {
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
    let mut merged = graphs(Kind::Learned, Form::Merged);
    merged
        .decoder
        .nodes
        .iter_mut()
        .filter(|node| node.is("If"))
        .for_each(|node| drop(node.attrs.remove("else_branch")));
    assert!(why(merged).contains("has no else_branch"));
}

#[test]
fn biases_that_follow_from_more_than_distances_are_refused() {
    let mut graphs = graphs(Kind::Relative, Form::Apart);
    // Positions are added instead of subtracted, so that buckets follow from more than distances.
    let steps = graphs.with_past.as_mut().unwrap();
    steps.nodes.iter_mut().filter(|node| node.is("Sub")).take(1).for_each(|node| node.op = "Add".to_owned());
    let reason = why(graphs);
    assert!(reason.contains("more than distances"), "{reason}");
}

#[test]
fn inputs_that_do_not_fit_are_typed_errors() {
    let model = made(graphs(Kind::Learned, Form::Apart));
    let wrong = [("input_ids", Tensor::from_vec([1, 3], vec![0f32; 3]).unwrap())];
    assert!(matches!(model.encode(&wrong, &RunOptions::default()), Err(DecoderError::Session(_))));
    assert!(matches!(model.encode(&[], &RunOptions::default()), Err(DecoderError::Session(_))));
    let row = |values: Vec<i64>| Tensor::from_vec([1, values.len()], values).unwrap();
    let other = [("input_ids", row(vec![1, 2, 3])), (ENCODER_MASK, row(vec![1, 0]))];
    let reason = model.encode(&other, &RunOptions::default()).err().map(|error| error.to_string()).unwrap();
    assert!(reason.contains("not known which are hidden"), "{reason}");
    let encoded = model.encode(&[("input_ids", row(vec![1, 2, 3]))], &RunOptions::default()).unwrap();
    let mut cache = encoded.cache(1, 2).unwrap();
    let run = RunOptions::default();
    assert!(matches!(model.step(&mut cache, &[1, 2], &run), Err(DecoderError::Tokens(_))));
    assert!(matches!(model.step(&mut cache, &[WORDS as i64], &run), Err(DecoderError::Session(_))));
    assert_eq!(cache.lengths(), [0]);
    (0..2).for_each(|token| drop(model.step(&mut cache, &[token], &run).unwrap()));
    assert!(matches!(model.step(&mut cache, &[1], &run), Err(DecoderError::Cache(_))));
}

#[test]
fn a_folder_names_the_file_that_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(EncoderDecoderFiles::find(folder.path()).unwrap(), None);
    let inner = folder.path().join("onnx");
    std::fs::create_dir(&inner).unwrap();
    let write = |name: &str, graph: &Graph| std::fs::write(inner.join(name), onnx::write(graph).unwrap()).unwrap();
    write("encoder_model.onnx", &encoder(Kind::Relative));
    write("decoder_model.onnx", &whole(Kind::Relative));
    let missing = EncoderDecoderFiles::find(folder.path()).unwrap_err().to_string();
    assert!(missing.contains("decoder_with_past_model.onnx"), "{missing}");
    write("decoder_with_past_model.onnx", &with_past(Kind::Relative));
    let files = EncoderDecoderFiles::find(folder.path()).unwrap().unwrap();
    assert!(files.with_past.is_some());
    EncoderDecoder::load(&files, &options()).unwrap_or_else(|error| panic!("{error}"));
    write("decoder_model_merged.onnx", &graphs(Kind::Relative, Form::Merged).decoder);
    let files = EncoderDecoderFiles::find(folder.path()).unwrap().unwrap();
    assert_eq!(files.with_past, None);
    let model = EncoderDecoder::load(&files, &options()).unwrap_or_else(|error| panic!("{error}"));
    let encoded = model.encode(&source(Kind::Relative, 5), &RunOptions::default()).unwrap();
    let mut cache = encoded.cache(4, 8).unwrap();
    let logits = model.step(&mut cache, &[3], &RunOptions::default()).unwrap();
    close(logits.as_slice().unwrap(), &expected(Kind::Relative, &source(Kind::Relative, 5), &[3]), "from files");
    // Files of another precision have endings.
    let encoder = inner.join("encoder_model_q4.onnx");
    std::fs::copy(&files.encoder, &encoder).unwrap();
    let missing = EncoderDecoderFiles::beside(&encoder).unwrap_err().to_string();
    assert!(missing.contains("decoder_model_q4.onnx"), "{missing}");
    let decoder = inner.join("decoder_model_merged_q4.onnx");
    std::fs::copy(&files.decoder, &decoder).unwrap();
    let other = EncoderDecoderFiles::beside(&encoder).unwrap();
    assert_eq!(other, Some(EncoderDecoderFiles { encoder, decoder, with_past: None }));
    assert_eq!(EncoderDecoderFiles::beside(&inner.join("vision_model.onnx")).unwrap(), None);
    let absent = EncoderDecoderFiles { encoder: inner.join("none.onnx"), ..files };
    let error = EncoderDecoder::load(&absent, &options()).err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("none.onnx"), "{error}");
}

/// The files of a model in a folder.
fn written(folder: &Path, kind: Kind, form: Form) -> EncoderDecoderFiles {
    let write = |name: &str, graph: &Graph| std::fs::write(folder.join(name), onnx::write(graph).unwrap()).unwrap();
    let EncoderDecoderGraphs { encoder, decoder, with_past } = graphs(kind, form);
    write("encoder_model.onnx", &encoder);
    match with_past {
        Some(with_past) => {
            write("decoder_model.onnx", &decoder);
            write("decoder_with_past_model.onnx", &with_past);
        }
        None => write("decoder_model_merged.onnx", &decoder),
    }
    EncoderDecoderFiles::find(folder).unwrap().unwrap()
}

/// The logits of some steps about a text.
fn said(model: &EncoderDecoder, kind: Kind) -> Vec<Tensor> {
    let run = RunOptions::default();
    let encoded = model.encode(&source(kind, 6), &run).unwrap();
    let mut cache = encoded.cache(2, 20).unwrap();
    text(12, 2).iter().map(|&token| model.step(&mut cache, &[token], &run).unwrap()).collect()
}

fn expect_same(expected: &EncoderDecoder, found: &EncoderDecoder, kind: Kind, what: &str) {
    let same = said(expected, kind).iter().zip(said(found, kind)).all(|(expected, found)| expected.same(&found));
    assert!(same, "{kind:?}, {what}");
}

fn are_packed(model: &EncoderDecoder) -> [bool; 3] {
    model.sessions().map(|session| {
        assert!(session.settle(std::time::Duration::from_secs(60)));
        session.is_packed()
    })
}

#[test]
fn packed_files_give_the_same_bits_and_are_those_of_one_model() {
    let load = |files: &EncoderDecoderFiles| EncoderDecoder::load(files, &options());
    for kind in KINDS {
        for form in [Form::Apart, Form::Merged] {
            let [folder, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let files = written(folder.path(), kind, form);
            EncoderDecoder::pack(&files, to.path(), &options()).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            let packed = EncoderDecoderFiles::find(to.path()).unwrap().unwrap();
            let model = load(&packed).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            assert_eq!(are_packed(&model), [true; 3]);
            expect_same(&load(&files).unwrap(), &model, kind, "packed");
            let why = |files: EncoderDecoderFiles| load(&files).err().expect("it is refused").to_string();
            let mixed = EncoderDecoderFiles { encoder: files.encoder, ..packed.clone() };
            assert!(why(mixed).contains("is a packed model, and"));
            let (decoder, with_past) = (packed.with_past.clone().unwrap(), Some(packed.decoder.clone()));
            let swapped = why(EncoderDecoderFiles { decoder, with_past, ..packed.clone() });
            assert!(swapped.contains("packed for another use"), "{swapped}");
            std::fs::remove_file(&packed.decoder).unwrap();
            let missing = EncoderDecoderFiles::find(to.path()).unwrap_err().to_string();
            assert!(missing.contains("decoder_model.kpk"), "{missing}");
        }
    }
}

#[test]
fn the_second_load_is_that_of_the_packed_forms() {
    for kind in KINDS {
        for form in [Form::Apart, Form::Merged] {
            let folder = tempfile::tempdir().unwrap();
            let files = written(folder.path(), kind, form);
            let cache_dir = Some(folder.path().join("records"));
            let options = SessionOptions { cache_dir, pack: super::super::Pack::Auto, ..options() };
            let load = || EncoderDecoder::load(&files, &options).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            let first = load();
            assert_eq!(are_packed(&first), [false; 3], "{kind:?} {form:?}");
            let second = load();
            assert_eq!(are_packed(&second), [true; 3], "{kind:?} {form:?}");
            expect_same(&first, &second, kind, "found");
        }
    }
}
