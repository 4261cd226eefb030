"""Sessions and values, where programs look for them."""

from kiln.onnxruntime._session import InferenceSession
from kiln.onnxruntime._values import IOBinding, OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]
