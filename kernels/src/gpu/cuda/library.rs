//! Which of NVIDIA's libraries may be called. Every other file of this folder asks here first.
//!
//! cudarc loads a library at its first call, and panics where the library or a function of it is missing; cuDNN aborts
//! the process where parts of it, or cuBLASLt, cannot be loaded. So each library is loaded here first, by the names
//! that cudarc tries and in the same order, is checked for all functions that this folder calls, and is called only
//! after that. A loaded library stays loaded.
//!
//! The caller's folders are searched before the loader's: when a file has been loaded by its full path, its SONAME
//! gives the same file, to cudarc and to the libraries themselves. cudarc asks for the name without a version first.
//! Where one of the loader's own folders has a file of that name, the loader takes it, and the report says which file
//! of the caller's was passed over.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use cudarc::{cublaslt, cudnn, driver, nvrtc};
use libloading::Library as Loaded;

use super::OpenOptions;

/// One of NVIDIA's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// libcuda, which comes with the kernel's driver.
    Driver,
    /// The compiler.
    Nvrtc,
    /// Matrix products.
    CublasLt,
    /// Convolutions.
    Cudnn,
}

/// A library that may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its own version number: 13000 is CUDA 13.0, 91900 is cuDNN 9.19.0.
    pub version: u64,
    /// The file that it was loaded from, where the loader reports it.
    pub path: Option<PathBuf>,
    /// A file in a folder that the caller named, which is not used because the loader has another of a name that is
    /// asked for earlier.
    pub passed_over: Option<PathBuf>,
}

/// A library that is loaded and complete, and its files as [`Found`] has them.
struct Opened {
    library: Loaded,
    path: Option<PathBuf>,
    passed_over: Option<PathBuf>,
}

/// All libraries: each one, or the reason why it may not be called.
#[derive(Clone, Debug)]
pub(super) struct Libraries {
    pub(super) driver: Result<Found, String>,
    pub(super) nvrtc: Result<Found, String>,
    pub(super) cublaslt: Result<Found, String>,
    pub(super) cudnn: Result<Found, String>,
    /// The CUDA run time that cuDNN was built for; 0 without cuDNN.
    pub(super) cudnn_cudart: u64,
}

/// Parts of cuDNN that it loads by itself, and aborts without.
const CUDNN_PARTS: [&str; 6] = ["graph", "ops", "cnn", "heuristic", "engines_precompiled", "engines_runtime_compiled"];

impl Library {
    /// Its file's name without `lib` and `.so`.
    fn stem(self) -> &'static str {
        match self {
            Library::Driver => "cuda",
            Library::Nvrtc => "nvrtc",
            Library::CublasLt => "cublasLt",
            Library::Cudnn => "cudnn",
        }
    }

    /// Every function of the library that this folder calls; a test compares the list.
    pub(super) fn functions(self) -> &'static [&'static str] {
        match self {
            Library::Driver => &[
                "cuCtxSetCurrent",
                "cuDeviceGet",
                "cuDeviceGetAttribute",
                "cuDeviceGetCount",
                "cuDeviceGetName",
                "cuDevicePrimaryCtxRelease_v2",
                "cuDevicePrimaryCtxRetain",
                "cuDeviceTotalMem_v2",
                "cuDriverGetVersion",
                "cuEventCreate",
                "cuEventDestroy_v2",
                "cuEventElapsedTime_v2",
                "cuEventRecord",
                "cuEventSynchronize",
                "cuFuncGetParamInfo",
                "cuInit",
                "cuLaunchKernel",
                "cuMemAlloc_v2",
                "cuMemFree_v2",
                "cuMemGetInfo_v2",
                "cuMemcpyDtoHAsync_v2",
                "cuMemcpyHtoDAsync_v2",
                "cuModuleGetFunction",
                "cuModuleLoadData",
                "cuModuleUnload",
                "cuStreamCreate",
                "cuStreamDestroy_v2",
                "cuStreamSynchronize",
            ],
            Library::Nvrtc => &[
                "nvrtcCompileProgram",
                "nvrtcCreateProgram",
                "nvrtcDestroyProgram",
                "nvrtcGetCUBIN",
                "nvrtcGetCUBINSize",
                "nvrtcGetNumSupportedArchs",
                "nvrtcGetPTX",
                "nvrtcGetPTXSize",
                "nvrtcGetProgramLog",
                "nvrtcGetProgramLogSize",
                "nvrtcGetSupportedArchs",
                "nvrtcVersion",
            ],
            Library::CublasLt => &[
                "cublasLtCreate",
                "cublasLtDestroy",
                "cublasLtGetCudartVersion",
                "cublasLtGetVersion",
                "cublasLtMatmul",
                "cublasLtMatmulAlgoCheck",
                "cublasLtMatmulAlgoConfigGetAttribute",
                "cublasLtMatmulAlgoGetHeuristic",
                "cublasLtMatmulDescCreate",
                "cublasLtMatmulDescDestroy",
                "cublasLtMatmulDescSetAttribute",
                "cublasLtMatmulPreferenceCreate",
                "cublasLtMatmulPreferenceDestroy",
                "cublasLtMatmulPreferenceSetAttribute",
                "cublasLtMatrixLayoutCreate",
                "cublasLtMatrixLayoutDestroy",
                "cublasLtMatrixLayoutSetAttribute",
            ],
            Library::Cudnn => &[
                "cudnnBackendCreateDescriptor",
                "cudnnBackendDestroyDescriptor",
                "cudnnBackendExecute",
                "cudnnBackendFinalize",
                "cudnnBackendGetAttribute",
                "cudnnBackendSetAttribute",
                "cudnnConvolutionBackwardData",
                "cudnnConvolutionBiasActivationForward",
                "cudnnConvolutionForward",
                "cudnnCreate",
                "cudnnCreateActivationDescriptor",
                "cudnnCreateConvolutionDescriptor",
                "cudnnCreateFilterDescriptor",
                "cudnnCreateTensorDescriptor",
                "cudnnDestroy",
                "cudnnDestroyActivationDescriptor",
                "cudnnDestroyConvolutionDescriptor",
                "cudnnDestroyFilterDescriptor",
                "cudnnDestroyTensorDescriptor",
                "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                "cudnnGetConvolutionBackwardDataWorkspaceSize",
                "cudnnGetConvolutionForwardAlgorithm_v7",
                "cudnnGetConvolutionForwardWorkspaceSize",
                "cudnnGetCudartVersion",
                "cudnnGetVersion",
                "cudnnSetActivationDescriptor",
                "cudnnSetConvolutionGroupCount",
                "cudnnSetConvolutionMathType",
                "cudnnSetConvolutionNdDescriptor",
                "cudnnSetFilterNdDescriptor",
                "cudnnSetStream",
                "cudnnSetTensorNdDescriptor",
            ],
        }
    }

    /// Loads the library and checks that it is complete.
    fn load(self, dirs: &[PathBuf]) -> Result<Opened, String> {
        let (mut refused, mut wished) = (Vec::new(), None);
        let names = cudarc::get_lib_name_candidates(self.stem());
        for dir in dirs {
            // A relative folder without a slash would be taken for a name to look for.
            let Ok(dir) = std::path::absolute(dir) else { continue };
            for path in names.iter().map(|name| dir.join(name)).filter(|path| path.is_file()) {
                match load(&path).map(std::mem::forget) {
                    Ok(()) => wished = wished.or(Some(path)),
                    Err(reason) => refused.push(reason),
                }
            }
        }
        for name in &names {
            let loaded = match load(Path::new(name)) {
                Ok(loaded) => loaded,
                // One error for all names says that there is no such file.
                Err(reason) if reason.contains("No such file") => continue,
                Err(reason) => {
                    refused.push(reason);
                    continue;
                }
            };
            let missing = self.functions().iter().find(|function| !has(&loaded, function));
            let path = file_of(&loaded, self.functions()[0]);
            if let Some(missing) = missing {
                let file = path.map_or(name.clone(), |path| path.display().to_string());
                return Err(format!("{file} is too old: it lacks {missing}"));
            }
            let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
            let passed_over = wished.filter(|wished| real(wished) != path.as_ref().and_then(real));
            return Ok(Opened { library: loaded, path, passed_over });
        }
        refused.dedup();
        let nowhere = format!("no {} in the loader's folders", names.last().map_or(self.stem(), String::as_str));
        Err(if refused.is_empty() { nowhere } else { refused.join("; ") })
    }

    /// The library, with its version; cuDNN is only requested through [`Libraries::find`].
    fn find(self, dirs: &[PathBuf]) -> Result<Found, String> {
        let Opened { library, path, passed_over } = self.load(dirs)?;
        // cudarc keeps pointers into the library, and its work may run at any time.
        std::mem::forget(library);
        // SAFETY: loading runs the initialisers of a library that was just loaded, which do nothing a second time.
        let present = unsafe {
            match self {
                Library::Driver => driver::sys::is_culib_present(),
                Library::Nvrtc => nvrtc::sys::is_culib_present(),
                Library::CublasLt => cublaslt::sys::is_culib_present(),
                Library::Cudnn => cudnn::sys::is_culib_present(),
            }
        };
        if !present {
            return Err("it was loaded, but cudarc does not find it".to_owned());
        }
        let version = self.version().ok_or_else(|| "it does not tell its version".to_owned())?;
        Ok(Found { version, path, passed_over })
    }

    /// The version of a library that is loaded and complete.
    fn version(self) -> Option<u64> {
        match self {
            Library::Driver => {
                let mut version = 0;
                // SAFETY: the function is there, and writes one int. It needs no initialised driver.
                let status = unsafe { driver::sys::cuDriverGetVersion(&raw mut version) };
                (status == driver::sys::CUresult::CUDA_SUCCESS).then(|| u64::try_from(version).ok()).flatten()
            }
            Library::Nvrtc => {
                let (mut major, mut minor) = (0, 0);
                // SAFETY: the function is there, and writes two ints.
                let status = unsafe { nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) };
                let version = u64::try_from(major).ok()? * 1000 + u64::try_from(minor).ok()? * 10;
                (status == nvrtc::sys::nvrtcResult::NVRTC_SUCCESS).then_some(version)
            }
            // SAFETY: the function is there, and takes nothing.
            Library::CublasLt => Some(unsafe { cublaslt::sys::cublasLtGetVersion() } as u64),
            // SAFETY: the function is there, and takes nothing; the parts of the library that it calls were loaded.
            Library::Cudnn => Some(unsafe { cudnn::sys::cudnnGetVersion() } as u64),
        }
    }
}

impl Libraries {
    /// Looks for all libraries.
    pub(super) fn find(options: &OpenOptions) -> Libraries {
        let dirs = &options.library_dirs;
        let [driver, nvrtc, cublaslt] =
            [Library::Driver, Library::Nvrtc, Library::CublasLt].map(|library| library.find(dirs));
        let (cudnn, cudnn_cudart) = match find_cudnn(dirs, cublaslt.is_ok()) {
            Ok((found, cudart)) => (Ok(found), cudart),
            Err(reason) => (Err(reason), 0),
        };
        Libraries { driver, nvrtc, cublaslt, cudnn, cudnn_cudart }
    }
}

/// cuDNN, which aborts the process where one of its parts or cuBLASLt of its own CUDA version cannot be loaded.
fn find_cudnn(dirs: &[PathBuf], with_cublaslt: bool) -> Result<(Found, u64), String> {
    if !with_cublaslt {
        return Err("not used without cuBLASLt, for want of which it would abort the process".to_owned());
    }
    let Opened { library, path, .. } = Library::Cudnn.load(dirs)?;
    std::mem::forget(library);
    for part in CUDNN_PARTS {
        let name = format!("libcudnn_{part}.so.9");
        // Beside the file itself, as its own search path says, and otherwise where the loader looks.
        let beside = path.as_deref().and_then(Path::parent).map(|dir| dir.join(&name)).filter(|path| path.is_file());
        let part = load(&beside.unwrap_or_else(|| name.clone().into()));
        std::mem::forget(part.map_err(|reason| format!("not used, for want of a part: {reason}"))?);
    }
    // SAFETY: both functions are there and take nothing, and the libraries that they may call were loaded.
    let [own, of_cublaslt] = unsafe {
        [cudnn::sys::cudnnGetCudartVersion() as u64 / 1000, cublaslt::sys::cublasLtGetCudartVersion() as u64 / 1000]
    };
    if own != of_cublaslt {
        return Err(format!("built for CUDA {own}, and not used because cuBLASLt is of CUDA {of_cublaslt}"));
    }
    let needed = format!("libcublasLt.so.{own}");
    std::mem::forget(load(Path::new(&needed)).map_err(|reason| format!("not used without {needed}: {reason}"))?);
    let found = Library::Cudnn.find(dirs)?;
    // SAFETY: as above.
    Ok((found, unsafe { cudnn::sys::cudnnGetCudartVersion() } as u64))
}

/// Loads a file by its path or its name; the error is the loader's message.
fn load(file: &Path) -> Result<Loaded, String> {
    // SAFETY: a library's initialisers run. The library is NVIDIA's, or stands in its place in a folder that the
    // process's user or its loader's configuration names: it is trusted as far as the program itself.
    unsafe { Loaded::new(file) }.map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        source.unwrap_or_else(|| format!("{}: {error}", file.display()))
    })
}

fn has(library: &Loaded, function: &str) -> bool {
    // SAFETY: the symbol is looked for and not used.
    unsafe { library.get::<*const c_void>(function) }.is_ok()
}

/// The result of `dladdr` for an address.
#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *const c_void,
    name: *const c_char,
    address: *const c_void,
}

unsafe extern "C" {
    // A function of the C library, which every program on this system is linked with.
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The file that a function was loaded from.
fn file_of(library: &Loaded, function: &str) -> Option<PathBuf> {
    let mut info =
        DlInfo { file: std::ptr::null(), base: std::ptr::null(), name: std::ptr::null(), address: std::ptr::null() };
    // SAFETY: a function's address is a pointer's; it is looked up and not called. `dladdr` writes the structure, whose
    // text lives as long as the library, which is loaded here.
    unsafe {
        let address = library.get::<*const c_void>(function).ok()?;
        if dladdr(*address, &raw mut info) == 0 || info.file.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.file).to_string_lossy().into_owned().into())
    }
}
