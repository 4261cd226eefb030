//! A folder of a language model that says the alphabet: after each letter the next one; after `z` the two bytes of a
//! letter with dots, an exclamation mark, and the token that ends a text.

use std::fs;

use kiln::{Attr, DType, Dim, Tensor};
use kiln_model::GraphBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Three special tokens, and all bytes.
pub(crate) const WORDS: usize = 3 + 256;
pub(crate) const END: usize = 2;
pub(crate) const SIZE: usize = 8;

pub(crate) fn byte(byte: u8) -> usize {
    3 + usize::from(byte)
}

/// What follows each token.
fn follower(token: usize) -> usize {
    let said: Vec<u8> = (b'a'..=b'z').chain("\u{e4}!".bytes()).collect();
    match said.iter().position(|&one| byte(one) == token) {
        Some(at) => said.get(at + 1).map_or(END, |&next| byte(next)),
        None => byte(b'a'),
    }
}

/// The logit of a token that follows another one. Letters are what may be drawn instead.
pub(crate) fn logit(before: usize, token: usize) -> f32 {
    match token {
        _ if token == follower(before) => 8.0,
        _ if (byte(b'a')..=byte(b'z')).contains(&token) => 4.0,
        _ => -100.0,
    }
}

/// One layer of attention, whose result is multiplied by zeros.
pub(crate) fn model() -> Vec<u8> {
    written(false)
}

/// The same model reading embeddings, and the model that makes them: each token's has a one in the token's place.
pub(crate) fn parts() -> [Vec<u8>; 2] {
    let mut build = GraphBuilder::new("embedding", 21);
    let tokens = build.input("input_ids", DType::I64, ["batch", "new"].map(Dim::from));
    let table = (0..WORDS * WORDS).map(|at| if at / WORDS == at % WORDS { 1.0 } else { 0.0 }).collect();
    let table = build.constant(Tensor::from_vec([WORDS, WORDS], table).unwrap());
    let embeddings = build.op("Gather", &[table, tokens], &[]);
    build.output("inputs_embeds", embeddings);
    [written(true), kiln_model::onnx::write(&build.finish()).unwrap()]
}

fn written(reads_embeddings: bool) -> Vec<u8> {
    let mut build = GraphBuilder::new("alphabet", 21);
    let dims = |names: [&str; 2]| names.map(Dim::from);
    let tokens = if reads_embeddings {
        build.input("inputs_embeds", DType::F32, ["batch".into(), "new".into(), WORDS.into()])
    } else {
        build.input("input_ids", DType::I64, dims(["batch", "new"]))
    };
    let rows = |build: &mut GraphBuilder, table| match reads_embeddings {
        true => build.op("MatMul", &[tokens, table], &[]),
        false => build.op("Gather", &[table, tokens], &[]),
    };
    let mask = build.input("attention_mask", DType::I64, dims(["batch", "total"]));
    let [key, value] = ["key", "value"].map(|part| {
        let dims = ["batch".into(), 1usize.into(), "past".into(), SIZE.into()];
        build.input(&format!("past_key_values.0.{part}"), DType::F32, dims)
    });
    let [one, axis] = [1i64; 2].map(|number| build.constant(Tensor::from_vec([1], vec![number]).unwrap()));
    let sums = build.op("ReduceSum", &[mask, axis], &[("keepdims", 0i64.into())]);
    let last = build.op("Sub", &[sums, one], &[]);
    let shape = build.op("Shape", &[mask], &[]);
    let place = build.constant(Tensor::scalar(1i64));
    let total = build.op("Gather", &[shape, place], &[]);
    let [last, total] = [last, total].map(|value| build.op("Cast", &[value], &[("to", Attr::Int(6))]));
    let mut numbers = |shape: [usize; 2], number: &dyn Fn(usize) -> f32| {
        let values = (0..shape[0] * shape[1]).map(number).collect();
        build.constant(Tensor::from_vec(shape, values).unwrap())
    };
    let table = numbers([WORDS, 3 * SIZE], &|at| (at % 17) as f32 / 17.0);
    let next = numbers([WORDS, WORDS], &|at| logit(at / WORDS, at % WORDS));
    let zeros = numbers([SIZE, WORDS], &|_| 0.0);
    let packed = rows(&mut build, table);
    let inputs = [Some(packed), None, None, Some(key), Some(value), Some(last), Some(total)];
    let made =
        build.op_many("GroupQueryAttention", &inputs, 3, &[("num_heads", 1i64.into()), ("kv_num_heads", 1i64.into())]);
    let nothing = build.op("MatMul", &[made[0], zeros], &[]);
    let said = rows(&mut build, next);
    let logits = build.op("Add", &[said, nothing], &[]);
    build.output("logits", logits);
    build.output("present.0.key", made[1]);
    build.output("present.0.value", made[2]);
    let mut graph = build.finish();
    for node in graph.nodes.iter_mut().filter(|node| node.op == "GroupQueryAttention") {
        (node.domain, node.version) = ("com.microsoft".to_owned(), 1);
    }
    kiln_model::onnx::write(&graph).unwrap()
}

/// Bytes as tokens, after the token that begins a text.
pub(crate) fn tokenizer() -> Value {
    let special = ["<unk>", "<s>", "</s>"];
    let added: Vec<Value> = special
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    let names = special.iter().map(|&name| name.to_owned()).chain((0..256).map(|byte| format!("<0x{byte:02X}>")));
    let vocab: serde_json::Map<String, Value> = names.enumerate().map(|(id, name)| (name, id.into())).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": true, "vocab": vocab, "merges": []},
    })
}

pub(crate) fn config() -> Value {
    json!({
        "model": {"type": "alphabet", "bos_token_id": 1, "eos_token_id": [300, END], "context_length": 64,
                  "decoder": {"filename": "model.onnx"}},
        "search": {"max_length": 48, "do_sample": false, "top_k": 50},
    })
}

pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("model.onnx", &model());
    write("tokenizer.json", tokenizer().to_string().as_bytes());
    write("genai_config.json", config().to_string().as_bytes());
    folder
}
