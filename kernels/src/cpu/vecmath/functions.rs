//! The functions of one element as instructions and in CUDA C, one row for each function in
//! [`problem::functions`](crate::problem::functions), which has their definitions.
//!
//! The emitters, the cost models and the kernels of devices are derived from the rows. A row has
//! - `code`: the emitted instructions, in place on register `v`, with `temps` temporaries, and the approximate number
//!   of instructions (a division counts as four). A condition after `if` limits it to some parameters: programs with
//!   others are interpreted;
//! - `cuda`: the function of a variable in CUDA C, in single precision. Where a formula would lose NaN or digits, it
//!   calls a function from the sources of devices.

use super::interleaved::Interleaved;
use super::{MAGNITUDE, SIGN, arcs, erf, exp, log, sinh, trig};
use crate::jit::Vreg;
use crate::jit::asm::{Predicate, Rounding};
use crate::problem::functions::UnaryOp;

/// A float by its bits, in CUDA C.
pub(crate) fn literal(bits: crate::problem::functions::Bits) -> String {
    format!("KILN_BITS(0x{:08x}u)", bits.0)
}

/// A part of a row's `code`.
macro_rules! code {
    (is { if $holds:expr, $($rest:tt)* }) => {
        $holds
    };
    (is { $($rest:tt)* }) => {
        true
    };
    (temps { $(if $holds:expr,)? temps: $temps:expr, $($rest:tt)* }) => {
        $temps
    };
    (instructions { $(if $holds:expr,)? temps: $temps:expr, instructions: $count:expr, $($rest:tt)* }) => {
        $count
    };
    (emit($side:ident $value:ident $given:ident)
        { $(if $holds:expr,)? temps: $temps:expr, instructions: $count:expr,
          emit: |$asm:ident, $v:ident, $own:ident| $emit:expr }) => {{
        let ($asm, $v, $own) = ($side, $value, $given);
        $emit
    }};
}

macro_rules! functions {
    ($($name:ident $({ $($field:ident),* })? => {
        code: $code:tt,
        cuda: |$text:ident| $cuda:expr,
    })*) => {
        #[allow(unused_variables, reason = "few rows read all that they are given")]
        impl UnaryOp {
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
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vand(v, v, MAGNITUDE) },
        cuda: |x| format!("fabsf({x})"),
    }
    Neg => {
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vxor(v, v, SIGN) },
        cuda: |x| format!("-{x}"),
    }
    Reciprocal => {
        code: { temps: 1, instructions: 4, emit: |asm, v, temps| {
            let one = asm.held(temps[0], 1.0);
            asm.vdiv(v, one, v);
        } },
        cuda: |x| format!("1.0f / {x}"),
    }
    Sqrt => {
        code: { temps: 0, instructions: 4, emit: |asm, v, temps| asm.vsqrt(v, v) },
        cuda: |x| format!("sqrtf({x})"),
    }
    Exp => {
        code: { temps: 3, instructions: 24, emit: |asm, v, temps| exp::exp(asm, v, temps) },
        cuda: |x| format!("expf({x})"),
    }
    Log => {
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| log::log(asm, v, temps) },
        cuda: |x| format!("logf({x})"),
    }
    Erf => {
        code: { temps: 2, instructions: 24, emit: |asm, v, temps| erf::erf(asm, v, temps) },
        cuda: |x| format!("erff({x})"),
    }
    Tanh => {
        code: { temps: 3, instructions: 24, emit: |asm, v, temps| exp::tanh(asm, v, temps) },
        cuda: |x| format!("tanhf({x})"),
    }
    Sigmoid => {
        code: { temps: 3, instructions: 32, emit: |asm, v, temps| exp::sigmoid(asm, v, temps) },
        cuda: |x| format!("kiln_sigmoid({x})"),
    }
    Relu => {
        code: { temps: 1, instructions: 2, emit: |asm, v, temps| {
            // The instruction returns its second operand where either is NaN, so the value is the second.
            asm.vzero(temps[0]);
            asm.vmax(v, temps[0], v);
        } },
        cuda: |x| format!("{x} < 0.0f ? 0.0f : {x}"),
    }
    Clip { lo, hi } => {
        code: { temps: 1, instructions: 4, emit: |asm, v, temps| super::clamp(asm, v, temps[0], lo.get(), hi.get()) },
        cuda: |x| format!("kiln_clamp({x}, {}, {})", literal(lo), literal(hi)),
    }
    LeakyRelu { alpha } => {
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
        code: { temps: 3, instructions: 26, emit: |asm, v, temps| exp::elu(asm, v, temps, 1.0, alpha.get(), 1.0) },
        cuda: |x| format!("kiln_elu({x}, {})", literal(alpha)),
    }
    Selu { alpha, gamma } => {
        code: { temps: 3, instructions: 26, emit: |asm, v, temps| {
            exp::elu(asm, v, temps, 1.0, alpha.get(), gamma.get());
        } },
        cuda: |x| format!("{} * kiln_elu({x}, {})", literal(gamma), literal(alpha)),
    }
    Celu { alpha } => {
        // For a negative alpha, exp(x / alpha) grows without bound, which the emitted form cannot compute.
        code: { if alpha.get() > 0.0, temps: 3, instructions: 26, emit: |asm, v, temps| {
            exp::elu(asm, v, temps, 1.0 / alpha.get(), alpha.get(), 1.0);
        } },
        cuda: |x| format!("kiln_celu({x}, {})", literal(alpha)),
    }
    ThresholdedRelu { alpha } => {
        code: { temps: 2, instructions: 4, emit: |asm, v, temps| {
            let mask = asm.mask(temps[0]);
            asm.compare(mask, Predicate::Greater, v, alpha.get());
            asm.vzero(temps[1]);
            asm.select(v, mask, v, temps[1]);
        } },
        cuda: |x| format!("{x} > {} ? {x} : 0.0f", literal(alpha)),
    }
    HardSigmoid { alpha, beta } => {
        code: { temps: 1, instructions: 7, emit: |asm, v, temps| {
            asm.vmul(v, v, alpha.get());
            asm.vadd(v, v, beta.get());
            super::clamp(asm, v, temps[0], 0.0, 1.0);
        } },
        cuda: |x| format!("kiln_clamp({} * {x} + {}, 0.0f, 1.0f)", literal(alpha), literal(beta)),
    }
    HardSwish => {
        code: { temps: 2, instructions: 7, emit: |asm, v, temps| {
            asm.vmul(temps[0], v, 1.0 / 6.0);
            asm.vadd(temps[0], temps[0], 0.5);
            super::clamp(asm, temps[0], temps[1], 0.0, 1.0);
            asm.vmul(v, v, temps[0]);
        } },
        cuda: |x| format!("{x} * kiln_clamp({x} * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f)"),
    }
    Softplus => {
        code: { temps: 4, instructions: 44, emit: |asm, v, temps| log::softplus(asm, v, temps) },
        cuda: |x| format!("kiln_softplus({x})"),
    }
    Softsign => {
        code: { temps: 1, instructions: 7, emit: |asm, v, temps| {
            asm.vand(temps[0], v, MAGNITUDE);
            asm.vadd(temps[0], temps[0], 1.0);
            asm.vdiv(v, v, temps[0]);
        } },
        cuda: |x| format!("{x} / (1.0f + fabsf({x}))"),
    }
    Mish => {
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| exp::mish(asm, v, temps) },
        cuda: |x| format!("kiln_mish({x})"),
    }
    Silu => {
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| exp::silu(asm, v, temps) },
        cuda: |x| format!("{x} * kiln_sigmoid({x})"),
    }
    Gelu => {
        code: { temps: 3, instructions: 26, emit: |asm, v, temps| erf::gelu(asm, v, temps) },
        // The root of one half, and 2 sqrt(2 / pi).
        cuda: |x| format!("0.5f * {x} * erfcf(-{x} * 0.70710678118654752f)"),
    }
    GeluTanh => {
        code: { temps: 4, instructions: 32, emit: |asm, v, temps| exp::gelu_tanh(asm, v, temps) },
        cuda: |x| format!("{x} * kiln_sigmoid(1.5957691216057308f * ({x} + 0.044715f * {x} * {x} * {x}))"),
    }
    Floor => {
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vround(v, v, Rounding::Down) },
        cuda: |x| format!("floorf({x})"),
    }
    Ceil => {
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vround(v, v, Rounding::Up) },
        cuda: |x| format!("ceilf({x})"),
    }
    Round => {
        code: { temps: 0, instructions: 1, emit: |asm, v, temps| asm.vround(v, v, Rounding::NearestEven) },
        cuda: |x| format!("rintf({x})"),
    }
    Sign => {
        code: { temps: 2, instructions: 7, emit: |asm, v, temps| super::sign(asm, v, temps) },
        cuda: |x| format!("kiln_sign({x})"),
    }
    Sin => {
        code: { temps: trig::TEMPS, instructions: 32, emit: |asm, v, temps| trig::sin(asm, v, temps) },
        cuda: |x| format!("sinf({x})"),
    }
    Cos => {
        code: { temps: trig::TEMPS, instructions: 33, emit: |asm, v, temps| trig::cos(asm, v, temps) },
        cuda: |x| format!("cosf({x})"),
    }
    Tan => {
        code: { temps: trig::TEMPS, instructions: 35, emit: |asm, v, temps| trig::tan(asm, v, temps) },
        cuda: |x| format!("tanf({x})"),
    }
    Asin => {
        code: { temps: arcs::TEMPS, instructions: 31, emit: |asm, v, temps| arcs::asin(asm, v, temps) },
        cuda: |x| format!("asinf({x})"),
    }
    Acos => {
        code: { temps: arcs::TEMPS, instructions: 36, emit: |asm, v, temps| arcs::acos(asm, v, temps) },
        cuda: |x| format!("acosf({x})"),
    }
    Atan => {
        code: { temps: arcs::TEMPS, instructions: 29, emit: |asm, v, temps| arcs::atan(asm, v, temps) },
        cuda: |x| format!("atanf({x})"),
    }
    Sinh => {
        code: { temps: sinh::TEMPS, instructions: 29, emit: |asm, v, temps| sinh::sinh(asm, v, temps) },
        cuda: |x| format!("sinhf({x})"),
    }
    Cosh => {
        code: { temps: sinh::TEMPS, instructions: 20, emit: |asm, v, temps| sinh::cosh(asm, v, temps) },
        cuda: |x| format!("coshf({x})"),
    }
    Asinh => {
        code: { temps: sinh::INVERSE_TEMPS, instructions: 52, emit: |asm, v, temps| {
            sinh::asinh(asm, v, temps);
        } },
        cuda: |x| format!("asinhf({x})"),
    }
    Acosh => {
        code: { temps: sinh::INVERSE_TEMPS, instructions: 50, emit: |asm, v, temps| {
            sinh::acosh(asm, v, temps);
        } },
        cuda: |x| format!("acoshf({x})"),
    }
    Atanh => {
        code: { temps: sinh::INVERSE_TEMPS, instructions: 40, emit: |asm, v, temps| {
            sinh::atanh(asm, v, temps);
        } },
        cuda: |x| format!("atanhf({x})"),
    }
    Not => {
        code: { temps: 1, instructions: 2, emit: |asm, v, temps| {
            super::flag(asm, v, temps[0], Predicate::Equal, 0.0.into());
        } },
        cuda: |x| format!("kiln_flag({x} == 0.0f)"),
    }
    IsNan => {
        code: { temps: 1, instructions: 2, emit: |asm, v, temps| {
            super::flag(asm, v, temps[0], Predicate::Unordered, v.into());
        } },
        cuda: |x| format!("kiln_flag({x} != {x})"),
    }
}
