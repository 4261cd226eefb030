//! How the work of a quantised product is cut.

use serde::{Deserialize, Serialize};

use crate::problem::description::sizes;

/// How the work is cut: a builder's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuantizedBlocks {
    /// Tiles of rows that are multiplied with all panels before the next tiles; on AMX, output lines of a band.
    pub row_block: u32,
    /// Parts that rows are split into for threads.
    pub row_tasks: u32,
    /// Parts that the panels of all groups are split into.
    pub unit_tasks: u32,
}

sizes!(QuantizedBlocks { row_block: usize, row_tasks: usize, unit_tasks: usize });

impl QuantizedBlocks {
    /// Whether a driver can take these blocks: a builder's choice may come from a file.
    #[must_use]
    pub fn fits(&self) -> bool {
        const MOST: usize = 1 << 16;
        let cut = [self.row_block(), self.row_tasks(), self.unit_tasks()];
        cut.iter().all(|&count| count > 0 && count <= MOST) && self.row_tasks() * self.unit_tasks() <= MOST
    }
}
