//! Descriptors of cuDNN's graph interface: created, set, finalised, read, destroyed.
//!
//! Attributes have type numbers, and their values are read and written through untyped pointers. Each Rust type that
//! may be a value states its number ([`Attribute`]), so that a caller cannot pass another type. Enumerations are read
//! as plain numbers: a newer library has more variants than these bindings.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnBackendHeurMode_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnHandle_t,
    cudnnPointwiseMode_t, cudnnStatus_t,
};

use super::super::owned::Owned;
use super::super::status::check;
use crate::error::{KernelError, Result};

/// A value that an attribute may be given.
///
/// # Safety
///
/// The library reads values of `TYPE` that are laid out like this one.
pub(super) unsafe trait Written: Copy {
    /// The library's name of the type.
    const TYPE: Type;
}

/// A value that an attribute may also be read as.
///
/// # Safety
///
/// Any bytes that the library writes for `TYPE` are a valid value. It is no enumeration, because a newer library has
/// more variants.
pub(super) unsafe trait Attribute: Written {}

macro_rules! written {
    ($($kind:ty = $name:ident;)+) => {
        // SAFETY: these are the types that the library's documentation gives for the name.
        $(unsafe impl Written for $kind { const TYPE: Type = Type::$name; })+
    };
}

macro_rules! attributes {
    ($($kind:ty = $name:ident;)+) => {
        written! { $($kind = $name;)+ }
        // SAFETY: these are numbers and pointers; any bytes are a valid value.
        $(unsafe impl Attribute for $kind {})+
    };
}

/// A kind of knob, or a note: a plain number, because a newer library has more kinds.
macro_rules! numbers {
    ($($(#[$doc:meta])+ $kind:ident = $name:ident;)+) => {
        $($(#[$doc])+ #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub(super) struct $kind(pub(super) i32);
        attributes! { $kind = $name; })+
    };
}

numbers! {
    /// The kind of a knob.
    KnobKind = CUDNN_TYPE_KNOB_TYPE;
    /// A fact about an engine's arithmetic.
    NumericalNote = CUDNN_TYPE_NUMERICAL_NOTE;
}

/// Memory, or the library's handle.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Address(pub(super) *mut c_void);

/// The library's handle.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Handle(pub(super) cudnnHandle_t);

/// A descriptor as a value of another descriptor's attribute.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Raw(cudnnBackendDescriptor_t);

attributes! {
    i64 = CUDNN_TYPE_INT64;
    f32 = CUDNN_TYPE_FLOAT;
    f64 = CUDNN_TYPE_DOUBLE;
    Address = CUDNN_TYPE_VOID_PTR;
    Handle = CUDNN_TYPE_HANDLE;
    Raw = CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

written! {
    bool = CUDNN_TYPE_BOOLEAN;
    cudnnConvolutionMode_t = CUDNN_TYPE_CONVOLUTION_MODE;
    cudnnDataType_t = CUDNN_TYPE_DATA_TYPE;
    cudnnBackendHeurMode_t = CUDNN_TYPE_HEUR_MODE;
    cudnnPointwiseMode_t = CUDNN_TYPE_POINTWISE_MODE;
}

/// An object of the graph interface, with the objects that it was made from: the library keeps pointers to them.
#[derive(Debug)]
pub(super) struct Descriptor {
    kind: cudnnBackendDescriptorType_t,
    raw: Owned<cudnnBackendDescriptor_t, cudnnStatus_t>,
    parts: Vec<Arc<Descriptor>>,
}

// SAFETY: descriptors are plain memory of the library, bound to no thread.
unsafe impl Send for Descriptor {}
// SAFETY: a finished descriptor is not changed any more, and an unfinished one is changed through `&mut` alone.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// An empty descriptor.
    pub(super) fn new(kind: cudnnBackendDescriptorType_t) -> Result<Descriptor> {
        // SAFETY: the library is there, and the calls belong together.
        let raw = unsafe {
            let create = |raw| sys::cudnnBackendCreateDescriptor(kind, raw);
            Owned::new("cudnnBackendCreateDescriptor", create, sys::cudnnBackendDestroyDescriptor)?
        };
        Ok(Descriptor { kind, raw, parts: Vec::new() })
    }

    /// Sets an attribute.
    pub(super) fn set<T: Written>(&mut self, name: Name, values: &[T]) -> Result<()> {
        // SAFETY: the descriptor is held, and the number of values of this type is as given; they are copied.
        let status = unsafe {
            let count = values.len() as i64;
            sys::cudnnBackendSetAttribute(self.raw.raw(), name, T::TYPE, count, values.as_ptr().cast())
        };
        check("cudnnBackendSetAttribute", status)
    }

    /// Sets an attribute to other descriptors, which are kept as long as this one.
    pub(super) fn set_parts(&mut self, name: Name, parts: &[Arc<Descriptor>]) -> Result<()> {
        let values: Vec<Raw> = parts.iter().map(|part| Raw(part.raw.raw())).collect();
        self.parts.extend_from_slice(parts);
        self.set(name, &values)
    }

    /// Finalises the descriptor: the library checks the attributes, which do not change any more.
    pub(super) fn finish(self) -> Result<Descriptor> {
        // The library (9.19.0) reads through a null pointer where a configuration has no engine.
        if self.kind == cudnnBackendDescriptorType_t::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && self.parts.is_empty() {
            let reason = "a configuration without an engine".to_owned();
            return Err(KernelError::Device { call: "cudnnBackendFinalize", reason });
        }
        // SAFETY: the descriptor is held.
        check("cudnnBackendFinalize", unsafe { sys::cudnnBackendFinalize(self.raw.raw()) })?;
        Ok(self)
    }

    /// Reads the values of an attribute, at most as many as `values` holds. Returns the number of values that the
    /// attribute has.
    pub(super) fn get<T: Attribute>(&self, name: Name, values: &mut [T]) -> Result<usize> {
        let mut count = 0;
        // SAFETY: the descriptor is held, and the library writes at most `values.len()` values of this type.
        let status = unsafe {
            let (most, values) = (values.len() as i64, values.as_mut_ptr().cast());
            sys::cudnnBackendGetAttribute(self.raw.raw(), name, T::TYPE, most, &raw mut count, values)
        };
        check("cudnnBackendGetAttribute", status)?;
        Ok(usize::try_from(count).unwrap_or(0).min(values.len()))
    }

    /// The one value of an attribute.
    pub(super) fn get_one(&self, name: Name) -> Result<i64> {
        let mut value = [0];
        self.get(name, &mut value)?;
        Ok(value[0])
    }

    /// Up to `most` descriptors that an attribute holds; the library fills in new ones.
    pub(super) fn get_parts(
        &self,
        name: Name,
        kind: cudnnBackendDescriptorType_t,
        most: usize,
    ) -> Result<Vec<Descriptor>> {
        let mut parts: Vec<Descriptor> = (0..most).map(|_| Descriptor::new(kind)).collect::<Result<_>>()?;
        let mut values: Vec<Raw> = parts.iter().map(|part| Raw(part.raw.raw())).collect();
        let count = self.get(name, &mut values)?;
        parts.truncate(count);
        Ok(parts)
    }

    /// All descriptors that an attribute holds.
    pub(super) fn all_parts(&self, name: Name, kind: cudnnBackendDescriptorType_t) -> Result<Vec<Descriptor>> {
        let mut count = 0;
        // SAFETY: the descriptor is held; no values are requested, so none are written.
        let status = unsafe {
            let nowhere = std::ptr::null_mut();
            sys::cudnnBackendGetAttribute(self.raw.raw(), name, Raw::TYPE, 0, &raw mut count, nowhere)
        };
        check("cudnnBackendGetAttribute", status)?;
        // The bound is more proposals than a search tries.
        self.get_parts(name, kind, usize::try_from(count).unwrap_or(0).min(1 << 10))
    }

    /// Launches this plan with the operands of a variant pack.
    ///
    /// # Safety
    ///
    /// This is a finished plan and `pack` a finished pack of variants, whose addresses hold the operands of the plan's
    /// graph. The calling thread holds the handle, and its context is bound.
    pub(super) unsafe fn execute(&self, handle: cudnnHandle_t, pack: &Descriptor) -> Result<()> {
        // SAFETY: as promised by the caller.
        let status = unsafe { sys::cudnnBackendExecute(handle, self.raw.raw(), pack.raw.raw()) };
        check("cudnnBackendExecute", status)
    }
}
