//! The values of a running graph: nearly always tensors, else sequences of tensors or optional values without an
//! element.
//!
//! An optional value of ONNX that has its element is that element; one without is [`Value::Nothing`]. The types that
//! operators accept are not nested further, so these cases are all. Depends on no operator.

use std::sync::Arc;

use super::error::NodeError;
use crate::tensor::Tensor;

/// A value of a running graph.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Tensors of one element type in an order; shared, and copied before a change if there is another owner.
    Sequence(Arc<Vec<Tensor>>),
    /// An optional value without an element.
    Nothing,
}

impl Value {
    /// A sequence of these tensors.
    #[must_use]
    pub fn sequence(tensors: Vec<Tensor>) -> Value {
        Value::Sequence(Arc::new(tensors))
    }

    /// The tensor, if it is one.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&Tensor> {
        if let Value::Tensor(tensor) = self { Some(tensor) } else { None }
    }

    /// The tensor.
    ///
    /// # Errors
    ///
    /// If it is another kind of value.
    pub fn into_tensor(self) -> Result<Tensor, NodeError> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(other.is_no("a tensor")),
        }
    }

    /// The tensors of a sequence; copied if there is another owner, which costs a reference each.
    ///
    /// # Errors
    ///
    /// If it is another kind of value.
    pub fn into_sequence(self) -> Result<Vec<Tensor>, NodeError> {
        match self {
            Value::Sequence(tensors) => Ok(Arc::unwrap_or_clone(tensors)),
            other => Err(other.is_no("a sequence")),
        }
    }

    /// Its kind, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Sequence(_) => "a sequence",
            Value::Nothing => "an optional value without an element",
        }
    }

    /// The error of a value that is not of the wanted kind.
    #[must_use]
    pub fn is_no(&self, wanted: &str) -> NodeError {
        NodeError::Input(format!("expected {wanted}, got {}", self.kind()))
    }

    /// Bytes of its tensors; shared ones count each time.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| tensor.byte_len() as u64;
        match self {
            Value::Tensor(tensor) => bytes(tensor),
            Value::Sequence(tensors) => tensors.iter().map(bytes).sum(),
            Value::Nothing => 0,
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_it_is_and_says_so() {
        let tensor = Tensor::scalar(1.0f32);
        assert!(Value::from(tensor.clone()).into_tensor().unwrap().same(&tensor));
        let sequence = Value::sequence(vec![tensor.clone(), tensor]);
        assert_eq!(sequence.bytes(), 8);
        let error = sequence.clone().into_tensor().unwrap_err().to_string();
        assert_eq!(error, "expected a tensor, got a sequence");
        assert_eq!(sequence.into_sequence().unwrap().len(), 2);
        let error = Value::Nothing.into_sequence().unwrap_err().to_string();
        assert_eq!(error, "expected a sequence, got an optional value without an element");
    }

    #[test]
    fn an_edge_is_no_wider_than_a_tensor() {
        // Runs move values; the rarer kinds must not make that more expensive.
        assert_eq!(size_of::<Option<Value>>(), size_of::<Option<Tensor>>());
    }
}
