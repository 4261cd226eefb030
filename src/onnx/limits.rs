//! How much of everything a model may have. A limit is far above real models and far below what a machine can bear.

use super::ModelError;

/// Bounds on a model, checked while it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the model file. Protobuf itself ends at 2 GiB.
    pub file_bytes: u64,
    /// Nodes of all graphs and bodies together.
    pub nodes: usize,
    /// Nodes that come from expanding the model's own functions: a few hundred bytes can describe billions.
    pub expanded_nodes: usize,
    /// Bytes, as they would stand in a file, of all that functions are expanded to.
    pub expanded_bytes: usize,
    /// Bodies within bodies, and functions within functions.
    pub depth: usize,
    /// Dimensions of one tensor.
    pub rank: usize,
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
            name_bytes: 1 << 16,
        }
    }
}

impl Limits {
    /// An error where `found` is above `limit`.
    pub(super) fn check(
        &self,
        what: &'static str,
        found: u64,
        limit: u64,
        place: impl FnOnce() -> String,
    ) -> Result<(), ModelError> {
        if found <= limit { Ok(()) } else { Err(ModelError::Limit { what, found, limit, place: place() }) }
    }

    /// An error where a name is longer than a name may be.
    pub(super) fn check_name(&self, name: &str, place: impl FnOnce() -> String) -> Result<(), ModelError> {
        self.check("the length of a name", name.len() as u64, self.name_bytes as u64, place)
    }
}
