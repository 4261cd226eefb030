//! The head of an inference request's body, before any element is read: names, types, shapes, and the places of
//! elements in the body. Nothing here takes more memory than the body, and no stated size is trusted.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::datatype::Datatype;
use crate::model::Port;
use crate::refusal::Refusal;
use crate::values;

/// Most inputs or outputs that a request names.
pub(crate) const MOST_PORTS: usize = 1024;

/// Most dimensions of an input.
pub(crate) const MOST_DIMS: usize = 32;

/// Most bytes of a name, an id or a parameter.
pub(crate) const MOST_TEXT: usize = 4096;

/// Most lists and objects within each other.
const DEEPEST: usize = 100;

/// Most bytes of JSON before binary tensors.
const MOST_HEADER: usize = 1 << 20;

/// The place of an input's elements in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A list of JSON.
    Json(Range<usize>),
    /// Bytes after the JSON, or in `raw_input_contents` of gRPC.
    Binary(Range<usize>),
    /// Lists of numbers by their kind, in gRPC's form.
    Contents(Range<usize>),
    /// No place: no element.
    Nowhere,
}

/// An input of a request.
#[derive(Debug)]
pub(crate) struct InputHead {
    pub(crate) name: String,
    pub(crate) datatype: Datatype,
    pub(crate) shape: Vec<usize>,
    pub(crate) place: Place,
}

/// An output that a request asks for.
#[derive(Debug)]
pub(crate) struct OutputHead {
    pub(crate) name: String,
    pub(crate) is_binary: bool,
}

/// A request without its elements.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) id: Option<String>,
    /// The client's time limit.
    pub(crate) timeout: Option<Duration>,
    /// Whether outputs that are not requested by name are binary.
    pub(crate) is_binary: bool,
    pub(crate) inputs: Vec<InputHead>,
    /// `None` for all outputs.
    pub(crate) outputs: Option<Vec<OutputHead>>,
}

/// Values stay text until they are known to be small, because the parser's errors repeat the text.
#[derive(Deserialize)]
struct RequestJson<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    inputs: &'a RawValue,
    #[serde(borrow)]
    outputs: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RequestParameters<'a> {
    #[serde(borrow)]
    timeout: Option<&'a RawValue>,
    #[serde(borrow)]
    binary_data_output: Option<&'a RawValue>,
    #[serde(borrow)]
    sequence_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InputJson<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow)]
    shape: &'a RawValue,
    #[serde(borrow)]
    datatype: &'a RawValue,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OutputJson<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TensorParameters<'a> {
    #[serde(borrow)]
    binary_data_size: Option<&'a RawValue>,
    #[serde(borrow)]
    binary_data: Option<&'a RawValue>,
    #[serde(borrow)]
    classification: Option<&'a RawValue>,
    #[serde(borrow)]
    shared_memory_region: Option<&'a RawValue>,
}

impl TensorParameters<'_> {
    /// Refuses features that the server does not have.
    fn check(&self, what: &str) -> Result<(), Refusal> {
        let refused = [("classification", self.classification), ("shared_memory_region", self.shared_memory_region)];
        match refused.iter().find(|(_, given)| given.is_some()) {
            Some((name, _)) => Err(Refusal::bad(format!("{what}: the parameter '{name}' is not offered here"))),
            None => Ok(()),
        }
    }
}

/// A list of at most `N` items.
struct Bounded<T, const N: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Bounded<T, N> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Items<T, N> {
            type Value = Bounded<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N} items")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    if items.len() == N {
                        return Err(serde::de::Error::invalid_length(N + 1, &self));
                    }
                    items.push(item);
                }
                Ok(Bounded(items))
            }
        }
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// A small value of JSON.
fn small<'a, T: Deserialize<'a>>(raw: &'a RawValue, what: &str, wanted: &str) -> Result<T, Refusal> {
    let text = raw.get();
    if text.len() > MOST_TEXT {
        return Err(Refusal::bad(format!("{what} takes {} bytes, {MOST_TEXT} are allowed", text.len())));
    }
    serde_json::from_str(text).map_err(|_| Refusal::bad(format!("{what} is {text}, not {wanted}")))
}

/// The same for a value that may be missing or null.
fn optional<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>, what: &str, wanted: &str) -> Result<Option<T>, Refusal> {
    raw.map(|raw| small(raw, what, wanted)).transpose()
}

/// The items of a list of objects, one of inputs or outputs.
fn objects<'a, T: Deserialize<'a>>(raw: &'a RawValue, what: &str) -> Result<Vec<T>, Refusal> {
    let wrong = || Refusal::bad(format!("'{what}' is no list of objects"));
    let bad = |error| Refusal::bad(format!("'{what}': {error}"));
    if !raw.get().starts_with('[') {
        return Err(wrong());
    }
    let items: Bounded<&RawValue, MOST_PORTS> = serde_json::from_str(raw.get()).map_err(bad)?;
    let item = |(place, item): (usize, &&'a RawValue)| {
        if !item.get().starts_with('{') {
            return Err(wrong());
        }
        serde_json::from_str(item.get()).map_err(|error| Refusal::bad(format!("'{what}', item {place}: {error}")))
    };
    items.0.iter().enumerate().map(item).collect()
}

/// Refuses JSON whose lists and objects are nested too deep.
fn check_depth(json: &[u8]) -> Result<(), Refusal> {
    let (mut depth, mut in_string, mut at) = (0usize, false, 0);
    while let Some(&byte) = json.get(at) {
        match byte {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(Refusal::bad(format!(
                "the body's JSON has more than {DEEPEST} lists in each other at byte {at}"
            )));
        }
        at += 1;
    }
    Ok(())
}

impl Head {
    /// Reads a body whose first `json` bytes are JSON and whose rest is binary tensors.
    pub(crate) fn of_json(body: &[u8], json: usize) -> Result<Head, Refusal> {
        let header = body.get(..json).ok_or_else(|| {
            Refusal::bad(format!(
                "Inference-Header-Content-Length says {json} bytes of JSON, the body has {}",
                body.len()
            ))
        })?;
        if json < body.len() && json > MOST_HEADER {
            return Err(Refusal::bad(format!(
                "{json} bytes of JSON stand before binary tensors, {MOST_HEADER} are allowed"
            )));
        }
        check_depth(header)?;
        if header.trim_ascii_start().first().is_some_and(|&first| first != b'{') {
            return Err(Refusal::bad("the body's JSON is no inference request: it is no object"));
        }
        let request: RequestJson<'_> = serde_json::from_slice(header)
            .map_err(|error| Refusal::bad(format!("the body's JSON is no inference request: {error}")))?;
        let (mut timeout, mut is_binary) = (None, false);
        let parameters: Option<RequestParameters<'_>> = optional(request.parameters, "'parameters'", "an object")?;
        if let Some(parameters) = &parameters {
            let micros: Option<u64> =
                optional(parameters.timeout, "parameter 'timeout'", "a whole number of microseconds")?;
            // Triton's clients send 0 for no limit.
            timeout = micros.filter(|&micros| micros > 0).map(Duration::from_micros);
            let name = "parameter 'binary_data_output'";
            is_binary = optional(parameters.binary_data_output, name, "true or false")?.unwrap_or(false);
            if parameters.sequence_id.is_some_and(|id| !matches!(id.get(), "0" | "\"\"")) {
                return Err(Refusal::bad("parameter 'sequence_id': models here keep no state between requests"));
            }
        }
        let start = header.as_ptr() as usize;
        let mut binary = json;
        let given: Vec<InputJson<'_>> = objects(request.inputs, "inputs")?;
        let mut inputs = Vec::with_capacity(given.len());
        for input in &given {
            inputs.push(input.head(start, &mut binary, body.len())?);
        }
        if binary != body.len() {
            return Err(Refusal::bad(format!(
                "the body has {} bytes after its JSON, the inputs' binary_data_size make {}",
                body.len() - json,
                binary - json
            )));
        }
        let asked: Vec<OutputJson<'_>> = match request.outputs {
            Some(outputs) => objects(outputs, "outputs")?,
            None => Vec::new(),
        };
        let outputs: Vec<OutputHead> = asked.iter().map(|output| output.head(is_binary)).collect::<Result<_, _>>()?;
        let outputs = (!outputs.is_empty()).then_some(outputs);
        let id = optional(request.id, "'id'", "a text")?;
        Ok(Head { id, timeout, is_binary, inputs, outputs })
    }

    /// A body that consists of the elements of a model's only input. Its free dimension follows from the body's size.
    pub(crate) fn of_raw(body: &[u8], ports: &[Port]) -> Result<Head, Refusal> {
        let [port] = ports else {
            let count = ports.len();
            return Err(Refusal::bad(format!("a raw request is for models of one input, this one has {count}")));
        };
        let name = &port.name;
        let datatype = port.datatype.ok_or_else(|| unnamed(port))?;
        let shape = port.shape.as_ref();
        let shape = shape.ok_or_else(|| Refusal::bad(format!("input '{name}': its rank is not known")))?;
        if shape.iter().filter(|dim| dim.is_none()).count() > 1 {
            return Err(Refusal::bad(format!("input '{name}': a raw request leaves one dimension open, not more")));
        }
        let fixed: Vec<usize> = shape.iter().map(|dim| dim.unwrap_or(1)).collect();
        let step = values::elements(&fixed).and_then(|count| count.checked_mul(datatype.width().unwrap_or(0)));
        let open = match (datatype.width(), step) {
            // One text: the body is the text with its length before it.
            (None, _) => 1,
            (Some(_), Some(step)) if step > 0 && body.len().is_multiple_of(step) => body.len() / step,
            _ => {
                let size = body.len();
                return Err(Refusal::bad(format!("input '{name}': {size} bytes do not make up its shape")));
            }
        };
        let shape = shape.iter().map(|dim| dim.unwrap_or(open)).collect();
        let input = InputHead { name: name.clone(), datatype, shape, place: Place::Binary(0..body.len()) };
        Ok(Head { id: None, timeout: None, is_binary: true, inputs: vec![input], outputs: None })
    }

    /// Checks names, types, ranks and fixed dimensions against the model's declarations.
    pub(crate) fn check(&self, inputs: &[Port], outputs: &[Port]) -> Result<(), Refusal> {
        for (place, input) in self.inputs.iter().enumerate() {
            let name = &input.name;
            let port = port_of(name, "input", inputs)?;
            if self.inputs[..place].iter().any(|other| other.name == *name) {
                return Err(Refusal::bad(format!("input '{name}' is given twice")));
            }
            input.check(port)?;
        }
        let is_given = |port: &Port| self.inputs.iter().any(|input| input.name == port.name);
        if let Some(port) = inputs.iter().find(|port| !port.is_optional && !is_given(port)) {
            return Err(Refusal::bad(format!("input '{}' is not given", port.name)));
        }
        for (place, output) in self.outputs.iter().flatten().enumerate() {
            let port = port_of(&output.name, "output", outputs)?;
            if port.datatype.is_none() {
                return Err(unnamed(port));
            }
            if self.outputs.iter().flatten().take(place).any(|other| other.name == output.name) {
                return Err(Refusal::bad(format!("output '{}' is asked for twice", output.name)));
            }
        }
        Ok(())
    }
}

fn unnamed(port: &Port) -> Refusal {
    Refusal::bad(format!("'{}' is of type {}, for which the protocol has no name", port.name, port.declared))
}

fn port_of<'p>(name: &str, what: &str, ports: &'p [Port]) -> Result<&'p Port, Refusal> {
    ports.iter().find(|port| port.name == name).ok_or_else(|| {
        let known: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        Refusal::bad(format!("the model has no {what} '{name}'; it has {}", known.join(", ")))
    })
}

impl InputHead {
    fn check(&self, port: &Port) -> Result<(), Refusal> {
        let (name, shape) = (&self.name, &self.shape);
        let declared = port.datatype.ok_or_else(|| unnamed(port))?;
        if declared != self.datatype {
            let (given, declared) = (self.datatype.name(), declared.name());
            return Err(Refusal::bad(format!("input '{name}' is {given}, the model takes {declared}")));
        }
        let Some(dims) = &port.shape else { return Ok(()) };
        let fits = |(dim, size): (&Option<usize>, &usize)| dim.is_none_or(|dim| dim == *size);
        if dims.len() != shape.len() || !dims.iter().zip(shape).all(fits) {
            let dims: Vec<String> = dims.iter().map(|dim| dim.map_or("-1".to_owned(), |d| d.to_string())).collect();
            let dims = dims.join(", ");
            return Err(Refusal::bad(format!("input '{name}' has the shape {shape:?}, the model takes [{dims}]")));
        }
        Ok(())
    }
}

impl InputJson<'_> {
    /// The head of an input. The JSON begins at the address `start`, and the binary tensors so far end at `binary` of
    /// `whole` bytes.
    fn head(&self, start: usize, binary: &mut usize, whole: usize) -> Result<InputHead, Refusal> {
        let name: String = small(self.name, "the name of an input", "a text")?;
        let what = format!("input '{name}'");
        let datatype: String = small(self.datatype, &format!("{what}: its datatype"), "a text")?;
        let datatype = Datatype::of_name(&datatype)
            .ok_or_else(|| Refusal::bad(format!("{what}: the protocol has no datatype {datatype}")))?;
        let wanted = format!("a list of at most {MOST_DIMS} sizes");
        let shape: Bounded<u64, MOST_DIMS> = small(self.shape, &format!("{what}: its shape"), &wanted)?;
        let shape: Option<Vec<usize>> = shape.0.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        let shape = shape.ok_or_else(|| Refusal::bad(format!("{what}: a dimension is too large")))?;
        let count = values::elements(&shape)
            .ok_or_else(|| Refusal::bad(format!("{what}: the elements of shape {shape:?} cannot be counted")))?;
        let parameters: Option<TensorParameters<'_>> =
            optional(self.parameters, &format!("{what}: its parameters"), "an object")?;
        if let Some(parameters) = &parameters {
            parameters.check(&what)?;
        }
        let size = parameters.as_ref().and_then(|parameters| parameters.binary_data_size);
        let size: Option<u64> = optional(size, &format!("{what}: its binary_data_size"), "a number of bytes")?;
        let place = match (self.data, size) {
            (Some(_), Some(_)) => {
                return Err(Refusal::bad(format!("{what} has both data and binary_data_size")));
            }
            (Some(data), None) => {
                let at = data.get().as_ptr() as usize - start;
                Place::Json(at..at + data.get().len())
            }
            (None, Some(size)) => {
                let left = whole - *binary;
                let size = usize::try_from(size).ok().filter(|&size| size <= left).ok_or_else(|| {
                    Refusal::bad(format!("{what}: its binary_data_size is {size}, the body has {left} bytes left"))
                })?;
                let at = *binary;
                *binary += size;
                Place::Binary(at..at + size)
            }
            (None, None) if count == 0 => Place::Nowhere,
            (None, None) => return Err(Refusal::bad(format!("{what} has neither data nor binary_data_size"))),
        };
        Ok(InputHead { name, datatype, shape, place })
    }
}

impl OutputJson<'_> {
    fn head(&self, is_binary: bool) -> Result<OutputHead, Refusal> {
        let name: String = small(self.name, "the name of an output", "a text")?;
        let what = format!("output '{name}'");
        let parameters: Option<TensorParameters<'_>> =
            optional(self.parameters, &format!("{what}: its parameters"), "an object")?;
        let Some(parameters) = parameters else { return Ok(OutputHead { name, is_binary }) };
        parameters.check(&what)?;
        let own: Option<bool> = optional(parameters.binary_data, &format!("{what}: its binary_data"), "true or false")?;
        Ok(OutputHead { name, is_binary: own.unwrap_or(is_binary) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, datatype: Datatype, shape: &[Option<usize>]) -> Port {
        Port {
            name: name.to_owned(),
            datatype: Some(datatype),
            declared: datatype.name().to_owned(),
            shape: Some(shape.to_vec()),
            is_optional: false,
        }
    }

    /// The message with which a request in JSON is refused.
    fn refused(json: &str) -> String {
        let ports = [port("x", Datatype::Fp32, &[None, Some(2)])];
        let read = Head::of_json(json.as_bytes(), json.len()).and_then(|head| head.check(&ports, &ports));
        read.expect_err(json).message
    }

    #[test]
    fn keys_come_in_any_order_and_unknown_ones_are_ignored() {
        let json =
            r#"{"model_name":"m","inputs":[{"data":[[1,2]],"shape":[1,2],"datatype":"FP32","name":"x"}],"id":"7"}"#;
        let head = Head::of_json(json.as_bytes(), json.len()).unwrap();
        assert_eq!((head.id.as_deref(), head.inputs.len()), (Some("7"), 1));
        let Place::Json(place) = head.inputs[0].place.clone() else { panic!("{head:?}") };
        assert_eq!(&json[place], "[[1,2]]");
    }

    #[test]
    fn binary_inputs_stand_behind_each_other_with_others_between() {
        let json = concat!(
            r#"{"inputs":[{"name":"a","shape":[2],"datatype":"INT8","parameters":{"binary_data_size":2}},"#,
            r#"{"name":"b","shape":[1],"datatype":"INT8","data":[1]},"#,
            r#"{"name":"c","shape":[0],"datatype":"INT8","data":null},"#,
            r#"{"name":"d","shape":[1],"datatype":"INT32","parameters":{"binary_data_size":4}}]}"#
        );
        let body = [json.as_bytes(), &[1, 2, 3, 4, 5, 6]].concat();
        let head = Head::of_json(&body, json.len()).unwrap();
        let at = json.len();
        assert_eq!(head.inputs[0].place, Place::Binary(at..at + 2));
        assert_eq!(head.inputs[2].place, Place::Nowhere);
        assert_eq!(head.inputs[3].place, Place::Binary(at + 2..at + 6));
        let long = [&body[..], &[7]].concat();
        let message = Head::of_json(&long, json.len()).unwrap_err().message;
        assert_eq!(message, "the body has 7 bytes after its JSON, the inputs' binary_data_size make 6");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let input = |fields: &str| refused(&format!(r#"{{"inputs":[{{"name":"x",{fields}}}]}}"#));
        for (fields, message) in [
            (r#""shape":[1,2],"datatype":"FP32""#, "input 'x' has neither data nor binary_data_size"),
            (r#""shape":[1,2],"datatype":"FP31","data":[]"#, "input 'x': the protocol has no datatype FP31"),
            (r#""shape":[1,2],"datatype":"INT8","data":[]"#, "input 'x' is INT8, the model takes FP32"),
            (r#""shape":[1,3],"datatype":"FP32","data":[]"#, "input 'x' has the shape [1, 3], the model takes [-1, 2]"),
            (
                r#""shape":[18446744073709551615,2],"datatype":"FP32","data":[]"#,
                "input 'x': the elements of shape [18446744073709551615, 2] cannot be counted",
            ),
            (
                r#""shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":1099511627776}"#,
                "input 'x': its binary_data_size is 1099511627776, the body has 0 bytes left",
            ),
            (
                r#""shape":[1,2],"datatype":"FP32","data":[],"parameters":{"binary_data_size":0}"#,
                "input 'x' has both data and binary_data_size",
            ),
            (
                r#""shape":[1,2],"datatype":"FP32","parameters":{"shared_memory_region":"r"}"#,
                "input 'x': the parameter 'shared_memory_region' is not offered here",
            ),
        ] {
            assert_eq!(input(fields), message);
        }
        assert_eq!(refused(r#"{"inputs":[]}"#), "input 'x' is not given");
        for (json, part) in [
            (
                r#"{"inputs":[{"name":"x","shape":[-1,2],"datatype":"FP32","data":[]}]}"#,
                "its shape is [-1,2], not a list of at most 32 sizes",
            ),
            (r#"{"inputs":[{"name":"y","shape":[1,2],"datatype":"FP32","data":[]}]}"#, "no input 'y'; it has x"),
            (r#"{"inputs":[],"inputs":[]}"#, "duplicate field"),
            (r#"{"inputs":[],"parameters":{"timeout":"soon"}}"#, "'timeout' is \"soon\", not a whole number"),
            (r#"{"inputs":[],"id":7}"#, "'id' is 7, not a text"),
            ("{", "EOF"),
            ("", "EOF"),
            ("[]", "no inference request"),
        ] {
            assert!(refused(json).contains(part), "{json}: {}", refused(json));
        }
        let deep = format!(r#"{{"inputs":[],"x":{}}}"#, "[".repeat(1_000_000));
        assert!(refused(&deep).contains("more than 100 lists"), "{}", refused(&deep));
        let many = format!(r#"{{"inputs":[{}1]}}"#, "1,".repeat(10));
        assert!(refused(&many).contains("no list of objects"));
        let dims = format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{}1]}}]}}"#, "1,".repeat(32));
        assert!(refused(&dims).contains("not a list of at most 32 sizes"), "{}", refused(&dims));
    }

    #[test]
    fn raw_bodies_take_their_shape_from_their_size() {
        let ports = [port("x", Datatype::Fp32, &[None, Some(2)])];
        assert_eq!(Head::of_raw(&[0; 24], &ports).unwrap().inputs[0].shape, [3, 2]);
        assert!(Head::of_raw(&[0; 23], &ports).is_err());
        let two = [ports[0].clone(), ports[0].clone()];
        assert!(Head::of_raw(&[0; 24], &two).is_err());
        let open = [port("x", Datatype::Fp32, &[None, None])];
        assert!(Head::of_raw(&[0; 24], &open).is_err());
    }
}
