//! The settings in config.json and generation_config.json of an encoder-decoder exported by optimum or transformers.js.

use std::collections::BTreeMap;
use std::path::Path;

use kiln::{EncoderDecoderFiles, Timestamps};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::folder::{Search, Tokens};
use crate::failure::{Code, Failure, Outcome, WithCode};

/// The most tokens of a text if config.json does not state it: T5 has no table of positions.
const CONTEXT: usize = 512;

/// Whisper's task of writing a sound in its own language.
const TRANSCRIBE: &str = "transcribe";

/// A folder, checked.
#[derive(Debug)]
pub(super) struct Exported {
    pub(super) files: EncoderDecoderFiles,
    /// Tokens that end a text.
    pub(super) ends: Vec<i64>,
    /// The token that begins a text.
    pub(super) start: i64,
    /// The tokens after it, or why they are not known.
    forced: Result<Forced, String>,
    /// The token that says that timestamps are not wanted, and the largest place of the first timestamp.
    untimed: Option<i64>,
    most_first: Option<usize>,
    /// Tokens of them that count as chosen in a text's length: `forced_bos_token_id`.
    pub(super) counted: usize,
    /// Tokens that are never chosen, and tokens that are never chosen first.
    pub(super) suppress: Vec<i64>,
    pub(super) begin_suppress: Vec<i64>,
    /// The most tokens of a text.
    pub(super) context: usize,
    /// How tokens are chosen.
    pub(super) search: Search,
}

/// The tokens behind the one that begins a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Forced {
    /// These.
    Tokens(Vec<i64>),
    /// The likeliest of a model's languages, and then these.
    Language { languages: Vec<i64>, then: Vec<i64> },
}

/// config.json, overridden by generation_config.json.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    decoder_start_token_id: Option<i64>,
    forced_bos_token_id: Option<i64>,
    /// Places in the text, and the tokens there; `None` where the caller chooses the token.
    forced_decoder_ids: Option<Vec<(usize, Option<i64>)>>,
    suppress_tokens: Option<Vec<i64>>,
    begin_suppress_tokens: Option<Vec<i64>>,
    bad_words_ids: Option<Vec<Vec<i64>>>,
    /// Whisper's settings instead of forced tokens.
    is_multilingual: Option<bool>,
    lang_to_id: Option<BTreeMap<String, i64>>,
    task_to_id: Option<BTreeMap<String, i64>>,
    no_timestamps_token_id: Option<i64>,
    max_initial_timestamp_index: Option<usize>,
    eos_token_id: Option<Tokens>,
    pad_token_id: Option<i64>,
    max_position_embeddings: Option<usize>,
    max_target_positions: Option<usize>,
    n_positions: Option<usize>,
    #[serde(flatten)]
    search: Search,
}

impl Config {
    /// How tokens are chosen, where there is no generation_config.json. The length is not among it: transformers wrote
    /// its default of 20 there.
    fn search_of_old(&self) -> Search {
        Search { max_length: None, ..self.search }
    }
}

impl Exported {
    /// Reads and checks the folder; `None` where it has no encoder by the name that exporters give it, or the file
    /// `encoder` in it has another name.
    pub(super) fn read(folder: &Path, encoder: Option<&Path>) -> Outcome<Option<Exported>> {
        let found = match encoder {
            Some(encoder) => EncoderDecoderFiles::beside(&folder.join(encoder))?,
            None => EncoderDecoderFiles::find(folder)?,
        };
        let Some(files) = found else { return Ok(None) };
        let path = folder.join("config.json");
        let config: Config = file(&path)?.ok_or_else(|| Failure::usage(format!("cannot read {}", path.display())))?;
        let generation: Option<Config> = file(&folder.join("generation_config.json"))?;
        // Older exports have no such file, and config.json has its settings.
        let generation = generation.unwrap_or_else(|| Config { search: config.search_of_old(), ..Config::default() });
        Exported::of(files, config, generation).map(Some).map_err(|failure| failure.context(path.display().to_string()))
    }

    fn of(files: EncoderDecoderFiles, config: Config, generation: Config) -> Outcome<Exported> {
        let start = generation.decoder_start_token_id.or(config.decoder_start_token_id);
        let start = start.ok_or_else(|| Failure::usage("decoder_start_token_id is missing"))?;
        let one = generation.forced_bos_token_id.or(config.forced_bos_token_id);
        let mut places = generation.forced_decoder_ids.or(config.forced_decoder_ids).unwrap_or_default();
        places.sort_unstable();
        let is_multilingual = generation.is_multilingual.or(config.is_multilingual).unwrap_or(false);
        let untimed = generation.no_timestamps_token_id.or(config.no_timestamps_token_id);
        let languages: Vec<i64> =
            generation.lang_to_id.or(config.lang_to_id).unwrap_or_default().into_values().collect();
        let tasks = generation.task_to_id.or(config.task_to_id).unwrap_or_default();
        let counted = usize::from(places.is_empty() && !is_multilingual && one.is_some());
        let forced = match &places[..] {
            [] if is_multilingual => language(languages, tasks.get(TRANSCRIBE).copied().into_iter().collect()),
            [] => Ok(Forced::Tokens(one.into_iter().collect())),
            [(1, None), then @ ..] if !languages.is_empty() => {
                at_places(2, then).and_then(|then| language(languages, then))
            }
            _ => at_places(1, &places).map(Forced::Tokens),
        };
        let most_first = generation.max_initial_timestamp_index.or(config.max_initial_timestamp_index);
        let mut suppress = generation.suppress_tokens.or(config.suppress_tokens).unwrap_or_default();
        for word in generation.bad_words_ids.or(config.bad_words_ids).unwrap_or_default() {
            match word[..] {
                [token] => suppress.push(token),
                _ => {
                    let what =
                        format!("bad_words_ids has a word of {} tokens, and words of one are suppressed", word.len());
                    return Err(Failure::new(Code::Unsupported, anyhow::anyhow!(what)));
                }
            }
        }
        let begin_suppress = generation.begin_suppress_tokens.or(config.begin_suppress_tokens).unwrap_or_default();
        let mut ends = Tokens::list(generation.eos_token_id.or(config.eos_token_id));
        // No token follows padding, so it ends a text too.
        ends.extend(generation.pad_token_id.or(config.pad_token_id));
        let most =
            config.max_position_embeddings.or(config.max_target_positions).or(config.n_positions).unwrap_or(CONTEXT);
        let context = generation.search.max_length.map_or(most, |length| length.min(most));
        if context == 0 {
            return Err(Failure::usage("the context has no tokens"));
        }
        let search = generation.search;
        Ok(Exported {
            files,
            ends,
            start,
            forced,
            untimed,
            most_first,
            counted,
            suppress,
            begin_suppress,
            context,
            search,
        })
    }

    /// The tokens behind the one that begins a text with or without timestamps.
    pub(super) fn forced(&self, has_times: bool) -> Outcome<Forced> {
        let unknown = |open| Failure::usage(format!("{open}: --decoder-prompt says what its texts begin with"));
        let forced = self.forced.as_ref().map_err(unknown)?.clone();
        Ok(forced.timed(self.untimed, has_times))
    }

    /// The rules of timestamps, of a model that has any.
    pub(super) fn timestamps(&self) -> Outcome<Timestamps> {
        let none = || Failure::usage("--timestamps: there is no no_timestamps_token_id, behind which timestamps begin");
        let untimed = self.untimed.ok_or_else(none)?;
        Ok(Timestamps { begin: untimed.saturating_add(1), most_first: self.most_first })
    }
}

impl Forced {
    /// The tokens, and behind them the one that says that timestamps are not wanted, unless they are.
    fn timed(mut self, untimed: Option<i64>, has_times: bool) -> Forced {
        let (Forced::Tokens(tokens) | Forced::Language { then: tokens, .. }) = &mut self;
        tokens.pop_if(|last| Some(*last) == untimed);
        tokens.extend(untimed.filter(|_| !has_times));
        self
    }
}

/// A language that the encoder's result decides, where the languages are known.
fn language(languages: Vec<i64>, then: Vec<i64>) -> Result<Forced, String> {
    match languages.is_empty() {
        true => Err("is_multilingual leaves the language open, and there is no lang_to_id".to_owned()),
        false => Ok(Forced::Language { languages, then }),
    }
}

/// The forced tokens of the places from `first` on, which are in order.
fn at_places(first: usize, places: &[(usize, Option<i64>)]) -> Result<Vec<i64>, String> {
    let token = |(expected, &(place, token)): (usize, &(usize, Option<i64>))| {
        let token = token.filter(|_| place == expected);
        token.ok_or_else(|| format!("forced_decoder_ids leaves token {expected} open"))
    };
    (first..).zip(places).map(token).collect()
}

/// A file of JSON, if it exists.
pub(super) fn file<T: DeserializeOwned>(path: &Path) -> Outcome<Option<T>> {
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
        assert_eq!((read.forced(false).unwrap(), read.start), (Forced::Tokens(vec![]), 0));
        assert_eq!((read.ends, read.context), (vec![1, 0], 64));
        let generation = r#"{"decoder_start_token_id": 5, "forced_bos_token_id": 6, "eos_token_id": [7, 8],
            "max_length": 30, "do_sample": true, "top_k": 9, "num_beams": 4}"#;
        let read = exported(config, generation).unwrap();
        assert_eq!((read.forced(false).unwrap(), read.start), (Forced::Tokens(vec![6]), 5));
        assert_eq!((read.ends.clone(), read.context), (vec![7, 8, 0], 30));
        assert_eq!((read.search.do_sample, read.search.top_k), (true, Some(9)));
        assert!(read.search.beams().is_err_and(|failure| failure.code() == Code::Unsupported));
        assert_eq!(exported(r#"{"decoder_start_token_id": 2}"#, "{}").unwrap().context, CONTEXT);
        let of_sounds = r#"{"decoder_start_token_id": 2, "max_target_positions": 448}"#;
        assert_eq!(exported(of_sounds, "{}").unwrap().context, 448);
        assert!(exported("{}", "{}").unwrap_err().line().unwrap().contains("decoder_start_token_id"));
        assert!(exported(config, r#"{"max_length": 0}"#).is_err());
    }

    #[test]
    fn forced_tokens_begin_a_text_and_others_are_suppressed() {
        let config = r#"{"decoder_start_token_id": 50257, "forced_decoder_ids": [[1, 50259], [2, 50359]]}"#;
        let forced = |generation: &str| exported(config, generation).unwrap().forced(false);
        let tokens = |tokens: &[i64]| Forced::Tokens(tokens.to_vec());
        assert_eq!(forced("{}").unwrap(), tokens(&[50259, 50359]));
        assert_eq!(forced(r#"{"forced_decoder_ids": [[2, 8], [1, 7], [3, 9]]}"#).unwrap(), tokens(&[7, 8, 9]));
        assert_eq!(forced(r#"{"forced_decoder_ids": [], "no_timestamps_token_id": 6}"#).unwrap(), tokens(&[6]));
        assert_eq!(forced(r#"{"no_timestamps_token_id": 6}"#).unwrap(), tokens(&[50259, 50359, 6]));
        assert_eq!(forced(r#"{"no_timestamps_token_id": 50359}"#).unwrap(), tokens(&[50259, 50359]));
        for (open, expected) in [
            (r#"{"forced_decoder_ids": [[1, null], [2, 50359]]}"#, "token 1"),
            (r#"{"forced_decoder_ids": [[1, 7], [3, 8]]}"#, "token 2"),
            (r#"{"forced_decoder_ids": [], "is_multilingual": true}"#, "language"),
        ] {
            let line = forced(open).unwrap_err().line().unwrap();
            assert!(line.contains(expected) && line.contains("--decoder-prompt"), "{line}");
        }
        // With timestamps, the token that refuses them is not forced.
        let timed = r#"{"no_timestamps_token_id": 50359, "max_initial_timestamp_index": 50}"#;
        let timed = exported(config, timed).unwrap();
        assert_eq!(timed.forced(true).unwrap(), tokens(&[50259]));
        assert_eq!(timed.timestamps().unwrap(), Timestamps { begin: 50360, most_first: Some(50) });
        assert!(exported(config, "{}").unwrap().timestamps().is_err());
        let read = exported(
            config,
            r#"{"suppress_tokens": [1, 2], "begin_suppress_tokens": [220], "bad_words_ids": [[65000]]}"#,
        );
        let read = read.unwrap();
        assert_eq!((read.suppress, read.begin_suppress), (vec![1, 2, 65000], vec![220]));
        let long = exported(config, r#"{"bad_words_ids": [[1, 2]]}"#).unwrap_err();
        assert!(long.code() == Code::Unsupported && long.line().unwrap().contains("bad_words_ids"));
    }

    #[test]
    fn a_language_is_detected_where_the_folder_knows_all() {
        let config = r#"{"decoder_start_token_id": 1, "is_multilingual": true, "no_timestamps_token_id": 9,
            "lang_to_id": {"<|en|>": 2, "<|de|>": 3}, "task_to_id": {"transcribe": 5, "translate": 6}}"#;
        let forced = |generation: &str| exported(config, generation).unwrap().forced(false);
        // Languages are in the order of their names.
        let detected = |then: &[i64]| Forced::Language { languages: vec![3, 2], then: then.to_vec() };
        assert_eq!(forced("{}").unwrap(), detected(&[5, 9]));
        assert_eq!(forced(r#"{"forced_decoder_ids": [[1, null], [2, 6]]}"#).unwrap(), detected(&[6, 9]));
        assert_eq!(forced(r#"{"forced_decoder_ids": [[1, 2], [2, 6]]}"#).unwrap(), Forced::Tokens(vec![2, 6, 9]));
        assert!(forced(r#"{"forced_decoder_ids": [[1, null], [3, 6]]}"#).is_err());
    }
}
