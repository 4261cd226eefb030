//! Tensors: typed, shaped, shared bytes. Depends on no operator and no file format.
//!
//! A [`Tensor`] is cheap to clone: its bytes are shared, and go back to their pool with the last owner. Writing needs
//! sole ownership ([`Tensor::as_mut_slice`] copies otherwise).
//!
//! [`dtype`] lists the element types, [`minifloat`] decodes the smallest, [`pool`] lends the memory of a [`buffer`],
//! which `extents` and `slab` divide, `memory` holds and `system` gives. [`backing`] is a file whose tensors are read
//! when they are needed, whole or in [`pieces`]; a [`compact`] tensor is then made from smaller elements by factors
//! that have a [`grain`]. [`elsewhere`] is memory that the processor cannot read, [`destination`] a caller's, in which
//! an output is made. [`threads`] compute with them.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]
#![deny(unsafe_code)]

pub mod backing;
pub mod buffer;
pub mod compact;
pub mod destination;
pub mod dtype;
pub mod elsewhere;
mod extents;
pub mod grain;
mod memory;
pub mod minifloat;
pub mod pieces;
pub mod pool;
mod slab;
mod system;
pub mod threads;

use std::sync::Arc;

use kiln_kernels::extent::{Foreign, ForeignMut};
use kiln_kernels::memory::{Refused, copied, filled};
use kiln_kernels::parallel::copy;
use smallvec::SmallVec;

pub use backing::{Backing, InFile};
pub use buffer::Buffer;
pub use compact::{Compact, Expansion, Factors};
pub use dtype::{BoolByte, DType, Element, ONNX_NUMBERS};
pub use elsewhere::Elsewhere;
pub use grain::Grain;
pub use pieces::Pieces;
pub use pool::BufferPool;
pub use pool::{LARGE, Usage};
pub use slab::trim as trim_slabs;
pub use system::installed_bytes;

/// Dimensions, outermost first. Empty for a scalar.
pub type Shape = SmallVec<[usize; 6]>;

/// An error of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The element type is not the expected one.
    #[error("expected elements of type {expected}, found {found}")]
    Type {
        /// The expected type.
        expected: DType,
        /// The tensor's type.
        found: DType,
    },
    /// The number of elements does not fit the shape.
    #[error("shape {shape:?} needs {need} elements, found {found}")]
    Count {
        /// The shape.
        shape: Shape,
        /// The elements of that shape.
        need: usize,
        /// Elements present.
        found: usize,
    },
    /// The shape's bytes cannot be counted in `isize`.
    #[error("shape {0:?} is too large")]
    TooLarge(Shape),
    /// The elements are in memory that the processor cannot read, or were freed.
    #[error("the elements of a tensor of shape {0:?} are not to be had here")]
    Elsewhere(Shape),
    /// The elements are not aligned for their type.
    #[error("elements of type {dtype} do not lie at a multiple of their size ({address:#x})")]
    Misaligned {
        /// The address of the first one.
        address: usize,
        /// Their type.
        dtype: DType,
    },
    /// No output can be made in the tensor's memory: it has other owners, or may only be read, or there are no bytes.
    #[error("the memory of a tensor of shape {0:?} is not its own to be written")]
    NotWritable(Shape),
    /// There is no memory for that many elements: beyond the machine's, or beyond the session's limit.
    #[error("shape {shape:?} takes {need} bytes, of which {room} are left")]
    Memory {
        /// The shape.
        shape: Shape,
        /// Its bytes.
        need: usize,
        /// Bytes that are left.
        room: usize,
    },
    /// The system refuses the memory, or the request was ended before the memory was there.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Type and shape of a tensor, without its bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Shape,
}

impl Clone for TensorSpec {
    /// Copies the dimensions at once: every output of every request has a spec.
    #[inline]
    fn clone(&self) -> TensorSpec {
        TensorSpec { dtype: self.dtype, shape: Shape::from_slice(&self.shape) }
    }
}

impl TensorSpec {
    /// A spec of that type and shape.
    pub fn new(dtype: DType, shape: impl IntoIterator<Item = usize>) -> TensorSpec {
        TensorSpec { dtype, shape: shape.into_iter().collect() }
    }

    /// Number of elements; an error where it or its bytes overflow.
    pub fn elements(&self) -> Result<usize, TensorError> {
        element_count(&self.shape, self.dtype.size().max(1))
    }

    /// Checks that these bytes are aligned for elements of its type.
    fn check_address(&self, bytes: &[u8]) -> Result<(), TensorError> {
        let address = bytes.as_ptr().addr();
        let aligned = address.is_multiple_of(self.dtype.size().max(1));
        if aligned { Ok(()) } else { Err(TensorError::Misaligned { address, dtype: self.dtype }) }
    }

    /// Whether a tensor of it fits into `room` bytes.
    fn fits(&self, room: usize) -> Result<(), TensorError> {
        let each = if self.dtype == DType::String { size_of::<String>() } else { self.dtype.size() };
        let need = self.elements()?.saturating_mul(each);
        if need <= room { Ok(()) } else { Err(TensorError::Memory { shape: self.shape.clone(), need, room }) }
    }
}

/// Product of `shape`, an error if the product times `size` exceeds `isize::MAX`. Zeros count as ones for this check,
/// so that the product of any part of an accepted shape cannot overflow.
pub fn element_count(shape: &[usize], size: usize) -> Result<usize, TensorError> {
    let too_large = || TensorError::TooLarge(shape.iter().copied().collect());
    let factors = shape.iter().map(|&dim| dim.max(1));
    let count = factors.into_iter().try_fold(1usize, usize::checked_mul).ok_or_else(too_large)?;
    match count.checked_mul(size) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(if shape.contains(&0) { 0 } else { count }),
        _ => Err(too_large()),
    }
}

#[derive(Clone, Debug)]
enum Data {
    /// Bytes of the buffer from an offset on, which is a multiple of the element's size.
    Bytes(Arc<Buffer>, usize),
    Strings(Arc<Vec<String>>),
    /// Not in the processor's memory: see [`Tensor::elsewhere`].
    Elsewhere(Arc<Elsewhere>),
    /// No elements: see [`Tensor::hollow`].
    Absent,
}

/// A dense, row-major tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    spec: TensorSpec,
    data: Data,
}

impl Tensor {
    /// A tensor of elements in row-major order.
    pub fn from_vec<T: Element>(shape: impl IntoIterator<Item = usize>, values: Vec<T>) -> Result<Tensor, TensorError> {
        Tensor::from_slice(shape, &values)
    }

    /// A tensor that copies its elements from a slice.
    pub fn from_slice<T: Element>(shape: impl IntoIterator<Item = usize>, values: &[T]) -> Result<Tensor, TensorError> {
        let spec = TensorSpec::new(T::DTYPE, shape);
        let need = spec.elements()?;
        if need != values.len() {
            return Err(TensorError::Count { shape: spec.shape, need, found: values.len() });
        }
        let mut buffer = Buffer::zeroed(std::mem::size_of_val(values))?;
        copy(bytemuck::cast_slice::<T, u8>(values), buffer.bytes_mut());
        Ok(Tensor { spec, data: Data::Bytes(Arc::new(buffer), 0) })
    }

    /// A tensor of raw little-endian bytes, copied.
    pub fn from_bytes(spec: TensorSpec, bytes: &[u8]) -> Result<Tensor, TensorError> {
        let need = spec.elements()?;
        let size = spec.dtype.size();
        if size == 0 || need * size != bytes.len() {
            return Err(TensorError::Count { need, found: bytes.len() / size.max(1), shape: spec.shape });
        }
        let mut buffer = Buffer::zeroed(bytes.len())?;
        copy(bytes, buffer.bytes_mut());
        Ok(Tensor { spec, data: Data::Bytes(Arc::new(buffer), 0) })
    }

    /// A tensor of the first bytes of a shared buffer, which has `found` of them; nothing is copied.
    pub fn from_buffer(spec: TensorSpec, buffer: Arc<Buffer>, found: usize) -> Result<Tensor, TensorError> {
        let need = spec.elements()?;
        let size = spec.dtype.size();
        if size == 0 || need * size != found || found > buffer.len() {
            return Err(TensorError::Count { need, found: found / size.max(1), shape: spec.shape });
        }
        Ok(Tensor { spec, data: Data::Bytes(buffer, 0) })
    }

    /// A tensor over a caller's bytes, which are read in place and never written.
    ///
    /// # Errors
    ///
    /// Where the number of bytes does not fit the shape, or their address is no multiple of an element's size.
    pub fn from_foreign(spec: TensorSpec, bytes: Foreign) -> Result<Tensor, TensorError> {
        spec.check_address(bytes.bytes())?;
        let found = bytes.bytes().len();
        Tensor::from_buffer(spec, Arc::new(Buffer::foreign(bytes)), found)
    }

    /// A tensor over a caller's bytes, which are read and written in place.
    ///
    /// # Errors
    ///
    /// As [`Tensor::from_foreign`].
    pub fn from_foreign_mut(spec: TensorSpec, bytes: ForeignMut) -> Result<Tensor, TensorError> {
        spec.check_address(bytes.bytes())?;
        let found = bytes.bytes().len();
        Tensor::from_buffer(spec, Arc::new(Buffer::foreign_mut(bytes)), found)
    }

    /// `f32` numbers that are made from stored elements, in the shape of these, when they are first needed.
    ///
    /// # Errors
    ///
    /// Where `f32` does not hold every number of the stored type, or the numbers' bytes cannot be counted.
    pub fn compact(stored: Tensor, expansion: Expansion) -> Result<Tensor, TensorError> {
        Tensor::compact_as(DType::F32, stored, expansion)
    }

    /// As [`Tensor::compact`], with numbers of the type `dtype`, which is `f32`, `f16` or `bf16`.
    pub fn compact_as(dtype: DType, stored: Tensor, expansion: Expansion) -> Result<Tensor, TensorError> {
        let makes = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
        if !makes || !compact::widens(stored.dtype()) {
            return Err(TensorError::Type { expected: dtype, found: stored.dtype() });
        }
        stored.expect_here()?;
        let spec = TensorSpec::new(dtype, stored.shape().iter().copied());
        let bytes = spec.elements()? * dtype.size();
        let form = Arc::new(Compact { stored, expansion });
        Ok(Tensor { spec, data: Data::Bytes(Arc::new(Buffer::compact(form, dtype, bytes)), 0) })
    }

    /// The numbers of a tensor of narrower elements in `f32`, made when they are first needed. If the tensor is itself
    /// in [compact form](Tensor::compact_as), they are made from the stored elements, with one rounding less.
    ///
    /// # Errors
    ///
    /// As [`Tensor::compact`].
    pub fn in_f32(&self) -> Result<Tensor, TensorError> {
        match self.form() {
            Some((form, 0)) if form.stored.len() == self.len() => {
                Tensor::compact(form.stored.reshaped(self.shape().iter().copied())?, form.expansion.clone())
            }
            _ => Tensor::compact(self.clone(), Expansion::default()),
        }
    }

    /// The form from which `f32` numbers will be made, and the index of the tensor's first number in it; `None` if
    /// there is no form, the numbers have been made, or they have another type.
    #[must_use]
    pub fn compact_form(&self) -> Option<(Arc<Compact>, usize)> {
        self.form().filter(|_| self.dtype() == DType::F32)
    }

    /// As [`Tensor::compact_form`], for numbers of any float type.
    #[must_use]
    pub fn form(&self) -> Option<(Arc<Compact>, usize)> {
        let Data::Bytes(buffer, start) = &self.data else { return None };
        Some((buffer.form()?, start / self.dtype().size()))
    }

    /// Type and shape without elements, for a tensor whose elements are never read.
    #[must_use]
    pub fn hollow(spec: TensorSpec) -> Tensor {
        Tensor { spec, data: Data::Absent }
    }

    /// Whether it has type and shape only.
    #[inline]
    #[must_use]
    pub fn is_hollow(&self) -> bool {
        matches!(self.data, Data::Absent)
    }

    /// A tensor whose elements are in memory that the processor cannot read, such as a device's. As with a
    /// [hollow](Tensor::hollow) tensor, they are not accessible here.
    #[must_use]
    pub fn elsewhere(spec: TensorSpec, memory: Arc<Elsewhere>) -> Tensor {
        Tensor { spec, data: Data::Elsewhere(memory) }
    }

    /// The memory of a tensor whose elements are elsewhere, if it is a `T`.
    #[inline]
    #[must_use]
    pub fn away<T: std::any::Any>(&self) -> Option<&T> {
        if let Data::Elsewhere(memory) = &self.data { memory.get() } else { None }
    }

    /// Whether the elements are in memory that the processor cannot read.
    #[inline]
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.data, Data::Elsewhere(_))
    }

    /// A tensor of strings.
    pub fn from_strings(shape: impl IntoIterator<Item = usize>, values: Vec<String>) -> Result<Tensor, TensorError> {
        let spec = TensorSpec::new(DType::String, shape);
        let need = spec.elements()?;
        if need != values.len() {
            return Err(TensorError::Count { shape: spec.shape, need, found: values.len() });
        }
        Ok(Tensor { spec, data: Data::Strings(Arc::new(values)) })
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        let mut buffer = Buffer::zeroed(std::mem::size_of::<T>()).unwrap_or_else(|refused| refused.raise());
        buffer.bytes_mut()[..std::mem::size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        Tensor { spec: TensorSpec::new(T::DTYPE, []), data: Data::Bytes(Arc::new(buffer), 0) }
    }

    /// The elements of a tensor of strings, copied if they are shared. Raises [`Refused`] where there is no memory for
    /// a copy.
    pub fn into_strings(self) -> Result<Vec<String>, TensorError> {
        match self.data {
            Data::Strings(texts) => Ok(Arc::try_unwrap(texts).unwrap_or_else(|shared| copied(&shared))),
            _ => Err(TensorError::Type { expected: DType::String, found: self.spec.dtype }),
        }
    }

    /// A tensor of zeros (`false`, empty strings).
    pub fn zeros(spec: TensorSpec) -> Result<Tensor, TensorError> {
        let count = spec.elements()?;
        spec.fits(installed_bytes())?;
        let data = if spec.dtype == DType::String {
            let texts = Refused::catch(|| filled(String::new(), count))?;
            Data::Strings(Arc::new(texts))
        } else {
            Data::Bytes(Arc::new(Buffer::zeroed(count * spec.dtype.size())?), 0)
        };
        Ok(Tensor { spec, data })
    }

    /// A tensor with memory of `pool` and arbitrary contents: for outputs that are written whole.
    pub fn from_pool(pool: &Arc<BufferPool>, spec: TensorSpec) -> Result<Tensor, TensorError> {
        spec.fits(pool.room())?;
        if spec.dtype == DType::String {
            return Tensor::zeros(spec);
        }
        let bytes = spec.elements()? * spec.dtype.size();
        Ok(Tensor { spec, data: Data::Bytes(Arc::new(Buffer::lent(pool, bytes)?), 0) })
    }

    /// A tensor over a buffer that has at least the bytes of `spec`, with arbitrary contents.
    #[inline]
    pub fn over(spec: TensorSpec, buffer: Arc<Buffer>) -> Tensor {
        Tensor { spec, data: Data::Bytes(buffer, 0) }
    }

    /// The buffer of the bytes; `None` without bytes.
    #[inline]
    pub fn into_buffer(self) -> Option<Arc<Buffer>> {
        if let Data::Bytes(buffer, _) = self.data { Some(buffer) } else { None }
    }

    /// The address of the bytes' buffer, which identifies it among live buffers.
    pub fn place(&self) -> Option<usize> {
        match &self.data {
            Data::Bytes(buffer, _) => Some(Arc::as_ptr(buffer).addr()),
            Data::Elsewhere(memory) => Some(Arc::as_ptr(memory).addr()),
            Data::Strings(_) | Data::Absent => None,
        }
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Dimensions, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.spec.shape
    }

    /// Type and shape.
    #[must_use]
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spec.shape.iter().product()
    }

    /// Whether a dimension is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, if they are of type `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.expect(T::DTYPE)?;
        self.expect_here()?;
        Ok(bytemuck::cast_slice(self.bytes()))
    }

    /// The elements in `f32`, piece by piece. Bytes that are read from a file and numbers that are made from a compact
    /// form are not kept.
    pub fn pieces(&self) -> Result<Pieces<'_>, TensorError> {
        self.expect(DType::F32)?;
        if let Some((backing, offset)) = self.in_file() {
            return Ok(Pieces::of_file(backing, offset, self.len()));
        }
        match self.compact_form() {
            Some((form, first)) => Ok(Pieces::of_compact(form, first, self.len())),
            None => self.as_slice().map(Pieces::from),
        }
    }

    /// The file that has the bytes and their offset in it, while they are not read.
    fn in_file(&self) -> Option<(Arc<Backing>, u64)> {
        let Data::Bytes(buffer, start) = &self.data else { return None };
        buffer.place().map(|(backing, offset)| (backing, offset + *start as u64))
    }

    /// The place in a file on disk of the elements, or of their stored elements ([`Compact::stored`]), while they are
    /// not read.
    #[must_use]
    pub fn stored_in(&self) -> Option<InFile> {
        let (backing, offset) = match self.compact_form() {
            Some((form, _)) => form.stored.in_file()?,
            None => self.in_file()?,
        };
        backing.is_on_disk().then_some(InFile { backing, offset })
    }

    /// The elements, to be written; copied first if there is another owner.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        self.expect(T::DTYPE)?;
        self.expect_here()?;
        Ok(bytemuck::cast_slice_mut(self.bytes_mut()))
    }

    /// The elements as strings.
    pub fn as_strings(&self) -> Result<&[String], TensorError> {
        match &self.data {
            Data::Strings(values) => Ok(values),
            _ => Err(TensorError::Type { expected: DType::String, found: self.dtype() }),
        }
    }

    /// The raw bytes; empty for strings, and for a hollow tensor.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(buffer, start) => &buffer.bytes()[*start..][..self.len() * self.spec.dtype.size()],
            // An empty slice is aligned for every type.
            _ => bytemuck::cast_slice::<u64, u8>(&[]),
        }
    }

    /// Whether the elements can be read from a file again, and take no memory until then.
    #[must_use]
    pub fn is_in_file(&self) -> bool {
        self.in_file().is_some_and(|(backing, _)| backing.is_on_disk())
    }

    /// Reads the elements now, where they are still in a file.
    pub fn fetch(&self) {
        let _ = self.bytes();
    }

    /// The same elements. If they are still in a file, the new tensor reads them itself when they are first needed;
    /// otherwise they are shared.
    #[must_use]
    pub fn unread(&self) -> Tensor {
        let own = match &self.data {
            Data::Bytes(buffer, start) => buffer.unread(*start, self.byte_len()),
            _ => None,
        };
        let data = own.map_or_else(|| self.data.clone(), |own| Data::Bytes(Arc::new(own), 0));
        Tensor { spec: self.spec.clone(), data }
    }

    /// The number of raw bytes, without reading them from a file.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        match &self.data {
            Data::Bytes(..) => self.len() * self.spec.dtype.size(),
            _ => 0,
        }
    }

    /// The raw bytes, to be written; copied first if they are shared; empty for strings. Raises [`Refused`] where there
    /// is no memory for the copy.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let length = self.len() * self.spec.dtype.size();
        match &mut self.data {
            Data::Bytes(shared, start) => {
                if Arc::strong_count(shared) != 1 {
                    let mut own = Buffer::zeroed(length).unwrap_or_else(|refused| refused.raise());
                    own.bytes_mut()[..length].copy_from_slice(&shared.bytes()[*start..][..length]);
                    (*shared, *start) = (Arc::new(own), 0);
                }
                // This is the only owner now and there are no weak references, so the empty slice is never returned.
                match Arc::get_mut(shared) {
                    Some(buffer) => &mut buffer.bytes_mut()[*start..][..length],
                    None => &mut [],
                }
            }
            _ => &mut [],
        }
    }

    /// This tensor, with memory of its own that may be written: a copy in the pool's memory where other tensors have
    /// its bytes, or a caller lent them. [`Tensor::bytes_mut`] copies to fresh memory of the system instead, which takes
    /// several times as long.
    ///
    /// # Errors
    ///
    /// [`TensorError::Memory`] where there is no memory for a copy.
    pub fn owned_in(mut self, pool: &Arc<BufferPool>) -> Result<Tensor, TensorError> {
        let is_own = match &mut self.data {
            Data::Bytes(buffer, _) => Arc::get_mut(buffer).is_some_and(|buffer| buffer.is_own()),
            _ => true,
        };
        if is_own {
            return Ok(self);
        }
        let mut own = Tensor::from_pool(pool, self.spec.clone())?;
        copy(self.bytes(), own.bytes_mut());
        Ok(own)
    }

    /// Whether this is the only owner of the bytes, so that writing copies nothing.
    pub fn is_unique(&mut self) -> bool {
        match &mut self.data {
            Data::Bytes(buffer, _) => Arc::get_mut(buffer).is_some(),
            Data::Strings(values) => Arc::get_mut(values).is_some(),
            Data::Elsewhere(memory) => Arc::get_mut(memory).is_some(),
            Data::Absent => false,
        }
    }

    /// Whether this is the only owner of the bytes at this moment. Unlike [`Tensor::is_unique`] it takes a shared
    /// reference, and costs no exchange between cores; a writer still goes through [`Tensor::bytes_mut`].
    #[inline]
    #[must_use]
    pub fn is_sole(&self) -> bool {
        match &self.data {
            Data::Bytes(buffer, _) => Arc::strong_count(buffer) == 1,
            Data::Strings(values) => Arc::strong_count(values) == 1,
            Data::Elsewhere(memory) => Arc::strong_count(memory) == 1,
            Data::Absent => false,
        }
    }

    /// Whether both are views of the same bytes with the same offset.
    #[must_use]
    pub fn shares_bytes(&self, other: &Tensor) -> bool {
        match (&self.data, &other.data) {
            (Data::Bytes(a, from), Data::Bytes(b, also_from)) => from == also_from && Arc::ptr_eq(a, b),
            (Data::Strings(a), Data::Strings(b)) => Arc::ptr_eq(a, b),
            (Data::Elsewhere(a), Data::Elsewhere(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The same elements with another shape, nothing copied.
    pub fn reshaped(&self, shape: impl IntoIterator<Item = usize>) -> Result<Tensor, TensorError> {
        let spec = TensorSpec::new(self.dtype(), shape);
        let need = spec.elements()?;
        if need != self.len() {
            return Err(TensorError::Count { shape: spec.shape, need, found: self.len() });
        }
        Ok(Tensor { spec, data: self.data.clone() })
    }

    /// Elements from number `first` on with a shape of their own, nothing copied. The whole buffer lives as long as any
    /// part. `None` for strings and for elements that are elsewhere.
    pub fn part(&self, first: usize, shape: impl IntoIterator<Item = usize>) -> Result<Option<Tensor>, TensorError> {
        let spec = TensorSpec::new(self.dtype(), shape);
        let need = spec.elements()?;
        let found = self.len().saturating_sub(first);
        if need > found {
            return Err(TensorError::Count { shape: spec.shape, need, found });
        }
        let Data::Bytes(buffer, start) = &self.data else { return Ok(None) };
        let data = Data::Bytes(buffer.clone(), start + first * spec.dtype.size());
        Ok(Some(Tensor { spec, data }))
    }

    /// Integer elements (int32 or int64) widened to `i64`: shapes, axes, indices.
    pub fn to_i64_vec(&self) -> Result<Vec<i64>, TensorError> {
        match self.dtype() {
            DType::I32 => Ok(self.as_slice::<i32>()?.iter().map(|&v| i64::from(v)).collect()),
            _ => Ok(self.as_slice::<i64>()?.to_vec()),
        }
    }

    /// Whether type, shape and every byte agree (NaN equals itself).
    #[must_use]
    pub fn same(&self, other: &Tensor) -> bool {
        self.spec == other.spec
            && (self.shares_bytes(other)
                || match (&self.data, &other.data) {
                    (Data::Strings(a), Data::Strings(b)) => a == b,
                    // Contents that cannot be read are not equal.
                    (Data::Elsewhere(_), _) | (_, Data::Elsewhere(_)) => false,
                    _ => self.bytes() == other.bytes(),
                })
    }

    #[inline]
    fn expect_here(&self) -> Result<(), TensorError> {
        match self.data {
            Data::Elsewhere(_) | Data::Absent => Err(TensorError::Elsewhere(self.spec.shape.clone())),
            Data::Bytes(..) | Data::Strings(_) => Ok(()),
        }
    }

    fn expect(&self, expected: DType) -> Result<(), TensorError> {
        if self.dtype() == expected { Ok(()) } else { Err(TensorError::Type { expected, found: self.dtype() }) }
    }
}
