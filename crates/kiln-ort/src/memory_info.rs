//! Where memory is: names and numbers of devices, for description only.

use std::ffi::{CStr, CString, c_int};
use std::sync::OnceLock;

use crate::error::{Result, invalid};
use crate::seam::c_text;
use crate::seam::handle::kind;
use crate::seam::{Handle, Out, Text, entry};

/// The fields of an `OrtMemoryInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryInfo {
    name: CString,
    /// `OrtAllocatorType`: -1 invalid, 0 device, 1 arena, 2 read-only.
    allocator: c_int,
    id: c_int,
    /// `OrtMemType`: -2 input of the processor, -1 output, 0 default.
    kind: c_int,
    /// `OrtMemoryInfoDeviceType`: 0 processor, 1 GPU, 2 FPGA, 3 NPU.
    device: c_int,
    /// `OrtDeviceMemoryType`: 0 default, 5 readable by the processor.
    device_memory: c_int,
    vendor: u32,
}

kind!(MemoryInfo = "OrtMemoryInfo");

/// `OrtDeviceMemoryType` of a device's memory that the processor reads and writes.
const READABLE: c_int = 5;

/// The processor's memory, as onnxruntime names it.
const CPU: &CStr = c"Cpu";

/// Devices whose names are known, with their `OrtMemoryInfoDeviceType`.
const DEVICES: &[(&str, c_int)] = &[
    ("Cpu", 0),
    ("Cuda", 1),
    ("CudaPinned", 1),
    ("DML", 1),
    ("Hip", 1),
    ("HipPinned", 1),
    ("OpenVINO_GPU", 1),
    ("OpenVINO_RT_NPU", 3),
    ("QnnHtpShared", 0),
    ("WebGPU_Buffer", 1),
    ("WebGPU_Buf", 1),
    ("WebNN_Tensor", 1),
    ("WebNN_Ten", 1),
];

impl MemoryInfo {
    /// The info of the processor's memory, which is never released.
    pub(crate) fn cpu() -> Handle<MemoryInfo> {
        static CPU_MEMORY: OnceLock<Handle<MemoryInfo>> = OnceLock::new();
        *CPU_MEMORY.get_or_init(|| Handle::new(MemoryInfo::of_cpu(0, 0)).unwrap_or(Handle::NULL))
    }

    fn of_cpu(allocator: c_int, kind: c_int) -> MemoryInfo {
        MemoryInfo { name: CPU.to_owned(), allocator, id: 0, kind, device: 0, device_memory: 0, vendor: 0 }
    }

    /// Whether the processor reads and writes it.
    pub(crate) fn is_cpu(&self) -> bool {
        self.device == 0 || self.device_memory == READABLE
    }
}

/// Fails for numbers that are not of the header's enumerations.
fn checked(allocator: c_int, kind: c_int) -> Result<()> {
    if !(-1..=2).contains(&allocator) {
        return Err(invalid!("allocator type {allocator} is not known"));
    }
    if !(-2..=0).contains(&kind) {
        return Err(invalid!("memory type {kind} is not known"));
    }
    Ok(())
}

entry! {
    fn CreateMemoryInfo(name: Text, allocator: c_int, id: c_int, kind: c_int, out: Out<Handle<MemoryInfo>>) {
        let out = out.place("out")?;
        let name = name.read("name")?;
        checked(allocator, kind)?;
        let Some(&(_, device)) = DEVICES.iter().find(|(known, _)| *known == name) else {
            return Err(invalid!("Specified device is not supported. Try CreateMemoryInfo_V2. The name is '{name}'"));
        };
        let device_memory = if name.ends_with("Pinned") { READABLE } else { 0 };
        let name = c_text(&name);
        out.put(Handle::new(MemoryInfo { name, allocator, id, kind, device, device_memory, vendor: 0 })?);
        Ok(())
    }

    fn CreateMemoryInfo_V2(
        name: Text,
        device: c_int,
        vendor: u32,
        id: i32,
        device_memory: c_int,
        _alignment: usize,
        allocator: c_int,
        out: Out<Handle<MemoryInfo>>,
    ) {
        let out = out.place("out")?;
        let name = c_text(&name.read("name")?);
        checked(allocator, 0)?;
        if !(0..=3).contains(&device) {
            return Err(invalid!("device type {device} is not known"));
        }
        if ![0, READABLE].contains(&device_memory) {
            return Err(invalid!("device memory type {device_memory} is not known"));
        }
        // Memory of a device that the processor reads holds the device's output.
        let kind = if device_memory == READABLE { -1 } else { 0 };
        out.put(Handle::new(MemoryInfo { name, allocator, id, kind, device, device_memory, vendor })?);
        Ok(())
    }

    fn CreateCpuMemoryInfo(allocator: c_int, kind: c_int, out: Out<Handle<MemoryInfo>>) {
        let out = out.place("out")?;
        checked(allocator, kind)?;
        out.put(Handle::new(MemoryInfo::of_cpu(allocator, kind))?);
        Ok(())
    }

    fn CompareMemoryInfo(one: Handle<MemoryInfo>, other: Handle<MemoryInfo>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(if one.get("info1")? == other.get("info2")? { 0 } else { -1 });
        Ok(())
    }

    fn MemoryInfoGetName(info: Handle<MemoryInfo>, out: Out<Text>) {
        let out = out.place("out")?;
        // The text lives until the info is released.
        out.put(Text::within(&info.get("ptr")?.name));
        Ok(())
    }

    fn MemoryInfoGetId(info: Handle<MemoryInfo>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(info.get("ptr")?.id);
        Ok(())
    }

    fn MemoryInfoGetMemType(info: Handle<MemoryInfo>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(info.get("ptr")?.kind);
        Ok(())
    }

    fn MemoryInfoGetType(info: Handle<MemoryInfo>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(info.get("ptr")?.allocator);
        Ok(())
    }

    fn MemoryInfoGetDeviceType(info: Handle<MemoryInfo>, out: Out<c_int>) -> (), else () => {
        out.put_if_wanted(info.live().map_or(0, |info| info.device));
    }

    fn MemoryInfoGetDeviceMemType(info: Handle<MemoryInfo>) -> c_int, else 0 => {
        info.live().map_or(0, |info| info.device_memory)
    }

    fn MemoryInfoGetVendorId(info: Handle<MemoryInfo>) -> u32, else 0 => {
        info.live().map_or(0, |info| info.vendor)
    }

    fn ReleaseMemoryInfo(info: Handle<MemoryInfo>) -> (), else () => {
        // The info of the processor's memory stays as long as the process.
        if info.address() != MemoryInfo::cpu().address() {
            drop(info.release());
        }
    }
}
