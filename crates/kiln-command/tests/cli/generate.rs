//! `kiln generate` end to end, on a model that says the [alphabet](crate::alphabet).

use std::fs;
use std::path::Path;

use kiln::{DType, Dim, Tensor};
use kiln_model::GraphBuilder;
use serde_json::json;
use tempfile::TempDir;

use crate::alphabet::{END, SIZE, WORDS, byte, config, folder, logit, model, parts, tokenizer};
use crate::command::{Finished, arg, kiln};
use crate::onnx_file;

fn generate(folder: &Path, flags: &[&str]) -> Finished {
    let flags = ["--threads", "1", "--cache-mode", "memory"].iter().chain(flags);
    kiln(["generate".to_owned(), arg(folder)].into_iter().chain(flags.map(|&flag| flag.to_owned())))
}

/// The text that it says, and the line about it.
fn said(folder: &Path, flags: &[&str]) -> (String, String) {
    let finished = generate(folder, flags);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    let text = finished.stdout.strip_suffix('\n').expect("a line");
    (text.to_owned(), finished.stderr)
}

#[test]
fn a_text_goes_on_until_the_model_ends_it() {
    let folder = folder();
    let (text, line) = said(folder.path(), &["--prompt", "v"]);
    assert_eq!(text, "wxyz\u{e4}!");
    for part in ["2 tokens of the prompt", "; 7 tokens, then ", "tokens/s", "ended by token 2"] {
        assert!(line.contains(part), "'{part}' is not in {line}");
    }
    // An empty prompt is the token that begins a text, which the tokenizer adds.
    assert_eq!(said(folder.path(), &["--prompt", "", "--max-tokens", "3"]).0, "abc");
    let (text, line) = said(folder.path(), &["--prompt", "v", "--max-tokens", "0"]);
    assert!(text.is_empty() && line.contains("ended by --max-tokens"), "{line}");
    // An unfinished character is shown as the replacement character.
    assert_eq!(said(folder.path(), &["--prompt", "y", "--max-tokens", "2"]).0, "z\u{fffd}");
}

#[test]
fn a_folder_of_optimum_or_transformers_js_says_the_same() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::remove_file(path("genai_config.json")).unwrap();
    generate(folder.path(), &["--prompt", "v"]).fails(2, &["cannot read", "genai_config.json"]);
    fs::write(path("config.json"), r#"{"bos_token_id": 1, "eos_token_id": 2, "n_positions": 64}"#).unwrap();
    assert_eq!(said(folder.path(), &["--prompt", "v"]).0, "wxyz\u{e4}!");
    // transformers.js has a folder of ONNX files in several precisions.
    fs::create_dir(path("onnx")).unwrap();
    fs::rename(path("model.onnx"), path("onnx/model.onnx")).unwrap();
    assert_eq!(said(folder.path(), &["--prompt", "v"]).0, "wxyz\u{e4}!");
    fs::rename(path("onnx/model.onnx"), path("onnx/model_q4.onnx")).unwrap();
    generate(folder.path(), &["--prompt", "v"]).fails(2, &["neither model.onnx", "--model-file"]);
    assert_eq!(said(folder.path(), &["--prompt", "v", "--model-file", "onnx/model_q4.onnx"]).0, "wxyz\u{e4}!");
    generate(folder.path(), &["--prompt", "v", "--model-file", "none.onnx"]).fails(2, &["none.onnx"]);
    // Its decoder is packed, too, and runs as before.
    let packed = path("decoder.kpk").display().to_string();
    let pack = |more: &[&str]| {
        let arguments = [&["pack", folder.path().to_str().unwrap(), "-o", &packed], more].concat();
        kiln(arguments.iter().map(|&argument| argument.to_owned()))
    };
    pack(&[]).fails(2, &["no genai_config.json", "model.onnx"]);
    pack(&["--model-file", "onnx/model_q4.onnx"]).ok();
    assert_eq!(said(folder.path(), &["--prompt", "v", "--model-file", "decoder.kpk"]).0, "wxyz\u{e4}!");
    // Its texts end as generation_config.json says.
    let settings = |text: &str| fs::write(path("generation_config.json"), text).unwrap();
    let flags = |more: &[&'static str]| [&["--prompt", "v", "--model-file", "onnx/model_q4.onnx"], more].concat();
    settings(&json!({"eos_token_id": byte(b'y'), "max_length": 40}).to_string());
    assert_eq!(said(folder.path(), &flags(&[])).0, "wx");
    settings(r#"{"num_beams": 4, "length_penalty": 0}"#);
    let (text, line) = said(folder.path(), &flags(&[]));
    assert!(text == "wxyz\u{e4}!" && line.contains("by 4 beams"), "{line}");
    assert_eq!(said(folder.path(), &flags(&["--greedy"])).0, "wxyz\u{e4}!");
    settings("{");
    generate(folder.path(), &flags(&[])).fails(2, &["generation_config.json"]);
    fs::write(path("genai_config.json"), config().to_string()).unwrap();
    generate(folder.path(), &flags(&[])).fails(2, &["--model-file", "genai_config.json"]);
}

#[test]
fn a_text_leaves_the_figures_of_the_machine_in_its_records() {
    let (folder, place) = (folder(), tempfile::tempdir().unwrap());
    let (records, file) = (arg(&place.path().join("records")), arg(&place.path().join("out.json")));
    let common = ["--threads", "2", "--cache-dir", &records];
    let said = kiln(["generate", &arg(folder.path()), "--prompt", "v"].iter().chain(&common));
    assert_eq!(said.code, 0, "{said:?}");
    kiln(["machine", "--json", &file].iter().chain(&common)).ok();
    let told: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let figures = told["figures"].as_array().unwrap();
    assert!(figures.iter().all(|figures| figures["from_record"] == true), "{told}");
}

#[test]
fn a_model_in_parts_is_run_on_texts() {
    let folder = folder();
    let [decoder, embedding] = parts();
    fs::write(folder.path().join("model.onnx"), decoder).unwrap();
    generate(folder.path(), &["--prompt", "v"]).fails(3, &["model.onnx", "inputs_embeds"]);
    let mut config = config();
    config["model"]["embedding"] = json!({"filename": "embedding.onnx"});
    config["model"]["vision"] = json!({"filename": "vision.onnx"});
    fs::write(folder.path().join("genai_config.json"), config.to_string()).unwrap();
    generate(folder.path(), &["--prompt", "v"]).fails(2, &["embedding.onnx"]);
    fs::write(folder.path().join("embedding.onnx"), embedding).unwrap();
    assert_eq!(said(folder.path(), &["--prompt", "v"]).0, "wxyz\u{e4}!");
}

#[test]
fn texts_end_with_the_context_and_before_stops() {
    let folder = folder();
    let prompt = "-".repeat(40);
    let (text, line) = said(folder.path(), &["--prompt", &prompt]);
    assert_eq!(text, "abcdefg", "48 tokens, of which the prompt has 41");
    assert!(line.contains("ended by the model's context"), "{line}");
    for (stop, expected) in [("g", "bcdef"), ("efg", "bcd"), ("efx", "bcdefghij"), ("\u{e4}", "bcdefghij")] {
        let flags = ["--prompt", "a", "--max-tokens", "9", "--stop", stop];
        assert_eq!(said(folder.path(), &flags).0, expected, "{stop}");
    }
    let (text, line) = said(folder.path(), &["--prompt", "a", "--stop", "yz", "--stop", "de"]);
    assert_eq!(text, "bc");
    assert!(line.contains("ended by a stop text"), "{line}");
}

#[test]
fn tokens_are_drawn_where_flags_or_the_folder_say_so() {
    let folder = folder();
    let text = |flags: &[&str]| said(folder.path(), &[&["--prompt", "a", "--max-tokens", "20"], flags].concat()).0;
    let greedy = text(&[]);
    assert_eq!(greedy, "bcdefghijklmnopqrstu");
    assert_eq!(text(&["--greedy"]), greedy);
    assert_eq!(text(&["--temperature", "9", "--top-k", "1"]), greedy);
    assert_eq!(text(&["--temperature", "9", "--top-k", "0", "--min-p", "1"]), greedy);
    assert_eq!(text(&["--top-p", "0.01"]), greedy);
    let drawn = |seed: &str| text(&["--temperature", "4", "--top-k", "0", "--seed", seed]);
    assert_eq!(drawn("1"), drawn("1"));
    assert_ne!(drawn("1"), drawn("2"));
    let mut sampled = config();
    sampled["search"]["do_sample"] = true.into();
    sampled["search"]["temperature"] = 4.into();
    fs::write(folder.path().join("genai_config.json"), sampled.to_string()).unwrap();
    assert_ne!(text(&[]), greedy);
    assert_eq!(text(&["--greedy"]), greedy);
}

#[test]
fn the_penalty_takes_tokens_of_the_text_away() {
    let folder = folder();
    let text = |flags: &[&str]| said(folder.path(), &[&["--prompt", "ba", "--max-tokens", "1"], flags].concat()).0;
    assert_eq!(text(&["--repetition-penalty", "1.9"]), "b", "8 / 1.9 is more than 4");
    assert_eq!(text(&["--repetition-penalty", "2.1"]), "c", "8 / 2.1 is less, and so is 4 / 2.1 of the first letter");
    let mut penal = config();
    penal["search"]["repetition_penalty"] = json!(2.1);
    fs::write(folder.path().join("genai_config.json"), penal.to_string()).unwrap();
    assert_eq!(text(&[]), "c");
    assert_eq!(text(&["--repetition-penalty", "1"]), "b");
}

#[test]
fn a_chat_has_the_prompt_that_the_template_makes() {
    let folder = folder();
    let path = folder.path().join("tokenizer_config.json");
    let chat = |prompt: &str| generate(folder.path(), &["--chat", "--prompt", prompt]);
    chat("X").fails(2, &["--chat", "tokenizer_config.json"]);
    fs::write(&path, r#"{"bos_token": "<s>"}"#).unwrap();
    chat("X").fails(2, &["--chat", "no chat_template"]);
    let template = "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'].lower() }}{% endfor %}";
    fs::write(&path, json!({"bos_token": {"content": "<s>"}, "chat_template": template}).to_string()).unwrap();
    let finished = chat("X");
    assert_eq!(finished.stdout, "yz\u{e4}!\n");
    assert!(finished.stderr.contains("8 tokens of the prompt"), "<s> and 'user: x': {finished:?}");
    fs::write(folder.path().join("chat_template.jinja"), "{{ raise_exception('no') }}").unwrap();
    chat("X").fails(2, &["--chat", "template", "no"]);
}

#[test]
fn folders_and_flags_that_cannot_be_used_are_named() {
    let damaged = |name: &str, bytes: Option<&[u8]>| {
        let folder = folder();
        let path = folder.path().join(name);
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        generate(folder.path(), &["--prompt", "a"])
    };
    for name in ["genai_config.json", "tokenizer.json"] {
        damaged(name, None).fails(2, &["cannot read", name]);
        for bytes in [&b""[..], b"{", b"{}", b"[1]", b"\xff\xff"] {
            damaged(name, Some(bytes)).fails(2, &[name]);
        }
    }
    damaged("model.onnx", None).fails(2, &["model.onnx"]);
    damaged("model.onnx", Some(&model()[..2000])).fails(2, &["model.onnx"]);
    damaged("model.onnx", Some(&onnx_file::dense())).fails(3, &["model.onnx", "no decoder", "GroupQueryAttention"]);
    let mut other = config();
    other["model"]["encoder"] = json!({"filename": "encoder.onnx"});
    damaged("genai_config.json", Some(other.to_string().as_bytes())).fails(3, &["model.encoder", "not taken"]);

    let folder = folder();
    let run = |flags: &[&str]| generate(folder.path(), &[&["--prompt", "a"], flags].concat());
    run(&["--top-p", "2"]).fails(2, &["top_p is 2"]);
    run(&["--temperature=-1"]).fails(2, &["temperature is -1"]);
    run(&["--stop", ""]).fails(2, &["--stop"]);
    run(&["--input", "x=y.npy"]).fails(2, &["--input"]);
    run(&["--decoder-prompt", "a"]).fails(2, &["--decoder-prompt"]);
    run(&["--timestamps"]).fails(2, &["--timestamps"]);
    run(&["--time-limit", "0"]).fails(1, &["model.onnx", "the time limit of 0ns has passed"]);
    generate(folder.path(), &["--prompt", &"a".repeat(48)]).fails(2, &["--prompt", "49", "48"]);
    for flags in [&["--greedy", "--temperature", "1"][..], &["--greedy", "--seed", "1"], &["--top-k", "-3"]] {
        assert_eq!(run(flags).code, 2, "{flags:?}");
    }
}

/// An encoder that passes on which tokens occur, and a decoder that begins with the followers of their average.
/// Cross-attention to keys of zeros gives that average; attention over its own cache is multiplied by zeros.
struct Translator;

impl Translator {
    fn encoder() -> Vec<u8> {
        let mut build = GraphBuilder::new("encoder_model", 17);
        let names = ["batch_size", "encoder_sequence_length"].map(Dim::from);
        let tokens = build.input("input_ids", DType::I64, names);
        let ones = (0..WORDS * WORDS).map(|at| f32::from(u8::from(at / WORDS == at % WORDS))).collect();
        let table = build.constant(Tensor::from_vec([WORDS, WORDS], ones).unwrap());
        let states = build.op("Gather", &[table, tokens], &[]);
        build.output("last_hidden_state", states);
        kiln_model::onnx::write(&build.finish()).unwrap()
    }

    /// A translator that is given the features themselves, [1, WORDS, frames].
    fn of_features() -> Vec<u8> {
        let mut build = GraphBuilder::new("encoder_model", 17);
        let dims = ["batch_size".into(), WORDS.into(), "frames".into()];
        let features = build.input("input_features", DType::F32, dims);
        let states = build.op("Transpose", &[features], &[("perm", [0i64, 2, 1].into())]);
        build.output("last_hidden_state", states);
        kiln_model::onnx::write(&build.finish()).unwrap()
    }

    fn decoder(has_past: bool) -> Vec<u8> {
        let mut build = GraphBuilder::new("decoder", 17);
        let tokens = build.input("input_ids", DType::I64, ["batch_size".into(), "new".into()]);
        let states = ["batch_size".into(), "encoder_sequence_length".into(), WORDS.into()];
        let states = (!has_past).then(|| build.input("encoder_hidden_states", DType::F32, states));
        let mut numbers = |shape: [usize; 2], number: &dyn Fn(usize) -> f32| {
            let values = (0..shape[0] * shape[1]).map(number).collect();
            build.constant(Tensor::from_vec(shape, values).unwrap())
        };
        let table = numbers([WORDS, SIZE], &|at| (at % 17) as f32 / 17.0);
        // Token 0 begins. By itself it has no follower.
        let next = numbers([WORDS, WORDS], &|at| if at < WORDS { 0.0 } else { logit(at / WORDS, at % WORDS) });
        let gate = numbers([WORDS, 1], &|at| f32::from(u8::from(at == 0)));
        let of_source = numbers([WORDS, WORDS], &|at| if at < 3 * WORDS { 0.0 } else { logit(at / WORDS, at % WORDS) });
        let (zeros, none) = (numbers([SIZE, WORDS], &|_| 0.0), numbers([WORDS, SIZE], &|_| 0.0));
        let heads = build.constant(Tensor::from_vec([1], vec![1i64]).unwrap());
        let rows = build.op("Gather", &[table, tokens], &[]);
        let query = build.op("Unsqueeze", &[rows, heads], &[]);
        let mut part = |side: &str, name: &str, size: usize| {
            let length = format!("past_{side}_sequence_length");
            let dims = ["batch_size".into(), 1usize.into(), Dim::from(length.as_str()), size.into()];
            build.input(&format!("past_key_values.0.{side}.{name}"), DType::F32, dims)
        };
        let past = has_past.then(|| [part("decoder", "key", SIZE), part("decoder", "value", SIZE)]);
        let cross = has_past.then(|| [part("encoder", "key", SIZE), part("encoder", "value", WORDS)]);
        let own = [0, 1].map(|place| match past {
            Some(past) => build.op("Concat", &[past[place], query], &[("axis", 2i64.into())]),
            None => build.op("Identity", &[query], &[]),
        });
        let cross = cross.unwrap_or_else(|| {
            let states = states.expect("a decoder without a cache has them");
            let keys = build.op("MatMul", &[states, none], &[]);
            [keys, states].map(|rows| build.op("Unsqueeze", &[rows, heads], &[]))
        });
        let mut attend = |[keys, values]: [kiln::ValueId; 2]| {
            let columns = build.op("Transpose", &[keys], &[("perm", [0i64, 1, 3, 2].into())]);
            let scores = build.op("MatMul", &[query, columns], &[]);
            let weights = build.op("Softmax", &[scores], &[("axis", (-1i64).into())]);
            let result = build.op("MatMul", &[weights, values], &[]);
            build.op("Squeeze", &[result, heads], &[])
        };
        let (own_result, average) = (attend(own), attend(cross));
        let nothing = build.op("MatMul", &[own_result, zeros], &[]);
        let said = build.op("Gather", &[next, tokens], &[]);
        let begins = build.op("Gather", &[gate, tokens], &[]);
        let first = build.op("MatMul", &[average, of_source], &[]);
        let first = build.op("Mul", &[first, begins], &[]);
        let sum = build.op("Add", &[said, nothing], &[]);
        let logits = build.op("Add", &[sum, first], &[]);
        build.output("logits", logits);
        for (name, value) in ["key", "value"].into_iter().zip(own) {
            build.output(&format!("present.0.decoder.{name}"), value);
        }
        if !has_past {
            for (name, value) in ["key", "value"].into_iter().zip(cross) {
                build.output(&format!("present.0.encoder.{name}"), value);
            }
        }
        kiln_model::onnx::write(&build.finish()).unwrap()
    }

    fn folder() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("encoder_model.onnx", &Translator::encoder());
        write("decoder_model.onnx", &Translator::decoder(false));
        write("decoder_with_past_model.onnx", &Translator::decoder(true));
        write("tokenizer.json", tokenizer().to_string().as_bytes());
        let config = json!({"decoder_start_token_id": 0, "eos_token_id": END, "pad_token_id": 0, "n_positions": 32});
        write("config.json", config.to_string().as_bytes());
        folder
    }
}

#[test]
fn an_encoder_reads_the_prompt_and_a_decoder_says_what_follows() {
    let folder = Translator::folder();
    let (text, line) = said(folder.path(), &["--prompt", "v"]);
    assert_eq!(text, "wxyz\u{e4}!");
    for part in ["2 tokens of the prompt", "; 7 tokens, then ", "ended by token 2"] {
        assert!(line.contains(part), "'{part}' is not in {line}");
    }
    assert_eq!(said(folder.path(), &["--prompt", "x", "--stop", "\u{e4}"]).0, "yz");
    assert_eq!(said(folder.path(), &["--prompt", "a", "--max-tokens", "3"]).0, "bcd");
    let drawn = || said(folder.path(), &["--prompt", "a", "--temperature", "2", "--seed", "5"]).0;
    assert_eq!(drawn(), drawn());
}

#[test]
fn beams_find_the_text_of_the_highest_score() {
    let folder = Translator::folder();
    let (text, line) = said(folder.path(), &["--prompt", "v", "--beams", "3", "--length-penalty", "0"]);
    assert_eq!(text, "wxyz\u{e4}!", "the likeliest text is also that of the likeliest tokens");
    // By default the sum is divided by the number of tokens, which favours a long text of almost certain letters.
    assert_eq!(said(folder.path(), &["--prompt", "v", "--beams", "3"]).0, "abcdefghijklmnopqrstuvwxyz\u{e4}!");
    for part in ["2 tokens of the prompt", ", 7 tokens after ", "score -", "texts by 3 beams", "ended by token 2"] {
        assert!(line.contains(part), "'{part}' is not in {line}");
    }
    assert_eq!(said(folder.path(), &["--prompt", "x", "--beams", "2", "--stop", "d"]).0, "abc");
    // The folder's settings, which a flag or drawing tokens replaces.
    let path = folder.path().join("generation_config.json");
    let search = json!({"num_beams": 4, "length_penalty": 0.5, "early_stopping": true, "no_repeat_ngram_size": 2});
    fs::write(&path, search.to_string()).unwrap();
    assert!(said(folder.path(), &["--prompt", "v"]).1.contains("by 4 beams"));
    assert!(said(folder.path(), &["--prompt", "v", "--beams", "2"]).1.contains("by 2 beams"));
    for flags in [&["--greedy"][..], &["--beams", "1"], &["--seed", "3"]] {
        let (_, line) = said(folder.path(), &[&["--prompt", "v"], flags].concat());
        assert!(line.contains("first token after"), "{flags:?}: {line}");
    }
    // Without generation_config.json, config.json has the settings; its length is no limit.
    fs::remove_file(path).unwrap();
    let config = json!({"decoder_start_token_id": 0, "eos_token_id": END, "pad_token_id": 0, "n_positions": 32,
        "num_beams": 6, "max_length": 3});
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let (text, line) = said(folder.path(), &["--prompt", "v"]);
    assert!(text.chars().count() > 3 && line.contains("by 6 beams"), "{line}");
}

#[test]
fn a_text_may_have_a_least_length_and_no_sequence_twice() {
    let folder = Translator::folder();
    let (text, _) = said(folder.path(), &["--prompt", "v", "--min-tokens", "20", "--max-tokens", "20"]);
    assert!(text.starts_with("wxyz\u{e4}!") && text.chars().count() > 6, "{text}");
    let path = folder.path().join("generation_config.json");
    fs::write(&path, json!({"min_length": 12, "no_repeat_ngram_size": 1}).to_string()).unwrap();
    // The text begins with one token, so that eleven are chosen at least.
    let (text, line) = said(folder.path(), &["--prompt", "v", "--max-tokens", "14"]);
    assert!(!line.contains("; 10 tokens") && text.starts_with("wxyz\u{e4}!"), "{line}");
    let mut letters: Vec<char> = text.chars().collect();
    let count = letters.len();
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), count, "{text}");
}

#[test]
fn an_encoder_and_a_decoder_may_have_files_of_several_precisions() {
    let folder = Translator::folder();
    let path = |name: &str| folder.path().join(name);
    for name in ["encoder_model", "decoder_model", "decoder_with_past_model"] {
        fs::rename(path(&format!("{name}.onnx")), path(&format!("{name}_q4.onnx"))).unwrap();
    }
    generate(folder.path(), &["--prompt", "v"]).fails(2, &["neither model.onnx"]);
    let named = ["--model-file", "encoder_model_q4.onnx"];
    assert_eq!(said(folder.path(), &[&["--prompt", "v"], &named[..]].concat()).0, "wxyz\u{e4}!");
    let packed = folder.path().join("packed");
    let pack = ["pack".to_owned(), arg(folder.path()), "-o".to_owned(), arg(&packed)];
    kiln(pack.into_iter().chain(named.map(str::to_owned))).ok();
    for name in ["tokenizer.json", "config.json"] {
        fs::copy(path(name), packed.join(name)).unwrap();
    }
    assert_eq!(said(&packed, &["--prompt", "v"]).0, "wxyz\u{e4}!");
    fs::remove_file(path("decoder_model_q4.onnx")).unwrap();
    generate(folder.path(), &[&["--prompt", "v"], &named[..]].concat()).fails(3, &["decoder_model_q4.onnx"]);
}

#[test]
fn what_a_text_begins_with_and_never_has_is_what_the_folder_says() {
    let folder = Translator::folder();
    let with = |generation: &str, flags: &[&str]| {
        fs::write(folder.path().join("generation_config.json"), generation).unwrap();
        said(folder.path(), &[&["--prompt", "v"], flags].concat()).0
    };
    // After a letter the model says the next one, whatever the encoder has read.
    let forced = json!({"forced_decoder_ids": [[1, byte(b'k')], [2, byte(b'p')]]}).to_string();
    assert_eq!(with(&forced, &["--max-tokens", "3"]), "qrs");
    assert_eq!(with(&forced, &["--max-tokens", "3", "--decoder-prompt", "cd"]), "efg");
    // The model hears 'v', and after it begins with 'w'.
    let languages = json!({"a": byte(b'a'), "w": byte(b'w'), "z": byte(b'z')});
    let heard = json!({"is_multilingual": true, "lang_to_id": languages});
    assert_eq!(with(&heard.to_string(), &["--max-tokens", "3"]), "xyz");
    let heard = json!({"forced_decoder_ids": [[1, null], [2, byte(b'g')]], "lang_to_id": languages});
    assert_eq!(with(&heard.to_string(), &["--max-tokens", "3"]), "hij");
    let never = json!({"suppress_tokens": [byte(b'x')], "bad_words_ids": [[byte(b'a')]]}).to_string();
    assert_eq!(with(&never, &["--max-tokens", "3"]), "wbc", "a letter is as likely as another: of equals the first");
    let first = json!({"begin_suppress_tokens": [byte(b'w'), byte(b'a')]}).to_string();
    assert_eq!(with(&first, &["--max-tokens", "4"]), "bcde");
}

#[test]
fn times_are_put_around_what_is_said() {
    let folder = Translator::folder();
    // The letters from 'u' on are times, and 't' says that there are none. A letter is followed by the next one.
    let generation =
        json!({"no_timestamps_token_id": byte(b't'), "max_initial_timestamp_index": 2, "suppress_tokens": [0, 1]});
    fs::write(folder.path().join("generation_config.json"), generation.to_string()).unwrap();
    let said = |flags: &[&str]| said(folder.path(), &[&["--prompt", "v", "--max-tokens", "21"], flags].concat()).0;
    let timed = said(&["--timestamps"]);
    assert!(timed.starts_with("wabcdefghijklmnopqrsx"), "the model hears 'v' and says 'w', a time: {timed}");
    assert!(said(&[]).starts_with('u'), "it goes on behind 't'");
    let searched = said(&["--timestamps", "--beams", "2"]);
    assert!(searched.starts_with(['u', 'v', 'w']) && !searched.contains('t'), "{searched}");
    fs::remove_file(folder.path().join("generation_config.json")).unwrap();
    generate(folder.path(), &["--prompt", "v", "--timestamps"]).fails(2, &["--timestamps", "no_timestamps_token_id"]);
}

#[test]
fn an_encoder_of_features_reads_files() {
    let folder = Translator::folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("encoder_model.onnx"), Translator::of_features()).unwrap();
    let frames = 3;
    let mut features = vec![0f32; WORDS * frames];
    features[byte(b'm') * frames..][..frames].fill(1.0);
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (1, {WORDS}, {frames}), }}");
    // Padding aligns the elements to a multiple of 64 bytes.
    let header = format!("{header:<117}\n");
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    npy.extend_from_slice(header.as_bytes());
    npy.extend(features.iter().flat_map(|number| number.to_le_bytes()));
    fs::write(path("sound.npy"), npy).unwrap();
    let file = format!("input_features={}", path("sound.npy").display());
    let (text, line) = said(folder.path(), &["--input", &file, "--max-tokens", "3"]);
    assert_eq!(text, "nop");
    assert!(!line.contains("of the prompt") && line.contains("first token after"), "{line}");
    let refused = |flags: &[&str]| {
        let finished = generate(folder.path(), flags);
        (finished.code, finished.stderr)
    };
    let (code, line) = refused(&["--input", &format!("other={}", path("sound.npy").display())]);
    assert!(code == 2 && line.contains("other"), "{line}");
    let (code, line) = refused(&["--input", &file, "--prompt", "v"]);
    assert!(code == 2 && line.contains("--prompt"), "{line}");
    fs::write(path("encoder_model.onnx"), Translator::encoder()).unwrap();
    fs::write(path("sound.npy"), b"x").unwrap();
    let (code, line) = refused(&["--input", &format!("input_ids={}", path("sound.npy").display())]);
    assert!(code != 0 && line.contains("sound.npy"), "{line}");
    assert_eq!(refused(&[]).0, 2, "neither a text nor features");
}

#[test]
fn folders_of_an_encoder_that_cannot_be_run_are_refused() {
    let folder = Translator::folder();
    let path = |name: &str| folder.path().join(name);
    let refused = |flags: &[&str]| {
        let finished = generate(folder.path(), &[&["--prompt", "v"], flags].concat());
        (finished.code, finished.stderr)
    };
    let (code, line) = refused(&["--chat"]);
    assert!(code == 2 && line.contains("--chat"), "{line}");
    fs::write(path("generation_config.json"), r#"{"num_beams": 4, "do_sample": true}"#).unwrap();
    let (code, line) = refused(&[]);
    assert!(code == 3 && line.contains("num_beams") && line.contains("--greedy"), "{line}");
    assert_eq!(said(folder.path(), &["--prompt", "v", "--greedy"]).0, "wxyz\u{e4}!");
    let (code, line) = refused(&["--beams", "2", "--lookup", "4"]);
    assert!(code == 2 && line.contains("look-up"), "{line}");
    let (code, line) = refused(&["--beams", "0"]);
    assert!(code == 2 && line.contains("beams is 0"), "{line}");
    for flags in [&["--beams", "2", "--greedy"][..], &["--beams", "2", "--seed", "1"], &["--early-stopping", "soon"]] {
        assert_eq!(refused(flags).0, 2, "{flags:?}");
    }
    fs::remove_file(path("generation_config.json")).unwrap();
    fs::write(path("generation_config.json"), r#"{"is_multilingual": true}"#).unwrap();
    let (code, line) = refused(&[]);
    assert!(code == 2 && line.contains("--decoder-prompt"), "{line}");
    let unknown = r#"{"is_multilingual": true, "lang_to_id": {"<|en|>": 100000}}"#;
    fs::write(path("generation_config.json"), unknown).unwrap();
    let (code, line) = refused(&[]);
    assert!(code != 0 && line.contains("no token 100000"), "{line}");
    fs::remove_file(path("generation_config.json")).unwrap();
    fs::write(path("encoder_model.onnx"), Translator::of_features()).unwrap();
    let (code, line) = refused(&[]);
    assert!(code == 2 && line.contains("--prompt") && line.contains("reads no text"), "{line}");
    fs::remove_file(path("decoder_with_past_model.onnx")).unwrap();
    let (code, line) = refused(&[]);
    assert!(code == 3 && line.contains("decoder_with_past_model.onnx"), "{line}");
}
