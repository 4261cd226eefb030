"""onnxruntime's classes of LoRA adapters, over :class:`kiln.Adapter`."""

from __future__ import annotations

from typing import Any

import kiln
from kiln.onnxruntime._values import OrtValue

#: The version of the file format.
_FORMAT = 1


class AdapterFormat:
    """An adapter's file, to read and to write.

    >>> adapter = AdapterFormat()
    >>> adapter.set_parameters({"left": OrtValue.ortvalue_from_numpy(np.ones((4, 2), np.float32))})
    >>> adapter.export_adapter("my.onnx_adapter")
    >>> AdapterFormat.read_adapter("my.onnx_adapter").get_parameters()["left"].shape()
    [4, 2]
    """

    def __init__(self) -> None:
        self._versions = {"adapter_version": 0, "model_version": 0}
        self._parameters: dict[str, OrtValue] = {}

    @staticmethod
    def read_adapter(file_path: Any) -> AdapterFormat:
        """The adapter of a file."""
        try:
            read = kiln.Adapter.read(file_path)
        except kiln.KilnError as error:
            raise RuntimeError(str(error)) from error
        adapter = AdapterFormat()
        adapter._versions = {"adapter_version": read.adapter_version, "model_version": read.model_version}
        adapter._parameters = {name: OrtValue(array) for name, array in read.parameters.items()}
        return adapter

    def export_adapter(self, file_path: Any) -> None:
        """Writes a file."""
        try:
            arrays = {name: value.numpy() for name, value in self._parameters.items()}
            kiln.Adapter(arrays, **self._versions).save(file_path)
        except kiln.KilnError as error:
            raise RuntimeError(str(error)) from error

    def get_format_version(self) -> int:
        """The version of the file format."""
        return _FORMAT

    def set_adapter_version(self, adapter_version: int) -> None:
        """Sets the adapter's own version."""
        self._versions["adapter_version"] = adapter_version

    def get_adapter_version(self) -> int:
        """The adapter's own version."""
        return self._versions["adapter_version"]

    def set_model_version(self, model_version: int) -> None:
        """Sets the version of the model that the adapter is for."""
        self._versions["model_version"] = model_version

    def get_model_version(self) -> int:
        """The version of the model that the adapter is for."""
        return self._versions["model_version"]

    def set_parameters(self, params: dict[str, OrtValue]) -> None:
        """Sets the values, by the names of the inputs that they are for."""
        self._parameters = dict(params)

    def get_parameters(self) -> dict[str, OrtValue]:
        """The values, by the names of the inputs that they are for."""
        return dict(self._parameters)


class LoraAdapter:
    """An adapter for requests, which :meth:`RunOptions.add_active_adapter` takes.

    >>> kiln.Adapter({"w": np.float32([1, 2])}).save("my.onnx_adapter")
    >>> adapter = LoraAdapter()
    >>> adapter.Load("my.onnx_adapter")
    >>> RunOptions().add_active_adapter(adapter)
    """

    def __init__(self) -> None:
        self._parameters: dict[str, Any] = {}

    def Load(self, file_path: Any) -> None:  # noqa: N802 - onnxruntime's name
        """Reads a file."""
        try:
            self._parameters = kiln.Adapter.read(file_path).parameters
        except kiln.KilnError as error:
            raise RuntimeError(str(error)) from error
