//! Sizes of tiles: how many rows and vectors fit the registers, and the panel width that wastes least.

use crate::isa::Isa;

/// Most rows of a tile at any level: each row needs a pointer register.
pub(crate) const MOST_ROWS: usize = 8;

/// Most vectors that a tile is wide.
pub(crate) const MOST_VECTORS: usize = 4;

/// Most rows of a tile that is `vectors` wide; 0 where no such tile is emitted.
///
/// Rows times vectors accumulators, a register for each vector of the right-hand side and one for the broadcast
/// element of the left-hand side must fit. From 8 accumulators on the latency of the multiply-add (4 cycles, two a
/// cycle) is hidden.
#[must_use]
pub const fn most_rows(isa: Isa, vectors: usize) -> usize {
    match (isa, vectors) {
        (Isa::Portable | Isa::Avx2, 1) => 8,
        (Isa::Portable | Isa::Avx2, 2) => 6,
        (Isa::Portable | Isa::Avx2, 3) => 4,
        (Isa::Avx512, 1..=3) => 8,
        (Isa::Avx512, 4) => 6,
        _ => 0,
    }
}

/// The panel width, in vectors, for a right-hand matrix of `columns` columns: the width that wastes least of its last
/// panel and, among equal ones, the width whose tile computes most for its loads.
#[must_use]
pub fn panel_vectors(isa: Isa, columns: usize) -> usize {
    // Share of the peak that the tallest tile of each width reaches with its operands in L1 and L2, in percent: a
    // narrow tile loads about as often as it multiplies.
    let efficiency: &[(usize, usize)] = match isa {
        Isa::Avx512 => &[(4, 98), (3, 97), (2, 96), (1, 85)],
        Isa::Portable | Isa::Avx2 => &[(2, 98), (3, 97), (1, 85)],
    };
    least_waste(isa, columns, efficiency)
}

/// The width in vectors that takes the least time for `columns` columns, counting the columns that fill up the last
/// panel. Each width comes with the share of the peak, in percent, that its tallest tile reaches.
pub(crate) fn least_waste(isa: Isa, columns: usize, efficiency: &[(usize, usize)]) -> usize {
    let vectors = columns.div_ceil(isa.lanes()).max(1);
    let cost = |&(width, percent): &(usize, usize)| vectors.div_ceil(width) * width * 100_000 / percent;
    efficiency.iter().min_by_key(|candidate| cost(candidate)).map_or(1, |&(width, _)| width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_are_as_wide_as_wastes_least() {
        for (isa, columns, vectors) in [
            (Isa::Avx2, 1, 1),
            (Isa::Avx2, 8, 1),
            (Isa::Avx2, 9, 2),
            (Isa::Avx2, 24, 3),
            (Isa::Avx2, 64, 2),
            (Isa::Avx2, 96, 2),
            (Isa::Avx2, 1000, 2),
            (Isa::Avx512, 16, 1),
            (Isa::Avx512, 64, 4),
            (Isa::Avx512, 96, 3),
            (Isa::Avx512, 160, 2),
            (Isa::Avx512, 3072, 4),
        ] {
            assert_eq!(panel_vectors(isa, columns), vectors, "{isa}: {columns} columns");
        }
    }

    #[test]
    fn every_emitted_tile_fits_the_registers() {
        for isa in Isa::ALL {
            for vectors in 1..=MOST_VECTORS {
                let rows = most_rows(isa, vectors);
                assert!(rows <= MOST_ROWS && (rows == 0 || rows * vectors + vectors < usize::from(isa.registers())));
            }
        }
    }
}
