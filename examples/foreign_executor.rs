//! A graph executor that is not Kiln's and uses its cache and its records alone: own key, own builder, own node.
//!
//! The node smooths a signal over a window. What determines an executor is the key; what the builder decides (here into
//! how many parts the work is cut) is the choice, which the next process takes from the record instead of deciding again.

#![allow(missing_docs, clippy::print_stdout, reason = "an example")]

use std::sync::Arc;

use kiln::cache::{Built, Cache, Key, Limits, Outcome};
use kiln::record::{CacheMode, Evidence, Fingerprint, Recorded, Store};

kiln::key! {
    /// Everything that determines an executor.
    pub struct SmoothKey { pub length: u32, pub window: u32 }
}

/// What is cached: all that can be prepared before the data are there.
pub struct Smooth {
    window: usize,
    parts: usize,
}

impl Key for SmoothKey {
    type Value = Smooth;
    const FAMILY: &'static str = "smooth";
}

impl Recorded for SmoothKey {
    const REVISION: u32 = 1;
    type Choice = u32;
}

fn build(key: &SmoothKey, records: &Store) -> Result<Built<Smooth>, String> {
    if key.window == 0 || key.window > key.length {
        return Err(format!("a window of {} does not fit {} samples", key.window, key.length));
    }
    let known = records.lookup(key).filter(|parts| (1..=64).contains(parts));
    let parts = known.unwrap_or_else(|| key.length.div_ceil(4096).min(64));
    records.insert(key, &parts, Evidence::model());
    let value = Smooth { window: key.window as usize, parts: parts as usize };
    Ok(Built { bytes: size_of_val(&value), value, from_record: known.is_some() })
}

/// A node of the foreign graph: it asks the cache when its shape has changed, and not otherwise.
pub struct Node {
    pub window: u32,
    pub prepared: Option<(usize, Arc<Smooth>)>,
}

impl Node {
    pub fn prepare(&mut self, length: usize, cache: &Cache, records: &Store) -> Result<Option<Outcome>, String> {
        if self.prepared.as_ref().is_some_and(|(known, _)| *known == length) {
            return Ok(None);
        }
        let key = SmoothKey { length: length as u32, window: self.window };
        let (executor, outcome) = cache.get_or_create(&key, records, build).map_err(|error| error.to_string())?;
        self.prepared = Some((length, executor));
        Ok(Some(outcome))
    }

    pub fn execute(&self, input: &[f32]) -> Option<Vec<f32>> {
        let (_, Smooth { window, parts }) = self.prepared.as_ref().map(|(length, smooth)| (length, &**smooth))?;
        let windows: Vec<&[f32]> = input.windows(*window).collect();
        let mean = |samples: &&[f32]| samples.iter().sum::<f32>() / *window as f32;
        Some(windows.chunks(windows.len().div_ceil(*parts)).flat_map(|part| part.iter().map(mean)).collect())
    }
}

/// Runs a trace of lengths through one node, as one process would: what the cache answered for each.
pub fn process(folder: &std::path::Path, lengths: &[usize]) -> Result<Vec<Option<Outcome>>, String> {
    let cache = Cache::new(Limits { entries: 1024, bytes: 1 << 20 });
    let records = Store::open(folder, &Fingerprint::from_facts([("executor", "foreign 1.0")]), CacheMode::ReadWrite);
    let mut node = Node { window: 3, prepared: None };
    let outcomes = lengths.iter().map(|length| node.prepare(*length, &cache, &records)).collect();
    records.save().map_err(|error| error.to_string())?;
    outcomes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    for name in ["first process", "second process"] {
        println!("{name}: {:?}", process(folder.path(), &[8, 8, 5, 8])?);
    }
    Ok(())
}
