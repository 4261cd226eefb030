"""Sparse tensors, which are containers: no model takes one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kiln.onnxruntime._errors import InvalidArgument
from kiln.onnxruntime._types import type_of_value

Array = NDArray[Any]


class OrtSparseFormat(IntEnum):
    """How positions of a sparse tensor's values are stored.

    >>> OrtSparseFormat.ORT_SPARSE_CSRC.value
    2
    """

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


def _read_only(values: Any) -> Array:
    """An array of its own that may not be written."""
    array: Array = np.array(values)
    array.flags.writeable = False
    return array


class _Indices:
    """The positions of a sparse tensor's values."""

    def __init__(self, **arrays: Array) -> None:
        self._arrays = {name: _read_only(array) for name, array in arrays.items()}

    def indices(self) -> Array:
        """The positions or coordinates of the values."""
        return self._arrays["indices"]

    def inner(self) -> Array:
        """The column of each value."""
        return self._arrays["inner"]

    def outer(self) -> Array:
        """Where each row begins among the values, and the end."""
        return self._arrays["outer"]


class SparseTensor:
    """A tensor that stores only some elements. It is a container, as in onnxruntime: no model takes one.

    >>> sparse = SparseTensor.sparse_coo_from_numpy([3, 3], np.float32([1, 2]), np.int64([0, 5]), OrtDevice.make())
    >>> sparse.dense_shape(), sparse.as_coo_view().indices()
    ([3, 3], array([0, 5]))
    """

    def __init__(self, dense_shape: Sequence[int], values: Any, view: _Indices, form: OrtSparseFormat) -> None:
        self._shape = [int(size) for size in dense_shape]
        self._values = _read_only(values)
        self._view = view
        self._form = form

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Sequence[int], values: Any, coo_indices: Any, ort_device: Any
    ) -> SparseTensor:
        """Made from values and their positions: numbers in row-major order, or pairs of coordinates."""
        indices, count = np.asarray(coo_indices, np.int64), len(values)
        if indices.shape not in ((count,), (count, 2), (2 * count,)):
            raise InvalidArgument(f"{count} values have no coordinates in an array of shape {list(indices.shape)}")
        return cls(dense_shape, values, _Indices(indices=indices), OrtSparseFormat.ORT_SPARSE_COO)

    @classmethod
    def sparse_csr_from_numpy(
        cls, dense_shape: Sequence[int], values: Any, inner_indices: Any, outer_indices: Any, ort_device: Any
    ) -> SparseTensor:
        """Made from the values of each row and their columns."""
        inner, outer = np.asarray(inner_indices, np.int64), np.asarray(outer_indices, np.int64)
        if inner.shape != (len(values),) or outer.shape != (int(dense_shape[0]) + 1,):
            raise InvalidArgument(f"{len(values)} values in {dense_shape[0]} rows have other numbers of indices")
        return cls(dense_shape, values, _Indices(inner=inner, outer=outer), OrtSparseFormat.ORT_SPARSE_CSRC)

    def dense_shape(self) -> list[int]:
        """The shape with all elements."""
        return list(self._shape)

    def values(self) -> Array:
        """The elements that are stored."""
        return self._values

    def _get_c_tensor(self) -> SparseTensor:
        """The native half of this tensor."""
        return self

    def format(self) -> OrtSparseFormat:
        """How positions are stored."""
        return self._form

    def _view_of(self, form: OrtSparseFormat) -> _Indices:
        if self._form is not form:
            raise RuntimeError(f"the sparse tensor is of {self._form.name}, not {form.name}")
        return self._view

    def as_coo_view(self) -> _Indices:
        """The positions of the values, for a tensor in COO form."""
        return self._view_of(OrtSparseFormat.ORT_SPARSE_COO)

    def as_csrc_view(self) -> _Indices:
        """The columns and rows of the values, for a tensor in CSR form."""
        return self._view_of(OrtSparseFormat.ORT_SPARSE_CSRC)

    def as_blocksparse_view(self) -> _Indices:
        """The positions of blocks, for a tensor of blocks. None is made here."""
        return self._view_of(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE)

    def to_cuda(self, ort_device: Any) -> SparseTensor:
        """Refused: values lie in the processor's memory."""
        raise RuntimeError("there is no GPU here that a sparse tensor could be copied to")

    def data_type(self) -> str:
        """The tensor's type, as in ``sparse_tensor(float)``."""
        return f"sparse_{type_of_value(self._values)}"

    def device_name(self) -> str:
        """``"cpu"``."""
        return "cpu"
