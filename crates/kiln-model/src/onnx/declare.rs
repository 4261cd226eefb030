//! Element types and declarations of values: ONNX's codes to and from [`DType`] and [`Dim`].

use kiln_tensor::DType;

use super::proto::tensor_proto::DataType;
use super::proto::{TypeProto, ValueInfoProto, tensor_shape_proto, type_proto};
use crate::ir::{Dim, ValueInfo, ValueKind};

/// The element type of a code; for others, a name for the error.
pub(super) fn dtype_of(code: i32) -> Result<DType, String> {
    let known = DataType::try_from(code).map_err(|_| format!("number {code}"))?;
    Ok(match known {
        DataType::Float => DType::F32,
        DataType::Double => DType::F64,
        DataType::Float16 => DType::F16,
        DataType::Bfloat16 => DType::BF16,
        DataType::Int8 => DType::I8,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::Uint8 => DType::U8,
        DataType::Uint16 => DType::U16,
        DataType::Uint32 => DType::U32,
        DataType::Uint64 => DType::U64,
        DataType::Bool => DType::Bool,
        DataType::String => DType::String,
        DataType::Float8e4m3fn => DType::F8E4M3,
        DataType::Float8e4m3fnuz => DType::F8E4M3Fnuz,
        DataType::Float8e5m2 => DType::F8E5M2,
        DataType::Float8e5m2fnuz => DType::F8E5M2Fnuz,
        DataType::Float8e8m0 => DType::F8E8M0,
        DataType::Float4e2m1 => DType::F4E2M1,
        DataType::Int4 => DType::I4,
        DataType::Uint4 => DType::U4,
        DataType::Int2 => DType::I2,
        DataType::Uint2 => DType::U2,
        other => return Err(other.as_str_name().to_lowercase()),
    })
}

/// The code of an element type.
pub(super) fn dtype_code(dtype: DType) -> i32 {
    let code = match dtype {
        DType::F32 => DataType::Float,
        DType::F64 => DataType::Double,
        DType::F16 => DataType::Float16,
        DType::BF16 => DataType::Bfloat16,
        DType::I8 => DataType::Int8,
        DType::I16 => DataType::Int16,
        DType::I32 => DataType::Int32,
        DType::I64 => DataType::Int64,
        DType::U8 => DataType::Uint8,
        DType::U16 => DataType::Uint16,
        DType::U32 => DataType::Uint32,
        DType::U64 => DataType::Uint64,
        DType::Bool => DataType::Bool,
        DType::String => DataType::String,
        DType::F8E4M3 => DataType::Float8e4m3fn,
        DType::F8E4M3Fnuz => DataType::Float8e4m3fnuz,
        DType::F8E5M2 => DataType::Float8e5m2,
        DType::F8E5M2Fnuz => DataType::Float8e5m2fnuz,
        DType::F8E8M0 => DataType::Float8e8m0,
        DType::F4E2M1 => DataType::Float4e2m1,
        DType::I4 => DataType::Int4,
        DType::U4 => DataType::Uint4,
        DType::I2 => DataType::Int2,
        DType::U2 => DataType::Uint2,
    };
    code as i32
}

/// The declared kind, and the element type of the tensor or of the tensors in it: `None` if it is not declared, an
/// error if such values are not supported.
pub(super) fn declared_type(info: &ValueInfoProto) -> Result<(ValueKind, Option<DType>), String> {
    let declared = info.r#type.as_ref();
    let element = |boxed: &Option<Box<TypeProto>>| boxed.as_ref().and_then(|element| element.value.clone());
    match declared.and_then(|declared| declared.value.as_ref()) {
        None => Ok((ValueKind::Tensor, None)),
        Some(type_proto::Value::TensorType(tensor)) => Ok((ValueKind::Tensor, element_type(tensor)?)),
        Some(type_proto::Value::SequenceType(sequence)) => match element(&sequence.elem_type) {
            Some(type_proto::Value::TensorType(tensor)) => Ok((ValueKind::Sequence, element_type(&tensor)?)),
            Some(type_proto::Value::MapType(map)) => {
                let (keys, values) = map_types(&map)?;
                Ok((ValueKind::Maps(keys), values))
            }
            _ => Err("a sequence of what are no tensors and no maps".to_owned()),
        },
        Some(type_proto::Value::OptionalType(optional)) => match element(&optional.elem_type) {
            Some(type_proto::Value::TensorType(tensor)) => Ok((ValueKind::Optional, element_type(&tensor)?)),
            Some(type_proto::Value::SequenceType(sequence)) => match element(&sequence.elem_type) {
                Some(type_proto::Value::TensorType(tensor)) => {
                    Ok((ValueKind::OptionalSequence, element_type(&tensor)?))
                }
                _ => Err("an optional sequence of what are no tensors".to_owned()),
            },
            _ => Err("an optional value that is no tensor and no sequence of tensors".to_owned()),
        },
        Some(type_proto::Value::MapType(map)) => {
            let (keys, values) = map_types(map)?;
            Ok((ValueKind::Map(keys), values))
        }
        Some(type_proto::Value::SparseTensorType(_)) => Err("a sparse tensor".to_owned()),
        Some(_) => Err("a value that is no tensor".to_owned()),
    }
}

/// The types of keys and of values, which are single elements.
fn map_types(map: &type_proto::Map) -> Result<(DType, Option<DType>), String> {
    let keys = match dtype_of(map.key_type()) {
        Ok(keys @ (DType::I64 | DType::String)) => keys,
        Ok(other) => return Err(format!("a map whose keys are of type {other}")),
        Err(name) => return Err(format!("a map whose keys are of type {name}")),
    };
    match map.value_type.as_ref().and_then(|values| values.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => Ok((keys, element_type(tensor)?)),
        _ => Err("a map whose values are no tensors".to_owned()),
    }
}

fn element_type(tensor: &type_proto::Tensor) -> Result<Option<DType>, String> {
    match tensor.elem_type() {
        0 => Ok(None),
        code => dtype_of(code).map(Some).map_err(|name| format!("element type {name}")),
    }
}

/// The declared dimensions, if the rank is declared. An invalid size (-1 often stands for "unknown") is an unknown
/// size, and so is a name without a letter or a digit: exporters write "?" for every size that they do not know, which
/// does not mean that these are equal.
pub(super) fn declared_dims(info: &ValueInfoProto) -> Option<Vec<Dim>> {
    let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_ref()?.value.as_ref() else { return None };
    let dims = tensor.shape.as_ref()?.dim.iter().map(|dim| match &dim.value {
        Some(tensor_shape_proto::dimension::Value::DimValue(size)) => {
            usize::try_from(*size).map_or(Dim::Any, Dim::Fixed)
        }
        Some(tensor_shape_proto::dimension::Value::DimParam(name)) if is_name(name) => Dim::Named(name.clone()),
        _ => Dim::Any,
    });
    Some(dims.collect())
}

fn is_name(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// The declaration of a value, for writing.
pub(super) fn declaration(info: &ValueInfo) -> ValueInfoProto {
    let shape = info.dims.as_ref().map(|dims| super::proto::TensorShapeProto {
        dim: dims
            .iter()
            .map(|dim| tensor_shape_proto::Dimension {
                value: match dim {
                    Dim::Fixed(size) => Some(tensor_shape_proto::dimension::Value::DimValue(*size as i64)),
                    Dim::Named(name) => Some(tensor_shape_proto::dimension::Value::DimParam(name.clone())),
                    Dim::Any => None,
                },
                ..Default::default()
            })
            .collect(),
    });
    let tensor = type_proto::Tensor { elem_type: info.dtype.or(info.elements).map(dtype_code), shape };
    let tensor = type_proto::Value::TensorType(tensor);
    let boxed = |value| Some(Box::new(TypeProto { value: Some(value), ..Default::default() }));
    let sequence = |of| type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type: boxed(of) }));
    let optional = |of| type_proto::Value::OptionalType(Box::new(type_proto::Optional { elem_type: boxed(of) }));
    let map = |keys, of| {
        type_proto::Value::MapType(Box::new(type_proto::Map {
            key_type: Some(dtype_code(keys)),
            value_type: boxed(of),
        }))
    };
    let value = match info.kind {
        ValueKind::Tensor => tensor,
        ValueKind::Sequence => sequence(tensor),
        ValueKind::Optional => optional(tensor),
        ValueKind::OptionalSequence => optional(sequence(tensor)),
        ValueKind::Map(keys) => map(keys, tensor),
        ValueKind::Maps(keys) => sequence(map(keys, tensor)),
    };
    ValueInfoProto {
        name: Some(info.name.clone()),
        r#type: Some(TypeProto { value: Some(value), ..Default::default() }),
        ..Default::default()
    }
}
