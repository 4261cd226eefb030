"""Making ``import onnxruntime`` find this package, and the real one behind it."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import itertools
import os
import sys
from types import ModuleType
from typing import Any

_OURS = "kiln.onnxruntime"
_THEIRS = "onnxruntime"
_NATIVE = "onnxruntime_pybind11_state"

#: Modules that take the place of onnxruntime's own.
_REPLACED = [
    "",
    ".capi",
    ".capi._pybind_state",
    ".capi.onnxruntime_inference_collection",
    ".capi.onnxruntime_pybind11_state",
]

_real: ModuleType | None = None
_fallback = False
#: The real package's native half, once it is loaded from its file.
_loaded: ModuleType | None = None
#: What begins the names of functions that tools for model files call.
_TOOLS = ("get_all_op", "get_registered_", "get_shape_inference", "pack_", "quantize_")
#: Folders of the real package, once this one has its name.
_homes: list[str] = []


def is_installed() -> bool:
    """Whether ``import onnxruntime`` finds this package.

    >>> ort.is_installed()
    False
    """
    return sys.modules.get(_THEIRS) is sys.modules[_OURS]


def install(*, fallback: bool = False) -> None:
    """Makes every later ``import onnxruntime`` of this process find this package.

    Call it before anything imports onnxruntime: modules that have imported it already keep the real package. The tools
    for model files (``onnxruntime.quantization``, ``onnxruntime.transformers``) are those of the real package, if it is
    installed. With ``fallback``, models that Kiln refuses run on the real package (:func:`set_fallback`).

    >>> ort.install()
    >>> import onnxruntime
    >>> onnxruntime is ort
    True
    """
    if is_installed():
        set_fallback(fallback)
        return
    ours = sys.modules[_OURS]
    if fallback:
        set_fallback(True)
    spec = importlib.util.find_spec(_THEIRS)
    for name in [name for name in sys.modules if name == _THEIRS or name.startswith(_THEIRS + ".")]:
        del sys.modules[name]
    _homes.extend(spec.submodule_search_locations or [] if spec else [])
    # After this package's own folders, so that only modules that it lacks are found there.
    ours.__path__.extend(_homes)
    importlib.import_module(_OURS + ".capi").__path__.extend(os.path.join(home, "capi") for home in _homes)
    for suffix in _REPLACED:
        sys.modules[_THEIRS + suffix] = importlib.import_module(_OURS + suffix)


def set_fallback(fallback: bool) -> None:
    """Sets whether a model that Kiln refuses runs on the real onnxruntime, with a warning that says what Kiln lacks.

    Raises :class:`ImportError` if that is not installed. Call it before :func:`install`, or through :func:`install`.

    >>> ort.set_fallback(False)
    """
    global _fallback, _real
    if fallback and _real is None:
        if is_installed():
            raise ImportError("the real onnxruntime cannot be imported any more: call install(fallback=True) first")
        _real = importlib.import_module(_THEIRS)
    _fallback = fallback


def _native() -> ModuleType | None:
    """What the real package's native half defines, if it is installed."""
    global _loaded
    if _real is not None:
        state: ModuleType = _real.capi._pybind_state
        return state
    if not is_installed():
        try:
            return importlib.import_module(_THEIRS + ".capi._pybind_state")
        except ImportError:
            return None
    if _loaded is not None:
        return _loaded
    for home, suffix in itertools.product(_homes, importlib.machinery.EXTENSION_SUFFIXES):
        file = os.path.join(home, "capi", _NATIVE + suffix)
        if os.path.exists(file):
            # Python looks for the name behind the last point in the file.
            name = f"{_OURS}.capi.real.{_NATIVE}"
            spec = importlib.util.spec_from_file_location(name, file)
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                _loaded = module
                break
    return _loaded


def of_real(name: str) -> Any:
    """What the real package's native half has by that name, for its tools (``quantize_matmul_4bits``).

    Raises :class:`AttributeError` where it has none, where the real package is not installed, and for what is no
    function of a tool: the real package's sessions and values are no part of this one.
    """
    native = _native() if name.startswith(_TOOLS) else None
    if native is None or not hasattr(native, name):
        raise AttributeError(f"onnxruntime's native half has no {name} on Kiln")
    return getattr(native, name)


def fallback_module() -> ModuleType | None:
    """The real onnxruntime, where models that Kiln refuses shall run on it."""
    return _real if _fallback else None
