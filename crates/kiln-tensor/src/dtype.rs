//! Element types and the Rust types that hold them.

use half::{bf16, f16};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, kiln_key::Mutate)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DType {
    F32,
    F64,
    F16,
    BF16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
    String,
    F8E4M3,
    F8E4M3Fnuz,
    F8E5M2,
    F8E5M2Fnuz,
    F8E8M0,
    F4E2M1,
    I4,
    U4,
    I2,
    U2,
}

impl DType {
    /// Bytes of one element; 0 for strings. Elements of less than a byte take a byte each, sign-extended.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F8E4M3 | DType::F8E4M3Fnuz | DType::F8E5M2 | DType::F8E5M2Fnuz | DType::F8E8M0 => 1,
            DType::F4E2M1 | DType::I4 | DType::U4 | DType::I2 | DType::U2 => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::String => 0,
        }
    }

    /// Bits of one element in files.
    #[must_use]
    pub const fn packed_bits(self) -> usize {
        match self {
            DType::F4E2M1 | DType::I4 | DType::U4 => 4,
            DType::I2 | DType::U2 => 2,
            _ => self.size() * 8,
        }
    }

    /// Whether it is a float of at most eight bits, which is stored but not computed with ([`super::minifloat`]).
    #[must_use]
    pub const fn is_minifloat(self) -> bool {
        matches!(
            self,
            DType::F8E4M3 | DType::F8E4M3Fnuz | DType::F8E5M2 | DType::F8E5M2Fnuz | DType::F8E8M0 | DType::F4E2M1
        )
    }

    /// Whether it is an integer of fewer than eight bits, which is stored but not computed with.
    #[must_use]
    pub const fn is_small_integer(self) -> bool {
        matches!(self, DType::I4 | DType::U4 | DType::I2 | DType::U2)
    }

    /// Whether it is a floating-point type that is computed with.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    /// The type of that number in ONNX, as attributes such as Cast's `to` name types.
    #[must_use]
    pub fn of_onnx(number: i64) -> Option<DType> {
        ONNX_NUMBERS.iter().find(|(known, _)| *known == number).map(|&(_, dtype)| dtype)
    }

    /// numpy's name of the type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::Bool => "bool",
            DType::String => "string",
            DType::F8E4M3 => "float8e4m3fn",
            DType::F8E4M3Fnuz => "float8e4m3fnuz",
            DType::F8E5M2 => "float8e5m2",
            DType::F8E5M2Fnuz => "float8e5m2fnuz",
            DType::F8E8M0 => "float8e8m0",
            DType::F4E2M1 => "float4e2m1",
            DType::I4 => "int4",
            DType::U4 => "uint4",
            DType::I2 => "int2",
            DType::U2 => "uint2",
        }
    }
}

/// ONNX's numbers of the element types; 14 and 15 are complex.
pub const ONNX_NUMBERS: [(i64, DType); 24] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (8, DType::String),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (16, DType::BF16),
    (17, DType::F8E4M3),
    (18, DType::F8E4M3Fnuz),
    (19, DType::F8E5M2),
    (20, DType::F8E5M2Fnuz),
    (21, DType::U4),
    (22, DType::I4),
    (23, DType::F4E2M1),
    (24, DType::F8E8M0),
    (25, DType::U2),
    (26, DType::I2),
];

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is an element type. Booleans are bytes of 0 or 1 ([`BoolByte`]).
pub trait Element: bytemuck::Pod + Send + Sync + std::fmt::Debug + PartialEq + 'static {
    /// The element type that it holds.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => { $(impl Element for $rust { const DTYPE: DType = DType::$dtype; })* };
}

elements! {
    f32 => F32, f64 => F64, f16 => F16, bf16 => BF16,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    BoolByte => Bool,
}

/// One boolean of a tensor: 0 is false, anything else is true. Plain data, so that slices can be cast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct BoolByte(pub u8);

impl BoolByte {
    /// As a Rust boolean.
    #[must_use]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for BoolByte {
    fn from(value: bool) -> BoolByte {
        BoolByte(u8::from(value))
    }
}
