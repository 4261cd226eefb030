//! Times, counted in buckets of lengths.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often an event happened, and its total time.
#[derive(Debug, Default)]
pub(crate) struct Span {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Span {
    pub(crate) fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

/// The upper bounds of the buckets, in seconds. Longer times have a bucket of their own.
pub(crate) const BOUNDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Times by buckets, and their sum.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    pub(crate) span: Span,
    /// The number of times in each bucket that are in no smaller one.
    buckets: [AtomicU64; BOUNDS.len() + 1],
}

impl Histogram {
    pub(crate) fn add(&self, time: Duration) {
        self.span.add(time);
        let seconds = time.as_secs_f64();
        let place = BOUNDS.partition_point(|&bound| bound < seconds);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
    }

    /// For each bound, the number of times up to it; and the number of all times.
    pub(crate) fn cumulated(&self) -> [u64; BOUNDS.len() + 1] {
        let mut sum = 0;
        self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        })
    }

    /// The time in seconds that the share `part` of all times does not exceed, with times spread evenly within a
    /// bucket. `None` without times.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let cumulated = self.cumulated();
        let all = cumulated[BOUNDS.len()];
        if all == 0 {
            return None;
        }
        let rank = part * all as f64;
        let place = cumulated.partition_point(|&count| (count as f64) < rank);
        let Some(&upper) = BOUNDS.get(place) else { return BOUNDS.last().copied() };
        let (lower, below) = place.checked_sub(1).map_or((0.0, 0), |before| (BOUNDS[before], cumulated[before]));
        let inside = cumulated[place] - below;
        Some(if inside == 0 { upper } else { lower + (upper - lower) * (rank - below as f64) / inside as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_the_buckets_whose_bounds_it_does_not_exceed() {
        let histogram = Histogram::default();
        for micros in [0, 500, 501, 60_000_000, 60_000_001] {
            histogram.add(Duration::from_micros(micros));
        }
        let cumulated = histogram.cumulated();
        assert_eq!((cumulated[0], cumulated[1], cumulated[14], cumulated[15], cumulated[16]), (2, 3, 3, 4, 5));
        assert_eq!((histogram.span.count(), histogram.span.nanos()), (5, 120_001_002_000));
    }

    #[test]
    fn quantiles_are_even_within_a_bucket() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        // Two times between 1 and 2.5 ms, two between 10 and 25 ms.
        for millis in [2, 2, 20, 20] {
            histogram.add(Duration::from_millis(millis));
        }
        let close = |part: f64, expected: f64| {
            let found = histogram.quantile(part).unwrap();
            assert!((found - expected).abs() < 1e-9, "{part}: {found}");
        };
        close(0.25, 0.00175);
        close(0.5, 0.0025);
        close(0.75, 0.0175);
        close(1.0, 0.025);
        let long = Histogram::default();
        long.add(Duration::from_secs(600));
        assert_eq!(long.quantile(0.5), Some(60.0));
    }
}
