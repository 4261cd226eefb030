//! What a kernel family is to the cache: a key that says how to choose, validate and build its executor.

use kiln_kernels::{Parallel, Result as KernelResult};

use super::context::{BuildCx, BuildError};
use super::tune::{Demand, Operands};
use crate::cache::Built;
use crate::record::{Evidence, Record, Recorded, decode};

/// A key of an executor. The key's fields define the executor completely; the record keeps only the [`Recorded::Choice`].
pub trait Family: Recorded {
    /// The cost model's pick: cheap, measures nothing, waits for nothing.
    fn choose(&self, cx: &BuildCx) -> Self::Choice;

    /// Whether a choice from a record (an untrusted file) is one that [`Family::build`] can take for this key.
    fn accepts(&self, choice: &Self::Choice, cx: &BuildCx) -> bool;

    /// Builds the executor of this key with that choice. Code comes from the context, which keeps it apart from executors.
    fn build(&self, choice: &Self::Choice, cx: &BuildCx) -> KernelResult<Self::Value>;

    /// Whether the key is of this level and thread count: others in a shared record file are left for their own process.
    fn fits(&self, cx: &BuildCx) -> bool;

    /// Whether keys of this family are worth tuning; the methods below are for those.
    const TUNED: bool = false;

    /// Choices that are worth a measurement, at most so many, the cost model's among them.
    fn candidates(&self, cx: &BuildCx, most: usize) -> Vec<Self::Choice> {
        let _ = (cx, most);
        Vec::new()
    }

    /// What one run of the executor for a measurement needs.
    fn demand(&self, value: &Self::Value) -> Demand {
        let _ = value;
        Demand::default()
    }

    /// Runs the executor once on made-up operands as large as [`Family::demand`] says.
    fn trial(&self, value: &Self::Value, operands: Operands<'_>, parallel: &dyn Parallel) -> KernelResult<()> {
        let _ = (value, operands, parallel);
        Ok(())
    }

    /// Bytes that the executor holds on its own (code, which is shared, is charged to itself).
    fn weigh(value: &Self::Value) -> usize {
        std::mem::size_of_val(value)
    }
}

/// The one builder of all families: a record if there is a valid one, else the cost model; then build, then record.
pub(super) fn build_executor<K: Family>(key: &K, cx: &BuildCx) -> Result<Built<K::Value>, BuildError> {
    let (known, asked) = cx.records.ask(key);
    if let Some(choice) = known {
        if key.accepts(&choice, cx) {
            let value = key.build(&choice, cx)?;
            return Ok(Built { bytes: K::ENTRY_BYTES + K::weigh(&value), value, from_record: true });
        }
        cx.records.reject(key);
    }
    if cx.records.is_complete() {
        return Err(BuildError::NotRecorded { family: K::FAMILY });
    }
    let choice = key.choose(cx);
    let value = key.build(&choice, cx)?;
    cx.records.keep::<K>(asked, &choice, Evidence::model());
    Ok(Built { bytes: K::ENTRY_BYTES + K::weigh(&value), value, from_record: false })
}

/// Bytes that a task should move through memory at least: some 5 us, where handing a task to a thread that waits awake, as
/// threads do within a request, takes 0.2.
const TASK_BYTES: u64 = 1 << 16;

/// Tasks for work that costs as much as moving so many bytes.
pub(crate) fn tasks_for_bytes(bytes: u64, threads: u32) -> u32 {
    (bytes / TASK_BYTES).clamp(1, u64::from(threads.max(1))) as u32
}

/// Tasks for work that costs as much as moving that many `f32`.
pub(super) fn tasks_for(elements: u64, threads: u32) -> u32 {
    tasks_for_bytes(elements.saturating_mul(4), threads)
}

/// A family in the table of all families.
pub struct FamilyEntry {
    /// Its name in records and verbose lines.
    pub name: &'static str,
    /// Rebuilds every executor that the records know and that fits; returns how many.
    pub warm: fn(&BuildCx) -> usize,
    /// A record's key and choice in words; `None` where this build cannot read it.
    pub describe: fn(&Record) -> Option<(String, String)>,
}

impl FamilyEntry {
    /// The entry of a key type.
    #[must_use]
    pub const fn of<K: Family>() -> FamilyEntry {
        FamilyEntry { name: K::FAMILY, warm: warm::<K>, describe: describe::<K> }
    }
}

fn warm<K: Family>(cx: &BuildCx) -> usize {
    let keys = cx.records.keys::<K>();
    // A key that no longer builds costs nothing now: the node that needs it reports why.
    keys.iter().filter(|key| key.fits(cx)).filter(|key| cx.executor(*key).is_ok()).count()
}

fn describe<K: Family>(record: &Record) -> Option<(String, String)> {
    if record.revision != K::REVISION {
        return None;
    }
    let key: K = decode(&record.key).ok()?;
    let choice: K::Choice = decode(&record.choice).ok()?;
    Some((format!("{key:?}"), format!("{choice:?}")))
}
