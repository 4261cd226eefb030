"""DLPack's exchange of arrays of ``bfloat16``, which numpy's lacks: its capsules are those of numpy's arrays of
``uint16`` with another type.

The layout is DLPack's: https://dmlc.github.io/dlpack/latest/c_api.html.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: By a capsule's name, the bytes before its ``DLTensor``: none, or a version, two pointers and flags.
_BEFORE = {b"dltensor": 0, b"dltensor_versioned": 32}

#: The bytes of a ``DLTensor`` before its device, and before the kind of its elements: a pointer, the device's kind and
#: number, and the number of dimensions.
_DEVICE, _KIND = 8, 20

#: DLPack's numbers of the processor, and of kinds of elements.
_CPU, _UNSIGNED, _BFLOAT = 1, 1, 4

_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Capsule:
    """A capsule as an object that numpy takes."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _tensor(capsule: Any) -> int:
    """The address of a capsule's ``DLTensor``."""
    for name, before in _BEFORE.items():
        if _is_valid(capsule, name):
            return int(_pointer(capsule, name)) + before
    raise TypeError("no DLPack capsule, or one that was used before")


def array_of(data: Any) -> NDArray[Any]:
    """The array over the memory of a DLPack capsule, or of an object with ``__dlpack__``.

    Raises ``BufferError`` for memory of other devices than the processor.
    """
    if not hasattr(data, "__dlpack__"):
        return _array_in(data)
    try:
        return np.from_dlpack(data)
    except (BufferError, RuntimeError):
        return _array_in(data.__dlpack__())


def _array_in(capsule: Any) -> NDArray[Any]:
    at = _tensor(capsule)
    device = ctypes.c_int32.from_address(at + _DEVICE).value
    if device != _CPU:
        raise BufferError(f"it lies on a device of DLPack's kind {device}, not in the processor's memory")
    kind = ctypes.c_uint8.from_address(at + _KIND)
    if kind.value != _BFLOAT:
        return np.from_dlpack(_Capsule(capsule))
    import ml_dtypes

    kind.value = _UNSIGNED
    return np.from_dlpack(_Capsule(capsule)).view(ml_dtypes.bfloat16)


def capsule_of(array: NDArray[Any], **options: Any) -> Any:
    """A DLPack capsule of an array, without a copy. ``options`` are those of ``__dlpack__``."""
    if array.dtype.name != "bfloat16":
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    ctypes.c_uint8.from_address(_tensor(capsule) + _KIND).value = _BFLOAT
    return capsule
