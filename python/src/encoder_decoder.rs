//! The classes `kiln.EncoderDecoder` and `kiln.Encoded`: an encoder that reads texts or sounds, and a decoder that
//! writes about them. Everything that takes long runs without the interpreter's lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln::{EncoderDecoderFiles, RunOptions, Tensor, Value};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::decoder::{self, DecoderCache};
use crate::errors;
use crate::interrupt::{Cancel, Watch};
use crate::options;
use crate::ports::Port;
use crate::search::{self, Hypothesis};
use crate::session;
use crate::values;

/// A model of an encoder and a decoder (T5, BART, Marian, Whisper, Moonshine), in the files that optimum and
/// transformers.js write.
///
/// `model` is a folder with `encoder_model.onnx` and either `decoder_model_merged.onnx` or both `decoder_model.onnx`
/// and `decoder_with_past_model.onnx`. The files may be in its subfolder `onnx`. `model` may also be a list of the two
/// or three files. The options are those of `kiln.Session`.
///
/// In the examples `translator` is a folder with a small model that knows 13 tokens.
///
/// >>> model = kiln.EncoderDecoder(translator, threads=2)
/// >>> encoded = model.encode({"input_ids": [[1, 5, 2]]})
/// >>> generator = kiln.Generator(encoded, max_tokens=4)
/// >>> generator.append([0])
/// >>> len(list(generator))
/// 4
#[pyclass(frozen, module = "kiln")]
pub(crate) struct EncoderDecoder {
    model: kiln::EncoderDecoder,
    /// How often its requests were called off.
    calls: Arc<AtomicU64>,
}

#[pymethods]
impl EncoderDecoder {
    #[new]
    #[pyo3(
        signature = (model, **options),
        text_signature = "(model, *, threads=None, pool=None, cache_dir=None, cache_mode=None, cache_per_model=None, \
            precision=None, numerics=None, max_isa=None, tune=None, pack=None, pack_verify=None, pack_bytes=None, \
            rehearse=None, profile=None, error_on_cache_miss=None, memory_bytes=None, process_bytes=None, \
            buffer_bytes=None, time_limit=None, load_time_limit=None, remote=None, remote_read_only=None)"
    )]
    fn new(py: Python<'_>, model: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<EncoderDecoder> {
        let given =
            |name: &str| options.is_some_and(|options| options.get_item(name).is_ok_and(|given| given.is_some()));
        if let Some(name) = ["taps", "alias"].into_iter().find(|name| given(name)) {
            return Err(errors::option(py, name, "an encoder and a decoder have none"));
        }
        let files = files(model)?;
        let calls = Arc::default();
        let watch = Watch::new(&calls, None);
        let mut options = options::parse(py, options)?;
        options.load_cancel = Some(watch.cancel());
        let loaded = py.detach(|| kiln::EncoderDecoder::load(&files, &options));
        let model = loaded.map_err(|error| watch.raised().unwrap_or_else(|| errors::decoder(py, &error)))?;
        Ok(EncoderDecoder { model, calls })
    }

    /// Runs the encoder on texts or sounds of the same length, and computes the keys and values of cross-attention,
    /// which every step of the decoder reads. `inputs` maps names of the encoder's inputs to arrays. If tokens have no
    /// `attention_mask`, it is all ones. `time_limit` is in seconds, and `cancel` is a `kiln.Cancel`.
    ///
    /// >>> encoded = kiln.EncoderDecoder(translator).encode({"input_ids": [[1, 5, 2]]})
    /// >>> encoded.sequences
    /// 1
    #[pyo3(signature = (inputs, *, time_limit=None, cancel=None))]
    fn encode(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyDict>,
        time_limit: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Encoded> {
        let mut given: Vec<(String, Tensor)> = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            let name: String = name.extract()?;
            let of = if name == "encoder_attention_mask" { "attention_mask" } else { name.as_str() };
            let Some(port) = self.model.inputs().iter().find(|port| port.name == of) else {
                let known: Vec<&str> = self.model.inputs().iter().map(|port| port.name.as_str()).collect();
                let reason = format!("the encoder has no such input; it has {}", known.join(", "));
                return Err(errors::input(py, &name, reason, None));
            };
            match values::take(py, port, &value)? {
                Value::Tensor(tensor) => given.push((name, tensor)),
                _ => return Err(errors::input(py, &name, "expected an array", None)),
            }
        }
        let given: Vec<(&str, Tensor)> = given.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let watch = Watch::new(&self.calls, cancel.map(|cancel| cancel.get()));
        let time_limit = time_limit.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let options = RunOptions { time_limit, cancel: Some(watch.cancel()), ..RunOptions::default() };
        let encoded = py.detach(|| self.model.encode(&given, &options));
        let encoded = encoded.map_err(|error| watch.raised().unwrap_or_else(|| errors::decoder(py, &error)))?;
        Ok(Encoded { encoded, calls: self.calls.clone() })
    }

    /// Appends a token to every sequence of a cache from `kiln.Encoded.cache`. Returns the logits after that token: an
    /// array of sequences by vocabulary. A step that fails leaves the lengths of the cache as they were.
    ///
    /// >>> model = kiln.EncoderDecoder(translator)
    /// >>> cache = model.encode({"input_ids": [[1, 5, 2]]}).cache()
    /// >>> model.step(cache, [0]).shape, cache.lengths
    /// ((1, 13), [1])
    #[pyo3(signature = (cache, tokens, *, time_limit=None, cancel=None))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        cache: &Bound<'py, DecoderCache>,
        tokens: &Bound<'py, PyAny>,
        time_limit: Option<f64>,
        cancel: Option<&Bound<'py, Cancel>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tokens = decoder::list(tokens)?;
        let watch = Watch::new(&self.calls, cancel.map(|cancel| cancel.get()));
        let time_limit = time_limit.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let options = RunOptions { time_limit, cancel: Some(watch.cancel()), ..RunOptions::default() };
        let mut cache = cache.get().held(py)?;
        let logits = {
            let cache = &mut *cache;
            py.detach(|| self.model.step(cache, &tokens, &options))
        };
        drop(cache);
        let logits = logits.map_err(|error| watch.raised().unwrap_or_else(|| errors::decoder(py, &error)))?;
        values::give(py, Value::Tensor(logits))
    }

    /// The inputs of the encoder.
    ///
    /// >>> [port.name for port in kiln.EncoderDecoder(translator).inputs]
    /// ['input_ids']
    #[getter]
    fn inputs(&self) -> Vec<Port> {
        self.model.inputs().iter().map(Port::new).collect()
    }

    /// Counters of the encoder, of the keys and values of cross-attention, and of the decoder's steps, each as in
    /// `kiln.Session.stats`.
    ///
    /// >>> sorted(kiln.EncoderDecoder(translator).stats())
    /// ['cross', 'encoder', 'steps']
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, session) in ["encoder", "cross", "steps"].into_iter().zip(self.model.sessions()) {
            all.set_item(name, session::stats(py, session)?)?;
        }
        Ok(all)
    }

    /// Ends every running call of `encode`, of `step`, and of `search` of the encoder's results. Later calls are not affected.
    ///
    /// >>> kiln.EncoderDecoder(translator).cancel()          # usually from another thread
    fn cancel(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// An encoder's result for texts or sounds, made by `kiln.EncoderDecoder.encode`. Any number of `kiln.Generator` may
/// decode texts from it.
///
/// >>> encoded = kiln.EncoderDecoder(translator).encode({"input_ids": [[1, 5, 2]]})
/// >>> encoded.sequences, encoded.bytes > 0
/// (1, True)
#[pyclass(frozen, module = "kiln")]
pub(crate) struct Encoded {
    pub(crate) encoded: kiln::Encoded,
    /// How often the model's requests were called off.
    calls: Arc<AtomicU64>,
}

#[pymethods]
impl Encoded {
    /// The number of texts or sounds.
    ///
    /// >>> kiln.EncoderDecoder(translator).encode({"input_ids": [[1, 5], [2, 3]]}).sequences
    /// 2
    #[getter]
    fn sequences(&self) -> usize {
        self.encoded.sequences()
    }

    /// The size in bytes of the keys and values that every step reads.
    ///
    /// >>> kiln.EncoderDecoder(translator).encode({"input_ids": [[1, 5, 2]]}).bytes > 0
    /// True
    #[getter]
    fn bytes(&self) -> usize {
        self.encoded.bytes()
    }

    /// Makes an empty cache for `kiln.EncoderDecoder.step`, with one sequence for each text or sound. The arguments are
    /// those of `kiln.Decoder.cache`.
    ///
    /// >>> kiln.EncoderDecoder(translator).encode({"input_ids": [[1, 5, 2]]}).cache(room=8).lengths
    /// [0]
    #[pyo3(signature = (*, room=512, most=4096))]
    fn cache(&self, py: Python<'_>, room: usize, most: usize) -> PyResult<DecoderCache> {
        let cache = py.detach(|| self.encoded.cache(room, most));
        cache.map(DecoderCache::new).map_err(|error| errors::decoder(py, &error))
    }

    /// For each text or sound, the likeliest of the tokens `among` behind `start`, its first token; of equals the
    /// first. Whisper tells in this way which language it hears, where `among` are the tokens of its languages. Raises
    /// `kiln.InputError` for tokens that the model does not have.
    ///
    /// >>> encoded = kiln.EncoderDecoder(translator).encode({"input_ids": [[1, 5, 2]]})
    /// >>> encoded.likeliest(0, [4])
    /// [4]
    fn likeliest(&self, py: Python<'_>, start: i64, among: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
        let among = decoder::list(among)?;
        let found = py.detach(|| self.encoded.likeliest(start, &among, &RunOptions::default()));
        found.map_err(|error| errors::decoder(py, &error))
    }

    /// Searches for the likeliest texts about the encoder's only text or sound, as `kiln.Decoder.search` does. The tokens
    /// begin with the model's `decoder_start_token_id`. If the model demands another token behind it
    /// (`forced_bos_token_id`), `counted=1` counts that token in the length, as transformers do. Each beam has its own
    /// copy of what the decoder reads of the encoder.
    ///
    /// >>> encoded = kiln.EncoderDecoder(translator).encode({"input_ids": [[1, 5, 2]]})
    /// >>> best, second = encoded.search([0], beams=2, max_tokens=4)
    /// >>> len(best.tokens), best.score > second.score
    /// (4, True)
    #[pyo3(
        signature = (tokens, **options),
        text_signature = "($self, tokens, *, beams=4, length_penalty=1.0, early_stopping=False, counted=0, ends=(), \
            suppress=(), begin_suppress=(), no_repeat_ngram=0, min_tokens=0, timestamp_begin=None, \
            max_initial_timestamp=None, max_tokens=256, context=4096, repetition_penalty=1.0, \
            time_limit=None, cancel=None)"
    )]
    fn search(&self, tokens: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<Hypothesis>> {
        let search = |prompt: &[i64], options: &_, beams: &_| self.encoded.search(prompt, options, beams);
        search::found(tokens, options, &self.calls, search)
    }
}

/// The files of a folder, or of a list.
fn files(model: &Bound<'_, PyAny>) -> PyResult<EncoderDecoderFiles> {
    let py = model.py();
    if let Ok(folder) = model.extract::<PathBuf>() {
        let found = EncoderDecoderFiles::find(&folder).map_err(|error| errors::decoder(py, &error))?;
        let file = folder.join("encoder_model.onnx");
        let missing = || errors::not_found(py, format!("there is no file {}", file.display()), &file);
        return found.ok_or_else(missing);
    }
    let listed: Option<Vec<PathBuf>> = model.extract().ok();
    match listed.as_deref() {
        Some([encoder, decoder]) => {
            Ok(EncoderDecoderFiles { encoder: encoder.clone(), decoder: decoder.clone(), with_past: None })
        }
        Some([encoder, decoder, with_past]) => Ok(EncoderDecoderFiles {
            encoder: encoder.clone(),
            decoder: decoder.clone(),
            with_past: Some(with_past.clone()),
        }),
        _ => Err(errors::error(py, "ModelError", "a model is a folder, or a list of two or three files")),
    }
}
