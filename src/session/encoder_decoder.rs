//! Models of an encoder and a decoder, in the two or three files that exporters write.
//!
//! The encoder runs once for a text. From the decoder without a cache only the keys and values of cross-attention are
//! kept. They depend only on the encoder's result, so they too are computed once ([`EncoderDecoder::encode`]). The
//! decoder with a cache is a [`Decoder`] whose steps have one token. All steps get these tensors without a copy, and
//! its own cache grows in place. A merged decoder contains both decoders ([`branch`]).

mod packed;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_model::Graph;
use kiln_model::ir::{Dim, ValueId};
use kiln_model::onnx;
use kiln_tensor::threads::Threads;
use kiln_tensor::{BufferPool, DType, Tensor, TensorError, TensorSpec};

use super::compile::{input_ports, output_ports};
use super::decoder::choose::numbers::likeliest;
use super::decoder::rewrite::{drop_unread, refused};
use super::decoder::{Decoder, DecoderCache, DecoderError, branch};
use super::generate::{self, GenerateOptions, Generator, ROOM};
use super::{LoadClock, Port, RunOptions, Session, SessionOptions, attempt};

/// Exporters' names of inputs and outputs.
const TOKENS: &str = "input_ids";
const STATES: &str = "encoder_hidden_states";
const LAST_STATES: &str = "last_hidden_state";
const MASK: &str = "attention_mask";
const ENCODER_MASK: &str = "encoder_attention_mask";
const PAST: &str = "past_key_values.";
const PRESENT: &str = "present.";
const OF_ENCODER: &str = ".encoder.";
const OF_DECODER: &str = ".decoder.";

/// The files of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderDecoderFiles {
    /// The encoder.
    pub encoder: PathBuf,
    /// The decoder without a cache, or merged with the one that has a cache.
    pub decoder: PathBuf,
    /// The decoder with a cache, where it is a file of its own.
    pub with_past: Option<PathBuf>,
}

impl EncoderDecoderFiles {
    /// The files of a folder as optimum and transformers.js name them: `encoder_model.onnx`, and
    /// `decoder_model_merged.onnx` or `decoder_model.onnx` and `decoder_with_past_model.onnx`, in the folder or its
    /// folder `onnx`; or those that [`EncoderDecoder::pack`] has written there. `None` where there is no encoder.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Model`] where the decoder is missing, with the name of the file.
    pub fn find(folder: &Path) -> Result<Option<EncoderDecoderFiles>, DecoderError> {
        let packed = EncoderDecoderFiles::packed(folder);
        if packed.encoder.is_file() {
            let others = [Some(&packed.decoder), packed.with_past.as_ref()];
            if let Some(missing) = others.into_iter().flatten().find(|file| !file.is_file()) {
                return Err(refused(format!("there is no file {}", missing.display())));
            }
            return Ok(Some(packed));
        }
        EncoderDecoderFiles::exported(folder)
    }

    /// As [`EncoderDecoderFiles::find`], of ONNX files alone.
    ///
    /// # Errors
    ///
    /// As [`EncoderDecoderFiles::find`].
    pub fn exported(folder: &Path) -> Result<Option<EncoderDecoderFiles>, DecoderError> {
        let encoders = [folder.to_owned(), folder.join("onnx")].map(|folder| folder.join("encoder_model.onnx"));
        let encoder = encoders.into_iter().find(|encoder| encoder.is_file());
        encoder.map_or(Ok(None), |encoder| EncoderDecoderFiles::beside(&encoder))
    }

    /// The files of the encoder in that file, which has a name as exporters give it: `encoder_model.onnx`, or with an
    /// ending for another precision, which its decoders have, too, such as `encoder_model_q4.onnx`. `None` for a file
    /// with another name.
    ///
    /// # Errors
    ///
    /// As [`EncoderDecoderFiles::find`].
    pub fn beside(encoder: &Path) -> Result<Option<EncoderDecoderFiles>, DecoderError> {
        let name = encoder.file_name().and_then(|name| name.to_str());
        let ending = name.and_then(|name| name.strip_prefix("encoder_model")?.strip_suffix(".onnx"));
        let Some(ending) = ending else { return Ok(None) };
        let file = |stem: &str| encoder.with_file_name(format!("{stem}{ending}.onnx"));
        let encoder = encoder.to_owned();
        let merged = file("decoder_model_merged");
        if merged.is_file() {
            return Ok(Some(EncoderDecoderFiles { encoder, decoder: merged, with_past: None }));
        }
        let (decoder, with_past) = (file("decoder_model"), file("decoder_with_past_model"));
        if let Some(missing) = [&decoder, &with_past].into_iter().find(|file| !file.is_file()) {
            return Err(refused(format!("there is no file {}", missing.display())));
        }
        Ok(Some(EncoderDecoderFiles { encoder, decoder, with_past: Some(with_past) }))
    }
}

/// The graphs of a model.
#[derive(Clone, Debug)]
pub struct EncoderDecoderGraphs {
    /// The encoder.
    pub encoder: Graph,
    /// The decoder without a cache, or merged with the one that has a cache.
    pub decoder: Graph,
    /// The decoder with a cache, where it is a graph of its own.
    pub with_past: Option<Graph>,
}

/// A model of an encoder and a decoder.
///
/// ```no_run
/// use kiln::{EncoderDecoder, EncoderDecoderFiles, GenerateOptions, RunOptions, SessionOptions, Tensor};
///
/// let files = EncoderDecoderFiles::find("t5-small".as_ref())?.expect("an encoder");
/// let model = EncoderDecoder::load(&files, &SessionOptions::default())?;
/// let tokens = Tensor::from_vec([1, 4], vec![13959i64, 1566, 12, 1])?;
/// let encoded = model.encode(&[("input_ids", tokens)], &RunOptions::default())?;
/// let mut generator = encoded.generator(GenerateOptions { ends: vec![1], ..GenerateOptions::default() })?;
/// generator.append(&[0])?;
/// for token in &mut generator {
///     println!("{}", token?);
/// }
/// # Ok::<(), kiln::DecoderError>(())
/// ```
pub struct EncoderDecoder {
    encoder: Session,
    /// Keys and values of cross-attention.
    cross: Session,
    decoder: Arc<Decoder>,
    /// The output of the encoder that the decoder reads.
    states: String,
}

/// Tensors that the decoder gets for the texts that an encoder has read.
pub struct Encoded {
    pub(super) decoder: Arc<Decoder>,
    sequences: usize,
    beside: Vec<Tensor>,
}

impl EncoderDecoder {
    /// Loads the files of a model, ONNX files or those that [`EncoderDecoder::pack`] has written. All models run on one
    /// pool of threads.
    ///
    /// # Errors
    ///
    /// As [`Session::load`], with the file, and [`DecoderError::Model`] with the file and the reason, for a decoder
    /// whose inputs and outputs are not named as by exporters, or whose own cache cannot grow in place.
    pub fn load(files: &EncoderDecoderFiles, options: &SessionOptions) -> Result<EncoderDecoder, DecoderError> {
        let begun = LoadClock::now(options);
        let options = &on_one_pool(options)?;
        if let Some(model) = EncoderDecoder::ready(files, options, &begun)? {
            return Ok(model);
        }
        let graphs = EncoderDecoderGraphs::read(files, options, &begun)?;
        let packing = packed::wanted(files, &graphs, options);
        let mut model = EncoderDecoder::make(graphs, &files.names(), options, &begun)?;
        packed::start(packing, &mut model, files, options);
        Ok(model)
    }

    /// Makes a model of graphs built in memory.
    ///
    /// # Errors
    ///
    /// As [`EncoderDecoder::load`].
    pub fn from_graphs(graphs: EncoderDecoderGraphs, options: &SessionOptions) -> Result<EncoderDecoder, DecoderError> {
        let begun = LoadClock::now(options);
        let with_past = graphs.with_past.as_ref().unwrap_or(&graphs.decoder);
        let names = [&graphs.encoder, &graphs.decoder, with_past].map(|graph| graph.name.clone());
        EncoderDecoder::make(graphs, &names, options, &begun)
    }

    fn make(
        graphs: EncoderDecoderGraphs,
        names: &[String; 3],
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<EncoderDecoder, DecoderError> {
        let [of_encoder, of_decoder, of_steps] = names;
        let options = &on_one_pool(options)?;
        let Parts { encoder, cross, steps, beside, states } = Parts::of(graphs, names)?;
        let session =
            |graph: Graph, name: &str| attempt(name, begun, || Session::make(graph, name.to_owned(), options, begun));
        let encoder = session(encoder, of_encoder)?;
        let cross = session(cross, of_decoder)?;
        let decoder = Decoder::make(steps, &beside, of_steps.clone(), options, begun);
        let decoder = Arc::new(decoder.map_err(|error| within(of_steps, error))?);
        Ok(EncoderDecoder { encoder, cross, decoder, states })
    }

    /// The inputs that the encoder takes.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        self.encoder.inputs()
    }

    /// The sessions of the encoder, of the keys and values of cross-attention, and of the steps.
    #[must_use]
    pub fn sessions(&self) -> [&Session; 3] {
        [&self.encoder, &self.cross, self.decoder.session()]
    }

    /// Runs the encoder on texts or sounds of one length, and computes the keys and values of cross-attention. An
    /// `attention_mask` that is not given is all ones. `encoder_attention_mask`, the mask of the encoder's result, is
    /// the same mask if the lengths agree; otherwise it is all ones, and the given mask may hide nothing.
    ///
    /// # Errors
    ///
    /// Errors of the session; [`DecoderError::Model`] for outputs that the decoder does not take, and for a mask of
    /// another length that hides something.
    pub fn encode(&self, inputs: &[(&str, Tensor)], options: &RunOptions) -> Result<Encoded, DecoderError> {
        let mut given: Vec<(&str, Tensor)> = inputs.iter().filter(|(name, _)| *name != ENCODER_MASK).cloned().collect();
        let has_mask = given.iter().any(|(name, _)| *name == MASK);
        if !has_mask && self.inputs().iter().any(|port| port.name == MASK) {
            let tokens = given.iter().find(|(name, _)| *name == TOKENS);
            if let Some(&[sequences, length]) = tokens.map(|(_, tokens)| tokens.shape()) {
                given.push((MASK, ones(sequences, length)?));
            }
        }
        let outputs = self.encoder.run_with(&given, options)?;
        let states = outputs.into_iter().find(|(name, _)| *name == self.states).map(|(_, states)| states);
        let states = states.ok_or_else(|| refused(format!("the encoder has no output '{}'", self.states)))?;
        let &[sequences, length, _] = states.shape() else {
            return Err(refused(format!(
                "'{}' is {:?}, not [sequences, positions, size]",
                self.states,
                states.shape()
            )));
        };
        let own = inputs.iter().find(|(name, _)| *name == ENCODER_MASK);
        let mask = match own.or_else(|| given.iter().find(|(name, _)| *name == MASK)) {
            Some((_, mask)) if *mask.shape() == [sequences, length] => mask.clone(),
            Some((name, mask)) if mask.to_i64_vec()?.contains(&0) => {
                let shape = mask.shape();
                return Err(refused(format!(
                    "'{name}' is {shape:?}, and the encoder makes {length} positions: it is not known which are hidden"
                )));
            }
            _ => ones(sequences, length)?,
        };
        let side = |name: &str| match name {
            STATES => Ok(states.clone()),
            ENCODER_MASK => Ok(mask.clone()),
            // Keys and values depend on no more of the tokens than the number of sequences.
            _ => Tensor::zeros(TensorSpec::new(DType::I64, [sequences, 1])),
        };
        let names = self.cross.inputs().iter().map(|port| port.name.as_str());
        let given: Result<Vec<(&str, Tensor)>, _> = names.map(|name| Ok((name, side(name)?))).collect();
        let given = given.map_err(DecoderError::Memory)?;
        let made = self.cross.run_with(&given, options)?;
        let mut beside = Vec::new();
        for name in self.decoder.beside() {
            let present = name.replacen(PAST, PRESENT, 1);
            let tensor = match made.iter().find(|(made, _)| *made == present) {
                Some((_, tensor)) => tensor.clone(),
                None => side(name).map_err(DecoderError::Memory)?,
            };
            beside.push(tensor);
        }
        Ok(Encoded { decoder: Arc::clone(&self.decoder), sequences, beside })
    }

    /// Appends a token to every sequence of a cache, as [`Decoder::step`] does.
    ///
    /// # Errors
    ///
    /// As [`Decoder::step`].
    pub fn step(&self, cache: &mut DecoderCache, tokens: &[i64], options: &RunOptions) -> Result<Tensor, DecoderError> {
        let each: Vec<&[i64]> = tokens.chunks(1).collect();
        self.decoder.step(cache, &each, options)
    }
}

impl Encoded {
    /// The number of texts.
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// Bytes of the tensors that the decoder gets.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.beside.iter().map(Tensor::byte_len).sum()
    }

    /// An empty cache for output about these texts, as [`Decoder::cache`].
    ///
    /// # Errors
    ///
    /// As [`Decoder::cache`].
    pub fn cache(&self, room: usize, most: usize) -> Result<DecoderCache, DecoderError> {
        self.decoder.check_apart(self.sequences)?;
        self.decoder.cache_beside(self.sequences, room, most, self.beside.clone())
    }

    /// An empty cache for `texts` texts of equal lengths about the only one that the encoder has read.
    pub(super) fn cache_of(&self, texts: usize, room: usize, most: usize) -> Result<DecoderCache, DecoderError> {
        let pool = &self.decoder.session().kept.buffers;
        let beside = self.beside.iter().map(|tensor| repeated(tensor, texts, pool)).collect::<Result<_, _>>()?;
        self.decoder.cache_beside(texts, room, most, beside)
    }

    /// Whether the encoder has read one text.
    pub(super) fn check_one(&self) -> Result<(), DecoderError> {
        match self.sequences {
            1 => Ok(()),
            texts => Err(DecoderError::Tokens(format!("the encoder has read {texts} texts, and one can be continued"))),
        }
    }

    /// The likeliest of the tokens `among` behind `start`, the first token of each text; of equals the first. Whisper
    /// tells in this way which language it hears.
    ///
    /// # Errors
    ///
    /// As [`Decoder::step`], and [`DecoderError::Tokens`] for tokens that the model does not have, and where none of
    /// them is possible.
    pub fn likeliest(&self, start: i64, among: &[i64], run: &RunOptions) -> Result<Vec<i64>, DecoderError> {
        let mut cache = self.cache(1, 1)?;
        let start = [start];
        let logits = self.decoder.step(&mut cache, &vec![&start[..]; self.sequences], run)?;
        let mut numbers = Vec::new();
        generate::keep(&logits, &mut numbers)?;
        let words = numbers.len() / self.sequences.max(1);
        let logit = |logits: &[f32], token: i64| {
            let logit = usize::try_from(token).ok().and_then(|place| logits.get(place)).copied();
            logit.ok_or_else(|| DecoderError::Tokens(format!("the model has {words} tokens, and no token {token}")))
        };
        let chosen = |logits: &[f32]| {
            let of_each = among.iter().map(|&token| logit(logits, token)).collect::<Result<Vec<f32>, _>>()?;
            let place = likeliest(&of_each);
            place
                .map(|place| among[place])
                .ok_or_else(|| DecoderError::Tokens(format!("none of {among:?} is possible")))
        };
        numbers.chunks(words.max(1)).map(chosen).collect()
    }

    /// An empty text about the encoder's only one. Its first token is the model's `decoder_start_token_id`.
    ///
    /// # Errors
    ///
    /// As [`Generator::new`], and [`DecoderError::Tokens`] where the encoder has read several texts.
    pub fn generator(&self, options: GenerateOptions) -> Result<Generator<Arc<Decoder>>, DecoderError> {
        self.check_one()?;
        let cache = self.cache(ROOM.min(options.context), options.context)?;
        Generator::over(Arc::clone(&self.decoder), cache, options)
    }
}

/// The graphs that are run, made from those that exporters write.
struct Parts {
    encoder: Graph,
    /// Keys and values of cross-attention.
    cross: Graph,
    steps: Graph,
    /// The inputs of `steps` that are the same in all steps.
    beside: Vec<String>,
    /// The output of the encoder that the decoder reads.
    states: String,
}

impl Parts {
    /// # Errors
    ///
    /// As [`EncoderDecoder::load`], with the name of the file.
    fn of(graphs: EncoderDecoderGraphs, names: &[String; 3]) -> Result<Parts, DecoderError> {
        let [of_encoder, of_decoder, of_steps] = names;
        let EncoderDecoderGraphs { encoder, decoder, with_past } = graphs;
        let (cross, steps) = match with_past {
            Some(with_past) => (decoder, with_past),
            None if branch::is_merged(&decoder) => {
                let branch = |has_cache| branch::taken(&decoder, has_cache).map_err(|error| within(of_decoder, error));
                (branch(false)?, branch(true)?)
            }
            None => {
                let what = "it has no input 'use_cache_branch', and there is no decoder with a cache";
                return Err(within(of_decoder, refused(what)));
            }
        };
        let (steps, beside) = steps_of(steps).map_err(|error| within(of_steps, error))?;
        let cross = cross_of(cross, &beside).map_err(|error| within(of_decoder, error))?;
        let states = states_of(&output_ports(&encoder), &input_ports(&cross));
        let states = states.map_err(|error| within(of_encoder, error))?;
        Ok(Parts { encoder, cross, steps, beside, states })
    }
}

impl EncoderDecoderGraphs {
    fn read(
        files: &EncoderDecoderFiles,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<EncoderDecoderGraphs, DecoderError> {
        let read = |path: &Path| {
            let name = path.display().to_string();
            attempt(&name, begun, || Ok(onnx::load(path, &options.onnx_limits())?))
        };
        Ok(EncoderDecoderGraphs {
            encoder: read(&files.encoder)?,
            decoder: read(&files.decoder)?,
            with_past: files.with_past.as_deref().map(read).transpose()?,
        })
    }
}

/// The same options, with a pool of threads.
fn on_one_pool(options: &SessionOptions) -> Result<SessionOptions, DecoderError> {
    let pool = options.pool.clone().map_or_else(|| Threads::new(options.threads), Ok);
    Ok(SessionOptions { pool: Some(pool.map_err(super::SessionError::from)?), ..options.clone() })
}

/// Adds the file's name to an error.
fn within(name: &str, error: DecoderError) -> DecoderError {
    match error {
        DecoderError::Model(reason) => DecoderError::Model(format!("{name}: {reason}")),
        other => other,
    }
}

fn ones(sequences: usize, length: usize) -> Result<Tensor, DecoderError> {
    let mut ones = Tensor::zeros(TensorSpec::new(DType::I64, [sequences, length]))?;
    ones.as_mut_slice::<i64>()?.fill(1);
    Ok(ones)
}

/// A tensor of one sequence, `times` times.
fn repeated(tensor: &Tensor, times: usize, pool: &Arc<BufferPool>) -> Result<Tensor, TensorError> {
    let sizes = tensor.shape().iter().skip(1).copied();
    let mut all = Tensor::from_pool(pool, TensorSpec::new(tensor.dtype(), std::iter::once(times).chain(sizes)))?;
    let bytes = tensor.bytes();
    if !bytes.is_empty() {
        all.bytes_mut().chunks_exact_mut(bytes.len()).for_each(|own| own.copy_from_slice(bytes));
    }
    Ok(all)
}

/// The model of steps, whose outputs are logits and its own cache, and its inputs that are the same in all steps.
fn steps_of(mut graph: Graph) -> Result<(Graph, Vec<String>), DecoderError> {
    let name = |value: &ValueId| graph.value(*value).name.as_str();
    let is_own = |value: &ValueId| name(value) == "logits" || name(value).contains(OF_DECODER);
    let outputs: Vec<ValueId> = graph.outputs.iter().copied().filter(is_own).collect();
    if !outputs.iter().any(|value| name(value) == "logits") {
        return Err(refused("it has no output 'logits'"));
    }
    let own: Vec<&str> = graph.inputs.iter().map(name).filter(|name| name.contains(OF_DECODER)).collect();
    if own.is_empty() {
        return Err(refused("it has no input 'past_key_values.0.decoder.key'"));
    }
    for input in own {
        let present = input.replacen(PAST, PRESENT, 1);
        if !outputs.iter().any(|value| name(value) == present) {
            return Err(refused(format!("it has an input '{input}', and no output '{present}'")));
        }
    }
    graph.outputs = outputs;
    drop_unread(&mut graph);
    take_one(&mut graph)?;
    let is_beside = |name: &str| name == STATES || name == ENCODER_MASK || name.contains(OF_ENCODER);
    let names = graph.inputs.iter().map(|&input| graph.value(input).name.clone());
    let beside = names.filter(|name| is_beside(name)).collect();
    Ok((graph, beside))
}

/// Declares that steps have one token: exporters write decoders with a cache for this, many without a causal mask.
fn take_one(graph: &mut Graph) -> Result<(), DecoderError> {
    let input = graph.inputs.iter().copied().find(|&input| graph.value(input).name == TOKENS);
    let input = input.ok_or_else(|| refused(format!("it has no input '{TOKENS}'")))?;
    let info = &mut graph.values[input.index()];
    match info.dims.as_deref_mut() {
        Some([_, new]) if info.dtype == Some(DType::I64) && matches!(new, Dim::Fixed(1) | Dim::Named(_) | Dim::Any) => {
            *new = Dim::Fixed(1);
            Ok(())
        }
        _ => Err(refused(format!("input '{TOKENS}' is not [sequences, 1] of int64"))),
    }
}

/// The model of cross-attention's keys and values; the steps read those in `beside`.
fn cross_of(mut graph: Graph, beside: &[String]) -> Result<Graph, DecoderError> {
    let is_cross = |name: &str| name.starts_with(PRESENT) && name.contains(OF_ENCODER);
    let name = |value: &ValueId| graph.value(*value).name.as_str();
    let outputs: Vec<ValueId> = graph.outputs.iter().copied().filter(|value| is_cross(name(value))).collect();
    let read: Vec<String> =
        beside.iter().filter(|name| name.contains(OF_ENCODER)).map(|name| name.replacen(PAST, PRESENT, 1)).collect();
    if read.is_empty() {
        return Err(refused("steps have no input 'past_key_values.0.encoder.key'"));
    }
    if let Some(missing) = read.iter().find(|read| !outputs.iter().any(|value| name(value) == read.as_str())) {
        return Err(refused(format!("steps read '{missing}', which is none of its outputs")));
    }
    if let Some(other) = outputs.iter().find(|value| !read.iter().any(|read| read == name(value))) {
        return Err(refused(format!("its output '{}' is read by no step", name(other))));
    }
    graph.outputs = outputs;
    drop_unread(&mut graph);
    let known = [TOKENS, STATES, ENCODER_MASK];
    let name = |value: &ValueId| graph.value(*value).name.as_str();
    if let Some(other) = graph.inputs.iter().find(|value| !known.contains(&name(value))) {
        return Err(refused(format!("keys and values of cross-attention follow from input '{}'", name(other))));
    }
    if let Some(reader) = reader_of_tokens(&graph) {
        return Err(refused(format!("keys and values of cross-attention follow from the tokens, by node '{reader}'")));
    }
    Ok(graph)
}

/// A node that makes outputs depend on the elements of the tokens, not only on their shape.
fn reader_of_tokens(graph: &Graph) -> Option<&str> {
    let tokens = graph.inputs.iter().copied().find(|&input| graph.value(input).name == TOKENS)?;
    let producers = graph.producers();
    let (mut open, mut is_seen) = (graph.outputs.clone(), vec![false; graph.values.len()]);
    while let Some(value) = open.pop() {
        if std::mem::replace(&mut is_seen[value.index()], true) {
            continue;
        }
        let Some(node) = producers[value.index()].map(|place| &graph.nodes[place]) else { continue };
        if node.is("Shape") || node.is("Size") {
            continue;
        }
        if node.inputs.contains(&Some(tokens)) {
            return Some(&node.name);
        }
        open.extend(node.inputs.iter().flatten());
    }
    None
}

/// The output of the encoder that the decoder reads, which has its type and size.
fn states_of(encoder: &[Port], cross: &[Port]) -> Result<String, DecoderError> {
    let find = |ports: &[Port], names: &[&str]| ports.iter().find(|port| names.contains(&port.name.as_str())).cloned();
    let Some(made) = find(encoder, &[LAST_STATES, STATES]) else {
        return Err(refused(format!("it has no output '{LAST_STATES}'")));
    };
    let Some(read) = find(cross, &[STATES]) else {
        return Err(refused(format!("the decoder's keys and values do not follow from '{STATES}'")));
    };
    if let Some((made_type, read_type)) = made.dtype.zip(read.dtype)
        && made_type != read_type
    {
        return Err(refused(format!("output '{}' is {made_type}, and '{STATES}' is {read_type}", made.name)));
    }
    let size = |dims: &Option<Vec<Dim>>| match dims.as_ref().and_then(|dims| dims.last()) {
        Some(Dim::Fixed(size)) => Some(*size),
        _ => None,
    };
    if let Some((made_size, read_size)) = size(&made.dims).zip(size(&read.dims))
        && made_size != read_size
    {
        return Err(refused(format!("output '{}' has {made_size} elements, and '{STATES}' {read_size}", made.name)));
    }
    Ok(made.name)
}
