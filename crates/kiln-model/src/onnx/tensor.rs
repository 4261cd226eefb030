//! Import of tensors: initialisers, attributes, constants of bodies and test data all go through [`import_tensor`],
//! which trusts neither the dimensions nor the lengths in a file.

use std::sync::Arc;

use bytes::Bytes;
use kiln_kernels::memory::{self, Collect};
use kiln_tensor::{Backing, Buffer, DType, Element, Shape, Tensor, TensorError, TensorSpec, dtype::BoolByte};

use super::external::Reference;
use super::proto::tensor_proto::{DataLocation, DataType};
use super::proto::{StringStringEntryProto, TensorProto};
use super::source::{Place, WINDOW};
use super::{External, Limits, ModelError, TensorProblem, dtype_code, dtype_of};

/// A tensor with exactly the elements of its shape. Memory is allocated only after a check that the file has them.
pub(super) fn import_tensor(
    proto: &TensorProto,
    limits: &Limits,
    external: &mut External,
    place: &dyn Fn() -> String,
) -> Result<Tensor, ModelError> {
    limits.check("the number of dimensions", proto.dims.len() as u64, limits.rank as u64, place)?;
    read(proto, external).map_err(|problem| ModelError::Tensor { place: place(), problem })
}

fn read(proto: &TensorProto, external: &mut External) -> Result<Tensor, TensorProblem> {
    if proto.segment.is_some() {
        return Err(TensorProblem::Segment);
    }
    let dtype = dtype_of(proto.data_type()).map_err(TensorProblem::Type)?;
    let spec = TensorSpec { dtype, shape: shape_of(&proto.dims)? };
    let count = spec.elements().map_err(|_| TensorProblem::Dims(proto.dims.clone()))?;
    let outside = proto.data_location() == DataLocation::External || !proto.external_data.is_empty();
    match (outside, typed_fields(proto), &proto.raw_data) {
        (true, 0, None) => read_external(spec, count, &proto.external_data, external),
        (false, 0, Some(raw)) => read_raw(spec, count, raw, external),
        (false, _, None) => read_typed(spec, count, proto, external),
        // Some writers leave an empty raw field beside the typed one.
        (false, _, Some(raw)) if raw.is_empty() => read_typed(spec, count, proto, external),
        _ => Err(TensorProblem::Ambiguous),
    }
}

fn shape_of(dims: &[i64]) -> Result<Shape, TensorProblem> {
    dims.iter().map(|&dim| usize::try_from(dim).map_err(|_| TensorProblem::Dims(dims.to_vec()))).collect()
}

/// The number of typed fields with data.
fn typed_fields(proto: &TensorProto) -> usize {
    let present = [
        proto.float_data.iter().any(|part| !part.is_empty()),
        !proto.int32_data.is_empty(),
        !proto.int64_data.is_empty(),
        proto.double_data.iter().any(|part| !part.is_empty()),
        !proto.uint64_data.is_empty(),
        !proto.string_data.is_empty(),
    ];
    present.into_iter().filter(|&field| field).count()
}

/// The number of elements in typed fields that are decoded, several of the smallest types in one.
fn typed_elements(proto: &TensorProto) -> usize {
    let wide = proto.int64_data.len() + proto.uint64_data.len();
    wide + proto.int32_data.len().saturating_mul(4) + proto.string_data.len()
}

fn bytes_of(spec: &TensorSpec, count: usize) -> Result<u64, TensorProblem> {
    if spec.dtype == DType::String {
        return Err(TensorProblem::Type("string as raw bytes".to_owned()));
    }
    // Cannot overflow: the bytes of the shape fit `isize`.
    Ok(match spec.dtype.packed_bits() {
        bits @ 1..8 => count.div_ceil(8 / bits) as u64,
        _ => (count * spec.dtype.size()) as u64,
    })
}

/// A tensor from bytes as in files, where elements of less than a byte are packed, the first in the lowest bits.
fn from_packed(spec: TensorSpec, count: usize, bytes: &[u8]) -> Result<Tensor, TensorError> {
    let bits = spec.dtype.packed_bits();
    if bits >= 8 {
        return Tensor::from_bytes(spec, bytes);
    }
    let (each, signed, unused) = (8 / bits, matches!(spec.dtype, DType::I4 | DType::I2), 8 - bits);
    let element = |index: usize| {
        let high = bytes[index / each] >> (index % each * bits) << unused;
        if signed { ((high as i8) >> unused) as u8 } else { high >> unused }
    };
    let count = if bytes.len() == count.div_ceil(each) { count } else { 0 };
    let elements: Vec<u8> = (0..count).map(element).collected();
    Tensor::from_bytes(spec, &elements)
}

/// The problem with a tensor's elements. A lack of memory is no fault of the tensor, and is raised instead.
fn unless_refused(error: TensorError, wrong: TensorProblem) -> TensorProblem {
    match error {
        TensorError::Refused(refused) => refused.raise(),
        _ => wrong,
    }
}

/// The bytes of a tensor as in files.
fn packed(tensor: &Tensor) -> Vec<u8> {
    let bits = tensor.dtype().packed_bits();
    if bits >= 8 {
        return memory::copied(tensor.bytes());
    }
    let mask = (1u8 << bits) - 1;
    let join = |elements: &[u8]| {
        let shifted = elements.iter().enumerate().map(|(place, element)| (element & mask) << (place * bits));
        shifted.fold(0, |byte, element| byte | element)
    };
    tensor.bytes().chunks(8 / bits).map(join).collected()
}

fn read_raw(spec: TensorSpec, count: usize, raw: &Bytes, external: &mut External) -> Result<Tensor, TensorProblem> {
    let need = bytes_of(&spec, count)?;
    let Some(Place { backing, offset, length }) = external.inline.find(raw) else {
        let wrong = TensorProblem::Length { need, found: raw.len() as u64, unit: "bytes" };
        if need == raw.len() as u64 {
            external.claims.add(need)?;
        }
        return from_packed(spec, count, raw).map_err(|error| unless_refused(error, wrong));
    };
    if need != length as u64 {
        return Err(TensorProblem::Length { need, found: length as u64, unit: "bytes" });
    }
    external.claims.add_of_file(backing, offset, need)?;
    if spec.dtype.packed_bits() < 8 {
        let mut bytes = memory::zeroed(length);
        backing.read(offset, &mut bytes);
        return from_packed(spec, count, &bytes)
            .map_err(|error| unless_refused(error, TensorProblem::Dims(Vec::new())));
    }
    deferred(spec, backing, offset, length)
}

/// A tensor that stays in its file until its elements are needed.
fn deferred(spec: TensorSpec, backing: &Arc<Backing>, offset: u64, length: usize) -> Result<Tensor, TensorProblem> {
    let buffer = Buffer::deferred(backing.clone(), offset, length);
    Tensor::from_buffer(spec, Arc::new(buffer), length)
        .map_err(|error| unless_refused(error, TensorProblem::Dims(Vec::new())))
}

fn read_external(
    spec: TensorSpec,
    count: usize,
    entries: &[StringStringEntryProto],
    external: &mut External,
) -> Result<Tensor, TensorProblem> {
    let need = bytes_of(&spec, count)?;
    let reference = Reference::from_entries(entries.iter().map(|entry| (entry.key(), entry.value())), need)?;
    if reference.length != need {
        return Err(TensorProblem::Length { need, found: reference.length, unit: "bytes" });
    }
    let region = external.open(&reference)?;
    external.claims.add_of_file(&region.backing, region.offset, need)?;
    if need >= WINDOW as u64 && spec.dtype.packed_bits() >= 8 {
        return deferred(spec, &region.backing, region.offset, need as usize);
    }
    let mut bytes = memory::zeroed(need as usize);
    region.read(&mut bytes)?;
    from_packed(spec, count, &bytes).map_err(|error| unless_refused(error, TensorProblem::Dims(Vec::new())))
}

fn read_typed(
    spec: TensorSpec,
    count: usize,
    proto: &TensorProto,
    external: &mut External,
) -> Result<Tensor, TensorProblem> {
    match spec.dtype {
        DType::F32 => return read_floats(spec, count, &proto.float_data, external),
        DType::F64 => return read_floats(spec, count, &proto.double_data, external),
        _ => (),
    }
    // Elements are counted below; memory is claimed only if there are at least as many as the shape has.
    if typed_elements(proto) >= count {
        external.claims.add((count * spec.dtype.size()) as u64)?;
    }
    let ints = &proto.int32_data;
    let shape = spec.shape;
    let made = match spec.dtype {
        DType::I64 => {
            counted(shape, count, proto.int64_data.len(), |shape| Tensor::from_slice(shape, &proto.int64_data))
        }
        DType::U64 => {
            counted(shape, count, proto.uint64_data.len(), |shape| Tensor::from_slice(shape, &proto.uint64_data))
        }
        DType::I32 => counted(shape, count, ints.len(), |shape| Tensor::from_slice(shape, ints)),
        DType::U32 => narrowed(shape, count, &proto.uint64_data, "uint32", |value| u32::try_from(value).ok()),
        DType::I16 => narrowed(shape, count, ints, "int16", |value| i16::try_from(value).ok()),
        DType::I8 => narrowed(shape, count, ints, "int8", |value| i8::try_from(value).ok()),
        DType::U16 => narrowed(shape, count, ints, "uint16", |value| u16::try_from(value).ok()),
        DType::U8 => narrowed(shape, count, ints, "uint8", |value| u8::try_from(value).ok()),
        DType::Bool => narrowed(shape, count, ints, "bool", |value| Some(BoolByte::from(value != 0))),
        // The 16-bit floats are in the field of 32-bit integers, by their bits.
        DType::F16 => {
            narrowed(shape, count, ints, "float16", |bits| Some(half::f16::from_bits(u16::try_from(bits).ok()?)))
        }
        DType::BF16 => {
            narrowed(shape, count, ints, "bfloat16", |bits| Some(half::bf16::from_bits(u16::try_from(bits).ok()?)))
        }
        DType::String => {
            let values = proto.string_data.iter().map(|bytes| String::from_utf8(bytes.clone()));
            let values: Vec<String> = values.try_collected().map_err(|_| TensorProblem::Text)?;
            counted(shape, count, values.len(), |shape| Tensor::from_strings(shape, values))
        }
        // The smallest types are there too, by their bytes, packed if they are less than a byte.
        small => {
            let spec = TensorSpec { dtype: small, shape };
            let (need, found) = (bytes_of(&spec, count)?, ints.len() as u64);
            let bytes: Result<Vec<u8>, TensorProblem> = ints
                .iter()
                .map(|&value| {
                    u8::try_from(value).map_err(|_| TensorProblem::Element { value: value.into(), dtype: small.name() })
                })
                .try_collected();
            let wrong = TensorProblem::Length { need, found, unit: "bytes" };
            from_packed(spec, count, &bytes?).map_err(|error| unless_refused(error, wrong))
        }
    };
    // A tensor with data in another type's field gets here with too few elements.
    made
}

/// A tensor of floats, which are packed as they are in memory: nearly always in one part.
fn read_floats(
    spec: TensorSpec,
    count: usize,
    parts: &[Bytes],
    external: &mut External,
) -> Result<Tensor, TensorProblem> {
    let (need, size) = (bytes_of(&spec, count)?, spec.dtype.size() as u64);
    let length = |part: &Bytes| external.inline.find(part).map_or(part.len(), |place| place.length) as u64;
    let found: u64 = parts.iter().map(length).sum();
    if need != found {
        return Err(TensorProblem::Length { need: count as u64, found: found / size, unit: "elements" });
    }
    if let [part] = parts {
        return read_raw(spec, count, part, external);
    }
    external.claims.add(need)?;
    let mut bytes = memory::zeroed(need as usize);
    let mut rest = &mut bytes[..];
    for part in parts {
        let place = external.inline.find(part);
        let (to, behind) = rest.split_at_mut(place.as_ref().map_or(part.len(), |place| place.length));
        match place {
            Some(Place { backing, offset, .. }) => backing.read(offset, to),
            None => to.copy_from_slice(part),
        }
        rest = behind;
    }
    from_packed(spec, count, &bytes).map_err(|error| unless_refused(error, TensorProblem::Dims(Vec::new())))
}

fn counted(
    shape: Shape,
    need: usize,
    found: usize,
    make: impl FnOnce(Shape) -> Result<Tensor, TensorError>,
) -> Result<Tensor, TensorProblem> {
    let short = TensorProblem::Length { need: need as u64, found: found as u64, unit: "elements" };
    if need == found { make(shape).map_err(|error| unless_refused(error, short)) } else { Err(short) }
}

fn narrowed<Wide: Copy + TryInto<i64>, Narrow: Element>(
    shape: Shape,
    need: usize,
    wide: &[Wide],
    dtype: &'static str,
    narrow: impl Fn(Wide) -> Option<Narrow>,
) -> Result<Tensor, TensorProblem> {
    let values = wide.iter().map(|&value| {
        narrow(value).ok_or_else(|| TensorProblem::Element { value: value.try_into().unwrap_or(i64::MAX), dtype })
    });
    let values: Vec<Narrow> = values.try_collected()?;
    counted(shape, need, values.len(), |shape| Tensor::from_vec(shape, values))
}

/// The message of a tensor, with elements as raw bytes where possible.
pub(super) fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let strings = tensor.as_strings().unwrap_or_default();
    let raw = (tensor.dtype() != DType::String).then(|| Bytes::from(packed(tensor)));
    debug_assert!(DataType::try_from(dtype_code(tensor.dtype())).is_ok());
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(dtype_code(tensor.dtype())),
        dims: tensor.shape().iter().map(|&dim| dim as i64).collect(),
        string_data: strings.iter().map(|value| value.as_bytes().to_vec()).collect(),
        raw_data: raw,
        ..Default::default()
    }
}
