//! Sealed machine code and how it is called: the only place where emitted bytes become executable.

use crate::error::Result;
use crate::isa::Isa;

/// One sealed kernel. It holds its memory alive, and its existence proves that its level may run here.
#[derive(Debug)]
pub struct Code {
    isa: Isa,
}

#[allow(unused_variables, clippy::todo, missing_docs, reason = "signatures first")]
impl Code {
    /// Copies `bytes` into executable memory. Fails where `isa` is neither present nor emulated.
    pub fn seal(isa: Isa, family: &'static str, bytes: &[u8]) -> Result<Code> {
        todo!()
    }
    pub fn isa(&self) -> Isa {
        self.isa
    }
    pub fn bytes(&self) -> &[u8] {
        todo!()
    }
    /// Bytes of executable memory that it occupies: what a cache charges for it.
    pub fn size(&self) -> usize {
        todo!()
    }

    /// Calls the kernel with a pointer to its argument struct.
    ///
    /// # Safety
    ///
    /// `args` is the struct that this kernel's emitter was written for, and every pointer in it is valid for what
    /// the kernel reads and writes through it.
    pub unsafe fn call<A>(&self, args: &A) {
        todo!()
    }
}
