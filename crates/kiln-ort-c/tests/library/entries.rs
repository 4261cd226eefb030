//! Every entry of the table in its order, with the kind of each argument and whether it returns a status of the call.
//! Names and places are those of `ort-sys`.

use Argument::*;

/// The kind of an argument. The first kinds are handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    Env,
    Options,
    Session,
    RunOptions,
    Value,
    MemoryInfo,
    TensorInfo,
    TypeInfo,
    MapInfo,
    SequenceInfo,
    OptionalInfo,
    Threading,
    Binding,
    Metadata,
    Device,
    Hardware,
    Pairs,
    Status,
    Arena,
    Prepacked,
    /// An allocator, which is a struct that callers may fill.
    Allocator,
    /// A text that ends with a zero.
    Text,
    /// An integer or a number of an enumeration.
    Number,
    /// A length or an index.
    Size,
    /// A place for an entry's result.
    Out,
    /// Lists.
    Numbers,
    Texts,
    Values,
    Devices,
    Memories,
    /// Bytes, or a pointer that means nothing to Kiln.
    Memory,
    /// Bytes of the default allocator, which the entry frees.
    Owned,
    /// A function of the caller's.
    Function,
}

/// An entry.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Its number in the table.
    pub(crate) place: usize,
    pub(crate) arguments: &'static [Argument],
    /// Whether it returns a status of the call.
    pub(crate) says: bool,
}

macro_rules! entries {
    ($($name:ident($($argument:ident),*) $(-> $says:ident)?;)+) => {
        pub(crate) const ENTRIES: &[Entry] = &[$(Entry {
            name: stringify!($name),
            place: std::mem::offset_of!(ort_sys::OrtApi, $name) / size_of::<usize>(),
            arguments: &[$($argument),*],
            says: entries!(@says $($says)?),
        }),+];
    };
    (@says Said) => { true };
    (@says) => { false };
}

entries! {
    CreateStatus(Number, Text);
    GetErrorCode(Status);
    GetErrorMessage(Status);
    CreateEnv(Number, Text, Out) -> Said;
    CreateEnvWithCustomLogger(Function, Memory, Number, Text, Out) -> Said;
    EnableTelemetryEvents(Env) -> Said;
    DisableTelemetryEvents(Env) -> Said;
    CreateSession(Env, Text, Options, Out) -> Said;
    CreateSessionFromArray(Env, Memory, Size, Options, Out) -> Said;
    Run(Session, RunOptions, Texts, Values, Size, Texts, Size, Out) -> Said;
    CreateSessionOptions(Out) -> Said;
    SetOptimizedModelFilePath(Options, Text) -> Said;
    CloneSessionOptions(Options, Out) -> Said;
    SetSessionExecutionMode(Options, Number) -> Said;
    EnableProfiling(Options, Text) -> Said;
    DisableProfiling(Options) -> Said;
    EnableMemPattern(Options) -> Said;
    DisableMemPattern(Options) -> Said;
    EnableCpuMemArena(Options) -> Said;
    DisableCpuMemArena(Options) -> Said;
    SetSessionLogId(Options, Text) -> Said;
    SetSessionLogVerbosityLevel(Options, Number) -> Said;
    SetSessionLogSeverityLevel(Options, Number) -> Said;
    SetSessionGraphOptimizationLevel(Options, Number) -> Said;
    SetIntraOpNumThreads(Options, Number) -> Said;
    SetInterOpNumThreads(Options, Number) -> Said;
    CreateCustomOpDomain(Text, Out) -> Said;
    CustomOpDomain_Add(Memory, Memory) -> Said;
    AddCustomOpDomain(Options, Memory) -> Said;
    RegisterCustomOpsLibrary(Options, Text, Out) -> Said;
    SessionGetInputCount(Session, Out) -> Said;
    SessionGetOutputCount(Session, Out) -> Said;
    SessionGetOverridableInitializerCount(Session, Out) -> Said;
    SessionGetInputTypeInfo(Session, Size, Out) -> Said;
    SessionGetOutputTypeInfo(Session, Size, Out) -> Said;
    SessionGetOverridableInitializerTypeInfo(Session, Size, Out) -> Said;
    SessionGetInputName(Session, Size, Allocator, Out) -> Said;
    SessionGetOutputName(Session, Size, Allocator, Out) -> Said;
    SessionGetOverridableInitializerName(Session, Size, Allocator, Out) -> Said;
    CreateRunOptions(Out) -> Said;
    RunOptionsSetRunLogVerbosityLevel(RunOptions, Number) -> Said;
    RunOptionsSetRunLogSeverityLevel(RunOptions, Number) -> Said;
    RunOptionsSetRunTag(RunOptions, Text) -> Said;
    RunOptionsGetRunLogVerbosityLevel(RunOptions, Out) -> Said;
    RunOptionsGetRunLogSeverityLevel(RunOptions, Out) -> Said;
    RunOptionsGetRunTag(RunOptions, Out) -> Said;
    RunOptionsSetTerminate(RunOptions) -> Said;
    RunOptionsUnsetTerminate(RunOptions) -> Said;
    CreateTensorAsOrtValue(Allocator, Numbers, Size, Number, Out) -> Said;
    CreateTensorWithDataAsOrtValue(MemoryInfo, Memory, Size, Numbers, Size, Number, Out) -> Said;
    IsTensor(Value, Out) -> Said;
    GetTensorMutableData(Value, Out) -> Said;
    FillStringTensor(Value, Texts, Size) -> Said;
    GetStringTensorDataLength(Value, Out) -> Said;
    GetStringTensorContent(Value, Memory, Size, Out, Size) -> Said;
    CastTypeInfoToTensorInfo(TypeInfo, Out) -> Said;
    GetOnnxTypeFromTypeInfo(TypeInfo, Out) -> Said;
    CreateTensorTypeAndShapeInfo(Out) -> Said;
    SetTensorElementType(TensorInfo, Number) -> Said;
    SetDimensions(TensorInfo, Numbers, Size) -> Said;
    GetTensorElementType(TensorInfo, Out) -> Said;
    GetDimensionsCount(TensorInfo, Out) -> Said;
    GetDimensions(TensorInfo, Out, Size) -> Said;
    GetSymbolicDimensions(TensorInfo, Out, Size) -> Said;
    GetTensorShapeElementCount(TensorInfo, Out) -> Said;
    GetTensorTypeAndShape(Value, Out) -> Said;
    GetTypeInfo(Value, Out) -> Said;
    GetValueType(Value, Out) -> Said;
    CreateMemoryInfo(Text, Number, Number, Number, Out) -> Said;
    CreateCpuMemoryInfo(Number, Number, Out) -> Said;
    CompareMemoryInfo(MemoryInfo, MemoryInfo, Out) -> Said;
    MemoryInfoGetName(MemoryInfo, Out) -> Said;
    MemoryInfoGetId(MemoryInfo, Out) -> Said;
    MemoryInfoGetMemType(MemoryInfo, Out) -> Said;
    MemoryInfoGetType(MemoryInfo, Out) -> Said;
    AllocatorAlloc(Allocator, Size, Out) -> Said;
    AllocatorFree(Allocator, Owned) -> Said;
    AllocatorGetInfo(Allocator, Out) -> Said;
    GetAllocatorWithDefaultOptions(Out) -> Said;
    AddFreeDimensionOverride(Options, Text, Number) -> Said;
    GetValue(Value, Number, Allocator, Out) -> Said;
    GetValueCount(Value, Out) -> Said;
    CreateValue(Values, Size, Number, Out) -> Said;
    CreateOpaqueValue(Text, Text, Memory, Size, Out) -> Said;
    GetOpaqueValue(Text, Text, Value, Memory, Size) -> Said;
    KernelInfoGetAttribute_float(Memory, Text, Out) -> Said;
    KernelInfoGetAttribute_int64(Memory, Text, Out) -> Said;
    KernelInfoGetAttribute_string(Memory, Text, Memory, Out) -> Said;
    KernelContext_GetInputCount(Memory, Out) -> Said;
    KernelContext_GetOutputCount(Memory, Out) -> Said;
    KernelContext_GetInput(Memory, Size, Out) -> Said;
    KernelContext_GetOutput(Memory, Size, Numbers, Size, Out) -> Said;
    ReleaseEnv(Env);
    ReleaseStatus(Status);
    ReleaseMemoryInfo(MemoryInfo);
    ReleaseSession(Session);
    ReleaseValue(Value);
    ReleaseRunOptions(RunOptions);
    ReleaseTypeInfo(TypeInfo);
    ReleaseTensorTypeAndShapeInfo(TensorInfo);
    ReleaseSessionOptions(Options);
    ReleaseCustomOpDomain(Memory);
    GetDenotationFromTypeInfo(TypeInfo, Out, Out) -> Said;
    CastTypeInfoToMapTypeInfo(TypeInfo, Out) -> Said;
    CastTypeInfoToSequenceTypeInfo(TypeInfo, Out) -> Said;
    GetMapKeyType(MapInfo, Out) -> Said;
    GetMapValueType(MapInfo, Out) -> Said;
    GetSequenceElementType(SequenceInfo, Out) -> Said;
    ReleaseMapTypeInfo(MapInfo);
    ReleaseSequenceTypeInfo(SequenceInfo);
    SessionEndProfiling(Session, Allocator, Out) -> Said;
    SessionGetModelMetadata(Session, Out) -> Said;
    ModelMetadataGetProducerName(Metadata, Allocator, Out) -> Said;
    ModelMetadataGetGraphName(Metadata, Allocator, Out) -> Said;
    ModelMetadataGetDomain(Metadata, Allocator, Out) -> Said;
    ModelMetadataGetDescription(Metadata, Allocator, Out) -> Said;
    ModelMetadataLookupCustomMetadataMap(Metadata, Allocator, Text, Out) -> Said;
    ModelMetadataGetVersion(Metadata, Out) -> Said;
    ReleaseModelMetadata(Metadata);
    CreateEnvWithGlobalThreadPools(Number, Text, Threading, Out) -> Said;
    DisablePerSessionThreads(Options) -> Said;
    CreateThreadingOptions(Out) -> Said;
    ReleaseThreadingOptions(Threading);
    ModelMetadataGetCustomMetadataMapKeys(Metadata, Allocator, Out, Out) -> Said;
    AddFreeDimensionOverrideByName(Options, Text, Number) -> Said;
    GetAvailableProviders(Out, Out) -> Said;
    ReleaseAvailableProviders(Owned, Number) -> Said;
    GetStringTensorElementLength(Value, Size, Out) -> Said;
    GetStringTensorElement(Value, Size, Size, Memory) -> Said;
    FillStringTensorElement(Value, Text, Size) -> Said;
    AddSessionConfigEntry(Options, Text, Text) -> Said;
    CreateAllocator(Session, MemoryInfo, Out) -> Said;
    ReleaseAllocator(Allocator);
    RunWithBinding(Session, RunOptions, Binding) -> Said;
    CreateIoBinding(Session, Out) -> Said;
    ReleaseIoBinding(Binding);
    BindInput(Binding, Text, Value) -> Said;
    BindOutput(Binding, Text, Value) -> Said;
    BindOutputToDevice(Binding, Text, MemoryInfo) -> Said;
    GetBoundOutputNames(Binding, Allocator, Out, Out, Out) -> Said;
    GetBoundOutputValues(Binding, Allocator, Out, Out) -> Said;
    ClearBoundInputs(Binding);
    ClearBoundOutputs(Binding);
    TensorAt(Value, Numbers, Size, Out) -> Said;
    CreateAndRegisterAllocator(Env, MemoryInfo, Arena) -> Said;
    SetLanguageProjection(Env, Number) -> Said;
    SessionGetProfilingStartTimeNs(Session, Out) -> Said;
    SetGlobalIntraOpNumThreads(Threading, Number) -> Said;
    SetGlobalInterOpNumThreads(Threading, Number) -> Said;
    SetGlobalSpinControl(Threading, Number) -> Said;
    AddInitializer(Options, Text, Value) -> Said;
    CreateEnvWithCustomLoggerAndGlobalThreadPools(Function, Memory, Number, Text, Threading, Out) -> Said;
    SessionOptionsAppendExecutionProvider_CUDA(Options, Memory) -> Said;
    SessionOptionsAppendExecutionProvider_ROCM(Options, Memory) -> Said;
    SessionOptionsAppendExecutionProvider_OpenVINO(Options, Memory) -> Said;
    SetGlobalDenormalAsZero(Threading) -> Said;
    CreateArenaCfg(Size, Number, Number, Number, Out) -> Said;
    ReleaseArenaCfg(Arena);
    ModelMetadataGetGraphDescription(Metadata, Allocator, Out) -> Said;
    SessionOptionsAppendExecutionProvider_TensorRT(Options, Memory) -> Said;
    SetCurrentGpuDeviceId(Number) -> Said;
    GetCurrentGpuDeviceId(Out) -> Said;
    KernelInfoGetAttributeArray_float(Memory, Text, Out, Out) -> Said;
    KernelInfoGetAttributeArray_int64(Memory, Text, Out, Out) -> Said;
    CreateArenaCfgV2(Texts, Numbers, Size, Out) -> Said;
    AddRunConfigEntry(RunOptions, Text, Text) -> Said;
    CreatePrepackedWeightsContainer(Out) -> Said;
    ReleasePrepackedWeightsContainer(Prepacked);
    CreateSessionWithPrepackedWeightsContainer(Env, Text, Options, Prepacked, Out) -> Said;
    CreateSessionFromArrayWithPrepackedWeightsContainer(Env, Memory, Size, Options, Prepacked, Out) -> Said;
    SessionOptionsAppendExecutionProvider_TensorRT_V2(Options, Memory) -> Said;
    CreateTensorRTProviderOptions(Out) -> Said;
    UpdateTensorRTProviderOptions(Memory, Texts, Texts, Size) -> Said;
    GetTensorRTProviderOptionsAsString(Memory, Allocator, Out) -> Said;
    ReleaseTensorRTProviderOptions(Memory);
    EnableOrtCustomOps(Options) -> Said;
    RegisterAllocator(Env, Allocator) -> Said;
    UnregisterAllocator(Env, MemoryInfo) -> Said;
    IsSparseTensor(Value, Out) -> Said;
    CreateSparseTensorAsOrtValue(Allocator, Numbers, Size, Number, Out) -> Said;
    FillSparseTensorCoo(Value, MemoryInfo, Numbers, Size, Memory, Numbers, Size) -> Said;
    FillSparseTensorCsr(Value, MemoryInfo, Numbers, Size, Memory, Numbers, Size, Numbers, Size) -> Said;
    FillSparseTensorBlockSparse(Value, MemoryInfo, Numbers, Size, Memory, Numbers, Size, Numbers) -> Said;
    CreateSparseTensorWithValuesAsOrtValue(MemoryInfo, Memory, Numbers, Size, Numbers, Size, Number, Out) -> Said;
    UseCooIndices(Value, Out, Size) -> Said;
    UseCsrIndices(Value, Out, Size, Out, Size) -> Said;
    UseBlockSparseIndices(Value, Numbers, Size, Out) -> Said;
    GetSparseTensorFormat(Value, Out) -> Said;
    GetSparseTensorValuesTypeAndShape(Value, Out) -> Said;
    GetSparseTensorValues(Value, Out) -> Said;
    GetSparseTensorIndicesTypeShape(Value, Number, Out) -> Said;
    GetSparseTensorIndices(Value, Number, Out, Out) -> Said;
    HasValue(Value, Out) -> Said;
    KernelContext_GetGPUComputeStream(Memory, Out) -> Said;
    GetTensorMemoryInfo(Value, Out) -> Said;
    GetExecutionProviderApi(Text, Number, Out) -> Said;
    SessionOptionsSetCustomCreateThreadFn(Options, Function) -> Said;
    SessionOptionsSetCustomThreadCreationOptions(Options, Memory) -> Said;
    SessionOptionsSetCustomJoinThreadFn(Options, Function) -> Said;
    SetGlobalCustomCreateThreadFn(Threading, Function) -> Said;
    SetGlobalCustomThreadCreationOptions(Threading, Memory) -> Said;
    SetGlobalCustomJoinThreadFn(Threading, Function) -> Said;
    SynchronizeBoundInputs(Binding) -> Said;
    SynchronizeBoundOutputs(Binding) -> Said;
    SessionOptionsAppendExecutionProvider_CUDA_V2(Options, Memory) -> Said;
    CreateCUDAProviderOptions(Out) -> Said;
    UpdateCUDAProviderOptions(Memory, Texts, Texts, Size) -> Said;
    GetCUDAProviderOptionsAsString(Memory, Allocator, Out) -> Said;
    ReleaseCUDAProviderOptions(Memory);
    SessionOptionsAppendExecutionProvider_MIGraphX(Options, Memory) -> Said;
    AddExternalInitializers(Options, Texts, Values, Size) -> Said;
    CreateOpAttr(Text, Memory, Number, Number, Out) -> Said;
    ReleaseOpAttr(Memory);
    CreateOp(Memory, Text, Text, Number, Out, Numbers, Number, Memories, Number, Number, Number, Out) -> Said;
    InvokeOp(Memory, Memory, Values, Number, Values, Number) -> Said;
    ReleaseOp(Memory);
    SessionOptionsAppendExecutionProvider(Options, Text, Texts, Texts, Size) -> Said;
    CopyKernelInfo(Memory, Out) -> Said;
    ReleaseKernelInfo(Memory);
    GetTrainingApi(Number);
    SessionOptionsAppendExecutionProvider_CANN(Options, Memory) -> Said;
    CreateCANNProviderOptions(Out) -> Said;
    UpdateCANNProviderOptions(Memory, Texts, Texts, Size) -> Said;
    GetCANNProviderOptionsAsString(Memory, Allocator, Out) -> Said;
    ReleaseCANNProviderOptions(Memory);
    MemoryInfoGetDeviceType(MemoryInfo, Out);
    UpdateEnvWithCustomLogLevel(Env, Number) -> Said;
    SetGlobalIntraOpThreadAffinity(Threading, Text) -> Said;
    RegisterCustomOpsLibrary_V2(Options, Text) -> Said;
    RegisterCustomOpsUsingFunction(Options, Text) -> Said;
    KernelInfo_GetInputCount(Memory, Out) -> Said;
    KernelInfo_GetOutputCount(Memory, Out) -> Said;
    KernelInfo_GetInputName(Memory, Size, Memory, Out) -> Said;
    KernelInfo_GetOutputName(Memory, Size, Memory, Out) -> Said;
    KernelInfo_GetInputTypeInfo(Memory, Size, Out) -> Said;
    KernelInfo_GetOutputTypeInfo(Memory, Size, Out) -> Said;
    KernelInfoGetAttribute_tensor(Memory, Text, Allocator, Out) -> Said;
    HasSessionConfigEntry(Options, Text, Out) -> Said;
    GetSessionConfigEntry(Options, Text, Memory, Out) -> Said;
    SessionOptionsAppendExecutionProvider_Dnnl(Options, Memory) -> Said;
    CreateDnnlProviderOptions(Out) -> Said;
    UpdateDnnlProviderOptions(Memory, Texts, Texts, Size) -> Said;
    GetDnnlProviderOptionsAsString(Memory, Allocator, Out) -> Said;
    ReleaseDnnlProviderOptions(Memory);
    KernelInfo_GetNodeName(Memory, Memory, Out) -> Said;
    KernelInfo_GetLogger(Memory, Out) -> Said;
    KernelContext_GetLogger(Memory, Out) -> Said;
    Logger_LogMessage(Memory, Number, Text, Text, Number, Text) -> Said;
    Logger_GetLoggingSeverityLevel(Memory, Out) -> Said;
    KernelInfoGetConstantInput_tensor(Memory, Size, Out, Out) -> Said;
    CastTypeInfoToOptionalTypeInfo(TypeInfo, Out) -> Said;
    GetOptionalContainedTypeInfo(OptionalInfo, Out) -> Said;
    GetResizedStringTensorElementBuffer(Value, Size, Size, Out) -> Said;
    KernelContext_GetAllocator(Memory, MemoryInfo, Out) -> Said;
    GetBuildInfoString();
    CreateROCMProviderOptions(Out) -> Said;
    UpdateROCMProviderOptions(Memory, Texts, Texts, Size) -> Said;
    GetROCMProviderOptionsAsString(Memory, Allocator, Out) -> Said;
    ReleaseROCMProviderOptions(Memory);
    CreateAndRegisterAllocatorV2(Env, Text, MemoryInfo, Arena, Texts, Texts, Size) -> Said;
    RunAsync(Session, RunOptions, Texts, Values, Size, Texts, Size, Out, Function, Memory) -> Said;
    UpdateTensorRTProviderOptionsWithValue(Memory, Text, Memory) -> Said;
    GetTensorRTProviderOptionsByName(Memory, Text, Out) -> Said;
    UpdateCUDAProviderOptionsWithValue(Memory, Text, Memory) -> Said;
    GetCUDAProviderOptionsByName(Memory, Text, Out) -> Said;
    KernelContext_GetResource(Memory, Number, Number, Out) -> Said;
    SetUserLoggingFunction(Options, Function, Memory) -> Said;
    ShapeInferContext_GetInputCount(Memory, Out) -> Said;
    ShapeInferContext_GetInputTypeShape(Memory, Size, Out) -> Said;
    ShapeInferContext_GetAttribute(Memory, Text, Out) -> Said;
    ShapeInferContext_SetOutputTypeShape(Memory, Size, TensorInfo) -> Said;
    SetSymbolicDimensions(TensorInfo, Texts, Size) -> Said;
    ReadOpAttr(Memory, Number, Memory, Size, Out) -> Said;
    SetDeterministicCompute(Options, Number) -> Said;
    KernelContext_ParallelFor(Memory, Memory);
    SessionOptionsAppendExecutionProvider_OpenVINO_V2(Options, Texts, Texts, Size) -> Said;
    SessionOptionsAppendExecutionProvider_VitisAI(Options, Texts, Texts, Size) -> Said;
    KernelContext_GetScratchBuffer(Memory, MemoryInfo, Size, Out) -> Said;
    KernelInfoGetAllocator(Memory, Number, Out) -> Said;
    AddExternalInitializersFromMemory(Options, Texts, Memories, Numbers, Size) -> Said;
    CreateLoraAdapter(Text, Allocator, Out) -> Said;
    CreateLoraAdapterFromArray(Memory, Size, Allocator, Out) -> Said;
    ReleaseLoraAdapter(Memory);
    RunOptionsAddActiveLoraAdapter(RunOptions, Memory) -> Said;
    SetEpDynamicOptions(Session, Texts, Texts, Size) -> Said;
    ReleaseValueInfo(Memory);
    ReleaseNode(Memory);
    ReleaseGraph(Memory);
    ReleaseModel(Memory);
    GetValueInfoName(Memory, Out) -> Said;
    GetValueInfoTypeInfo(Memory, Out) -> Said;
    GetModelEditorApi();
    CreateTensorWithDataAndDeleterAsOrtValue(Allocator, Owned, Size, Numbers, Size, Number, Out) -> Said;
    SessionOptionsSetLoadCancellationFlag(Options, Number) -> Said;
    GetCompileApi();
    CreateKeyValuePairs(Out);
    AddKeyValuePair(Pairs, Text, Text);
    GetKeyValue(Pairs, Text);
    GetKeyValuePairs(Pairs, Out, Out, Out);
    RemoveKeyValuePair(Pairs, Text);
    ReleaseKeyValuePairs(Pairs);
    RegisterExecutionProviderLibrary(Env, Text, Text) -> Said;
    UnregisterExecutionProviderLibrary(Env, Text) -> Said;
    GetEpDevices(Env, Out, Out) -> Said;
    SessionOptionsAppendExecutionProvider_V2(Options, Env, Devices, Size, Texts, Texts, Size) -> Said;
    SessionOptionsSetEpSelectionPolicy(Options, Number) -> Said;
    SessionOptionsSetEpSelectionPolicyDelegate(Options, Memory, Memory) -> Said;
    HardwareDevice_Type(Hardware);
    HardwareDevice_VendorId(Hardware);
    HardwareDevice_Vendor(Hardware);
    HardwareDevice_DeviceId(Hardware);
    HardwareDevice_Metadata(Hardware);
    EpDevice_EpName(Device);
    EpDevice_EpVendor(Device);
    EpDevice_EpMetadata(Device);
    EpDevice_EpOptions(Device);
    EpDevice_Device(Device);
    GetEpApi();
    GetTensorSizeInBytes(Value, Out) -> Said;
    AllocatorGetStats(Allocator, Out) -> Said;
    CreateMemoryInfo_V2(Text, Number, Number, Number, Number, Size, Number, Out) -> Said;
    MemoryInfoGetDeviceMemType(MemoryInfo);
    MemoryInfoGetVendorId(MemoryInfo);
    ValueInfo_GetValueProducer(Memory, Out, Out) -> Said;
    ValueInfo_GetValueNumConsumers(Memory, Out) -> Said;
    ValueInfo_GetValueConsumers(Memory, Out, Out, Size) -> Said;
    ValueInfo_GetInitializerValue(Memory, Out) -> Said;
    ValueInfo_GetExternalInitializerInfo(Memory, Out) -> Said;
    ValueInfo_IsRequiredGraphInput(Memory, Out) -> Said;
    ValueInfo_IsOptionalGraphInput(Memory, Out) -> Said;
    ValueInfo_IsGraphOutput(Memory, Out) -> Said;
    ValueInfo_IsConstantInitializer(Memory, Out) -> Said;
    ValueInfo_IsFromOuterScope(Memory, Out) -> Said;
    Graph_GetName(Memory, Out) -> Said;
    Graph_GetModelPath(Memory, Out) -> Said;
    Graph_GetOnnxIRVersion(Memory, Out) -> Said;
    Graph_GetNumOperatorSets(Memory, Out) -> Said;
    Graph_GetOperatorSets(Memory, Out, Out, Size) -> Said;
    Graph_GetNumInputs(Memory, Out) -> Said;
    Graph_GetInputs(Memory, Out, Size) -> Said;
    Graph_GetNumOutputs(Memory, Out) -> Said;
    Graph_GetOutputs(Memory, Out, Size) -> Said;
    Graph_GetNumInitializers(Memory, Out) -> Said;
    Graph_GetInitializers(Memory, Out, Size) -> Said;
    Graph_GetNumNodes(Memory, Out) -> Said;
    Graph_GetNodes(Memory, Out, Size) -> Said;
    Graph_GetParentNode(Memory, Out) -> Said;
    Graph_GetGraphView(Memory, Out, Size, Out) -> Said;
    Node_GetId(Memory, Out) -> Said;
    Node_GetName(Memory, Out) -> Said;
    Node_GetOperatorType(Memory, Out) -> Said;
    Node_GetDomain(Memory, Out) -> Said;
    Node_GetSinceVersion(Memory, Out) -> Said;
    Node_GetNumInputs(Memory, Out) -> Said;
    Node_GetInputs(Memory, Out, Size) -> Said;
    Node_GetNumOutputs(Memory, Out) -> Said;
    Node_GetOutputs(Memory, Out, Size) -> Said;
    Node_GetNumImplicitInputs(Memory, Out) -> Said;
    Node_GetImplicitInputs(Memory, Out, Size) -> Said;
    Node_GetNumAttributes(Memory, Out) -> Said;
    Node_GetAttributes(Memory, Out, Size) -> Said;
    Node_GetAttributeByName(Memory, Text, Out) -> Said;
    OpAttr_GetTensorAttributeAsOrtValue(Memory, Out) -> Said;
    OpAttr_GetType(Memory, Out) -> Said;
    OpAttr_GetName(Memory, Out) -> Said;
    Node_GetNumSubgraphs(Memory, Out) -> Said;
    Node_GetSubgraphs(Memory, Out, Size, Out) -> Said;
    Node_GetGraph(Memory, Out) -> Said;
    Node_GetEpName(Memory, Out) -> Said;
    ReleaseExternalInitializerInfo(Memory);
    ExternalInitializerInfo_GetFilePath(Memory);
    ExternalInitializerInfo_GetFileOffset(Memory);
    ExternalInitializerInfo_GetByteSize(Memory);
    GetRunConfigEntry(RunOptions, Text);
    EpDevice_MemoryInfo(Device, Number);
    CreateSharedAllocator(Env, Device, Number, Number, Pairs, Out) -> Said;
    GetSharedAllocator(Env, MemoryInfo, Out) -> Said;
    ReleaseSharedAllocator(Env, Device, Number) -> Said;
    GetTensorData(Value, Out) -> Said;
    GetSessionOptionsConfigEntries(Options, Out) -> Said;
    SessionGetMemoryInfoForInputs(Session, Out, Size) -> Said;
    SessionGetMemoryInfoForOutputs(Session, Out, Size) -> Said;
    SessionGetEpDeviceForInputs(Session, Out, Size) -> Said;
    CreateSyncStreamForEpDevice(Device, Pairs, Out) -> Said;
    SyncStream_GetHandle(Memory);
    ReleaseSyncStream(Memory);
    CopyTensors(Env, Values, Values, Memory, Size) -> Said;
    Graph_GetModelMetadata(Memory, Out) -> Said;
    GetModelCompatibilityForEpDevices(Devices, Size, Text, Out) -> Said;
    CreateExternalInitializerInfo(Text, Number, Size, Out) -> Said;
    TensorTypeAndShape_HasShape(TensorInfo);
    KernelInfo_GetConfigEntries(Memory, Out) -> Said;
    KernelInfo_GetOperatorDomain(Memory, Memory, Out) -> Said;
    KernelInfo_GetOperatorType(Memory, Memory, Out) -> Said;
    KernelInfo_GetOperatorSinceVersion(Memory, Out) -> Said;
    GetInteropApi();
    SessionGetEpDeviceForOutputs(Session, Out, Size) -> Said;
    GetNumHardwareDevices(Env, Out) -> Said;
    GetHardwareDevices(Env, Out, Size) -> Said;
    GetHardwareDeviceEpIncompatibilityDetails(Env, Text, Hardware, Out) -> Said;
    DeviceEpIncompatibilityDetails_GetReasonsBitmask(Memory, Out) -> Said;
    DeviceEpIncompatibilityDetails_GetNotes(Memory, Out) -> Said;
    DeviceEpIncompatibilityDetails_GetErrorCode(Memory, Out) -> Said;
    ReleaseDeviceEpIncompatibilityDetails(Memory);
    GetCompatibilityInfoFromModel(Text, Text, Allocator, Out) -> Said;
    GetCompatibilityInfoFromModelBytes(Memory, Size, Text, Allocator, Out) -> Said;
    CreateEnvWithOptions(Out, Out) -> Said;
    Session_GetEpGraphAssignmentInfo(Session, Out, Out) -> Said;
    EpAssignedSubgraph_GetEpName(Memory, Out) -> Said;
    EpAssignedSubgraph_GetNodes(Memory, Out, Out) -> Said;
    EpAssignedNode_GetName(Memory, Out) -> Said;
    EpAssignedNode_GetDomain(Memory, Out) -> Said;
    EpAssignedNode_GetOperatorType(Memory, Out) -> Said;
    RunOptionsSetSyncStream(RunOptions, Memory);
    GetTensorElementTypeAndShapeDataReference(Value, Out, Out, Out) -> Said;
    RunOptionsEnableProfiling(RunOptions, Text) -> Said;
    RunOptionsDisableProfiling(RunOptions) -> Said;
    KernelInfoGetAttributeArray_string(Memory, Text, Allocator, Out, Out) -> Said;
    SetPerSessionThreadPoolCallbacks(Env, Memory) -> Said;
    GetMemPatternEnabled(Options, Out) -> Said;
    GetSessionExecutionMode(Options, Out) -> Said;
    SessionReleaseCapturedGraph(Session, Number) -> Said;
    GetExperimentalFunction(Text);
    KernelContext_GetSyncStream(Memory, Out) -> Said;
    SessionOptionsSetWeightlessSourceModelBuffer(Options, Memory, Size) -> Said;
    KernelContext_GetPreallocatedOutput(Memory, Size, Out) -> Said;
    SessionOptionsSetEpContextDataReadFunc(Options, Memory, Memory) -> Said;
    GetModelPackageApi();
}
