//! Execution providers. Only the processor's exists; a program that asks for another gets an error with the words that
//! it looks for.

use std::ffi::c_int;

use crate::error::{Code, Error, Result, failed, invalid};
use crate::options::Settings;
use crate::seam::allocator::{free_block, text_block};
use crate::seam::{Allocator, Chars, Handle, List, Memory, Out, Text, entry};

/// The provider of the processor, by onnxruntime's name.
pub(crate) const CPU: &str = "CPUExecutionProvider";

/// Providers that onnxruntime's builds may lack, by the short names that programs give.
const KNOWN: &[&str] = &[
    "DML",
    "QNN",
    "OpenVINO",
    "SNPE",
    "XNNPACK",
    "WEBNN",
    "WebGPU",
    "AZURE",
    "JS",
    "VitisAI",
    "CoreML",
    "NvTensorRtRtx",
    "MIGraphX",
];

/// The error for a provider that does not exist here.
fn absent(name: &str) -> Error {
    let short = name.strip_suffix("ExecutionProvider").unwrap_or(name);
    if KNOWN.contains(&short) {
        return invalid!("{name} execution provider is not supported in this build. ");
    }
    let known: Vec<String> = KNOWN.iter().map(|known| format!("'{known}'/'{known}ExecutionProvider'")).collect();
    invalid!("Unknown provider name '{name}'. Currently supported values are {}", known.join(", "))
}

/// The error of an entry that belongs to one provider.
fn not_enabled(provider: &str) -> Error {
    failed!("{provider} execution provider is not enabled in this build. ")
}

/// The error for a provider that would be a separate library.
fn no_library(entry: &str, settings: Handle<Settings>) -> Result<()> {
    let _ = settings.get("options")?;
    Err(failed!("{entry}: Failed to load shared library"))
}

/// Options of a provider that does not exist here; no caller can have such options.
fn options(provider: &str) -> Result<()> {
    Err(not_enabled(provider))
}

entry! {
    fn GetAvailableProviders(out: Out<Out<Chars>>, count: Out<c_int>) {
        let (out, count) = (out.place("out_ptr")?, count.place("provider_length")?);
        out.put(Out::from_raw(text_block(&[CPU])?));
        count.put(1);
        Ok(())
    }

    fn ReleaseAvailableProviders(names: Out<Chars>, _count: c_int) {
        free_block(names.raw());
        Ok(())
    }

    fn SessionOptionsAppendExecutionProvider(
        settings: Handle<Settings>,
        name: Text,
        keys: List<Text>,
        values: List<Text>,
        count: usize,
    ) {
        let _ = settings.get("options")?;
        let name = name.read("provider_name")?;
        let _ = (keys.read(count, "provider_options_keys")?, values.read(count, "provider_options_values")?);
        if name == "CPU" || name == CPU { Ok(()) } else { Err(absent(&name)) }
    }

    fn GetExecutionProviderApi(name: Text, _version: u32, _out: Out<Memory>) {
        let name = name.read("provider_name")?;
        Err(failed!("{name} is not supported in this build"))
    }

    fn SessionOptionsAppendExecutionProvider_CUDA(settings: Handle<Settings>, _given: Memory) {
        no_library("OrtSessionOptionsAppendExecutionProvider_Cuda", settings)
    }

    fn SessionOptionsAppendExecutionProvider_CUDA_V2(settings: Handle<Settings>, _given: Memory) {
        no_library("OrtSessionOptionsAppendExecutionProvider_Cuda", settings)
    }

    fn SessionOptionsAppendExecutionProvider_TensorRT(settings: Handle<Settings>, _given: Memory) {
        no_library("OrtSessionOptionsAppendExecutionProvider_TensorRT", settings)
    }

    fn SessionOptionsAppendExecutionProvider_TensorRT_V2(settings: Handle<Settings>, _given: Memory) {
        no_library("OrtSessionOptionsAppendExecutionProvider_TensorRT", settings)
    }

    fn SessionOptionsAppendExecutionProvider_OpenVINO(settings: Handle<Settings>, _given: Memory) {
        no_library("OrtSessionOptionsAppendExecutionProvider_OpenVINO", settings)
    }

    fn SessionOptionsAppendExecutionProvider_OpenVINO_V2(
        settings: Handle<Settings>,
        _keys: List<Text>,
        _values: List<Text>,
        _count: usize,
    ) {
        no_library("SessionOptionsAppendExecutionProvider_OpenVINO_V2", settings)
    }

    fn SessionOptionsAppendExecutionProvider_VitisAI(
        settings: Handle<Settings>,
        _keys: List<Text>,
        _values: List<Text>,
        _count: usize,
    ) {
        no_library("SessionOptionsAppendExecutionProvider_VitisAI", settings)
    }

    fn SessionOptionsAppendExecutionProvider_ROCM(settings: Handle<Settings>, _given: Memory) {
        let _ = settings.get("options")?;
        options("ROCM")
    }

    fn SessionOptionsAppendExecutionProvider_MIGraphX(settings: Handle<Settings>, _given: Memory) {
        let _ = settings.get("options")?;
        options("MIGraphX")
    }

    fn SessionOptionsAppendExecutionProvider_CANN(settings: Handle<Settings>, _given: Memory) {
        let _ = settings.get("options")?;
        options("CANN")
    }

    fn SessionOptionsAppendExecutionProvider_Dnnl(settings: Handle<Settings>, _given: Memory) {
        let _ = settings.get("options")?;
        options("oneDNN")
    }

    fn CreateTensorRTProviderOptions(_out: Out<Memory>) {
        options("TensorRT")
    }

    fn UpdateTensorRTProviderOptions(_given: Memory, _keys: List<Text>, _values: List<Text>, _count: usize) {
        options("TensorRT")
    }

    fn GetTensorRTProviderOptionsAsString(_given: Memory, _allocator: Allocator, _out: Out<Chars>) {
        options("TensorRT")
    }

    fn UpdateTensorRTProviderOptionsWithValue(_given: Memory, _key: Text, _value: Memory) {
        options("TensorRT")
    }

    fn GetTensorRTProviderOptionsByName(_given: Memory, _key: Text, _out: Out<Memory>) {
        options("TensorRT")
    }

    fn CreateCUDAProviderOptions(_out: Out<Memory>) {
        options("CUDA")
    }

    fn UpdateCUDAProviderOptions(_given: Memory, _keys: List<Text>, _values: List<Text>, _count: usize) {
        options("CUDA")
    }

    fn GetCUDAProviderOptionsAsString(_given: Memory, _allocator: Allocator, _out: Out<Chars>) {
        options("CUDA")
    }

    fn UpdateCUDAProviderOptionsWithValue(_given: Memory, _key: Text, _value: Memory) {
        options("CUDA")
    }

    fn GetCUDAProviderOptionsByName(_given: Memory, _key: Text, _out: Out<Memory>) {
        options("CUDA")
    }

    fn CreateCANNProviderOptions(_out: Out<Memory>) {
        options("CANN")
    }

    fn UpdateCANNProviderOptions(_given: Memory, _keys: List<Text>, _values: List<Text>, _count: usize) {
        options("CANN")
    }

    fn GetCANNProviderOptionsAsString(_given: Memory, _allocator: Allocator, _out: Out<Chars>) {
        options("CANN")
    }

    fn CreateDnnlProviderOptions(_out: Out<Memory>) {
        options("oneDNN")
    }

    fn UpdateDnnlProviderOptions(_given: Memory, _keys: List<Text>, _values: List<Text>, _count: usize) {
        options("oneDNN")
    }

    fn GetDnnlProviderOptionsAsString(_given: Memory, _allocator: Allocator, _out: Out<Chars>) {
        options("oneDNN")
    }

    fn CreateROCMProviderOptions(_out: Out<Memory>) {
        options("ROCM")
    }

    fn UpdateROCMProviderOptions(_given: Memory, _keys: List<Text>, _values: List<Text>, _count: usize) {
        options("ROCM")
    }

    fn GetROCMProviderOptionsAsString(_given: Memory, _allocator: Allocator, _out: Out<Chars>) {
        options("ROCM")
    }

    fn RegisterCustomOpsLibrary(settings: Handle<Settings>, path: Text, _library: Out<Memory>) {
        let _ = settings.get("options")?;
        no_operators(path)
    }

    fn RegisterCustomOpsLibrary_V2(settings: Handle<Settings>, path: Text) {
        let _ = settings.get("options")?;
        no_operators(path)
    }
}

/// The error for a library of operators.
fn no_operators(path: Text) -> Result<()> {
    let path = path.path("library_path")?;
    if !path.exists() {
        return Err(failed!("Failed to load library {} with error: there is no such file", path.display()));
    }
    let reason = format!("operators of a library are not implemented by Kiln: {}", path.display());
    Err(Error::new(Code::NotImplemented, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_that_are_not_there_are_refused_in_the_words_that_programs_look_for() {
        let xnnpack = absent("XNNPACK").message;
        assert_eq!(xnnpack, "XNNPACK execution provider is not supported in this build. ");
        let full = absent("CoreMLExecutionProvider").message;
        assert_eq!(full, "CoreMLExecutionProvider execution provider is not supported in this build. ");
        let unknown = absent("CUDA").message;
        assert!(unknown.starts_with("Unknown provider name 'CUDA'. Currently supported values are 'DML'/'DMLExec"));
        assert_eq!(not_enabled("CUDA").message, "CUDA execution provider is not enabled in this build. ");
    }
}
