//! The settings in config.json and generation_config.json of a decoder that optimum or transformers.js exported.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::exported::file;
use super::folder::{Folder, Search, Tokens};
use crate::failure::{Failure, Outcome};
use crate::packable::{self, EXPORTED_CONFIG, EXPORTED_FILES, EXPORTED_NAMES};

/// The most tokens of a text if config.json does not state it: BLOOM has no table of positions.
const CONTEXT: usize = 2048;

/// What config.json and generation_config.json say about a decoder.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    bos_token_id: Option<Tokens>,
    eos_token_id: Option<Tokens>,
    /// The longest text, by the names that architectures give it.
    max_position_embeddings: Option<usize>,
    n_positions: Option<usize>,
    max_seq_len: Option<usize>,
    seq_length: Option<usize>,
    #[serde(flatten)]
    search: Search,
}

/// The folder of the language model whose ONNX file this is; `None` for a file of another model. A language model's
/// folder has a tokenizer, and config.json names a causal architecture.
///
/// # Errors
///
/// For a config.json beside a tokenizer that cannot be read.
#[cfg(feature = "serve")]
pub(crate) fn home_of(model: &Path) -> Outcome<Option<PathBuf>> {
    #[derive(Deserialize)]
    struct Kind {
        architectures: Option<Vec<String>>,
    }
    let home = packable::home_of(model);
    if !home.join("tokenizer.json").is_file() {
        return Ok(None);
    }
    let kind: Option<Kind> = file(&home.join(EXPORTED_CONFIG))?;
    let is_causal = |name: &String| name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel");
    Ok(kind.and_then(|kind| kind.architectures).is_some_and(|names| names.iter().any(is_causal)).then_some(home))
}

/// Whether a folder has such settings.
pub(super) fn is_hub(folder: &Path) -> bool {
    folder.join(EXPORTED_CONFIG).exists()
}

/// Reads and checks the folder. `model` names the ONNX file in it, where it has another name than exporters give it.
pub(crate) fn read(folder: &Path, model: Option<&Path>) -> Outcome<Folder> {
    let path = folder.join(EXPORTED_CONFIG);
    let within = |failure: Failure| failure.context(path.display().to_string());
    let config = file(&path)?.ok_or_else(|| Failure::usage(format!("cannot read {}", path.display())))?;
    let generation = file(&folder.join("generation_config.json"))?.unwrap_or_default();
    let model = match model {
        Some(model) => folder.join(model),
        None => packable::exported(folder).ok_or_else(|| {
            let names = EXPORTED_NAMES.join(" nor ");
            let folder = folder.display();
            let places = format!("{folder} and {folder}/{EXPORTED_FILES}");
            Failure::usage(format!("{places} have neither {names}: --model-file names the ONNX file"))
        })?,
    };
    of(model, config, generation).map_err(within)
}

fn of(model: PathBuf, config: Config, generation: Config) -> Outcome<Folder> {
    let search = generation.search;
    let most = config.max_position_embeddings.or(config.n_positions).or(config.max_seq_len).or(config.seq_length);
    let most = most.unwrap_or(CONTEXT);
    let context = search.max_length.map_or(most, |length| length.min(most));
    if context == 0 {
        return Err(Failure::usage("the context has no tokens"));
    }
    let ends = Tokens::list(generation.eos_token_id.or(config.eos_token_id));
    let begin = Tokens::list(generation.bos_token_id.or(config.bos_token_id)).first().copied();
    Ok(Folder { model, embedding: None, ends, begin, context, search })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(config: &str, generation: &str) -> Outcome<Folder> {
        of("model.onnx".into(), serde_json::from_str(config).unwrap(), serde_json::from_str(generation).unwrap())
    }

    #[test]
    fn generation_config_overrides_config() {
        let config = r#"{"model_type": "llama", "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 100,
            "temperature": 0.1, "torch_dtype": "float32"}"#;
        let read = folder(config, "{}").unwrap();
        assert_eq!((read.ends, read.begin, read.context), (vec![2], Some(1), 100));
        assert_eq!((read.search.do_sample, read.search.temperature), (false, None), "it only describes the model");
        let generation = r#"{"eos_token_id": [2, 7], "do_sample": true, "temperature": 0.5, "max_length": 60}"#;
        let read = folder(config, generation).unwrap();
        assert_eq!((read.ends, read.begin, read.context), (vec![2, 7], Some(1), 60));
        assert_eq!((read.search.do_sample, read.search.temperature), (true, Some(0.5)));
    }

    #[cfg(feature = "serve")]
    #[test]
    fn a_causal_architecture_with_a_tokenizer_is_a_language_model() {
        let place = tempfile::tempdir().unwrap();
        let (home, model) = (place.path(), place.path().join("onnx/model_q4.onnx"));
        let of_kind = |kind: &str| {
            std::fs::write(home.join(EXPORTED_CONFIG), format!(r#"{{"architectures": ["{kind}"]}}"#)).unwrap();
            home_of(&model).unwrap()
        };
        assert_eq!(of_kind("LlamaForCausalLM"), None, "it has no tokenizer");
        std::fs::write(home.join("tokenizer.json"), "{}").unwrap();
        for kind in ["LlamaForCausalLM", "GPT2LMHeadModel"] {
            assert_eq!(of_kind(kind).as_deref(), Some(home));
        }
        for kind in ["BertModel", "BertForMaskedLM", "T5ForConditionalGeneration"] {
            assert_eq!(of_kind(kind), None);
        }
        for without in ["{}", r#"{"architectures": null}"#] {
            std::fs::write(home.join(EXPORTED_CONFIG), without).unwrap();
            assert_eq!(home_of(&model).unwrap(), None, "{without}");
        }
        std::fs::write(home.join(EXPORTED_CONFIG), "{").unwrap();
        let refused = home_of(&model).unwrap_err().line().unwrap();
        assert!(refused.contains(EXPORTED_CONFIG), "{refused}");
        std::fs::remove_file(home.join(EXPORTED_CONFIG)).unwrap();
        assert_eq!(home_of(&model).unwrap(), None);
    }

    #[test]
    fn the_longest_text_has_several_names_or_none() {
        for name in ["max_position_embeddings", "n_positions", "max_seq_len", "seq_length"] {
            assert_eq!(folder(&format!(r#"{{"{name}": 9}}"#), "{}").unwrap().context, 9);
        }
        let read = folder(r#"{"eos_token_id": null, "bos_token_id": null}"#, "{}").unwrap();
        assert_eq!((read.context, read.ends, read.begin), (CONTEXT, Vec::new(), None));
        assert!(folder(r#"{"n_positions": 0}"#, "{}").is_err());
    }
}
