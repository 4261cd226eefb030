"""Sessions, and their models' inputs, outputs and metadata."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kiln
from kiln.onnxruntime import _install, _native
from kiln.onnxruntime._devices import OrtEpDevice, get_ep_devices
from kiln.onnxruntime._errors import InvalidArgument, of_code, translated
from kiln.onnxruntime._log import LOGGER, once
from kiln.onnxruntime._options import RunOptions, SessionOptions
from kiln.onnxruntime._process import get_available_providers
from kiln.onnxruntime._providers import pairs_of
from kiln.onnxruntime._types import element_name
from kiln.onnxruntime._values import IOBinding, OrtDevice, OrtMemoryInfo, OrtValue, OrtValueVector, as_texts
from kiln.onnxruntime._writing import Apart, replacing, written


class NodeArg:
    """An input or output as the model declares it: ``name``, ``type`` (as in ``tensor(float)``) and ``shape``.

    >>> [x] = ort.InferenceSession(model).get_inputs()
    >>> x.name, x.type, x.shape
    ('x', 'tensor(float)', ['n', 3])
    """

    def __init__(self, port: kiln.Port, sizes: Mapping[str, int]) -> None:
        tensor = f"tensor({element_name(port.dtype)})"
        kind = {
            "tensor": "{}",
            "sequence": "seq({})",
            "optional": "optional({})",
            "optional sequence": "optional(seq({}))",
            "map": f"map({port.keys},{{}})",
            "sequence of maps": f"seq(map({port.keys},{{}}))",
        }
        self.name = port.name
        self.type = kind[port.kind].format(tensor)
        shape = list(port.shape or [])
        self.shape: list[int | str | None] = [sizes.get(size, size) if isinstance(size, str) else size for size in shape]

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"

    __str__ = __repr__


class ModelMetadata:
    """The model's metadata.

    >>> ort.InferenceSession(model).get_modelmeta().custom_metadata_map
    {}
    """

    def __init__(self, metadata: kiln.Metadata) -> None:
        self.custom_metadata_map = dict(metadata.properties)
        self.description = metadata.description
        self.domain = metadata.domain
        self.graph_description = metadata.graph_description
        self.graph_name = metadata.graph_name
        self.producer_name = metadata.producer_name
        self.version = metadata.version


class Session:
    """onnxruntime's base class of sessions: :class:`InferenceSession` is the only one."""


class InferenceSession(Session):
    """One model, ready to run.

    Takes the arguments of onnxruntime's class of that name. Kiln computes on the CPU. Other providers are skipped with
    a warning, as onnxruntime skips providers that it does not have.

    >>> session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    >>> session.run(None, {"x": np.float32([[1, -2, 3]])})
    [array([[1., 0., 3.]], dtype=float32)]
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(path_or_bytes, str | bytes | os.PathLike):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options is {type(sess_options).__name__} of another package")
        for name in kwargs:
            once(f"the keyword {name} of InferenceSession means nothing here")
        self._options = sess_options if sess_options is not None else SessionOptions()
        # onnxruntime does not document these names and `_sess`, but programs read them, optimum and Olive among them.
        self._enable_fallback = True
        self._sess_options = self._options
        self._model_path = None if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._began = time.time_ns()
        self._real: Any = None
        self._checked(providers, provider_options)
        external = self._options.__dict__["_external_data"] or None
        try:
            self._session = kiln.Session(
                _model(path_or_bytes, external),
                external_data=external,
                initializers=self._options.__dict__["_initializers"] or None,
                threads=self._options.intra_op_num_threads or None,
                profile=self._options.enable_profiling or None,
            )
        except kiln.KilnError as error:
            real = _install.fallback_module()
            if real is None or isinstance(error, kiln.ModelNotFoundError):
                raise translated(error) from error
            LOGGER.warning("the real onnxruntime runs this model, because Kiln does not: %s", error)
            self._real = real.InferenceSession(
                path_or_bytes, _real_options(real, self._options), ["CPUExecutionProvider"]
            )
            return
        #: Microseconds that loading took.
        self._initialised = (time.time_ns() - self._began) / 1e3
        ports = self._session.inputs
        sizes = self._options.__dict__["_sizes"]
        self._inputs_meta = [NodeArg(port, sizes) for port in ports if not port.has_default]
        self._overridable_initializers = [NodeArg(port, sizes) for port in ports if port.has_default]
        self._outputs_meta = [NodeArg(port, sizes) for port in self._session.outputs]
        self._needed = [port.name for port in self._inputs_meta if not port.type.startswith("optional")]
        #: Inputs for which a request may pass None: their defaults stand.
        self._replaceable = {port.name for port in self._overridable_initializers}
        self._texts = [port.name for port in self._inputs_meta + self._overridable_initializers if port.type == "tensor(string)"]
        if self._options.optimized_model_filepath:
            _write(path_or_bytes, self._options)

    @property
    def _sess(self) -> _native.Session:
        """The native half of this session. No attribute, so that a session goes with its last reference."""
        return _native.Session(self)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a request must give."""
        return list(self._inputs_meta) if self._real is None else list(self._real.get_inputs())

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return list(self._outputs_meta) if self._real is None else list(self._real.get_outputs())

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that a request may leave out, because the model has defaults for them."""
        return list(self._overridable_initializers) if self._real is None else list(self._real.get_overridable_initializers())

    def get_modelmeta(self) -> ModelMetadata:
        """The model's metadata."""
        return ModelMetadata(self._session.metadata) if self._real is None else self._real.get_modelmeta()

    def get_session_options(self) -> SessionOptions:
        """The session's options."""
        return self._options

    def get_providers(self) -> list[str]:
        """``["CPUExecutionProvider"]``."""
        return get_available_providers()

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """The options of each provider: none."""
        return {name: {} for name in get_available_providers()}

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
    ) -> None:
        """Warns of providers that are not available. A name that is none of a provider is refused."""
        for name in self._checked(providers, provider_options):
            if not name.endswith("ExecutionProvider"):
                raise RuntimeError(f"Unknown Provider Type: {name}")

    def _checked(
        self,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None,
        provider_options: Sequence[dict[Any, Any]] | None,
    ) -> list[str]:
        """The names of the providers. Those that are not available are warned of, as onnxruntime falls back to the
        processor."""
        names = [name for name, _ in pairs_of(providers, provider_options)]
        for name in names:
            if name not in get_available_providers():
                text = f"Specified provider '{name}' is not in available provider names: {get_available_providers()}"
                once(text, level=logging.WARNING)
        return names

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """For each input, the memory that it lies in."""
        return [OrtMemoryInfo("Cpu") for _ in self.get_inputs()]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """For each output, the memory that it lies in."""
        return [OrtMemoryInfo("Cpu") for _ in self.get_outputs()]

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """For each input, the device of the provider that reads it."""
        return [device for _ in self.get_inputs() for device in get_ep_devices()]

    def get_tuning_results(self) -> list[Any]:
        """None: what Kiln has measured is in its records."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Has no effect, as providers without tuning have none."""

    def enable_fallback(self) -> None:
        """Has no effect but on what the session says of itself: there is one provider."""
        self._enable_fallback = True

    def disable_fallback(self) -> None:
        """As :meth:`enable_fallback`."""
        self._enable_fallback = False

    def run(
        self,
        output_names: Iterable[str] | None,
        input_feed: dict[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Serves one request. Without names, or for None, all outputs are returned."""
        return self._serve(output_names, input_feed, run_options)

    def _serve(
        self,
        output_names: Iterable[str] | None,
        input_feed: dict[str, Any],
        run_options: RunOptions | None,
        out: dict[str, NDArray[Any]] | None = None,
    ) -> list[Any]:
        """As :meth:`run`, and writes the outputs that ``out`` names to its arrays."""
        if self._real is not None:
            return self._serve_by_real(list(output_names or []), input_feed, out or {})
        if not isinstance(input_feed, dict):
            kind = type(input_feed).__name__
            raise TypeError(f"input_feed is a dict of the inputs by name ({self._needed}), not {kind}")
        for name in self._needed:
            if name not in input_feed:
                missing = [name for name in self._needed if name not in input_feed]
                raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).")
        if run_options is not None and run_options._adapted:
            input_feed = {**input_feed, **run_options._adapted}
        for name, value in input_feed.items():
            if isinstance(value, OrtValue):
                input_feed = {**input_feed, name: value._value}
            elif value is None and name in self._replaceable:
                input_feed = {other: given for other, given in input_feed.items() if other != name}
        for name in self._texts:
            if name in input_feed:
                input_feed = {**input_feed, name: as_texts(input_feed[name])}
        try:
            if run_options is None:
                return self._session.run(output_names, input_feed, out=out)
            return self._session.run(output_names, input_feed, out=out, cancel=run_options._cancel)
        except kiln.KilnError as error:
            raise translated(error) from error

    def _serve_by_real(
        self, output_names: list[str], input_feed: dict[str, Any], out: dict[str, NDArray[Any]]
    ) -> list[Any]:
        """As :meth:`_serve`, on the real package: its outputs are copied to the arrays of ``out``."""
        results = list(self._real.run(output_names, input_feed))
        for place, name in enumerate(output_names):
            if name in out:
                was, at = results[place], out[name]
                if at.shape != was.shape or at.dtype != was.dtype:
                    is_, bound = f"{was.dtype} {list(was.shape)}", f"{at.dtype} {list(at.shape)}"
                    raise InvalidArgument(f"output '{name}': it is {is_}, bound to memory for {bound}")
                np.copyto(at, was)
                results[place] = at
        return results

    def run_with_ort_values(
        self,
        output_names: Iterable[str] | None,
        input_dict_ort_values: dict[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> OrtValueVector:
        """As :meth:`run`, with inputs and outputs as :class:`OrtValue`."""
        return OrtValueVector(map(OrtValue, self.run(output_names, dict(input_dict_ort_values), run_options)))

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """As :meth:`run`, with lists of values. The outputs of ``fetch_names`` are appended to ``fetches``."""
        self._sess.run_with_ortvaluevector(run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Serves one request with the bound inputs and outputs."""
        iobinding.run(self, run_options)

    def run_async(
        self,
        output_names: Iterable[str] | None,
        input_feed: dict[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Serves one request on another thread, which calls ``callback(outputs, user_data, error)``."""

        def serve() -> None:
            try:
                outputs, error = self.run(output_names, input_feed, run_options), ""
            except Exception as problem:
                outputs, error = [], str(problem)
            callback(outputs, user_data, error)

        threading.Thread(target=serve, name="kiln-async").start()

    def io_binding(self) -> IOBinding:
        """A binding of values to this session's inputs and outputs."""
        return IOBinding(self)

    def get_profiling_start_time_ns(self) -> int:
        """When the session was made, in nanoseconds."""
        return self._began

    def end_profiling(self) -> str:
        """Writes the times of the nodes so far for Chrome's trace viewer. Returns the file's name.

        The events have onnxruntime's names. Each has the sum of all requests.
        """
        if self._real is not None:
            return str(self._real.end_profiling())
        tracks = {"pid": os.getpid(), "tid": 0, "ph": "X"}
        nodes: list[dict[str, Any]] = []
        began = at = self._initialised
        for index, row in enumerate(self._session.profile()):
            duration = (row["prepare_seconds"] + row["execute_seconds"]) * 1e6
            said = {"op_name": row["op"], "calls": row["calls"], "family": row["family"]}
            said |= {"provider": "CPUExecutionProvider", "node_index": str(index)}
            event = {"cat": "Node", "name": f"{row['name']}_kernel_time", "ts": at, "dur": duration, "args": said}
            nodes.append({**event, **tracks})
            at += duration
        around = [("session_initialization", 0.0, began), ("model_run", began, at - began)]
        around.append(("SequentialExecutor::Execute", began, at - began))
        events = [{"cat": "Session", "name": name, "ts": ts, "dur": dur, "args": {}, **tracks} for name, ts, dur in around]
        path = f"{self._options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(events + nodes, file)
        return path

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("pickle kiln.Session instead: onnxruntime's session cannot be pickled")


def _model(path_or_bytes: Any, external: dict[str, Any] | None) -> Any:
    """The model: read from its path if the options have its other files, otherwise as given."""
    if external is None or not isinstance(path_or_bytes, str | os.PathLike):
        return path_or_bytes
    try:
        return Path(path_or_bytes).read_bytes()
    except FileNotFoundError:
        return path_or_bytes


def _write(path_or_bytes: Any, options: SessionOptions) -> None:
    """Writes the model where the options say. It is the same graph: Kiln's own form of it is no ONNX model."""
    path, entries = Path(options.optimized_model_filepath), options.__dict__["_config"]
    file = entries.get("session.optimized_model_external_initializers_file_name", "")
    least = str(entries.get("session.optimized_model_external_initializers_min_size_in_bytes", 1024))
    if not least.isdecimal():
        text = f"optimized_model_external_initializers_min_size_in_bytes is {least!r}, not a number of bytes"
        raise of_code(2, "INVALID_ARGUMENT", InvalidArgument, text)
    data = written(path_or_bytes, options, Apart(file, int(least)), path.parent)
    with replacing(path) as file:
        file.write(data)


def _real_options(real: Any, options: SessionOptions) -> Any:
    """The real package's options, with the same values."""
    theirs = real.SessionOptions()
    theirs.intra_op_num_threads = options.intra_op_num_threads
    theirs.inter_op_num_threads = options.inter_op_num_threads
    theirs.enable_profiling = options.enable_profiling
    theirs.optimized_model_filepath = options.optimized_model_filepath
    theirs.graph_optimization_level = real.GraphOptimizationLevel(int(options.graph_optimization_level))
    for name, array in options.__dict__["_initializers"].items():
        theirs.add_initializer(name, real.OrtValue.ortvalue_from_numpy(array))
    external = options.__dict__["_external_data"]
    if external:
        sizes = [len(data) for data in external.values()]
        theirs.add_external_initializers_from_files_in_memory(list(external), list(external.values()), sizes)
    theirs.execution_mode = real.ExecutionMode(int(options.execution_mode))
    return theirs


__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "Session"]
