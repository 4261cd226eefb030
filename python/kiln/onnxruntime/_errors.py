"""onnxruntime's exceptions, and the exception that stands for each of Kiln's."""

from __future__ import annotations

import re

import kiln

#: A problem with an operator outside of the domains that onnxruntime has operators of.
_CUSTOM = re.compile(r"operator (?!(ai\.onnx|ai\.onnx\.ml|com\.microsoft)\.\w+ )")


class Fail(Exception):
    """Something failed."""


class InvalidArgument(Exception):
    """An input or an output that a request names is not what the model declares."""


class NoSuchFile(Exception):
    """There is no such file."""


class NoModel(Exception):
    """There is no model."""


class EngineError(Exception):
    """The runtime failed."""


class RuntimeException(Exception):
    """A node failed."""


class InvalidProtobuf(Exception):
    """The file is no model."""


class ModelLoaded(Exception):
    """The model was loaded before."""


class NotImplemented(Exception):  # noqa: A001
    """The model needs something that Kiln does not support."""


class InvalidGraph(Exception):
    """The graph breaks a rule."""


class EPFail(Exception):
    """A provider failed."""


class ModelLoadCanceled(Exception):
    """Loading was cancelled."""


class ModelRequiresCompilation(Exception):
    """The model must be compiled first."""


class NotFound(Exception):
    """Something is not there."""


def of_code(code: int, name: str, kind: type[Exception], error: Exception | str) -> Exception:
    """An exception with onnxruntime's number and name of the error."""
    return kind(f"[ONNXRuntimeError] : {code} : {name} : {error}")


def translated(error: kiln.KilnError) -> Exception:
    """onnxruntime's exception of the same meaning."""
    match error:
        case kiln.ModelNotFoundError():
            return of_code(3, "NO_SUCHFILE", NoSuchFile, error)
        case kiln.ModelError() if "not an ONNX file" in str(error):
            return of_code(7, "INVALID_PROTOBUF", InvalidProtobuf, error)
        case kiln.ModelError():
            return of_code(10, "INVALID_GRAPH", InvalidGraph, error)
        case kiln.UnsupportedError() if all(map(_CUSTOM.match, error.problems)):
            # By this exception programs notice that a library of operators was not registered.
            return of_code(1, "FAIL", Fail, f"{error}, which is not a registered function/op")
        case kiln.UnsupportedError():
            return of_code(9, "NOT_IMPLEMENTED", NotImplemented, error)
        case kiln.InputError() | kiln.OutputError() | kiln.OptionError():
            return of_code(2, "INVALID_ARGUMENT", InvalidArgument, error)
        case kiln.RunError():
            return of_code(6, "RUNTIME_EXCEPTION", RuntimeException, error)
        case _:
            return of_code(1, "FAIL", Fail, error)
