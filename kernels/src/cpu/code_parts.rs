//! The machine code of one key, in parts that are emitted when an executor first needs them, and the trait that drivers
//! get it from.
//!
//! Most kernels have one part. A micro-kernel has one for each number of rows: a product uses one or two parts, and
//! emitting the others would take longer than everything else that a new shape costs. A driver requests all parts that
//! it will call while it is built, so that no call finds a part missing.
//!
//! A cached value is immutable: when a part is added, a new one that shares the parts of the old one takes its place in
//! the cache.

use std::sync::Arc;

use super::CodeKey;
use crate::error::{KernelError, Result};
use crate::jit::{Arguments, Code, Given};

/// The most parts that a key's code has.
pub const MOST_PARTS: usize = 8;

/// A set of part numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSet(u8);

impl PartSet {
    /// This set and `part`, which is below [`MOST_PARTS`].
    #[must_use]
    pub const fn and(self, part: usize) -> PartSet {
        PartSet(self.0 | 1 << (part % MOST_PARTS))
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers, rising.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MOST_PARTS).filter(move |part| self.0 >> part & 1 != 0)
    }
}

/// The parts of a key's code that have been emitted.
#[derive(Clone, Debug, Default)]
pub struct CodeParts {
    parts: [Option<Arc<Code>>; MOST_PARTS],
}

impl CodeParts {
    /// Emits the wanted parts of a key's code.
    ///
    /// # Errors
    ///
    /// Where a part cannot be emitted or sealed.
    pub fn emit(key: &CodeKey, wanted: PartSet) -> Result<CodeParts> {
        CodeParts::default().with(key, wanted)
    }

    /// These parts and the wanted ones of `key`, which is their key; only missing parts are emitted.
    ///
    /// # Errors
    ///
    /// As for [`CodeParts::emit`].
    pub fn with(&self, key: &CodeKey, wanted: PartSet) -> Result<CodeParts> {
        let mut all = self.clone();
        for part in wanted.iter() {
            if all.parts[part].is_none() {
                all.parts[part] = Some(Arc::new(key.emit(part)?));
            }
        }
        Ok(all)
    }

    /// The union with other parts of the same key.
    #[must_use]
    pub fn joined(&self, other: &CodeParts) -> CodeParts {
        let mut all = self.clone();
        for (mine, theirs) in all.parts.iter_mut().zip(&other.parts) {
            *mine = mine.take().or_else(|| theirs.clone());
        }
        all
    }

    /// Whether all of these parts have been emitted.
    #[must_use]
    pub fn has(&self, wanted: PartSet) -> bool {
        wanted.iter().all(|part| self.parts[part].is_some())
    }

    /// The emitted parts, by number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Code>)> {
        self.parts.iter().enumerate().filter_map(|(number, part)| Some((number, part.as_ref()?)))
    }

    /// Each part, by number; `None` for those that were not emitted.
    pub(crate) fn into_parts(self) -> [Option<Arc<Code>>; MOST_PARTS] {
        self.parts
    }

    /// The machine code of all parts, in order of their numbers.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|(_, code)| code.bytes()).copied().collect()
    }

    /// Bytes of executable memory, which a cache charges.
    #[must_use]
    pub fn size(&self) -> usize {
        self.iter().map(|(_, code)| code.size()).sum()
    }
}

/// Where a driver gets its code: a cache in production, [`EmitEach`] in tests.
pub trait CodeSource {
    /// The code of `key` with at least the wanted parts, emitted now or before.
    fn parts(&self, key: &CodeKey, wanted: PartSet) -> Result<Arc<CodeParts>>;

    /// Whether kernels that get their code here add the terms of a row in one order, however many rows, images and
    /// threads there are ([`Numerics::Invariant`](super::Numerics)).
    fn in_order(&self) -> bool {
        false
    }

    /// One part of a key's code.
    fn part(&self, key: &CodeKey, part: usize) -> Result<Arc<Code>> {
        let emitted = self.parts(key, PartSet::default().and(part))?;
        let code = emitted.parts.get(part).and_then(Option::clone);
        code.ok_or_else(|| KernelError::Assembly { family: key.family(), reason: format!("part {part} is missing") })
    }

    /// The code of a key that has one part.
    fn code(&self, key: &CodeKey) -> Result<Arc<Code>> {
        self.part(key, 0)
    }
}

/// Another source with its own answer to [`CodeSource::in_order`].
#[derive(Clone, Copy)]
pub struct Ordered<'a> {
    /// Where code comes from.
    pub source: &'a dyn CodeSource,
    /// [`CodeSource::in_order`]
    pub in_order: bool,
}

impl CodeSource for Ordered<'_> {
    fn parts(&self, key: &CodeKey, wanted: PartSet) -> Result<Arc<CodeParts>> {
        self.source.parts(key, wanted)
    }

    fn in_order(&self) -> bool {
        self.in_order
    }
}

/// A [`CodeSource`] that emits anew at each request.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmitEach;

impl CodeSource for EmitEach {
    fn parts(&self, key: &CodeKey, wanted: PartSet) -> Result<Arc<CodeParts>> {
        CodeParts::emit(key, wanted).map(Arc::new)
    }
}

/// A kernel of one part with its code: `K` is what shapes its instructions.
#[derive(Clone, Debug)]
pub(crate) struct Emitted<K> {
    key: K,
    code: Arc<Code>,
}

impl<K: Copy> Emitted<K> {
    /// The kernel of `key`, which `of` names among all keys.
    pub(crate) fn new(key: K, of: fn(K) -> CodeKey, source: &dyn CodeSource) -> Result<Emitted<K>> {
        Ok(Emitted { key, code: source.code(&of(key))? })
    }

    /// What shapes its instructions.
    pub(crate) fn key(&self) -> K {
        self.key
    }

    /// Calls it.
    ///
    /// # Safety
    ///
    /// `args` is the struct that the emitter of `K` reads, and `given` holds all that it says the kernel touches. No
    /// other task touches what the kernel writes.
    pub(crate) unsafe fn call<A: Arguments<Kernel = K>>(&self, args: &A, given: &Given) {
        // SAFETY: the caller's contract.
        unsafe { self.code.call(args, &self.key, given) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::gemm::TileCode;
    use crate::cpu::gemm::tile::{LeftRows, RightColumns};
    use crate::isa::Isa;

    #[test]
    fn added_parts_share_those_that_were_there() {
        let (left, right) = (LeftRows::Strided, RightColumns::Packed);
        let key = CodeKey::Tile(TileCode::sums(Isa::Avx2, 2, left, right));
        let [few, more] = [PartSet::default().and(1), PartSet::default().and(1).and(3)];
        let small = CodeParts::emit(&key, few).unwrap();
        let large = small.with(&key, more).unwrap();
        assert!(small.has(few) && !small.has(more) && large.has(more));
        let parts = |all: &CodeParts| all.iter().map(|(part, code)| (part, Arc::clone(code))).collect::<Vec<_>>();
        let (of_small, of_large) = (parts(&small), parts(&large));
        let [(1, before)] = &of_small[..] else { panic!("{small:?}") };
        let [(1, kept), (3, added)] = &of_large[..] else { panic!("{large:?}") };
        assert!(Arc::ptr_eq(before, kept), "a part was emitted twice");
        assert_eq!(large.size(), small.size() + added.size());
        assert_eq!(large.bytes(), [kept.bytes(), added.bytes()].concat());
        let last = CodeParts::emit(&key, PartSet::default().and(3)).unwrap();
        assert_eq!(small.joined(&last).bytes(), large.bytes());
        assert!(CodeParts::emit(&key, PartSet::default().and(7)).is_err(), "a tile of eight rows and two vectors");
    }
}
