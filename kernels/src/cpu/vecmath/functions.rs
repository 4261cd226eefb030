//! The functions of one element, a row each: what they are in plain Rust, as instructions, and in CUDA C.
//!
//! A new function is a row here, and its bounds in the tests of the [parent](super). The interpreter, the emitters, the
//! cost models and the kernels of devices are derived from the rows.
//!
//! A row has
//! - `value`: the definition. After `f64` it is computed in `f64` and rounded once. NaN and infinities give what the
//!   formula gives;
//! - `code`: what is emitted, in place on register `v`, with `temps` temporaries, and the approximate number of
//!   instructions (a division counts as four); `none` where there is no code and programs are interpreted. A condition
//!   after `if` limits it to some parameters;
//! - `cuda`: the function of a variable in CUDA C, in single precision. Where a formula would lose NaN or digits, it
//!   calls a function from the sources of devices.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::interleaved::Interleaved;
use super::{MAGNITUDE, SIGN, erf, exp, log};
use crate::jit::Vreg;
use crate::jit::asm::{Predicate, Rounding};
use crate::reference::functions as plain;

/// An `f32` by its bits, so that it can be compared and hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Mutate)]
pub struct Bits(pub u32);

impl Bits {
    /// The value.
    #[must_use]
    pub fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for Bits {
    fn from(value: f32) -> Bits {
        Bits(value.to_bits())
    }
}

impl std::fmt::Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// The cost of a function without code, in instructions: the time of one call.
const INTERPRETED: u32 = 800;

/// A float by its bits, in CUDA C.
#[cfg(feature = "device")]
pub(crate) fn literal(bits: Bits) -> String {
    format!("KILN_BITS(0x{:08x}u)", bits.0)
}

/// A part of a row's `code`.
macro_rules! code {
    (is none) => {
        false
    };
    (is { if $holds:expr, $($rest:tt)* }) => {
        $holds
    };
    (is { $($rest:tt)* }) => {
        true
    };
    (temps { $(if $holds:expr,)? temps: $temps:expr, $($rest:tt)* }) => {
        $temps
    };
    (temps none) => {
        0
    };
    (instructions { $(if $holds:expr,)? temps: $temps:expr, instructions: $count:expr, $($rest:tt)* }) => {
        $count
    };
    (instructions none) => {
        INTERPRETED
    };
    (emit($($given:ident)*) none) => {{}};
    (emit($side:ident $value:ident $given:ident)
        { $(if $holds:expr,)? temps: $temps:expr, instructions: $count:expr,
          emit: |$asm:ident, $v:ident, $own:ident| $emit:expr }) => {{
        let ($asm, $v, $own) = ($side, $value, $given);
        $emit
    }};
}

/// A row's `value`.
macro_rules! value {
    ($given:ident f64 |$x:ident| $value:expr) => {{
        let $x = f64::from($given);
        ($value) as f32
    }};
    ($given:ident |$x:ident| $value:expr) => {{
        let $x = $given;
        $value
    }};
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident),* })? => {
        value: $($wide:ident)? |$x:ident| $value:expr,
        code: $code:tt,
        cuda: |$text:ident| $cuda:expr,
    })*) => {
        /// A function of one element. Products and convolutions can apply it to their results before they store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
        #[allow(missing_docs, reason = "the field's names; parameters are ONNX's attributes")]
        #[non_exhaustive]
        pub enum UnaryOp {
            $($(#[$doc])* $name $({ $($field: Bits),* })?),*
        }

        #[allow(unused_variables, reason = "few rows read all that they are given")]
        impl UnaryOp {
            /// The definition.
            #[inline]
            pub(crate) fn value(self, given: f32) -> f32 {
                match self {
                    $(UnaryOp::$name $({ $($field),* })? => value!(given $($wide)? |$x| $value),)*
                }
            }

            /// Whether there is code for it.
            pub(super) fn is_emitted(self) -> bool {
                match self {
                    $(UnaryOp::$name $({ $($field),* })? => code!(is $code),)*
                }
            }

            /// Temporary registers that its code destroys.
            pub(super) fn temps(self) -> usize {
                match self {
                    $(UnaryOp::$name { .. } => code!(temps $code),)*
                }
            }

            /// About how many instructions its code has.
            pub(super) fn instructions(self) -> u32 {
                match self {
                    $(UnaryOp::$name { .. } => code!(instructions $code),)*
                }
            }

            /// Emits its code.
            pub(super) fn emit(self, side: &mut Interleaved<'_>, register: Vreg, free: &[Vreg]) {
                match self {
                    $(UnaryOp::$name $({ $($field),* })? => code!(emit(side register free) $code),)*
                }
            }

            /// The function of a variable, in CUDA C.
            #[cfg(feature = "device")]
            pub(crate) fn cuda(self, name: &str) -> String {
                match self {
                    $(UnaryOp::$name $({ $($field),* })? => {
                        let $text = name;
                        $cuda
                    })*
                }
            }
        }
    };
}

functions! {
    Abs => {
        value: |x| x.abs(),
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vand(v, v, MAGNITUDE) },
        cuda: |x| format!("fabsf({x})"),
    }
    Neg => {
        value: |x| -x,
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vxor(v, v, SIGN) },
        cuda: |x| format!("-{x}"),
    }
    Reciprocal => {
        value: |x| 1.0 / x,
        code: { temps: 1, instructions: 4, emit: |asm, v, temps| {
            let one = asm.held(temps[0], 1.0);
            asm.vdiv(v, one, v);
        } },
        cuda: |x| format!("1.0f / {x}"),
    }
    Sqrt => {
        value: |x| x.sqrt(),
        code: { temps: 0, instructions: 4, emit: |asm, v, temps| asm.vsqrt(v, v) },
        cuda: |x| format!("sqrtf({x})"),
    }
    Exp => {
        value: f64 |x| x.exp(),
        code: { temps: 3, instructions: 24, emit: |asm, v, temps| exp::exp(asm, v, temps) },
        cuda: |x| format!("expf({x})"),
    }
    Log => {
        value: f64 |x| x.ln(),
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| log::log(asm, v, temps) },
        cuda: |x| format!("logf({x})"),
    }
    Erf => {
        value: f64 |x| plain::erf(x),
        code: { temps: 2, instructions: 24, emit: |asm, v, temps| erf::erf(asm, v, temps) },
        cuda: |x| format!("erff({x})"),
    }
    Tanh => {
        value: f64 |x| x.tanh(),
        code: { temps: 3, instructions: 24, emit: |asm, v, temps| exp::tanh(asm, v, temps) },
        cuda: |x| format!("tanhf({x})"),
    }
    Sigmoid => {
        value: f64 |x| plain::sigmoid(x),
        code: { temps: 3, instructions: 32, emit: |asm, v, temps| exp::sigmoid(asm, v, temps) },
        cuda: |x| format!("kiln_sigmoid({x})"),
    }
    Relu => {
        value: |x| plain::clamp(x, 0.0, f32::INFINITY),
        code: { temps: 1, instructions: 2, emit: |asm, v, temps| {
            // The instruction returns its second operand where either is NaN, so the value is the second.
            asm.vzero(temps[0]);
            asm.vmax(v, temps[0], v);
        } },
        cuda: |x| format!("{x} < 0.0f ? 0.0f : {x}"),
    }
    /// max(lo, min(hi, x))
    Clip { lo, hi } => {
        value: |x| plain::clamp(x, lo.get(), hi.get()),
        code: { temps: 1, instructions: 4, emit: |asm, v, temps| super::clamp(asm, v, temps[0], lo.get(), hi.get()) },
        cuda: |x| format!("kiln_clamp({x}, {}, {})", literal(lo), literal(hi)),
    }
    LeakyRelu { alpha } => {
        value: |x| if x < 0.0 { alpha.get() * x } else { x },
        code: { temps: 1, instructions: 2, emit: |asm, v, temps| {
            asm.vmul(temps[0], v, alpha.get());
            // Up to a slope of 1, the larger of x and alpha x is the result on both sides of zero; above 1 it is the
            // smaller.
            if alpha.get() <= 1.0 {
                asm.vmax(v, temps[0], v);
            } else {
                asm.vmin(v, temps[0], v);
            }
        } },
        cuda: |x| format!("{x} < 0.0f ? {} * {x} : {x}", literal(alpha)),
    }
    Elu { alpha } => {
        value: f64 |x| plain::elu(x, f64::from(alpha.get())),
        code: { temps: 3, instructions: 26, emit: |asm, v, temps| exp::elu(asm, v, temps, 1.0, alpha.get(), 1.0) },
        cuda: |x| format!("kiln_elu({x}, {})", literal(alpha)),
    }
    Selu { alpha, gamma } => {
        value: f64 |x| f64::from(gamma.get()) * plain::elu(x, f64::from(alpha.get())),
        code: { temps: 3, instructions: 26, emit: |asm, v, temps| {
            exp::elu(asm, v, temps, 1.0, alpha.get(), gamma.get());
        } },
        cuda: |x| format!("{} * kiln_elu({x}, {})", literal(gamma), literal(alpha)),
    }
    Celu { alpha } => {
        value: f64 |x| {
            let alpha = f64::from(alpha.get());
            plain::keep_nan(x, x.max(0.0)) + plain::keep_nan(x, (alpha * (x / alpha).exp_m1()).min(0.0))
        },
        // For a negative alpha, exp(x / alpha) grows without bound, which the emitted form cannot compute.
        code: { if alpha.get() > 0.0, temps: 3, instructions: 26, emit: |asm, v, temps| {
            exp::elu(asm, v, temps, 1.0 / alpha.get(), alpha.get(), 1.0);
        } },
        cuda: |x| format!("kiln_celu({x}, {})", literal(alpha)),
    }
    ThresholdedRelu { alpha } => {
        value: |x| if x > alpha.get() { x } else { 0.0 },
        code: { temps: 2, instructions: 4, emit: |asm, v, temps| {
            let mask = asm.mask(temps[0]);
            asm.compare(mask, Predicate::Greater, v, alpha.get());
            asm.vzero(temps[1]);
            asm.select(v, mask, v, temps[1]);
        } },
        cuda: |x| format!("{x} > {} ? {x} : 0.0f", literal(alpha)),
    }
    HardSigmoid { alpha, beta } => {
        value: |x| plain::clamp(alpha.get() * x + beta.get(), 0.0, 1.0),
        code: { temps: 1, instructions: 7, emit: |asm, v, temps| {
            asm.vmul(v, v, alpha.get());
            asm.vadd(v, v, beta.get());
            super::clamp(asm, v, temps[0], 0.0, 1.0);
        } },
        cuda: |x| format!("kiln_clamp({} * {x} + {}, 0.0f, 1.0f)", literal(alpha), literal(beta)),
    }
    /// x * max(0, min(1, x / 6 + 0.5))
    HardSwish => {
        value: |x| x * plain::clamp(x * (1.0 / 6.0) + 0.5, 0.0, 1.0),
        code: { temps: 2, instructions: 7, emit: |asm, v, temps| {
            asm.vmul(temps[0], v, 1.0 / 6.0);
            asm.vadd(temps[0], temps[0], 0.5);
            super::clamp(asm, temps[0], temps[1], 0.0, 1.0);
            asm.vmul(v, v, temps[0]);
        } },
        cuda: |x| format!("{x} * kiln_clamp({x} * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f)"),
    }
    Softplus => {
        value: f64 |x| plain::keep_nan(x, x.max(0.0) + (-x.abs()).exp().ln_1p()),
        code: { temps: 4, instructions: 44, emit: |asm, v, temps| log::softplus(asm, v, temps) },
        cuda: |x| format!("kiln_softplus({x})"),
    }
    Softsign => {
        value: |x| x / (1.0 + x.abs()),
        code: { temps: 1, instructions: 7, emit: |asm, v, temps| {
            asm.vand(temps[0], v, MAGNITUDE);
            asm.vadd(temps[0], temps[0], 1.0);
            asm.vdiv(v, v, temps[0]);
        } },
        cuda: |x| format!("{x} / (1.0f + fabsf({x}))"),
    }
    Mish => {
        value: f64 |x| {
            let grown = x.min(700.0).exp();
            let m = grown.min(1e100) * (grown.min(1e100) + 2.0);
            plain::keep_nan(x, x * (m / (m + 2.0)))
        },
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| exp::mish(asm, v, temps) },
        cuda: |x| format!("kiln_mish({x})"),
    }
    /// x * sigmoid(x)
    Silu => {
        value: f64 |x| x * plain::sigmoid(x),
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| exp::silu(asm, v, temps) },
        cuda: |x| format!("{x} * kiln_sigmoid({x})"),
    }
    /// 0.5 x (1 + erf(x / sqrt 2))
    Gelu => {
        value: f64 |x| 0.5 * x * plain::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        code: { temps: 3, instructions: 26, emit: |asm, v, temps| erf::gelu(asm, v, temps) },
        // The root of one half, and 2 sqrt(2 / pi).
        cuda: |x| format!("0.5f * {x} * erfcf(-{x} * 0.70710678118654752f)"),
    }
    /// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    GeluTanh => {
        value: f64 |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x * plain::sigmoid(2.0 * inner)
        },
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| exp::gelu_tanh(asm, v, temps) },
        cuda: |x| format!("{x} * kiln_sigmoid(1.5957691216057308f * ({x} + 0.044715f * {x} * {x} * {x}))"),
    }
    Floor => {
        value: |x| x.floor(),
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vround(v, v, Rounding::Down) },
        cuda: |x| format!("floorf({x})"),
    }
    Ceil => {
        value: |x| x.ceil(),
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vround(v, v, Rounding::Up) },
        cuda: |x| format!("ceilf({x})"),
    }
    /// To nearest, halves to even.
    Round => {
        value: |x| x.round_ties_even(),
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vround(v, v, Rounding::NearestEven) },
        cuda: |x| format!("rintf({x})"),
    }
    /// -1, 0 or 1; NaN stays.
    Sign => {
        value: |x| if x == 0.0 || x.is_nan() { x } else { 1f32.copysign(x) },
        code: { temps: 2, instructions: 7, emit: |asm, v, temps| super::sign(asm, v, temps) },
        cuda: |x| format!("kiln_sign({x})"),
    }
    Sin => {
        value: f64 |x| x.sin(),
        code: none,
        cuda: |x| format!("sinf({x})"),
    }
    Cos => {
        value: f64 |x| x.cos(),
        code: none,
        cuda: |x| format!("cosf({x})"),
    }
    Tan => {
        value: f64 |x| x.tan(),
        code: none,
        cuda: |x| format!("tanf({x})"),
    }
    Asin => {
        value: f64 |x| x.asin(),
        code: none,
        cuda: |x| format!("asinf({x})"),
    }
    Acos => {
        value: f64 |x| x.acos(),
        code: none,
        cuda: |x| format!("acosf({x})"),
    }
    Atan => {
        value: f64 |x| x.atan(),
        code: none,
        cuda: |x| format!("atanf({x})"),
    }
    Sinh => {
        value: f64 |x| x.sinh(),
        code: none,
        cuda: |x| format!("sinhf({x})"),
    }
    Cosh => {
        value: f64 |x| x.cosh(),
        code: none,
        cuda: |x| format!("coshf({x})"),
    }
    Asinh => {
        value: f64 |x| x.asinh(),
        code: none,
        cuda: |x| format!("asinhf({x})"),
    }
    Acosh => {
        value: f64 |x| x.acosh(),
        code: none,
        cuda: |x| format!("acoshf({x})"),
    }
    Atanh => {
        value: f64 |x| x.atanh(),
        code: none,
        cuda: |x| format!("atanhf({x})"),
    }
    /// 1 where the element is zero, else 0: logical not on booleans held as 0 and 1.
    Not => {
        value: |x| plain::flag(x == 0.0),
        code: { temps: 1, instructions: 2, emit: |asm, v, temps| {
            super::flag(asm, v, temps[0], Predicate::Equal, 0.0.into());
        } },
        cuda: |x| format!("kiln_flag({x} == 0.0f)"),
    }
    IsNan => {
        value: |x| plain::flag(x.is_nan()),
        code: { temps: 1, instructions: 2, emit: |asm, v, temps| {
            super::flag(asm, v, temps[0], Predicate::Unordered, v.into());
        } },
        cuda: |x| format!("kiln_flag({x} != {x})"),
    }
}
