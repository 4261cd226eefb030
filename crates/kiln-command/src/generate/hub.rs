//! The settings in config.json and generation_config.json of a decoder that optimum or transformers.js exported.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::exported::file;
use super::folder::{Folder, Search, Tokens};
use crate::failure::{Failure, Outcome};

/// Folders of the ONNX file, in the order in which they are searched, and its names.
const PLACES: [&str; 2] = ["", "onnx"];
const NAMES: [&str; 2] = ["model.onnx", "decoder_model_merged.onnx"];

/// The most tokens of a text if config.json does not state it: BLOOM has no table of positions.
const CONTEXT: usize = 2048;

/// The file of a decoder's settings.
const CONFIG: &str = "config.json";

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

/// Whether a folder has such settings.
pub(super) fn is_hub(folder: &Path) -> bool {
    folder.join(CONFIG).exists()
}

/// Reads and checks the folder. `model` names the ONNX file in it, where it has another name than exporters give it.
pub(super) fn read(folder: &Path, model: Option<&Path>) -> Outcome<Folder> {
    let path = folder.join(CONFIG);
    let within = |failure: Failure| failure.context(path.display().to_string());
    let config = file(&path)?.ok_or_else(|| Failure::usage(format!("cannot read {}", path.display())))?;
    let generation = file(&folder.join("generation_config.json"))?.unwrap_or_default();
    let model = match model {
        Some(model) => folder.join(model),
        None => find(folder)?,
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

/// The ONNX file of a folder by the names that exporters give it.
fn find(folder: &Path) -> Outcome<PathBuf> {
    let places = PLACES.into_iter().flat_map(|place| NAMES.into_iter().map(move |name| Path::new(place).join(name)));
    let found = places.map(|place| folder.join(place)).find(|path| path.exists());
    found.ok_or_else(|| {
        let names = NAMES.join(" nor ");
        let folder = folder.display();
        Failure::usage(format!("{folder} and {folder}/onnx have neither {names}: --model-file names the ONNX file"))
    })
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
