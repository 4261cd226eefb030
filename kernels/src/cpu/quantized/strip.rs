//! Rows of the output whose last panel is partial: micro-kernels write whole panels.

use crate::jit::Given;

/// Rows of the output that one call writes. Sizes are in bytes.
pub(super) struct Strip {
    pub(super) first: *mut u8,
    pub(super) distance: usize,
    pub(super) rows: usize,
    /// Bytes of each row that belong to the output, and bytes that the micro-kernel writes.
    pub(super) columns: usize,
    pub(super) width: usize,
}

/// A buffer for rows of a partial panel.
#[derive(Default)]
pub(super) struct Edge(Vec<u8>);

impl Edge {
    /// Has `call` write rows of whole panels: to the address that it gets, with as many bytes from one row to the next
    /// as it gets. What belongs to the strip is then in the output.
    ///
    /// # Safety
    ///
    /// The strip's own columns are no other task's.
    pub(super) unsafe fn write(&mut self, to: &Strip, given: &Given, call: impl FnOnce(*mut u8, usize, &Given)) {
        let whole = to.columns == to.width;
        if !whole {
            self.0.resize((to.rows * to.width).max(self.0.len()), 0);
        }
        let (first, distance) = if whole { (to.first, to.distance) } else { (self.0.as_mut_ptr(), to.width) };
        call(first, distance, &given.clone().write("edge", &mut self.0));
        if whole {
            return;
        }
        for (row, from) in self.0.chunks_exact(to.width).take(to.rows).enumerate() {
            // SAFETY: the strip's own columns, which the caller vouches for.
            let to = unsafe { std::slice::from_raw_parts_mut(to.first.wrapping_add(row * to.distance), to.columns) };
            to.copy_from_slice(&from[..to.len()]);
        }
    }
}
