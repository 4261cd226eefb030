//! The one error type of the kernels crate.

use crate::isa::{Extension, Isa};
use crate::memory::Refused;

/// Why a kernel could not be built or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The parameters are outside what the family supports; the text names the parameter and its value.
    #[error("{family}: {reason}")]
    Unsupported {
        /// The kernel family.
        family: &'static str,
        /// Which parameter, and why.
        reason: String,
    },
    /// A buffer passed to a kernel is smaller than its shape says.
    #[error("{family}: {operand} holds {have} elements, {need} are needed")]
    Bounds {
        /// The kernel family.
        family: &'static str,
        /// Which operand.
        operand: &'static str,
        /// Elements present.
        have: usize,
        /// Elements needed.
        need: usize,
    },
    /// Code of this level cannot run on this machine.
    #[error("code for {0} cannot run on this machine")]
    IsaMissing(Isa),
    /// Code that uses instructions beyond its level cannot run on this machine.
    #[error("code for {} cannot run on this machine", .0.name())]
    ExtensionMissing(Extension),
    /// The assembler refused a kernel: an emitter has a fault, which is reported instead of a panic.
    #[error("assembling {family}: {reason}")]
    Assembly {
        /// The kernel family.
        family: &'static str,
        /// The assembler's message.
        reason: String,
    },
    /// A device, or a library that works on one, refused.
    #[error("{call}: {reason}")]
    Device {
        /// The call.
        call: &'static str,
        /// Its error.
        reason: String,
    },
    /// A device has too little memory, or its limit is reached.
    #[error("{need} bytes of device memory are needed, {room} are left")]
    DeviceMemory {
        /// Bytes needed.
        need: u64,
        /// Bytes that may still be taken.
        room: u64,
    },
    /// There was too little memory for the parameters.
    #[error(transparent)]
    Memory(#[from] Refused),
    /// The system gave no executable memory.
    #[error("no executable memory: {0}")]
    CodeMemory(#[from] std::io::Error),
}

/// Result of a kernel operation.
pub type Result<T, E = KernelError> = std::result::Result<T, E>;
