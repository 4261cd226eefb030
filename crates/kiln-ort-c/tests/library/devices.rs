//! Providers and devices of a build for processors.

use std::ffi::CStr;

use crate::api::{Api, call, list, text};
use crate::notes::Notes;

pub(crate) fn note(api: Api, notes: &mut Notes) {
    let environment = api.environment();
    providers(api, notes);
    devices(api, environment, notes);
    libraries(api, environment, notes);
    call!(api, ReleaseEnv, environment);
}

fn providers(api: Api, notes: &mut Notes) {
    let (mut names, mut count, mut made) = (0usize, 0i32, 0usize);
    api.ok(call!(api, GetAvailableProviders, &mut names, &mut count));
    let read: Vec<String> = list(names, count as usize).into_iter().map(text).collect();
    notes.note("the processor is a provider", read.iter().any(|name| name == "CPUExecutionProvider"));
    notes.note("others are", read.iter().any(|name| name.contains("CUDA")));
    notes.note("the list goes back", api.says(call!(api, ReleaseAvailableProviders, names, count), ""));
    let options = api.options();
    let append = |name: &CStr| call!(api, SessionOptionsAppendExecutionProvider, options, name, 0usize, 0usize, 0usize);
    for name in [
        c"CPU",
        c"CPUExecutionProvider",
        c"XNNPACK",
        c"DML",
        c"QNN",
        c"QNNExecutionProvider",
        c"OpenVINO",
        c"SNPE",
        c"WEBNN",
        c"WebGPU",
        c"JS",
        c"VitisAI",
        c"CoreML",
        c"NvTensorRtRtx",
        c"MIGraphX",
    ] {
        let said = name.to_str().unwrap();
        let words = format!("{said} execution provider is not supported in this build.");
        notes.note(&format!("provider {said}"), api.says(append(name), &words));
    }
    for name in [c"CUDA", c"CUDAExecutionProvider", c"TensorRT", c"NoSuch", c""] {
        let said = name.to_str().unwrap();
        notes.note(&format!("provider '{said}'"), api.says(append(name), &format!("Unknown provider name '{said}'")));
    }
    let words = "CUDA execution provider is not enabled in this build.";
    notes.note("CUDA options", api.says(call!(api, CreateCUDAProviderOptions, &mut made), words));
    let words = "TensorRT execution provider is not enabled in this build.";
    notes.note("TensorRT options", api.says(call!(api, CreateTensorRTProviderOptions, &mut made), words));
    let words = "Failed to load shared library";
    let block = [0usize; 64];
    notes.note("CUDA", api.says(call!(api, SessionOptionsAppendExecutionProvider_CUDA_V2, options, &block[..]), words));
    notes.note(
        "TensorRT",
        api.says(call!(api, SessionOptionsAppendExecutionProvider_TensorRT_V2, options, &block[..]), words),
    );
    let status = call!(api, SessionOptionsAppendExecutionProvider_OpenVINO_V2, options, 0usize, 0usize, 0usize);
    notes.note("OpenVINO", api.says(status, words));
    let words = "ROCM execution provider is not enabled in this build.";
    notes.note("ROCM", api.says(call!(api, SessionOptionsAppendExecutionProvider_ROCM, options, &block[..]), words));
    call!(api, ReleaseSessionOptions, options);
}

fn devices(api: Api, environment: usize, notes: &mut Notes) {
    let (mut devices, mut count) = (0usize, 0usize);
    api.ok(call!(api, GetEpDevices, environment, &mut devices, &mut count));
    let devices = list(devices, count);
    let named: Vec<String> = devices.iter().map(|device| text(call!(api, EpDevice_EpName, *device))).collect();
    let at = named.iter().position(|name| name == "CPUExecutionProvider");
    notes.note("the processor is a device", at.is_some());
    let device = devices[at.unwrap()];
    let hardware = call!(api, EpDevice_Device, device);
    notes.note("of the type", call!(api, HardwareDevice_Type, hardware) as i32);
    notes.note("of a vendor with a name", text(call!(api, EpDevice_EpVendor, device)) != "null");
    notes.note("with metadata", call!(api, EpDevice_EpMetadata, device) != 0);
    notes.note("with options", call!(api, EpDevice_EpOptions, device) != 0);
    let options = api.options();
    let status = call!(
        api,
        SessionOptionsAppendExecutionProvider_V2,
        options,
        environment,
        &devices[at.unwrap()..],
        1usize,
        0usize,
        0usize,
        0usize
    );
    notes.note("a session on the device", api.says(status, ""));
    let policy = |policy: i32| call!(api, SessionOptionsSetEpSelectionPolicy, options, policy);
    notes.note("a policy", api.says(policy(1), ""));
    call!(api, ReleaseSessionOptions, options);
}

fn libraries(api: Api, environment: usize, notes: &mut Notes) {
    let options = api.options();
    let status = call!(api, RegisterCustomOpsLibrary_V2, options, c"/no/such.so");
    notes.note("a library of operators that is not there", api.taken(status).map_or(0, |(code, _)| code));
    let status = call!(api, RegisterExecutionProviderLibrary, environment, c"x", c"/no/such.so");
    notes.note("a library of a provider that is not there", api.taken(status).map_or(0, |(code, _)| code));
    call!(api, ReleaseSessionOptions, options);
}
