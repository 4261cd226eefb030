//! The order in which a task on AMX goes through its tile rows and panels.

use std::ops::Range;

/// A chunk of tile rows by some panels of one group, which are multiplied before their epilogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The chunk's number.
    pub(crate) chunk: usize,
    /// The panels, numbered over all groups.
    pub(crate) panels: Range<usize>,
}

/// All chunks by all of `group_panels`, up to `most` panels at a time, each time within one group of `count`. Weights
/// that stay in L2 are all multiplied with one chunk before the next chunk, so that chunks are read once. Other weights
/// come from memory once: some panels are multiplied with all chunks before the next panels.
pub(crate) fn steps(
    weights_in_l2: bool,
    chunks: usize,
    group_panels: &Range<usize>,
    count: usize,
    most: usize,
) -> impl Iterator<Item = Step> + use<> {
    let cuts = cuts(group_panels, count, most);
    let by_chunks = weights_in_l2.then(|| {
        let cuts = cuts.clone();
        (0..chunks).flat_map(move |chunk| cuts.clone().map(move |panels| Step { chunk, panels }))
    });
    let by_panels = (!weights_in_l2)
        .then(|| cuts.flat_map(move |panels| (0..chunks).map(move |chunk| Step { chunk, panels: panels.clone() })));
    by_chunks.into_iter().flatten().chain(by_panels.into_iter().flatten())
}

/// Cuts a range of panels, numbered over all groups, into pieces of up to `most`, each within one group of `count`.
fn cuts(group_panels: &Range<usize>, count: usize, most: usize) -> impl Iterator<Item = Range<usize>> + Clone + use<> {
    let (mut next, end) = (group_panels.start, group_panels.end);
    std::iter::from_fn(move || {
        let start = next;
        next = end.min(start + most).min((start / count + 1) * count);
        (start < end).then_some(start..next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_of_units_stay_in_their_group() {
        assert_eq!(cuts(&(1..9), 3, 2).collect::<Vec<_>>(), [1..3, 3..5, 5..6, 6..8, 8..9]);
    }

    #[test]
    fn every_chunk_meets_every_panel_once_in_either_order() {
        // Three panels of one group and two of the next, two at a time.
        let order = |weights_in_l2| -> Vec<(usize, Range<usize>)> {
            steps(weights_in_l2, 2, &(1..6), 4, 2).map(|step| (step.chunk, step.panels)).collect()
        };
        let [a, b, c] = [1..3, 3..4, 4..6];
        let by_chunks =
            [(0, a.clone()), (0, b.clone()), (0, c.clone()), (1, a.clone()), (1, b.clone()), (1, c.clone())];
        assert_eq!(order(true), by_chunks);
        assert_eq!(order(false), [(0, a.clone()), (1, a), (0, b.clone()), (1, b), (0, c.clone()), (1, c)]);
        assert_eq!(steps(true, 0, &(0..4), 4, 2).chain(steps(false, 3, &(4..4), 4, 2)).count(), 0);
    }
}
