"""Models written again: the same graph, with its tensors inside it or in one file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kiln.onnxruntime._errors import Fail, InvalidArgument, NotImplemented, of_code
from kiln.onnxruntime._options import SessionOptions

#: The most bytes of a protobuf message, and so of a model in one file.
_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True)
class Apart:
    """Where long tensors go."""

    #: The file, relative to the folder of the written model; empty for none.
    file: str = ""
    #: The most bytes of a tensor that stays in the model.
    threshold: int = 1024


def written(
    given: str | os.PathLike[str] | bytes, options: SessionOptions, apart: Apart, folder: Path
) -> bytes:
    """The model for a file in that folder, with the tensors that the options replace. Its file of tensors is written.

    These are the model's own bytes if it is one file and stays one. Other models need the package onnx.
    """
    data = given if isinstance(given, bytes) else Path(given).read_bytes()
    # A tensor in another file names it by an entry of that key.
    whole = b"location" not in data and not options.__dict__["_initializers"]
    if whole and not apart.file:
        return data
    base = "" if isinstance(given, bytes) else os.path.dirname(os.fspath(given))
    return _rewritten(data, base, options, apart, folder)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of the one at the path once it is written.

    Until then its name is another one, so that sessions go on with a file that they read their weights from.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with open(aside, "xb") as file:
                yield file
            os.replace(aside, path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise of_code(1, "FAIL", Fail, error) from error


def _rewritten(data: bytes, base: str, options: SessionOptions, to: Apart, folder: Path) -> bytes:
    """The model with its tensors inside, or with its long tensors in one file. Its own files are in ``base``."""
    try:
        import onnx
    except ImportError as error:
        text = "tensors are moved between files with the package onnx (pip install 'kiln-onnx[onnx]')"
        raise of_code(9, "NOT_IMPLEMENTED", NotImplemented, text) from error
    model = onnx.load_model_from_string(data)
    lent = options.__dict__["_external_data"]
    replaced = options.__dict__["_initializers"]
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
    if to.file:
        _move(model, to, folder)
    size = sum(len(tensor.raw_data) for tensor in tensors)
    if size > _MOST_BYTES:
        text = f"a model of {size} bytes is too long: name a file for tensors, external_initializers_file_path"
        raise of_code(2, "INVALID_ARGUMENT", InvalidArgument, text)
    # The bytes of the file, if there was nothing to move.
    return bytes(model.SerializeToString()) if apart or replaced or to.file else data


def _move(model: Any, to: Apart, folder: Path) -> None:
    """Moves the data of long initialisers into the file for them."""
    import onnx

    long = [tensor for tensor in model.graph.initializer if len(tensor.raw_data) > to.threshold]
    with replacing(folder / to.file) as file:
        for tensor in long:
            # At the beginning of a page, so that the file can be mapped.
            file.seek(-(-file.tell() // 4096) * 4096)
            at, length = file.tell(), file.write(tensor.raw_data)
            onnx.external_data_helper.set_external_data(tensor, to.file, at, length)
            tensor.ClearField("raw_data")


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


__all__ = ["Apart", "replacing", "written"]
