//! What a kernel family is to the cache: a key that says how to choose, validate and build its executor.

use std::sync::Arc;

use kiln_cache::{Built, Outcome};
use kiln_kernels::cpu::machine::Speeds;
use kiln_kernels::crash::within;
use kiln_kernels::{Isa, Parallel, Result as KernelResult};
use kiln_tensor::installed_bytes;

use super::context::{BuildCx, BuildError};
use super::refusal::{MOST_AHEAD, Refusal, read};
use super::tune::{Demand, Operands};
use crate::record::{Evidence, Record, Recorded};

/// A key of an executor. The key's fields define the executor completely; the record keeps only the
/// [`Recorded::Choice`].
pub trait Family: Recorded {
    /// The cost model's pick: cheap, measures nothing, waits for nothing.
    fn choose(&self, cx: &BuildCx) -> Self::Choice;

    /// Whether a choice from a record (an untrusted file) is one that [`Family::build`] can take for this key.
    fn accepts(&self, choice: &Self::Choice, cx: &BuildCx) -> bool;

    /// Builds the executor of this key with that choice. Code comes from the context, which keeps it apart from
    /// executors.
    fn build(&self, choice: &Self::Choice, cx: &BuildCx) -> KernelResult<Self::Value>;

    /// Whether the key is of this context's target: other keys in a shared record file are left to their own processes.
    fn fits(&self, cx: &BuildCx) -> bool;

    /// Most bytes of tables that building an executor of this key makes, besides its code and its own size. It makes no
    /// table to count, and checks the sizes: the key may be from a file, and any key is safe to ask. `None` where no
    /// tensors have such sizes.
    fn table_bytes(&self) -> Option<u64>;

    /// Whether keys of this family are worth tuning; the methods below are for those.
    const TUNED: bool = false;

    /// Choices that are worth a measurement, at most `most`, with the cost model's among them.
    fn candidates(&self, cx: &BuildCx, most: usize) -> Vec<Self::Choice> {
        let _ = (cx, most);
        Vec::new()
    }

    /// The operands that a measured run of the executor needs.
    fn demand(&self, value: &Self::Value) -> Demand {
        let _ = value;
        Demand::default()
    }

    /// Runs the executor once on made-up operands as large as [`Family::demand`] says.
    fn trial(&self, value: &Self::Value, operands: Operands<'_>, parallel: &dyn Parallel) -> KernelResult<()> {
        let _ = (value, operands, parallel);
        Ok(())
    }

    /// Bytes of the executor itself, without its code, which is shared and charged on its own.
    fn weigh(value: &Self::Value) -> usize {
        std::mem::size_of_val(value)
    }
}

impl BuildCx {
    /// The executor of that key, from the cache or built by [`build_executor`].
    pub fn executor<K: Family>(&self, key: &K) -> Result<(Arc<K::Value>, Outcome), BuildError> {
        within(&format_args!("asking for {key:?}"), || self.get_or_build(key, self, build_executor::<K>))
    }
}

/// The one builder of all families: a record if there is a valid one that builds, else the cost model; then build, then
/// record.
fn build_executor<K: Family>(key: &K, cx: &BuildCx) -> Result<Built<K::Value>, BuildError> {
    let ahead = cx.records.is_ahead_of_need();
    let most = if ahead { MOST_AHEAD } else { installed_bytes() as u64 };
    match key.table_bytes() {
        Some(bytes) if bytes > most => return Err(BuildError::TooLarge { family: K::FAMILY, bytes, most }),
        // A request's impossible sizes are refused by the kernel, which says why.
        None if ahead => return Err(BuildError::Impossible { family: K::FAMILY }),
        _ => {}
    }
    let (known, asked) = cx.records.ask(key);
    let known = known.filter(|choice| {
        let accepted = key.accepts(choice, cx);
        if !accepted {
            cx.records.reject(key);
        }
        accepted
    });
    let mut failed = match known {
        None => None,
        Some(choice) => match key.build(&choice, cx) {
            Ok(value) => return Ok(Built { bytes: K::ENTRY_BYTES + K::weigh(&value), value, from_record: true }),
            Err(error) => Some((choice, error)),
        },
    };
    if !cx.records.may_choose() {
        return Err(failed.map_or(BuildError::NotRecorded { family: K::FAMILY }, |(_, error)| error.into()));
    }
    let choice = key.choose(cx);
    if let Some((_, error)) = failed.take_if(|(known, _)| *known == choice) {
        return Err(error.into());
    }
    let value = key.build(&choice, cx)?;
    if let Some((known, error)) = failed {
        // The key is valid, because it was built with another choice; so the record is at fault.
        tracing::warn!(family = K::FAMILY, choice = ?known, %error, "a record's choice does not build; choosing again");
        cx.records.reject(key);
    }
    cx.records.keep::<K>(asked, &choice, Evidence::model());
    Ok(Built { bytes: K::ENTRY_BYTES + K::weigh(&value), value, from_record: false })
}

/// Tasks for work that costs as much as moving `bytes` bytes. A task should move memory for 6.4 us at least; handing
/// one to a thread that waits awake, as threads do within a request, takes 0.2 us.
pub fn tasks_for_bytes(bytes: u64, threads: u32) -> u32 {
    let task = Speeds::of_process(Isa::detect()).moved * 32 / 5;
    (bytes / task).clamp(1, u64::from(threads.max(1))) as u32
}

/// Tasks for work that costs as much as moving that many `f32`.
pub(super) fn tasks_for(elements: u64, threads: u32) -> u32 {
    tasks_for_bytes(elements.saturating_mul(4), threads)
}

/// A family in the table of all families.
pub struct FamilyEntry {
    /// Its name in records and verbose lines.
    pub name: &'static str,
    /// A record's key and choice in words; `None` where this build cannot read it.
    pub describe: fn(&Record) -> Option<(String, String)>,
    /// Whether builders could use a record of this family.
    pub verify: fn(&Record, &BuildCx) -> Result<(), Refusal>,
}

impl FamilyEntry {
    /// The entry of a key type.
    #[must_use]
    pub const fn of<K: Family>() -> FamilyEntry {
        FamilyEntry { name: K::FAMILY, describe: describe::<K>, verify: verify::<K> }
    }
}

fn describe<K: Family>(record: &Record) -> Option<(String, String)> {
    let (key, choice) = read::<K>(record).ok()?;
    Some((format!("{key:?}"), format!("{choice:?}")))
}

/// [`FamilyEntry::verify`] of a family of the processor.
fn verify<K: Family>(record: &Record, cx: &BuildCx) -> Result<(), Refusal> {
    let (key, choice) = read::<K>(record)?;
    match key.table_bytes() {
        None => Err(Refusal::Sizes),
        Some(bytes) if bytes > MOST_AHEAD => Err(Refusal::Tables { bytes }),
        // Only a valid key can tell whether a choice fits it.
        Some(_) if !key.accepts(&choice, cx) => Err(Refusal::Unfit),
        Some(_) => Ok(()),
    }
}
