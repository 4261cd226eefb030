//! The classes `kiln.Decoder` and `kiln.DecoderCache`: language models a token at a time. Steps run without the
//! interpreter's lock.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use kiln::{RunOptions, Value};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::interrupt::{Cancel, Watch};
use crate::models::{self, Model};
use crate::options;
use crate::search::{self, Hypothesis};
use crate::session;
use crate::values;

/// A language model that runs step by step, over caches that stay in place: a step writes only its own rows and copies
/// nothing. Many threads and many caches may share it.
///
/// `model` is a model that onnxruntime-genai's builder writes for CPUs (GroupQueryAttention over `past_key_values`), or
/// a plain export that extends its cache by Concat. It is given as a path, a `file://` URL or bytes. For bytes,
/// `external_data` may have the files that the model names. For a decoder that reads embeddings, `embedding` is the path
/// of the model that makes embeddings of tokens, and `model` is a path too. `alias` says which outputs of a plain export
/// are which inputs of the next step, if they do not have the usual names: `["cache_out.* -> cache_in.*"]`. The other
/// options are those of `kiln.Session`.
///
/// In the examples `language_model` is a small model that knows 13 tokens.
///
/// >>> decoder = kiln.Decoder(language_model, threads=2)
/// >>> cache = decoder.cache()
/// >>> logits = decoder.step(cache, [[1, 2, 3]])
/// >>> logits.shape, cache.lengths
/// ((1, 13), [3])
#[pyclass(frozen, module = "kiln")]
pub(crate) struct Decoder {
    pub(crate) decoder: Arc<kiln::Decoder>,
    /// How often its steps were called off.
    calls: Arc<AtomicU64>,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(
        signature = (model, *, embedding=None, external_data=None, **options),
        text_signature = "(model, *, embedding=None, external_data=None, threads=None, pool=None, cache_dir=None, \
            cache_mode=None, cache_per_model=None, precision=None, numerics=None, max_isa=None, tune=None, pack=None, pack_verify=None, \
            pack_bytes=None, rehearse=None, profile=None, error_on_cache_miss=None, memory_bytes=None, \
            process_bytes=None, buffer_bytes=None, time_limit=None, load_time_limit=None, alias=None, remote=None, \
            remote_read_only=None)"
    )]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        embedding: Option<PathBuf>,
        external_data: Option<&Bound<'_, PyDict>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Decoder> {
        if options.is_some_and(|options| options.get_item("taps").is_ok_and(|taps| taps.is_some())) {
            return Err(errors::option(py, "taps", "a decoder has none"));
        }
        let calls = Arc::default();
        let watch = Watch::new(&calls, None);
        let mut options = options::parse(py, options)?;
        options.load_cancel = Some(watch.cancel());
        let model = Model::of(model)?;
        if embedding.is_some() && !matches!(model, Model::Path(_)) {
            return Err(errors::option(py, "embedding", "it is for a model that is a path"));
        }
        let loaded = match (model, external_data) {
            (Model::Path(_), Some(_)) => {
                return Err(errors::option(py, "external_data", "a model that is a path has its files beside it"));
            }
            (Model::Path(path), None) => py.detach(|| match &embedding {
                Some(embedding) => kiln::Decoder::load_embedded(&path, embedding, &options),
                None => kiln::Decoder::load(&path, &options),
            }),
            (Model::Bytes(bytes), files) => {
                let external = files.map(models::external).transpose()?.unwrap_or_default();
                let bytes = models::shared(bytes.bind(py));
                py.detach(|| kiln::Decoder::load_bytes_with(bytes, external, &options))
            }
            (Model::Member(member), files) => {
                let mut external = files.map(models::external).transpose()?.unwrap_or_default();
                member.lend_files(py, &mut external);
                let bytes = member.model(py)?;
                py.detach(|| kiln::Decoder::load_bytes_with(bytes, external, &options))
            }
        };
        let decoder = loaded.map_err(|error| watch.raised().unwrap_or_else(|| errors::decoder(py, &error)))?;
        Ok(Decoder { decoder: Arc::new(decoder), calls })
    }

    /// Makes an empty cache for `sequences` sequences of up to `most` positions, with memory for `room` positions each.
    /// Memory is taken in pages of 192 positions, which sequences take as they grow, and doubles when a step needs more.
    ///
    /// >>> kiln.Decoder(language_model).cache(sequences=2, room=64).lengths
    /// [0, 0]
    #[pyo3(signature = (sequences=1, *, room=512, most=4096))]
    fn cache(&self, py: Python<'_>, sequences: usize, room: usize, most: usize) -> PyResult<DecoderCache> {
        let cache = py.detach(|| self.decoder.cache(sequences, room, most));
        cache.map(DecoderCache::new).map_err(|error| errors::decoder(py, &error))
    }

    /// Appends the same number of tokens to every sequence of the cache. Returns the logits after the last token: an
    /// array of sequences by vocabulary. A step that fails leaves the lengths of the cache as they were. `time_limit`
    /// is in seconds, and `cancel` is a `kiln.Cancel`.
    ///
    /// >>> decoder = kiln.Decoder(language_model)
    /// >>> cache = decoder.cache(sequences=2)
    /// >>> decoder.step(cache, [[1, 2], [3, 4]]).shape
    /// (2, 13)
    /// >>> decoder.step(cache, [[1, 2], [3]])
    /// Traceback (most recent call last):
    /// kiln._errors.InputError: tokens: sequences get [2, 1] of them, not as many each and some
    #[pyo3(signature = (cache, tokens, *, time_limit=None, cancel=None))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        cache: &Bound<'py, DecoderCache>,
        tokens: &Bound<'py, PyAny>,
        time_limit: Option<f64>,
        cancel: Option<&Bound<'py, Cancel>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let each = lists(tokens)?;
        let tokens: Vec<&[i64]> = each.iter().map(Vec::as_slice).collect();
        let watch = Watch::new(&self.calls, cancel.map(|cancel| cancel.get()));
        let time_limit = time_limit.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let options = RunOptions { time_limit, cancel: Some(watch.cancel()), ..RunOptions::default() };
        let mut cache = cache.get().held(py)?;
        let logits = {
            let cache = &mut *cache;
            py.detach(|| self.decoder.step(cache, &tokens, &options))
        };
        drop(cache);
        let logits = logits.map_err(|error| watch.raised().unwrap_or_else(|| errors::decoder(py, &error)))?;
        values::give(py, Value::Tensor(logits))
    }

    /// Searches for the likeliest continuations of the tokens, and returns up to `beams` of them, the one of the highest
    /// score first. A step continues `beams` texts, and keeps as many of the likeliest continuations.
    ///
    /// A text's score is the sum of the logarithms of its tokens' probabilities over their number to the power
    /// `length_penalty`; that number includes the last `counted` tokens of the prompt. The search ends as soon as
    /// `beams` texts have ended (`early_stopping=True`), when the likeliest text that goes on has no higher score at its
    /// present length (False), or at any length ("never"). These are the rules of transformers. The other options are
    /// those of `kiln.Generator`, except those that draw tokens, and `lookup`. `time_limit` applies to each step.
    ///
    /// >>> decoder = kiln.Decoder(language_model)
    /// >>> found = decoder.search([1, 2, 3], beams=3, max_tokens=4)
    /// >>> [len(text.tokens) for text in found]
    /// [4, 4, 4]
    /// >>> found[0].score >= found[1].score >= found[2].score
    /// True
    /// >>> decoder.search([1, 2, 3], beams=0)
    /// Traceback (most recent call last):
    /// kiln._errors.OptionError: choosing a token: beams is 0, which is not at least 1
    #[pyo3(
        signature = (tokens, **options),
        text_signature = "($self, tokens, *, beams=4, length_penalty=1.0, early_stopping=False, counted=0, ends=(), \
            suppress=(), begin_suppress=(), no_repeat_ngram=0, min_tokens=0, timestamp_begin=None, \
            max_initial_timestamp=None, max_tokens=256, context=4096, repetition_penalty=1.0, \
            time_limit=None, cancel=None)"
    )]
    fn search(&self, tokens: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<Hypothesis>> {
        let search = |prompt: &[i64], options: &_, beams: &_| self.decoder.search(prompt, options, beams);
        search::found(tokens, options, &self.calls, search)
    }

    /// Counters, as in `kiln.Session.stats`.
    ///
    /// >>> kiln.Decoder(language_model).stats()["plans"]["failures"]
    /// 0
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        session::stats(py, self.decoder.session())
    }

    /// Ends every running call of `step` and `search`. Later calls are not affected.
    ///
    /// >>> kiln.Decoder(language_model).cancel()          # usually from another thread
    fn cancel(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// The keys and values of some sequences, made by `kiln.Decoder.cache`.
///
/// >>> cache = kiln.Decoder(language_model).cache(room=64, most=256)
/// >>> cache.lengths, cache.room, cache.bytes
/// ([0], 192, 12288)
#[pyclass(frozen, module = "kiln")]
pub(crate) struct DecoderCache(Mutex<kiln::DecoderCache>);

impl DecoderCache {
    pub(crate) fn new(cache: kiln::DecoderCache) -> DecoderCache {
        DecoderCache(Mutex::new(cache))
    }

    /// The cache for a step, unless another thread's step has it.
    pub(crate) fn held(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, kiln::DecoderCache>> {
        held(py, &self.0, "the cache")
    }
}

#[pymethods]
impl DecoderCache {
    /// The number of positions of each sequence.
    ///
    /// >>> kiln.Decoder(language_model).cache(3).lengths
    /// [0, 0, 0]
    #[getter]
    fn lengths(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        Ok(self.held(py)?.lengths().to_vec())
    }

    /// The number of positions that a sequence can have before tables of pages grow: whole pages of 192 positions.
    ///
    /// >>> kiln.Decoder(language_model).cache(room=100).room
    /// 192
    #[getter]
    fn room(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.held(py)?.room())
    }

    /// The size of the keys and values in bytes, with those of pages that no sequence has.
    ///
    /// >>> kiln.Decoder(language_model).cache(room=1).bytes
    /// 12288
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.held(py)?.bytes())
    }

    /// Makes the sequence `to` begin with the first `positions` positions of the sequence `source`, in place of its own.
    /// Both share the memory of these positions: nothing is copied until one of them writes a page that both have.
    ///
    /// >>> decoder = kiln.Decoder(language_model)
    /// >>> cache = decoder.cache(2)
    /// >>> _ = decoder.step(cache, [[1, 2, 3], [4, 5, 6]])
    /// >>> cache.fork(0, 1, 2)
    /// >>> cache.lengths
    /// [3, 2]
    fn fork(&self, py: Python<'_>, source: usize, to: usize, positions: usize) -> PyResult<()> {
        let forked = self.held(py)?.fork(source, to, positions);
        forked.map_err(|error| errors::decoder(py, &error))
    }

    /// Says that a text of `length` tokens will be read into a sequence, in one step or in several. Models that rotate by
    /// other angles from some length on (Phi-3 with long contexts) then do so from the first step on. It holds until the
    /// sequence is rewound, becomes a fork, or is longer. `kiln.Generator` and `kiln.Batch` say it of their prompts.
    ///
    /// >>> decoder = kiln.Decoder(language_model)
    /// >>> cache = decoder.cache()
    /// >>> cache.announce(0, 4)
    /// >>> for part in [[1, 2], [3, 4]]:
    /// ...     _ = decoder.step(cache, [part])
    /// >>> cache.lengths
    /// [4]
    fn announce(&self, py: Python<'_>, sequence: usize, length: usize) -> PyResult<()> {
        let announced = self.held(py)?.announce(sequence, length);
        announced.map_err(|error| errors::decoder(py, &error))
    }

    /// Forgets the positions of a sequence from `length` on.
    ///
    /// >>> decoder = kiln.Decoder(language_model)
    /// >>> cache = decoder.cache()
    /// >>> _ = decoder.step(cache, [[1, 2, 3]])
    /// >>> cache.rewind(0, 1)
    /// >>> cache.lengths
    /// [1]
    fn rewind(&self, py: Python<'_>, sequence: usize, length: usize) -> PyResult<()> {
        let rewound = self.held(py)?.rewind(sequence, length);
        rewound.map_err(|error| errors::decoder(py, &error))
    }
}

/// The value of a lock. It does not wait for another thread's step, because a forked child would wait forever.
pub(crate) fn held<'a, T>(py: Python<'_>, lock: &'a Mutex<T>, name: &str) -> PyResult<MutexGuard<'a, T>> {
    match lock.try_lock() {
        Ok(held) => Ok(held),
        Err(TryLockError::Poisoned(held)) => Ok(PoisonError::into_inner(held)),
        Err(TryLockError::WouldBlock) => {
            Err(errors::error(py, "RunError", format!("{name} is in use by a step of another thread")))
        }
    }
}

/// Tokens, from a list or an array of integers.
pub(crate) fn list(tokens: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let numbers: PyResult<Vec<i64>> = tokens.try_iter().and_then(|each| each.map(|token| token?.extract()).collect());
    numbers.map_err(|cause| refused(tokens, cause))
}

/// A list of tokens for each sequence.
fn lists(tokens: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<i64>>> {
    let each = tokens.try_iter().map_err(|cause| refused(tokens, cause))?;
    each.map(|tokens| list(&tokens?)).collect()
}

fn refused(tokens: &Bound<'_, PyAny>, cause: PyErr) -> PyErr {
    let py = tokens.py();
    if !errors::is_ordinary(py, &cause) {
        return cause;
    }
    let kind = tokens.get_type().name().map_or_else(|_| "that".to_owned(), |name| name.to_string());
    let error = errors::error(py, "InputError", format!("tokens: expected a list of integers, got {kind}"));
    error.set_cause(py, Some(cause));
    error
}
