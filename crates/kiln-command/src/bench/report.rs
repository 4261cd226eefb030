//! The report of a benchmark: one JSON object with the fields of the comparison programs' reports, and more; and the
//! same as text.

use std::fmt::Write as _;

use kiln::session::{Session, SessionOptions};
use serde::Serialize;
use serde_json::Value;

use crate::bench::measure::{First, Lookups, Passes, SteadyRun};
use crate::statistics::{Percentiles, median, rounded};
use crate::table::{Table, bytes, milliseconds};
use crate::tuning::Tuning;
use crate::workload::{self, Workload};

/// Resident megabytes at three times.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Memory {
    /// Before the model was loaded.
    pub(super) base: f64,
    /// After.
    pub(super) loaded: f64,
    /// After both passes.
    pub(super) traced: f64,
}

/// The sources of a report.
pub(super) struct Sources<'a> {
    /// The model's name.
    pub(super) model: &'a str,
    /// The session's settings.
    pub(super) options: &'a SessionOptions,
    /// The session, for its counters.
    pub(super) session: &'a Session,
    /// The requests.
    pub(super) workload: &'a Workload,
    /// Milliseconds of loading.
    pub(super) load_ms: f64,
    /// The two passes.
    pub(super) passes: &'a Passes,
    /// The steady shapes.
    pub(super) steady: &'a SteadyRun,
    /// Their first requests in a session that starts from the records.
    pub(super) from_records: &'a [First],
    /// The most megabytes that were resident.
    pub(super) peak_mb: f64,
    /// Resident memory.
    pub(super) memory: Memory,
}

/// The JSON object. Other programs read its fields: they may be added to, not renamed.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    model: String,
    version: &'static str,
    precision: String,
    isa: &'static str,
    threads: usize,
    /// Always 0: for readers of the comparison programs' reports.
    python_ms: f64,
    import_ms: f64,
    load_ms: f64,
    first_ms: f64,
    distinct: usize,
    requests: usize,
    pass1_ms: f64,
    pass2_ms: f64,
    rss_mb: Memory,
    lat1: Vec<f64>,
    lat2: Vec<f64>,
    new: Vec<bool>,
    /// The most expensive outcome for each request of the first pass.
    outcomes: Vec<&'static str>,
    new_ms: Option<f64>,
    new_again_ms: Option<f64>,
    new_extra_ms: Option<f64>,
    new_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_ratio: Option<f64>,
    steady: Vec<SteadyShape>,
    peak_mb: f64,
    percentiles: PassPercentiles,
    repeat_builds: u64,
    cache: CacheCounters,
    /// Look-ups of plans of whole requests.
    plans: CacheCounters,
    records: RecordCounters,
    /// Copies to and from a device, and its memory in use; absent on the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceFigures>,
    /// Results of tuning between the passes and since; absent without tuning.
    #[serde(skip_serializing_if = "Option::is_none")]
    tuning: Option<Tuning>,
}

/// A session's device in figures.
#[derive(Debug, Serialize)]
struct DeviceFigures {
    name: String,
    copies_to_device: u64,
    bytes_to_device: u64,
    copies_to_host: u64,
    bytes_to_host: u64,
    /// Bytes of its memory that were taken in total, and the most that were in use at once.
    taken: u64,
    most_lent: u64,
}

impl DeviceFigures {
    fn of(session: &Session) -> Option<DeviceFigures> {
        let stats = session.device_stats()?;
        Some(DeviceFigures {
            name: stats.name,
            copies_to_device: stats.to_device.copies,
            bytes_to_device: stats.to_device.bytes,
            copies_to_host: stats.to_host.copies,
            bytes_to_host: stats.to_host.bytes,
            taken: stats.arena.taken,
            most_lent: stats.arena.most_lent,
        })
    }
}

#[derive(Debug, Serialize)]
struct SteadyShape {
    shape: Value,
    median_ms: f64,
    min_ms: f64,
    n: usize,
    switch_ms: f64,
    /// The first request of the shape in a cold session, and the outcomes of its look-ups.
    cold_ms: f64,
    cold_lookups: Lookups,
    /// The first request in a session that starts from the records.
    records_ms: Option<f64>,
    records_lookups: Option<Lookups>,
    #[serde(flatten)]
    percentiles: Percentiles,
}

#[derive(Debug, Serialize)]
struct PassPercentiles {
    pass1: Percentiles,
    pass2: Percentiles,
}

/// The executor cache's counters under their names in reports.
#[derive(Clone, Copy, Debug, Serialize)]
struct CacheCounters {
    lookups: u64,
    hits: u64,
    misses: u64,
    record_hits: u64,
    waits: u64,
    builds: u64,
    build_ms: f64,
    evictions: u64,
    entries: u64,
    bytes: u64,
}

impl From<kiln_cache::Stats> for CacheCounters {
    fn from(stats: kiln_cache::Stats) -> CacheCounters {
        CacheCounters {
            lookups: stats.lookups,
            hits: stats.hits,
            misses: stats.misses,
            record_hits: stats.record_hits,
            waits: stats.waits,
            builds: stats.builds,
            build_ms: stats.build_nanos as f64 / 1e6,
            evictions: stats.evictions,
            entries: stats.entries,
            bytes: stats.bytes,
        }
    }
}

/// The record store's counters under their names in reports.
#[derive(Clone, Copy, Debug, Serialize)]
struct RecordCounters {
    records: u64,
    loaded: u64,
    lookups: u64,
    hits: u64,
    rejected: u64,
    /// Reads of the remote store, if there is one.
    remote_gets: u64,
    remote_puts: u64,
    remote_taken: u64,
    remote_failures: u64,
    /// Executors rebuilt from records before the first request.
    warmed: usize,
}

impl RecordCounters {
    fn of(session: &Session) -> RecordCounters {
        let stats = session.record_stats();
        RecordCounters {
            records: stats.records,
            loaded: stats.loaded,
            lookups: stats.lookups,
            hits: stats.hits,
            rejected: stats.rejected_magic
                + stats.rejected_version
                + stats.rejected_fingerprint
                + stats.rejected_checksum
                + stats.rejected_semantic
                + stats.rejected_io
                + stats.rejected_length,
            remote_gets: stats.remote_gets,
            remote_puts: stats.remote_puts,
            remote_taken: stats.remote_taken,
            remote_failures: stats.remote_failures,
            warmed: session.warmed(),
        }
    }
}

impl Report {
    /// The report of the measurements.
    pub(super) fn new(sources: &Sources<'_>) -> Report {
        let Passes { first, second, new, repeat_builds, lookups } = sources.passes;
        let Extra { new_ms, new_again_ms, new_extra_ms, new_ratio, repeat_ms, repeat_ratio } =
            Extra::of(sources.passes);
        let four_digits = |list: &[f64]| list.iter().map(|&ms| rounded(ms, 4)).collect();
        let threads = match sources.options.threads {
            0 => kiln_tensor::threads::available(),
            threads => threads,
        };
        let shapes = sources.workload.steady.iter().zip(&sources.steady.shapes).zip(&sources.steady.firsts);
        let first_of = |shape: &Value| sources.passes.first_of(&sources.workload.requests, shape);
        Report {
            model: sources.model.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            precision: sources.options.precision.to_string(),
            isa: sources.options.isa().name(),
            threads,
            python_ms: 0.0,
            import_ms: 0.0,
            load_ms: sources.load_ms,
            first_ms: first.first().copied().unwrap_or(0.0),
            distinct: new.iter().filter(|&&new| new).count(),
            requests: first.len(),
            pass1_ms: first.iter().sum(),
            pass2_ms: second.iter().sum(),
            rss_mb: sources.memory,
            lat1: four_digits(first),
            lat2: four_digits(second),
            new: new.clone(),
            outcomes: lookups.iter().map(Lookups::costliest).collect(),
            new_ms,
            new_again_ms,
            new_extra_ms,
            new_ratio,
            repeat_ms,
            repeat_ratio,
            steady: shapes
                .enumerate()
                .map(|(place, ((request, steady), first))| {
                    (place, request, steady, first_of(&request.shape).unwrap_or(*first))
                })
                .map(|(place, request, steady, first)| SteadyShape {
                    cold_ms: first.ms,
                    cold_lookups: first.lookups,
                    records_ms: sources.from_records.get(place).map(|first| first.ms),
                    records_lookups: sources.from_records.get(place).map(|first| first.lookups),
                    shape: request.shape.clone(),
                    median_ms: steady.median_ms,
                    min_ms: steady.min_ms,
                    n: steady.n,
                    switch_ms: steady.switch_ms,
                    percentiles: steady.percentiles,
                })
                .collect(),
            peak_mb: sources.peak_mb,
            percentiles: PassPercentiles { pass1: Percentiles::of(first), pass2: Percentiles::of(second) },
            repeat_builds: repeat_builds + sources.steady.repeat_builds,
            cache: sources.session.cache_stats().into(),
            plans: sources.session.plan_stats().into(),
            records: RecordCounters::of(sources.session),
            device: DeviceFigures::of(sources.session),
            tuning: Tuning::of(sources.session, sources.options.tune),
        }
    }

    /// The cost of a known shape after a different one, relative to the same shape twice: the geometric mean over the
    /// steady shapes.
    fn switch(&self) -> Option<f64> {
        let logs = self.steady.iter().map(|steady| (steady.switch_ms / steady.median_ms).ln());
        let mean = logs.sum::<f64>() / self.steady.len() as f64;
        (self.steady.len() > 1).then(|| mean.exp())
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let ms = |value: f64| milliseconds(value);
        let maybe = |value: Option<f64>| value.map_or("-".to_owned(), milliseconds);
        let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}: {} requests of {} shapes, {} threads, {}",
            self.model, self.requests, self.distinct, self.threads, self.isa
        );
        let _ = writeln!(text, "load {} ms, first request {} ms", ms(self.load_ms), ms(self.first_ms));
        let _ = writeln!(
            text,
            "a new shape {} ms, the same request again {} ms (ratio {}); a repeated shape {} ms (ratio {})",
            maybe(self.new_ms),
            maybe(self.new_again_ms),
            ratio(self.new_ratio),
            maybe(self.repeat_ms),
            ratio(self.repeat_ratio)
        );
        let mut table = Table::new(&["pass", ">total ms", ">p50", ">p90", ">p99"]);
        for (name, total, p) in
            [("first", self.pass1_ms, self.percentiles.pass1), ("second", self.pass2_ms, self.percentiles.pass2)]
        {
            table.row([name.to_owned(), ms(total), ms(p.p50), ms(p.p90), ms(p.p99)]);
        }
        text += &table.text();
        let mut table = Table::new(&["steady shape", ">p50 ms", ">p90", ">p99", ">min", ">after another", ">runs"]);
        for steady in &self.steady {
            let p = steady.percentiles;
            let shape = workload::shape_text(&steady.shape);
            let figures = [steady.median_ms, p.p90, p.p99, steady.min_ms, steady.switch_ms].map(milliseconds);
            table.row([shape].into_iter().chain(figures).chain([steady.n.to_string()]));
        }
        text += &table.text();
        let mut table = Table::new(&[
            "first request",
            ">cold ms",
            ">hit/built/record/wait",
            ">from records",
            ">hit/built/record/wait",
        ]);
        let lookups = |of: Lookups| format!("{}/{}/{}/{}", of.hits, of.misses, of.record_hits, of.waits);
        for steady in &self.steady {
            let shape = workload::shape_text(&steady.shape);
            let known = steady.records_lookups.map_or("-".to_owned(), lookups);
            table.row([shape, ms(steady.cold_ms), lookups(steady.cold_lookups), maybe(steady.records_ms), known]);
        }
        text += &table.text();
        let _ = writeln!(text, "a known shape after another one, over the same shape twice: {}", ratio(self.switch()));
        let CacheCounters {
            lookups,
            hits,
            misses,
            record_hits,
            waits,
            builds,
            build_ms,
            evictions,
            entries,
            bytes: size,
        } = self.cache;
        let _ = writeln!(
            text,
            "cache: {lookups} look-ups, {hits} hits, {misses} misses, {record_hits} record hits, {waits} waits; {builds} \
             builds in {} ms, {} of them for a shape seen before; {entries} entries, {}, {evictions} evictions",
            ms(build_ms),
            self.repeat_builds,
            bytes(size)
        );
        let CacheCounters { lookups, hits, entries, bytes: size, evictions, .. } = self.plans;
        let _ = writeln!(
            text,
            "plans: {lookups} look-ups, {hits} hits; {entries} entries, {}, {evictions} evictions",
            bytes(size)
        );
        let RecordCounters { records, loaded, lookups, hits, rejected, warmed, .. } = self.records;
        let _ = writeln!(
            text,
            "records: {loaded} loaded, {rejected} rejected, {warmed} executors rebuilt at load; {lookups} look-ups, {hits} \
             hits; {records} known now"
        );
        if let Some(device) = &self.device {
            let _ = writeln!(
                text,
                "{}: {} copies there, {} back, {} of its memory taken, {} in use at most",
                device.name,
                device.copies_to_device,
                device.copies_to_host,
                bytes(device.taken),
                bytes(device.most_lent)
            );
        }
        if let Some(tuning) = &self.tuning {
            let _ = writeln!(text, "{}", tuning.text());
        }
        let Memory { base, loaded, traced } = self.rss_mb;
        let _ = writeln!(
            text,
            "memory: {base:.0} MB at start, {loaded:.0} loaded, {traced:.0} after both passes, {:.0} at most",
            self.peak_mb
        );
        text
    }
}

/// The costs of new and repeated shapes. The very first request also pays one-time costs, so it counts as neither.
#[derive(Debug, PartialEq)]
struct Extra {
    new_ms: Option<f64>,
    new_again_ms: Option<f64>,
    new_extra_ms: Option<f64>,
    new_ratio: Option<f64>,
    repeat_ms: Option<f64>,
    repeat_ratio: Option<f64>,
}

impl Extra {
    fn of(passes: &Passes) -> Extra {
        let of = |new: bool, figure: fn(f64, f64) -> f64| {
            let pairs = passes.first.iter().zip(&passes.second).zip(&passes.new).skip(1);
            median(pairs.filter(|&(_, &is_new)| is_new == new).map(|((&first, &second), _)| figure(first, second)))
        };
        Extra {
            new_ms: of(true, |first, _| first),
            new_again_ms: of(true, |_, second| second),
            new_extra_ms: of(true, |first, second| first - second),
            new_ratio: of(true, |first, second| first / second),
            repeat_ms: of(false, |first, _| first),
            repeat_ratio: of(false, |first, second| first / second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_shapes_are_compared_request_by_request_without_the_first() {
        let passes = Passes {
            first: vec![100.0, 4.0, 6.0, 3.0, 9.0],
            second: vec![1.0, 2.0, 2.0, 2.0, 3.0],
            new: vec![true, true, true, false, true],
            ..Passes::default()
        };
        let expected = Extra {
            new_ms: Some(6.0),
            new_again_ms: Some(2.0),
            new_extra_ms: Some(4.0),
            new_ratio: Some(3.0),
            repeat_ms: Some(3.0),
            repeat_ratio: Some(1.5),
        };
        assert_eq!(Extra::of(&passes), expected);
    }

    #[test]
    fn a_single_request_has_no_new_shape_to_speak_of() {
        let passes = Passes { first: vec![1.0], second: vec![1.0], new: vec![true], ..Passes::default() };
        assert_eq!(Extra::of(&passes).new_ms, None);
    }
}
