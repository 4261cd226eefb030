"""onnxruntime's compiler of models, which writes the same model here: checked, with its data in the requested file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from enum import IntFlag
from pathlib import Path
from typing import Any

from kiln.onnxruntime._errors import Fail, InvalidArgument, NotImplemented, of_code
from kiln.onnxruntime._options import GraphOptimizationLevel, SessionOptions
from kiln.onnxruntime._session import InferenceSession

#: The most bytes of a protobuf message, and so of a model in one file.
_MOST_BYTES = (1 << 31) - 1


class OrtCompileApiFlags(IntFlag):
    """More conditions that :class:`ModelCompiler` treats as errors.

    >>> ort.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS.value
    2
    """

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class ModelCompiler:
    """In onnxruntime, compiles a model for a device ahead of time. Kiln checks the model and writes it again.

    Each method loads the model with the options, so that a model that Kiln refuses is an error here. It writes the same
    graph, with the same bytes if the model is one file and stays one. Tensors in other files move into the model, or
    into ``external_initializers_file_path``; this needs the package onnx (``pip install 'kiln-onnx[onnx]'``). To make
    later loads fast, save records (:meth:`kiln.Session.save_records`).

    >>> ort.ModelCompiler(ort.SessionOptions(), model).compile_to_bytes() == model
    True
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Callable[..., Any] | None = None,
    ) -> None:
        given = input_model_path_or_bytes
        if not isinstance(given, str | os.PathLike | bytes):
            raise TypeError(f"Unable to load from type '{type(given)}'")
        if not given:
            raise ValueError("Input model is empty")
        if get_initializer_location_func is not None:
            text = "initialisers cannot be placed one by one (get_initializer_location_func): name one file for them, "
            raise of_code(9, "NOT_IMPLEMENTED", NotImplemented, text + "external_initializers_file_path")
        self._options, self._given = sess_options, given
        self._external = os.fspath(external_initializers_file_path or "")
        self._threshold, self._flags = external_initializers_size_threshold, OrtCompileApiFlags(flags)

    def compile_to_file(self, output_model_path: str | os.PathLike[str] | None = None) -> None:
        """Checks the model and writes it; by default beside the model, as ``model_ctx.onnx`` for ``model.onnx``.

        Tensors go into ``external_initializers_file_path``, if it was given; it is relative to the folder of the
        written model.
        """
        if not output_model_path:
            if isinstance(self._given, bytes):
                raise of_code(2, "INVALID_ARGUMENT", InvalidArgument, "a model of bytes needs a path to be written to")
            output_model_path = os.path.splitext(os.fspath(self._given))[0] + "_ctx.onnx"
        path = Path(output_model_path)
        if OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS in self._flags and path.exists():
            raise of_code(1, "FAIL", Fail, f"the file {path} exists already")
        data = self._compiled(path.parent)
        try:
            path.write_bytes(data)
        except OSError as error:
            raise of_code(1, "FAIL", Fail, error) from error

    def compile_to_bytes(self) -> bytes:
        """Checks the model and returns its bytes."""
        return self._compiled(Path())

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Checks the model and hands its bytes to a function, in one piece."""
        write_function(self._compiled(Path()))

    def set_ep_context_data_write_func(self, write_func: Callable[..., None]) -> None:
        """Has no effect: there is no compiler data to write."""

    def clear_ep_context_data_write_func(self) -> None:
        """Has no effect, as :meth:`set_ep_context_data_write_func`."""

    def set_ep_context_binary_information(self, output_directory: str | os.PathLike[str], model_name: str) -> None:
        """Has no effect, as :meth:`set_ep_context_data_write_func`."""

    def _compiled(self, folder: Path) -> bytes:
        """The model for a file in that folder. Its file of tensors is written here."""
        given = self._given
        if not isinstance(given, bytes) and not os.path.exists(given):
            text = f"Input model path does not exist: {os.fspath(given)}"
            raise of_code(2, "INVALID_ARGUMENT", InvalidArgument, text)
        InferenceSession(given, self._options)
        if OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED in self._flags:
            text = "no node is compiled ahead: Kiln compiles when requests ask, and has records"
            raise of_code(1, "FAIL", Fail, text)
        data = given if isinstance(given, bytes) else Path(given).read_bytes()
        # A tensor in another file names it by an entry of that key.
        whole = b"location" not in data and not self._options.__dict__["_initializers"]
        return data if whole and not self._external else self._rewritten(data, folder)

    def _rewritten(self, data: bytes, folder: Path) -> bytes:
        """The model with its tensors inside, or with its long tensors in one file."""
        try:
            import onnx
        except ImportError as error:
            text = "tensors are moved between files with the package onnx (pip install 'kiln-onnx[onnx]')"
            raise of_code(9, "NOT_IMPLEMENTED", NotImplemented, text) from error
        model = onnx.load_model_from_string(data)
        base = "" if isinstance(self._given, bytes) else os.path.dirname(os.fspath(self._given))
        lent = self._options.__dict__["_external_data"]
        replaced = self._options.__dict__["_initializers"]
        for tensor in model.graph.initializer:
            if tensor.name in replaced:
                tensor.CopyFrom(onnx.numpy_helper.from_array(replaced[tensor.name], tensor.name))
        tensors = list(_tensors(model))
        apart = [tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL]
        for tensor in apart:
            try:
                _bring(tensor, lent, base)
            except (OSError, ValueError, onnx.checker.ValidationError) as error:
                raise of_code(1, "FAIL", Fail, f"the data of {tensor.name}: {error}") from error
        if self._external:
            self._move(model, folder)
        size = sum(len(tensor.raw_data) for tensor in tensors)
        if size > _MOST_BYTES:
            text = f"a model of {size} bytes is too long: name a file for tensors, external_initializers_file_path"
            raise of_code(2, "INVALID_ARGUMENT", InvalidArgument, text)
        # The bytes of the file, if there was nothing to move.
        return bytes(model.SerializeToString()) if apart or replaced or self._external else data

    def _move(self, model: Any, folder: Path) -> None:
        """Moves the data of long initialisers into the file for them."""
        import onnx

        long = [tensor for tensor in model.graph.initializer if len(tensor.raw_data) > self._threshold]
        try:
            with open(folder / self._external, "wb") as file:
                for tensor in long:
                    # At the beginning of a page, so that the file can be mapped.
                    file.seek(-(-file.tell() // 4096) * 4096)
                    at, length = file.tell(), file.write(tensor.raw_data)
                    onnx.external_data_helper.set_external_data(tensor, self._external, at, length)
                    tensor.ClearField("raw_data")
        except OSError as error:
            raise of_code(1, "FAIL", Fail, error) from error


def _bring(tensor: Any, lent: dict[str, memoryview], base: str) -> None:
    """Moves a tensor's data into the model, from the buffers of the options or from its file."""
    from onnx import TensorProto, external_data_helper

    entry = {entry.key: entry.value for entry in tensor.external_data}
    if entry.get("location") not in lent:
        external_data_helper.load_external_data_for_tensor(tensor, base)
    else:
        data, at = lent[entry["location"]], int(entry.get("offset", 0))
        tensor.raw_data = bytes(data[at : at + int(entry.get("length", len(data) - at))])
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _tensors(model: Any) -> Iterator[Any]:
    """The tensors of a model: initialisers and attributes, those of inner graphs and of functions among them."""
    graphs, nodes = [model.graph], [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            nodes.extend(graph.node)
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            graphs.extend(attribute.graphs)


__all__ = ["ModelCompiler", "OrtCompileApiFlags"]
