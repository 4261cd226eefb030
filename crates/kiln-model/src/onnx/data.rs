//! Values of test cases: tensors, maps, sequences of either, optional values. Models have tensors only.

use std::sync::Arc;

use bytes::Bytes;
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};
use prost::Message;

use super::proto::TensorProto;
use super::source::Source;
use super::{External, Limits, ModelError, import_tensor, refusable, shown};
use crate::ir::ValueKind;
use crate::{Map, Value};

/// `SequenceProto` of ONNX's onnx-data.proto, for sequences of tensors and of maps.
#[derive(Clone, PartialEq, Message)]
struct SequenceProto {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    elem_type: Option<i32>,
    #[prost(message, repeated, tag = "3")]
    tensor_values: Vec<TensorProto>,
    #[prost(message, repeated, tag = "6")]
    map_values: Vec<MapProto>,
}

/// `MapProto` of the same file. Keys are in one of two fields; each value is a tensor of one element.
#[derive(Clone, PartialEq, Message)]
struct MapProto {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    key_type: Option<i32>,
    #[prost(int64, repeated, tag = "3")]
    keys: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "4")]
    string_keys: Vec<Vec<u8>>,
    #[prost(message, optional, boxed, tag = "5")]
    values: Option<Box<SequenceProto>>,
}

/// `OptionalProto` of the same file, for tensors and sequences of tensors.
#[derive(Clone, PartialEq, Message)]
struct OptionalProto {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    elem_type: Option<i32>,
    #[prost(message, optional, tag = "3")]
    tensor_value: Option<TensorProto>,
    #[prost(message, optional, tag = "5")]
    sequence_value: Option<SequenceProto>,
}

/// Values of `elem_type`: both messages number the kinds alike.
const UNDEFINED: i32 = 0;
const TENSOR: i32 = 1;
const SEQUENCE: i32 = 3;
const MAP: i32 = 4;

/// The number of the type of texts.
const STRING_KEYS: i32 = 8;

/// Reads one serialised tensor, such as an input or output of a test case.
///
/// # Errors
///
/// [`ModelError::Wire`] for bytes that are not a tensor, [`ModelError::Tensor`] for an invalid tensor,
/// [`ModelError::Memory`] where there is no memory for it. Sequences and optional values are other messages
/// ([`read_value`]).
pub fn read_tensor(bytes: impl Into<Bytes>) -> Result<Tensor, ModelError> {
    let bytes = bytes.into();
    refusable(|| tensor(&decode::<TensorProto>(bytes)?))
}

/// Reads one serialised value of that kind, which the file does not state.
///
/// # Errors
///
/// As [`read_tensor`], and [`ModelError::Unsupported`] for sequences and optional values whose elements are not of that
/// kind.
pub fn read_value(bytes: impl Into<Bytes>, kind: ValueKind) -> Result<Value, ModelError> {
    let bytes = bytes.into();
    refusable(|| value_of(bytes, kind))
}

fn value_of(bytes: Bytes, kind: ValueKind) -> Result<Value, ModelError> {
    match kind {
        ValueKind::Tensor => tensor(&decode::<TensorProto>(bytes)?).map(Value::Tensor),
        ValueKind::Sequence => sequence(&decode::<SequenceProto>(bytes)?),
        ValueKind::Map(_) => map(&decode::<MapProto>(bytes)?).map(|map| Value::Map(Arc::new(map))),
        ValueKind::Maps(_) => {
            let proto = decode::<SequenceProto>(bytes)?;
            match proto.elem_type() {
                UNDEFINED | MAP => {
                    let maps: Vec<Map> = proto.map_values.iter().map(map).collect::<Result<_, _>>()?;
                    Ok(Value::Maps(Arc::new(maps)))
                }
                other => Err(of_kind("a sequence", other, proto.name())),
            }
        }
        ValueKind::Optional | ValueKind::OptionalSequence => {
            let proto = decode::<OptionalProto>(bytes)?;
            match (proto.elem_type(), &proto.tensor_value, &proto.sequence_value) {
                (TENSOR, Some(element), None) => tensor(element).map(Value::Tensor),
                (SEQUENCE, None, Some(element)) => sequence(element),
                (UNDEFINED | TENSOR | SEQUENCE, None, None) => Ok(Value::Nothing),
                (other, ..) => Err(of_kind("an optional value", other, proto.name())),
            }
        }
    }
}

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, ModelError> {
    M::decode(&mut Source::memory(bytes)).map_err(|error| ModelError::Wire(error.to_string()))
}

fn tensor(proto: &TensorProto) -> Result<Tensor, ModelError> {
    import_tensor(proto, &Limits::default(), &mut External::default(), &|| format!("tensor {}", shown(proto.name())))
}

fn sequence(proto: &SequenceProto) -> Result<Value, ModelError> {
    match proto.elem_type() {
        UNDEFINED | TENSOR => proto.tensor_values.iter().map(tensor).collect::<Result<_, _>>().map(Value::sequence),
        other => Err(of_kind("a sequence", other, proto.name())),
    }
}

fn map(proto: &MapProto) -> Result<Map, ModelError> {
    let place = || format!("value {}", shown(proto.name()));
    let malformed = |reason: String| ModelError::Malformed { place: place(), reason };
    let refused = |error: TensorError| malformed(error.to_string());
    let texts = proto.string_keys.iter().map(|key| String::from_utf8(key.clone()));
    let texts: Vec<String> = texts.collect::<Result<_, _>>().map_err(|error| malformed(error.to_string()))?;
    let keys = match texts.is_empty() && proto.key_type() != STRING_KEYS {
        true => Tensor::from_slice([proto.keys.len()], &proto.keys).map_err(refused)?,
        false => Tensor::from_strings([texts.len()], texts).map_err(refused)?,
    };
    let values = proto.values.as_deref().map_or(&[][..], |values| values.tensor_values.as_slice());
    let values = values.iter().map(tensor).collect::<Result<Vec<Tensor>, _>>()?;
    if values.iter().any(|value| value.len() != 1) {
        return Err(malformed("a map whose values are no single elements".to_owned()));
    }
    let dtype = values.first().map_or(DType::F32, Tensor::dtype);
    let joined = match dtype {
        _ if values.iter().any(|value| value.dtype() != dtype) => {
            return Err(malformed("a map whose values are of different types".to_owned()));
        }
        DType::String => {
            let texts = values.iter().flat_map(|value| value.as_strings().unwrap_or_default()).cloned().collect();
            Tensor::from_strings([values.len()], texts)
        }
        dtype => {
            let mut bytes = Vec::with_capacity(values.len() * dtype.size());
            values.iter().for_each(|value| bytes.extend_from_slice(value.bytes()));
            Tensor::from_bytes(TensorSpec::new(dtype, [values.len()]), &bytes)
        }
    };
    Map::new(keys, joined.map_err(refused)?).map_err(|error| malformed(error.to_string()))
}

fn of_kind(what: &str, kind: i32, name: &str) -> ModelError {
    ModelError::Unsupported { what: format!("{what} of kind {kind}"), place: format!("value {}", shown(name)) }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::memory::{self, IsOver, Refused};

    use super::*;

    fn scalar(value: f32) -> TensorProto {
        super::super::tensor_proto("t", &Tensor::scalar(value))
    }

    #[test]
    fn a_tensor_that_is_refused_memory_is_not_said_to_be_wrong() {
        let large = Tensor::zeros(TensorSpec::new(DType::F32, [16 << 20])).unwrap();
        let bytes = super::super::write_tensor("large", &large);
        let is_over: IsOver = Arc::new(|| true);
        let read = memory::until(Some(&is_over), || read_tensor(bytes));
        assert!(matches!(read, Err(ModelError::Memory(Refused::Over { .. }))), "{:?}", read.map(|_| ()));
    }

    #[test]
    fn maps_have_keys_of_either_field_and_a_value_for_each() {
        let values = |values: &[f32]| {
            let tensor_values = values.iter().copied().map(scalar).collect();
            Some(Box::new(SequenceProto { elem_type: Some(TENSOR), tensor_values, ..SequenceProto::default() }))
        };
        let numbers = MapProto { keys: vec![4, 2], values: values(&[0.5, 1.5]), ..MapProto::default() };
        let Ok(Value::Map(map)) = read_value(numbers.encode_to_vec(), ValueKind::Map(DType::I64)) else {
            panic!("a map is a map")
        };
        assert_eq!(map.keys().as_slice::<i64>().unwrap(), [4, 2]);
        assert_eq!(map.values().as_slice::<f32>().unwrap(), [0.5, 1.5]);
        let texts = MapProto { string_keys: vec![b"a".to_vec()], values: values(&[2.5]), ..MapProto::default() };
        let both = SequenceProto { elem_type: Some(MAP), map_values: vec![texts.clone(), texts], ..Default::default() };
        let Ok(Value::Maps(maps)) = read_value(both.encode_to_vec(), ValueKind::Maps(DType::String)) else {
            panic!("a sequence of maps is one")
        };
        assert_eq!(maps[1].keys().as_strings().unwrap(), ["a"]);
        let short = MapProto { keys: vec![4, 2], values: values(&[0.5]), ..MapProto::default() };
        let refused = read_value(short.encode_to_vec(), ValueKind::Map(DType::I64));
        assert!(matches!(refused, Err(ModelError::Malformed { .. })));
        let bytes = MapProto { string_keys: vec![vec![0xff]], values: values(&[0.5]), ..MapProto::default() };
        let refused = read_value(bytes.encode_to_vec(), ValueKind::Map(DType::String));
        assert!(matches!(refused, Err(ModelError::Malformed { .. })));
    }

    #[test]
    fn values_are_read_as_the_kind_that_they_are() {
        let tensor_values = vec![scalar(1.0), scalar(2.0)];
        let two = SequenceProto { elem_type: Some(TENSOR), tensor_values, ..SequenceProto::default() };
        let Ok(Value::Sequence(tensors)) = read_value(two.encode_to_vec(), ValueKind::Sequence) else {
            panic!("a sequence is a sequence")
        };
        assert_eq!(tensors[1].as_slice::<f32>().unwrap(), [2.0]);
        let given =
            OptionalProto { elem_type: Some(SEQUENCE), sequence_value: Some(two.clone()), ..OptionalProto::default() };
        let given = read_value(given.encode_to_vec(), ValueKind::OptionalSequence);
        assert!(matches!(given, Ok(Value::Sequence(tensors)) if tensors.len() == 2));
        let given =
            OptionalProto { elem_type: Some(TENSOR), tensor_value: Some(scalar(3.0)), ..OptionalProto::default() };
        let given = read_value(given.encode_to_vec(), ValueKind::Optional);
        assert!(matches!(given, Ok(Value::Tensor(tensor)) if tensor.as_slice::<f32>() == Ok(&[3.0])));
        assert!(matches!(read_value(Vec::new(), ValueKind::Optional), Ok(Value::Nothing)));
        for kind in [2, 4, 5, -1] {
            let maps = SequenceProto { elem_type: Some(kind), ..SequenceProto::default() };
            let refused = read_value(maps.encode_to_vec(), ValueKind::Sequence);
            assert!(matches!(refused, Err(ModelError::Unsupported { .. })), "{kind}");
            let other = OptionalProto { elem_type: Some(kind), ..OptionalProto::default() };
            let refused = read_value(other.encode_to_vec(), ValueKind::Optional);
            assert!(matches!(refused, Err(ModelError::Unsupported { .. })), "{kind}");
        }
    }
}
