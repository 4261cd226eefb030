//! What the bins of a region read along each axis.

use crate::memory::{self, Collect, Pace};
use crate::problem::regions::{Extent, Neighbours, Region, neighbours};

/// The samples of a region's bins along both axes.
pub(super) struct Tables {
    pub(super) rows: Vec<Bin>,
    pub(super) columns: Vec<Bin>,
}

impl Tables {
    /// Samples one by one, or what the samples of a bin read in total.
    pub(super) fn new(region: &Region, size: [usize; 2], count: [usize; 2], one_by_one: bool) -> Tables {
        let rows = bins(&region.rows, count[0], size[0], one_by_one);
        Tables { rows, columns: bins(&region.columns, count[1], size[1], one_by_one) }
    }
}

/// A bin along one axis.
pub(super) struct Bin {
    /// How many samples it has.
    pub(super) samples: usize,
    /// The samples, where they are looked at one by one.
    pub(super) neighbours: Vec<Neighbours>,
    /// The elements that all samples read, each with the sum of its weights, where samples are added.
    pub(super) taps: Vec<(usize, f64)>,
}

impl Bin {
    /// How much is read along the axis.
    pub(super) fn len(&self) -> usize {
        self.neighbours.len().max(self.taps.len())
    }
}

/// The bins of an axis of `size` elements.
fn bins(extent: &Extent, count: usize, size: usize, one_by_one: bool) -> Vec<Bin> {
    let mut pace = Pace::default();
    let samples = extent.samples as usize;
    let of_bin = |number: usize| {
        pace.step(4 * samples);
        let read = (0..samples).map(|sample| neighbours(extent.place(number, sample), size));
        let mut kept = Vec::new();
        let mut taps = memory::with_capacity(if one_by_one { 0 } else { (2 * samples).min(size) });
        if one_by_one {
            kept = read.collected();
        } else {
            read.flatten().flatten().for_each(|(at, weight)| add_tap(&mut taps, at, weight));
        }
        Bin { samples, neighbours: kept, taps }
    };
    (0..count).map(of_bin).collected()
}

/// Adds the weight of an element. Samples lie in order along an axis, so that an element met before is one of the last
/// two.
fn add_tap(taps: &mut Vec<(usize, f64)>, at: usize, weight: f64) {
    match taps.iter_mut().rev().take(2).find(|(known, _)| *known == at) {
        Some((_, sum)) => *sum += weight,
        None => taps.push((at, weight)),
    }
}
