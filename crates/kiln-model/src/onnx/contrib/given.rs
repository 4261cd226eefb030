//! The node that is expanded: its inputs, outputs and attributes, checked.

use super::Expanded;
use crate::onnx::proto::attribute_proto::AttributeType as Kind;
use crate::onnx::proto::{AttributeProto, NodeProto};
use crate::onnx::{ModelError, place_of, shown};

/// A node of an operator that is expanded.
pub(super) struct Given<'a>(&'a NodeProto);

impl<'a> Given<'a> {
    pub(super) fn new(node: &'a NodeProto) -> Given<'a> {
        Given(node)
    }

    /// Refuses counts of inputs and outputs that the operator does not have, and attributes that its expansion does not
    /// read.
    pub(super) fn check(&self, operator: &Expanded) -> Result<(), ModelError> {
        let ([least, most], count) = (operator.inputs, self.0.input.len());
        if count < least || count > most {
            return Err(self.malformed(format!("it has {count} inputs, and the operator {least} to {most}")));
        }
        if self.0.output.len() > operator.outputs {
            let (count, most) = (self.0.output.len(), operator.outputs);
            return Err(self.malformed(format!("it has {count} outputs, and the operator at most {most}")));
        }
        if self.output(0).is_none() {
            return Err(self.malformed("its first output has no name".to_owned()));
        }
        match self.0.attribute.iter().find(|own| !operator.attributes.contains(&own.name())) {
            None => Ok(()),
            Some(own) => Err(self.unsupported(format!("attribute {} = {}", shown(own.name()), written(own)))),
        }
    }

    pub(super) fn op(&self) -> &'a str {
        self.0.op_type()
    }

    /// Input `index`; none where it is left out.
    pub(super) fn input(&self, index: usize) -> Option<&'a str> {
        self.0.input.get(index).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Input `index`, or the empty name of one that is left out.
    pub(super) fn optional(&self, index: usize) -> &'a str {
        self.input(index).unwrap_or_default()
    }

    pub(super) fn required(&self, index: usize) -> Result<&'a str, ModelError> {
        self.input(index).ok_or_else(|| self.malformed(format!("its input {index} is left out")))
    }

    /// The number of inputs, including those that are left out.
    pub(super) fn count(&self) -> usize {
        self.0.input.len()
    }

    /// Refuses a node that has one of these inputs.
    pub(super) fn without_inputs(&self, inputs: &[(usize, &str)]) -> Result<(), ModelError> {
        match inputs.iter().find(|(index, _)| self.input(*index).is_some()) {
            None => Ok(()),
            Some((index, what)) => Err(self.unsupported(format!("input {index} ({what})"))),
        }
    }

    /// Refuses a node if one of these outputs is wanted.
    pub(super) fn without_outputs(&self, outputs: &[(usize, &str)]) -> Result<(), ModelError> {
        match outputs.iter().find(|(index, _)| self.output(*index).is_some()) {
            None => Ok(()),
            Some((index, what)) => Err(self.unsupported(format!("output {index} ({what})"))),
        }
    }

    /// Output `index`; none where it is not wanted.
    pub(super) fn output(&self, index: usize) -> Option<&'a str> {
        self.0.output.get(index).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The first output, which every node here has.
    pub(super) fn result(&self) -> &'a str {
        self.output(0).unwrap_or_default()
    }

    fn attribute(&self, name: &str, kind: Kind) -> Result<Option<&'a AttributeProto>, ModelError> {
        let Some(own) = self.0.attribute.iter().find(|own| own.name() == name) else { return Ok(None) };
        // The oldest files state no kind.
        if own.r#type() == kind || own.r#type() == Kind::Undefined {
            return Ok(Some(own));
        }
        let reason = format!("it is of kind {}, not {}", own.r#type().as_str_name(), kind.as_str_name());
        Err(ModelError::Attribute { place: place_of(self.0), attribute: shown(name), reason })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.attribute.iter().any(|own| own.name() == name)
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64, ModelError> {
        Ok(self.attribute(name, Kind::Int)?.map_or(default, AttributeProto::i))
    }

    pub(super) fn float(&self, name: &str, default: f32) -> Result<f32, ModelError> {
        Ok(self.attribute(name, Kind::Float)?.map_or(default, AttributeProto::f))
    }

    pub(super) fn text(&self, name: &str, default: &str) -> Result<String, ModelError> {
        let Some(own) = self.attribute(name, Kind::String)? else { return Ok(default.to_owned()) };
        let text = std::str::from_utf8(own.s()).map_err(|_| self.malformed(format!("{} is not UTF-8", shown(name))))?;
        Ok(text.to_owned())
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, ModelError> {
        Ok(self.attribute(name, Kind::Ints)?.map(|own| own.ints.as_slice()))
    }

    pub(super) fn floats(&self, name: &str) -> Result<&'a [f32], ModelError> {
        Ok(self.attribute(name, Kind::Floats)?.map_or(&[], |own| own.floats.as_slice()))
    }

    /// A list of texts as they are in the file.
    pub(super) fn texts(&self, name: &str) -> Result<&'a [Vec<u8>], ModelError> {
        Ok(self.attribute(name, Kind::Strings)?.map_or(&[], |own| own.strings.as_slice()))
    }

    /// All attributes, as they are: `check` has refused unknown ones.
    pub(super) fn attributes(&self) -> Vec<AttributeProto> {
        self.0.attribute.clone()
    }

    /// The attributes of these names that the node has, as they are.
    pub(super) fn copied(&self, names: &[&str]) -> Vec<AttributeProto> {
        self.0.attribute.iter().filter(|own| names.contains(&own.name())).cloned().collect()
    }

    /// An integer that may only be its default.
    pub(super) fn only(&self, name: &str, value: i64) -> Result<(), ModelError> {
        match self.int(name, value)? {
            found if found == value => Ok(()),
            found => Err(self.unsupported(format!("attribute {} = {found}", shown(name)))),
        }
    }

    /// A number of heads, which the operator requires.
    pub(super) fn heads(&self, name: &str) -> Result<i64, ModelError> {
        match self.int(name, 0)? {
            heads if heads > 0 => Ok(heads),
            other => Err(self.malformed(format!("{name} = {other}"))),
        }
    }

    pub(super) fn unsupported(&self, what: String) -> ModelError {
        ModelError::Unsupported { what, place: place_of(self.0) }
    }

    pub(super) fn malformed(&self, reason: String) -> ModelError {
        ModelError::Malformed { place: place_of(self.0), reason }
    }
}

/// An attribute's value for a message.
fn written(own: &AttributeProto) -> String {
    match own.r#type() {
        Kind::Int => own.i().to_string(),
        Kind::Float => own.f().to_string(),
        Kind::String => shown(&String::from_utf8_lossy(own.s())),
        Kind::Ints => format!("{:?}", &own.ints[..own.ints.len().min(8)]),
        Kind::Floats => format!("{:?}", &own.floats[..own.floats.len().min(8)]),
        kind => kind.as_str_name().to_owned(),
    }
}
