//! What a model declares of its inputs and outputs.

use std::ffi::{CString, c_char};

use kiln::{Dim, Port, ValueKind};

use crate::dtype;
use crate::error::c_text;

/// The kind of a value. Runs of this interface read and write tensors only.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KilnKind {
    /// A tensor.
    Tensor = 0,
    /// A sequence of tensors.
    Sequence = 1,
    /// An optional tensor or an optional sequence.
    Optional = 2,
    /// A map, or a sequence of maps.
    Map = 3,
}

/// An input or output as the model declares it. Its strings and dimensions live as long as the session.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KilnPort {
    /// Its name.
    pub name: *const c_char,
    /// The shape as a string: "[batch, 3, ?]" has a named dimension, a dimension of size 3 and an unknown one. It is ""
    /// if the model declares no shape.
    pub shape: *const c_char,
    /// The sizes; -1 for a dimension without a declared size.
    pub dims: *const i64,
    /// The number of dimensions.
    pub rank: usize,
    /// The element type; KILN_UNDECLARED if the model declares none.
    pub dtype: i32,
    /// The kind of value.
    pub kind: KilnKind,
    /// Whether the model declares a shape.
    pub has_shape: bool,
    /// Whether the model has a default for this input. A run may then leave it out.
    pub has_default: bool,
}

/// A port with its texts as C has them.
pub(crate) struct Declared {
    pub(crate) port: Port,
    name: CString,
    shape: CString,
    dims: Vec<i64>,
}

impl Declared {
    pub(crate) fn new(port: &Port) -> Declared {
        let dims = port.dims.as_deref().unwrap_or_default();
        let texts: Vec<String> = dims.iter().map(Dim::to_string).collect();
        let shape = port.dims.as_ref().map(|_| format!("[{}]", texts.join(", "))).unwrap_or_default();
        let size = |dim: &Dim| match dim {
            Dim::Fixed(size) => i64::try_from(*size).unwrap_or(i64::MAX),
            Dim::Named(_) | Dim::Any => -1,
        };
        Declared {
            name: c_text(&port.name),
            shape: c_text(&shape),
            dims: dims.iter().map(size).collect(),
            port: port.clone(),
        }
    }

    /// The form for C. The pointers lead to this value's memory.
    pub(crate) fn c(&self) -> KilnPort {
        KilnPort {
            name: self.name.as_ptr(),
            shape: self.shape.as_ptr(),
            dims: self.dims.as_ptr(),
            rank: self.dims.len(),
            dtype: dtype::number(self.port.dtype),
            kind: match self.port.kind {
                ValueKind::Tensor => KilnKind::Tensor,
                ValueKind::Sequence => KilnKind::Sequence,
                ValueKind::Optional | ValueKind::OptionalSequence => KilnKind::Optional,
                ValueKind::Map(_) | ValueKind::Maps(_) => KilnKind::Map,
            },
            has_shape: self.port.dims.is_some(),
            has_default: self.port.has_default,
        }
    }
}
