"""onnxruntime's classes of values, and bindings of values to the inputs and outputs of a session."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kiln._dlpack import array_of, capsule_of
from kiln.onnxruntime._errors import InvalidArgument
from kiln.onnxruntime._options import OrtAllocatorType, OrtMemType
from kiln.onnxruntime._sparse import SparseTensor
from kiln.onnxruntime._types import dtype_of_number, number_of_dtype, type_of_value

if TYPE_CHECKING:
    from kiln.onnxruntime._session import InferenceSession

Array = NDArray[Any]


def _on_processor(device_type: Any) -> None:
    """Refuses other devices, which are given by their name or as devices of either half."""
    kind = device_type if isinstance(device_type, str) else device_type.device_type()
    if kind != 0 and str(kind).lower() != "cpu":
        raise InvalidArgument(f"there is no device {kind} here: values lie in the processor's memory")


class OrtDevice:
    """Where a value lies. Programs name GPUs before they look for one; values lie in the processor's memory alone.

    >>> OrtDevice.make("cpu", 0).device_type()
    'cpu'
    """

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        self._type = device_type.lower()
        self._id = device_id

    @staticmethod
    def make(device_type: str = "cpu", device_id: int = 0) -> OrtDevice:
        """The device of that name."""
        return OrtDevice(device_type, device_id)

    def device_type(self) -> str:
        """The device's name."""
        return self._type

    def _get_c_device(self) -> OrtDevice:
        """The native half of this device."""
        return self

    def device_id(self) -> int:
        """The device's number."""
        return self._id

    def device_mem_type(self) -> int:
        """0, the number of a device's usual memory."""
        return 0

    def device_vendor_id(self) -> int:
        """0: the vendor of a processor is not said."""
        return 0


class OrtValue:
    """An array, a list of arrays, or nothing. It refers to its array without a copy.

    >>> import numpy as np
    >>> value = OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    >>> value.shape(), value.data_type()
    ([2, 3], 'tensor(float)')
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array: Any, device_type: Any = "cpu", device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        """A value over that array's memory. ``device_type`` is a device's name, or a device."""
        _on_processor(device_type)
        return OrtValue(np.asarray(array))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(array: Any, onnx_element_type: int) -> OrtValue:
        """A value over that array's memory, with its bits read as that ONNX type."""
        return OrtValue(np.asarray(array).view(dtype_of_number(onnx_element_type)))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: Any = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value of that shape, whose elements are not set. The type is numpy's, or the number that ONNX gives it."""
        _on_processor(device_type)
        dtype = dtype_of_number(element_type) if isinstance(element_type, int) else np.dtype(element_type)
        return OrtValue(np.empty(tuple(shape), dtype))

    @staticmethod
    def ortvalue_from_shape_and_onnx_type(shape: Sequence[int], element_type: int, device: Any = "cpu") -> OrtValue:
        """As :meth:`ortvalue_from_shape_and_type`."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device)

    @staticmethod
    def from_dlpack(data: Any, is_bool: bool = False) -> OrtValue:
        """A value over the memory of a DLPack capsule, or of an object with ``__dlpack__``.

        PyTorch's older releases export truth values as bytes: ``is_bool`` makes them truth values.
        """
        array: Array = array_of(data)
        dtype = np.dtype(np.bool_) if is_bool else array.dtype
        if array.flags.c_contiguous and not hasattr(data, "__dlpack__"):
            # A capsule of DLPack before 1.0 does not say whether it may be written, and onnxruntime's values can be.
            return OrtValue(array_at(array.ctypes.data, dtype, array.shape, array))
        return OrtValue(array.view(dtype))

    def to_dlpack(self) -> Any:
        """A DLPack capsule of the array, without a copy."""
        return self.__dlpack__()

    @property
    def _ortvalue(self) -> OrtValue:
        """The native half of this value, which programs pass to sessions' native halves."""
        return self

    def _get_c_value(self) -> OrtValue:
        """As ``_ortvalue``."""
        return self

    def __dlpack__(self, **options: Any) -> Any:
        return capsule_of(self.numpy(), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def numpy(self) -> Array:
        """The array."""
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError(f"the value is no tensor but {self.data_type()}")
        return self._value

    def shape(self) -> list[int]:
        """The array's shape."""
        return self._value.dense_shape() if self.is_sparse_tensor() else list(self.numpy().shape)

    def data_type(self) -> str:
        """The value's type, as in ``tensor(float)``."""
        return self._value.data_type() if self.is_sparse_tensor() else type_of_value(self._value)

    def element_type(self) -> int:
        """The number that ONNX gives the array's element type."""
        array = self._value.values() if self.is_sparse_tensor() else self.numpy()
        return number_of_dtype(array.dtype)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.numpy().ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """How many bytes the elements take."""
        return self.numpy().nbytes

    def device_name(self) -> str:
        """``"cpu"``."""
        return "cpu"

    def has_value(self) -> bool:
        """Whether there is a value."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether the value is an array."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether the value is a list of arrays."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """Whether the value is a sparse tensor."""
        return isinstance(self._value, SparseTensor)

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: SparseTensor) -> OrtValue:
        """A value that holds a sparse tensor. No model takes one."""
        return OrtValue(sparse_tensor)

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor that the value holds."""
        if not isinstance(self._value, SparseTensor):
            raise RuntimeError(f"the value is no sparse tensor but {self.data_type()}")
        return self._value

    def update_inplace(self, data: Any) -> None:
        """Overwrites the value's elements with those of the array ``data``."""
        np.copyto(self.numpy(), data, casting="no")


class OrtValueVector(list[OrtValue]):
    """Values in order."""

    def push_back(self, value: Any, is_bool: bool = False) -> None:
        """Appends a value or a DLPack capsule."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool))

    def push_back_batch(
        self,
        tensors: Sequence[Any],
        addresses: Sequence[int],
        element_types: Sequence[Any],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[Any],
    ) -> None:
        """Appends tensors that lie at these addresses, and must stay there as long as the vector is used."""
        for address, element_type, shape in zip(addresses, element_types, shapes, strict=True):
            self.append(OrtValue(array_at(address, element_type, shape)))

    def reserve(self, count: int) -> None:
        """Has no effect: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Has no effect."""

    def element_type_at(self, index: int) -> int:
        """The number that ONNX gives the element type of one value."""
        return self[index].element_type()

    def bool_tensor_indices(self) -> list[int]:
        """The places of the tensors of truth values, which older consumers of DLPack take for bytes."""
        return [place for place, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def dlpack_at(self, index: int) -> Any:
        """A DLPack capsule of one value."""
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """DLPack capsules of the values, or what ``to_tensor`` makes of each."""
        capsules = [value.to_dlpack() for value in self]
        return capsules if to_tensor is None else [to_tensor(capsule) for capsule in capsules]


class OrtMemoryInfo:
    """A kind of memory: always the CPU's.

    >>> info = OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)
    >>> info.name, info.device_id
    ('Cpu', 0)
    """

    def __init__(
        self,
        name: str,
        allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
        device_id: int = 0,
        mem_type: OrtMemType = OrtMemType.DEFAULT,
    ) -> None:
        _on_processor(name)
        self.name = name
        self.allocator_type = allocator_type
        self.device_id = device_id
        self.mem_type = mem_type


#: The settings of onnxruntime's arena, with the values that mean its own choice.
_ARENA = {
    "max_mem": 0,
    "arena_extend_strategy": -1,
    "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": -1,
    "max_power_of_two_extend_bytes": -1,
}


class OrtArenaCfg:
    """Settings of onnxruntime's arena. They are kept and have no effect: each session has its own pool of memory.

    Made from a dict of settings, or from the first four settings in order.

    >>> OrtArenaCfg({"max_mem": 1 << 20}).max_mem
    1048576
    """

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    def __init__(self, *settings: Any) -> None:
        given = settings[0] if settings and isinstance(settings[0], dict) else dict(zip(_ARENA, settings, strict=False))
        for name in given:
            if name not in _ARENA:
                raise RuntimeError(f"Invalid OrtArenaCfg option: {name}")
        self.__dict__.update(_ARENA, **given)


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None = None) -> None:
    """Has no effect: each session has its own pool of memory.

    >>> create_and_register_allocator(OrtMemoryInfo("Cpu"), OrtArenaCfg({"max_mem": 1 << 20}))
    """


class IOBinding:
    """Inputs and outputs of requests, by name.

    Inputs are read in place. An output that is bound to memory is computed there. Any other output stays where it was
    computed, so that binding it as the next request's input copies nothing. After a failed request, the memory of bound
    outputs may hold anything.

    >>> session = ort.InferenceSession(model)
    >>> binding = session.io_binding()
    >>> binding.bind_cpu_input("x", np.float32([[1, -2, 3]]))
    >>> binding.bind_output("y")
    >>> session.run_with_iobinding(binding)
    >>> [y] = binding.get_outputs()
    >>> y.numpy()
    array([[1., 0., 3.]], dtype=float32)
    """

    def __init__(self, session: InferenceSession) -> None:
        self._inputs_of = [port.name for port in session.get_inputs() + session.get_overridable_initializers()]
        self._outputs_of = [port.name for port in session.get_outputs()]
        self._inputs: dict[str, Any] = {}
        self._bound: dict[str, Array | None] = {}
        self._results = OrtValueVector()

    @property
    def _iobinding(self) -> IOBinding:
        """The native half of this binding, which programs ask for its outputs."""
        return self

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an input."""
        self._bind_input(name, arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input."""
        self._bind_input(name, ortvalue._value)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds an input at that address. It must stay there until the request has run."""
        _on_processor(device_type)
        self._bind_input(name, array_at(buffer_ptr, element_type, shape))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output, to be written to the address ``buffer_ptr`` if that is given."""
        _on_processor(device_type)
        at = None if buffer_ptr is None else array_at(buffer_ptr, element_type, shape or [])
        self._bind_output(name, at)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output, to be written into that value."""
        self._bind_output(name, ortvalue.numpy())

    def _bind_input(self, name: str, value: Any) -> None:
        if name not in self._inputs_of:
            raise RuntimeError(f"Failed to find NodeArg in all the inputs with name: {name}")
        self._inputs[name] = value

    def _bind_output(self, name: str, at: Array | None) -> None:
        if name not in self._outputs_of:
            raise InvalidArgument(f"Failed to find NodeArg in all the outputs with name: {name}")
        self._bound[name] = at

    def clear_binding_inputs(self) -> None:
        """Removes the bound inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Removes the bound outputs."""
        self._bound.clear()
        self._results = OrtValueVector()

    def synchronize_inputs(self) -> None:
        """Has no effect: there is nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Has no effect: there is nothing to wait for."""

    def get_outputs(self) -> OrtValueVector:
        """The outputs of the last request, in the order in which they were bound."""
        return OrtValueVector(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """As :meth:`get_outputs`: a vector of values is a list here."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last request as arrays, without a copy."""
        return [value._value for value in self._results]

    def run(self, session: InferenceSession, run_options: Any) -> None:
        """Serves one request with the bound inputs and outputs."""
        names = list(self._bound)
        out = {name: at for name, at in self._bound.items() if at is not None}
        results = session._serve(names, self._inputs, run_options, out) if names else []
        self._results = OrtValueVector(OrtValue(result) for result in results)


def copy_tensors(sources: Sequence[OrtValue], destinations: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies the elements of arrays to arrays of the same types and shapes.

    >>> source, to = (ort.OrtValue.ortvalue_from_numpy(np.full(2, number, np.float32)) for number in (1, 0))
    >>> ort.copy_tensors([source], [to])
    >>> to.numpy()
    array([1., 1.], dtype=float32)
    """
    if len(sources) != len(destinations):
        raise InvalidArgument(f"{len(sources)} values to copy to {len(destinations)}")
    for source, destination in zip(sources, destinations, strict=True):
        if source.shape() != destination.shape() or source.data_type() != destination.data_type():
            types = f"{source.data_type()} {source.shape()} to {destination.data_type()} {destination.shape()}"
            raise InvalidArgument(f"values of one type and shape are copied, not {types}")
    for source, destination in zip(sources, destinations, strict=True):
        destination.update_inplace(source.numpy())


def as_texts(value: Any) -> Any:
    """A request's value for an input of texts: elements that are no texts become what ``str`` makes of them, as in
    onnxruntime, so that missing texts may be NaN or None. Bytes stay, which are texts in UTF-8; fixed blocks of memory
    (numpy's ``void``) are bytes."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "V" and value.dtype.names is None:
        return np.fromiter((bytes(block) for block in value.flat), object, value.size).reshape(value.shape)
    if not isinstance(value, np.ndarray | list) or (isinstance(value, np.ndarray) and value.dtype != object):
        return value
    array = np.asarray(value, object)
    texts = (text if isinstance(text, str | bytes) else str(text) for text in array.flat)
    return np.fromiter(texts, object, array.size).reshape(array.shape)


def array_at(address: int, element_type: Any, shape: Sequence[int], owner: Any = None) -> Array:
    """The array of that type and shape at an address, with a reference to what owns the memory."""
    dtype = dtype_of_number(element_type) if isinstance(element_type, int) else np.dtype(element_type)
    count = int(np.prod(tuple(shape), dtype=np.int64))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    memory.__dict__["owner"] = owner
    array: Array = np.frombuffer(memoryview(memory), dtype).reshape(tuple(shape))
    return array
