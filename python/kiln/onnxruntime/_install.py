"""Making ``import onnxruntime`` find this package, and the real one behind it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

_OURS = "kiln.onnxruntime"
_THEIRS = "onnxruntime"

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
    # After this package's own folder, so that only modules that it lacks are found there.
    ours.__path__.extend(spec.submodule_search_locations or [] if spec else [])
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


def fallback_module() -> ModuleType | None:
    """The real onnxruntime, where models that Kiln refuses shall run on it."""
    return _real if _fallback else None
