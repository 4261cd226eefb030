//! A graph executor that is not Kiln's and uses its cache and its records alone: own node, own key, own builder.
//!
//! The node smooths a signal over a window. What determines an executor is the key; what the builder decides (here how
//! many sums a block keeps) is the choice, which a second process takes from the record instead of deciding again.

use std::sync::Arc;

use kiln::cache::{Built, Cache, Key, Limits, Outcome};
use kiln::record::{CacheMode, Evidence, Fingerprint, Recorded, Store};

kiln::key! {
    /// Everything that determines an executor.
    pub struct SmoothKey { pub length: u32, pub window: u32 }
}

/// What is cached: everything that can be prepared before the data are there.
pub struct Smooth {
    window: usize,
    block: usize,
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
    let known = records.lookup(key).filter(|block| (1..=key.length).contains(block));
    let block = known.unwrap_or(key.length.div_ceil(4));
    records.insert(key, &block, Evidence::model());
    let value = Smooth { window: key.window as usize, block: block as usize };
    Ok(Built { bytes: size_of_val(&value), value, from_record: known.is_some() })
}

/// A node of the foreign graph: it asks the cache when its shape has changed, and not otherwise.
pub struct Node {
    window: u32,
    prepared: Option<(usize, Arc<Smooth>)>,
}

impl Node {
    pub fn new(window: u32) -> Node {
        Node { window, prepared: None }
    }

    /// The smoothed signal, and how its executor was come by if the cache was asked.
    pub fn run(
        &mut self,
        input: &[f32],
        cache: &Cache,
        records: &Store,
    ) -> Result<(Vec<f32>, Option<Outcome>), String> {
        let known = self.prepared.take().filter(|(length, _)| *length == input.len());
        let (executor, outcome) = match known {
            Some((_, executor)) => (executor, None),
            None => {
                let key = SmoothKey { length: input.len() as u32, window: self.window };
                let (executor, outcome) =
                    cache.get_or_create(&key, records, build).map_err(|error| error.to_string())?;
                (executor, Some(outcome))
            }
        };
        let (window, mut output) = (executor.window, Vec::new());
        for block in input.windows(window).collect::<Vec<_>>().chunks(executor.block) {
            output.extend(block.iter().map(|samples| samples.iter().sum::<f32>() / window as f32));
        }
        self.prepared = Some((input.len(), executor));
        Ok((output, outcome))
    }
}

/// Runs a trace of lengths through one node, as one process would: what the cache answered for each.
pub fn process(folder: &std::path::Path, lengths: &[usize]) -> Result<Vec<Option<Outcome>>, String> {
    let cache = Cache::new(Limits { entries: 1024, bytes: 1 << 20 });
    let records = Store::open(folder, &Fingerprint::from_facts([("executor", "foreign 1.0")]), CacheMode::ReadWrite);
    let mut node = Node::new(3);
    let outcomes = lengths.iter().map(|length| Ok(node.run(&vec![1.0; *length], &cache, &records)?.1)).collect();
    records.save().map_err(|error| error.to_string())?;
    outcomes
}

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    for name in ["first process", "second process"] {
        println!("{name}: {:?}", process(folder.path(), &[8, 8, 5, 8])?);
    }
    Ok(())
}
