//! Medians, percentiles and summaries of latencies. Depends on no clock.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The middle value, or the mean of the two middle ones: what Python's `statistics.median` gives.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Percentiles of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    /// Half of the latencies are at most this.
    pub(crate) p50: f64,
    /// Nine of ten.
    pub(crate) p90: f64,
    /// Ninety-nine of a hundred.
    pub(crate) p99: f64,
}

/// Nanoseconds of a millisecond, the histogram's unit of count.
const NS_PER_MS: f64 = 1e6;

impl Percentiles {
    /// The percentiles of latencies in milliseconds; zeros if there are none.
    pub(crate) fn of(milliseconds: &[f64]) -> Percentiles {
        // Three digits: a percentile is off by at most a thousandth of itself. The histogram grows with its values; a
        // value that it refuses is no latency.
        let Ok(mut histogram) = Histogram::<u64>::new(3) else { return Percentiles::default() };
        for ms in milliseconds {
            let _ = histogram.record((ms * NS_PER_MS).max(0.0) as u64);
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / NS_PER_MS;
        Percentiles { p50: at(0.50), p90: at(0.90), p99: at(0.99) }
    }
}

/// To `digits` decimals, as the reports of the comparison programs round.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_pythons() {
        let cases: [(&[f64], Option<f64>); 5] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[3.0, 1.0], Some(2.0)),
            (&[5.0, 1.0, 3.0], Some(3.0)),
            (&[4.0, 1.0, 3.0, 2.0], Some(2.5)),
        ];
        for (values, expected) in cases {
            assert_eq!(median(values.iter().copied()), expected, "{values:?}");
        }
    }

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        let found = Percentiles::of(&values);
        for (value, expected) in [(found.p50, 500.0), (found.p90, 900.0), (found.p99, 990.0)] {
            assert!((value - expected).abs() / expected < 2e-3, "{value} instead of {expected}");
        }
        assert_eq!(Percentiles::of(&[]), Percentiles::default());
    }

    #[test]
    fn rounding_keeps_the_digits_asked_for() {
        assert_eq!(rounded(1.234_56, 4), 1.2346);
        assert_eq!(rounded(12.0, 4), 12.0);
    }
}
