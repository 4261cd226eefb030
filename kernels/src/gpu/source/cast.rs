//! Conversion of elements from one type to another.
//!
//! Floats outside of an integer type saturate, and NaN becomes zero. Integers wrap, by way of 64 bits. Any value but
//! zero is true. C leaves the first two undefined and processors differ, so the source spells them out.

use serde::{Deserialize, Serialize};

use super::{Kernel, KernelCode, index_type, is_wide, launch_each, operand, parameters, product, source};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device cast";

/// Types of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it; a boolean is a byte of 0 or 1")]
pub enum Scalar {
    F32,
    F64,
    I64,
    I32,
    U8,
    Bool,
}

/// What shapes the instructions of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CastCode {
    /// The type that is read.
    pub from: Scalar,
    /// The type that is written.
    pub to: Scalar,
    /// Whether indices have 64 bits.
    pub wide: bool,
}

/// A cast at its size.
#[derive(Debug)]
pub struct CastKernel {
    code: CastCode,
    elements: u64,
}

impl Scalar {
    /// All types.
    pub const ALL: [Scalar; 6] = [Scalar::F32, Scalar::F64, Scalar::I64, Scalar::I32, Scalar::U8, Scalar::Bool];

    /// Bytes of an element.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Scalar::F32 | Scalar::I32 => 4,
            Scalar::F64 | Scalar::I64 => 8,
            Scalar::U8 | Scalar::Bool => 1,
        }
    }

    fn c_type(self) -> &'static str {
        match self {
            Scalar::F32 => "float",
            Scalar::F64 => "double",
            Scalar::I64 => "i64",
            Scalar::I32 => "int",
            Scalar::U8 | Scalar::Bool => "unsigned char",
        }
    }

    /// For integer types that floats are converted to: the least and the greatest value, and the first float above.
    fn limits(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Scalar::I64 => Some(("(-9223372036854775807ll - 1)", "9223372036854775807ll", "9223372036854775808.0")),
            Scalar::I32 => Some(("(-2147483647 - 1)", "2147483647", "2147483648.0")),
            Scalar::U8 => Some(("0", "255", "256.0")),
            Scalar::F32 | Scalar::F64 | Scalar::Bool => None,
        }
    }
}

impl CastKernel {
    /// Converts that many elements. Inputs: the elements.
    ///
    /// # Errors
    ///
    /// Unsupported for sizes beyond any memory.
    pub fn new(from: Scalar, to: Scalar, elements: u64) -> Result<CastKernel> {
        let elements = product(FAMILY, &[elements])?;
        Ok(CastKernel { code: CastCode { from, to, wide: is_wide(elements) }, elements })
    }
}

impl CastCode {
    pub(super) fn source(self) -> Source {
        let float = matches!(self.from, Scalar::F32 | Scalar::F64);
        let loaded = match self.from {
            Scalar::F32 | Scalar::F64 => format!("{} x = in[at];", self.from.c_type()),
            Scalar::Bool => "i64 x = in[at] != 0;".to_owned(),
            Scalar::I64 | Scalar::I32 | Scalar::U8 => "i64 x = in[at];".to_owned(),
        };
        let to = self.to.c_type();
        let converted = match (self.to, self.to.limits()) {
            (Scalar::Bool, _) => "x != 0".to_owned(),
            // The limits are exact in either float, and so is the comparison.
            (_, Some((least, most, beyond))) if float => {
                let suffix = if self.from == Scalar::F32 { "f" } else { "" };
                format!("x != x ? 0 : x >= {beyond}{suffix} ? {most} : x <= {least} ? {least} : ({to})x")
            }
            _ => format!("({to})x"),
        };
        let body = format!(
            "    for (Index at = KILN_START; at < (Index)elements; at += KILN_STEP) {{\n        {loaded}\n        \
             out[at] = {converted};\n    }}\n"
        );
        let (from, to) = (format!("const {}*", self.from.c_type()), format!("{to}*"));
        let parameters = parameters(&[(&from, "in"), (&to, "out"), ("long long", "elements")]);
        source("kiln_cast", index_type(self.wide), &parameters, &body)
    }
}

impl Kernel for CastKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Cast(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let input = operand(FAMILY, inputs, 0, self.elements, self.code.from.size())?;
        output.holds(FAMILY, "output", self.elements, self.code.to.size())?;
        if self.elements == 0 {
            return Ok(());
        }
        let args = [Arg::Memory(Some(input)), Arg::Memory(Some(output)), Arg::I64(self.elements as i64)];
        launch_each(module, self.elements, &args)
    }
}
