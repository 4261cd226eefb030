"""The exceptions, where programs look for them."""

from kiln.onnxruntime._compiler import OrtCompileApiFlags
from kiln.onnxruntime._errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from kiln.onnxruntime._install import of_real
from kiln.onnxruntime._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtMemType,
    RunOptions,
    SessionOptions,
)
from kiln.onnxruntime._process import get_all_providers, get_available_providers, get_device
from kiln.onnxruntime._session import ModelMetadata, NodeArg
from kiln.onnxruntime._values import OrtArenaCfg, OrtDevice, OrtMemoryInfo, SessionIOBinding, SparseTensor

__all__ = [
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotFound",
    "NotImplemented",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtMemType",
    "OrtMemoryInfo",
    "RunOptions",
    "RuntimeException",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "get_all_providers",
    "get_available_providers",
    "get_device",
]

# Names that Kiln lacks are those of the real package.
__getattr__ = of_real
