//! cuDNN on one device: its one handle, which a lock gives to one thread at a time.
//!
//! Plans are bound to the handle that they were made with, and some must not run concurrently with themselves. So a
//! caller of cuDNN holds the handle's lock: to make a plan, and for the microseconds that launching a plan takes.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cudnn::sys::{self, cudnnHandle_t, cudnnStatus_t};

use super::context::Context;
use super::owned::Owned;
use super::status::check;
use crate::error::{KernelError, Result};

/// Bound of a plan's scratch memory: cuDNN has been seen to ask for more than 2^63 bytes.
const ABSURD: u64 = 1 << 40;

/// cuDNN on one device.
#[derive(Debug)]
pub(super) struct Cudnn {
    handle: Mutex<Raw>,
    context: Arc<Context>,
}

#[derive(Debug)]
struct Raw(Owned<cudnnHandle_t, cudnnStatus_t>);

// SAFETY: any thread may use the handle, one at a time: it is behind a lock.
unsafe impl Send for Raw {}

impl Cudnn {
    /// Creates the library's handle on a device; the library is loaded with all its parts.
    pub(super) fn open(context: &Arc<Context>) -> Result<Arc<Cudnn>> {
        let stream = context.stream()?;
        // SAFETY: the library is there, and the calls belong together.
        let handle = unsafe { Owned::new("cudnnCreate", |raw| sys::cudnnCreate(raw), sys::cudnnDestroy)? };
        // SAFETY: the handle was just made, and the stream is held by the context as long as this is.
        check("cudnnSetStream", unsafe { sys::cudnnSetStream(handle.raw(), stream.cast()) })?;
        Ok(Arc::new(Cudnn { handle: Mutex::new(Raw(handle)), context: context.clone() }))
    }

    /// Runs a closure with the handle, under its lock. The context is bound.
    pub(super) fn with<T>(&self, work: impl FnOnce(cudnnHandle_t) -> Result<T>) -> Result<T> {
        self.context.bind()?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        work(handle.0.raw())
    }
}

impl Cudnn {
    /// Waits for all work, so that the memory that it uses can be freed; binds the context.
    pub(super) fn settle(&self) {
        // After an error, no work runs any more.
        let _ = self.context.synchronise();
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        // The handle frees its memory in the context of the calling thread.
        self.settle();
    }
}

/// Bytes of scratch memory; an error beyond the memory that a device could have.
pub(super) fn believable(workspace: i64) -> Result<u64> {
    u64::try_from(workspace).ok().filter(|&bytes| bytes <= ABSURD).ok_or_else(|| KernelError::Unsupported {
        family: "cuDNN",
        reason: format!("{workspace} bytes of scratch memory"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_wishes_are_refused() {
        assert_eq!(believable(0).unwrap(), 0);
        assert_eq!(believable(1 << 40).unwrap(), 1 << 40);
        assert!(believable((1 << 40) + 1).is_err());
        assert!(believable(-1).is_err(), "more than 2^63");
    }
}
