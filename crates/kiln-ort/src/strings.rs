//! Entries of tensors of texts.

use std::ffi::c_char;
use std::sync::Arc;

use crate::error::{Result, failed, invalid};
use crate::seam::{Chars, Handle, List, Memory, Out, Text, entry};
use crate::value::{Strings, Value};

/// The texts of a value.
fn with<T>(value: Handle<Value>, what: impl FnOnce(&Strings) -> Result<T>) -> Result<T> {
    let value: Arc<Value> = value.get("value")?;
    match &*value {
        Value::Strings(strings) => what(strings),
        _ => Err(failed!("the value is {}, not a tensor(string)", value.name())),
    }
}

/// The text with that number.
fn one<T>(value: Handle<Value>, index: usize, what: impl FnOnce(&mut Vec<u8>) -> Result<T>) -> Result<T> {
    with(value, |strings| {
        strings.with(|texts| {
            let count = texts.len();
            let text =
                texts.get_mut(index).ok_or_else(|| invalid!("element index is out of bounds: {index} of {count}"))?;
            what(text)
        })
    })
}

entry! {
    fn FillStringTensor(value: Handle<Value>, texts: List<Text>, count: usize) {
        with(value, |strings| {
            let need = strings.with(|texts| texts.len());
            if need != count {
                return Err(invalid!("input array doesn't equal tensor size: {count} and {need}"));
            }
            let texts = texts.read(count, "s")?;
            let texts = texts.iter().map(|text| text.bytes("s")).collect::<Result<Vec<_>>>()?;
            strings.with(|own| *own = texts);
            Ok(())
        })
    }

    fn FillStringTensorElement(value: Handle<Value>, text: Text, index: usize) {
        let text = text.bytes("s")?;
        one(value, index, |own| {
            *own = text;
            Ok(())
        })
    }

    fn GetResizedStringTensorElementBuffer(value: Handle<Value>, index: usize, len: usize, out: Out<Chars>) {
        let out = out.place("buffer")?;
        one(value, index, |own| {
            let mut text: Vec<u8> = Vec::new();
            text.try_reserve_exact(len).map_err(|_| invalid!("there is no memory for a text of {len} bytes"))?;
            text.resize(len, 0);
            *own = text;
            // The caller writes the bytes before it calls anything else with the value.
            out.put(own.as_mut_ptr().cast::<c_char>());
            Ok(())
        })
    }

    fn GetStringTensorDataLength(value: Handle<Value>, out: Out<usize>) {
        let out = out.place("len")?;
        with(value, |strings| {
            out.put(strings.with(|texts| texts.iter().map(Vec::len).sum()));
            Ok(())
        })
    }

    fn GetStringTensorContent(value: Handle<Value>, buffer: Memory, room: usize, offsets: Out<usize>, count: usize) {
        with(value, |strings| {
            let (bytes, starts) = strings.with(|texts| {
                let starts = texts.iter().scan(0, |end, text| Some(std::mem::replace(end, *end + text.len())));
                (texts.concat(), starts.collect::<Vec<usize>>())
            });
            if starts.len() != count {
                return Err(failed!("offsets buffer is not equal to tensor size: {count} and {}", starts.len()));
            }
            if room < bytes.len() {
                return Err(failed!("output buffer is too small: {room} bytes for {}", bytes.len()));
            }
            offsets.fill(count, &starts, "offsets")?;
            buffer.write(room, &bytes, "s")
        })
    }

    fn GetStringTensorElementLength(value: Handle<Value>, index: usize, out: Out<usize>) {
        let out = out.place("out")?;
        one(value, index, |text| {
            out.put(text.len());
            Ok(())
        })
    }

    fn GetStringTensorElement(value: Handle<Value>, room: usize, index: usize, buffer: Memory) {
        one(value, index, |text| {
            if room < text.len() {
                return Err(failed!("buffer size is too small for string element: {room} bytes for {}", text.len()));
            }
            buffer.write(room, text, "s")
        })
    }
}
