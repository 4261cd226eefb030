//! All that a builder sees besides its key: the level, the threads, the cache (for code) and the records.

use std::sync::{Arc, PoisonError};

use kiln_cache::{Builder, Built, Cache, CacheError, Outcome};
use kiln_fork::Mutex;
use kiln_kernels::cpu::{Elements, Numerics, Precision};
use kiln_kernels::memory::ceiling::check;
use kiln_kernels::{CodeKey, CodeParts, CodeSource, Isa, KernelError, PartSet};
use kiln_key::Key;

use super::gpu::GpuCx;
use super::target::Target;
use crate::record::Store;

/// Why an executor could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The kernel's parameters were refused, or its code could not be made.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no usable record for the key, and nothing may be chosen.
    #[error("no record says how to build this {family}, and choosing is not allowed")]
    NotRecorded {
        /// The family of the key.
        family: &'static str,
    },
    /// The key asks for tables that no memory holds, or that are more than a record is believed to need.
    #[error("a {family} with {bytes} bytes of tables, and {most} are the most")]
    TooLarge {
        /// The family of the key.
        family: &'static str,
        /// Bytes of its tables.
        bytes: u64,
        /// Most bytes.
        most: u64,
    },
    /// The key has sizes that no tensors have.
    #[error("a {family} of sizes that no tensors have")]
    Impossible {
        /// The family of the key.
        family: &'static str,
    },
    /// A device is asked for, and there is none in this context.
    #[error("there is no device beside the processor")]
    NoDevice,
    /// The cache could not serve the request: a builder that asks for its own key, or one that panicked.
    #[error("executor cache: {0}")]
    Cache(String),
}

/// The context of every build. One a session, or shared by several.
#[derive(Clone)]
pub struct BuildCx {
    /// The instruction-set level that code is emitted for.
    pub isa: Isa,
    /// Threads that executors split work for.
    pub threads: usize,
    /// How far rounding may go: part of the keys of kernels that have a choice.
    pub numerics: Numerics,
    /// What weights that are known at load may be rounded to: part of the keys of kernels that read them.
    pub precision: Precision,
    /// Executors and code, under one bound.
    pub cache: Arc<Cache>,
    /// Choices, kept from process to process.
    pub records: Arc<Store>,
    /// Whether a hit of code is emitted again and compared.
    pub check: bool,
    /// A device beside the processor, if there is one to be used.
    pub gpu: Option<Arc<GpuCx>>,
}

impl BuildCx {
    /// What executors are built for.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { in_order: self.numerics == Numerics::Invariant, ..Target::new(self.isa, self.threads) }
    }

    /// The element type of packed weights.
    #[must_use]
    pub fn elements(&self) -> Elements {
        match self.precision.elements(self.isa) {
            // AMX computes only products of two rows or more.
            Elements::Bf16Tiles if self.numerics == Numerics::Invariant => Elements::Bf16,
            elements => elements,
        }
    }

    /// The element type that products of two computed matrices multiply in.
    #[must_use]
    pub fn computed_elements(&self) -> Elements {
        match self.elements() {
            // Products of few rows are always products of `f32`; a row must have the same bits in larger ones.
            Elements::Bf16Dot if self.numerics == Numerics::Invariant => Elements::F32,
            elements => elements.of_computed(),
        }
    }

    /// The value of that key, from the cache or built. Where the records are taken as complete, a value that a cost
    /// model chose is not taken from the cache, where another context may have put it.
    pub(super) fn get_or_build<K: Key, C>(
        &self,
        key: &K,
        cx: &C,
        build: Builder<K, C, BuildError>,
    ) -> Result<(Arc<K::Value>, Outcome), BuildError> {
        let made = if self.records.is_complete() {
            let with = BuildWith { cx, build };
            self.cache.get_or_create(&Recalled(key.clone()), &with, recalled::<K, C>)
        } else {
            self.cache.get_or_create(key, cx, build)
        };
        let made = made.map_err(flatten)?;
        // A value that the cache could not store is used all the same.
        check(0).map_err(KernelError::from)?;
        Ok(made)
    }
}

/// The key of a value that was built from a record alone. Under the plain key, the cache may hold a value that a
/// context with the right to choose has built.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Recalled<K>(K);

impl<K: Key> Key for Recalled<K> {
    type Value = K::Value;
    const FAMILY: &'static str = K::FAMILY;
}

/// A key's own builder with its context, which [`recalled`] calls.
struct BuildWith<'a, K: Key, C> {
    cx: &'a C,
    build: Builder<K, C, BuildError>,
}

/// Builds the value of a key for its [`Recalled`].
fn recalled<K: Key, C>(key: &Recalled<K>, with: &BuildWith<'_, K, C>) -> Result<Built<K::Value>, BuildError> {
    (with.build)(&key.0, with.cx)
}

impl CodeSource for BuildCx {
    fn parts(&self, key: &CodeKey, wanted: PartSet) -> Result<Arc<CodeParts>, KernelError> {
        fn emit(key: &CodeKey, wanted: &PartSet) -> Result<Built<CodeParts>, KernelError> {
            CodeParts::emit(key, *wanted).map(charged)
        }
        let (parts, outcome) = self.cache.get_or_create(key, &wanted, emit).map_err(|error| match error {
            CacheError::Build(error) => error,
            other => KernelError::Assembly { family: key.family(), reason: other.to_string() },
        })?;
        if self.check && outcome == Outcome::Hit {
            for (part, code) in parts.iter() {
                if key.assemble(part)? != code.bytes() {
                    let reason = format!("the cached code differs from what its key {key:?} builds now");
                    return Err(KernelError::Assembly { family: key.family(), reason });
                }
            }
        }
        if parts.has(wanted) {
            return Ok(parts);
        }
        // The kit was emitted for an executor that needed other parts.
        let fuller = parts.with(key, wanted)?;
        // Two threads that add parts at the same time must not drop each other's.
        let _one_at_a_time = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        let fuller = self.cache.get(key).map_or_else(|| fuller.clone(), |stored| stored.joined(&fuller));
        self.cache.put(key, charged(fuller.clone()));
        Ok(Arc::new(fuller))
    }
}

/// Held while emitted parts are added to a kit in the cache, which takes less than a microsecond.
static ADDING: Mutex<()> = Mutex::new(());

/// Code, charged for the memory that it occupies.
fn charged(parts: CodeParts) -> Built<CodeParts> {
    Built { bytes: parts.size(), value: parts, from_record: false }
}

fn flatten(error: CacheError<BuildError>) -> BuildError {
    match error {
        CacheError::Build(error) => error,
        other => BuildError::Cache(other.to_string()),
    }
}
