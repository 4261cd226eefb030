//! Memory of an emulated device: allocations of the processor's memory, known by their addresses.
//!
//! All access is through [`Held`], a lock: work of a device runs in one order, and shared and exclusive views of the
//! same bytes are safe.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::{ALIGNMENT, Region};
use crate::error::{KernelError, Result};

/// The device's memory, with a bound in bytes.
#[derive(Debug)]
pub(super) struct Memory {
    most: u64,
    /// Allocations by their addresses.
    blocks: Mutex<BTreeMap<u64, Layout>>,
}

/// The locked memory.
#[derive(Debug)]
pub(super) struct Held<'m>(MutexGuard<'m, BTreeMap<u64, Layout>>);

impl Memory {
    pub(super) fn new(most: u64) -> Memory {
        Memory { most, blocks: Mutex::default() }
    }

    pub(super) fn hold(&self) -> Held<'_> {
        Held(self.blocks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Bytes that are not reserved.
    pub(super) fn room(&self) -> u64 {
        self.hold().room(self.most)
    }

    pub(super) fn reserve(&self, bytes: u64) -> Result<u64> {
        let mut held = self.hold();
        let room = held.room(self.most);
        let layout = usize::try_from(bytes.max(1)).ok().filter(|_| bytes <= room);
        let layout = layout.and_then(|size| Layout::from_size_align(size, ALIGNMENT as usize).ok());
        let layout = layout.ok_or(KernelError::DeviceMemory { need: bytes, room })?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(KernelError::DeviceMemory { need: bytes, room: 0 });
        }
        let address = start.expose_provenance() as u64;
        held.0.insert(address, layout);
        Ok(address)
    }

    pub(super) fn release(&self, address: u64) {
        if let Some(layout) = self.hold().0.remove(&address) {
            free(address, layout);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (address, layout) in std::mem::take(self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner)) {
            free(address, layout);
        }
    }
}

/// Frees an allocation that has just been taken out of the table.
fn free(address: u64, layout: Layout) {
    // SAFETY: the stretch was allocated with this layout and exposed by `reserve`, it is no longer in the table, and
    // views of it live no longer than the lock under which it was taken out.
    unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address as usize), layout) }
}

impl Held<'_> {
    fn room(&self, most: u64) -> u64 {
        most.saturating_sub(self.0.values().map(|layout| layout.size() as u64).sum())
    }

    /// Checks that a region is of this memory and holds that many bytes; returns their address.
    fn locate(&self, region: &Region, operand: &'static str, bytes: u64) -> Result<*mut u8> {
        region.holds("emulated", operand, bytes, 1)?;
        let block = self.0.range(..=region.address()).next_back();
        let inside = block.is_some_and(|(start, layout)| region.address() - start + bytes <= layout.size() as u64);
        if !inside {
            let reason = format!("{operand} is no memory of this device");
            return Err(KernelError::Device { call: "emulated", reason });
        }
        Ok(std::ptr::with_exposed_provenance_mut(region.address() as usize))
    }

    /// Whether a region is of this memory.
    pub(super) fn check(&self, region: &Region, operand: &'static str, bytes: u64) -> Result<()> {
        self.locate(region, operand, bytes).map(|_| ())
    }

    /// The first bytes of a region.
    pub(super) fn bytes(&self, region: &Region, operand: &'static str, bytes: u64) -> Result<&[u8]> {
        let start = self.locate(region, operand, bytes)?;
        // SAFETY: that many initialised bytes are there, in one stretch that is in the table. The stretch leaves the
        // table, and its bytes change, only through an exclusive borrow of this value, and there is one such borrow at
        // a time.
        Ok(unsafe { std::slice::from_raw_parts(start, bytes as usize) })
    }

    /// The first elements of a region.
    pub(super) fn floats(&self, region: &Region, operand: &'static str, elements: u64) -> Result<&[f32]> {
        region.holds("emulated", operand, elements, 4)?;
        // Every address of device memory is a multiple of 256.
        Ok(bytemuck::cast_slice(self.bytes(region, operand, elements * 4)?))
    }

    /// Writes the first bytes of a region.
    pub(super) fn write(&mut self, region: &Region, operand: &'static str, bytes: &[u8]) -> Result<()> {
        let start = self.locate(region, operand, bytes.len() as u64)?;
        // SAFETY: that many bytes are there, in a stretch that is in the table. This value is borrowed exclusively, so
        // that no view of the bytes lives and the source is not among them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
        Ok(())
    }
}
