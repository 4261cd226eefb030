"""Sessions and values, where programs look for them."""

from kiln.onnxruntime._adapters import AdapterFormat
from kiln.onnxruntime._compiler import ModelCompiler
from kiln.onnxruntime._providers import check_and_normalize_provider_args
from kiln.onnxruntime._session import InferenceSession, Session
from kiln.onnxruntime._sparse import SparseTensor
from kiln.onnxruntime._values import IOBinding, OrtDevice, OrtValue

__all__ = [
    "AdapterFormat",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtValue",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
]
