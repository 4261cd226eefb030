"""The ONNX backend API, so that the onnx package's own test runner scores Kiln.

>>> import onnx, kiln.backend
>>> kiln.backend.run_model(onnx.load_from_string(model), [np.float32([[1, -2, 3]])])
Outputs(y=array([[1., 0., 3.]], dtype=float32))
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

import kiln


class KilnRep(BackendRep):  # type: ignore[misc]
    """A model that is ready to run."""

    def __init__(self, session: kiln.Session) -> None:
        self._session = session
        self._inputs = [port.name for port in session.inputs]
        self._outputs = [port.name for port in session.outputs]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the model's order, or by name.

        >>> rep = kiln.backend.prepare(onnx.load_from_string(model))
        >>> rep.run([np.float32([[1, -2, 3]])])
        Outputs(y=array([[1., 0., 3.]], dtype=float32))
        """
        if isinstance(inputs, dict):
            given = inputs
        elif isinstance(inputs, (list, tuple)):
            given = dict(zip(self._inputs, inputs))
        else:
            given = {self._inputs[0]: inputs}
        values = self._session.run(None, given)
        return namedtupledict("Outputs", self._outputs)(*values)  # type: ignore[no-any-return]


class KilnBackend(Backend):  # type: ignore[misc]
    """Kiln as a backend of the onnx package."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether Kiln loads the model.

        >>> kiln.backend.KilnBackend.supports_device("CPU")
        True
        """
        try:
            cls.prepare(model, device, **kwargs)
        except kiln.KilnError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> KilnRep:
        """The model, ready to run. Keywords are options of :class:`kiln.Session`."""
        if not cls.supports_device(device):
            raise kiln.OptionError(f"device: there is no {device} here")
        return KilnRep(kiln.Session(model.SerializeToString(), **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of one request."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of a model of that node alone."""
        arrays = [np.asarray(value) for value in inputs]
        names = [name for name in node.input if name]
        ports = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.helper.make_graph([node], "node", ports, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, dict(zip(names, arrays)), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is the processor."""
        return device.split(":")[0] == "CPU"


is_compatible = KilnBackend.is_compatible
prepare = KilnBackend.prepare
run_model = KilnBackend.run_model
run_node = KilnBackend.run_node
supports_device = KilnBackend.supports_device
