//! What a model declares of its inputs and outputs.

use std::ffi::{CString, c_char};

use kiln::{Dim, Port, ValueKind};

use crate::dtype;
use crate::error::c_text;

/// What a value is. Runs take and give tensors alone.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KilnKind {
    /// A tensor.
    Tensor = 0,
    /// Tensors in an order.
    Sequence = 1,
    /// A tensor or nothing, or a sequence or nothing.
    Optional = 2,
    /// A map, or maps in an order.
    Map = 3,
}

/// A declared input or output. Its texts and dimensions live as long as the session.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KilnPort {
    /// Its name.
    pub name: *const c_char,
    /// The shape as a text: "[batch, 3, ?]" has a named dimension, a size, and one that is not known; "" where no shape
    /// is declared.
    pub shape: *const c_char,
    /// Sizes, -1 for a dimension without one.
    pub dims: *const i64,
    /// How many dimensions there are.
    pub rank: usize,
    /// The element type; KILN_UNDECLARED where none is declared.
    pub dtype: i32,
    /// What it is.
    pub kind: KilnKind,
    /// Whether a shape is declared.
    pub has_shape: bool,
    /// Whether the model has a default for it, so that a run may leave it out.
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
