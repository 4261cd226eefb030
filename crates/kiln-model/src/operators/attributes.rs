//! Attributes of operators: their names and defaults, and their values in a node.

use kiln_tensor::DType;

use crate::ir::{Attr, NodeDesc};

/// An attribute of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribute {
    /// Its name in the standard.
    pub name: &'static str,
    /// Its value where a node leaves it out.
    pub default: Default,
}

/// The value of an attribute that a node leaves out. Integers stand for booleans and element types, as in the standard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// A node has to have it.
    Required,
    /// Required before that operator-set version; an input replaces it from that version on.
    RequiredBefore(i64),
    /// No default: leaving it out has a meaning of its own.
    Absent,
    /// An integer.
    Int(i64),
    /// An integer that is another one before that operator-set version.
    IntSince {
        /// The first version of `now`.
        version: i64,
        /// The default of older versions.
        before: i64,
        /// The default since.
        now: i64,
    },
    /// A number.
    Number(f32),
    /// One of a few words, the first by default; kernels get its index, from 0 on.
    Choice(&'static [&'static str]),
    /// One of a few words, without a default.
    Word(&'static [&'static str]),
    /// A text.
    Text(&'static str),
    /// A text that is another one before that operator-set version.
    TextSince {
        /// The first version of `now`.
        version: i64,
        /// The default of older versions.
        before: &'static str,
        /// The default since.
        now: &'static str,
    },
}

const fn attribute(name: &'static str, default: Default) -> Attribute {
    Attribute { name, default }
}

/// A node has to have it.
pub(super) const fn required(name: &'static str) -> Attribute {
    attribute(name, Default::Required)
}

/// A node of a version before that one has to have it; others have an input instead.
pub(super) const fn required_before(name: &'static str, version: i64) -> Attribute {
    attribute(name, Default::RequiredBefore(version))
}

/// A node may have it.
pub(super) const fn optional(name: &'static str) -> Attribute {
    attribute(name, Default::Absent)
}

/// An integer with its default.
pub(super) const fn int(name: &'static str, default: i64) -> Attribute {
    attribute(name, Default::Int(default))
}

/// An integer with its default since a version, and before it.
pub(super) const fn int_since(name: &'static str, version: i64, before: i64, now: i64) -> Attribute {
    attribute(name, Default::IntSince { version, before, now })
}

/// A number with its default.
pub(super) const fn number(name: &'static str, default: f32) -> Attribute {
    attribute(name, Default::Number(default))
}

/// One of a few words, the first by default.
pub(super) const fn choice(name: &'static str, words: &'static [&'static str]) -> Attribute {
    attribute(name, Default::Choice(words))
}

/// One of a few words.
pub(super) const fn word(name: &'static str, words: &'static [&'static str]) -> Attribute {
    attribute(name, Default::Word(words))
}

/// A text with its default.
pub(super) const fn text(name: &'static str, default: &'static str) -> Attribute {
    attribute(name, Default::Text(default))
}

/// A text with its default since a version, and before it.
pub(super) const fn text_since(name: &'static str, version: i64, before: &'static str, now: &'static str) -> Attribute {
    attribute(name, Default::TextSince { version, before, now })
}

impl NodeDesc {
    /// Its attributes, with the defaults that the table has for its operator.
    pub fn attributes(&self) -> Attributes<'_> {
        super::of(self).map_or(Attributes::new(self, &[]), |row| row.attributes_of(self))
    }
}

/// The attributes of a node, with the defaults of its operator.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    node: &'a NodeDesc,
    declared: &'static [Attribute],
}

impl<'a> Attributes<'a> {
    /// The attributes of that node, whose operator declares these.
    pub(crate) const fn new(node: &'a NodeDesc, declared: &'static [Attribute]) -> Attributes<'a> {
        Attributes { node, declared }
    }

    fn default(&self, name: &str) -> Default {
        let declared = self.declared.iter().find(|attribute| attribute.name == name);
        debug_assert!(declared.is_some(), "{} declares no attribute {name}", self.node.op);
        declared.map_or(Default::Absent, |attribute| attribute.default)
    }

    /// Whether the operator has an attribute of that name.
    pub fn declares(&self, name: &str) -> bool {
        self.declared.iter().any(|attribute| attribute.name == name)
    }

    /// An integer, or its default where the node leaves it out; `None` if there is none.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match (self.node.attrs.get(name), self.default(name)) {
            (Some(Attr::Int(value)), _) => Some(*value),
            (_, Default::Int(value)) => Some(value),
            (_, Default::IntSince { version, before, now }) => {
                Some(if self.node.version < version { before } else { now })
            }
            _ => None,
        }
    }

    /// An integer that has a default.
    pub fn int(&self, name: &str) -> i64 {
        self.stated(name, self.integer(name))
    }

    /// Whether an integer that has a default is not zero.
    pub fn flag(&self, name: &str) -> bool {
        self.int(name) != 0
    }

    /// A number, written as a float or as an integer, or its default where the node leaves it out; `None` if there is
    /// none.
    pub fn number(&self, name: &str) -> Option<f32> {
        match (self.node.attrs.get(name), self.default(name)) {
            (Some(Attr::Float(value)), _) => Some(*value),
            (Some(Attr::Int(value)), _) => Some(*value as f32),
            (_, Default::Number(value)) => Some(value),
            _ => self.integer(name).map(|value| value as f32),
        }
    }

    /// A float that has a default.
    pub fn float(&self, name: &str) -> f32 {
        let value = match (self.node.attrs.get(name), self.default(name)) {
            (Some(Attr::Float(value)), _) => Some(*value),
            (_, Default::Number(value)) => Some(value),
            _ => None,
        };
        self.stated(name, value)
    }

    /// A text, or its default where the node leaves it out; `None` if there is none.
    pub fn word(&self, name: &str) -> Option<&'a str> {
        match (self.node.attrs.get(name), self.default(name)) {
            (Some(Attr::Str(value)), _) => Some(value),
            (_, Default::Text(value)) => Some(value),
            (_, Default::TextSince { version, before, now }) => {
                Some(if self.node.version < version { before } else { now })
            }
            (_, Default::Choice(words)) => words.first().copied(),
            _ => None,
        }
    }

    /// A text that has a default.
    pub fn text(&self, name: &str) -> &'a str {
        self.stated(name, self.word(name))
    }

    /// The value of an attribute for which the table has a default, so that there always is one.
    fn stated<T: std::default::Default>(&self, name: &str, value: Option<T>) -> T {
        debug_assert!(value.is_some(), "{} has no default for {name}", self.node.op);
        value.unwrap_or_default()
    }

    /// The element type that an integer names by ONNX's number.
    pub fn dtype(&self, name: &str) -> Option<DType> {
        self.integer(name).and_then(DType::of_onnx)
    }

    /// Which of its words an attribute is, from 0 on.
    ///
    /// # Errors
    ///
    /// The word that the node has instead, which is empty where it has none.
    pub(crate) fn choice(&self, name: &str) -> Result<usize, &'a str> {
        let (words, default) = match self.default(name) {
            Default::Choice(words) => (words, words.first().copied().unwrap_or_default()),
            Default::Word(words) => (words, ""),
            _ => (&[][..], ""),
        };
        let found = match self.node.attrs.get(name) {
            Some(Attr::Str(value)) => value.as_str(),
            _ => default,
        };
        words.iter().position(|word| *word == found).ok_or(found)
    }

    /// The first two attributes as numbers, in the order of their declaration: the arguments of a function. A word is
    /// its index, from 0 on.
    pub fn numbers(&self) -> [f64; 2] {
        let mut numbers = [0.0; 2];
        for (number, attribute) in numbers.iter_mut().zip(self.declared) {
            *number = match attribute.default {
                Default::Choice(_) | Default::Word(_) => self.choice(attribute.name).unwrap_or(0) as f64,
                _ => self.number(attribute.name).map_or(0.0, f64::from),
            };
        }
        numbers
    }

    /// An attribute that the node has to have and has not.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let is_missing = |attribute: &&Attribute| match attribute.default {
            Default::Required => !self.node.attrs.contains_key(attribute.name),
            Default::RequiredBefore(version) => {
                self.node.version < version && !self.node.attrs.contains_key(attribute.name)
            }
            _ => false,
        };
        self.declared.iter().find(is_missing).map(|attribute| attribute.name)
    }

    /// An attribute of the node whose type is not that of its default.
    pub(crate) fn mistyped(&self) -> Option<&'static str> {
        let is_mistyped = |attribute: &&Attribute| {
            let Some(value) = self.node.attrs.get(attribute.name) else { return false };
            match attribute.default {
                Default::Int(_) | Default::IntSince { .. } => !matches!(value, Attr::Int(_)),
                Default::Number(_) => !matches!(value, Attr::Float(_)),
                Default::Choice(_) | Default::Word(_) | Default::Text(_) | Default::TextSince { .. } => {
                    !matches!(value, Attr::Str(_))
                }
                Default::Required | Default::RequiredBefore(_) | Default::Absent => false,
            }
        };
        self.declared.iter().find(is_mistyped).map(|attribute| attribute.name)
    }

    /// Which attribute of the node holds a word that it may not hold, with that word.
    pub fn unknown_word(&self) -> Option<(&'static str, &'a str, Default)> {
        let words =
            self.declared.iter().filter(|attribute| matches!(attribute.default, Default::Choice(_) | Default::Word(_)));
        words
            .filter_map(|attribute| Some((attribute.name, self.choice(attribute.name).err()?, attribute.default)))
            .next()
    }
}
