//! The element types that the protocol names.

/// An element type of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Datatype {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Bf16,
    Fp32,
    Fp64,
    /// Texts or bytes of any length.
    Bytes,
}

impl Datatype {
    /// All types, in the protocol's order.
    pub const ALL: [Datatype; 14] = [
        Datatype::Bool,
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
        Datatype::Int8,
        Datatype::Int16,
        Datatype::Int32,
        Datatype::Int64,
        Datatype::Fp16,
        Datatype::Bf16,
        Datatype::Fp32,
        Datatype::Fp64,
        Datatype::Bytes,
    ];

    /// Its name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Datatype::Bool => "BOOL",
            Datatype::Uint8 => "UINT8",
            Datatype::Uint16 => "UINT16",
            Datatype::Uint32 => "UINT32",
            Datatype::Uint64 => "UINT64",
            Datatype::Int8 => "INT8",
            Datatype::Int16 => "INT16",
            Datatype::Int32 => "INT32",
            Datatype::Int64 => "INT64",
            Datatype::Fp16 => "FP16",
            Datatype::Bf16 => "BF16",
            Datatype::Fp32 => "FP32",
            Datatype::Fp64 => "FP64",
            Datatype::Bytes => "BYTES",
        }
    }

    /// The type with that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Datatype> {
        Datatype::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// Bytes of an element; `None` for [`Datatype::Bytes`].
    #[must_use]
    pub const fn width(self) -> Option<usize> {
        match self {
            Datatype::Bool | Datatype::Uint8 | Datatype::Int8 => Some(1),
            Datatype::Uint16 | Datatype::Int16 | Datatype::Fp16 | Datatype::Bf16 => Some(2),
            Datatype::Uint32 | Datatype::Int32 | Datatype::Fp32 => Some(4),
            Datatype::Uint64 | Datatype::Int64 | Datatype::Fp64 => Some(8),
            Datatype::Bytes => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for datatype in Datatype::ALL {
            assert_eq!(Datatype::of_name(datatype.name()), Some(datatype));
        }
        assert_eq!(Datatype::of_name("fp32"), None);
    }
}
