//! Whether the number of rows decides in which order a product adds.

use super::shape::{MatmulShape, Right};
use crate::cpu::Elements;
use crate::cpu::gemm::emit::sets;
use crate::cpu::gemm::row::STREAMS;
use crate::cpu::gemm::rows::Tiles;
use crate::cpu::gemm::tile::RightColumns;
use crate::cpu::gemm::tile_size::most_rows;
use crate::isa::Isa;

impl MatmulShape {
    /// Whether the product is one row by several panels, which the kernel for a single row reads side by side.
    pub(super) fn is_lone_row(&self, isa: Isa, vectors: usize) -> bool {
        let is_read_whole = self.right_is_packed() && self.elements() != Elements::Bf16Dot;
        self.m == 1 && is_read_whole && isa.is_jit() && self.n / (vectors * isa.lanes()).max(1) >= STREAMS
    }

    /// Whether each element of a product by packed `f32` or `f16` is one sum, to which its products are added from
    /// first to last. A row then has the same bits in all products that add in order, whatever their numbers of rows.
    /// Tiles of few rows have several sums for an element. `false` where the order is not known.
    #[must_use]
    pub fn adds_in_order(&self, isa: Isa) -> bool {
        let Right::Packed { vectors, elements } = self.right else { return false };
        if !matches!(elements, Elements::F32 | Elements::F16) {
            return false;
        }
        let columns = if self.widens(isa, vectors) { RightColumns::Packed } else { RightColumns::packed(elements) };
        let tiles = Tiles::new(self.m, most_rows(isa, vectors));
        let one_sum = |height: usize| sets(usize::from(isa.registers()), vectors, columns, height) == 1;
        !isa.is_jit()
            || self.is_lone_row(isa, vectors)
            || tiles.runs(0..tiles.count()).all(|run| run.count == 0 || one_sum(run.height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::gemm::matmul::Left;

    fn ordered(isa: Isa, vectors: usize, n: usize) -> Vec<usize> {
        let right = Right::Packed { vectors, elements: Elements::F32 };
        let shape =
            |m| MatmulShape { m, n, k: 40, batch: [].into_iter().collect(), left: Left::Rows { stride: 40 }, right };
        (1..=16).filter(|&m| shape(m).adds_in_order(isa)).collect()
    }

    #[test]
    fn tiles_of_few_rows_have_several_sums() {
        let all: Vec<usize> = (1..=16).collect();
        assert_eq!(ordered(Isa::Portable, 2, 10), all, "plain loops have one");
        assert_eq!(ordered(Isa::Avx512, 1, 10), [8, 16], "tiles of eight rows of one vector");
        assert_eq!(ordered(Isa::Avx512, 3, 40), all[2..], "tiles of three rows of three vectors");
        assert_eq!(ordered(Isa::Avx512, 3, 400), [&[1], &all[2..]].concat(), "and one row of many panels");
        assert_eq!(ordered(Isa::Avx2, 2, 10), [4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16], "seven are four and three");
    }
}
