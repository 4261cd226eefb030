//! A device's context and its one stream. All other parts of the device hold it, so it is dropped last.
//!
//! The context is the device's primary one, so that other libraries in the process share it. The stream does not wait
//! for the legacy one, on which others may work. A thread binds the context before it calls the driver: calls come from
//! any thread, and another library may have bound another context meanwhile.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUevent, CUstream};

use super::status::check;
use crate::error::Result;

/// A device's context, with a stream.
#[derive(Debug)]
pub(super) struct Context {
    device: CUdevice,
    raw: CUcontext,
    stream: CUstream,
}

// SAFETY: the driver's handles are numbers to us. Its calls may come from any thread, at the same time, where the
// context is bound; each thread binds it.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The context of a device, of an initialised driver.
    pub(super) fn open(device: CUdevice) -> Result<Arc<Context>> {
        let mut context = Context { device, raw: std::ptr::null_mut(), stream: std::ptr::null_mut() };
        // SAFETY: the device is the driver's, which writes one handle.
        check("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context.raw, device) })?;
        // From here on, dropping this releases the context.
        context.bind()?;
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is bound, and the driver writes one handle.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut context.stream, flags) })?;
        Ok(Arc::new(context))
    }

    /// Makes it the calling thread's context.
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: the context is held as long as this is.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.raw) })
    }

    /// The stream of all work. The context is bound.
    pub(super) fn stream(&self) -> Result<CUstream> {
        self.bind()?;
        Ok(self.stream)
    }

    /// Waits for all work, and returns its errors.
    pub(super) fn synchronise(&self) -> Result<()> {
        let stream = self.stream()?;
        // SAFETY: the stream is held as long as this is.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) })
    }

    /// Nanoseconds of the work that `work` starts, between the work before it and the work after it.
    pub(super) fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
        let stream = self.stream()?;
        let [start, end] = [Event::new()?, Event::new()?];
        // SAFETY: event and stream are of the bound context.
        check("cuEventRecord", unsafe { sys::cuEventRecord(start.0, stream) })?;
        work()?;
        self.bind()?;
        // SAFETY: as above; `work` may have bound another context, which was undone.
        check("cuEventRecord", unsafe { sys::cuEventRecord(end.0, stream) })?;
        // SAFETY: the event was recorded.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(end.0) })?;
        let mut milliseconds = 0f32;
        // SAFETY: both events were recorded and have passed, and the driver writes one float.
        let status = unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, start.0, end.0) };
        check("cuEventElapsedTime", status)?;
        Ok((f64::from(milliseconds) * 1e6).round() as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // At the end of a process the driver may be unloaded already; the error has no receiver then.
        let bound = self.bind().is_ok();
        if bound && !self.stream.is_null() {
            // SAFETY: all users of the stream hold this value, which is being dropped.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
        // SAFETY: it was retained once, by `open`.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A point in a stream, whose time is known when the work before it is done.
struct Event(CUevent);

impl Event {
    /// An event of the bound context.
    fn new() -> Result<Event> {
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: a context is bound, and the driver writes one handle.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, flags) })?;
        Ok(Event(event))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was made by `new`, and this is its only owner. The driver keeps an event that has not passed until
        // it passes.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
