//! An inference request's message, before any element is read. Its fields are walked in place: decoded whole, an input
//! of 2 bytes would take 300.

use std::time::Duration;

use crate::datatype::Datatype;
use crate::head::{Head, InputHead, MOST_DIMS, MOST_PORTS, MOST_TEXT, OutputHead, Place};
use crate::refusal::Refusal;
use crate::values;
use crate::wire::{self, Field, Fields, Value};

/// Most fields of a message and of its parts, without elements: far more than the allowed inputs have.
const MOST_FIELDS: usize = 1 << 16;

/// Reads fields of a message, and counts them against the limit.
struct Reader<'a> {
    message: &'a [u8],
    left: usize,
}

/// A parameter of a request, an input or an output.
struct Parameter<'a> {
    key: &'a str,
    /// The field of its value, if it has one.
    value: Option<Field<'a>>,
}

fn malformed(what: &str) -> Refusal {
    Refusal::bad(format!("{what} is no message of protobuf"))
}

fn bytes<'a>(value: Value<'a>, what: &str) -> Result<&'a [u8], Refusal> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(malformed(what)),
    }
}

/// A name, an id or a key.
fn text<'a>(value: Value<'a>, what: &str) -> Result<&'a str, Refusal> {
    let bytes = bytes(value, what)?;
    if bytes.len() > MOST_TEXT {
        return Err(Refusal::bad(format!("{what} takes {} bytes, {MOST_TEXT} are allowed", bytes.len())));
    }
    std::str::from_utf8(bytes).map_err(|_| Refusal::bad(format!("{what} is not UTF-8")))
}

/// The name and the version of the model that a request is for.
pub(super) fn model(message: &[u8]) -> Result<(&str, Option<&str>), Refusal> {
    let (mut name, mut version) = ("", "");
    for field in Fields::of(message).take(MOST_FIELDS) {
        match field.map_err(|_| malformed("the request"))? {
            Field { number: 1, value } => name = text(value, "model_name")?,
            Field { number: 2, value } => version = text(value, "model_version")?,
            _ => {}
        }
    }
    Ok((name, Some(version).filter(|version| !version.is_empty())))
}

/// The id of a request; empty where it has no readable one.
pub(super) fn id(message: &[u8]) -> &str {
    let fields = Fields::of(message).take(MOST_FIELDS).map_while(Result::ok);
    let last = fields.filter(|field| field.number == 3).last();
    last.and_then(|field| text(field.value, "'id'").ok()).unwrap_or_default()
}

/// The description of a request.
pub(super) fn head(message: &[u8]) -> Result<Head, Refusal> {
    let mut reader = Reader { message, left: MOST_FIELDS };
    let mut head = Head { id: None, timeout: None, is_binary: true, inputs: Vec::new(), outputs: None };
    let mut raw = Vec::new();
    for field in Fields::of(message) {
        let Field { number, value } = reader.counted(field, "the request")?;
        match number {
            3 => head.id = Some(text(value, "'id'")?.to_owned()).filter(|id| !id.is_empty()),
            4 => {
                let parameter = reader.parameter(value, "a parameter of the request")?;
                head.timeout = of_request(&parameter)?.or(head.timeout);
            }
            5 => {
                bounded(head.inputs.len(), "inputs")?;
                head.inputs.push(reader.input(bytes(value, "an input")?)?);
            }
            6 => {
                let outputs = head.outputs.get_or_insert_default();
                bounded(outputs.len(), "outputs")?;
                outputs.push(reader.output(bytes(value, "an output")?)?);
            }
            7 => {
                bounded(raw.len(), "raw_input_contents")?;
                raw.push(reader.place(bytes(value, "raw_input_contents")?));
            }
            _ => {}
        }
    }
    place_raw(&mut head.inputs, raw)?;
    Ok(head)
}

/// Refuses more than a request may have.
fn bounded(count: usize, what: &str) -> Result<(), Refusal> {
    if count < MOST_PORTS {
        return Ok(());
    }
    Err(Refusal::bad(format!("the request has more than {MOST_PORTS} {what}")))
}

/// Assigns raw contents to the inputs in their order. Where there are any, all inputs must have raw contents.
fn place_raw(inputs: &mut [InputHead], raw: Vec<std::ops::Range<usize>>) -> Result<(), Refusal> {
    if raw.is_empty() {
        let without = |input: &&InputHead| input.place == Place::Nowhere && values::elements(&input.shape) != Some(0);
        return match inputs.iter().find(without) {
            Some(InputHead { name, .. }) => {
                Err(Refusal::bad(format!("input '{name}' has neither contents nor raw_input_contents")))
            }
            None => Ok(()),
        };
    }
    if let Some(InputHead { name, .. }) = inputs.iter().find(|input| input.place != Place::Nowhere) {
        return Err(Refusal::bad(format!(
            "input '{name}' has contents, which no input may have beside raw_input_contents"
        )));
    }
    if raw.len() != inputs.len() {
        return Err(Refusal::bad(format!("{} raw_input_contents are given for {} inputs", raw.len(), inputs.len())));
    }
    for (input, range) in inputs.iter_mut().zip(raw) {
        input.place = Place::Binary(range);
    }
    Ok(())
}

/// The time limit that a request's parameter gives.
fn of_request(parameter: &Parameter<'_>) -> Result<Option<Duration>, Refusal> {
    let number = match parameter.value {
        Some(Field { number: 2 | 5, value: Value::Varint(number) }) => Some(number),
        _ => None,
    };
    match parameter.key {
        "timeout" => {
            let micros = number
                .filter(|&micros| i64::try_from(micros).is_ok())
                .ok_or_else(|| Refusal::bad("parameter 'timeout' is not a whole number of microseconds"))?;
            // Triton's clients send 0 for no limit.
            Ok(Some(micros).filter(|&micros| micros > 0).map(Duration::from_micros))
        }
        "sequence_id"
            if !matches!(parameter.value, None | Some(Field { value: Value::Varint(0) | Value::Bytes(b""), .. })) =>
        {
            Err(Refusal::bad("parameter 'sequence_id': models here keep no state between requests"))
        }
        _ => Ok(None),
    }
}

impl<'a> Reader<'a> {
    fn counted(&mut self, field: Result<Field<'a>, wire::Malformed>, what: &str) -> Result<Field<'a>, Refusal> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| Refusal::bad(format!("the request has more than {MOST_FIELDS} fields")))?;
        field.map_err(|_| malformed(what))
    }

    /// The place of bytes in the message.
    fn place(&self, bytes: &[u8]) -> std::ops::Range<usize> {
        let at = bytes.as_ptr() as usize - self.message.as_ptr() as usize;
        at..at + bytes.len()
    }

    fn parameter(&mut self, value: Value<'a>, what: &str) -> Result<Parameter<'a>, Refusal> {
        let mut parameter = Parameter { key: "", value: None };
        for field in Fields::of(bytes(value, what)?) {
            match self.counted(field, what)? {
                Field { number: 1, value } => parameter.key = text(value, what)?,
                Field { number: 2, value } => {
                    for field in Fields::of(bytes(value, what)?) {
                        parameter.value = Some(self.counted(field, what)?);
                    }
                }
                _ => {}
            }
        }
        Ok(parameter)
    }

    /// Reads a parameter of an input or output, and refuses features that the server does not have.
    fn of_tensor(&mut self, value: Value<'a>, what: &str) -> Result<(), Refusal> {
        match self.parameter(value, &format!("a parameter of {what}"))?.key {
            key @ ("classification" | "shared_memory_region") => {
                Err(Refusal::bad(format!("{what}: the parameter '{key}' is not offered here")))
            }
            _ => Ok(()),
        }
    }

    fn input(&mut self, message: &'a [u8]) -> Result<InputHead, Refusal> {
        let (mut name, mut datatype, mut contents) = ("", "", None);
        let mut shape = Vec::new();
        for field in Fields::of(message) {
            match self.counted(field, "an input")? {
                Field { number: 1, value } => name = text(value, "the name of an input")?,
                Field { number: 2, value } => datatype = text(value, "the datatype of an input")?,
                Field { number: 3, value: Value::Varint(dim) } => add_dim(&mut shape, dim)?,
                Field { number: 3, value } => {
                    let mut packed = bytes(value, "the shape of an input")?;
                    while !packed.is_empty() {
                        let dim = wire::varint(&mut packed).ok_or_else(|| malformed("the shape of an input"))?;
                        add_dim(&mut shape, dim)?;
                    }
                }
                Field { number: 4, value } => self.of_tensor(value, &format!("input '{name}'"))?,
                Field { number: 5, value } => {
                    let is_second = contents.replace(bytes(value, "the contents of an input")?).is_some();
                    if is_second {
                        return Err(Refusal::bad(format!("input '{name}' has contents twice")));
                    }
                }
                _ => {}
            }
        }
        let datatype = Datatype::of_name(datatype)
            .ok_or_else(|| Refusal::bad(format!("input '{name}': the protocol has no datatype {datatype}")))?;
        let size = |&dim: &i64| {
            usize::try_from(dim).map_err(|_| Refusal::bad(format!("input '{name}': a dimension of its shape is {dim}")))
        };
        let shape: Vec<usize> = shape.iter().map(size).collect::<Result<_, _>>()?;
        if values::elements(&shape).is_none() {
            return Err(Refusal::bad(format!("input '{name}': the elements of shape {shape:?} cannot be counted")));
        }
        // Empty contents count as none: a client of raw contents may send them.
        let contents = contents.filter(|contents| !contents.is_empty());
        let place = contents.map_or(Place::Nowhere, |contents| Place::Contents(self.place(contents)));
        Ok(InputHead { name: name.to_owned(), datatype, shape, place })
    }

    fn output(&mut self, message: &'a [u8]) -> Result<OutputHead, Refusal> {
        let mut name = "";
        for field in Fields::of(message) {
            match self.counted(field, "an output")? {
                Field { number: 1, value } => name = text(value, "the name of an output")?,
                Field { number: 2, value } => self.of_tensor(value, &format!("output '{name}'"))?,
                _ => {}
            }
        }
        Ok(OutputHead { name: name.to_owned(), is_binary: true })
    }
}

fn add_dim(shape: &mut Vec<i64>, dim: u64) -> Result<(), Refusal> {
    if shape.len() == MOST_DIMS {
        return Err(Refusal::bad(format!("the shape of an input has more than {MOST_DIMS} sizes")));
    }
    shape.push(dim.cast_signed());
    Ok(())
}

#[cfg(test)]
mod tests;
