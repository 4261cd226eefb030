//! Interprets finished kernels, so that every level is tested on every machine.
//!
//! It has exactly the instructions that [`Asm`](super::Asm) emits; any other is a panic that names it. A kernel is
//! decoded and lowered to compact operations once, then interpreted on the memory of this process, as the real code
//! would run. Masked-off lanes of a load or store are not touched, so guard pages work here too.
//!
//! It is stricter than a processor where that finds mistakes. Registers start as signalling NaNs and addresses that
//! fault. It panics on a jump on flags that the manual leaves undefined, and on a kernel that does not restore the
//! registers of its caller or touches memory outside of the [extents](super::extents) of its call.
//!
//! [`lower`] turns instructions into operations, [`execute`] runs them on the registers of [`machine`], on [`tiles`]
//! and on [`memory`].

mod execute;
mod lanes;
mod lower;
mod machine;
mod memory;
mod tiles;

use std::cell::{Cell, RefCell};

use machine::{CALLEE_SAVED, Machine, RSP};
use memory::Memory;

pub(super) use memory::Described;

/// A kernel that is ready to be interpreted.
#[derive(Debug)]
pub(super) struct Program {
    operations: Vec<lower::Operation>,
}

/// Words of the emulated stack: 255 spill slots of 64 bytes, the saved registers, and room to spare.
const STACK_WORDS: usize = 4096;

thread_local! {
    /// The stack of the kernel that this thread interprets; kernels call nothing, so one is enough.
    static STACK: RefCell<Box<[u64]>> = RefCell::new(vec![0; STACK_WORDS].into_boxed_slice());
}

thread_local! {
    /// Whether all kernels that this thread calls are interpreted.
    static FORCED: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` with every kernel that this thread calls interpreted, including kernels that the processor could run.
pub fn interpreted<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the previous value, after a panic too.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORCED.set(self.0);
        }
    }
    let _restore = Restore(FORCED.replace(true));
    work()
}

/// Whether this thread does [`interpreted`] work.
pub(super) fn is_forced() -> bool {
    FORCED.get()
}

impl Program {
    /// Decodes and lowers a kernel at `address`, to which its constants are relative.
    ///
    /// # Panics
    ///
    /// Where the kernel has an instruction that the emulator does not have.
    pub(super) fn new(bytes: &[u8], address: u64) -> Program {
        let decoded = super::decode::decode(bytes, address).unwrap_or_else(|error| panic!("emulator: {error}"));
        Program { operations: lower::lower(&decoded.instructions) }
    }

    /// Calls the kernel and returns the number of instructions executed.
    ///
    /// # Safety
    ///
    /// As for [`Code::call_undescribed`](super::Code::call_undescribed).
    ///
    /// # Panics
    ///
    /// Where the kernel breaks the ABI, or touches memory outside of `described`.
    pub(super) unsafe fn call(&self, args: *const u8, described: Option<&Described>) -> u64 {
        STACK.with_borrow_mut(|stack| {
            let mut machine = Machine::new();
            machine.gpr[7] = args as u64;
            // As after a call: the stack is aligned to 16 bytes above the return address.
            let top = (stack.as_mut_ptr_range().end as u64 & !15) - 8;
            machine.gpr[RSP] = top;
            let before = machine.gpr;
            // SAFETY: the caller vouches for the memory that the kernel reaches through its arguments; the stack is
            // ours.
            let memory = unsafe { Memory::vouched_for(described, stack.as_ptr_range()) };
            let executed = execute::run(&self.operations, &mut machine, &memory);
            assert_eq!(machine.gpr[RSP], top + 8, "the kernel leaves the stack pointer elsewhere");
            for register in CALLEE_SAVED {
                assert_eq!(machine.gpr[register], before[register], "the kernel destroys register {register}");
            }
            assert!(machine.uppers_are_clear(), "the kernel returns without vzeroupper");
            assert!(machine.tiles.are_released(), "the kernel keeps its tiles");
            executed
        })
    }
}
