//! Calls of the kernels of [`emit`](super::emit): as machine code, or in Rust where the level has none.

use std::sync::Arc;

use super::emit::{Adjust, AttentionCode, Form, ScaleArgs, WeighArgs};
use super::plain;
use crate::cpu::{CodeKey, CodeSource, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Code, Given};

/// The code of a form, where the level has a JIT.
pub(super) fn code(isa: Isa, form: Form, source: &dyn CodeSource) -> Result<Option<Arc<Code>>> {
    match isa.is_jit() {
        true => source.code(&CodeKey::Attention(AttentionCode { isa, form })).map(Some),
        false => Ok(None),
    }
}

/// The two kernels that every path calls.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    weighing: AttentionCode,
    adjust: Adjust,
    written: Stored,
    weigh: Option<Arc<Code>>,
    scale: Option<Arc<Code>>,
    /// As `scale`, with results of another type than `f32`.
    finish: Option<Arc<Code>>,
}

impl Kernels {
    /// Kernels whose weights are `f32`, or bf16 pairs.
    pub(super) fn new(
        isa: Isa,
        adjust: Adjust,
        pairs: bool,
        written: Stored,
        source: &dyn CodeSource,
    ) -> Result<Kernels> {
        let weighing = AttentionCode { isa, form: if pairs { Form::WeighPairs(adjust) } else { Form::Weigh(adjust) } };
        let weigh = code(isa, weighing.form, source)?;
        let finish = match written {
            Stored::F32 => None,
            Stored::Bf16 => code(isa, Form::Scale(written), source)?,
        };
        let scale = code(isa, Form::Scale(Stored::F32), source)?;
        Ok(Kernels { weighing, adjust, written, weigh, scale, finish })
    }

    /// Weights in place of scores.
    ///
    /// # Safety
    ///
    /// `given` holds `rows` rows of `keys` scores, each with room for a vector behind it (for pairs, behind whole
    /// panels), and a state for each row. Mask and condition, where the form reads them, have an element for each key
    /// that a row sees. No other task touches these scores and states.
    pub(super) unsafe fn weigh(&self, args: &WeighArgs, given: &Given) {
        // SAFETY: the caller's contract, and the code takes `WeighArgs`.
        unsafe {
            match &self.weigh {
                Some(code) => code.call(args, &self.weighing, given),
                None => {
                    given.check(args, &self.weighing);
                    plain::weigh(self.adjust, args);
                }
            }
        }
    }

    /// Rows times their factors.
    ///
    /// # Safety
    ///
    /// `given` holds `rows` rows of `columns` elements on both sides, and a state for each row. No other task touches
    /// the rows that are written.
    pub(super) unsafe fn scale(&self, args: &ScaleArgs, given: &Given) {
        // SAFETY: the caller's contract, and the code takes `ScaleArgs`.
        unsafe {
            match &self.scale {
                Some(code) => code.call(args, &Stored::F32, given),
                None => {
                    given.check(args, &Stored::F32);
                    plain::scale(args);
                }
            }
        }
    }

    /// As [`Kernels::scale`], after the last block of keys: results in the type that the shape says.
    ///
    /// # Safety
    ///
    /// That of [`Kernels::scale`].
    pub(super) unsafe fn finish(&self, args: &ScaleArgs, given: &Given) {
        // SAFETY: the caller's contract, and the code takes `ScaleArgs`.
        unsafe {
            match &self.finish {
                Some(code) => code.call(args, &self.written, given),
                None => self.scale(args, given),
            }
        }
    }
}
