//! The inventory of NVIDIA's software and devices: every library with its file, or why it is not used; every device, or
//! why there is none.
//!
//! It may run anywhere, with any folders; it never panics or aborts.

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute};

use super::OpenOptions;
use super::library::{Found, Libraries};
use super::status::check;
use crate::error::{KernelError, Result};
use crate::gpu::DeviceFacts;

/// NVIDIA's libraries and devices that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The driver, NVRTC, cuBLASLt and cuDNN, in that order.
    pub libraries: Vec<LibraryReport>,
    /// The devices, or why there are none.
    pub devices: std::result::Result<Vec<DeviceFacts>, String>,
}

/// One library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryReport {
    /// Its name.
    pub name: &'static str,
    /// Its purpose in Kiln.
    pub used_for: &'static str,
    /// The library that was found, or why none is used.
    pub found: std::result::Result<Found, String>,
}

/// Looks for libraries and devices.
#[must_use]
pub fn probe(options: &OpenOptions) -> Inventory {
    let libraries = Libraries::find(options);
    let devices = devices(&libraries, options).map_err(|error| error.to_string());
    let report = |name, used_for, found| LibraryReport { name, used_for, found };
    Inventory {
        libraries: vec![
            report("CUDA driver", "devices and memory", libraries.driver),
            report("NVRTC", "compiling kernels", libraries.nvrtc),
            report("cuBLASLt", "matrix products", libraries.cublaslt),
            report("cuDNN", "convolutions", libraries.cudnn),
        ],
        devices,
    }
}

fn devices(libraries: &Libraries, options: &OpenOptions) -> Result<Vec<DeviceFacts>> {
    initialise(libraries)?;
    let mut count = 0;
    // SAFETY: the driver is there and initialised, and writes one int.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    (0..u32::try_from(count).unwrap_or(0))
        .map(|ordinal| facts(ordinal, libraries, options).map(|(_, facts)| facts))
        .collect()
}

/// Starts the driver; no other function of it may be called before.
pub(super) fn initialise(libraries: &Libraries) -> Result<()> {
    if let Err(reason) = &libraries.driver {
        return Err(KernelError::Device { call: "CUDA driver", reason: reason.clone() });
    }
    // SAFETY: the driver is there. It may be initialised again and from any thread.
    check("cuInit", unsafe { sys::cuInit(0) })
}

/// A device and its facts. The driver is initialised.
pub(super) fn facts(ordinal: u32, libraries: &Libraries, options: &OpenOptions) -> Result<(CUdevice, DeviceFacts)> {
    let mut device = 0;
    let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
    // SAFETY: the driver is initialised, refuses numbers that no device has, and writes one int.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, number) })?;
    let attribute = |attribute: CUdevice_attribute| {
        let mut value = 0;
        // SAFETY: `device` is the driver's, which writes one int.
        check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) })?;
        Ok::<u32, KernelError>(u32::try_from(value).unwrap_or(0))
    };
    let mut memory = 0;
    // SAFETY: `device` is the driver's, which writes one size.
    check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory, device) })?;
    let version = |found: &std::result::Result<Found, String>| found.as_ref().map_or(0, |found| found.version);
    use CUdevice_attribute as A;
    let facts = DeviceFacts {
        name: name(device)?,
        ordinal,
        compute: [
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ],
        multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: u64::from(attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        memory_bytes: memory as u64,
        memory_clock: attribute(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        bus_width: attribute(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        driver: u32::try_from(version(&libraries.driver)).unwrap_or(0),
        nvrtc: u32::try_from(version(&libraries.nvrtc)).unwrap_or(0),
        cudnn: version(&libraries.cudnn),
        cudnn_cudart: libraries.cudnn_cudart,
        cublaslt: version(&libraries.cublaslt),
        environment: options.environment.clone(),
    };
    Ok((device, facts))
}

fn name(device: CUdevice) -> Result<String> {
    // Names are far shorter; the driver cuts them off and ends them with a zero.
    let mut bytes = [0u8; 256];
    // SAFETY: `device` is the driver's, which writes at most the number of bytes that it is told, one fewer than there
    // are.
    check("cuDeviceGetName", unsafe { sys::cuDeviceGetName(bytes.as_mut_ptr().cast(), 255, device) })?;
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}
