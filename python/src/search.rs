//! Beam search from Python: the options of `kiln.Decoder.search` and `kiln.Encoded.search`, and the texts that they find.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kiln::{BeamStop, Beams, DecoderError, GenerateOptions, RunOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::decoder::list;
use crate::generate::{name, named, parse, refused};
use crate::interrupt::{Cancel, Watch};
use crate::{errors, options};

/// Options of texts that no search has, because it draws and proposes no tokens.
const OTHERS: [&str; 7] = ["temperature", "top_k", "top_p", "min_p", "seed", "lookup", "lookup_ngram"];

/// A text that a beam search has found.
///
/// >>> [best] = kiln.Decoder(language_model).search([1, 2, 3], beams=1, max_tokens=2)
/// >>> len(best.tokens), best.score < 0, best.ended
/// (2, True, 'max_tokens')
#[pyclass(frozen, get_all, module = "kiln")]
pub(crate) struct Hypothesis {
    /// The chosen tokens, without those of the prompt and without a token that ended the text.
    tokens: Vec<i64>,
    /// The sum of the logarithms of the tokens' probabilities, divided by their number to the power `length_penalty`.
    score: f64,
    /// Why the text ended: "token", "max_tokens" or "context".
    ended: &'static str,
}

/// `early_stopping` as in transformers: a boolean or "never".
fn stop(py: Python<'_>, value: Option<&Bound<'_, PyAny>>) -> PyResult<BeamStop> {
    let Some(value) = value else { return Ok(BeamStop::default()) };
    match (value.extract::<bool>(), value.extract::<String>().as_deref()) {
        (Ok(true), _) => Ok(BeamStop::Full),
        (Ok(false), _) => Ok(BeamStop::Unlikely),
        (_, Ok("never")) => Ok(BeamStop::Impossible),
        _ => Err(errors::option(py, "early_stopping", "it is True, False or 'never'")),
    }
}

/// The texts that `search` finds with options from keywords. `calls` counts how often the model's requests were called
/// off.
pub(crate) fn found(
    tokens: &Bound<'_, PyAny>,
    keywords: Option<&Bound<'_, PyDict>>,
    calls: &Arc<AtomicU64>,
    search: impl FnOnce(&[i64], &GenerateOptions, &Beams) -> Result<Vec<kiln::Hypothesis>, DecoderError> + Send,
) -> PyResult<Vec<Hypothesis>> {
    let py = tokens.py();
    let tokens = list(tokens)?;
    let keywords = keywords.map_or_else(|| Ok(PyDict::new(py)), |keywords| keywords.copy())?;
    let take = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        let value = keywords.get_item(name)?;
        if value.is_some() {
            keywords.del_item(name)?;
        }
        Ok(value)
    };
    let mut beams = Beams::default();
    if let Some(number) = take("beams")? {
        beams.number = number.extract().map_err(|error| named(py, "beams", error))?;
    }
    if let Some(penalty) = take("length_penalty")? {
        beams.length_penalty = penalty.extract().map_err(|error| named(py, "length_penalty", error))?;
    }
    if let Some(counted) = take("counted")? {
        beams.counted = counted.extract().map_err(|error| named(py, "counted", error))?;
    }
    beams.stop = stop(py, take("early_stopping")?.as_ref())?;
    let limit: Option<f64> = take("time_limit")?.map_or(Ok(None), |limit| limit.extract())?;
    let cancel = take("cancel")?.filter(|cancel| !cancel.is_none());
    let cancel = cancel.as_ref().map(|cancel| cancel.cast::<Cancel>()).transpose()?;
    if let Some(other) = OTHERS.into_iter().find(|other| keywords.contains(other).unwrap_or(false)) {
        return Err(PyTypeError::new_err(format!("'{other}' is no option of a search")));
    }
    let mut options = parse(Some(&keywords))?;
    let watch = Watch::new(calls, cancel.map(|cancel| cancel.get()));
    let time_limit = limit.map(|seconds| options::seconds(py, "time_limit", seconds)).transpose()?;
    options.run = RunOptions { time_limit, cancel: Some(watch.cancel()), ..RunOptions::default() };
    let found = py.detach(|| search(&tokens, &options, &beams));
    let found = found.map_err(|error| watch.raised().unwrap_or_else(|| refused(py, &error)))?;
    let text = |text: kiln::Hypothesis| Hypothesis { tokens: text.tokens, score: text.score, ended: name(text.ended) };
    Ok(found.into_iter().map(text).collect())
}
