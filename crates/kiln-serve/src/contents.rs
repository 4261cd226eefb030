//! Elements of an input in gRPC's `contents`, a list for each kind of number. The list is walked twice: once to check
//! and count, once to fill a buffer of exactly that size.

use crate::datatype::Datatype;
use crate::refusal::Refusal;
use crate::values;
use crate::wire::{self, Field, Fields, Value};

/// The lists by their field numbers, from 1.
const LISTS: [&str; 8] = [
    "bool_contents",
    "int_contents",
    "int64_contents",
    "uint_contents",
    "uint64_contents",
    "fp32_contents",
    "fp64_contents",
    "bytes_contents",
];

/// The field number of the list that holds a type's elements. `None` for FP16 and BF16, which only the raw form has.
fn list_of(datatype: Datatype) -> Option<u64> {
    Some(match datatype {
        Datatype::Bool => 1,
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 => 2,
        Datatype::Int64 => 3,
        Datatype::Uint8 | Datatype::Uint16 | Datatype::Uint32 => 4,
        Datatype::Uint64 => 5,
        Datatype::Fp32 => 6,
        Datatype::Fp64 => 7,
        Datatype::Bytes => 8,
        Datatype::Fp16 | Datatype::Bf16 => return None,
    })
}

/// Calls `visit` with each value of the type's list.
fn each_value<'a>(
    name: &str,
    datatype: Datatype,
    message: &'a [u8],
    mut visit: impl FnMut(Value<'a>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let wanted = list_of(datatype).ok_or_else(|| {
        let datatype = datatype.name();
        Refusal::bad(format!("input '{name}': {datatype} has no list in contents, send it as raw_input_contents"))
    })?;
    for field in Fields::of(message) {
        let Field { number, value } = field.map_err(|_| malformed(name))?;
        if number == wanted {
            visit(value)?;
        } else if let Some(list) = LISTS.get(number as usize - 1) {
            let (datatype, wanted) = (datatype.name(), LISTS[wanted as usize - 1]);
            return Err(Refusal::bad(format!(
                "input '{name}': elements of type {datatype} stand in {wanted}, {list} is given"
            )));
        }
    }
    Ok(())
}

fn malformed(name: &str) -> Refusal {
    Refusal::bad(format!("input '{name}': its contents are no message of protobuf"))
}

/// Calls `visit` with each number and its place; packed lists and single numbers are treated alike. Returns their
/// count.
fn each_number(
    name: &str,
    datatype: Datatype,
    message: &[u8],
    mut visit: impl FnMut(usize, u64) -> Result<(), Refusal>,
) -> Result<usize, Refusal> {
    let mut count = 0;
    let mut one = |number: u64| {
        visit(count, number)?;
        count += 1;
        Ok(())
    };
    each_value(name, datatype, message, |value| match (datatype, value) {
        (Datatype::Fp32, Value::Fixed32(bytes)) => one(u32::from_le_bytes(bytes).into()),
        (Datatype::Fp64, Value::Fixed64(bytes)) => one(u64::from_le_bytes(bytes)),
        (_, Value::Bytes(mut packed)) => {
            while !packed.is_empty() {
                let number = match datatype {
                    Datatype::Fp32 => wire::fixed(&mut packed).map(|bytes| u32::from_le_bytes(bytes).into()),
                    Datatype::Fp64 => wire::fixed(&mut packed).map(u64::from_le_bytes),
                    _ => wire::varint(&mut packed),
                };
                one(number.ok_or_else(|| malformed(name))?)?;
            }
            Ok(())
        }
        (Datatype::Fp32 | Datatype::Fp64, _) => Err(malformed(name)),
        (_, Value::Varint(number)) => one(number),
        _ => Err(malformed(name)),
    })?;
    Ok(count)
}

/// A number as little-endian bytes of the type's width. Numbers of 32 bits are the low half of the written number, as
/// in protobuf. The error is the number as its list has it.
fn number(datatype: Datatype, written: u64) -> Result<[u8; 8], i64> {
    let (signed, unsigned) = (written as i32, written as u32);
    let fits = match datatype {
        Datatype::Int8 => i8::try_from(signed).is_ok(),
        Datatype::Int16 => i16::try_from(signed).is_ok(),
        Datatype::Uint8 if u8::try_from(unsigned).is_err() => return Err(unsigned.into()),
        Datatype::Uint16 if u16::try_from(unsigned).is_err() => return Err(unsigned.into()),
        _ => true,
    };
    match datatype {
        _ if !fits => Err(signed.into()),
        Datatype::Bool => Ok(u64::from(written != 0).to_le_bytes()),
        _ => Ok(written.to_le_bytes()),
    }
}

/// The elements of an input, `expected` of them, of a type of fixed width.
pub(crate) fn numbers(name: &str, datatype: Datatype, expected: usize, message: &[u8]) -> Result<Vec<u8>, Refusal> {
    let width = datatype.width().unwrap_or(0);
    let value = |place, written| {
        number(datatype, written).map_err(|found| values::not_of_type(name, datatype, place, &found.to_string()))
    };
    let found = each_number(name, datatype, message, |place, written| value(place, written).map(drop))?;
    values::right_count(name, expected, found)?;
    let mut bytes = values::room(expected.saturating_mul(width), &format!("input '{name}'"))?;
    each_number(name, datatype, message, |place, written| {
        bytes.extend_from_slice(&value(place, written)?[..width]);
        Ok(())
    })?;
    Ok(bytes)
}

/// The elements of an input of BYTES.
pub(crate) fn texts(name: &str, expected: usize, message: &[u8]) -> Result<Vec<String>, Refusal> {
    let mut found = 0;
    each_value(name, Datatype::Bytes, message, |value| {
        let Value::Bytes(bytes) = value else { return Err(malformed(name)) };
        if std::str::from_utf8(bytes).is_err() {
            return Err(Refusal::bad(format!("input '{name}': element {found} of type BYTES is not UTF-8")));
        }
        found += 1;
        Ok(())
    })?;
    values::right_count(name, expected, found)?;
    let mut texts = values::room(expected, &format!("input '{name}'"))?;
    each_value(name, Datatype::Bytes, message, |value| {
        let Value::Bytes(bytes) = value else { return Err(malformed(name)) };
        texts.push(std::str::from_utf8(bytes).map_err(|_| malformed(name))?.to_owned());
        Ok(())
    })?;
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_or_single_or_both() {
        // int_contents: 1 and -2 packed, then 3 by itself.
        let message = b"\x12\x0b\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x03";
        assert_eq!(numbers("x", Datatype::Int8, 3, message).unwrap(), [1, 0xfe, 3]);
        let wide: Vec<u8> = [1i16, -2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(numbers("x", Datatype::Int16, 3, message).unwrap(), wide);
        let floats: Vec<u8> = [0.5f32, -1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let packed = [b"\x32\x08", &floats[..]].concat();
        assert_eq!(numbers("x", Datatype::Fp32, 2, &packed).unwrap(), floats);
        assert_eq!(numbers("x", Datatype::Bool, 2, b"\x0a\x02\x01\x00").unwrap(), [1, 0]);
        assert_eq!(texts("x", 2, b"\x42\x02ab\x42\x00").unwrap(), ["ab", ""]);
        assert_eq!(numbers("x", Datatype::Int64, 0, b"").unwrap(), [0u8; 0]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (datatype, message, part) in [
            (Datatype::Int8, &b"\x10\x80\x01"[..], "element 0 is 128, which is no INT8"),
            (Datatype::Uint8, b"\x20\x80\x02", "element 0 is 256, which is no UINT8"),
            (Datatype::Uint16, b"\x20\x80\x80\x04", "element 0 is 65536, which is no UINT16"),
            (Datatype::Int64, b"\x10\x01", "of type INT64 stand in int64_contents, int_contents is given"),
            (Datatype::Fp16, b"", "FP16 has no list in contents"),
            (Datatype::Int64, b"\x18\x01\x18\x01", "its shape has 1 elements, its data 2"),
            (Datatype::Int64, b"\x1a\x01\x80", "no message of protobuf"),
            (Datatype::Fp32, b"\x32\x03\0\0\0", "no message of protobuf"),
            (Datatype::Fp32, b"\x30\x01", "no message of protobuf"),
        ] {
            let error = numbers("x", datatype, 1, message).unwrap_err().message;
            assert!(error.contains(part), "{error}");
        }
        assert!(texts("x", 1, b"\x42\x01\xff").unwrap_err().message.contains("element 0 of type BYTES is not UTF-8"));
    }
}
