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
    Decoder, DecoderError, EncoderDecoder, Ended, GenerateOptions, Generator, Lookup, Sampling, Session,
    SessionOptions, Tensor,
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
    /// Most tokens to generate; the text also ends with the model's context
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
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
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed"])]
    greedy: bool,
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
        let &ChoiceArgs { greedy, temperature, top_k, top_p, min_p, repetition_penalty, seed } = self;
        if greedy {
            let search = Search { do_sample: false, ..*search };
            return search.sampling(&Wish { repetition_penalty, ..Wish::default() });
        }
        search.sampling(&Wish { temperature, top_k, top_p, min_p, repetition_penalty, seed })
    }
}

impl Args {
    /// How tokens are proposed from the text, if that was asked for.
    fn lookup(&self) -> Option<Lookup> {
        self.lookup.map(|tokens| Lookup { tokens, ngram: self.lookup_ngram })
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
    if !args.inputs.is_empty() || args.decoder_prompt.is_some() {
        let flag = if args.inputs.is_empty() { "--decoder-prompt" } else { "--input" };
        return Err(Failure::usage(format!("{flag} is for folders of an encoder and a decoder")));
    }
    let folder = match !is_built && hub::is_hub(&args.model) {
        true => {
            let folder = hub::read(&args.model, args.model_file.as_deref())?;
            check_beams(args, &folder.search)?;
            folder
        }
        false => Folder::read(&args.model)?,
    };
    let path = args.model.join("tokenizer.json");
    let tokenizer = read_tokenizer(&path)?;
    let prompt = prompt(args, &folder, &tokenizer)?;
    let generate = GenerateOptions {
        sampling: args.choice.sampling(&folder.search),
        ends: folder.ends.clone(),
        max_tokens: args.max_tokens,
        context: folder.context,
        lookup: args.lookup(),
        ..GenerateOptions::default()
    };

    let name = || folder.model.display().to_string();
    let failed = |error: DecoderError| Failure::from(error).context(name());
    let spinner = Progress::spinner(format!("loading {}", folder.model.display()));
    let start = Instant::now();
    let decoder = folder.load(&options);
    drop(spinner);
    let decoder = decoder.map_err(failed)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;

    let mut generator = Generator::new(&decoder, generate).map_err(failed)?;
    generator.append(&prompt).map_err(|error| Failure::from(error).context("--prompt"))?;
    let timing = Timing { load_ms, prompt: Some(prompt.len()), begun: Instant::now(), first: None, tokens: 0 };
    say(args, &tokenizer, &mut generator, timing, screen).map_err(|failure| failure.context(name()))?;
    save(decoder.session())
}

/// Refuses a folder that asks for beam search, unless the flags ask for greedy decoding.
fn check_beams(args: &Args, search: &Search) -> Outcome {
    if args.choice.greedy {
        return Ok(());
    }
    search.check_beams().map_err(|refused| {
        let what = format!("{}; --greedy takes the likeliest tokens", refused.line().unwrap_or_default());
        Failure::new(refused.code(), anyhow::anyhow!(what))
    })
}

/// Has the encoder read the prompt or features, and writes the decoder's text.
fn answer(args: &Args, exported: &Exported, options: &SessionOptions, screen: &mut dyn Write) -> Outcome {
    if args.chat {
        return Err(Failure::usage("--chat is for models that continue a text, and this one has an encoder"));
    }
    check_beams(args, &exported.search)?;
    let tokenizer = read_tokenizer(&args.model.join("tokenizer.json"))?;
    let prompt = match &args.prompt {
        Some(prompt) => Some(tokens(&tokenizer, prompt, true, "--prompt")?),
        None => None,
    };
    if prompt.as_ref().is_some_and(Vec::is_empty) {
        return Err(Failure::usage("--prompt has no tokens"));
    }
    let forced = match &args.decoder_prompt {
        Some(prompt) => Forced::Tokens(tokens(&tokenizer, prompt, false, "--decoder-prompt")?),
        None => exported.forced()?.clone(),
    };
    let generate = GenerateOptions {
        sampling: args.choice.sampling(&exported.search),
        ends: exported.ends.clone(),
        suppress: exported.suppress.clone(),
        begin_suppress: exported.begin_suppress.clone(),
        max_tokens: args.max_tokens,
        context: exported.context,
        lookup: args.lookup(),
        ..GenerateOptions::default()
    };
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
    let encoded = model.encode(&given, &generate.run).map_err(failed)?;
    let mut begin = vec![exported.start];
    match forced {
        Forced::Tokens(tokens) => begin.extend(tokens),
        Forced::Language { languages, then } => {
            begin.extend(encoded.likeliest(exported.start, &languages, &generate.run).map_err(failed)?);
            begin.extend(then);
        }
    }
    let mut generator = encoded.generator(generate).map_err(failed)?;
    generator.append(&begin).map_err(failed)?;
    let timing = Timing { load_ms, prompt: count, begun, first: None, tokens: 0 };
    let said = say(args, &tokenizer, &mut generator, timing, screen);
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
    let ended = continued(args, tokenizer, generator, &mut timing, screen);
    // The text so far has a line of its own, also if an error follows.
    if timing.tokens > 0 || ended.is_ok() {
        writeln!(screen)?;
        screen.flush()?;
    }
    let ended = ended?;
    let mut notes = std::io::stderr().lock();
    writeln!(notes, "{}", timing.line(ended))?;
    if args.lookup.is_some() {
        let stats = generator.lookup_stats();
        writeln!(notes, "{} of {} proposed tokens were chosen", stats.kept, stats.proposed)?;
    }
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

/// Writes the model's text.
fn continued<D: Borrow<Decoder>>(
    args: &Args,
    tokenizer: &Tokenizer,
    generator: &mut Generator<D>,
    timing: &mut Timing,
    screen: &mut dyn Write,
) -> Outcome<End> {
    let (mut pieces, mut stops) = (Pieces::default(), Stops::new(args.stop.clone()));
    let decode = |tokens: &[u32]| {
        tokenizer.decode(tokens, true).map_err(|error| Failure::new(Code::Failed, anyhow::anyhow!("{error}")))
    };
    let show = |text: &str, screen: &mut dyn Write| -> Outcome {
        screen.write_all(text.as_bytes())?;
        Ok(screen.flush()?)
    };
    for token in &mut *generator {
        let token = token?;
        timing.token();
        let token = u32::try_from(token).failed(|| format!("token {token}"))?;
        let piece = pieces.push(token, decode)?;
        show(&stops.push(&piece), screen)?;
        if stops.found() {
            return Ok(End::Stop);
        }
    }
    let rest = pieces.finish(decode)?;
    let rest = stops.push(&rest);
    show(&rest, screen)?;
    if stops.found() {
        return Ok(End::Stop);
    }
    show(&stops.finish(), screen)?;
    Ok(End::Ended(generator.ended()))
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

    fn line(&self, end: End) -> String {
        let end = match end {
            End::Stop => "a stop text".to_owned(),
            End::Ended(Some(Ended::Token(token))) => format!("token {token}"),
            End::Ended(Some(Ended::MaxTokens)) => "--max-tokens".to_owned(),
            End::Ended(Some(Ended::Context)) => "the model's context".to_owned(),
            End::Ended(_) => "an error".to_owned(),
        };
        let first = self.first.unwrap_or(0.0);
        let later = self.tokens.saturating_sub(1);
        let rest = self.begun.elapsed().as_secs_f64() - first / 1e3;
        let rate = if later > 0 { format!(", then {:.1} tokens/s", later as f64 / rest) } else { String::new() };
        let prompt = self.prompt.map_or_else(String::new, |count| format!("{count} tokens of the prompt, "));
        format!(
            "loaded in {} ms; {prompt}first token after {} ms; {} tokens{rate}; ended by {end}",
            milliseconds(self.load_ms),
            milliseconds(first),
            self.tokens,
        )
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
        }
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
