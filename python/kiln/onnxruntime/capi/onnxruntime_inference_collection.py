"""Sessions and values, where programs look for them."""

from kiln.onnxruntime._compiler import ModelCompiler
from kiln.onnxruntime._session import InferenceSession, Session
from kiln.onnxruntime._values import IOBinding, OrtDevice, OrtValue, SparseTensor

__all__ = ["IOBinding", "InferenceSession", "ModelCompiler", "OrtDevice", "OrtValue", "Session", "SparseTensor"]
