//! The number and length of texts for which language models have room.

/// Room for texts of each language model.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "generate"), allow(dead_code, reason = "this build has no language models"))]
pub(super) struct Room {
    /// Texts that are continued at a time.
    pub(super) texts: usize,
    /// Texts that may wait beside them.
    pub(super) queue: usize,
    /// Most tokens of a text.
    pub(super) context: usize,
}
