//! The buffer of a kernel: bytes, labels and the references between them.
//!
//! dynasm appends most of its instructions byte by byte, through its traits. The most frequent instructions are
//! composed as one word ([`vex`](crate::jit::vex)) and appended at once. Checking the capacity for each byte would take
//! a tenth of the time, so the vector is initialised beyond the end of the code, and a word is written whole although
//! only its first bytes count.
//!
//! Handles bytes and labels; depends on no instruction.

use dynasmrt::components::LabelRegistry;
use dynasmrt::relocations::Relocation;
use dynasmrt::x64::X64Relocation;
use dynasmrt::{AssemblyOffset, DynamicLabel, DynasmApi, DynasmError, DynasmLabelApi};

/// Bytes of the longest word.
const WORD: usize = 16;

/// A displacement of four bytes to a label.
struct Reference {
    label: DynamicLabel,
    /// Its offset.
    field: usize,
    /// The offset that it is relative to.
    origin: usize,
}

/// Code that is being written.
pub(super) struct Buffer {
    /// Code up to `end`; after it, at least one word of arbitrary bytes.
    bytes: Vec<u8>,
    end: usize,
    labels: LabelRegistry,
    references: Vec<Reference>,
    /// The first error.
    error: Option<&'static str>,
}

impl Buffer {
    /// A buffer for `bytes` bytes, and for `labels` labels and references; it grows.
    pub(super) fn new(bytes: usize, labels: usize) -> Buffer {
        Buffer {
            bytes: vec![0; bytes + WORD],
            end: 0,
            labels: LabelRegistry::with_capacity(0, 0, labels),
            references: Vec::with_capacity(labels),
            error: None,
        }
    }

    /// Bytes of code so far.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end
    }

    /// Appends the first `count` bytes of the word, at most eight.
    #[inline(always)]
    pub(super) fn append(&mut self, word: u64, count: usize) {
        self.append_long(u128::from(word), count);
    }

    /// Appends the first `count` bytes of the word.
    #[inline(always)]
    pub(super) fn append_long(&mut self, word: u128, count: usize) {
        if let Some(place) = self.bytes.get_mut(self.end..).and_then(|rest| rest.first_chunk_mut()) {
            *place = word.to_le_bytes();
        }
        self.end += count;
        // After the write, for the next one: then no register has to be saved over this call.
        if self.bytes.len().wrapping_sub(self.end) < WORD {
            self.grow();
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.bytes.resize(self.bytes.len() * 4 + WORD, 0);
    }

    /// Replaces a byte that was written before.
    pub(super) fn replace(&mut self, at: usize, with: impl FnOnce(u8) -> u8) {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte = with(*byte);
        }
    }

    /// A label that is not bound yet.
    pub(super) fn label(&mut self) -> DynamicLabel {
        self.labels.new_dynamic_label()
    }

    /// Adds a reference: the four bytes that end `back` bytes before the end are the distance from the end to the
    /// label.
    #[inline]
    pub(super) fn refer(&mut self, label: DynamicLabel, back: usize) {
        self.references.push(Reference { label, field: self.end - back - 4, origin: self.end });
    }

    /// The code, with every reference resolved.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, String> {
        if let Some(error) = self.error {
            return Err(error.to_owned());
        }
        for Reference { label, field, origin } in self.references {
            let target = self.labels.resolve_dynamic(label).map_err(|error: DynasmError| error.to_string())?;
            let distance = target.0 as i64 - origin as i64;
            let distance = i32::try_from(distance).map_err(|_| "a kernel of more than two gigabytes".to_owned())?;
            if let Some(place) = self.bytes.get_mut(field..field + 4) {
                place.copy_from_slice(&distance.to_le_bytes());
            }
        }
        self.bytes.truncate(self.end);
        Ok(self.bytes)
    }

    #[cold]
    fn fail(&mut self, error: &'static str) {
        self.error.get_or_insert(error);
    }
}

impl Extend<u8> for Buffer {
    #[inline]
    fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
        bytes.into_iter().for_each(|byte| self.push(byte));
    }
}

impl<'a> Extend<&'a u8> for Buffer {
    #[inline]
    fn extend<T: IntoIterator<Item = &'a u8>>(&mut self, bytes: T) {
        bytes.into_iter().for_each(|byte| self.push(*byte));
    }
}

impl DynasmApi for Buffer {
    #[inline]
    fn offset(&self) -> AssemblyOffset {
        AssemblyOffset(self.end)
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.append(u64::from(byte), 1);
    }

    fn align(&mut self, alignment: usize, with: u8) {
        while !self.end.is_multiple_of(alignment) {
            self.push(with);
        }
    }

    #[inline]
    fn push_i32(&mut self, value: i32) {
        self.append(u64::from(value as u32), 4);
    }

    #[inline]
    fn push_u16(&mut self, value: u16) {
        self.append(u64::from(value), 2);
    }

    #[inline]
    fn push_u32(&mut self, value: u32) {
        self.append(u64::from(value), 4);
    }

    #[inline]
    fn push_i64(&mut self, value: i64) {
        self.append(value as u64, 8);
    }
}

/// Kernels use only dynasm's dynamic labels, and only relative references of four bytes.
impl DynasmLabelApi for Buffer {
    type Relocation = X64Relocation;

    fn local_label(&mut self, _: &'static str) {
        self.fail("a local label");
    }

    fn global_label(&mut self, _: &'static str) {
        self.fail("a global label");
    }

    fn dynamic_label(&mut self, label: DynamicLabel) {
        if self.labels.define_dynamic(label, AssemblyOffset(self.end)).is_err() {
            self.fail("a label that stands in two places");
        }
    }

    fn forward_relocation(&mut self, _: &'static str, _: isize, _: u8, _: u8, _: X64Relocation) {
        self.fail("a reference to a local label");
    }

    fn backward_relocation(&mut self, _: &'static str, _: isize, _: u8, _: u8, _: X64Relocation) {
        self.fail("a reference to a local label");
    }

    fn global_relocation(&mut self, _: &'static str, _: isize, _: u8, _: u8, _: X64Relocation) {
        self.fail("a reference to a global label");
    }

    fn dynamic_relocation(&mut self, label: DynamicLabel, offset: isize, field: u8, origin: u8, kind: X64Relocation) {
        if offset != 0 || kind.size() != 4 {
            return self.fail("a reference of another kind than four relative bytes");
        }
        let (field, origin) = (self.end - usize::from(field), self.end - usize::from(origin));
        self.references.push(Reference { label, field, origin });
    }

    fn value_relocation(&mut self, _: usize, _: u8, _: u8, _: X64Relocation) {
        self.fail("a reference to an address");
    }
}
