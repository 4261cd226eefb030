//! Elements of tensors, in JSON and in bytes. Each form is walked twice: once to check and count, once to fill a buffer
//! of exactly that size, so that a stated size allocates nothing.

use crate::datatype::Datatype;
use crate::refusal::Refusal;

/// The number of elements of a shape; `None` if it overflows.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim))
}

/// An empty list with room for `count` items.
pub(crate) fn room<T>(count: usize, what: &str) -> Result<Vec<T>, Refusal> {
    let mut list = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    list.try_reserve_exact(count).map_err(|_| Refusal::no_memory(bytes, what))?;
    Ok(list)
}

/// Calls `visit` with each scalar of a JSON list, flat or nested, and its place. `text` is valid JSON.
fn each_scalar<'a>(
    name: &str,
    text: &'a str,
    mut visit: impl FnMut(usize, &'a str) -> Result<(), Refusal>,
) -> Result<usize, Refusal> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'[') {
        return Err(Refusal::bad(format!("input '{name}': 'data' is no list")));
    }
    let (mut at, mut count) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'[' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'{' => return Err(Refusal::bad(format!("input '{name}': element {count} is an object"))),
            b'"' => end_of_string(bytes, at),
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                bytes[at..].iter().position(is_end).map_or(bytes.len(), |length| at + length)
            }
        };
        visit(count, &text[at..end])?;
        count += 1;
        at = end;
    }
    Ok(count)
}

/// The end of the string that begins at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A JSON scalar as little-endian bytes; the first `width` bytes count.
fn number(datatype: Datatype, token: &str) -> Option<[u8; 8]> {
    fn wide<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
        let mut all = [0; 8];
        all[..N].copy_from_slice(&bytes);
        all
    }
    macro_rules! read {
        ($type:ty) => {
            token.parse::<$type>().ok().map(|value| wide(value.to_le_bytes()))
        };
    }
    // Rust's parser takes words such as `inf`, which JSON does not have.
    let is_number = token.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    match (datatype, token) {
        (Datatype::Bool, "true" | "1") => Some(wide([1])),
        (Datatype::Bool, "false" | "0") => Some(wide([0])),
        (Datatype::Bool, _) => None,
        _ if !is_number => None,
        (Datatype::Uint8, _) => read!(u8),
        (Datatype::Uint16, _) => read!(u16),
        (Datatype::Uint32, _) => read!(u32),
        (Datatype::Uint64, _) => read!(u64),
        (Datatype::Int8, _) => read!(i8),
        (Datatype::Int16, _) => read!(i16),
        (Datatype::Int32, _) => read!(i32),
        (Datatype::Int64, _) => read!(i64),
        (Datatype::Fp32, _) => token.parse::<f32>().ok().filter(|v| v.is_finite()).map(|v| wide(v.to_le_bytes())),
        (Datatype::Fp64, _) => token.parse::<f64>().ok().filter(|v| v.is_finite()).map(|v| wide(v.to_le_bytes())),
        (Datatype::Fp16 | Datatype::Bf16 | Datatype::Bytes, _) => None,
    }
}

/// The elements of an input in JSON, `expected` of them, of a type of fixed width.
pub(crate) fn numbers_of_json(name: &str, datatype: Datatype, expected: usize, text: &str) -> Result<Vec<u8>, Refusal> {
    let width = json_width(name, datatype)?;
    let found = each_scalar(name, text, |place, token| match number(datatype, token) {
        Some(_) => Ok(()),
        None => Err(not_of_type(name, datatype, place, token)),
    })?;
    right_count(name, expected, found)?;
    let mut bytes = room(expected.saturating_mul(width), &format!("input '{name}'"))?;
    each_scalar(name, text, |place, token| {
        let value = number(datatype, token).ok_or_else(|| not_of_type(name, datatype, place, token))?;
        bytes.extend_from_slice(&value[..width]);
        Ok(())
    })?;
    Ok(bytes)
}

/// The elements of an input of BYTES in JSON: strings.
pub(crate) fn texts_of_json(name: &str, expected: usize, text: &str) -> Result<Vec<String>, Refusal> {
    let found = each_scalar(name, text, |place, token| {
        if token.starts_with('"') { Ok(()) } else { Err(not_of_type(name, Datatype::Bytes, place, token)) }
    })?;
    right_count(name, expected, found)?;
    let mut texts = room(expected, &format!("input '{name}'"))?;
    each_scalar(name, text, |place, token| {
        // A JSON string with half of a pair of code units is not a text.
        let value: String =
            serde_json::from_str(token).map_err(|_| not_of_type(name, Datatype::Bytes, place, token))?;
        texts.push(value);
        Ok(())
    })?;
    Ok(texts)
}

/// The bytes of an element of that type where JSON can hold it.
fn json_width(name: &str, datatype: Datatype) -> Result<usize, Refusal> {
    match (datatype, datatype.width()) {
        (Datatype::Fp16 | Datatype::Bf16, _) | (_, None) => Err(Refusal::bad(format!(
            "input '{name}': {} has no form in JSON, send it by the binary tensor extension",
            datatype.name()
        ))),
        (_, Some(width)) => Ok(width),
    }
}

pub(crate) fn not_of_type(name: &str, datatype: Datatype, place: usize, token: &str) -> Refusal {
    let shown: String = token.chars().take(40).collect();
    Refusal::bad(format!("input '{name}': element {place} is {shown}, which is no {}", datatype.name()))
}

pub(crate) fn right_count(name: &str, expected: usize, found: usize) -> Result<(), Refusal> {
    if expected == found {
        return Ok(());
    }
    Err(Refusal::bad(format!("input '{name}': its shape has {expected} elements, its data {found}")))
}

/// Checks the bytes of an input of fixed width.
pub(crate) fn check_bytes(name: &str, datatype: Datatype, expected: usize, bytes: &[u8]) -> Result<(), Refusal> {
    let width = datatype.width().unwrap_or(1);
    if expected.checked_mul(width) != Some(bytes.len()) {
        return Err(Refusal::bad(format!(
            "input '{name}': its shape has {expected} elements of {width} bytes, its data {} bytes",
            bytes.len()
        )));
    }
    if datatype == Datatype::Bool
        && let Some(place) = bytes.iter().position(|&byte| byte > 1)
    {
        let found = bytes[place];
        return Err(Refusal::bad(format!("input '{name}': element {place} of type BOOL is {found}, not 0 or 1")));
    }
    Ok(())
}

/// The elements of an input of BYTES: for each, its length in four bytes and its bytes.
pub(crate) fn texts_of_bytes(name: &str, expected: usize, bytes: &[u8]) -> Result<Vec<String>, Refusal> {
    let found = each_text(name, bytes, |_| ())?;
    right_count(name, expected, found)?;
    let mut texts = room(expected, &format!("input '{name}'"))?;
    each_text(name, bytes, |text| texts.push(text.to_owned()))?;
    Ok(texts)
}

fn each_text(name: &str, mut bytes: &[u8], mut visit: impl FnMut(&str)) -> Result<usize, Refusal> {
    let mut count = 0;
    while !bytes.is_empty() {
        let cut = || Refusal::bad(format!("input '{name}': element {count} of type BYTES ends beyond its data"));
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let text = std::str::from_utf8(text)
            .map_err(|_| Refusal::bad(format!("input '{name}': element {count} of type BYTES is not UTF-8")))?;
        visit(text);
        count += 1;
        bytes = rest;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_flat_or_nested() {
        let expected: Vec<u8> = [1i64, -2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
        for text in ["[1,-2,3]", "[[1,-2],[3]]", "[ [ 1 , -2 ] ,\n [ 3 ] ]"] {
            assert_eq!(numbers_of_json("x", Datatype::Int64, 3, text).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_not_of_the_type_is_named() {
        for (datatype, text, message) in [
            (Datatype::Int8, "[1,128]", "input 'x': element 1 is 128, which is no INT8"),
            (Datatype::Uint8, "[-1,0]", "input 'x': element 0 is -1, which is no UINT8"),
            (Datatype::Int32, "[1.5,0]", "input 'x': element 0 is 1.5, which is no INT32"),
            (Datatype::Fp32, "[1e39,0]", "input 'x': element 0 is 1e39, which is no FP32"),
            (Datatype::Fp32, "[null,0]", "input 'x': element 0 is null, which is no FP32"),
            (Datatype::Bool, "[2,0]", "input 'x': element 0 is 2, which is no BOOL"),
            (Datatype::Int64, "[1]", "input 'x': its shape has 2 elements, its data 1"),
            (Datatype::Int64, "[{},1]", "input 'x': element 0 is an object"),
            (Datatype::Int64, "7", "input 'x': 'data' is no list"),
        ] {
            assert_eq!(numbers_of_json("x", datatype, 2, text).unwrap_err().message, message);
        }
        let error = numbers_of_json("x", Datatype::Fp16, 2, "[1,2]").unwrap_err();
        assert!(error.message.contains("binary tensor extension"), "{error:?}");
    }

    #[test]
    fn texts_are_strings_of_json_or_counted_bytes() {
        assert_eq!(texts_of_json("x", 2, r#"["a\"]","\u00e9"]"#).unwrap(), ["a\"]", "\u{e9}"]);
        assert!(texts_of_json("x", 1, r#"["\ud800"]"#).is_err());
        assert!(texts_of_json("x", 1, "[1]").is_err());
        assert_eq!(texts_of_bytes("x", 2, b"\x02\0\0\0ab\0\0\0\0").unwrap(), ["ab", ""]);
        for bytes in [&b"\x02\0\0\0a"[..], b"\x02\0", b"\xff\xff\xff\xffab", b"\x01\0\0\0\xff"] {
            assert!(texts_of_bytes("x", 1, bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn bytes_are_as_many_as_the_shape_says() {
        assert!(check_bytes("x", Datatype::Fp32, 2, &[0; 8]).is_ok());
        assert!(check_bytes("x", Datatype::Fp32, 2, &[0; 7]).is_err());
        assert!(check_bytes("x", Datatype::Fp64, usize::MAX, &[0; 8]).is_err());
        assert!(check_bytes("x", Datatype::Bool, 2, &[1, 2]).is_err());
    }

    #[test]
    fn elements_beyond_counting_are_none() {
        assert_eq!(elements(&[usize::MAX, 2]), None);
        assert_eq!(elements(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(elements(&[]), Some(1));
    }
}
