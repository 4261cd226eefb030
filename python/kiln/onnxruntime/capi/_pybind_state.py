"""Another place where programs look for what onnxruntime's native half defines."""

from kiln.onnxruntime._install import of_real
from kiln.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403

# Names that Kiln lacks are those of the real package, whose tools ask for them here.
__getattr__ = of_real
