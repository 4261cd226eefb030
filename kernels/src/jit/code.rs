//! Sealed machine code and its calls: the only place where emitted bytes become callable.
//!
//! [`arena`](super::arena) manages the executable memory.

use std::sync::Arc;

use super::arena::{Arena, Block, CodeMemory};
#[cfg(feature = "emulator")]
use super::emulator::Described;
#[cfg(feature = "emulator")]
use super::extents::Touched;
use super::extents::{Arguments, Given};
use crate::error::{KernelError, Result};
use crate::isa::{Extension, Isa};

/// One sealed kernel. It holds its memory alive, and its existence proves that its level may run here.
#[derive(Debug)]
pub struct Code {
    isa: Isa,
    block: Block,
    len: usize,
    /// Whether this processor has the level; otherwise the code is interpreted.
    #[cfg(feature = "emulator")]
    native: bool,
    /// The kernel decoded for the emulator, at the first emulated call.
    #[cfg(feature = "emulator")]
    program: std::sync::OnceLock<super::emulator::Program>,
}

impl Code {
    /// Copies `bytes` into executable memory. Fails where `isa` is neither present nor emulated.
    pub fn seal(isa: Isa, family: &'static str, bytes: &[u8]) -> Result<Code> {
        Code::seal_in(Arena::global(), isa, family, bytes)
    }

    /// As [`Code::seal`], for code that needs an extension of its level.
    pub fn seal_extended(isa: Isa, needs: Extension, family: &'static str, bytes: &[u8]) -> Result<Code> {
        if !needs.usable() {
            return Err(KernelError::ExtensionMissing(needs));
        }
        #[cfg_attr(not(feature = "emulator"), allow(unused_mut, reason = "what is not present was refused"))]
        let mut code = Code::seal(isa, family, bytes)?;
        #[cfg(feature = "emulator")]
        {
            code.native &= needs.present();
        }
        Ok(code)
    }

    pub(super) fn seal_in(arena: &Arc<Arena>, isa: Isa, family: &'static str, bytes: &[u8]) -> Result<Code> {
        if !isa.is_jit() || !isa.usable() {
            return Err(KernelError::IsaMissing(isa));
        }
        if bytes.is_empty() {
            return Err(KernelError::Assembly { family, reason: "a kernel without instructions".to_owned() });
        }
        let block = arena.place(bytes)?;
        super::symbols::note(isa, family, block.address().as_ptr() as u64, bytes);
        Ok(Code {
            isa,
            block,
            len: bytes.len(),
            #[cfg(feature = "emulator")]
            native: isa <= Isa::detect(),
            #[cfg(feature = "emulator")]
            program: std::sync::OnceLock::new(),
        })
    }

    /// The level of its instructions.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The machine code with its constant table, as it was sealed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block holds at least `len` readable bytes that do not change while it exists.
        unsafe { std::slice::from_raw_parts(self.block.address().as_ptr(), self.len) }
    }

    /// Bytes of executable memory that it occupies; a cache charges these.
    #[must_use]
    pub fn size(&self) -> usize {
        self.block.size()
    }

    /// Whether the emulator runs the calls of this thread.
    pub(crate) fn is_interpreted(&self) -> bool {
        #[cfg(feature = "emulator")]
        let interpreted = !self.native || super::emulator::is_forced();
        #[cfg(not(feature = "emulator"))]
        let interpreted = false;
        interpreted
    }

    /// Calls the kernel with a pointer to its argument struct. Where [extents](super::extents) are checked, it first
    /// checks the memory that the call will touch against the operands that its driver has `given`.
    ///
    /// # Safety
    ///
    /// `args` is the struct that this kernel's emitter was written for, and `kernel` is the key that determined its
    /// instructions. The operands in `given` may be read, and written where they say so, and other threads do not touch
    /// memory that the call writes.
    #[inline]
    pub(crate) unsafe fn call<A: Arguments>(&self, args: &A, kernel: &A::Kernel, given: &Given) {
        #[cfg(feature = "emulator")]
        if self.is_interpreted() {
            // SAFETY: the caller vouches for the operands in `given`.
            let touched = unsafe { given.touched(args, kernel) };
            // SAFETY: the caller vouches for the arguments.
            unsafe { self.interpret(args, touched.as_deref()) };
            return;
        }
        // SAFETY: the caller vouches for the operands in `given`, and for the arguments.
        unsafe {
            given.check(args, kernel);
            self.enter(std::ptr::from_ref(args).cast::<u8>());
        }
    }

    /// Calls a kernel of a test, which has no description of its extents.
    ///
    /// # Safety
    ///
    /// `args` is the struct that this kernel reads, and every pointer in it is valid for what the kernel reads and
    /// writes through it.
    #[cfg(feature = "emulator")]
    pub unsafe fn call_undescribed<A>(&self, args: &A) {
        if self.is_interpreted() {
            // SAFETY: the caller vouches for the arguments.
            unsafe { self.emulate(args) };
            return;
        }
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.enter(std::ptr::from_ref(args).cast::<u8>()) }
    }

    /// Calls the kernel in the emulator, whatever this processor supports, and returns the number of instructions
    /// executed.
    ///
    /// # Safety
    ///
    /// As for [`Code::call_undescribed`].
    ///
    /// # Panics
    ///
    /// Where the kernel holds an instruction that [`Asm`](super::Asm) does not emit, or breaks the ABI.
    #[cfg(feature = "emulator")]
    pub unsafe fn emulate<A>(&self, args: &A) -> u64 {
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.interpret(args, None) }
    }

    /// As [`Code::emulate`], and checks each access against `touched`, where it is given.
    ///
    /// # Safety
    ///
    /// As for [`Code::emulate`].
    #[cfg(feature = "emulator")]
    unsafe fn interpret<A>(&self, args: &A, touched: Option<&[Touched]>) -> u64 {
        let address = self.block.address().as_ptr() as u64;
        let program = self.program.get_or_init(|| super::emulator::Program::new(self.bytes(), address));
        let held = touched.map(|touched| Described::new(touched, self.bytes(), args));
        // SAFETY: the caller vouches for the arguments.
        unsafe { program.call(std::ptr::from_ref(args).cast::<u8>(), held.as_ref()) }
    }

    /// Jumps into the code.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    unsafe fn enter(&self, args: *const u8) {
        // SAFETY: the block starts with a function of this ABI: only `Asm` makes the bytes, and sealing checked that
        // this processor has its instructions.
        unsafe {
            let function: extern "sysv64" fn(*const u8) = std::mem::transmute(self.block.address());
            function(args);
        }
    }

    /// On other architectures no level is present, so no code is ever sealed.
    #[cfg(not(target_arch = "x86_64"))]
    unsafe fn enter(&self, _args: *const u8) {}
}

/// Maps the first memory for code of this process, if it has none.
pub(crate) fn make_ready() {
    Arena::global().make_ready();
}

/// Executable memory in use by this process.
#[must_use]
pub fn code_memory() -> CodeMemory {
    Arena::global().usage()
}

#[cfg(test)]
mod tests;
