//! Element types of activations in memory between kernels: `f32`, or rounded to `bf16`. Arithmetic on either is in
//! `f32`.

use super::precision::{from_bf16, to_bf16};
use crate::isa::Extension;
use crate::jit::{Asm, Gpr, Mask, Mem, Vreg};
use crate::problem::elements::Stored;

impl Stored {
    /// Converts an address of an element of this type, or a distance in bytes, to that of the same element of another
    /// type, where both tensors start at 0.
    pub(crate) const fn rescale(self, bytes: usize, to: Stored) -> usize {
        match (self, to) {
            (Stored::F32, Stored::Bf16) => bytes >> 1,
            (Stored::Bf16, Stored::F32) => bytes << 1,
            (Stored::F32, Stored::F32) | (Stored::Bf16, Stored::Bf16) => bytes,
        }
    }

    /// Emits [`Stored::rescale`] of a register.
    pub(crate) fn emit_rescale(self, asm: &mut Asm, bytes: Gpr, to: Stored) {
        match (self, to) {
            (Stored::F32, Stored::Bf16) => asm.shr_imm(bytes, 1),
            (Stored::Bf16, Stored::F32) => asm.shl_imm(bytes, 1),
            (Stored::F32, Stored::F32) | (Stored::Bf16, Stored::Bf16) => {}
        }
    }

    /// The byte offset from an element of an output of this type to the same element of the residual. It starts from
    /// the output's address [rescaled](Stored::rescale) to the residual's type.
    pub(crate) fn residual_offset(self, output: *const u8, residual: *const u8, stored: Stored) -> isize {
        residual.addr().wrapping_sub(self.rescale(output.addr(), stored)) as isize
    }

    /// The extension that emitted code needs to store them.
    #[must_use]
    pub const fn extension(self) -> Option<Extension> {
        match self {
            Stored::F32 => None,
            Stored::Bf16 => Some(Extension::Bf16),
        }
    }

    /// Emits dst = the vector of elements at the address, widened; with a mask only its lanes, and zero in the others.
    pub(crate) fn load(self, asm: &mut Asm, dst: Vreg, mask: Option<Mask>, src: Mem) {
        match (self, mask) {
            (Stored::F32, _) => asm.vload_lanes(dst, mask, src),
            (Stored::Bf16, None) => asm.vload_bf16(dst, src),
            (Stored::Bf16, Some(mask)) => asm.vload_bf16_masked(dst, mask, src),
        }
    }

    /// Emits the vector of elements at the address = src, rounded; with a mask only its lanes. Where it rounds, it
    /// destroys `scratch`, which may be `src`.
    pub(crate) fn store(self, asm: &mut Asm, dst: Mem, mask: Option<Mask>, src: Vreg, scratch: Vreg) {
        match (self, mask) {
            (Stored::F32, _) => asm.vstore_lanes(dst, mask, src),
            (Stored::Bf16, None) => asm.vstore_bf16(dst, src, scratch),
            (Stored::Bf16, Some(mask)) => asm.vstore_bf16_masked(dst, mask, src, scratch),
        }
    }
}

/// Activations that a kernel reads.
#[derive(Clone, Copy, Debug)]
pub enum Activations<'a> {
    /// `f32`.
    F32(&'a [f32]),
    /// The bits of `bf16`.
    Bf16(&'a [u16]),
}

impl<'a> Activations<'a> {
    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Activations::F32(elements) => elements.len(),
            Activations::Bf16(halves) => halves.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub fn stored(&self) -> Stored {
        match self {
            Activations::F32(_) => Stored::F32,
            Activations::Bf16(_) => Stored::Bf16,
        }
    }

    /// The elements, where they are `f32`.
    #[must_use]
    pub fn as_f32(&self) -> Option<&'a [f32]> {
        if let Activations::F32(elements) = self { Some(elements) } else { None }
    }

    /// The address of the first element.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.bytes().as_ptr()
    }

    /// Their bytes in memory.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self {
            Activations::F32(elements) => bytemuck::cast_slice(elements),
            Activations::Bf16(halves) => bytemuck::cast_slice(halves),
        }
    }
}

impl Activations<'_> {
    /// Writes the first `to.len()` elements to `to`, as `f32`.
    pub(crate) fn widen(&self, to: &mut [f32]) {
        match self {
            Activations::F32(elements) => to.copy_from_slice(&elements[..to.len()]),
            Activations::Bf16(halves) => to.iter_mut().zip(*halves).for_each(|(to, &half)| *to = from_bf16(half)),
        }
    }
}

impl<'a> From<&'a [f32]> for Activations<'a> {
    fn from(elements: &'a [f32]) -> Activations<'a> {
        Activations::F32(elements)
    }
}

/// Activations that a kernel writes.
#[derive(Debug)]
pub enum ActivationsMut<'a> {
    /// `f32`.
    F32(&'a mut [f32]),
    /// The bits of `bf16`.
    Bf16(&'a mut [u16]),
}

impl ActivationsMut<'_> {
    /// The same memory, to be read.
    #[must_use]
    pub fn read(&self) -> Activations<'_> {
        match self {
            ActivationsMut::F32(elements) => Activations::F32(elements),
            ActivationsMut::Bf16(halves) => Activations::Bf16(halves),
        }
    }

    /// The address of the first element.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes_mut().as_mut_ptr()
    }

    /// Their bytes in memory.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            ActivationsMut::F32(elements) => bytemuck::cast_slice_mut(elements),
            ActivationsMut::Bf16(halves) => bytemuck::cast_slice_mut(halves),
        }
    }
}

impl ActivationsMut<'_> {
    /// Stores `from` as the first elements, rounded where this is `bf16`.
    pub(crate) fn narrow(&mut self, from: &[f32]) {
        // Kernels flush denormals to zero.
        let flushed = |value: f32| if value.is_subnormal() { 0.0f32.copysign(value) } else { value };
        match self {
            ActivationsMut::F32(elements) => elements.copy_from_slice(from),
            ActivationsMut::Bf16(halves) => {
                halves.iter_mut().zip(from).for_each(|(half, &value)| *half = to_bf16(flushed(value)));
            }
        }
    }
}

impl<'a> From<&'a mut [f32]> for ActivationsMut<'a> {
    fn from(elements: &'a mut [f32]) -> ActivationsMut<'a> {
        ActivationsMut::F32(elements)
    }
}
