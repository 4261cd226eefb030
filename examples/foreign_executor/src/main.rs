//! A graph executor that is not Kiln's and uses only its cache and records: own key, own builder, own node.
//! `cargo run -p foreign-executor`
//!
//! The node smooths a signal over a window. The key is everything that determines an executor. The choice is the
//! builder's decision (here the number of parts of the work), which the next process takes from the record instead of
//! deciding again.

#![allow(missing_docs, clippy::print_stdout, reason = "an example")]

use kiln_cache::{Built, Cache, Limits, Memo, Outcome};
use kiln_key::Key;
use kiln_records::{CacheMode, Evidence, Fingerprint, Recorded, Store};
use serde::{Deserialize, Serialize};

/// Everything that determines an executor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "smooth", value = Smooth, laws = kiln_records::laws::check)]
pub struct SmoothKey {
    pub length: u32,
    pub window: u32,
}

/// The cached value: everything that can be prepared without the data.
pub struct Smooth {
    window: usize,
    parts: usize,
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

/// A node of the foreign graph: it asks the cache only when its shape is not one of its last ones.
pub struct Node {
    pub window: u32,
    pub memo: Memo<SmoothKey>,
}

impl Node {
    pub fn run(
        &mut self,
        input: &[f32],
        cache: &Cache,
        records: &Store,
    ) -> Result<(Vec<f32>, Option<Outcome>), String> {
        let key = SmoothKey { length: input.len() as u32, window: self.window };
        let prepared = self.memo.get_or_create(cache, &key, records, build);
        let (smooth, outcome) = prepared.map_err(|error| error.to_string())?;
        let windows: Vec<&[f32]> = input.windows(smooth.window).collect();
        let mean = |samples: &&[f32]| samples.iter().sum::<f32>() / smooth.window as f32;
        let parts = windows.chunks(windows.len().div_ceil(smooth.parts));
        Ok((parts.flat_map(|part| part.iter().map(mean)).collect(), outcome))
    }
}

/// Runs a trace of lengths through one node, as one process would; returns the cache's outcome for each.
pub fn process(folder: &std::path::Path, lengths: &[usize]) -> Result<Vec<Option<Outcome>>, String> {
    let cache = Cache::new(Limits { entries: 1024, bytes: 1 << 20 });
    let records = Store::open(folder, &Fingerprint::from_facts([("executor", "foreign 1.0")]), CacheMode::ReadWrite);
    let mut node = Node { window: 3, memo: Memo::default() };
    let outcomes = lengths
        .iter()
        .map(|length| Ok(node.run(&vec![1.0; *length], &cache, &records)?.1))
        .collect::<Result<_, String>>();
    records.save().map_err(|error| error.to_string())?;
    outcomes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("foreign-executor-{}", std::process::id()));
    for name in ["first process", "second process"] {
        println!("{name}: {:?}", process(&folder, &[8, 8, 5, 8])?);
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
