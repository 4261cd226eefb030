"""onnxruntime's names and ONNX's numbers of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

#: By numpy's or ml_dtypes' name of a type: onnxruntime's name, and ONNX's number.
_TYPES: dict[str, tuple[str, int]] = {
    "float32": ("float", 1),
    "uint8": ("uint8", 2),
    "int8": ("int8", 3),
    "uint16": ("uint16", 4),
    "int16": ("int16", 5),
    "int32": ("int32", 6),
    "int64": ("int64", 7),
    "string": ("string", 8),
    "bool": ("bool", 9),
    "float16": ("float16", 10),
    "float64": ("double", 11),
    "uint32": ("uint32", 12),
    "uint64": ("uint64", 13),
    "bfloat16": ("bfloat16", 16),
    "float8_e4m3fn": ("float8e4m3fn", 17),
    "float8_e4m3fnuz": ("float8e4m3fnuz", 18),
    "float8_e5m2": ("float8e5m2", 19),
    "float8_e5m2fnuz": ("float8e5m2fnuz", 20),
    "uint4": ("uint4", 21),
    "int4": ("int4", 22),
    "float4_e2m1fn": ("float4e2m1", 23),
    "float8_e8m0fnu": ("float8e8m0", 24),
    "uint2": ("uint2", 25),
    "int2": ("int2", 26),
}


def element_name(dtype: str | None) -> str:
    """onnxruntime's name of the element type with that name in numpy."""
    return _TYPES[dtype][0] if dtype in _TYPES else "undefined"


def _name_of(dtype: np.dtype[Any]) -> str:
    return "string" if dtype.kind in "OSU" else dtype.name


def array_type(dtype: np.dtype[Any]) -> str:
    """onnxruntime's type of an array of that element type, as in ``tensor(float)``."""
    return f"tensor({element_name(_name_of(dtype))})"


def type_of_value(value: Any) -> str:
    """onnxruntime's type of a value, as in ``seq(tensor(float))``."""
    if isinstance(value, np.ndarray):
        return array_type(value.dtype)
    if isinstance(value, list):
        return f"seq({type_of_value(value[0])})" if value else "seq(tensor(undefined))"
    if isinstance(value, dict):
        key, element = next(iter(value.items()), (0, 0.0))
        of = "string" if isinstance(element, str) else "int64" if isinstance(element, int) else "float"
        return f"map({'string' if isinstance(key, str) else 'int64'},tensor({of}))"
    return "optional(tensor(undefined))"


def number_of_dtype(dtype: np.dtype[Any]) -> int:
    """ONNX's number of an element type."""
    return _TYPES[_name_of(dtype)][1]


def dtype_of_number(number: int) -> np.dtype[Any]:
    """The element type that ONNX gives that number."""
    for name, (_, known) in _TYPES.items():
        if known == number:
            if name == "string":
                return np.dtype(object)
            try:
                return np.dtype(name)
            except TypeError:
                import ml_dtypes

                added: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
                return added
    raise ValueError(f"there is no element type of number {number}")
