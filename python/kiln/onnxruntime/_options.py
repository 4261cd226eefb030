"""The options of sessions and of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import kiln
from kiln.onnxruntime._errors import InvalidArgument
from kiln.onnxruntime._log import once
from kiln.onnxruntime._process import get_available_providers

if TYPE_CHECKING:
    from kiln.onnxruntime._adapters import LoraAdapter
    from kiln.onnxruntime._devices import OrtEpDevice, OrtExecutionProviderDevicePolicy
    from kiln.onnxruntime._values import OrtValue


class GraphOptimizationLevel(IntEnum):
    """How far onnxruntime rewrites a graph. Kiln always applies all of its passes.

    >>> GraphOptimizationLevel.ORT_ENABLE_ALL.value
    99
    """

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether onnxruntime runs nodes side by side. Kiln runs nodes one after the other, each on all threads.

    >>> ExecutionMode.ORT_SEQUENTIAL.value
    0
    """

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """The order in which onnxruntime runs nodes.

    >>> ExecutionOrder.DEFAULT.value
    0
    """

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(IntEnum):
    """Kinds of allocators.

    >>> OrtAllocatorType.ORT_ARENA_ALLOCATOR.value
    1
    """

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(IntEnum):
    """Kinds of memory.

    >>> OrtMemType.DEFAULT.value
    0
    """

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


#: Options with their defaults. Those in ``_MEANT`` have an effect on Kiln.
_DEFAULTS: dict[str, Any] = {
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "enable_profiling": False,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "execution_order": ExecutionOrder.DEFAULT,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "inter_op_num_threads": 0,
    "intra_op_num_threads": 0,
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "optimized_model_filepath": "",
    "profile_file_prefix": "onnxruntime_profile_",
    "use_deterministic_compute": False,
    "use_per_session_threads": True,
}

_MEANT = {"intra_op_num_threads", "enable_profiling", "optimized_model_filepath", "profile_file_prefix"}

#: Entries of the configuration that have an effect on Kiln: where tensors of the written model go.
_MEANT_ENTRIES = {
    "session.optimized_model_external_initializers_file_name",
    "session.optimized_model_external_initializers_min_size_in_bytes",
}


class SessionOptions:
    """Options of a session. Those without an effect on Kiln are kept, and logged once when they are set.

    >>> options = SessionOptions()
    >>> options.intra_op_num_threads = 2
    >>> options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
    """

    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    enable_profiling: bool
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    graph_optimization_level: GraphOptimizationLevel
    inter_op_num_threads: int
    intra_op_num_threads: int
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    optimized_model_filepath: str
    profile_file_prefix: str
    use_deterministic_compute: bool
    use_per_session_threads: bool

    def __init__(self) -> None:
        self.__dict__.update(_DEFAULTS)
        self.__dict__["_config"] = {}
        self.__dict__["_selects"] = False
        self.__dict__["_sizes"] = {}
        self.__dict__["_external_data"] = {}
        self.__dict__["_initializers"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _DEFAULTS:
            raise AttributeError(f"'SessionOptions' object has no attribute '{name}'")
        if name not in _MEANT and value != _DEFAULTS[name]:
            once(f"SessionOptions.{name} means nothing here")
        self.__dict__[name] = value

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Hands over files that the model names, by their locations in the model. They are not copied.

        >>> options = SessionOptions()
        >>> options.add_external_initializers_from_files_in_memory(["w.bin"], [bytes(64)], [64])
        """
        if not len(names) == len(buffers) == len(lengths):
            counts = f"{len(names)} names, {len(buffers)} buffers and {len(lengths)} lengths"
            raise ValueError(f"names, buffers and lengths are as many as each other, not {counts}")
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            data = memoryview(buffer).cast("B")
            if not 0 <= length <= len(data):
                raise ValueError(f"the buffer of {name} has {len(data)} bytes, not {length}")
            self.__dict__["_external_data"][str(name)] = data[:length]

    def add_initializer(self, name: str, ort_value: OrtValue) -> None:
        """Replaces the model's initializer of that name by a value of the same type and shape, which is not copied.

        >>> options = SessionOptions()
        >>> options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32)))
        """
        self.__dict__["_initializers"][str(name)] = ort_value.numpy()

    def add_external_initializers(self, names: Sequence[str], ort_values: Sequence[OrtValue]) -> None:
        """As :meth:`add_initializer`, for several initializers. If the model has their data in other files, these files
        are not read.

        >>> options = SessionOptions()
        >>> options.add_external_initializers(["w"], [ort.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32))])
        """
        if len(names) != len(ort_values):
            raise ValueError(f"{len(names)} names for {len(ort_values)} values")
        for name, value in zip(names, ort_values, strict=True):
            self.add_initializer(name, value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps the entry. Only the keys for the tensors of a written model have an effect on Kiln."""
        if key not in _MEANT_ENTRIES:
            once(f"the session config entry {key} means nothing here")
        self.__dict__["_config"][key] = value

    def get_session_config_entry(self, key: str) -> str:
        """An entry that was added."""
        if key not in self.__dict__["_config"]:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return str(self.__dict__["_config"][key])

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Has ports state that size of the dimension. Kiln plans for the shapes that requests have, also other ones."""
        self.__dict__["_sizes"][name] = value

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Has no effect: denotations are not read."""
        once("overrides of free dimensions by denotation mean nothing here")

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Accepts the provider that there is. Others raise :class:`RuntimeError`, as providers do that onnxruntime lacks.

        >>> options = SessionOptions()
        >>> options.add_provider("CPUExecutionProvider", {})
        >>> options.has_providers()
        True
        """
        if name not in get_available_providers():
            raise RuntimeError(f"Unknown Provider Type: {name}")
        self.__dict__["_selects"] = True

    def add_provider_for_devices(self, devices: Sequence[OrtEpDevice], options: Mapping[str, str]) -> None:
        """As :meth:`add_provider`, for devices of :func:`get_ep_devices`."""
        if not devices:
            raise InvalidArgument("there are no devices to add a provider for")
        for device in devices:
            self.add_provider(device.ep_name, options)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Accepts any policy: each selects the processor."""
        self.__dict__["_selects"] = True

    def has_providers(self) -> bool:
        """Whether providers were added, or a policy that selects them."""
        return bool(self.__dict__["_selects"])

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: Kiln has no operators of other libraries."""
        raise kiln.UnsupportedError(f"operators of other libraries ({path}) are not supported", [path])


class RunOptions:
    """Options of one request.

    >>> options = RunOptions()
    >>> options.terminate
    False
    """

    def __init__(self) -> None:
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self._cancel = kiln.Cancel()
        self._config: dict[str, str] = {}
        self._adapted: dict[str, Any] = {}

    @property
    def terminate(self) -> bool:
        """Whether requests with these options are cancelled. It may be set from another thread."""
        return self._cancel.cancelled

    @terminate.setter
    def terminate(self, value: bool) -> None:
        if value:
            self._cancel.cancel()
        elif self._cancel.cancelled:
            self._cancel = kiln.Cancel()

    def add_active_adapter(self, adapter: LoraAdapter) -> None:
        """Has requests take the adapter's values in place of their inputs, and of earlier adapters' values."""
        self._adapted.update(adapter._parameters)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keeps the entry. No key has an effect on Kiln."""
        once(f"the run config entry {key} means nothing here")
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """An entry that was added."""
        if key not in self._config:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._config[key]
