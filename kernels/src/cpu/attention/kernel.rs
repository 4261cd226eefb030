//! Calling a form of [`emit`](super::emit): as machine code, or in Rust where nothing may be emitted.

use std::sync::Arc;

use super::emit::{Adjust, AttentionCode, Form, ScaleArgs, WeighArgs};
use super::plain;
use crate::cpu::{CodeKey, CodeSource, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Code;

/// The code of a form, where there is any.
pub(super) fn code(isa: Isa, form: Form, source: &dyn CodeSource) -> Result<Option<Arc<Code>>> {
    match isa.is_jit() {
        true => source.code(&CodeKey::Attention(AttentionCode { isa, form })).map(Some),
        false => Ok(None),
    }
}

/// The two forms that every path takes.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    adjust: Adjust,
    weigh: Option<Arc<Code>>,
    scale: Option<Arc<Code>>,
    /// What stores results, where those are not `f32`.
    finish: Option<Arc<Code>>,
}

impl Kernels {
    /// Weights are pairs of `bf16` on request.
    pub(super) fn new(
        isa: Isa,
        adjust: Adjust,
        pairs: bool,
        written: Stored,
        source: &dyn CodeSource,
    ) -> Result<Kernels> {
        let weigh = code(isa, if pairs { Form::WeighPairs(adjust) } else { Form::Weigh(adjust) }, source)?;
        let finish = match written {
            Stored::F32 => None,
            Stored::Bf16 => code(isa, Form::Scale(written), source)?,
        };
        Ok(Kernels { adjust, weigh, scale: code(isa, Form::Scale(Stored::F32), source)?, finish })
    }

    /// Scores to weights.
    ///
    /// # Safety
    ///
    /// There are `rows` rows of `keys` scores, with room for a vector behind each (for pairs, behind whole panels), and a state for each row; mask and
    /// condition, where the form reads them, have an element for each key that a row sees. Scores and states are nobody
    /// else's.
    pub(super) unsafe fn weigh(&self, args: &WeighArgs) {
        // SAFETY: the caller's contract, and the code takes `WeighArgs`.
        unsafe {
            match &self.weigh {
                Some(code) => code.call(args),
                None => plain::weigh(self.adjust, args),
            }
        }
    }

    /// Rows times their factors.
    ///
    /// # Safety
    ///
    /// There are `rows` rows of `columns` elements on both sides, those that are written nobody else's, and a state for each.
    pub(super) unsafe fn scale(&self, args: &ScaleArgs) {
        // SAFETY: the caller's contract, and the code takes `ScaleArgs`.
        unsafe {
            match &self.scale {
                Some(code) => code.call(args),
                None => plain::scale(args),
            }
        }
    }

    /// The same for the last time, into results as they are stored.
    ///
    /// # Safety
    ///
    /// That of [`Kernels::scale`].
    pub(super) unsafe fn finish(&self, args: &ScaleArgs) {
        // SAFETY: the caller's contract, and the code takes `ScaleArgs`.
        unsafe {
            match &self.finish {
                Some(code) => code.call(args),
                None => self.scale(args),
            }
        }
    }
}
