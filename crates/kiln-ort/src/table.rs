//! The table of functions (`OrtApi`) at version 31: every entry with its C arguments, in the header's order, and the
//! module that has it. Entries without a module answer `ORT_NOT_IMPLEMENTED` with their name or, where they return no
//! status, with the real library's value for nothing. Each version of the table is the beginning of the next one, so
//! that one table serves all versions.
//!
//! Names and arguments are those of `ort-sys` 2.0.0-rc.15 and of onnxruntime's header. With the feature `ort` the
//! compiler compares the place of every entry with `ort-sys`.

use std::ffi::c_int;

use crate::adapter::Lora;
use crate::allocator::Arena;
use crate::attribute::Attribute;
use crate::binding::Binding;
use crate::built::Built;
use crate::devices::{EpDevice, Hardware};
use crate::env::{Env, Wishes};
use crate::error::Error;
use crate::keyvalue::Pairs;
use crate::memory_info::MemoryInfo;
use crate::metadata::About;
use crate::options::Settings;
use crate::parts::{Graph, Node, ValueInfo};
use crate::run_options::RunSettings;
use crate::seam::{
    Allocator, AsyncFn, Chars, CreateThreadFn, Failure, Handle, JoinThreadFn, List, LogFn, Memory, Out, Status, Text,
};
use crate::session::{Model, Prepacked};
use crate::threading::Threading;
use crate::type_info::{MapInfo, OptionalInfo, SequenceInfo, TensorInfo, TypeInfo};
use crate::value::Value;

/// The answer of an entry that is not implemented.
trait Nothing {
    fn nothing(name: &str) -> Self;
}

impl Nothing for Status {
    fn nothing(name: &str) -> Status {
        Failure::status(Error::not_implemented(name))
    }
}

/// Answers of entries that return no status.
macro_rules! nothing {
    ($($kind:ty = $answer:expr),+ $(,)?) => {
        $(impl Nothing for $kind {
            fn nothing(_name: &str) -> $kind {
                $answer
            }
        })+
    };
}

nothing!(() = (), Text = Text::NULL, Memory = Memory::NULL, i64 = 0, usize = 0);

/// Declares the table: a struct with a field for each entry, and its one value.
macro_rules! table {
    ($($name:ident($($argument:ty),* $(,)?) $(-> $gives:ty)? $(= $module:ident)?;)+) => {
        /// The table as C has it.
        #[repr(C)]
        #[allow(non_snake_case, reason = "C's names")]
        pub(crate) struct Api {
            $(pub(crate) $name: extern "C" fn($($argument),*) $(-> $gives)?,)+
        }

        /// The table.
        pub(crate) static API: Api = Api { $($name: table!(@entry $name ($($argument),*) [$($gives)?] $($module)?),)+ };

        $(table!(@order $name);)+
    };
    // The crate `ort-sys` has another name for this entry.
    (@order AddExternalInitializersFromFilesInMemory) => {};
    (@order $name:ident) => {
        #[cfg(feature = "ort")]
        const _: () = assert!(std::mem::offset_of!(Api, $name) == std::mem::offset_of!(ort_sys::OrtApi, $name));
    };
    (@entry $name:ident ($($argument:ty),*) [$($gives:ty)?] $module:ident) => {
        crate::$module::$name
    };
    (@entry $name:ident ($($argument:ty),*) [$($gives:ty)?]) => {{
        extern "C" fn $name($(_: $argument),*) $(-> $gives)? {
            Nothing::nothing(stringify!($name))
        }
        $name
    }};
}

table! {
    // Since version 1.
    CreateStatus(c_int, Text) -> Status = status;
    GetErrorCode(Handle<Failure>) -> c_int = status;
    GetErrorMessage(Handle<Failure>) -> Text = status;
    CreateEnv(c_int, Text, Out<Handle<Env>>) -> Status = env;
    CreateEnvWithCustomLogger(LogFn, Memory, c_int, Text, Out<Handle<Env>>) -> Status = env;
    EnableTelemetryEvents(Handle<Env>) -> Status = env;
    DisableTelemetryEvents(Handle<Env>) -> Status = env;
    CreateSession(Handle<Env>, Text, Handle<Settings>, Out<Handle<Model>>) -> Status = session;
    CreateSessionFromArray(Handle<Env>, Memory, usize, Handle<Settings>, Out<Handle<Model>>) -> Status = session;
    Run(
        Handle<Model>, Handle<RunSettings>, List<Text>, List<Handle<Value>>, usize, List<Text>, usize,
        Out<Handle<Value>>
    ) -> Status = run;
    CreateSessionOptions(Out<Handle<Settings>>) -> Status = options;
    SetOptimizedModelFilePath(Handle<Settings>, Text) -> Status = options;
    CloneSessionOptions(Handle<Settings>, Out<Handle<Settings>>) -> Status = options;
    SetSessionExecutionMode(Handle<Settings>, c_int) -> Status = options;
    EnableProfiling(Handle<Settings>, Text) -> Status = options;
    DisableProfiling(Handle<Settings>) -> Status = options;
    EnableMemPattern(Handle<Settings>) -> Status = options;
    DisableMemPattern(Handle<Settings>) -> Status = options;
    EnableCpuMemArena(Handle<Settings>) -> Status = options;
    DisableCpuMemArena(Handle<Settings>) -> Status = options;
    SetSessionLogId(Handle<Settings>, Text) -> Status = options;
    SetSessionLogVerbosityLevel(Handle<Settings>, c_int) -> Status = options;
    SetSessionLogSeverityLevel(Handle<Settings>, c_int) -> Status = options;
    SetSessionGraphOptimizationLevel(Handle<Settings>, c_int) -> Status = options;
    SetIntraOpNumThreads(Handle<Settings>, c_int) -> Status = options;
    SetInterOpNumThreads(Handle<Settings>, c_int) -> Status = options;
    CreateCustomOpDomain(Text, Out<Memory>) -> Status;
    CustomOpDomain_Add(Memory, Memory) -> Status;
    AddCustomOpDomain(Handle<Settings>, Memory) -> Status;
    RegisterCustomOpsLibrary(Handle<Settings>, Text, Out<Memory>) -> Status = providers;
    SessionGetInputCount(Handle<Model>, Out<usize>) -> Status = session;
    SessionGetOutputCount(Handle<Model>, Out<usize>) -> Status = session;
    SessionGetOverridableInitializerCount(Handle<Model>, Out<usize>) -> Status = session;
    SessionGetInputTypeInfo(Handle<Model>, usize, Out<Handle<TypeInfo>>) -> Status = session;
    SessionGetOutputTypeInfo(Handle<Model>, usize, Out<Handle<TypeInfo>>) -> Status = session;
    SessionGetOverridableInitializerTypeInfo(Handle<Model>, usize, Out<Handle<TypeInfo>>) -> Status = session;
    SessionGetInputName(Handle<Model>, usize, Allocator, Out<Chars>) -> Status = session;
    SessionGetOutputName(Handle<Model>, usize, Allocator, Out<Chars>) -> Status = session;
    SessionGetOverridableInitializerName(Handle<Model>, usize, Allocator, Out<Chars>) -> Status = session;
    CreateRunOptions(Out<Handle<RunSettings>>) -> Status = run_options;
    RunOptionsSetRunLogVerbosityLevel(Handle<RunSettings>, c_int) -> Status = run_options;
    RunOptionsSetRunLogSeverityLevel(Handle<RunSettings>, c_int) -> Status = run_options;
    RunOptionsSetRunTag(Handle<RunSettings>, Text) -> Status = run_options;
    RunOptionsGetRunLogVerbosityLevel(Handle<RunSettings>, Out<c_int>) -> Status = run_options;
    RunOptionsGetRunLogSeverityLevel(Handle<RunSettings>, Out<c_int>) -> Status = run_options;
    RunOptionsGetRunTag(Handle<RunSettings>, Out<Text>) -> Status = run_options;
    RunOptionsSetTerminate(Handle<RunSettings>) -> Status = run_options;
    RunOptionsUnsetTerminate(Handle<RunSettings>) -> Status = run_options;
    CreateTensorAsOrtValue(Allocator, List<i64>, usize, c_int, Out<Handle<Value>>) -> Status = value;
    CreateTensorWithDataAsOrtValue(
        Handle<MemoryInfo>, Memory, usize, List<i64>, usize, c_int, Out<Handle<Value>>
    ) -> Status = value;
    IsTensor(Handle<Value>, Out<c_int>) -> Status = value;
    GetTensorMutableData(Handle<Value>, Out<Memory>) -> Status = value;
    FillStringTensor(Handle<Value>, List<Text>, usize) -> Status = strings;
    GetStringTensorDataLength(Handle<Value>, Out<usize>) -> Status = strings;
    GetStringTensorContent(Handle<Value>, Memory, usize, Out<usize>, usize) -> Status = strings;
    CastTypeInfoToTensorInfo(Handle<TypeInfo>, Out<Handle<TensorInfo>>) -> Status = type_info;
    GetOnnxTypeFromTypeInfo(Handle<TypeInfo>, Out<c_int>) -> Status = type_info;
    CreateTensorTypeAndShapeInfo(Out<Handle<TensorInfo>>) -> Status = type_info;
    SetTensorElementType(Handle<TensorInfo>, c_int) -> Status = type_info;
    SetDimensions(Handle<TensorInfo>, List<i64>, usize) -> Status = type_info;
    GetTensorElementType(Handle<TensorInfo>, Out<c_int>) -> Status = type_info;
    GetDimensionsCount(Handle<TensorInfo>, Out<usize>) -> Status = type_info;
    GetDimensions(Handle<TensorInfo>, Out<i64>, usize) -> Status = type_info;
    GetSymbolicDimensions(Handle<TensorInfo>, Out<Text>, usize) -> Status = type_info;
    GetTensorShapeElementCount(Handle<TensorInfo>, Out<usize>) -> Status = type_info;
    GetTensorTypeAndShape(Handle<Value>, Out<Handle<TensorInfo>>) -> Status = value;
    GetTypeInfo(Handle<Value>, Out<Handle<TypeInfo>>) -> Status = value;
    GetValueType(Handle<Value>, Out<c_int>) -> Status = value;
    CreateMemoryInfo(Text, c_int, c_int, c_int, Out<Handle<MemoryInfo>>) -> Status = memory_info;
    CreateCpuMemoryInfo(c_int, c_int, Out<Handle<MemoryInfo>>) -> Status = memory_info;
    CompareMemoryInfo(Handle<MemoryInfo>, Handle<MemoryInfo>, Out<c_int>) -> Status = memory_info;
    MemoryInfoGetName(Handle<MemoryInfo>, Out<Text>) -> Status = memory_info;
    MemoryInfoGetId(Handle<MemoryInfo>, Out<c_int>) -> Status = memory_info;
    MemoryInfoGetMemType(Handle<MemoryInfo>, Out<c_int>) -> Status = memory_info;
    MemoryInfoGetType(Handle<MemoryInfo>, Out<c_int>) -> Status = memory_info;
    AllocatorAlloc(Allocator, usize, Out<Memory>) -> Status = allocator;
    AllocatorFree(Allocator, Memory) -> Status = allocator;
    AllocatorGetInfo(Allocator, Out<Handle<MemoryInfo>>) -> Status = allocator;
    GetAllocatorWithDefaultOptions(Out<Allocator>) -> Status = allocator;
    AddFreeDimensionOverride(Handle<Settings>, Text, i64) -> Status = options;
    GetValue(Handle<Value>, c_int, Allocator, Out<Handle<Value>>) -> Status = collections;
    GetValueCount(Handle<Value>, Out<usize>) -> Status = collections;
    CreateValue(List<Handle<Value>>, usize, c_int, Out<Handle<Value>>) -> Status = collections;
    CreateOpaqueValue(Text, Text, Memory, usize, Out<Handle<Value>>) -> Status;
    GetOpaqueValue(Text, Text, Handle<Value>, Memory, usize) -> Status;
    KernelInfoGetAttribute_float(Memory, Text, Out<f32>) -> Status;
    KernelInfoGetAttribute_int64(Memory, Text, Out<i64>) -> Status;
    KernelInfoGetAttribute_string(Memory, Text, Chars, Out<usize>) -> Status;
    KernelContext_GetInputCount(Memory, Out<usize>) -> Status;
    KernelContext_GetOutputCount(Memory, Out<usize>) -> Status;
    KernelContext_GetInput(Memory, usize, Out<Handle<Value>>) -> Status;
    KernelContext_GetOutput(Memory, usize, List<i64>, usize, Out<Handle<Value>>) -> Status;
    ReleaseEnv(Handle<Env>) = env;
    ReleaseStatus(Handle<Failure>) = status;
    ReleaseMemoryInfo(Handle<MemoryInfo>) = memory_info;
    ReleaseSession(Handle<Model>) = session;
    ReleaseValue(Handle<Value>) = value;
    ReleaseRunOptions(Handle<RunSettings>) = run_options;
    ReleaseTypeInfo(Handle<TypeInfo>) = type_info;
    ReleaseTensorTypeAndShapeInfo(Handle<TensorInfo>) = type_info;
    ReleaseSessionOptions(Handle<Settings>) = options;
    ReleaseCustomOpDomain(Memory);
    // Since version 2.
    GetDenotationFromTypeInfo(Handle<TypeInfo>, Out<Text>, Out<usize>) -> Status = type_info;
    CastTypeInfoToMapTypeInfo(Handle<TypeInfo>, Out<Handle<MapInfo>>) -> Status = type_info;
    CastTypeInfoToSequenceTypeInfo(Handle<TypeInfo>, Out<Handle<SequenceInfo>>) -> Status = type_info;
    GetMapKeyType(Handle<MapInfo>, Out<c_int>) -> Status = type_info;
    GetMapValueType(Handle<MapInfo>, Out<Handle<TypeInfo>>) -> Status = type_info;
    GetSequenceElementType(Handle<SequenceInfo>, Out<Handle<TypeInfo>>) -> Status = type_info;
    ReleaseMapTypeInfo(Handle<MapInfo>) = type_info;
    ReleaseSequenceTypeInfo(Handle<SequenceInfo>) = type_info;
    SessionEndProfiling(Handle<Model>, Allocator, Out<Chars>) -> Status = session;
    SessionGetModelMetadata(Handle<Model>, Out<Handle<About>>) -> Status = metadata;
    ModelMetadataGetProducerName(Handle<About>, Allocator, Out<Chars>) -> Status = metadata;
    ModelMetadataGetGraphName(Handle<About>, Allocator, Out<Chars>) -> Status = metadata;
    ModelMetadataGetDomain(Handle<About>, Allocator, Out<Chars>) -> Status = metadata;
    ModelMetadataGetDescription(Handle<About>, Allocator, Out<Chars>) -> Status = metadata;
    ModelMetadataLookupCustomMetadataMap(Handle<About>, Allocator, Text, Out<Chars>) -> Status = metadata;
    ModelMetadataGetVersion(Handle<About>, Out<i64>) -> Status = metadata;
    ReleaseModelMetadata(Handle<About>) = metadata;
    // Since version 3.
    CreateEnvWithGlobalThreadPools(c_int, Text, Handle<Threading>, Out<Handle<Env>>) -> Status = env;
    DisablePerSessionThreads(Handle<Settings>) -> Status = options;
    CreateThreadingOptions(Out<Handle<Threading>>) -> Status = threading;
    ReleaseThreadingOptions(Handle<Threading>) = threading;
    ModelMetadataGetCustomMetadataMapKeys(Handle<About>, Allocator, Out<Out<Chars>>, Out<i64>) -> Status = metadata;
    AddFreeDimensionOverrideByName(Handle<Settings>, Text, i64) -> Status = options;
    // Since version 4.
    GetAvailableProviders(Out<Out<Chars>>, Out<c_int>) -> Status = providers;
    ReleaseAvailableProviders(Out<Chars>, c_int) -> Status = providers;
    // Since version 5.
    GetStringTensorElementLength(Handle<Value>, usize, Out<usize>) -> Status = strings;
    GetStringTensorElement(Handle<Value>, usize, usize, Memory) -> Status = strings;
    FillStringTensorElement(Handle<Value>, Text, usize) -> Status = strings;
    AddSessionConfigEntry(Handle<Settings>, Text, Text) -> Status = options;
    CreateAllocator(Handle<Model>, Handle<MemoryInfo>, Out<Allocator>) -> Status = allocator;
    ReleaseAllocator(Allocator) = allocator;
    RunWithBinding(Handle<Model>, Handle<RunSettings>, Handle<Binding>) -> Status = binding;
    CreateIoBinding(Handle<Model>, Out<Handle<Binding>>) -> Status = binding;
    ReleaseIoBinding(Handle<Binding>) = binding;
    BindInput(Handle<Binding>, Text, Handle<Value>) -> Status = binding;
    BindOutput(Handle<Binding>, Text, Handle<Value>) -> Status = binding;
    BindOutputToDevice(Handle<Binding>, Text, Handle<MemoryInfo>) -> Status = binding;
    GetBoundOutputNames(Handle<Binding>, Allocator, Out<Chars>, Out<Out<usize>>, Out<usize>) -> Status = binding;
    GetBoundOutputValues(Handle<Binding>, Allocator, Out<Out<Handle<Value>>>, Out<usize>) -> Status = binding;
    ClearBoundInputs(Handle<Binding>) = binding;
    ClearBoundOutputs(Handle<Binding>) = binding;
    TensorAt(Handle<Value>, List<i64>, usize, Out<Memory>) -> Status = value;
    CreateAndRegisterAllocator(Handle<Env>, Handle<MemoryInfo>, Handle<Arena>) -> Status = allocator;
    SetLanguageProjection(Handle<Env>, c_int) -> Status = env;
    SessionGetProfilingStartTimeNs(Handle<Model>, Out<u64>) -> Status = session;
    SetGlobalIntraOpNumThreads(Handle<Threading>, c_int) -> Status = threading;
    SetGlobalInterOpNumThreads(Handle<Threading>, c_int) -> Status = threading;
    SetGlobalSpinControl(Handle<Threading>, c_int) -> Status = threading;
    // Since version 6.
    AddInitializer(Handle<Settings>, Text, Handle<Value>) -> Status = options;
    CreateEnvWithCustomLoggerAndGlobalThreadPools(
        LogFn, Memory, c_int, Text, Handle<Threading>, Out<Handle<Env>>
    ) -> Status = env;
    SessionOptionsAppendExecutionProvider_CUDA(Handle<Settings>, Memory) -> Status = providers;
    SessionOptionsAppendExecutionProvider_ROCM(Handle<Settings>, Memory) -> Status = providers;
    SessionOptionsAppendExecutionProvider_OpenVINO(Handle<Settings>, Memory) -> Status = providers;
    SetGlobalDenormalAsZero(Handle<Threading>) -> Status = threading;
    CreateArenaCfg(usize, c_int, c_int, c_int, Out<Handle<Arena>>) -> Status = allocator;
    ReleaseArenaCfg(Handle<Arena>) = allocator;
    // Since version 7.
    ModelMetadataGetGraphDescription(Handle<About>, Allocator, Out<Chars>) -> Status = metadata;
    SessionOptionsAppendExecutionProvider_TensorRT(Handle<Settings>, Memory) -> Status = providers;
    SetCurrentGpuDeviceId(c_int) -> Status;
    GetCurrentGpuDeviceId(Out<c_int>) -> Status;
    // Since version 8.
    KernelInfoGetAttributeArray_float(Memory, Text, Out<f32>, Out<usize>) -> Status;
    KernelInfoGetAttributeArray_int64(Memory, Text, Out<i64>, Out<usize>) -> Status;
    CreateArenaCfgV2(List<Text>, List<usize>, usize, Out<Handle<Arena>>) -> Status = allocator;
    AddRunConfigEntry(Handle<RunSettings>, Text, Text) -> Status = run_options;
    CreatePrepackedWeightsContainer(Out<Handle<Prepacked>>) -> Status = session;
    ReleasePrepackedWeightsContainer(Handle<Prepacked>) = session;
    CreateSessionWithPrepackedWeightsContainer(
        Handle<Env>, Text, Handle<Settings>, Handle<Prepacked>, Out<Handle<Model>>
    ) -> Status = session;
    CreateSessionFromArrayWithPrepackedWeightsContainer(
        Handle<Env>, Memory, usize, Handle<Settings>, Handle<Prepacked>, Out<Handle<Model>>
    ) -> Status = session;
    // Since version 9.
    SessionOptionsAppendExecutionProvider_TensorRT_V2(Handle<Settings>, Memory) -> Status = providers;
    CreateTensorRTProviderOptions(Out<Memory>) -> Status = providers;
    UpdateTensorRTProviderOptions(Memory, List<Text>, List<Text>, usize) -> Status = providers;
    GetTensorRTProviderOptionsAsString(Memory, Allocator, Out<Chars>) -> Status = providers;
    ReleaseTensorRTProviderOptions(Memory);
    EnableOrtCustomOps(Handle<Settings>) -> Status = options;
    RegisterAllocator(Handle<Env>, Allocator) -> Status = allocator;
    UnregisterAllocator(Handle<Env>, Handle<MemoryInfo>) -> Status = allocator;
    IsSparseTensor(Handle<Value>, Out<c_int>) -> Status = value;
    CreateSparseTensorAsOrtValue(Allocator, List<i64>, usize, c_int, Out<Handle<Value>>) -> Status;
    FillSparseTensorCoo(Handle<Value>, Handle<MemoryInfo>, List<i64>, usize, Memory, List<i64>, usize) -> Status;
    FillSparseTensorCsr(
        Handle<Value>, Handle<MemoryInfo>, List<i64>, usize, Memory, List<i64>, usize, List<i64>, usize
    ) -> Status;
    FillSparseTensorBlockSparse(
        Handle<Value>, Handle<MemoryInfo>, List<i64>, usize, Memory, List<i64>, usize, List<i32>
    ) -> Status;
    CreateSparseTensorWithValuesAsOrtValue(
        Handle<MemoryInfo>, Memory, List<i64>, usize, List<i64>, usize, c_int, Out<Handle<Value>>
    ) -> Status;
    UseCooIndices(Handle<Value>, Out<i64>, usize) -> Status;
    UseCsrIndices(Handle<Value>, Out<i64>, usize, Out<i64>, usize) -> Status;
    UseBlockSparseIndices(Handle<Value>, List<i64>, usize, Out<i32>) -> Status;
    GetSparseTensorFormat(Handle<Value>, Out<c_int>) -> Status;
    GetSparseTensorValuesTypeAndShape(Handle<Value>, Out<Handle<TensorInfo>>) -> Status;
    GetSparseTensorValues(Handle<Value>, Out<Memory>) -> Status;
    GetSparseTensorIndicesTypeShape(Handle<Value>, c_int, Out<Handle<TensorInfo>>) -> Status;
    GetSparseTensorIndices(Handle<Value>, c_int, Out<usize>, Out<Memory>) -> Status;
    // Since version 10.
    HasValue(Handle<Value>, Out<c_int>) -> Status = value;
    KernelContext_GetGPUComputeStream(Memory, Out<Memory>) -> Status;
    GetTensorMemoryInfo(Handle<Value>, Out<Handle<MemoryInfo>>) -> Status = value;
    GetExecutionProviderApi(Text, u32, Out<Memory>) -> Status = providers;
    SessionOptionsSetCustomCreateThreadFn(Handle<Settings>, CreateThreadFn) -> Status = options;
    SessionOptionsSetCustomThreadCreationOptions(Handle<Settings>, Memory) -> Status = options;
    SessionOptionsSetCustomJoinThreadFn(Handle<Settings>, JoinThreadFn) -> Status = options;
    SetGlobalCustomCreateThreadFn(Handle<Threading>, CreateThreadFn) -> Status = threading;
    SetGlobalCustomThreadCreationOptions(Handle<Threading>, Memory) -> Status = threading;
    SetGlobalCustomJoinThreadFn(Handle<Threading>, JoinThreadFn) -> Status = threading;
    SynchronizeBoundInputs(Handle<Binding>) -> Status = binding;
    SynchronizeBoundOutputs(Handle<Binding>) -> Status = binding;
    // Since version 11.
    SessionOptionsAppendExecutionProvider_CUDA_V2(Handle<Settings>, Memory) -> Status = providers;
    CreateCUDAProviderOptions(Out<Memory>) -> Status = providers;
    UpdateCUDAProviderOptions(Memory, List<Text>, List<Text>, usize) -> Status = providers;
    GetCUDAProviderOptionsAsString(Memory, Allocator, Out<Chars>) -> Status = providers;
    ReleaseCUDAProviderOptions(Memory);
    SessionOptionsAppendExecutionProvider_MIGraphX(Handle<Settings>, Memory) -> Status = providers;
    // Since version 12.
    AddExternalInitializers(Handle<Settings>, List<Text>, List<Handle<Value>>, usize) -> Status = options;
    CreateOpAttr(Text, Memory, c_int, c_int, Out<Handle<Attribute>>) -> Status = attribute;
    ReleaseOpAttr(Handle<Attribute>) = attribute;
    CreateOp(
        Memory, Text, Text, c_int, Out<Text>, List<c_int>, c_int, List<Memory>, c_int, c_int, c_int, Out<Memory>
    ) -> Status;
    InvokeOp(Memory, Memory, List<Handle<Value>>, c_int, List<Handle<Value>>, c_int) -> Status;
    ReleaseOp(Memory);
    SessionOptionsAppendExecutionProvider(Handle<Settings>, Text, List<Text>, List<Text>, usize) -> Status = providers;
    CopyKernelInfo(Memory, Out<Memory>) -> Status;
    ReleaseKernelInfo(Memory);
    // Since version 13.
    GetTrainingApi(u32) -> Memory;
    SessionOptionsAppendExecutionProvider_CANN(Handle<Settings>, Memory) -> Status = providers;
    CreateCANNProviderOptions(Out<Memory>) -> Status = providers;
    UpdateCANNProviderOptions(Memory, List<Text>, List<Text>, usize) -> Status = providers;
    GetCANNProviderOptionsAsString(Memory, Allocator, Out<Chars>) -> Status = providers;
    ReleaseCANNProviderOptions(Memory);
    // Since version 14.
    MemoryInfoGetDeviceType(Handle<MemoryInfo>, Out<c_int>) = memory_info;
    UpdateEnvWithCustomLogLevel(Handle<Env>, c_int) -> Status = env;
    SetGlobalIntraOpThreadAffinity(Handle<Threading>, Text) -> Status = threading;
    RegisterCustomOpsLibrary_V2(Handle<Settings>, Text) -> Status = providers;
    RegisterCustomOpsUsingFunction(Handle<Settings>, Text) -> Status;
    KernelInfo_GetInputCount(Memory, Out<usize>) -> Status;
    KernelInfo_GetOutputCount(Memory, Out<usize>) -> Status;
    KernelInfo_GetInputName(Memory, usize, Chars, Out<usize>) -> Status;
    KernelInfo_GetOutputName(Memory, usize, Chars, Out<usize>) -> Status;
    KernelInfo_GetInputTypeInfo(Memory, usize, Out<Handle<TypeInfo>>) -> Status;
    KernelInfo_GetOutputTypeInfo(Memory, usize, Out<Handle<TypeInfo>>) -> Status;
    KernelInfoGetAttribute_tensor(Memory, Text, Allocator, Out<Handle<Value>>) -> Status;
    HasSessionConfigEntry(Handle<Settings>, Text, Out<c_int>) -> Status = options;
    GetSessionConfigEntry(Handle<Settings>, Text, Memory, Out<usize>) -> Status = options;
    // Since version 15.
    SessionOptionsAppendExecutionProvider_Dnnl(Handle<Settings>, Memory) -> Status = providers;
    CreateDnnlProviderOptions(Out<Memory>) -> Status = providers;
    UpdateDnnlProviderOptions(Memory, List<Text>, List<Text>, usize) -> Status = providers;
    GetDnnlProviderOptionsAsString(Memory, Allocator, Out<Chars>) -> Status = providers;
    ReleaseDnnlProviderOptions(Memory);
    KernelInfo_GetNodeName(Memory, Chars, Out<usize>) -> Status;
    KernelInfo_GetLogger(Memory, Out<Memory>) -> Status;
    KernelContext_GetLogger(Memory, Out<Memory>) -> Status;
    Logger_LogMessage(Memory, c_int, Text, Text, c_int, Text) -> Status;
    Logger_GetLoggingSeverityLevel(Memory, Out<c_int>) -> Status;
    KernelInfoGetConstantInput_tensor(Memory, usize, Out<c_int>, Out<Handle<Value>>) -> Status;
    CastTypeInfoToOptionalTypeInfo(Handle<TypeInfo>, Out<Handle<OptionalInfo>>) -> Status = type_info;
    GetOptionalContainedTypeInfo(Handle<OptionalInfo>, Out<Handle<TypeInfo>>) -> Status = type_info;
    GetResizedStringTensorElementBuffer(Handle<Value>, usize, usize, Out<Chars>) -> Status = strings;
    KernelContext_GetAllocator(Memory, Handle<MemoryInfo>, Out<Allocator>) -> Status;
    GetBuildInfoString() -> Text = version;
    // Since version 16.
    CreateROCMProviderOptions(Out<Memory>) -> Status = providers;
    UpdateROCMProviderOptions(Memory, List<Text>, List<Text>, usize) -> Status = providers;
    GetROCMProviderOptionsAsString(Memory, Allocator, Out<Chars>) -> Status = providers;
    ReleaseROCMProviderOptions(Memory);
    CreateAndRegisterAllocatorV2(
        Handle<Env>, Text, Handle<MemoryInfo>, Handle<Arena>, List<Text>, List<Text>, usize
    ) -> Status = allocator;
    RunAsync(
        Handle<Model>, Handle<RunSettings>, List<Text>, List<Handle<Value>>, usize, List<Text>, usize,
        Out<Handle<Value>>, AsyncFn, Memory
    ) -> Status = asynchronous;
    UpdateTensorRTProviderOptionsWithValue(Memory, Text, Memory) -> Status = providers;
    GetTensorRTProviderOptionsByName(Memory, Text, Out<Memory>) -> Status = providers;
    UpdateCUDAProviderOptionsWithValue(Memory, Text, Memory) -> Status = providers;
    GetCUDAProviderOptionsByName(Memory, Text, Out<Memory>) -> Status = providers;
    KernelContext_GetResource(Memory, c_int, c_int, Out<Memory>) -> Status;
    // Since version 17.
    SetUserLoggingFunction(Handle<Settings>, LogFn, Memory) -> Status = options;
    ShapeInferContext_GetInputCount(Memory, Out<usize>) -> Status;
    ShapeInferContext_GetInputTypeShape(Memory, usize, Out<Handle<TensorInfo>>) -> Status;
    ShapeInferContext_GetAttribute(Memory, Text, Out<Memory>) -> Status;
    ShapeInferContext_SetOutputTypeShape(Memory, usize, Handle<TensorInfo>) -> Status;
    SetSymbolicDimensions(Handle<TensorInfo>, List<Text>, usize) -> Status = type_info;
    ReadOpAttr(Handle<Attribute>, c_int, Memory, usize, Out<usize>) -> Status = attribute;
    SetDeterministicCompute(Handle<Settings>, u8) -> Status = options;
    KernelContext_ParallelFor(Memory, Memory);
    SessionOptionsAppendExecutionProvider_OpenVINO_V2(
        Handle<Settings>, List<Text>, List<Text>, usize
    ) -> Status = providers;
    // Since version 18.
    SessionOptionsAppendExecutionProvider_VitisAI(
        Handle<Settings>, List<Text>, List<Text>, usize
    ) -> Status = providers;
    KernelContext_GetScratchBuffer(Memory, Handle<MemoryInfo>, usize, Out<Memory>) -> Status;
    KernelInfoGetAllocator(Memory, c_int, Out<Allocator>) -> Status;
    AddExternalInitializersFromFilesInMemory(
        Handle<Settings>, List<Text>, List<Memory>, List<usize>, usize
    ) -> Status = options;
    // Since version 20.
    CreateLoraAdapter(Text, Allocator, Out<Handle<Lora>>) -> Status = adapter;
    CreateLoraAdapterFromArray(Memory, usize, Allocator, Out<Handle<Lora>>) -> Status = adapter;
    ReleaseLoraAdapter(Handle<Lora>) = adapter;
    RunOptionsAddActiveLoraAdapter(Handle<RunSettings>, Handle<Lora>) -> Status = run_options;
    SetEpDynamicOptions(Handle<Model>, List<Text>, List<Text>, usize) -> Status = devices;
    // Since version 22.
    ReleaseValueInfo(Handle<ValueInfo>) = value_info;
    ReleaseNode(Handle<Node>) = node;
    ReleaseGraph(Handle<Graph>) = graph;
    ReleaseModel(Handle<Built>) = built;
    GetValueInfoName(Handle<ValueInfo>, Out<Text>) -> Status = value_info;
    GetValueInfoTypeInfo(Handle<ValueInfo>, Out<Handle<TypeInfo>>) -> Status = value_info;
    GetModelEditorApi() -> Memory = editor;
    CreateTensorWithDataAndDeleterAsOrtValue(
        Allocator, Memory, usize, List<i64>, usize, c_int, Out<Handle<Value>>
    ) -> Status = value;
    SessionOptionsSetLoadCancellationFlag(Handle<Settings>, u8) -> Status = options;
    GetCompileApi() -> Memory = compile;
    CreateKeyValuePairs(Out<Handle<Pairs>>) = keyvalue;
    AddKeyValuePair(Handle<Pairs>, Text, Text) = keyvalue;
    GetKeyValue(Handle<Pairs>, Text) -> Text = keyvalue;
    GetKeyValuePairs(Handle<Pairs>, Out<List<Text>>, Out<List<Text>>, Out<usize>) = keyvalue;
    RemoveKeyValuePair(Handle<Pairs>, Text) = keyvalue;
    ReleaseKeyValuePairs(Handle<Pairs>) = keyvalue;
    RegisterExecutionProviderLibrary(Handle<Env>, Text, Text) -> Status = devices;
    UnregisterExecutionProviderLibrary(Handle<Env>, Text) -> Status = devices;
    GetEpDevices(Handle<Env>, Out<List<Handle<EpDevice>>>, Out<usize>) -> Status = devices;
    SessionOptionsAppendExecutionProvider_V2(
        Handle<Settings>, Handle<Env>, List<Handle<EpDevice>>, usize, List<Text>, List<Text>, usize
    ) -> Status = devices;
    SessionOptionsSetEpSelectionPolicy(Handle<Settings>, c_int) -> Status = devices;
    SessionOptionsSetEpSelectionPolicyDelegate(Handle<Settings>, Memory, Memory) -> Status = devices;
    HardwareDevice_Type(Handle<Hardware>) -> c_int = devices;
    HardwareDevice_VendorId(Handle<Hardware>) -> u32 = devices;
    HardwareDevice_Vendor(Handle<Hardware>) -> Text = devices;
    HardwareDevice_DeviceId(Handle<Hardware>) -> u32 = devices;
    HardwareDevice_Metadata(Handle<Hardware>) -> Handle<Pairs> = devices;
    EpDevice_EpName(Handle<EpDevice>) -> Text = devices;
    EpDevice_EpVendor(Handle<EpDevice>) -> Text = devices;
    EpDevice_EpMetadata(Handle<EpDevice>) -> Handle<Pairs> = devices;
    EpDevice_EpOptions(Handle<EpDevice>) -> Handle<Pairs> = devices;
    EpDevice_Device(Handle<EpDevice>) -> Handle<Hardware> = devices;
    GetEpApi() -> Memory;
    // Since version 23.
    GetTensorSizeInBytes(Handle<Value>, Out<usize>) -> Status = value;
    AllocatorGetStats(Allocator, Out<Handle<Pairs>>) -> Status = allocator;
    CreateMemoryInfo_V2(Text, c_int, u32, i32, c_int, usize, c_int, Out<Handle<MemoryInfo>>) -> Status = memory_info;
    MemoryInfoGetDeviceMemType(Handle<MemoryInfo>) -> c_int = memory_info;
    MemoryInfoGetVendorId(Handle<MemoryInfo>) -> u32 = memory_info;
    ValueInfo_GetValueProducer(Handle<ValueInfo>, Out<Handle<Node>>, Out<usize>) -> Status = value_info;
    ValueInfo_GetValueNumConsumers(Handle<ValueInfo>, Out<usize>) -> Status = value_info;
    ValueInfo_GetValueConsumers(Handle<ValueInfo>, Out<Handle<Node>>, Out<i64>, usize) -> Status = value_info;
    ValueInfo_GetInitializerValue(Handle<ValueInfo>, Out<Handle<Value>>) -> Status = value_info;
    ValueInfo_GetExternalInitializerInfo(Handle<ValueInfo>, Out<Memory>) -> Status = value_info;
    ValueInfo_IsRequiredGraphInput(Handle<ValueInfo>, Out<bool>) -> Status = value_info;
    ValueInfo_IsOptionalGraphInput(Handle<ValueInfo>, Out<bool>) -> Status = value_info;
    ValueInfo_IsGraphOutput(Handle<ValueInfo>, Out<bool>) -> Status = value_info;
    ValueInfo_IsConstantInitializer(Handle<ValueInfo>, Out<bool>) -> Status = value_info;
    ValueInfo_IsFromOuterScope(Handle<ValueInfo>, Out<bool>) -> Status = value_info;
    Graph_GetName(Handle<Graph>, Out<Text>) -> Status = graph;
    Graph_GetModelPath(Memory, Out<Text>) -> Status;
    Graph_GetOnnxIRVersion(Memory, Out<i64>) -> Status;
    Graph_GetNumOperatorSets(Handle<Graph>, Out<usize>) -> Status = graph;
    Graph_GetOperatorSets(Handle<Graph>, Out<Text>, Out<i64>, usize) -> Status = graph;
    Graph_GetNumInputs(Handle<Graph>, Out<usize>) -> Status = graph;
    Graph_GetInputs(Handle<Graph>, Out<Handle<ValueInfo>>, usize) -> Status = graph;
    Graph_GetNumOutputs(Handle<Graph>, Out<usize>) -> Status = graph;
    Graph_GetOutputs(Handle<Graph>, Out<Handle<ValueInfo>>, usize) -> Status = graph;
    Graph_GetNumInitializers(Handle<Graph>, Out<usize>) -> Status = graph;
    Graph_GetInitializers(Handle<Graph>, Out<Handle<ValueInfo>>, usize) -> Status = graph;
    Graph_GetNumNodes(Handle<Graph>, Out<usize>) -> Status = graph;
    Graph_GetNodes(Handle<Graph>, Out<Handle<Node>>, usize) -> Status = graph;
    Graph_GetParentNode(Handle<Graph>, Out<Handle<Node>>) -> Status = graph;
    Graph_GetGraphView(Memory, Out<Memory>, usize, Out<Memory>) -> Status;
    Node_GetId(Handle<Node>, Out<usize>) -> Status = node;
    Node_GetName(Handle<Node>, Out<Text>) -> Status = node;
    Node_GetOperatorType(Handle<Node>, Out<Text>) -> Status = node;
    Node_GetDomain(Handle<Node>, Out<Text>) -> Status = node;
    Node_GetSinceVersion(Memory, Out<i32>) -> Status;
    Node_GetNumInputs(Handle<Node>, Out<usize>) -> Status = node;
    Node_GetInputs(Handle<Node>, Out<Handle<ValueInfo>>, usize) -> Status = node;
    Node_GetNumOutputs(Handle<Node>, Out<usize>) -> Status = node;
    Node_GetOutputs(Handle<Node>, Out<Handle<ValueInfo>>, usize) -> Status = node;
    Node_GetNumImplicitInputs(Handle<Node>, Out<usize>) -> Status = node;
    Node_GetImplicitInputs(Handle<Node>, Out<Handle<ValueInfo>>, usize) -> Status = node;
    Node_GetNumAttributes(Handle<Node>, Out<usize>) -> Status = node;
    Node_GetAttributes(Handle<Node>, Out<Handle<Attribute>>, usize) -> Status = node;
    Node_GetAttributeByName(Handle<Node>, Text, Out<Handle<Attribute>>) -> Status = node;
    OpAttr_GetTensorAttributeAsOrtValue(Handle<Attribute>, Out<Handle<Value>>) -> Status = attribute;
    OpAttr_GetType(Handle<Attribute>, Out<c_int>) -> Status = attribute;
    OpAttr_GetName(Handle<Attribute>, Out<Text>) -> Status = attribute;
    Node_GetNumSubgraphs(Handle<Node>, Out<usize>) -> Status = node;
    Node_GetSubgraphs(Memory, Out<Memory>, usize, Out<Text>) -> Status;
    Node_GetGraph(Handle<Node>, Out<Handle<Graph>>) -> Status = node;
    Node_GetEpName(Memory, Out<Text>) -> Status;
    ReleaseExternalInitializerInfo(Memory);
    ExternalInitializerInfo_GetFilePath(Memory) -> Text;
    ExternalInitializerInfo_GetFileOffset(Memory) -> i64;
    ExternalInitializerInfo_GetByteSize(Memory) -> usize;
    GetRunConfigEntry(Handle<RunSettings>, Text) -> Text = run_options;
    EpDevice_MemoryInfo(Handle<EpDevice>, c_int) -> Handle<MemoryInfo> = devices;
    CreateSharedAllocator(
        Handle<Env>, Handle<EpDevice>, c_int, c_int, Handle<Pairs>, Out<Allocator>
    ) -> Status = devices;
    GetSharedAllocator(Handle<Env>, Handle<MemoryInfo>, Out<Allocator>) -> Status = allocator;
    ReleaseSharedAllocator(Handle<Env>, Handle<EpDevice>, c_int) -> Status = devices;
    GetTensorData(Handle<Value>, Out<Memory>) -> Status = value;
    GetSessionOptionsConfigEntries(Handle<Settings>, Out<Handle<Pairs>>) -> Status = options;
    SessionGetMemoryInfoForInputs(Handle<Model>, Out<Handle<MemoryInfo>>, usize) -> Status = session;
    SessionGetMemoryInfoForOutputs(Handle<Model>, Out<Handle<MemoryInfo>>, usize) -> Status = session;
    SessionGetEpDeviceForInputs(Handle<Model>, Out<Handle<EpDevice>>, usize) -> Status = devices;
    CreateSyncStreamForEpDevice(Handle<EpDevice>, Handle<Pairs>, Out<Memory>) -> Status = devices;
    SyncStream_GetHandle(Memory) -> Memory;
    ReleaseSyncStream(Memory);
    CopyTensors(Handle<Env>, List<Handle<Value>>, List<Handle<Value>>, Memory, usize) -> Status = devices;
    Graph_GetModelMetadata(Memory, Out<Handle<About>>) -> Status;
    GetModelCompatibilityForEpDevices(List<Handle<EpDevice>>, usize, Text, Out<c_int>) -> Status;
    CreateExternalInitializerInfo(Text, i64, usize, Out<Memory>) -> Status;
    // Since version 24.
    TensorTypeAndShape_HasShape(Handle<TensorInfo>) -> bool = type_info;
    KernelInfo_GetConfigEntries(Memory, Out<Handle<Pairs>>) -> Status;
    KernelInfo_GetOperatorDomain(Memory, Chars, Out<usize>) -> Status;
    KernelInfo_GetOperatorType(Memory, Chars, Out<usize>) -> Status;
    KernelInfo_GetOperatorSinceVersion(Memory, Out<i32>) -> Status;
    GetInteropApi() -> Memory;
    SessionGetEpDeviceForOutputs(Handle<Model>, Out<Handle<EpDevice>>, usize) -> Status = devices;
    GetNumHardwareDevices(Handle<Env>, Out<usize>) -> Status = devices;
    GetHardwareDevices(Handle<Env>, Out<Handle<Hardware>>, usize) -> Status = devices;
    GetHardwareDeviceEpIncompatibilityDetails(Handle<Env>, Text, Handle<Hardware>, Out<Memory>) -> Status;
    DeviceEpIncompatibilityDetails_GetReasonsBitmask(Memory, Out<u32>) -> Status;
    DeviceEpIncompatibilityDetails_GetNotes(Memory, Out<Text>) -> Status;
    DeviceEpIncompatibilityDetails_GetErrorCode(Memory, Out<i32>) -> Status;
    ReleaseDeviceEpIncompatibilityDetails(Memory);
    GetCompatibilityInfoFromModel(Text, Text, Allocator, Out<Chars>) -> Status;
    GetCompatibilityInfoFromModelBytes(Memory, usize, Text, Allocator, Out<Chars>) -> Status;
    CreateEnvWithOptions(Out<Wishes>, Out<Handle<Env>>) -> Status = env;
    Session_GetEpGraphAssignmentInfo(Handle<Model>, Out<List<Memory>>, Out<usize>) -> Status;
    EpAssignedSubgraph_GetEpName(Memory, Out<Text>) -> Status;
    EpAssignedSubgraph_GetNodes(Memory, Out<List<Memory>>, Out<usize>) -> Status;
    EpAssignedNode_GetName(Memory, Out<Text>) -> Status;
    EpAssignedNode_GetDomain(Memory, Out<Text>) -> Status;
    EpAssignedNode_GetOperatorType(Memory, Out<Text>) -> Status;
    RunOptionsSetSyncStream(Handle<RunSettings>, Memory);
    GetTensorElementTypeAndShapeDataReference(Handle<Value>, Out<c_int>, Out<List<i64>>, Out<usize>) -> Status = value;
    // Since version 25.
    RunOptionsEnableProfiling(Handle<RunSettings>, Text) -> Status = run_options;
    RunOptionsDisableProfiling(Handle<RunSettings>) -> Status = run_options;
    KernelInfoGetAttributeArray_string(Memory, Text, Allocator, Out<Out<Chars>>, Out<usize>) -> Status;
    SetPerSessionThreadPoolCallbacks(Handle<Env>, Memory) -> Status;
    // Since version 27.
    GetMemPatternEnabled(Handle<Settings>, Out<c_int>) -> Status = options;
    GetSessionExecutionMode(Handle<Settings>, Out<c_int>) -> Status = options;
    SessionReleaseCapturedGraph(Handle<Model>, c_int) -> Status = session;
    // Since version 28.
    GetExperimentalFunction(Text) -> Memory;
    KernelContext_GetSyncStream(Memory, Out<Memory>) -> Status;
    // Since version 29.
    SessionOptionsSetWeightlessSourceModelBuffer(Handle<Settings>, Memory, usize) -> Status;
    // Since version 30.
    KernelContext_GetPreallocatedOutput(Memory, usize, Out<Handle<Value>>) -> Status;
    // Since version 31.
    SessionOptionsSetEpContextDataReadFunc(Handle<Settings>, Memory, Memory) -> Status;
    GetModelPackageApi() -> Memory;
}
