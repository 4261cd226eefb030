//! How a reduction is cut into parts. All tiles of a block go through one part before the next part.
//!
//! A tile reads its whole panel, and meanwhile the next panel is prefetched. If both do not fit L2, each tile finds
//! that the one before has evicted the panel's first rows, and reads them from memory again. A part is small enough to
//! stay there with the part that is prefetched. Sums are stored after each part and loaded again, which costs a few per
//! cent of the time of a part of the largest size. Sums that are rounded when they are stored cannot wait for the next
//! part: that reduction stays whole.
//!
//! Rows of a panel consist of 32-bit words: elements of `f32`, or pairs of `bf16`.

use std::ops::Range;

use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::gemm::reduction::UNROLL;
use crate::isa::Isa;

/// The cut of a reduction over taps and the channels of each, counted in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    taps: usize,
    channels: usize,
    /// Taps of a part, where it has all their channels.
    most_taps: usize,
    /// Channels of a part, where it has a single tap.
    most_channels: usize,
}

/// A part of a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) taps: Range<usize>,
    pub(super) channels: Range<usize>,
    /// The rows of the panel that it reads.
    pub(super) rows: Range<usize>,
}

/// Bytes of a panel up to which it is not cut: two such panels fill the L2 that a thread may count on. On 2 MiB of L2,
/// panels of 290 and 512 KiB were 3 to 5 % slower in parts, one of 590 KiB was as fast.
fn whole() -> usize {
    l2_bytes() / 2
}

/// Bytes of the parts of a larger panel: 128 KiB were the fastest of 24 to 256 on panels of 0.6 to 1.2 MB, whose
/// weights come from memory.
fn part() -> usize {
    l2_bytes() / 8
}

impl Cut {
    /// A reduction over that many taps and channels in one part.
    pub(super) fn none([taps, channels]: [usize; 2]) -> Cut {
        Cut { taps, channels, most_taps: taps.max(1), most_channels: channels.max(1) }
    }

    /// The cut of a reduction over that many taps and channels, with panels of `width` columns.
    pub(super) fn new(isa: Isa, [taps, channels]: [usize; 2], width: usize) -> Cut {
        let uncut = Cut::none([taps, channels]);
        let row = width * 4;
        // Two panels fit even the smaller L2 of processors without AVX-512; no cut was measured there.
        if isa != Isa::Avx512 || taps * channels * row <= whole() {
            return uncut;
        }
        let rows = (part() / row.max(1)).max(UNROLL);
        if rows >= channels {
            return Cut { most_taps: taps.div_ceil(taps.div_ceil(rows / channels)), ..uncut };
        }
        let most_channels = channels.div_ceil(channels.div_ceil(rows)).next_multiple_of(UNROLL);
        Cut { most_taps: 1, most_channels, ..uncut }
    }

    /// Most taps of a part.
    pub(super) fn most_taps(&self) -> usize {
        self.most_taps
    }

    /// The parts, in the order of the panel's rows. An empty reduction is one part.
    pub(super) fn parts(self) -> impl Iterator<Item = Part> {
        let Cut { taps, channels, most_taps, most_channels } = self;
        (0..taps.max(1)).step_by(most_taps).flat_map(move |tap| {
            let here = tap..taps.min(tap + most_taps);
            (0..channels.max(1)).step_by(most_channels).map(move |channel| {
                let own = channel..channels.min(channel + most_channels);
                let start = here.start * channels + here.len() * own.start;
                Part { taps: here.clone(), rows: start..start + here.len() * own.len(), channels: own }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_through_the_panel() {
        for (taps, channels) in [(9, 512), (9, 500), (1, 2048), (9, 256), (25, 96), (343, 3), (3, 4099), (1, 0), (0, 7)]
        {
            for isa in [Isa::Avx2, Isa::Avx512] {
                let cut = Cut::new(isa, [taps, channels], 64);
                let mut rows = 0;
                for part in cut.parts() {
                    assert_eq!(part.rows.start, rows, "{cut:?}");
                    assert_eq!(part.rows.len(), part.taps.len() * part.channels.len());
                    let whole = part.channels == (0..channels);
                    assert!(whole || part.taps.len() == 1, "channels of several taps do not lie together: {cut:?}");
                    rows = part.rows.end;
                }
                assert_eq!(rows, taps * channels, "{cut:?}");
            }
        }
    }

    #[test]
    fn panels_are_cut_where_two_of_them_leave_the_second_cache_no_room() {
        let parts = |isa, taps, channels| Cut::new(isa, [taps, channels], 64).parts().count();
        assert_eq!(parts(Isa::Avx512, 1, 1024), 1);
        assert_eq!(parts(Isa::Avx512, 9, 64), 1);
        assert_eq!(parts(Isa::Avx512, 1, 2048), 1);
        assert_eq!(parts(Isa::Avx512, 9, 256), 5);
        assert_eq!(parts(Isa::Avx512, 9, 512), 9);
        assert_eq!(parts(Isa::Avx512, 1, 4096), 8);
        assert_eq!(parts(Isa::Avx2, 9, 512), 1);
    }
}
