//! The settings in a folder's genai_config.json. Reads no other file.

use std::path::{Path, PathBuf};

use kiln::{BeamStop, Decoder, DecoderError, Sampling, SessionOptions};
use serde::Deserialize;

use crate::failure::{Code, Failure, Outcome};
use crate::packable::{self, DecoderFiles, Parts};

/// A folder, checked.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The ONNX file of the decoder.
    pub(crate) model: PathBuf,
    /// The ONNX file that makes embeddings of tokens, where the decoder reads embeddings.
    pub(super) embedding: Option<PathBuf>,
    /// Tokens that end a text.
    pub(crate) ends: Vec<i64>,
    /// The token that begins a text.
    pub(crate) begin: Option<i64>,
    /// The most tokens of a text.
    pub(crate) context: usize,
    /// How tokens are chosen.
    pub(crate) search: Search,
}

/// The part `search`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    /// Whether tokens are drawn.
    pub(crate) do_sample: bool,
    pub(crate) temperature: Option<f32>,
    pub(crate) top_k: Option<usize>,
    pub(crate) top_p: Option<f32>,
    pub(crate) min_p: Option<f32>,
    pub(crate) repetition_penalty: Option<f32>,
    pub(crate) no_repeat_ngram_size: Option<usize>,
    pub(crate) min_length: Option<usize>,
    pub(crate) max_length: Option<usize>,
    pub(crate) num_beams: Option<usize>,
    pub(crate) length_penalty: Option<f32>,
    pub(crate) early_stopping: Option<Early>,
}

/// When a search by beams ends: a boolean or "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Early {
    Is(bool),
    Named(EarlyName),
}

/// See [`Early`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EarlyName {
    Never,
}

impl From<Early> for BeamStop {
    fn from(early: Early) -> BeamStop {
        match early {
            Early::Is(true) => BeamStop::Full,
            Early::Is(false) => BeamStop::Unlikely,
            Early::Named(EarlyName::Never) => BeamStop::Impossible,
        }
    }
}

/// Requested settings for choosing tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) temperature: Option<f32>,
    pub(crate) top_k: Option<usize>,
    pub(crate) top_p: Option<f32>,
    pub(crate) min_p: Option<f32>,
    pub(crate) repetition_penalty: Option<f32>,
    pub(crate) seed: Option<u64>,
}

impl Wish {
    /// Whether it asks that tokens be drawn.
    pub(super) fn draws(&self) -> bool {
        self.temperature.is_some()
            || self.top_k.is_some()
            || self.top_p.is_some()
            || self.min_p.is_some()
            || self.seed.is_some()
    }
}

impl Search {
    /// The number of beams, where there are several.
    ///
    /// # Errors
    ///
    /// Where texts by beams are to be drawn.
    pub(crate) fn beams(&self) -> Outcome<Option<usize>> {
        match self.num_beams {
            Some(beams @ 2..) if self.do_sample => {
                let what = format!("do_sample and num_beams, which is {beams}: no texts are drawn by beams");
                Err(Failure::new(Code::Unsupported, anyhow::anyhow!(what)))
            }
            beams => Ok(beams.filter(|&beams| beams > 1)),
        }
    }

    /// The requested settings, completed by the folder's. The likeliest token is taken unless one of them asks for
    /// drawing.
    pub(crate) fn sampling(&self, wish: &Wish) -> Sampling {
        let repetition_penalty = wish.repetition_penalty.or(self.repetition_penalty).unwrap_or(1.0);
        if !(wish.draws() || self.do_sample) {
            return Sampling { repetition_penalty, ..Sampling::default() };
        }
        Sampling {
            temperature: wish.temperature.or(self.temperature).unwrap_or(1.0),
            top_k: wish.top_k.or(self.top_k).unwrap_or(0),
            top_p: wish.top_p.or(self.top_p).unwrap_or(1.0),
            min_p: wish.min_p.or(self.min_p).unwrap_or(0.0),
            repetition_penalty,
            seed: wish.seed.unwrap_or(0),
        }
    }
}

#[derive(Deserialize)]
struct Config {
    model: Model,
    #[serde(default)]
    search: Search,
}

#[derive(Deserialize)]
struct Model {
    #[serde(flatten)]
    parts: Parts,
    bos_token_id: Option<Tokens>,
    eos_token_id: Option<Tokens>,
    context_length: usize,
}

/// A token or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Tokens {
    One(i64),
    Many(Vec<i64>),
}

impl Tokens {
    /// All tokens.
    pub(super) fn list(tokens: Option<Tokens>) -> Vec<i64> {
        match tokens {
            Some(Tokens::One(token)) => vec![token],
            Some(Tokens::Many(tokens)) => tokens,
            None => Vec::new(),
        }
    }
}

impl Folder {
    /// Reads and checks it.
    pub(crate) fn read(folder: &Path) -> Outcome<Folder> {
        Folder::of(folder, packable::config(folder)?)
    }

    fn of(folder: &Path, Config { model, search }: Config) -> Outcome<Folder> {
        let DecoderFiles { decoder, embedding } = model.parts.files_of(folder)?;
        let path = packable::config_of(folder).display().to_string();
        // The part `search` may only make it shorter.
        let context = search.max_length.map_or(model.context_length, |most| most.min(model.context_length));
        if context == 0 {
            return Err(Failure::usage(format!("{path}: the context has no tokens")));
        }
        Ok(Folder {
            model: decoder,
            embedding,
            ends: Tokens::list(model.eos_token_id),
            begin: Tokens::list(model.bos_token_id).first().copied(),
            context,
            search,
        })
    }

    /// Loads the model.
    pub(crate) fn load(&self, options: &SessionOptions) -> Result<Decoder, DecoderError> {
        match &self.embedding {
            Some(embedding) => Decoder::load_embedded(&self.model, embedding, options),
            None => Decoder::load(&self.model, options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(text: &str) -> Outcome<Folder> {
        Folder::of(Path::new("dir"), serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_folder_says_its_model_ends_and_context() {
        let text = r#"{"model": {"type": "x", "bos_token_id": 1, "eos_token_id": [2, 7], "context_length": 100,
            "decoder": {"filename": "model.onnx", "head_size": 8}}, "search": {"max_length": 60, "top_k": 50,
            "temperature": 0.5, "do_sample": true, "early_stopping": true}}"#;
        let read = folder(text).unwrap();
        assert_eq!((read.model, read.ends, read.begin), ("dir/model.onnx".into(), vec![2, 7], Some(1)));
        assert_eq!((read.context, read.search.do_sample, read.search.top_k), (60, true, Some(50)));
        let plain = r#"{"model": {"eos_token_id": 3, "context_length": 100, "decoder": {"filename": "m.onnx"}}}"#;
        let read = folder(plain).unwrap();
        assert_eq!((read.ends, read.begin, read.context), (vec![3], None, 100));
    }

    #[test]
    fn a_folder_may_ask_for_beams() {
        let search = |text: &str| -> Search { serde_json::from_str(text).unwrap() };
        assert_eq!(search("{}").beams().unwrap(), None);
        assert_eq!(search(r#"{"num_beams": 1, "do_sample": true}"#).beams().unwrap(), None);
        let read = search(r#"{"num_beams": 6, "length_penalty": 2, "early_stopping": "never", "min_length": 5}"#);
        assert_eq!((read.beams().unwrap(), read.length_penalty, read.min_length), (Some(6), Some(2.0), Some(5)));
        assert_eq!(read.early_stopping.map(BeamStop::from), Some(BeamStop::Impossible));
        let stop =
            |value: &str| search(&format!(r#"{{"early_stopping": {value}}}"#)).early_stopping.map(BeamStop::from);
        assert_eq!([stop("true"), stop("false"), stop("null")], [Some(BeamStop::Full), Some(BeamStop::Unlikely), None]);
        assert!(serde_json::from_str::<Search>(r#"{"early_stopping": "soon"}"#).is_err());
        let drawn = search(r#"{"num_beams": 4, "do_sample": true}"#).beams().unwrap_err();
        assert!(drawn.code() == Code::Unsupported && drawn.line().unwrap().contains("num_beams"));
    }

    #[test]
    fn a_model_that_sees_is_run_on_texts_where_it_has_an_embedding_of_tokens() {
        let text = r#"{"model": {"context_length": 9, "decoder": {"filename": "text.onnx"}, "vision": {"filename": "v.onnx"},
            "speech": {}, "embedding": {"filename": "embedding.onnx", "inputs": {"input_ids": "input_ids"}}}}"#;
        let read = folder(text).unwrap();
        assert_eq!((read.model, read.embedding), ("dir/text.onnx".into(), Some("dir/embedding.onnx".into())));
    }

    #[test]
    fn other_kinds_of_models_and_paths_out_of_the_folder_are_refused() {
        let model = |inside: &str, search: &str| {
            let text = format!(r#"{{"model": {{"context_length": 9, {inside}}}, "search": {{{search}}}}}"#);
            let failure = folder(&text).unwrap_err();
            (failure.code(), failure.line().unwrap())
        };
        let decoder = r#""decoder": {"filename": "m.onnx"}"#;
        for part in ["encoder", "vision", "speech"] {
            let (code, line) = model(&format!(r#"{decoder}, "{part}": {{}}"#), "");
            assert!(code == Code::Unsupported && line.contains(&format!("model.{part}")), "{line}");
        }
        assert_eq!(model(r#""decoder": {"pipeline": []}"#, "").0, Code::Unsupported);
        for file in ["/etc/m.onnx", "../m.onnx", "a/../../m.onnx"] {
            let (code, line) = model(&format!(r#""decoder": {{"filename": "{file}"}}"#), "");
            assert!(code == Code::Usage && line.contains("outside of the folder"), "{line}");
        }
        assert!(model(r#""decoder": {}"#, "").1.contains("model.decoder.filename is missing"));
        let (code, line) = model(&format!(r#"{decoder}, "embedding": {{}}"#), "");
        assert!(code == Code::Usage && line.contains("model.embedding.filename is missing"), "{line}");
        assert!(model(decoder, r#""max_length": 0"#).1.contains("no tokens"));
    }
}
