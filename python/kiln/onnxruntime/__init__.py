"""The names of onnxruntime's Python package, on Kiln.

Import it under its old name, ``import kiln.onnxruntime as onnxruntime``; or have every later ``import
onnxruntime`` of the process find it, with :func:`install`; or run a program unmodified with ``python -m
kiln.onnxruntime program.py``.

The package has sessions, options, ports, metadata, values, bindings and errors. Options without an effect on Kiln are
accepted, and logged once to the logger ``kiln.onnxruntime``. A model that Kiln refuses is an error, or runs on the real
onnxruntime after :func:`set_fallback`.
"""

from __future__ import annotations

from kiln.onnxruntime._adapters import AdapterFormat, LoraAdapter
from kiln.onnxruntime._compiler import ModelCompiler, OrtCompileApiFlags
from kiln.onnxruntime._devices import (
    OrtEpDevice,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    get_ep_devices,
)
from kiln.onnxruntime._install import install, is_installed, set_fallback
from kiln.onnxruntime._native import SessionIOBinding
from kiln.onnxruntime._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtMemType,
    RunOptions,
    SessionOptions,
)
from kiln.onnxruntime._process import (
    __version__,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
)
from kiln.onnxruntime._session import InferenceSession, ModelMetadata, NodeArg
from kiln.onnxruntime._sparse import OrtSparseFormat, SparseTensor
from kiln.onnxruntime._values import (
    IOBinding,
    OrtArenaCfg,
    OrtDevice,
    OrtMemoryInfo,
    OrtValue,
    copy_tensors,
    create_and_register_allocator,
)

# Programs name its exceptions from here: `onnxruntime.capi.onnxruntime_pybind11_state.Fail`.
from kiln.onnxruntime import capi

__all__ = [
    "AdapterFormat",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtSparseFormat",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "__version__",
    "copy_tensors",
    "create_and_register_allocator",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "is_installed",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_fallback",
    "set_global_thread_pool_sizes",
    "set_seed",
]
