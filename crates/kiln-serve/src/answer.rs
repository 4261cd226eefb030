//! A request's inputs, and the answer of its outputs: JSON, and the bytes of binary tensors behind it.

use std::io::{self, Write};

use bytes::Bytes;

use crate::contents;
use crate::datatype::Datatype;
use crate::head::{Head, InputHead, Place};
use crate::model::{Tensor, Values};
use crate::refusal::{Kind, Refusal};
use crate::values;

/// A body in parts, and the number of its bytes that are JSON where binary tensors follow.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) json: Option<usize>,
    pub(crate) parts: Vec<Bytes>,
}

/// The inputs of a request. Binary elements stay where they are in the body.
pub(crate) fn inputs(head: &Head, body: &Bytes) -> Result<Vec<Tensor>, Refusal> {
    head.inputs.iter().map(|input| tensor(input, body)).collect()
}

fn tensor(input: &InputHead, body: &Bytes) -> Result<Tensor, Refusal> {
    let InputHead { name, datatype, shape, place } = input;
    let count = values::elements(shape).unwrap_or(usize::MAX);
    let values = match (place, datatype) {
        (Place::Nowhere, Datatype::Bytes) => Values::Texts(Vec::new()),
        (Place::Nowhere, _) => Values::Bytes(Bytes::new()),
        (Place::Json(range), datatype) => {
            let text = std::str::from_utf8(&body[range.clone()])
                .map_err(|error| Refusal::bad(format!("input '{name}': its data is no UTF-8: {error}")))?;
            match datatype {
                Datatype::Bytes => Values::Texts(values::texts_of_json(name, count, text)?),
                _ => Values::Bytes(values::numbers_of_json(name, *datatype, count, text)?.into()),
            }
        }
        (Place::Contents(range), Datatype::Bytes) => Values::Texts(contents::texts(name, count, &body[range.clone()])?),
        (Place::Contents(range), datatype) => {
            Values::Bytes(contents::numbers(name, *datatype, count, &body[range.clone()])?.into())
        }
        (Place::Binary(range), Datatype::Bytes) => {
            Values::Texts(values::texts_of_bytes(name, count, &body[range.clone()])?)
        }
        (Place::Binary(range), _) => {
            let bytes = body.slice(range.clone());
            values::check_bytes(name, *datatype, count, &bytes)?;
            Values::Bytes(bytes)
        }
    };
    Ok(Tensor { name: name.clone(), datatype: *datatype, shape: shape.clone(), values })
}

/// Text that grows as memory allows.
#[derive(Default)]
struct Text(Vec<u8>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_reserve(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Text {
    fn json(&mut self, value: &str) -> io::Result<()> {
        serde_json::to_writer(self, value).map_err(io::Error::from)
    }
}

/// The model that answers.
pub(crate) struct Answering<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: u64,
}

/// The requested outputs in the request's order, or all outputs, and whether each is binary.
pub(crate) fn chosen<'t>(head: &Head, outputs: &'t [Tensor]) -> Result<Vec<(&'t Tensor, bool)>, Refusal> {
    match &head.outputs {
        None => Ok(outputs.iter().map(|output| (output, head.is_binary)).collect()),
        Some(asked) => {
            let find = |name: &str| outputs.iter().find(|output| output.name == name);
            let missing = |name: &str| Refusal::bad(format!("output '{name}': the model gave no tensor"));
            let one = |asked: &crate::head::OutputHead| {
                find(&asked.name).map(|output| (output, asked.is_binary)).ok_or_else(|| missing(&asked.name))
            };
            asked.iter().map(one).collect()
        }
    }
}

/// The answer to a request, with outputs in the requested order.
pub(crate) fn answer(model: &Answering<'_>, head: &Head, outputs: &[Tensor]) -> Result<Answer, Refusal> {
    let chosen = chosen(head, outputs)?;
    let mut text = Text::default();
    let mut parts = vec![Bytes::new()];
    write(&mut text, &mut parts, model, head, &chosen)?;
    let json = text.0.len();
    parts[0] = text.0.into();
    let is_binary = chosen.iter().any(|&(_, is_binary)| is_binary);
    Ok(Answer { json: is_binary.then_some(json), parts })
}

fn written<T>(result: io::Result<T>, name: &str) -> Result<T, Refusal> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => {
            Refusal::new(Kind::NoMemory, format!("output '{name}': no memory for its answer"))
        }
        _ => Refusal::bad(format!("output '{name}': {error}")),
    })
}

fn write(
    text: &mut Text,
    parts: &mut Vec<Bytes>,
    model: &Answering<'_>,
    head: &Head,
    outputs: &[(&Tensor, bool)],
) -> Result<(), Refusal> {
    let begin = |text: &mut Text| {
        text.write_all(b"{\"model_name\":")?;
        text.json(model.name)?;
        write!(text, ",\"model_version\":\"{}\"", model.version)?;
        if let Some(id) = &head.id {
            text.write_all(b",\"id\":")?;
            text.json(id)?;
        }
        text.write_all(b",\"outputs\":[")
    };
    written(begin(text), "")?;
    for (place, &(output, is_binary)) in outputs.iter().enumerate() {
        let name = &output.name;
        let open = |text: &mut Text| {
            text.write_all(if place == 0 { b"{\"name\":" } else { b",{\"name\":" })?;
            text.json(name)?;
            write!(text, ",\"datatype\":\"{}\",\"shape\":{:?}", output.datatype.name(), output.shape)
        };
        written(open(text), name)?;
        if is_binary {
            let bytes = binary(output)?;
            written(write!(text, ",\"parameters\":{{\"binary_data_size\":{}}}}}", bytes.len()), name)?;
            parts.push(bytes);
        } else {
            written(text.write_all(b",\"data\":["), name)?;
            written(data(text, output), name)?;
            written(text.write_all(b"]}"), name)?;
        }
    }
    written(text.write_all(b"]}"), "")
}

/// An output's elements in the form of the binary extension.
pub(crate) fn binary(output: &Tensor) -> Result<Bytes, Refusal> {
    let texts = match &output.values {
        Values::Bytes(bytes) => return Ok(bytes.clone()),
        Values::Texts(texts) => texts,
    };
    let size = texts.iter().try_fold(0usize, |size, text| size.checked_add(text.len())?.checked_add(4));
    let mut bytes: Vec<u8> = values::room(size.unwrap_or(usize::MAX), &format!("output '{}'", output.name))?;
    for (place, text) in texts.iter().enumerate() {
        let length = u32::try_from(text.len()).map_err(|_| {
            Refusal::bad(format!("output '{}': element {place} is longer than the binary form can say", output.name))
        })?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    Ok(bytes.into())
}

/// An output's elements as JSON. Floats have the fewest digits that give the same bits back.
fn data(text: &mut Text, output: &Tensor) -> io::Result<()> {
    let bytes = match &output.values {
        Values::Bytes(bytes) => bytes,
        Values::Texts(texts) => {
            for (place, value) in texts.iter().enumerate() {
                if place > 0 {
                    text.write_all(b",")?;
                }
                text.json(value)?;
            }
            return Ok(());
        }
    };
    macro_rules! numbers {
        ($type:ty, $is_number:expr) => {
            for (place, chunk) in bytes.as_chunks().0.iter().enumerate() {
                let value = <$type>::from_le_bytes(*chunk);
                if !$is_number(value) {
                    return Err(io::Error::other(format!(
                        "element {place} is {value}, which JSON has no form for; ask for the output in binary form"
                    )));
                }
                write!(text, "{}{value:?}", if place > 0 { "," } else { "" })?;
            }
        };
    }
    fn any<T>(_: T) -> bool {
        true
    }
    match output.datatype {
        Datatype::Bool => {
            for (place, &byte) in bytes.iter().enumerate() {
                write!(text, "{}{}", if place > 0 { "," } else { "" }, byte != 0)?;
            }
        }
        Datatype::Uint8 => numbers!(u8, any),
        Datatype::Uint16 => numbers!(u16, any),
        Datatype::Uint32 => numbers!(u32, any),
        Datatype::Uint64 => numbers!(u64, any),
        Datatype::Int8 => numbers!(i8, any),
        Datatype::Int16 => numbers!(i16, any),
        Datatype::Int32 => numbers!(i32, any),
        Datatype::Int64 => numbers!(i64, any),
        Datatype::Fp32 => numbers!(f32, f32::is_finite),
        Datatype::Fp64 => numbers!(f64, f64::is_finite),
        Datatype::Fp16 | Datatype::Bf16 | Datatype::Bytes => {
            let name = output.datatype.name();
            return Err(io::Error::other(format!("{name} has no form in JSON; ask for the output in binary form")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(datatype: Datatype, shape: &[usize], bytes: Vec<u8>) -> Tensor {
        Tensor { name: "y".to_owned(), datatype, shape: shape.to_vec(), values: Values::Bytes(bytes.into()) }
    }

    fn head(is_binary: bool) -> Head {
        Head { id: Some("a\"b".to_owned()), timeout: None, is_binary, inputs: Vec::new(), outputs: None }
    }

    #[test]
    fn json_gives_the_same_bits_back() {
        let values = [0.1f32, -0.0, f32::MIN_POSITIVE, 1e-45, f32::MAX, 16_777_216.0, 1e16];
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let model = Answering { name: "m", version: 3 };
        let made = answer(&model, &head(false), &[tensor(Datatype::Fp32, &[7], bytes)]).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&made.parts[0]).unwrap();
        assert_eq!((&read["id"], &read["model_version"]), (&"a\"b".into(), &"3".into()));
        let text = std::str::from_utf8(&made.parts[0]).unwrap();
        let list = &text[text.find("\"data\":[").unwrap() + 8..text.rfind("]}]}").unwrap()];
        let read: Vec<u32> = list.split(',').map(|v| v.parse::<f32>().unwrap().to_bits()).collect();
        assert_eq!(read, values.map(f32::to_bits));
    }

    #[test]
    fn what_json_has_no_form_for_is_refused_by_name() {
        let model = Answering { name: "m", version: 1 };
        for (datatype, bytes, part) in [
            (Datatype::Fp32, f32::NAN.to_le_bytes().to_vec(), "output 'y': element 0 is NaN"),
            (Datatype::Fp16, vec![0, 0], "output 'y': FP16 has no form in JSON"),
        ] {
            let output = tensor(datatype, &[1], bytes);
            let error = answer(&model, &head(false), std::slice::from_ref(&output)).unwrap_err();
            assert!(error.message.contains(part), "{error:?}");
            assert!(answer(&model, &head(true), &[output]).is_ok());
        }
    }
}
