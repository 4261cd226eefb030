//! Embeddings of texts by fastembed, which knows nothing of Kiln: `ort::set_api` is all that a program adds.
//!
//! A model of its own stands for a real one: each word has a vector in a table, and a text is the mean of its words'
//! vectors, as by fastembed's pooling. `cargo run --release -p on-ort` prints which texts are near to each other.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::error::Error;

use fastembed::{InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel};
use kiln::{DType, Dim, GraphBuilder, Tensor};

/// Words with their vectors: animals point one way, weather another.
const WORDS: [(&str, [f32; 4]); 8] = [
    ("[PAD]", [0.0, 0.0, 0.0, 0.0]),
    ("[UNK]", [0.0, 0.0, 0.1, 0.0]),
    ("the", [0.1, 0.1, 0.0, 0.1]),
    ("cat", [1.0, 0.1, 0.0, 0.2]),
    ("dog", [0.9, 0.2, 0.1, 0.1]),
    ("sleeps", [0.6, 0.1, 0.2, 0.5]),
    ("rain", [0.0, 1.0, 0.3, 0.0]),
    ("falls", [0.1, 0.8, 0.5, 0.1]),
];

/// The network: ids of words in, their vectors out.
fn network() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut build = GraphBuilder::new("words", 17);
    let dims = || [Dim::from("texts"), Dim::from("words")];
    let ids = build.input("input_ids", DType::I64, dims());
    // Models of this kind have a mask, which fastembed gives; this one ignores it.
    build.input("attention_mask", DType::I64, dims());
    let vectors: Vec<f32> = WORDS.iter().flat_map(|(_, vector)| *vector).collect();
    let table = build.constant(Tensor::from_vec([WORDS.len(), 4], vectors)?);
    let found = build.op("Gather", &[table, ids], &[]);
    let size = [Dim::from("texts"), Dim::from("words"), Dim::from(4)];
    build.output_of("last_hidden_state", found, DType::F32, size);
    Ok(kiln_model::onnx::write(&build.finish())?)
}

/// A tokenizer that splits at spaces, in the files that models come with.
fn tokenizer() -> TokenizerFiles {
    let ids: Vec<String> = WORDS.iter().enumerate().map(|(id, (word, _))| format!("\"{word}\": {id}")).collect();
    let tokenizer = format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": null, "decoder": null,
            "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "[UNK]"}}}}"#,
        ids.join(", ")
    );
    TokenizerFiles {
        tokenizer_file: tokenizer.into_bytes(),
        config_file: br#"{"pad_token_id": 0}"#.to_vec(),
        special_tokens_map_file: br#"{"pad_token": "[PAD]", "unk_token": "[UNK]"}"#.to_vec(),
        tokenizer_config_file: br#"{"model_max_length": 64, "pad_token": "[PAD]"}"#.to_vec(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The one line that puts ort on Kiln.
    assert!(ort::set_api(kiln_ort::api()), "another library was chosen before");

    let model = UserDefinedEmbeddingModel::new(network()?, tokenizer()).with_pooling(Pooling::Mean);
    let mut embedding = TextEmbedding::try_new_from_user_defined(model, InitOptionsUserDefined::new())?;
    let texts = ["the cat sleeps", "the dog", "the rain falls", "cat dog"];
    let vectors = embedding.embed(texts, None)?;
    let nearness = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
    for (text, vector) in texts.iter().zip(&vectors) {
        let row: Vec<String> = vectors.iter().map(|other| format!("{:5.2}", nearness(vector, other))).collect();
        println!("{text:16}{}", row.join(" "));
    }
    let [cat, dog, rain, _] = &vectors[..] else { return Err("four texts have four vectors".into()) };
    assert!(nearness(cat, dog) > nearness(cat, rain), "a cat is nearer to a dog than to rain");
    Ok(())
}
