//! How texts are continued: options from Python, and the native half of `kiln.Generator`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln::{ChoiceError, DecoderError, Ended, GenerateOptions, Lookup, RunOptions, Timestamps};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::decoder::{Decoder, held, list};
use crate::encoder_decoder::Encoded;
use crate::errors;
use crate::interrupt::{Cancel, Watch};
use crate::options;

/// The options of a text, from keywords.
pub(crate) fn parse(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<GenerateOptions> {
    let mut options = GenerateOptions::default();
    let mut lookup = Lookup { tokens: 0, ngram: 2 };
    let (mut begin, mut most_first): (Option<i64>, Option<usize>) = (None, None);
    for (keyword, value) in keywords.into_iter().flatten() {
        let keyword: String = keyword.extract()?;
        let sampling = &mut options.sampling;
        let set = match keyword.as_str() {
            "ends" => set(&mut options.ends, &value),
            "suppress" => set(&mut options.suppress, &value),
            "begin_suppress" => set(&mut options.begin_suppress, &value),
            "no_repeat_ngram" => set(&mut options.no_repeat_ngram, &value),
            "timestamp_begin" => set(&mut begin, &value),
            "max_initial_timestamp" => set(&mut most_first, &value),
            "min_tokens" => set(&mut options.min_tokens, &value),
            "max_tokens" => set(&mut options.max_tokens, &value),
            "context" => set(&mut options.context, &value),
            "temperature" => set(&mut sampling.temperature, &value),
            "top_k" => set(&mut sampling.top_k, &value),
            "top_p" => set(&mut sampling.top_p, &value),
            "min_p" => set(&mut sampling.min_p, &value),
            "repetition_penalty" => set(&mut sampling.repetition_penalty, &value),
            "seed" => set(&mut sampling.seed, &value),
            "lookup" => set(&mut lookup.tokens, &value),
            "lookup_ngram" => set(&mut lookup.ngram, &value),
            _ => return Err(PyTypeError::new_err(format!("'{keyword}' is no option of a text"))),
        };
        set.map_err(|error| named(value.py(), &keyword, error))?;
    }
    options.timestamps = begin.map(|begin| Timestamps { begin, most_first });
    options.lookup = (lookup.tokens > 0).then_some(lookup);
    Ok(options)
}

fn set<'a, 'py, T: FromPyObject<'a, 'py>>(option: &mut T, value: &'a Bound<'py, PyAny>) -> PyResult<()>
where
    PyErr: From<T::Error>,
{
    *option = value.extract()?;
    Ok(())
}

/// An error of the same type, with the option's name in its text.
pub(crate) fn named(py: Python<'_>, option: &str, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(py) {
        return error;
    }
    PyTypeError::new_err(format!("{option}: {}", error.value(py)))
}

/// The exception for a text that cannot be begun.
pub(crate) fn refused(py: Python<'_>, error: &DecoderError) -> PyErr {
    match error {
        DecoderError::Choice(ChoiceError::Setting { .. }) => errors::error(py, "OptionError", error.to_string()),
        other => errors::decoder(py, other),
    }
}

/// Why a text ended, in a word.
pub(crate) fn name(ended: Ended) -> &'static str {
    match ended {
        Ended::Token(_) => "token",
        Ended::MaxTokens => "max_tokens",
        Ended::Context => "context",
        _ => "failed",
    }
}

/// One text that a language model continues: what `kiln.Generator` adds asyncio to.
#[pyclass(frozen, subclass, module = "kiln", name = "_Generator")]
pub(crate) struct Generator {
    generator: Mutex<kiln::Generator<Arc<kiln::Decoder>>>,
    /// How often its steps were called off.
    calls: Arc<AtomicU64>,
    limit: Option<std::time::Duration>,
    cancel: Option<Py<Cancel>>,
}

#[pymethods]
impl Generator {
    #[new]
    #[pyo3(
        signature = (decoder, *, time_limit=None, cancel=None, **options),
        text_signature = "(decoder, *, ends=(), suppress=(), begin_suppress=(), no_repeat_ngram=0, min_tokens=0, \
            timestamp_begin=None, max_initial_timestamp=None, max_tokens=256, context=4096, temperature=0.0, top_k=0, \
            top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=0, lookup=0, lookup_ngram=2, \
            time_limit=None, cancel=None)"
    )]
    fn new(
        py: Python<'_>,
        decoder: &Bound<'_, PyAny>,
        time_limit: Option<f64>,
        cancel: Option<Py<Cancel>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Generator> {
        let options = parse(options)?;
        let limit = time_limit.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
        let made = if let Ok(decoder) = decoder.cast::<Decoder>() {
            kiln::Generator::new(decoder.get().decoder.clone(), options)
        } else if let Ok(encoded) = decoder.cast::<Encoded>() {
            encoded.get().encoded.generator(options)
        } else {
            let kind = decoder.get_type().name()?;
            let text = format!("decoder: expected a kiln.Decoder or a kiln.Encoded, got {kind}");
            return Err(errors::error(py, "InputError", text));
        };
        let made = made.map_err(|error| refused(py, &error))?;
        Ok(Generator { generator: Mutex::new(made), calls: Arc::default(), limit, cancel })
    }

    /// Appends tokens to the text and lets it continue, even after its end or after a failed step, which is then tried
    /// again. The model reads the tokens when the next token is requested.
    ///
    /// >>> generator = kiln.Generator(kiln.Decoder(language_model), context=8)
    /// >>> generator.append([1, 2, 3])
    /// >>> generator.append(range(13))
    /// Traceback (most recent call last):
    /// kiln._errors.InputError: tokens: 16 in all, where the context has 8
    fn append(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> PyResult<()> {
        let tokens = list(tokens)?;
        let appended = held(py, &self.generator, "the text")?.append(&tokens);
        appended.map_err(|error| errors::decoder(py, &error))
    }

    /// All tokens: the appended and the chosen tokens, including a token that ended the text.
    ///
    /// >>> generator = kiln.Generator(kiln.Decoder(language_model), max_tokens=2)
    /// >>> generator.append([1, 2, 3])
    /// >>> said = list(generator)
    /// >>> generator.text == [1, 2, 3, *said]
    /// True
    #[getter]
    fn text(&self, py: Python<'_>) -> PyResult<Vec<i64>> {
        Ok(held(py, &self.generator, "the text")?.text().to_vec())
    }

    /// Why the text ended, once it has: "token" for one of `ends`, "max_tokens", "context", or "failed".
    ///
    /// >>> generator = kiln.Generator(kiln.Decoder(language_model), max_tokens=2)
    /// >>> generator.append([1])
    /// >>> generator.ended, len(list(generator)), generator.ended
    /// (None, 2, 'max_tokens')
    #[getter]
    fn ended(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(held(py, &self.generator, "the text")?.ended().map(name))
    }

    /// The number of tokens that `lookup` has proposed, and how many of these tokens were chosen.
    ///
    /// >>> kiln.Generator(kiln.Decoder(language_model), lookup=4).lookup_stats
    /// (0, 0)
    #[getter]
    fn lookup_stats(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let stats = held(py, &self.generator, "the text")?.lookup_stats();
        Ok((stats.proposed, stats.kept))
    }

    /// Ends the running step: the iterator raises `kiln.CancelledError`, and continues after `append`.
    ///
    /// >>> kiln.Generator(kiln.Decoder(language_model)).cancel()          # usually from another thread
    fn cancel(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        let watch = Watch::new(&self.calls, self.cancel.as_ref().map(|cancel| cancel.get()));
        let mut generator = held(py, &self.generator, "the text")?;
        let next = {
            let generator = &mut *generator;
            generator.set_run(RunOptions {
                time_limit: self.limit,
                cancel: Some(watch.cancel()),
                ..RunOptions::default()
            });
            py.detach(|| generator.next())
        };
        next.transpose().map_err(|error| watch.raised().unwrap_or_else(|| errors::decoder(py, &error)))
    }
}
