//! Kernels of [`source`](crate::gpu::source) on the processor: compiled by gcc, loaded, and run thread by thread.
//!
//! The source is put between two files: `before.c` defines its macros, and threads as fibers, which barriers and
//! shuffles switch between; `behind.c` loops over grid and block. Behaviour that CUDA leaves undefined (barriers that
//! only some threads reach, shuffles in which only a part of a warp takes part) is an error of the launch here. Kernels
//! get addresses of this process; as on a device, nothing checks that they stay inside of their regions.
//!
//! Compiled libraries are kept by their source while the process lives, up to a bound.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{KernelError, Result};
use crate::gpu::source::PRELUDE;
use crate::gpu::{Arg, Launch, Module, Source};

/// Libraries kept: a test run has a few hundred sources.
const KEPT: usize = 1024;

/// Most threads of a block and most blocks along an axis, the same as on every device.
const MOST_THREADS: u64 = 1024;
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, u16::MAX as u32, u16::MAX as u32];

/// `kiln_launch` of `behind.c`.
type Entry = unsafe extern "C" fn(*mut *mut c_void, *const u32, *const u32) -> c_int;

/// A kernel that runs on the processor.
#[derive(Debug)]
struct Compiled {
    library: Arc<Library>,
    parameters: Vec<String>,
}

/// A loaded library.
#[derive(Debug)]
struct Library {
    entry: Entry,
    /// Bytes of each parameter.
    sizes: Vec<u64>,
    bytes: usize,
    /// Held during a launch, because indices, shared memory and fibers are variables of the library.
    running: Mutex<()>,
    /// The library that holds `entry`'s code.
    _loaded: libloading::Library,
}

fn failed(call: &'static str, reason: impl std::fmt::Display) -> KernelError {
    KernelError::Device { call, reason: reason.to_string() }
}

/// Compiles a kernel for the processor.
///
/// # Errors
///
/// [`KernelError::Device`] with gcc's messages, or where gcc is missing.
pub fn compile(source: &Source) -> Result<Arc<dyn Module>> {
    static LIBRARIES: OnceLock<Mutex<HashMap<String, Arc<Library>>>> = OnceLock::new();
    let text = whole(source);
    let libraries = LIBRARIES.get_or_init(Mutex::default);
    let kept = libraries.lock().unwrap_or_else(PoisonError::into_inner).get(&text).cloned();
    let library = match kept {
        Some(library) => library,
        None => {
            let library = Arc::new(build(&text, source.parameters.len())?);
            let mut libraries = libraries.lock().unwrap_or_else(PoisonError::into_inner);
            if libraries.len() >= KEPT {
                libraries.clear();
            }
            libraries.insert(text, library.clone());
            library
        }
    };
    Ok(Arc::new(Compiled { library, parameters: source.parameters.clone() }))
}

/// The source for gcc.
fn whole(source: &Source) -> String {
    let own = source.text.replace(PRELUDE, "");
    let fibers = if own.contains("KILN_SYNC") || own.contains("KILN_SHUFFLE") { "#define KILN_FIBERS 1\n" } else { "" };
    let arguments: Vec<String> = (0..source.parameters.len())
        .map(|index| format!("*({}*)kiln_args[{index}]", source.parameters[index]))
        .collect();
    let sizes: Vec<String> = source.parameters.iter().map(|kind| format!("sizeof({kind}), ")).collect();
    format!(
        "{fibers}{}{}\nstatic void **kiln_args;\nstatic void kiln_body(void) {{ {}({}); }}\n\
         const unsigned long long kiln_sizes[] = {{ {}0 }};\n{}",
        include_str!("compiler/before.c"),
        source.text,
        source.entry,
        arguments.join(", "),
        sizes.concat(),
        include_str!("compiler/behind.c"),
    )
}

fn build(text: &str, parameters: usize) -> Result<Library> {
    let folder = tempfile::tempdir().map_err(|error| failed("a folder for gcc", error))?;
    let (from, to) = (folder.path().join("kernel.c"), folder.path().join("kernel.so"));
    std::fs::write(&from, text).map_err(|error| failed("a file for gcc", error))?;
    // No contraction, so that results follow the formulas; no strict aliasing, because addresses are cast.
    let flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off"];
    let flags = flags.iter().chain(&["-U_FORTIFY_SOURCE", "-fcf-protection=none", "-w", "-o"]);
    let output = Command::new("gcc").args(flags).arg(&to).arg(&from).arg("-lm").output();
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("gcc", "there is none, and the emulated device compiles with it"),
        _ => failed("gcc", error),
    })?;
    if !output.status.success() {
        return Err(failed("gcc", String::from_utf8_lossy(&output.stderr)));
    }
    load(&to, parameters)
}

fn load(path: &Path, parameters: usize) -> Result<Library> {
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len() as usize);
    // SAFETY: the library was just compiled from a text of ours; it has no code that runs when it is loaded.
    let loaded = unsafe { libloading::Library::new(path) }.map_err(|error| failed("loading a kernel", error))?;
    // SAFETY: `behind.c` defines the function with this signature.
    let entry = *unsafe { loaded.get::<Entry>(b"kiln_launch") }.map_err(|error| failed("loading a kernel", error))?;
    // SAFETY: `whole` defines an array with at least one such number; a symbol's pointer is its address.
    let sizes = unsafe { loaded.get::<*const u64>(b"kiln_sizes") };
    let sizes = *sizes.map_err(|error| failed("loading a kernel", error))?;
    // SAFETY: the array has one number more than there are parameters, and lives as long as the loaded library.
    let sizes = unsafe { std::slice::from_raw_parts(sizes, parameters) }.to_vec();
    Ok(Library { entry, sizes, bytes, running: Mutex::new(()), _loaded: loaded })
}

impl Compiled {
    /// The bytes of an argument, which must be of the parameter's type.
    fn argument(&self, index: usize, arg: &Arg<'_>) -> Result<Vec<u64>> {
        let kind = self.parameters[index].as_str();
        let fits = match arg {
            Arg::Memory(_) => kind.ends_with('*'),
            Arg::I32(_) => kind == "int",
            Arg::I64(_) => kind == "long long",
            Arg::F32(_) => kind == "float",
            Arg::Bytes(bytes) => bytes.len() as u64 == self.library.sizes[index],
        };
        if !fits {
            let reason = format!("argument {index} is {arg:?}, but the kernel's parameter is {kind}");
            return Err(KernelError::Unsupported { family: "emulated device", reason });
        }
        Ok(match *arg {
            Arg::Memory(region) => vec![region.map_or(0, crate::gpu::Region::address)],
            Arg::I32(value) => vec![u64::from(value as u32)],
            Arg::I64(value) => vec![value as u64],
            Arg::F32(value) => vec![u64::from(value.to_bits())],
            Arg::Bytes(bytes) => {
                let mut words = vec![0u64; bytes.len().div_ceil(8)];
                bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
                words
            }
        })
    }
}

impl Module for Compiled {
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let refused = |reason: String| KernelError::Unsupported { family: "emulated device", reason };
        if launch.args.len() != self.parameters.len() {
            return Err(refused(format!("{} arguments for {:?}", launch.args.len(), self.parameters)));
        }
        let threads = launch.block.iter().fold(1u64, |threads, &size| threads.saturating_mul(u64::from(size)));
        let blocks_fit = launch.grid.iter().zip(MOST_BLOCKS).all(|(&blocks, most)| (1..=most).contains(&blocks));
        if !blocks_fit || !(1..=MOST_THREADS).contains(&threads) || launch.block[2] > 64 {
            return Err(refused(format!("a grid of {:?} blocks of {:?}", launch.grid, launch.block)));
        }
        let arguments = launch.args.iter().enumerate().map(|(index, arg)| self.argument(index, arg));
        let mut arguments = arguments.collect::<Result<Vec<Vec<u64>>>>()?;
        let mut pointers: Vec<*mut c_void> = arguments.iter_mut().map(|words| words.as_mut_ptr().cast()).collect();
        let _running = self.library.running.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: there is a pointer for each parameter, to the bytes of that parameter, aligned for every C type of a
        // parameter; grid and block have three numbers each; the lock keeps other launches out. The kernel's accesses
        // stay within the regions that its launcher measured.
        let status =
            unsafe { (self.library.entry)(pointers.as_mut_ptr(), launch.grid.as_ptr(), launch.block.as_ptr()) };
        let reason = match status {
            0 => return Ok(()),
            1 => "a barrier that only some of a block's threads reached",
            2 => "a shuffle that only some of a warp's threads took part in",
            3 => "shuffles or barriers in a block that is no whole number of warps",
            _ => "no memory for the threads' stacks",
        };
        Err(failed("a launch", reason))
    }

    fn size(&self) -> usize {
        self.library.bytes
    }
}

#[cfg(test)]
mod tests;
