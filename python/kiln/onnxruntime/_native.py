"""The classes of onnxruntime's native half, ``onnxruntime.capi.onnxruntime_pybind11_state``, where they differ from
those of its Python half. Programs use them that exchange values with PyTorch.

>>> from kiln.onnxruntime.capi import onnxruntime_pybind11_state as native
>>> device = native.OrtDevice(native.OrtDevice.cpu(), native.OrtDevice.default_memory(), 0)
>>> value = native.OrtValue.ortvalue_from_numpy(np.float32([[1, -2, 3]]), device)
>>> session = ort.InferenceSession(model)
>>> [y] = session._sess.run_with_ort_values({"x": value}, ["y"], None)
>>> np.from_dlpack(y)
array([[1., 0., 3.]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kiln.onnxruntime._values import IOBinding, OrtValue, OrtValueVector

if TYPE_CHECKING:
    from kiln.onnxruntime._options import RunOptions
    from kiln.onnxruntime._session import InferenceSession


class OrtDevice:
    """Where a value lies, by numbers. Programs name GPUs before they look for one; values lie in the processor's memory
    alone."""

    def __init__(self, device_type: int = 0, memory_type: int = 0, device_id: int = 0, vendor_id: int = 0) -> None:
        self._type = device_type
        self._memory_type = memory_type
        self._id = device_id
        self._vendor = vendor_id

    @staticmethod
    def cpu() -> int:
        """The number of the processor."""
        return 0

    @staticmethod
    def cuda() -> int:
        """The number of GPUs."""
        return 1

    @staticmethod
    def gpu() -> int:
        """The number of GPUs."""
        return 1

    @staticmethod
    def webgpu() -> int:
        """The number of GPUs."""
        return 1

    @staticmethod
    def fpga() -> int:
        """The number of programmable arrays."""
        return 2

    @staticmethod
    def npu() -> int:
        """The number of processors for networks."""
        return 3

    @staticmethod
    def cann() -> int:
        """The number of processors for networks."""
        return 3

    @staticmethod
    def dml() -> int:
        """The number of GPUs below DirectX."""
        return 4

    @staticmethod
    def default_memory() -> int:
        """The number of a device's usual memory."""
        return 0

    def device_type(self) -> int:
        """The number of the device's kind."""
        return self._type

    def device_id(self) -> int:
        """The device's number."""
        return self._id

    def mem_type(self) -> int:
        """The number of the memory's kind."""
        return self._memory_type

    def vendor_id(self) -> int:
        """The number of the device's vendor."""
        return self._vendor


class SessionIOBinding(IOBinding):
    """Inputs and outputs of requests, bound with devices in place of their names.

    >>> session = ort.InferenceSession(model)
    >>> binding = ort.SessionIOBinding(session._sess)
    >>> binding.bind_input("x", np.float32([[1, -2, 3]]))
    >>> binding.bind_output("y", ort.capi.onnxruntime_pybind11_state.OrtDevice())
    >>> session._sess.run_with_iobinding(binding)
    >>> binding.get_outputs()[0].numpy()
    array([[1., 0., 3.]], dtype=float32)
    """

    def bind_input(self, name: str, first: Any, *rest: Any) -> None:
        """Binds an array; or a device, an element type, a shape and an address."""
        if rest:
            super().bind_input(name, first, 0, *rest)
        else:
            self.bind_cpu_input(name, first)

    def bind_output(self, name: str, device: Any, *rest: Any) -> None:  # type: ignore[override]
        """Binds an output; to an element type, a shape and an address, if they are given."""
        super().bind_output(name, device, 0, *rest)


class Session:
    """The native half of a session: its methods take their arguments in another order. What else a program asks it
    for, the session answers."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def inputs_meta(self) -> list[Any]:
        """The inputs that a request must give."""
        return self._session.get_inputs()

    @property
    def outputs_meta(self) -> list[Any]:
        """The outputs."""
        return self._session.get_outputs()

    @property
    def overridable_initializers(self) -> list[Any]:
        """The inputs that a request may leave out."""
        return self._session.get_overridable_initializers()

    @property
    def model_meta(self) -> Any:
        """What the model says of itself."""
        return self._session.get_modelmeta()

    def run_with_ort_values(
        self, feeds: dict[str, Any], names: Iterable[str] | None, options: RunOptions | None = None
    ) -> OrtValueVector:
        """Serves one request with values."""
        return self._session.run_with_ort_values(names, feeds, options)

    def run_with_iobinding(self, binding: IOBinding, options: RunOptions | None = None) -> None:
        """Serves one request with the bound inputs and outputs."""
        binding.run(self._session, options)

    def run_with_ortvaluevector(
        self,
        options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[Any],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        devices: Sequence[Any],
    ) -> None:
        """Serves one request with vectors of values; the outputs are appended to ``fetches``."""
        if len(feed_names) != len(feeds):
            raise ValueError(f"{len(feed_names)} names of inputs for {len(feeds)} values")
        fetches.extend(self.run_with_ort_values(dict(zip(feed_names, feeds, strict=True)), fetch_names, options))
