//! Kiln's own kernels on a device: loaded machine code, and the check of its arguments at launches.
//!
//! For each argument, the driver copies the bytes of the compiled kernel's parameter, without a check. So the sizes of
//! parameters are read from the loaded kernel once and compared with the declared types, and arguments are compared
//! with them at each launch.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUmodule, CUresult};
use smallvec::SmallVec;

use super::context::Context;
use super::status::check;
use crate::error::{KernelError, Result};
use crate::gpu::{Arg, Launch, Module, Region, Source};

/// What kind of argument a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    I32,
    I64,
    F32,
    /// A structure; only a compiled kernel knows its bytes.
    Bytes(usize),
}

impl Kind {
    /// The kind of a C type.
    pub(super) fn of(declared: &str) -> Kind {
        let plain = declared.trim().trim_start_matches("const ").trim_end_matches(" const").trim();
        match plain {
            _ if plain.contains('*') => Kind::Memory,
            "int" | "signed int" | "int32_t" => Kind::I32,
            "long long" | "long long int" | "int64_t" => Kind::I64,
            "float" => Kind::F32,
            _ => Kind::Bytes(0),
        }
    }

    /// Bytes of a parameter of this kind.
    fn size(self) -> usize {
        match self {
            Kind::Memory | Kind::I64 => 8,
            Kind::I32 | Kind::F32 => 4,
            Kind::Bytes(size) => size,
        }
    }

    /// Whether an argument is of this kind.
    pub(super) fn takes(self, arg: &Arg<'_>) -> bool {
        match (self, arg) {
            (Kind::Memory, Arg::Memory(_))
            | (Kind::I32, Arg::I32(_))
            | (Kind::I64, Arg::I64(_))
            | (Kind::F32, Arg::F32(_)) => true,
            (Kind::Bytes(size), Arg::Bytes(bytes)) => bytes.len() == size,
            _ => false,
        }
    }
}

fn refused(reason: String) -> KernelError {
    KernelError::Unsupported { family: "cuda kernel", reason }
}

/// Checks arguments against parameters.
pub(super) fn check_args(entry: &str, kinds: &[Kind], args: &[Arg<'_>]) -> Result<()> {
    if kinds.len() != args.len() {
        return Err(refused(format!("{entry} has {} parameters, {} arguments were given", kinds.len(), args.len())));
    }
    match kinds.iter().zip(args).position(|(kind, arg)| !kind.takes(arg)) {
        None => Ok(()),
        Some(at) => Err(refused(format!("argument {at} of {entry} must be {:?}", kinds[at]))),
    }
}

/// A loaded kernel.
#[derive(Debug)]
pub(super) struct CudaModule {
    entry: String,
    kinds: Vec<Kind>,
    bytes: usize,
    function: CUfunction,
    module: CUmodule,
    context: Arc<Context>,
}

// SAFETY: the handles are numbers to us; the driver takes them from any thread that has bound the context.
unsafe impl Send for CudaModule {}
// SAFETY: as above; nothing here changes after construction.
unsafe impl Sync for CudaModule {}

impl CudaModule {
    /// Loads an image that the compiler made from a source.
    pub(super) fn load(context: &Arc<Context>, source: &Source, image: &[u8]) -> Result<CudaModule> {
        context.bind()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is a whole CUBIN, or PTX that the compiler ends with a zero; one handle is written.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) })?;
        let kinds = source.parameters.iter().map(|declared| Kind::of(declared)).collect();
        let mut loaded = CudaModule {
            entry: source.entry.clone(),
            kinds,
            bytes: image.len(),
            function: std::ptr::null_mut(),
            module,
            context: context.clone(),
        };
        let entry = CString::new(source.entry.as_str()).map_err(|_| refused("a name with a zero".to_owned()))?;
        // SAFETY: the module is held, the name ends with a zero, and one handle is written.
        let status = unsafe { sys::cuModuleGetFunction(&raw mut loaded.function, module, entry.as_ptr()) };
        check("cuModuleGetFunction", status)?;
        loaded.measure()?;
        Ok(loaded)
    }

    /// Compares the declared parameters with those of the compiled kernel, which has the sizes of structures.
    fn measure(&mut self) -> Result<()> {
        for at in 0..=self.kinds.len() {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function is held, and two sizes are written. A number beyond the last is refused.
            let status = unsafe { sys::cuFuncGetParamInfo(self.function, at, &raw mut offset, &raw mut size) };
            let found = match status {
                CUresult::CUDA_ERROR_INVALID_VALUE => None,
                status => check("cuFuncGetParamInfo", status).map(|()| Some(size))?,
            };
            match (self.kinds.get_mut(at), found) {
                (None, None) => {}
                (Some(Kind::Bytes(bytes)), Some(size)) => *bytes = size,
                (Some(kind), Some(size)) if kind.size() == size => {}
                _ => return Err(refused(format!("{}: parameter {at} is not what was declared", self.entry))),
            }
        }
        Ok(())
    }
}

impl Module for CudaModule {
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        check_args(&self.entry, &self.kinds, launch.args)?;
        // The driver reads arguments through pointers, before it returns.
        let words: SmallVec<[u64; 16]> = launch
            .args
            .iter()
            .map(|arg| match *arg {
                Arg::Memory(region) => region.map_or(0, Region::address),
                // x86 keeps the low bytes first, and a narrower parameter is read from there.
                Arg::I32(value) => u64::from(value as u32),
                Arg::I64(value) => value as u64,
                Arg::F32(value) => u64::from(value.to_bits()),
                Arg::Bytes(_) => 0,
            })
            .collect();
        let mut pointers: SmallVec<[*mut c_void; 16]> = words
            .iter()
            .zip(launch.args)
            .map(|(word, arg)| match arg {
                Arg::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
                _ => std::ptr::from_ref(word).cast_mut().cast(),
            })
            .collect();
        let stream = self.context.stream()?;
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        // SAFETY: the function is held and its context bound. There is a pointer for each parameter, to the bytes of
        // that parameter (`check_args` against `measure`), which are only read, and before this returns. Addresses are
        // of regions, which the caller holds; the kernel's accesses to them are its source's promise.
        let status = unsafe {
            let extra = std::ptr::null_mut();
            sys::cuLaunchKernel(self.function, gx, gy, gz, bx, by, bz, 0, stream, pointers.as_mut_ptr(), extra)
        };
        check("cuLaunchKernel", status)
    }

    fn size(&self) -> usize {
        self.bytes
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        // Started work may still run the code.
        if self.context.synchronise().is_ok() {
            // SAFETY: it was loaded by `load`, this is its only owner, and nothing of it runs.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}
