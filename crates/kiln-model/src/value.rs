//! The values of a running graph: mostly tensors, else sequences of tensors, maps, sequences of maps, or absent
//! optional values.
//!
//! An optional value of ONNX that has its element is that element; one without is [`Value::Nothing`]. The types that
//! operators accept are not nested further, so there are no other cases. Depends on no operator.

use std::borrow::Cow;
use std::sync::Arc;

use kiln_kernels::memory::Collect;
use kiln_tensor::{DType, Tensor};

/// A value is not of the wanted kind, or its parts are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

/// Keys, which are integers of 64 bits or texts, and a value for each. The last value of a key counts.
#[derive(Clone, Debug)]
pub struct Map {
    keys: Tensor,
    values: Tensor,
}

impl Map {
    /// A map of two lists of one length.
    ///
    /// # Errors
    ///
    /// If they have different lengths or are no lists, or if the keys have another type.
    pub fn new(keys: Tensor, values: Tensor) -> Result<Map, ValueError> {
        let refused = |reason: String| Err(ValueError(reason));
        match (keys.shape(), values.shape()) {
            ([keys], [values]) if keys == values => {}
            (keys, values) => {
                return refused(format!("a map of keys of shape {keys:?} and values of shape {values:?}"));
            }
        }
        match keys.dtype() {
            DType::I64 | DType::String => Ok(Map { keys, values }),
            other => refused(format!("a map whose keys are of type {other}")),
        }
    }

    /// The keys, a list.
    #[must_use]
    pub fn keys(&self) -> &Tensor {
        &self.keys
    }

    /// The value of each key, a list.
    #[must_use]
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Both lists, to be moved elsewhere in memory; their lengths and types must not change.
    pub fn lists_mut(&mut self) -> [&mut Tensor; 2] {
        [&mut self.keys, &mut self.values]
    }

    /// Its keys in ascending order, and the value of each.
    #[must_use]
    pub fn sorted(&self) -> [Tensor; 2] {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        if let Ok(texts) = self.keys.as_strings() {
            order.sort_by_key(|&place| &texts[place]);
        } else if let Ok(numbers) = self.keys.as_slice::<i64>() {
            order.sort_by_key(|&place| numbers[place]);
        }
        [&self.keys, &self.values].map(|list| picked(list, &order))
    }

    fn bytes(&self) -> u64 {
        (self.keys.byte_len() + self.values.byte_len()) as u64
    }
}

/// The elements of a list in another order.
fn picked(list: &Tensor, order: &[usize]) -> Tensor {
    let made = match list.as_strings() {
        Ok(texts) => Tensor::from_strings([order.len()], order.iter().map(|&place| texts[place].clone()).collected()),
        Err(_) => {
            let size = list.dtype().size();
            let bytes = order.iter().flat_map(|&place| &list.bytes()[place * size..][..size]).copied();
            Tensor::from_bytes(list.spec().clone(), &bytes.collected())
        }
    };
    // As many elements as the list has.
    made.unwrap_or_else(|_| list.clone())
}

/// A value of a running graph.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Tensors of one element type in an order; shared, and copied before a change if there is another owner.
    Sequence(Arc<Vec<Tensor>>),
    /// A map; shared.
    Map(Arc<Map>),
    /// Maps of one type in an order; shared.
    Maps(Arc<Vec<Map>>),
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
    pub fn into_tensor(self) -> Result<Tensor, ValueError> {
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
    pub fn into_sequence(self) -> Result<Vec<Tensor>, ValueError> {
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
            Value::Map(_) => "a map",
            Value::Maps(_) => "a sequence of maps",
            Value::Nothing => "an optional value without an element",
        }
    }

    /// The tensors of the value, in an order that does not depend on how it was made: a map has its keys, ascending,
    /// then their values.
    #[must_use]
    pub fn tensors(&self) -> Cow<'_, [Tensor]> {
        match self {
            Value::Tensor(tensor) => Cow::Borrowed(std::slice::from_ref(tensor)),
            Value::Sequence(tensors) => Cow::Borrowed(tensors),
            Value::Map(map) => Cow::Owned(map.sorted().to_vec()),
            Value::Maps(maps) => Cow::Owned(maps.iter().flat_map(Map::sorted).collect()),
            Value::Nothing => Cow::Borrowed(&[]),
        }
    }

    /// The error of a value that is not of the wanted kind.
    #[must_use]
    pub fn is_no(&self, wanted: &str) -> ValueError {
        ValueError(format!("expected {wanted}, got {}", self.kind()))
    }

    /// Bytes of its tensors; shared ones count each time.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| tensor.byte_len() as u64;
        match self {
            Value::Tensor(tensor) => bytes(tensor),
            Value::Sequence(tensors) => tensors.iter().map(bytes).sum(),
            Value::Map(map) => map.bytes(),
            Value::Maps(maps) => maps.iter().map(Map::bytes).sum(),
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
    fn maps_are_lists_of_one_length_and_the_same_in_any_order() {
        let list = |values: &[f32]| Tensor::from_slice([values.len()], values).unwrap();
        let numbers = |values: &[i64]| Tensor::from_slice([values.len()], values).unwrap();
        assert!(Map::new(numbers(&[1, 2]), list(&[1.0])).is_err());
        assert!(Map::new(list(&[1.0]), list(&[1.0])).is_err());
        assert!(Map::new(Tensor::scalar(1i64), Tensor::scalar(1f32)).is_err());
        let map = Map::new(numbers(&[7, -2]), list(&[0.5, 1.5])).unwrap();
        let value = Value::Maps(Arc::new(vec![map.clone(), map]));
        assert_eq!((value.bytes(), value.kind()), (48, "a sequence of maps"));
        let parts = value.tensors();
        assert_eq!(parts.len(), 4);
        assert_eq!(parts[2].as_slice::<i64>().unwrap(), [-2, 7]);
        assert_eq!(parts[3].as_slice::<f32>().unwrap(), [1.5, 0.5]);
        let names = Tensor::from_strings([2], vec!["b".to_owned(), "a".to_owned()]).unwrap();
        let value = Value::Map(Arc::new(Map::new(names, list(&[0.5, 1.5])).unwrap()));
        assert_eq!(value.tensors()[0].as_strings().unwrap(), ["a", "b"]);
        assert!(value.into_tensor().is_err());
    }

    #[test]
    fn an_edge_is_no_wider_than_a_tensor() {
        // Runs move values; the rarer kinds must not make that more expensive.
        assert_eq!(size_of::<Option<Value>>(), size_of::<Option<Tensor>>());
    }
}
