"""onnxruntime's compiler of models, which writes the same model here: checked, with its data in the requested file."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from enum import IntFlag
from pathlib import Path
from typing import Any

from kiln.onnxruntime._errors import Fail, InvalidArgument, NotImplemented, of_code
from kiln.onnxruntime._options import GraphOptimizationLevel, SessionOptions
from kiln.onnxruntime._session import InferenceSession
from kiln.onnxruntime._writing import Apart, replacing, written


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
        with replacing(path) as file:
            file.write(data)

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
        # A compiler writes no second file.
        options = copy.copy(self._options)
        options.__dict__["optimized_model_filepath"] = ""
        InferenceSession(given, options)
        if OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED in self._flags:
            text = "no node is compiled ahead: Kiln compiles when requests ask, and has records"
            raise of_code(1, "FAIL", Fail, text)
        return written(given, self._options, Apart(self._external, self._threshold), folder)


__all__ = ["ModelCompiler", "OrtCompileApiFlags"]
