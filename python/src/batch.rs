//! The class `kiln.Batch`: many texts that one language model continues at the same time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln::RunOptions;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::decoder::{Decoder, held, list};
use crate::errors;
use crate::generate::{name, parse, refused};
use crate::interrupt::{Cancel, Watch};
use crate::options;

/// Many texts that one language model continues at the same time. A step reads one token of each text, so that the
/// model's weights are read once for all texts. Texts may begin and end at any step. At most `texts` texts run at the
/// same time; others wait. `context` is the most tokens of a text.
///
/// >>> batch = kiln.Batch(kiln.Decoder(language_model), texts=2)
/// >>> first = batch.push([1, 2, 3], max_tokens=2)
/// >>> other = batch.push([4], max_tokens=1)
/// >>> said = {first: [], other: []}
/// >>> while not batch.idle:
/// ...     for text, token in batch.step():
/// ...         said[text].append(token)
/// >>> [len(tokens) for tokens in said.values()]
/// [2, 1]
/// >>> sorted((text.id, text.ended) for text in batch.finished())
/// [(0, 'max_tokens'), (1, 'max_tokens')]
#[pyclass(frozen, module = "kiln")]
pub(crate) struct Batch {
    batch: Mutex<kiln::Batch<Arc<kiln::Decoder>>>,
    /// How often its steps were called off.
    calls: Arc<AtomicU64>,
}

/// A text of a `kiln.Batch` that has ended.
///
/// >>> batch = kiln.Batch(kiln.Decoder(language_model), texts=1)
/// >>> _ = batch.push([1, 2, 3], max_tokens=0)
/// >>> [text] = batch.finished()
/// >>> text.id, text.tokens, text.ended, text.error
/// (0, [1, 2, 3], 'max_tokens', None)
#[pyclass(frozen, get_all, module = "kiln")]
pub(crate) struct Finished {
    /// The text's number.
    id: u64,
    /// All tokens: the prompt and the chosen tokens, including a token that ended the text.
    tokens: Vec<i64>,
    /// Why the text ended: "token", "max_tokens", "context" or "failed".
    ended: &'static str,
    /// The error, if the text ended with "failed".
    error: Option<Py<PyException>>,
}

#[pymethods]
impl Batch {
    #[new]
    #[pyo3(signature = (decoder, *, texts=8, context=4096))]
    fn new(py: Python<'_>, decoder: &Bound<'_, Decoder>, texts: usize, context: usize) -> PyResult<Batch> {
        let made = kiln::Batch::new(decoder.get().decoder.clone(), texts, context);
        let batch = made.map_err(|error| errors::decoder(py, &error))?;
        Ok(Batch { batch: Mutex::new(batch), calls: Arc::default() })
    }

    /// Adds a text and returns its number. The text begins when a place is free. The options are those of
    /// `kiln.Generator`, except `lookup`.
    ///
    /// >>> batch = kiln.Batch(kiln.Decoder(language_model), texts=1, context=8)
    /// >>> batch.push([1, 2, 3], temperature=0.7, seed=1)
    /// 0
    /// >>> batch.push(range(9))
    /// Traceback (most recent call last):
    /// kiln._errors.InputError: tokens: 9 in all, where the context has 8
    #[pyo3(
        signature = (tokens, **options),
        text_signature = "($self, tokens, *, ends=(), suppress=(), begin_suppress=(), no_repeat_ngram=0, \
            min_tokens=0, max_tokens=256, context=4096, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=0)"
    )]
    fn push(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<u64> {
        let (tokens, options) = (list(tokens)?, parse(options)?);
        let pushed = held(py, &self.batch, "the batch")?.push(&tokens, options);
        pushed.map_err(|error| refused(py, &error))
    }

    /// Runs one step of the model. The step reads the last token of every running text, short prompts, and up to 256
    /// tokens of one longer prompt. Returns a pair for every text that was read to its end: its number and its next
    /// token. A token that ends its text is left out. `time_limit` is in seconds, and `cancel` is a `kiln.Cancel`. A
    /// step that one of these ends leaves the texts as they were.
    ///
    /// >>> batch = kiln.Batch(kiln.Decoder(language_model), texts=1)
    /// >>> batch.step()
    /// []
    #[pyo3(signature = (*, time_limit=None, cancel=None))]
    fn step(
        &self,
        py: Python<'_>,
        time_limit: Option<f64>,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<Vec<(u64, i64)>> {
        let watch = Watch::new(&self.calls, cancel.map(|cancel| cancel.get()));
        let time_limit = time_limit.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let options = RunOptions { time_limit, cancel: Some(watch.cancel()), ..RunOptions::default() };
        let mut batch = held(py, &self.batch, "the batch")?;
        let said = {
            let batch = &mut *batch;
            py.detach(|| batch.step(&options))
        };
        said.map_err(|error| watch.raised().unwrap_or_else(|| errors::decoder(py, &error)))
    }

    /// The texts that have ended since the last call.
    ///
    /// >>> kiln.Batch(kiln.Decoder(language_model)).finished()
    /// []
    fn finished(&self, py: Python<'_>) -> PyResult<Vec<Finished>> {
        let finished = held(py, &self.batch, "the batch")?.finished();
        let each = finished.into_iter().map(|text| {
            let error = text.error.map(|error| errors::decoder(py, &error).into_value(py));
            let error = error.map(|error| error.into_bound(py).cast_into::<PyException>()).transpose()?;
            Ok(Finished { id: text.id, tokens: text.text, ended: name(text.ended), error: error.map(Bound::unbind) })
        });
        each.collect()
    }

    /// Removes a text that runs or waits. Returns whether there was a text of that number.
    ///
    /// >>> batch = kiln.Batch(kiln.Decoder(language_model))
    /// >>> batch.forget(batch.push([1, 2, 3])), batch.idle
    /// (True, True)
    fn forget(&self, py: Python<'_>, text: u64) -> PyResult<bool> {
        Ok(held(py, &self.batch, "the batch")?.cancel(text))
    }

    /// Whether no text runs or waits.
    ///
    /// >>> kiln.Batch(kiln.Decoder(language_model)).idle
    /// True
    #[getter]
    fn idle(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(held(py, &self.batch, "the batch")?.is_idle())
    }

    /// Ends the running step. Its texts stay as they were.
    ///
    /// >>> kiln.Batch(kiln.Decoder(language_model)).cancel()          # usually from another thread
    fn cancel(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}
