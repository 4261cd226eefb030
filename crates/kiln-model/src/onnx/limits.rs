//! Limits for models: far above real models and far below what a machine can bear.

use kiln_kernels::memory::unclaimed_bytes;
use kiln_tensor::installed_bytes;

use super::ModelError;
use super::weigh::{From, weigh};

/// Bounds on a model, checked while it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the model file; files beside it do not count. Protobuf itself ends at 2 GiB.
    pub file_bytes: u64,
    /// Nodes of all graphs and bodies together.
    pub nodes: usize,
    /// Nodes from expanded functions: a few hundred bytes can define billions.
    pub expanded_nodes: usize,
    /// Bytes, as in a file, of all expanded functions, without the first expansion of each.
    pub expanded_bytes: usize,
    /// Bodies within bodies, and functions within functions.
    pub depth: usize,
    /// Dimensions of one tensor.
    pub rank: usize,
    /// Bytes of all tensors that are stored in files or bytes, counted before any are read. Equal ranges count once.
    pub tensor_bytes: u64,
    /// Bytes of memory of the file's messages after decoding, without the raw elements of tensors.
    pub message_bytes: u64,
    /// Bytes of one name.
    pub name_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_bytes: 2 << 30,
            nodes: 1_000_000,
            expanded_nodes: 1 << 16,
            expanded_bytes: 32 << 20,
            depth: 16,
            rank: 32,
            tensor_bytes: installed_bytes() as u64,
            // A million nodes of the usual size.
            message_bytes: 4 << 30,
            name_bytes: 1 << 16,
        }
    }
}

impl Limits {
    /// An error if `found` is above `limit`.
    pub(super) fn check(
        &self,
        what: &'static str,
        found: u64,
        limit: u64,
        place: impl FnOnce() -> String,
    ) -> Result<(), ModelError> {
        if found <= limit { Ok(()) } else { Err(ModelError::Limit { what, found, limit, place: place() }) }
    }

    /// An error if a model, without files beside it, is too large.
    pub(super) fn check_size(&self, bytes: u64, place: impl FnOnce() -> String) -> Result<(), ModelError> {
        let limit = self.file_bytes;
        if bytes <= limit { Ok(()) } else { Err(ModelError::TooLarge { place: place(), bytes, limit }) }
    }

    /// An error if decoding takes too much memory.
    pub(super) fn check_weight(&self, from: From<'_>, place: impl FnOnce() -> String) -> Result<(), ModelError> {
        let limit = self.message_bytes.min(unclaimed_bytes() as u64);
        self.check("the memory of its messages in bytes", weigh(from, limit), limit, place)
    }

    /// An error if a name is too long.
    pub(super) fn check_name(&self, name: &str, place: impl FnOnce() -> String) -> Result<(), ModelError> {
        self.check("the length of a name", name.len() as u64, self.name_bytes as u64, place)
    }
}
