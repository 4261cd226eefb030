//! What config.json and generation_config.json say of an encoder-decoder that optimum or transformers.js has exported.

use std::path::Path;

use kiln::EncoderDecoderFiles;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::folder::{Search, Tokens};
use crate::failure::{Code, Failure, Outcome, WithCode};

/// Tokens that a text may have where config.json does not say it: T5 has no table of positions.
const CONTEXT: usize = 512;

/// A folder, checked.
#[derive(Debug)]
pub(super) struct Exported {
    pub(super) files: EncoderDecoderFiles,
    /// Tokens that end a text.
    pub(super) ends: Vec<i64>,
    /// Tokens that begin one.
    pub(super) begin: Vec<i64>,
    /// Tokens that a text may have.
    pub(super) context: usize,
    /// How tokens are chosen.
    pub(super) search: Search,
}

/// config.json, and what generation_config.json says instead.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    decoder_start_token_id: Option<i64>,
    forced_bos_token_id: Option<i64>,
    eos_token_id: Option<Tokens>,
    pad_token_id: Option<i64>,
    max_position_embeddings: Option<usize>,
    n_positions: Option<usize>,
    #[serde(flatten)]
    search: Search,
}

impl Exported {
    /// Reads and checks the folder; `None` where it has no encoder by the name that exporters give it.
    pub(super) fn read(folder: &Path) -> Outcome<Option<Exported>> {
        let Some(files) = EncoderDecoderFiles::find(folder)? else { return Ok(None) };
        let path = folder.join("config.json");
        let config = file(&path)?.ok_or_else(|| Failure::usage(format!("cannot read {}", path.display())))?;
        let generation = file(&folder.join("generation_config.json"))?.unwrap_or_default();
        Exported::of(files, config, generation).map(Some).map_err(|failure| failure.context(path.display().to_string()))
    }

    fn of(files: EncoderDecoderFiles, config: Config, generation: Config) -> Outcome<Exported> {
        let start = generation.decoder_start_token_id.or(config.decoder_start_token_id);
        let start = start.ok_or_else(|| Failure::usage("decoder_start_token_id is missing"))?;
        let forced = generation.forced_bos_token_id.or(config.forced_bos_token_id);
        let mut ends = Tokens::list(generation.eos_token_id.or(config.eos_token_id));
        // Nothing follows what fills texts up.
        ends.extend(generation.pad_token_id.or(config.pad_token_id));
        let most = config.max_position_embeddings.or(config.n_positions).unwrap_or(CONTEXT);
        let context = generation.search.max_length.map_or(most, |length| length.min(most));
        if context == 0 {
            return Err(Failure::usage("the context has no tokens"));
        }
        Ok(Exported {
            files,
            ends,
            begin: std::iter::once(start).chain(forced).collect(),
            context,
            search: generation.search,
        })
    }

    /// Refuses beams, which are more than the likeliest token each time.
    pub(super) fn check_beams(&self) -> Outcome {
        match self.search.num_beams {
            Some(beams @ 2..) => Err(Failure::new(
                Code::Unsupported,
                anyhow::anyhow!("num_beams is {beams}: there is no beam search; --greedy takes the likeliest tokens"),
            )),
            _ => Ok(()),
        }
    }
}

/// A file of JSON, if it is there.
fn file<T: DeserializeOwned>(path: &Path) -> Outcome<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).usage(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).map(Some).usage(|| format!("{} is no configuration", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(config: &str, generation: &str) -> Outcome<Exported> {
        let path = || "model.onnx".into();
        let files = EncoderDecoderFiles { encoder: path(), decoder: path(), with_past: None };
        Exported::of(files, serde_json::from_str(config).unwrap(), serde_json::from_str(generation).unwrap())
    }

    #[test]
    fn what_is_generated_by_comes_before_what_the_model_is() {
        let config = r#"{"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "n_positions": 64,
            "model_type": "t5", "num_beams": 1, "max_length": 20}"#;
        let read = exported(config, "{}").unwrap();
        assert_eq!((read.begin, read.ends, read.context), (vec![0], vec![1, 0], 64));
        let generation = r#"{"decoder_start_token_id": 5, "forced_bos_token_id": 6, "eos_token_id": [7, 8],
            "max_length": 30, "do_sample": true, "top_k": 9, "num_beams": 4}"#;
        let read = exported(config, generation).unwrap();
        assert_eq!((read.begin.clone(), read.ends.clone(), read.context), (vec![5, 6], vec![7, 8, 0], 30));
        assert_eq!((read.search.do_sample, read.search.top_k), (true, Some(9)));
        assert_eq!(read.check_beams().unwrap_err().code(), Code::Unsupported);
        assert_eq!(exported(r#"{"decoder_start_token_id": 2}"#, "{}").unwrap().context, CONTEXT);
        assert!(exported("{}", "{}").unwrap_err().line().unwrap().contains("decoder_start_token_id"));
        assert!(exported(config, r#"{"max_length": 0}"#).is_err());
    }
}
