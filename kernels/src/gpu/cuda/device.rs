//! A GPU as a [`Device`]: memory, copies, times, and the doors to the compiler and the libraries.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::OpenOptions;
use super::compiler;
use super::context::Context;
use super::library::Libraries;
use super::module::CudaModule;
use super::probe::{facts, initialise};
use super::status::check;
use crate::error::{KernelError, Result};
use crate::gpu::{
    ALIGNMENT, Algorithm, Device, DeviceFacts, Heuristic, Module, Policy, Problem, Region, Solver, Source,
};

/// Opens a GPU.
///
/// # Errors
///
/// [`KernelError::Device`] where there is none of that number, or no driver; [`probe`](super::probe()) says more.
pub fn open(ordinal: u32, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    let libraries = Libraries::find(options);
    initialise(&libraries)?;
    let (device, facts) = facts(ordinal, &libraries, options)?;
    let context = Context::open(device)?;
    Ok(Arc::new(CudaDevice { facts, libraries, context }))
}

/// A GPU with its context, which is the last that is dropped.
#[derive(Debug)]
struct CudaDevice {
    facts: DeviceFacts,
    libraries: Libraries,
    context: Arc<Context>,
}

impl CudaDevice {
    fn lack(&self, call: &'static str, found: &std::result::Result<super::Found, String>) -> Result<()> {
        found.as_ref().map(|_| ()).map_err(|reason| KernelError::Device { call, reason: reason.clone() })
    }
}

impl Device for CudaDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn reserve(&self, bytes: u64) -> Result<u64> {
        self.context.bind()?;
        let mut address = 0;
        // SAFETY: a context is bound, and the driver writes one address.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(1) as usize) };
        if status == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(KernelError::DeviceMemory { need: bytes, room: self.free_bytes()? });
        }
        check("cuMemAlloc", status)?;
        if !address.is_multiple_of(ALIGNMENT) {
            self.release(address);
            return Err(KernelError::Device { call: "cuMemAlloc", reason: format!("{address:#x} is not aligned") });
        }
        Ok(address)
    }

    fn release(&self, address: u64) {
        // Where the driver is gone, or work before has failed, all memory is lost with the context.
        if self.context.synchronise().is_ok() {
            // SAFETY: the address is one that `reserve` gave, and nothing that was started runs any more.
            let _ = unsafe { sys::cuMemFree_v2(address) };
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        self.context.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is bound, and the driver writes two sizes.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok(free as u64)
    }

    fn upload(&self, bytes: &[u8], to: &Region) -> Result<()> {
        to.holds("upload", "region", bytes.len() as u64, 1)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let stream = self.context.stream()?;
        // SAFETY: the region holds as many bytes, and is lent to the caller. It comes after all work that was started, and
        // the bytes are borrowed until it was waited for: pinned memory is read later than the call.
        let status = unsafe { sys::cuMemcpyHtoDAsync_v2(to.address(), bytes.as_ptr().cast(), bytes.len(), stream) };
        let copied = check("cuMemcpyHtoDAsync", status);
        self.context.synchronise()?;
        copied
    }

    fn download(&self, from: &Region, bytes: &mut [u8]) -> Result<()> {
        from.holds("download", "region", bytes.len() as u64, 1)?;
        if bytes.is_empty() {
            return self.context.synchronise();
        }
        let stream = self.context.stream()?;
        // SAFETY: the region holds as many bytes; ours are borrowed until it was waited for.
        let status =
            unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), from.address(), bytes.len(), stream) };
        let copied = check("cuMemcpyDtoHAsync", status);
        self.context.synchronise()?;
        copied
    }

    fn synchronise(&self) -> Result<()> {
        self.context.synchronise()
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
        self.context.time(work)
    }

    fn compile(&self, source: &Source) -> Result<Arc<dyn Module>> {
        self.lack("NVRTC", &self.libraries.nvrtc)?;
        let image = compiler::compile(source, self.facts.compute)?;
        Ok(Arc::new(CudaModule::load(&self.context, source, &image)?))
    }

    fn heuristics(&self, problem: &Problem, _: &Policy, _: Heuristic) -> Result<Vec<Algorithm>> {
        match problem {
            Problem::Conv(_) => self.lack("cuDNN", &self.libraries.cudnn)?,
            Problem::MatMul(_) => self.lack("cuBLASLt", &self.libraries.cublaslt)?,
        }
        Ok(Vec::new())
    }

    fn solver(&self, problem: &Problem, algorithm: &Algorithm) -> Result<Arc<dyn Solver>> {
        let reason = format!("{problem:?} by {algorithm:?}");
        Err(KernelError::Unsupported { family: "cuda", reason })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
