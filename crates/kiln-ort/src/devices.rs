//! Devices: there is one, the processor.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::env::Env;
use crate::error::{Error, Result, failed, invalid};
use crate::keyvalue::Pairs;
use crate::memory_info::MemoryInfo;
use crate::options::Settings;
use crate::seam::handle::kind;
use crate::seam::{Allocator, Handle, List, Memory, Out, Text, entry};
use crate::session::{Model, everywhere};
use crate::value::Value;

/// `OrtHardwareDevice`.
pub(crate) struct Hardware {
    metadata: Handle<Pairs>,
}

/// `OrtEpDevice`.
pub(crate) struct EpDevice {
    hardware: Handle<Hardware>,
    options: Handle<Pairs>,
    metadata: Handle<Pairs>,
}

kind!(Hardware = "OrtHardwareDevice", EpDevice = "OrtEpDevice");

impl EpDevice {
    /// The processor, which is never released.
    fn cpu() -> Handle<EpDevice> {
        static DEVICE: OnceLock<Handle<EpDevice>> = OnceLock::new();
        *DEVICE.get_or_init(|| EpDevice::make().unwrap_or(Handle::NULL))
    }

    fn make() -> Result<Handle<EpDevice>> {
        let [of_hardware, options, metadata] = [(); 3].map(|()| Handle::new(Pairs::default()));
        let hardware = Handle::new(Hardware { metadata: of_hardware? })?;
        Handle::new(EpDevice { hardware, options: options?, metadata: metadata? })
    }

    /// The list of all devices.
    fn all() -> &'static [Handle<EpDevice>] {
        static ALL: OnceLock<[Handle<EpDevice>; 1]> = OnceLock::new();
        ALL.get_or_init(|| [EpDevice::cpu()])
    }
}

/// Fails for a stream: the processor has none.
fn no_stream(name: &str) -> Result<()> {
    Err(Error::not_implemented(name))
}

/// The processor's vendor as PCI numbers it, and its name.
fn vendor() -> (u32, Text) {
    let vendor = raw_cpuid::CpuId::new().get_vendor_info();
    match vendor.as_ref().map(raw_cpuid::VendorInfo::as_str) {
        Some("AuthenticAMD") => (0x1022, Text::within(c"AMD")),
        Some("GenuineIntel") => (0x8086, Text::within(c"Intel")),
        _ => (0, Text::within(c"")),
    }
}

entry! {
    fn GetEpDevices(env: Handle<Env>, devices: Out<List<Handle<EpDevice>>>, count: Out<usize>) {
        let (devices, count) = (devices.place("ep_devices")?, count.place("num_ep_devices")?);
        let _ = env.get("env")?;
        devices.put(List::lent(EpDevice::all()));
        count.put(EpDevice::all().len());
        Ok(())
    }

    fn SessionGetEpDeviceForInputs(session: Handle<Model>, devices: Out<Handle<EpDevice>>, count: usize) {
        everywhere(session.get("session")?.inputs.len(), devices, count, EpDevice::cpu(), "inputs_ep_devices")
    }

    fn SessionGetEpDeviceForOutputs(session: Handle<Model>, devices: Out<Handle<EpDevice>>, count: usize) {
        everywhere(session.get("session")?.outputs.len(), devices, count, EpDevice::cpu(), "outputs_ep_devices")
    }

    fn SessionOptionsAppendExecutionProvider_V2(
        settings: Handle<Settings>,
        env: Handle<Env>,
        devices: List<Handle<EpDevice>>,
        count: usize,
        _keys: List<Text>,
        _values: List<Text>,
        _options: usize,
    ) {
        let _ = (settings.get("session_options")?, env.get("env")?);
        if count == 0 {
            return Err(invalid!("Empty list of OrtEpDevice was provided."));
        }
        devices.read(count, "ep_devices")?.iter().try_for_each(|device| device.get("ep_devices").map(drop))
    }

    fn SessionOptionsSetEpSelectionPolicy(settings: Handle<Settings>, policy: c_int) {
        let _ = settings.get("session_options")?;
        // All policies choose the processor, the only device.
        if (0..=6).contains(&policy) { Ok(()) } else { Err(invalid!("policy {policy} is not known")) }
    }

    fn SessionOptionsSetEpSelectionPolicyDelegate(settings: Handle<Settings>, _delegate: Memory, _state: Memory) {
        settings.get("session_options").map(drop)
    }

    fn SetEpDynamicOptions(session: Handle<Model>, _keys: List<Text>, _values: List<Text>, count: usize) {
        let _ = session.get("sess")?;
        if count == 0 { Err(invalid!("no imputs were passed")) } else { no_stream("SetEpDynamicOptions") }
    }

    fn RegisterExecutionProviderLibrary(env: Handle<Env>, name: Text, path: Text) {
        let _ = (env.get("env")?, name.read("registration_name")?);
        let path = path.path("path")?;
        if !path.exists() {
            return Err(failed!("Failed to load library {} with error: there is no such file", path.display()));
        }
        let reason = format!("execution providers of a library are not implemented by Kiln: {}", path.display());
        Err(Error::new(crate::error::Code::NotImplemented, reason))
    }

    fn UnregisterExecutionProviderLibrary(env: Handle<Env>, name: Text) {
        let _ = env.get("env")?;
        Err(failed!("no execution provider library was registered as '{}'", name.read("registration_name")?))
    }

    fn GetNumHardwareDevices(env: Handle<Env>, count: Out<usize>) {
        let count = count.place("num_devices")?;
        let _ = env.get("env")?;
        count.put(1);
        Ok(())
    }

    fn GetHardwareDevices(env: Handle<Env>, devices: Out<Handle<Hardware>>, count: usize) {
        let _ = env.get("env")?;
        let device = EpDevice::cpu().get("device")?;
        devices.fill(count, &[device.hardware], "devices")
    }

    fn HardwareDevice_Type(_device: Handle<Hardware>) -> c_int, else 0 => {
        0
    }

    fn HardwareDevice_VendorId(_device: Handle<Hardware>) -> u32, else 0 => {
        vendor().0
    }

    fn HardwareDevice_Vendor(_device: Handle<Hardware>) -> Text, else Text::within(c"") => {
        vendor().1
    }

    fn HardwareDevice_DeviceId(_device: Handle<Hardware>) -> u32, else 0 => {
        0
    }

    fn HardwareDevice_Metadata(device: Handle<Hardware>) -> Handle<Pairs>, else Handle::NULL => {
        device.live().map_or(Handle::NULL, |device| device.metadata)
    }

    fn EpDevice_EpName(device: Handle<EpDevice>) -> Text, else Text::within(c"") => {
        device.live().map_or(Text::within(c""), |_| Text::within(c"CPUExecutionProvider"))
    }

    fn EpDevice_EpVendor(device: Handle<EpDevice>) -> Text, else Text::within(c"") => {
        device.live().map_or(Text::within(c""), |_| Text::within(c"Kiln"))
    }

    fn EpDevice_EpMetadata(device: Handle<EpDevice>) -> Handle<Pairs>, else Handle::NULL => {
        device.live().map_or(Handle::NULL, |device| device.metadata)
    }

    fn EpDevice_EpOptions(device: Handle<EpDevice>) -> Handle<Pairs>, else Handle::NULL => {
        device.live().map_or(Handle::NULL, |device| device.options)
    }

    fn EpDevice_Device(device: Handle<EpDevice>) -> Handle<Hardware>, else Handle::NULL => {
        device.live().map_or(Handle::NULL, |device| device.hardware)
    }

    fn EpDevice_MemoryInfo(device: Handle<EpDevice>, _kind: c_int) -> Handle<MemoryInfo>, else Handle::NULL => {
        device.live().map_or(Handle::NULL, |_| MemoryInfo::cpu())
    }

    fn CreateSharedAllocator(
        env: Handle<Env>,
        device: Handle<EpDevice>,
        _kind: c_int,
        _allocator_kind: c_int,
        options: Handle<Pairs>,
        out: Out<Allocator>,
    ) {
        let _ = (env.get("env")?, device.get("ep_device")?, options.optional("allocator_options")?);
        out.put_if_wanted(Allocator::default());
        Ok(())
    }

    fn ReleaseSharedAllocator(env: Handle<Env>, device: Handle<EpDevice>, _kind: c_int) {
        let _ = (env.get("env")?, device.get("ep_device")?);
        Ok(())
    }

    fn CreateSyncStreamForEpDevice(device: Handle<EpDevice>, _options: Handle<Pairs>, _out: Out<Memory>) {
        let _ = device.get("ep_device")?;
        no_stream("CreateSyncStreamForEpDevice")
    }

    fn CopyTensors(
        env: Handle<Env>,
        from: List<Handle<Value>>,
        to: List<Handle<Value>>,
        _stream: Memory,
        count: usize,
    ) {
        let _ = env.get("env")?;
        let (from, to) = (from.read(count, "src_tensors")?, to.read(count, "dst_tensors")?);
        for (from, to) in from.iter().zip(to) {
            let (from, to) = (from.get("src_tensors")?, to.get("dst_tensors")?);
            crate::run::copy(&from, &to)?;
        }
        Ok(())
    }
}
