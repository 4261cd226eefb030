//! `kiln generate`: a language model continues a text, from a folder as onnxruntime-genai's builder writes it, or
//! writes one about a text or features of a sound, from a folder of an encoder and a decoder.
//!
//! [`folder`] and [`exported`] read the folder's configuration, [`chat`] makes a prompt from a template, and [`stream`]
//! turns tokens into text. The text goes to the screen token by token, and times go to standard error.

pub(crate) mod chat;
mod exported;
pub(crate) mod folder;
pub(crate) mod hub;
pub(crate) mod stream;

use std::borrow::Borrow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln::session::Port;
use kiln::{
    BeamStop, Beams, Decoder, DecoderError, EncoderDecoder, Ended, GenerateOptions, Generator, Hypothesis, Lookup,
    RunOptions, Sampling, Session, SessionOptions, Tensor,
};
use tokenizers::Tokenizer;

use self::exported::{Exported, Forced};
use self::folder::{Folder, Search, Wish};
use self::stream::{Pieces, Stops};
use crate::failure::{Code, Failure, Outcome, WithCode};
use crate::feed::{self, InputFile};
use crate::progress::Progress;
use crate::setup::{self, DefaultCacheMode, SessionArgs};
use crate::table::milliseconds;

/// The longest wait for what a session does in the background. Measuring the machine takes some 0.1 s.
const MEASURING: Duration = Duration::from_secs(1);

/// The input of an encoder that reads texts.
const TOKENS: &str = "input_ids";

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder: genai_config.json, the ONNX file that it names, and tokenizer.json; or config.json, tokenizer.json,
    /// and model.onnx, decoder_model_merged.onnx, or encoder_model.onnx and the decoder's files, in the folder or in
    /// its folder onnx
    model: PathBuf,
    /// The ONNX file of a folder with config.json in another precision, such as onnx/model_q4.onnx; of an encoder and a
    /// decoder that of the encoder, such as onnx/encoder_model_q4.onnx
    #[arg(long, value_name = "FILE")]
    model_file: Option<PathBuf>,
    /// The text that the model continues, or that its encoder reads
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, required_unless_present = "inputs")]
    prompt: Option<String>,
    /// Features of a sound, which an encoder reads instead of a text, as .npy, .npz (by array name) or .pb; may be
    /// given several times
    #[arg(long = "input", value_name = "[NAME=]FILE")]
    inputs: Vec<InputFile>,
    /// With an encoder: how the decoder's text begins, after the model's first token; replaces the folder's setting
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    decoder_prompt: Option<String>,
    /// With an encoder of sounds: put the times around what is said, by Whisper's rules
    #[arg(long)]
    timestamps: bool,
    /// Most tokens to generate; the text also ends with the model's context
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// Fewest tokens to generate before one that ends the text [default: what min_length of the folder leaves]
    #[arg(long, value_name = "N")]
    min_tokens: Option<usize>,
    /// End the output before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Treat the prompt as a user's message, and apply the folder's chat template
    #[arg(long)]
    chat: bool,
    /// Which outputs of a plain export are which inputs of the next step, as "cache_out.* -> cache_in.*"; may be given
    /// several times
    #[arg(long, value_name = "OUTPUT -> INPUT")]
    alias: Vec<String>,
    /// Propose up to N tokens that followed the text's last tokens when these occurred before; the model reads them in
    /// one step
    #[arg(long, value_name = "N")]
    lookup: Option<usize>,
    /// For --lookup: how many last tokens must have occurred before
    #[arg(long, value_name = "N", default_value_t = 2, requires = "lookup")]
    lookup_ngram: usize,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// How tokens are chosen.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Choosing tokens")]
struct ChoiceArgs {
    /// Always take the likeliest token; this is the default unless a flag below or the folder says otherwise
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed", "beams"])]
    greedy: bool,
    /// Search for the text of the highest score, continuing N texts at the same time; it is shown when it is found
    #[arg(long, value_name = "N", conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed"])]
    beams: Option<usize>,
    /// With beams: divide a text's score by its number of tokens to this power [default: the folder's, or 1]
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    length_penalty: Option<f32>,
    /// With beams: end when as many texts as beams have ended (true), when no text can end with a higher score (never),
    /// or between both (false) [default: the folder's, or false]
    #[arg(long, value_name = "WHEN", value_parser = early)]
    early_stopping: Option<BeamStop>,
    /// Let no sequence of N tokens occur twice; 0 lets all [default: the folder's, or 0]
    #[arg(long, value_name = "N")]
    no_repeat_ngram: Option<usize>,
    /// Draw tokens by their probabilities after dividing the logits by T; 0 is --greedy
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
    /// Draw from the K likeliest tokens; 0 is from all
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw from the likeliest tokens that together have probability P
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Draw from tokens that have at least P times the likeliest token's probability
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// For tokens that are in the text, divide positive logits by R and multiply the others by R
    #[arg(long, value_name = "R")]
    repetition_penalty: Option<f32>,
    /// The same seed draws the same text [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl ChoiceArgs {
    /// The flags, completed by the folder's settings.
    fn sampling(&self, search: &Search) -> Sampling {
        let wish = self.wish();
        if self.greedy || self.beams.is_some() {
            let search = Search { do_sample: false, ..*search };
            return search.sampling(&Wish { repetition_penalty: wish.repetition_penalty, ..Wish::default() });
        }
        search.sampling(&wish)
    }

    fn wish(&self) -> Wish {
        let &ChoiceArgs { temperature, top_k, top_p, min_p, repetition_penalty, seed, .. } = self;
        Wish { temperature, top_k, top_p, min_p, repetition_penalty, seed }
    }

    /// How texts are searched, where the flags or the folder ask for several beams. Flags that draw tokens ask for none.
    fn search(&self, search: &Search, counted: usize) -> Outcome<Option<Beams>> {
        let number = match self.beams {
            Some(beams) => Some(beams),
            None if self.greedy || self.wish().draws() => None,
            None => search.beams()?,
        };
        let default = Beams::default();
        // One beam takes the likeliest tokens.
        Ok(number.filter(|&number| number != 1).map(|number| Beams {
            number,
            length_penalty: self.length_penalty.or(search.length_penalty).unwrap_or(default.length_penalty),
            stop: self.early_stopping.or(search.early_stopping.map(BeamStop::from)).unwrap_or(default.stop),
            counted,
        }))
    }
}

/// A value of `--early-stopping`.
fn early(text: &str) -> Result<BeamStop, &'static str> {
    match text {
        "true" => Ok(BeamStop::Full),
        "false" => Ok(BeamStop::Unlikely),
        "never" => Ok(BeamStop::Impossible),
        _ => Err("it is true, false or never"),
    }
}

impl Args {
    /// How a text is continued that begins with `begun` tokens, by the flags and what the folder says.
    fn text(&self, search: &Search, begun: usize) -> GenerateOptions {
        let left = search.min_length.unwrap_or(0).saturating_sub(begun);
        GenerateOptions {
            sampling: self.choice.sampling(search),
            no_repeat_ngram: self.choice.no_repeat_ngram.or(search.no_repeat_ngram_size).unwrap_or(0),
            min_tokens: self.min_tokens.unwrap_or(left),
            max_tokens: self.max_tokens,
            lookup: self.lookup.map(|tokens| Lookup { tokens, ngram: self.lookup_ngram }),
            ..GenerateOptions::default()
        }
    }
}

/// Saves a session's records, with the figures of the machine where they are lacking: a text seldom pauses for as long
/// as measuring takes.
fn save(session: &Session) -> Outcome {
    session.settle(MEASURING);
    setup::save(session, &mut std::io::stderr().lock())
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let options = SessionOptions { alias: args.alias.clone(), ..args.session.options(DefaultCacheMode::Records)? };
    if args.stop.iter().any(String::is_empty) {
        return Err(Failure::usage("--stop: an empty text would end everything"));
    }
    let is_built = args.model.join("genai_config.json").exists();
    if is_built && args.model_file.is_some() {
        return Err(Failure::usage("--model-file: genai_config.json names the ONNX file"));
    }
    if !is_built && let Some(exported) = Exported::read(&args.model, args.model_file.as_deref())? {
        return answer(args, &exported, &options, screen);
    }
    let of_encoders = [
        ("--input", !args.inputs.is_empty()),
        ("--decoder-prompt", args.decoder_prompt.is_some()),
        ("--timestamps", args.timestamps),
    ];
    if let Some((flag, _)) = of_encoders.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!("{flag} is for folders of an encoder and a decoder")));
    }
    let folder = match !is_built && hub::is_hub(&args.model) {
        true => hub::read(&args.model, args.model_file.as_deref())?,
        false => Folder::read(&args.model)?,
    };
    let beams = args.choice.search(&folder.search, 0).map_err(|failure| greedily(failure, args))?;
    let path = args.model.join("tokenizer.json");
    let tokenizer = read_tokenizer(&path)?;
    let prompt = prompt(args, &folder, &tokenizer)?;
    let generate = GenerateOptions {
        ends: folder.ends.clone(),
        context: folder.context,
        ..args.text(&folder.search, prompt.len())
    };

    let name = || folder.model.display().to_string();
    let failed = |error: DecoderError| Failure::from(error).context(name());
    let spinner = Progress::spinner(format!("loading {}", folder.model.display()));
    let start = Instant::now();
    let decoder = folder.load(&options);
    drop(spinner);
    let decoder = decoder.map_err(failed)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;

    let timing = Timing { load_ms, prompt: Some(prompt.len()), begun: Instant::now(), first: None, tokens: 0 };
    let said = match beams {
        Some(beams) => {
            let found = decoder.search(&prompt, &generate, &beams).map_err(failed)?;
            show(args, &tokenizer, found, &beams, timing, screen)
        }
        None => {
            let mut generator = Generator::new(&decoder, generate).map_err(failed)?;
            generator.append(&prompt).map_err(|error| Failure::from(error).context("--prompt"))?;
            say(args, &tokenizer, &mut generator, timing, screen)
        }
    };
    said.map_err(|failure| failure.context(name()))?;
    save(decoder.session())
}

/// Says how a folder is used that asks for what no search does.
fn greedily(refused: Failure, args: &Args) -> Failure {
    let what = refused.line().unwrap_or_default();
    let what = format!("{}: {what}; --greedy takes the likeliest tokens, and --beams searches", args.model.display());
    Failure::new(refused.code(), anyhow::anyhow!(what))
}

/// Has the encoder read the prompt or features, and writes the decoder's text.
fn answer(args: &Args, exported: &Exported, options: &SessionOptions, screen: &mut dyn Write) -> Outcome {
    if args.chat {
        return Err(Failure::usage("--chat is for models that continue a text, and this one has an encoder"));
    }
    let tokenizer = read_tokenizer(&args.model.join("tokenizer.json"))?;
    let prompt = match &args.prompt {
        Some(prompt) => Some(tokens(&tokenizer, prompt, true, "--prompt")?),
        None => None,
    };
    if prompt.as_ref().is_some_and(Vec::is_empty) {
        return Err(Failure::usage("--prompt has no tokens"));
    }
    let (forced, counted) = match &args.decoder_prompt {
        Some(prompt) => (Forced::Tokens(tokens(&tokenizer, prompt, false, "--decoder-prompt")?), 0),
        None => (exported.forced(args.timestamps)?, exported.counted),
    };
    let timestamps = args.timestamps.then(|| exported.timestamps()).transpose()?;
    let beams = args.choice.search(&exported.search, counted).map_err(|failure| greedily(failure, args))?;
    let failed = |error: DecoderError| Failure::from(error).context(args.model.display().to_string());
    let spinner = Progress::spinner(format!("loading {}", args.model.display()));
    let start = Instant::now();
    let model = EncoderDecoder::load(&exported.files, options);
    drop(spinner);
    let model = model.map_err(failed)?;
    let (load_ms, begun) = (start.elapsed().as_secs_f64() * 1e3, Instant::now());
    let count = prompt.as_ref().map(Vec::len);
    let given = given(args, model.inputs(), prompt)?;
    let given: Vec<(&str, Tensor)> = given.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let run = RunOptions::default();
    let encoded = model.encode(&given, &run).map_err(failed)?;
    let mut begin = vec![exported.start];
    match forced {
        Forced::Tokens(tokens) => begin.extend(tokens),
        Forced::Language { languages, then } => {
            begin.extend(encoded.likeliest(exported.start, &languages, &run).map_err(failed)?);
            begin.extend(then);
        }
    }
    let generate = GenerateOptions {
        ends: exported.ends.clone(),
        suppress: exported.suppress.clone(),
        begin_suppress: exported.begin_suppress.clone(),
        timestamps,
        context: exported.context,
        ..args.text(&exported.search, begin.len())
    };
    let timing = Timing { load_ms, prompt: count, begun, first: None, tokens: 0 };
    let said = match beams {
        Some(beams) => {
            let found = encoded.search(&begin, &generate, &beams).map_err(failed)?;
            show(args, &tokenizer, found, &beams, timing, screen)
        }
        None => {
            let mut generator = encoded.generator(generate).map_err(failed)?;
            generator.append(&begin).map_err(failed)?;
            say(args, &tokenizer, &mut generator, timing, screen)
        }
    };
    said.map_err(|failure| failure.context(args.model.display().to_string()))?;
    model.sessions().into_iter().try_for_each(save)
}

/// The inputs of an encoder: files, and the prompt as `input_ids`.
fn given(args: &Args, ports: &[Port], prompt: Option<Vec<i64>>) -> Outcome<Vec<(String, Tensor)>> {
    let mut given = feed::read_files(ports, &args.inputs)?;
    let model = args.model.display();
    if let Some(prompt) = prompt {
        if !ports.iter().any(|port| port.name == TOKENS) || given.iter().any(|(name, _)| name == TOKENS) {
            return Err(Failure::usage(format!("--prompt: the encoder of {model} reads no text beside --input")));
        }
        let tokens = Tensor::from_vec([1, prompt.len()], prompt).failed(|| "--prompt".to_owned())?;
        given.push((TOKENS.to_owned(), tokens));
    }
    // The mask of tokens is all ones where it is not given.
    let has_tokens = given.iter().any(|(name, _)| name == TOKENS);
    let is_open = |port: &&Port| {
        given.iter().all(|(name, _)| *name != port.name) && !(has_tokens && port.name == "attention_mask")
    };
    match ports.iter().find(is_open) {
        Some(port) => {
            let name = &port.name;
            Err(Failure::usage(format!("the encoder of {model} reads '{name}': --input {name}=FILE gives it")))
        }
        None => Ok(given),
    }
}

/// Writes the model's text, and the times.
fn say<D: Borrow<Decoder>>(
    args: &Args,
    tokenizer: &Tokenizer,
    generator: &mut Generator<D>,
    mut timing: Timing,
    screen: &mut dyn Write,
) -> Outcome {
    let is_stopped = written(args, tokenizer, &mut *generator, &mut timing, screen)?;
    let ended = if is_stopped { End::Stop } else { End::Ended(generator.ended()) };
    let mut notes = std::io::stderr().lock();
    writeln!(notes, "{}", timing.line(ended))?;
    if args.lookup.is_some() {
        let stats = generator.lookup_stats();
        writeln!(notes, "{} of {} proposed tokens were chosen", stats.kept, stats.proposed)?;
    }
    Ok(())
}

/// Writes the best of the texts that a search has found, and the times.
fn show(
    args: &Args,
    tokenizer: &Tokenizer,
    found: Vec<Hypothesis>,
    beams: &Beams,
    mut timing: Timing,
    screen: &mut dyn Write,
) -> Outcome {
    let milliseconds = timing.begun.elapsed().as_secs_f64() * 1e3;
    let count = found.len();
    let Some(best) = found.into_iter().next() else {
        return Err(Failure::new(Code::Failed, anyhow::anyhow!("the search has found no text")));
    };
    let is_stopped = written(args, tokenizer, best.tokens.into_iter().map(Ok), &mut timing, screen)?;
    let end = if is_stopped { End::Stop } else { End::Ended(Some(best.ended)) };
    let score = format!("score {:.4}, the highest of {count} texts by {} beams", best.score, beams.number);
    writeln!(std::io::stderr().lock(), "{}", timing.line_of_search(milliseconds, &score, end))?;
    Ok(())
}

/// Reads a tokenizer's file.
pub(crate) fn read_tokenizer(path: &Path) -> Outcome<Tokenizer> {
    let bytes = std::fs::read(path).usage(|| format!("cannot read {}", path.display()))?;
    let tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| anyhow::anyhow!("{error}"));
    let mut tokenizer = tokenizer.usage(|| format!("{} is no tokenizer", path.display()))?;
    // Padding and truncation are for batches of one length.
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Ok(tokenizer)
}

/// The tokens of a flag's text, with or without those that the tokenizer adds to texts.
fn tokens(tokenizer: &Tokenizer, text: &str, adds: bool, flag: &str) -> Outcome<Vec<i64>> {
    let encoded = tokenizer.encode(text, adds).map_err(|error| Failure::usage(format!("{flag}: {error}")))?;
    Ok(encoded.get_ids().iter().copied().map(i64::from).collect())
}

/// The prompt's tokens.
fn prompt(args: &Args, folder: &Folder, tokenizer: &Tokenizer) -> Outcome<Vec<i64>> {
    // A template writes the tokens that begin a text; else the tokenizer adds them.
    let text = args.prompt.as_deref().unwrap_or_default();
    let mut tokens = match args.chat {
        true => tokens(tokenizer, &chat::prompt(&args.model, text)?, false, "--prompt")?,
        false => tokens(tokenizer, text, true, "--prompt")?,
    };
    if tokens.is_empty() {
        // An empty prompt, with a tokenizer that adds no tokens.
        tokens.extend(folder.begin);
    }
    if tokens.is_empty() {
        return Err(Failure::usage("--prompt has no tokens, and the model none that a text begins with"));
    }
    Ok(tokens)
}

/// Why the text ended.
#[derive(Clone, Copy)]
enum End {
    Stop,
    Ended(Option<Ended>),
}

impl std::fmt::Display for End {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Stop => text.write_str("a stop text"),
            End::Ended(Some(Ended::Token(token))) => write!(text, "token {token}"),
            End::Ended(Some(Ended::MaxTokens)) => text.write_str("--max-tokens"),
            End::Ended(Some(Ended::Context)) => text.write_str("the model's context"),
            End::Ended(_) => text.write_str("an error"),
        }
    }
}

/// Writes the text of these tokens on a line of its own, also if an error follows. Returns whether a stop text ended it.
fn written(
    args: &Args,
    tokenizer: &Tokenizer,
    tokens: impl Iterator<Item = Result<i64, DecoderError>>,
    timing: &mut Timing,
    screen: &mut dyn Write,
) -> Outcome<bool> {
    let is_stopped = continued(args, tokenizer, tokens, timing, screen);
    if timing.tokens > 0 || is_stopped.is_ok() {
        writeln!(screen)?;
        screen.flush()?;
    }
    is_stopped
}

/// Writes the text of these tokens as they come. Returns whether a stop text ended it.
fn continued(
    args: &Args,
    tokenizer: &Tokenizer,
    tokens: impl Iterator<Item = Result<i64, DecoderError>>,
    timing: &mut Timing,
    screen: &mut dyn Write,
) -> Outcome<bool> {
    let (mut pieces, mut stops) = (Pieces::default(), Stops::new(args.stop.clone()));
    let decode = |tokens: &[u32]| {
        tokenizer.decode(tokens, true).map_err(|error| Failure::new(Code::Failed, anyhow::anyhow!("{error}")))
    };
    let show = |text: &str, screen: &mut dyn Write| -> Outcome {
        screen.write_all(text.as_bytes())?;
        Ok(screen.flush()?)
    };
    for token in tokens {
        let token = token?;
        timing.token();
        let token = u32::try_from(token).failed(|| format!("token {token}"))?;
        let piece = pieces.push(token, decode)?;
        show(&stops.push(&piece), screen)?;
        if stops.found() {
            return Ok(true);
        }
    }
    let rest = pieces.finish(decode)?;
    let rest = stops.push(&rest);
    show(&rest, screen)?;
    if stops.found() {
        return Ok(true);
    }
    show(&stops.finish(), screen)?;
    Ok(false)
}

/// The times of a text.
struct Timing {
    load_ms: f64,
    /// Tokens of the prompt, where there is one.
    prompt: Option<usize>,
    begun: Instant,
    /// Milliseconds until the first token.
    first: Option<f64>,
    tokens: usize,
}

impl Timing {
    /// Counts a token that has come.
    fn token(&mut self) {
        self.tokens += 1;
        if self.first.is_none() {
            self.first = Some(self.begun.elapsed().as_secs_f64() * 1e3);
        }
    }

    /// The line of a text that came token by token.
    fn line(&self, end: End) -> String {
        let first = self.first.unwrap_or(0.0);
        let later = self.tokens.saturating_sub(1);
        let rest = self.begun.elapsed().as_secs_f64() - first / 1e3;
        let rate = if later > 0 { format!(", then {:.1} tokens/s", later as f64 / rest) } else { String::new() };
        self.around(&format!("first token after {} ms; {} tokens{rate}", milliseconds(first), self.tokens), end)
    }

    /// The line of a text that came as a whole; `took` is in milliseconds.
    fn line_of_search(&self, took: f64, score: &str, end: End) -> String {
        self.around(&format!("{} tokens after {} ms, {score}", self.tokens, milliseconds(took)), end)
    }

    fn around(&self, text: &str, end: End) -> String {
        let prompt = self.prompt.map_or_else(String::new, |count| format!("{count} tokens of the prompt, "));
        format!("loaded in {} ms; {prompt}{text}; ended by {end}", milliseconds(self.load_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> ChoiceArgs {
        ChoiceArgs {
            greedy: false,
            temperature: None,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: None,
            seed: None,
            beams: None,
            length_penalty: None,
            early_stopping: None,
            no_repeat_ngram: None,
        }
    }

    #[test]
    fn beams_are_those_of_the_flags_or_else_of_the_folder() {
        let folder = Search { num_beams: Some(5), length_penalty: Some(0.6), ..Search::default() };
        let beams = choice().search(&folder, 1).unwrap().unwrap();
        assert_eq!(beams, Beams { number: 5, length_penalty: 0.6, stop: BeamStop::Unlikely, counted: 1 });
        let flags = ChoiceArgs { beams: Some(3), early_stopping: Some(BeamStop::Full), ..choice() };
        let beams = flags.search(&folder, 0).unwrap().unwrap();
        assert_eq!(beams, Beams { number: 3, length_penalty: 0.6, stop: BeamStop::Full, counted: 0 });
        assert_eq!(flags.search(&Search::default(), 0).unwrap(), Some(Beams { length_penalty: 1.0, ..beams }));
        let none = [
            ChoiceArgs { greedy: true, ..choice() },
            ChoiceArgs { beams: Some(1), ..choice() },
            ChoiceArgs { temperature: Some(0.5), ..choice() },
        ];
        assert!(none.iter().all(|choice| choice.search(&folder, 0).unwrap().is_none()));
        assert!(choice().search(&Search::default(), 0).unwrap().is_none());
        let drawn = Search { do_sample: true, ..folder };
        assert!(choice().search(&drawn, 0).is_err());
        assert_eq!(flags.sampling(&drawn), Sampling::default(), "beams draw nothing");
    }

    #[test]
    fn flags_come_before_what_the_folder_says() {
        let search =
            Search { temperature: Some(0.7), top_k: Some(50), repetition_penalty: Some(1.1), ..Search::default() };
        let greedy = Sampling { repetition_penalty: 1.1, ..Sampling::default() };
        assert_eq!(choice().sampling(&search), greedy);
        let sampling = ChoiceArgs { seed: Some(3), top_k: Some(4), ..choice() }.sampling(&search);
        let expected = Sampling { temperature: 0.7, top_k: 4, repetition_penalty: 1.1, seed: 3, ..Sampling::default() };
        assert_eq!(sampling, expected);
        let drawn = Search { do_sample: true, ..search };
        assert_eq!(choice().sampling(&drawn), Sampling { top_k: 50, seed: 0, ..expected });
        assert_eq!(ChoiceArgs { greedy: true, ..choice() }.sampling(&drawn), greedy);
        let penalty = ChoiceArgs { repetition_penalty: Some(2.0), ..choice() };
        assert_eq!(penalty.sampling(&Search::default()), Sampling { repetition_penalty: 2.0, ..Sampling::default() });
    }
}
