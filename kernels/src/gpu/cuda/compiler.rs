//! NVRTC: CUDA C to machine code of one architecture.
//!
//! A CUBIN of the device's real architecture is loaded directly; PTX would be compiled once more by the driver, at
//! every load. Where NVRTC is older than the device's architecture, it compiles PTX of the newest architecture that it
//! knows. Compiling needs no device and no driver.

use std::ffi::{CString, c_char};

use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};

use super::OpenOptions;
use super::library::Libraries;
use super::status::check;
use crate::error::{KernelError, Result};
use crate::gpu::Source;

/// Compiles a kernel for devices of a compute capability, on a machine that may have none.
///
/// # Errors
///
/// [`KernelError::Device`] where NVRTC is missing, or with its log.
pub fn compile_for(source: &Source, compute: [u32; 2], options: &OpenOptions) -> Result<Vec<u8>> {
    Libraries::find(options).nvrtc.map_err(|reason| KernelError::Device { call: "NVRTC", reason })?;
    compile(source, compute)
}

/// Compiles a kernel with NVRTC, which is loaded.
pub(super) fn compile(source: &Source, compute: [u32; 2]) -> Result<Vec<u8>> {
    let target = Target::for_device(compute, &architectures()?)?;
    let program = Program::new(source)?;
    // Contraction to fused multiply-adds is what the processor's kernels do too; approximations of functions are not.
    let options = [target.option().as_str(), "--std=c++17", "--fmad=true"].map(terminated);
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program is held, and the three texts outlive the call.
    let status = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
    if status != nvrtcResult::NVRTC_SUCCESS {
        let log = program.log().unwrap_or_default();
        let reason = format!("{status:?} of {}: {}", source.entry, log.trim_end());
        return Err(KernelError::Device { call: "nvrtcCompileProgram", reason });
    }
    match target {
        Target::Binary(_) => {
            program.bytes(["nvrtcGetCUBINSize", "nvrtcGetCUBIN"], sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN)
        }
        Target::Portable(_) => {
            program.bytes(["nvrtcGetPTXSize", "nvrtcGetPTX"], sys::nvrtcGetPTXSize, sys::nvrtcGetPTX)
        }
    }
}

/// The target of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The machine code of exactly this architecture: 90 is compute capability 9.0.
    Binary(u32),
    /// PTX, which newer devices understand.
    Portable(u32),
}

impl Target {
    /// The best target for a device, for a compiler that knows these architectures.
    fn for_device([major, minor]: [u32; 2], known: &[u32]) -> Result<Target> {
        let own = major.saturating_mul(10).saturating_add(minor);
        if known.contains(&own) {
            return Ok(Target::Binary(own));
        }
        known.iter().copied().filter(|&older| older < own).max().map(Target::Portable).ok_or_else(|| {
            let reason =
                format!("compute capability {major}.{minor} is older than all that this NVRTC knows ({known:?})");
            KernelError::Unsupported { family: "NVRTC", reason }
        })
    }

    fn option(self) -> String {
        match self {
            Target::Binary(number) => format!("--gpu-architecture=sm_{number}"),
            Target::Portable(number) => format!("--gpu-architecture=compute_{number}"),
        }
    }
}

/// The architectures that NVRTC knows.
fn architectures() -> Result<Vec<u32>> {
    let mut count = 0;
    // SAFETY: the library is there and writes one int.
    check("nvrtcGetNumSupportedArchs", unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) })?;
    let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the library writes the number of ints that it reported.
    check("nvrtcGetSupportedArchs", unsafe { sys::nvrtcGetSupportedArchs(numbers.as_mut_ptr()) })?;
    Ok(numbers.into_iter().filter_map(|number| u32::try_from(number).ok()).collect())
}

/// The text up to its first zero, as a C string.
fn terminated(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// A program of NVRTC.
struct Program(nvrtcProgram);

impl Program {
    fn new(source: &Source) -> Result<Program> {
        let [text, name] = [&source.text, &source.entry].map(|text| terminated(text));
        let mut program = std::ptr::null_mut();
        // SAFETY: both texts end with a zero and are copied; there are no headers; one handle is written.
        let status = unsafe {
            let none = std::ptr::null();
            sys::nvrtcCreateProgram(&raw mut program, text.as_ptr(), name.as_ptr(), 0, none, none)
        };
        check("nvrtcCreateProgram", status)?;
        Ok(Program(program))
    }

    /// The compiler's log.
    fn log(&self) -> Result<String> {
        let names = ["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"];
        let bytes = self.bytes(names, sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    /// A result that takes two calls: its size, then its bytes.
    fn bytes(
        &self,
        names: [&'static str; 2],
        size: unsafe fn(nvrtcProgram, *mut usize) -> nvrtcResult,
        write: unsafe fn(nvrtcProgram, *mut c_char) -> nvrtcResult,
    ) -> Result<Vec<u8>> {
        let mut count = 0;
        // SAFETY: the program is held, and one size is written.
        check(names[0], unsafe { size(self.0, &raw mut count) })?;
        let mut bytes = vec![0u8; count];
        // SAFETY: the library writes the number of bytes that it reported.
        check(names[1], unsafe { write(self.0, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was made by `new`, and this is its only owner.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gets_its_own_code_or_the_newest_that_it_understands() {
        let known = [75, 80, 86, 90, 100];
        assert_eq!(Target::for_device([9, 0], &known).unwrap(), Target::Binary(90));
        assert_eq!(Target::for_device([8, 9], &known).unwrap(), Target::Portable(86));
        assert_eq!(Target::for_device([12, 1], &known).unwrap(), Target::Portable(100));
        assert!(matches!(Target::for_device([7, 0], &known), Err(KernelError::Unsupported { .. })));
        assert!(Target::for_device([u32::MAX, 9], &known).is_ok());
        assert_eq!(Target::Binary(90).option(), "--gpu-architecture=sm_90");
        assert_eq!(Target::Portable(86).option(), "--gpu-architecture=compute_86");
    }
}
