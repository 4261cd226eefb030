//! One case: a session, its data sets, a verdict. A panic in one case is a verdict too, not the end of the run.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln::packed::{PackedError, Verify};
use kiln::session::{Session, SessionError, SessionOptions};
use kiln_kernels::crash;
use kiln_model::{Graph, Value};
use kiln_run::{NodeError, RunError};
use kiln_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::check::uses::Uses;
use crate::closeness::{self, Spread, Tolerance};
use crate::data_sets::{self, DataError, DataFile};

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    /// Every output of every data set is as expected.
    Passed,
    /// Every output has the expected type and shape; values come from a random generator, which the standard leaves to
    /// the runtime, even with a seed.
    PassedInForm,
    /// An output differs; the worst element and its index.
    Wrong(String),
    /// The model, its data or an input cannot be used.
    Refused {
        /// Why.
        reason: String,
        /// Operators and types that are missing, where that is the reason.
        missing: Vec<String>,
    },
    /// The program itself failed.
    Crashed(String),
}

impl Verdict {
    fn refused(reason: impl fmt::Display) -> Verdict {
        Verdict::Refused { reason: one_line(&reason.to_string()), missing: Vec::new() }
    }

    /// Its column in the totals.
    pub(super) fn column(&self) -> usize {
        match self {
            Verdict::Passed | Verdict::PassedInForm => 0,
            Verdict::Wrong(_) => 1,
            Verdict::Refused { .. } => 2,
            Verdict::Crashed(_) => 3,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Passed => f.write_str("passed"),
            Verdict::PassedInForm => f.write_str("passed: type and shape; the values are random"),
            Verdict::Wrong(what) => write!(f, "wrong: {what}"),
            Verdict::Refused { reason, .. } => write!(f, "refused: {reason}"),
            Verdict::Crashed(what) => write!(f, "crashed: {what}"),
        }
    }
}

/// How long a case may be tuned between its two rounds.
const TUNING: Duration = Duration::from_secs(60);

/// Data of a case besides its verdict.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Its operators.
    pub(super) uses: Uses,
    /// The look-ups of its requests in the executor cache.
    pub(super) lookups: u64,
}

/// How a case is run.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) options: &'a SessionOptions,
    /// Whether its model is packed to a file that is then loaded.
    pub(super) packed: bool,
}

impl Way<'_> {
    fn session(self, graph: Graph) -> Result<Session, SessionError> {
        if !self.packed {
            return Session::from_graph(graph, self.options);
        }
        let file = |source| PackedError::Io { what: "write a file in", path: std::env::temp_dir(), source };
        // The file stays mapped when its name is removed.
        let folder = tempfile::tempdir().map_err(file)?;
        let path = folder.path().join("case.kpk");
        Session::pack_graph(graph, &path, self.options)?;
        Session::load(&path, &SessionOptions { pack_verify: Verify::Each, ..self.options.clone() })
    }
}

/// Runs one case.
pub(super) fn check(folder: &Path, way: Way<'_>, seen: &mut Seen) -> Verdict {
    attempt(folder, way, seen).unwrap_or_else(|verdict| verdict)
}

fn attempt(folder: &Path, way: Way<'_>, seen: &mut Seen) -> Result<Verdict, Verdict> {
    let options = way.options;
    let Allowed { tolerance, distance } = allowed(folder)?;
    let graph = kiln_model::onnx::load(&folder.join("model.onnx"), &options.limits).map_err(Verdict::refused)?;
    seen.uses = Uses::of(&graph);
    let random = seen.uses.any(RANDOM);
    let session = way.session(graph).map_err(|error| refusal(&error))?;
    let before = session.cache_stats().lookups;
    let sets = data_sets::find(folder).map_err(Verdict::refused)?;
    // With a tuner, every data set is checked with the cost model's choices and with the measured ones.
    let rounds = if session.tune_report().is_some() { 2 } else { 1 };
    let mut spreads = vec![Spread::default(); distance.len()];
    for (round, set) in (0..rounds).flat_map(|round| sets.iter().map(move |set| (round, set))) {
        if round > 0 {
            session.settle(TUNING);
        }
        let files = DataFile::inputs(set, session.inputs());
        let inputs: Vec<(&str, Value)> = files
            .iter()
            .map(|file| Ok((file.name.as_str(), file.read()?)))
            .collect::<Result<_, DataError>>()
            .map_err(Verdict::refused)?;
        let outputs = session.run_values(&inputs).map_err(|error| refusal(&error))?;
        for (index, ((name, actual), port)) in outputs.iter().zip(session.outputs()).enumerate() {
            let Some(file) = DataFile::output(set, index, port) else { continue };
            let expected = file.read().map_err(Verdict::refused)?;
            if distance.get(index).is_some_and(Option::is_some) {
                if !added(&mut spreads[index], &expected, actual) {
                    return Ok(Verdict::Wrong(format!("{}: output '{name}' has another shape", data_sets::shown(set))));
                }
                continue;
            }
            let tolerance = |expected: &Tensor| tolerance.lowered(expected, options.precision);
            if let Some(difference) = difference(&expected, actual, tolerance, random)? {
                let set = if sets.len() > 1 { format!("{}: ", data_sets::shown(set)) } else { String::new() };
                return Ok(Verdict::Wrong(format!("{set}output '{name}': {difference}")));
            }
        }
    }
    for ((spread, most), port) in spreads.iter().zip(&distance).zip(session.outputs()) {
        if let Some(most) = most.filter(|&most| spread.share() > most) {
            let (name, share) = (&port.name, spread.share());
            let far =
                format!("output '{name}': {share:.4} from what is expected over all data sets, not {most:.4} at most");
            return Ok(Verdict::Wrong(far));
        }
    }
    seen.lookups = session.cache_stats().lookups - before;
    // Errors of records do not change the verdict; the session counts them.
    let _ = session.save_records();
    Ok(if random { Verdict::PassedInForm } else { Verdict::Passed })
}

/// Operators whose results the standard does not determine. ONNX's own reference need not match their cases either.
const RANDOM: &[&str] =
    &["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];

/// The difference of two values, if there is one; `tolerance` gives the tolerance for a tensor. For random tensors only
/// type and shape are compared.
fn difference(
    expected: &Value,
    actual: &Value,
    tolerance: impl Fn(&Tensor) -> Tolerance,
    random: bool,
) -> Result<Option<String>, Verdict> {
    let tensors = |expected: &Tensor, actual: &Tensor| {
        if random && expected.spec() == actual.spec() {
            return Ok(None);
        }
        let difference = closeness::compare(expected, actual, tolerance(expected)).map_err(Verdict::refused)?;
        Ok(difference.map(|difference| difference.to_string()))
    };
    match (expected, actual) {
        (Value::Tensor(expected), Value::Tensor(actual)) => tensors(expected, actual),
        (Value::Nothing, Value::Nothing) => Ok(None),
        _ if expected.kind() == actual.kind() => {
            let (expected, actual) = (expected.tensors(), actual.tensors());
            if expected.len() != actual.len() {
                return Ok(Some(format!("expected {} tensors, got {}", expected.len(), actual.len())));
            }
            for (place, (expected, actual)) in expected.iter().zip(actual.iter()).enumerate() {
                if let Some(difference) = tensors(expected, actual)? {
                    return Ok(Some(format!("tensor {place}: {difference}")));
                }
            }
            Ok(None)
        }
        _ => Ok(Some(format!("expected {}, got {}", expected.kind(), actual.kind()))),
    }
}

/// Adds an output to its distance; returns whether it is a tensor of the expected shape.
fn added(spread: &mut Spread, expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Tensor(expected), Value::Tensor(actual)) => spread.add(expected, actual),
        _ => false,
    }
}

/// The errors that a case allows.
#[derive(Debug, Default, Deserialize)]
struct Allowed {
    /// How far an element may be off.
    #[serde(flatten)]
    tolerance: Tolerance,
    /// For each output, how far it may be off over all data sets: the root mean square of differences, as a share of
    /// that of the output. Its elements are then not compared one by one.
    #[serde(default)]
    distance: Vec<Option<f64>>,
}

fn allowed(folder: &Path) -> Result<Allowed, Verdict> {
    let path = folder.join("tolerance.json");
    if !path.exists() {
        return Ok(Allowed::default());
    }
    let text = std::fs::read_to_string(path).map_err(Verdict::refused)?;
    serde_json::from_str(&text).map_err(|error| Verdict::refused(format!("tolerance.json: {error}")))
}

fn refusal(error: &SessionError) -> Verdict {
    let reason = one_line(&error.to_string());
    match error {
        error if error.is_fault() => Verdict::Crashed(reason),
        SessionError::Unsupported(missing) => Verdict::Refused { reason, missing: missing.clone() },
        SessionError::Run(error) => {
            let missing = unsupported(error).map(str::to_owned).into_iter().collect();
            Verdict::Refused { reason, missing }
        }
        _ => Verdict::Refused { reason, missing: Vec::new() },
    }
}

/// The unsupported operator of an error, at any depth of bodies.
fn unsupported(error: &RunError) -> Option<&str> {
    match &error.error {
        NodeError::Unsupported(_) => Some(&error.op),
        NodeError::Body(inner) => unsupported(inner),
        _ => None,
    }
}

pub(super) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

type Hook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Sync + Send>;

/// Turns panics into verdicts. Until it is dropped, panics are not printed; then the old hook is back.
pub(super) struct Crashes {
    last: Arc<Mutex<Option<String>>>,
    before: Option<Hook>,
}

impl Crashes {
    /// Starts watching this process.
    pub(super) fn watch() -> Crashes {
        let last = Arc::new(Mutex::new(None));
        let slot = last.clone();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
            let message = info.payload_as_str().unwrap_or("panic");
            // Only the first panic counts: other threads panic because of it.
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.get_or_insert_with(|| {
                let doing = crash::trail();
                let separator = if doing.is_empty() { "" } else { ", " };
                one_line(&format!("{message}{place}{separator}{doing}"))
            });
        }));
        Crashes { last, before: Some(before) }
    }

    /// The verdict of `check`, or that of its panic.
    pub(super) fn guard(&self, check: impl FnOnce() -> Verdict) -> Verdict {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // The session of the case is dropped by the panic, so no half-changed state is used afterwards.
        std::panic::catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| {
            let what = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
            Verdict::Crashed(what.unwrap_or_else(|| "without a message".to_owned()))
        })
    }
}

impl Drop for Crashes {
    fn drop(&mut self) {
        if let Some(before) = self.before.take().filter(|_| !std::thread::panicking()) {
            std::panic::set_hook(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_allows_elements_or_distances() {
        let read = |text: &str| serde_json::from_str::<Allowed>(text).unwrap();
        let Allowed { tolerance, distance } = read(r#"{"rtol": 0.5}"#);
        assert_eq!((tolerance.rtol, tolerance.atol, distance), (0.5, Tolerance::default().atol, Vec::new()));
        assert_eq!(read(r#"{"atol": 0, "distance": [null, 0.25]}"#).distance, [None, Some(0.25)]);
        let tensor = |values: [f32; 2]| Value::Tensor(Tensor::from_vec([2], values.to_vec()).unwrap());
        let mut spread = Spread::default();
        assert!(added(&mut spread, &tensor([3.0, 4.0]), &tensor([3.0, 4.0])));
        assert_eq!(spread.share(), 0.0);
        assert!(added(&mut spread, &tensor([0.0, 0.0]), &tensor([3.0, 4.0])));
        assert_eq!(spread.share(), 1.0, "differences of all data sets together");
        assert!(added(&mut spread, &tensor([0.0, f32::NAN]), &tensor([0.0, f32::NAN])));
        assert_eq!(spread.share(), 1.0, "what is expected to be no number is not compared");
        assert!(added(&mut spread, &tensor([0.0, 1.0]), &tensor([0.0, f32::NAN])));
        assert!(spread.share().is_infinite());
        let longer = Value::Tensor(Tensor::from_vec([3], vec![0f32; 3]).unwrap());
        assert!(!added(&mut spread, &longer, &tensor([0.0, 0.0])));
    }

    #[test]
    fn a_panic_is_a_verdict_with_its_message_and_place() {
        let crashes = Crashes::watch();
        let verdict = crashes.guard(|| panic!("index {} is\nout of range", 7));
        let Verdict::Crashed(what) = &verdict else { panic!("{verdict}") };
        assert!(what.starts_with("index 7 is out of range at ") && what.contains("case.rs:"), "{what}");
        assert_eq!(crashes.guard(|| Verdict::Passed), Verdict::Passed);
    }
}
