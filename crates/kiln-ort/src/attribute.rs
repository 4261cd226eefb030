//! Attributes of nodes (`OrtOpAttr`): integers, floats, texts, and lists.

use std::ffi::{CString, c_int};
use std::sync::Arc;

use kiln::Attr;

use crate::error::{Result, failed, invalid};
use crate::ownership::{self, Part};
use crate::seam::handle::kind;
use crate::seam::{Handle, List, Memory, Out, Text, c_text, entry};
use crate::value::Value;

/// C's numbers of the kinds (`OrtOpAttrType`).
const INT: c_int = 1;
const INTS: c_int = 2;
const FLOAT: c_int = 3;
const FLOATS: c_int = 4;
const STRING: c_int = 5;
const STRINGS: c_int = 6;

/// The name and value of an attribute.
pub(crate) struct Said {
    pub(crate) name: CString,
    pub(crate) value: Attr,
}

/// An attribute as callers hold it.
pub(crate) struct Attribute {
    pub(crate) says: Arc<Said>,
    /// Whether a node has it: then the caller does not release it.
    pub(crate) is_lent: bool,
}

kind!(Attribute = "OrtOpAttr");

impl Part for Attribute {
    fn is_lent(&self) -> bool {
        self.is_lent
    }
}

impl Said {
    /// C's number of its kind.
    fn kind(&self) -> c_int {
        match self.value {
            Attr::Int(_) => INT,
            Attr::Ints(_) => INTS,
            Attr::Float(_) => FLOAT,
            Attr::Floats(_) => FLOATS,
            Attr::Str(_) => STRING,
            Attr::Strs(_) => STRINGS,
            // `CreateOpAttr` does not make these.
            Attr::Tensor(_) | Attr::Graph(_) | Attr::Chain(_) => 0,
        }
    }

    /// The value's bytes as C reads them: each text of a list ends with a zero, a single text does not.
    fn bytes(&self) -> Vec<u8> {
        match &self.value {
            Attr::Int(value) => value.to_ne_bytes().to_vec(),
            Attr::Float(value) => value.to_ne_bytes().to_vec(),
            Attr::Ints(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Attr::Floats(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Attr::Str(text) => text.as_bytes().to_vec(),
            Attr::Strs(texts) => texts.iter().flat_map(|text| text.bytes().chain([0])).collect(),
            Attr::Tensor(_) | Attr::Graph(_) | Attr::Chain(_) => Vec::new(),
        }
    }
}

/// The words for a kind in onnxruntime's errors.
fn words(kind: c_int) -> &'static str {
    match kind {
        INT => "int64 value",
        INTS => "array of int64",
        FLOAT => "float value",
        FLOATS => "array of floats",
        STRING => "string",
        STRINGS => "array of strings",
        _ => "value of that type",
    }
}

/// The elements at an address; another argument gives their type.
fn list<T: Copy>(data: Memory) -> List<T> {
    List::from_raw(data.raw().cast_const().cast())
}

/// The value that a caller gives: `len` elements, or bytes of a single text.
fn value(data: Memory, len: usize, kind: c_int) -> Result<Attr> {
    let one = || if len == 0 { Err(invalid!("len is 0, and the attribute has one value")) } else { Ok(1) };
    Ok(match kind {
        INT => Attr::Int(list::<i64>(data).read(one()?, "data")?[0]),
        FLOAT => Attr::Float(list::<f32>(data).read(one()?, "data")?[0]),
        INTS => Attr::Ints(list(data).read(len, "data")?),
        FLOATS => Attr::Floats(list(data).read(len, "data")?),
        STRING => {
            let text = String::from_utf8(data.copy(len, "data")?);
            Attr::Str(text.map_err(|_| invalid!("data is not UTF-8"))?)
        }
        STRINGS => {
            let texts: Vec<Text> = list(data).read(len, "data")?;
            Attr::Strs(texts.iter().map(|text| text.read("data")).collect::<Result<_>>()?)
        }
        _ => return Err(failed!("Attribute type not supported yet: {kind}")),
    })
}

entry! {
    fn CreateOpAttr(name: Text, data: Memory, len: c_int, kind: c_int, out: Out<Handle<Attribute>>) {
        let out = out.place("op_attr")?;
        let name = c_text(&name.read("name")?);
        let len = usize::try_from(len).map_err(|_| invalid!("len is negative: {len}"))?;
        let says = Arc::new(Said { name, value: value(data, len, kind)? });
        out.put(Handle::new(Attribute { says, is_lent: false })?);
        Ok(())
    }

    fn ReadOpAttr(attribute: Handle<Attribute>, kind: c_int, data: Memory, len: usize, out: Out<usize>) {
        let out = out.place("out")?;
        let attribute = attribute.get("op_attr")?;
        if attribute.says.kind() != kind {
            let name = attribute.says.name.to_string_lossy();
            return Err(invalid!("Attribute has no {}: {name} is of another type", words(kind)));
        }
        let bytes = attribute.says.bytes();
        out.put(bytes.len());
        if len < bytes.len() {
            let need = bytes.len();
            return Err(invalid!(
                "Size of data not large enough to hold the {}. It has {len} bytes, and {need} are needed",
                words(kind)
            ));
        }
        data.write(len, &bytes, "data")
    }

    fn OpAttr_GetType(attribute: Handle<Attribute>, out: Out<c_int>) {
        let out = out.place("type")?;
        out.put(attribute.get("attribute")?.says.kind());
        Ok(())
    }

    fn OpAttr_GetName(attribute: Handle<Attribute>, out: Out<Text>) {
        let out = out.place("name")?;
        out.put(Text::within(&attribute.get("attribute")?.says.name));
        Ok(())
    }

    /// Fails for every attribute that `CreateOpAttr` makes: none is a tensor.
    fn OpAttr_GetTensorAttributeAsOrtValue(attribute: Handle<Attribute>, out: Out<Handle<Value>>) {
        let _ = out.place("attr_tensor")?;
        let attribute = attribute.get("attribute")?;
        Err(invalid!("the attribute {} is no tensor", attribute.says.name.to_string_lossy()))
    }

    fn ReleaseOpAttr(attribute: Handle<Attribute>) -> (), else () => {
        ownership::release(attribute);
    }
}
