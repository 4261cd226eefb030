"""Another place where programs look for what onnxruntime's native half defines."""

from kiln.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
