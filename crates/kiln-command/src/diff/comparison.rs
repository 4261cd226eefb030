//! Compares values: a tensor, or a sequence tensor by tensor. Depends on no session and no graph.

use kiln::session::Precision;
use kiln_model::Value;
use kiln_tensor::{Tensor, TensorError};

use crate::closeness::{self, Difference, Tolerance};
use crate::dump::storable;

/// How far elements may be off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    pub(super) tolerance: Tolerance,
    /// The share of a tensor's largest element.
    pub(super) scale: f64,
    /// The precision of the weights.
    pub(super) precision: Precision,
}

impl Allowed {
    fn of(self, expected: &Tensor) -> Tolerance {
        self.tolerance.scaled(expected, self.scale).lowered(expected, self.precision)
    }
}

/// How two values differ.
#[derive(Debug)]
pub(super) enum Deviation {
    /// They are of different kinds, or sequences of different lengths.
    Kind {
        /// The expected kind.
        expected: String,
        /// The actual kind.
        actual: String,
    },
    /// Tensors differ; in a value of several, those at that index.
    Tensor {
        /// The place among the value's tensors; keys and values of maps are two.
        place: Option<usize>,
        /// How.
        difference: Difference,
    },
}

/// The deviation of a value from the expected one, if it is out of tolerance.
pub(super) fn deviation(expected: &Value, actual: &Value, allowed: Allowed) -> Result<Option<Deviation>, TensorError> {
    match (expected, actual) {
        (Value::Tensor(expected), Value::Tensor(actual)) => tensors(None, expected, actual, allowed),
        (Value::Nothing, Value::Nothing) => Ok(None),
        _ if kind(expected) == kind(actual) => {
            for (place, (expected, actual)) in expected.tensors().iter().zip(actual.tensors().iter()).enumerate() {
                if let Some(found) = tensors(Some(place), expected, actual, allowed)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        _ => Ok(Some(Deviation::Kind { expected: kind(expected), actual: kind(actual) })),
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Sequence(tensors) => format!("a sequence of {} tensors", tensors.len()),
        Value::Maps(maps) => format!("a sequence of {} maps", maps.len()),
        other => other.kind().to_string(),
    }
}

fn tensors(
    place: Option<usize>,
    expected: &Tensor,
    actual: &Tensor,
    allowed: Allowed,
) -> Result<Option<Deviation>, TensorError> {
    let tolerance = allowed.of(expected);
    // In files, types that numpy lacks are stored as wider ones.
    let stored = storable(actual)?;
    let is_stored = expected.dtype() != actual.dtype() && expected.dtype() == stored.dtype();
    let tolerance = if is_stored { tolerance.of(actual.dtype()) } else { tolerance };
    let difference = closeness::compare(expected, if is_stored { &stored } else { actual }, tolerance)?;
    Ok(difference.map(|difference| Deviation::Tensor { place, difference }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowed =
        Allowed { tolerance: Tolerance { rtol: 1e-3, atol: 1e-7, units: 0 }, scale: 0.0, precision: Precision::F32 };

    #[test]
    fn sequences_are_compared_tensor_by_tensor() {
        let tensor = |value: f32| Tensor::from_vec([1], vec![value]).unwrap();
        let pair = |second: f32| Value::sequence(vec![tensor(1.0), tensor(second)]);
        assert!(deviation(&pair(2.0), &pair(2.0), ALLOWED).unwrap().is_none());
        let found = deviation(&pair(2.0), &pair(3.0), ALLOWED).unwrap();
        assert!(matches!(found, Some(Deviation::Tensor { place: Some(1), .. })), "{found:?}");
        let found = deviation(&pair(2.0), &Value::sequence(Vec::new()), ALLOWED).unwrap();
        assert!(matches!(found, Some(Deviation::Kind { .. })), "{found:?}");
        assert!(deviation(&Value::Nothing, &pair(2.0), ALLOWED).unwrap().is_some());
    }

    #[test]
    fn types_that_files_lack_are_compared_by_what_was_stored() {
        let actual = Tensor::from_vec([1], vec![half::bf16::from_f32(1.5)]).unwrap();
        let stored = |value: f32| Value::Tensor(Tensor::from_vec([1], vec![value]).unwrap());
        let actual = Value::Tensor(actual);
        assert!(deviation(&stored(1.5), &actual, ALLOWED).unwrap().is_none());
        assert!(deviation(&stored(1.51), &actual, ALLOWED).unwrap().is_none(), "two units of bf16 pass");
        assert!(deviation(&stored(2.0), &actual, ALLOWED).unwrap().is_some());
        let floats = Value::Tensor(Tensor::from_vec([1], vec![1.5f64]).unwrap());
        assert!(deviation(&stored(1.5), &floats, ALLOWED).unwrap().is_some(), "float64 has a type of its own");
    }
}
