//! Values of test cases: tensors, sequences of tensors, optional values. Models have tensors only.

use bytes::Bytes;
use prost::Message;

use super::proto::TensorProto;
use super::source::Source;
use super::{External, Limits, ModelError, import_tensor, shown};
use crate::graph::Value;
use crate::graph::ir::ValueKind;
use crate::tensor::Tensor;

/// `SequenceProto` of ONNX's onnx-data.proto, for sequences of tensors.
#[derive(Clone, PartialEq, Message)]
struct SequenceProto {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    elem_type: Option<i32>,
    #[prost(message, repeated, tag = "3")]
    tensor_values: Vec<TensorProto>,
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

/// Reads one serialised tensor, such as an input or output of a test case.
///
/// # Errors
///
/// [`ModelError::Wire`] for bytes that are not a tensor, [`ModelError::Tensor`] for an invalid tensor. Sequences and
/// optional values are other messages ([`read_value`]).
pub fn read_tensor(bytes: impl Into<Bytes>) -> Result<Tensor, ModelError> {
    tensor(&decode::<TensorProto>(bytes.into())?)
}

/// Reads one serialised value of that kind, which the file does not state.
///
/// # Errors
///
/// As [`read_tensor`], and [`ModelError::Unsupported`] for sequences and optional values of other elements than
/// tensors.
pub fn read_value(bytes: impl Into<Bytes>, kind: ValueKind) -> Result<Value, ModelError> {
    let bytes = bytes.into();
    match kind {
        ValueKind::Tensor => read_tensor(bytes).map(Value::Tensor),
        ValueKind::Sequence => sequence(&decode::<SequenceProto>(bytes)?),
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

fn of_kind(what: &str, kind: i32, name: &str) -> ModelError {
    ModelError::Unsupported { what: format!("{what} of kind {kind}"), place: format!("value {}", shown(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(value: f32) -> TensorProto {
        super::super::tensor_proto("t", &Tensor::scalar(value))
    }

    #[test]
    fn values_are_read_as_the_kind_that_they_are() {
        let two = SequenceProto { name: None, elem_type: Some(TENSOR), tensor_values: vec![scalar(1.0), scalar(2.0)] };
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
