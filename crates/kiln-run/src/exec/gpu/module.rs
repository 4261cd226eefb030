//! Compiled kernels of Kiln's own: compiled once a process, and ahead of the first request where a record says that
//! they will be needed.
//!
//! There is nothing to choose, so a record holds nothing but its key: the parameters of the kernel's text, and the
//! scope of its compiler. Code is never recorded.

use std::sync::Arc;
use std::time::Instant;

use kiln_cache::{Built, Outcome};
use kiln_kernels::gpu::source::KernelCode;
use kiln_kernels::gpu::{Module, Scope};
use kiln_key::Key;
use serde::{Deserialize, Serialize};

use crate::exec::refusal::{Refusal, read};
use crate::exec::{BuildCx, BuildError, FamilyEntry};
use crate::record::{Evidence, Record, Recorded};

/// A kernel in records.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NvrtcKey {
    /// What determines the kernel's text.
    pub code: KernelCode,
    /// What its compiled code depends on besides: [`GpuCx::scope`](super::GpuCx::scope).
    pub scope: u64,
}

/// A kernel that is loaded into one device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModuleKey {
    /// What determines its code.
    pub kernel: NvrtcKey,
    /// The device's number.
    pub ordinal: u32,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The loaded module.
    pub module: Arc<dyn Module>,
}

impl Key for NvrtcKey {
    type Value = ();
    const FAMILY: &'static str = "nvrtc-kernel";
}

impl Recorded for NvrtcKey {
    const REVISION: u32 = 1;
    type Choice = ();
}

impl Key for ModuleKey {
    type Value = Compiled;
    const FAMILY: &'static str = NvrtcKey::FAMILY;
}

impl Compiled {
    /// Bytes that it keeps.
    #[must_use]
    pub fn weigh(&self) -> usize {
        size_of::<Compiled>() + self.module.size()
    }
}

impl BuildCx {
    /// The compiled kernel of that code on the device of this context.
    ///
    /// # Errors
    ///
    /// [`BuildError`] where there is no device, the code does not compile, or the kernel is not recorded and only
    /// recorded ones are allowed.
    pub fn module(&self, code: &KernelCode) -> Result<(Arc<Compiled>, Outcome), BuildError> {
        let gpu = self.gpu()?;
        let kernel = NvrtcKey { code: code.clone(), scope: gpu.scope(Scope::Nvrtc) };
        let key = ModuleKey { kernel, ordinal: gpu.device.facts().ordinal };
        self.get_or_build(&key, self, build)
    }
}

fn build(key: &ModuleKey, cx: &BuildCx) -> Result<Built<Compiled>, BuildError> {
    let known = cx.records.lookup(&key.kernel).is_some();
    if !known && !cx.records.may_choose() {
        return Err(BuildError::NotRecorded { family: NvrtcKey::FAMILY });
    }
    let value = Compiled { module: cx.gpu()?.device.compile(&key.kernel.code.source()?)? };
    if !known {
        cx.records.insert(&key.kernel, &(), Evidence::model());
    }
    Ok(Built { bytes: value.weigh(), value, from_record: known })
}

/// The entry in the table of all families.
pub(in crate::exec) const ENTRY: FamilyEntry = FamilyEntry { name: NvrtcKey::FAMILY, describe, verify };

/// Compiles recorded kernels for this device by this compiler, as long as there is time; returns how many.
pub(in crate::exec) fn prepare(cx: &BuildCx, until: Instant) -> usize {
    let Some(gpu) = &cx.gpu else { return 0 };
    let scope = gpu.scope(Scope::Nvrtc);
    let kernels = cx.records.keys::<NvrtcKey>().into_iter().take_while(|_| Instant::now() < until);
    // A kernel that no longer compiles costs nothing now: the node that needs it reports why.
    kernels.filter(|kernel| kernel.scope == scope && cx.module(&kernel.code).is_ok()).count()
}

fn verify(record: &Record, _: &BuildCx) -> Result<(), Refusal> {
    let (NvrtcKey { code, .. }, ()) = read(record)?;
    code.source().map(|_| ()).map_err(|_| Refusal::Sizes)
}

fn describe(record: &Record) -> Option<(String, String)> {
    let (NvrtcKey { code, scope }, ()) = read(record).ok()?;
    Some((format!("{code:?} for {scope:016x}"), "compiled as it is".to_owned()))
}
