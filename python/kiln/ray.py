"""Kiln on Ray: batches of a dataset and requests of a deployment, by workers that are warm when they join.

:class:`Predictor` is a callable class for ``Dataset.map_batches``, :func:`deployment` an application for Ray Serve, and
:class:`Records` a store of records in Ray's object store, which both share where the option ``remote`` names no other.
It needs Ray: ``pip install "ray[data,serve]"``. Written for Ray 2.60.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kiln

try:
    import ray
except ImportError:
    raise ImportError('kiln.ray needs Ray: pip install "ray[data,serve]"', name="ray") from None

__all__ = ["Predictor", "Records", "deployment"]

#: Most bytes of one object of records. Kiln has the same bound.
_MOST_BYTES = 24 << 20
#: Most bytes of all objects that one store keeps, and most of their number.
_MOST_BYTES_IN_ALL = 256 << 20
_MOST_OBJECTS = 1024
#: Seconds that a call of the object store may take.
_PATIENCE = 10.0
#: The namespace of Ray that stores of records are in, so that all jobs of a cluster find them.
_NAMESPACE = "kiln"


def _threads() -> int | None:
    """The processors that this task or actor was given (`num_cpus`), rounded down: at least 1. Ray binds no process to
    them, so a session that counted the machine's processors would have too many threads. None outside Ray's workers.
    """
    if not ray.is_initialized() or ray.get_runtime_context().worker.mode != ray.WORKER_MODE:
        return None
    return max(int(ray.get_runtime_context().get_assigned_resources().get("CPU", 0)), 1)


class _Keeper:
    """The actor of a store: references to objects by their names."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, int]] = {}

    def get(self, name: str) -> list[Any]:
        """A list with the object, or an empty list. In a list, Ray passes on the reference and not the object."""
        return [self._kept[name][0]] if name in self._kept else []

    def put(self, name: str, data: bytes) -> None:
        """Stores an object in place of one with the same name."""
        others = [size for kept, (_, size) in self._kept.items() if kept != name]
        if len(data) > _MOST_BYTES or sum(others) + len(data) > _MOST_BYTES_IN_ALL or len(others) >= _MOST_OBJECTS:
            raise ValueError(f"{name}: {len(data)} bytes beside {sum(others)} of {len(others)} objects are too much")
        self._kept[name] = ray.put(data), len(data)


class Records:
    """A store of records in Ray's object store, for the option ``remote``.

    All stores with the same ``name`` in a cluster are one store, even in different jobs. An actor without processors of
    its own holds the references; an object is copied once to each node that asks for it. The actor lives until
    :meth:`close`, and records that no machine's own file holds end with it.
    """

    def __init__(self, name: str = "kiln-records") -> None:
        self._name = name

    def _keeper(self) -> Any:
        kind = ray.remote(num_cpus=0, max_concurrency=1)(_Keeper)
        own = {"name": self._name, "namespace": _NAMESPACE, "lifetime": "detached", "get_if_exists": True}
        return kind.options(**own).remote()

    def get(self, name: str) -> bytes | None:
        """The object of that name, if there is one."""
        found = ray.get(self._keeper().get.remote(name), timeout=_PATIENCE)
        return bytes(ray.get(found[0], timeout=_PATIENCE)) if found else None

    def put(self, name: str, data: bytes) -> None:
        """Stores an object of at most 24 MiB in place of one with the same name. A store holds at most 256 MiB."""
        ray.get(self._keeper().put.remote(name, data), timeout=_PATIENCE)

    def close(self) -> None:
        """Ends the store for all that share it, and drops its objects."""
        try:
            ray.kill(ray.get_actor(self._name, namespace=_NAMESPACE))
        except ValueError:
            pass  # There is none.


#: The sessions of this process, which end with the last actor that has them.
_sessions: weakref.WeakValueDictionary[str, kiln.Session] = weakref.WeakValueDictionary()
_loading = threading.Lock()


def _session(model: Any, remote: Any, wait: float, options: dict[str, Any]) -> kiln.Session:
    """The session of a model with these options. A process has one, which its first actor loads."""
    if options.get("pool") is not None:
        raise kiln.OptionError("pool: an actor has the threads of its processors; `threads` says another number")
    if isinstance(model, ray.ObjectRef):
        model = ray.get(model)
    if options.get("threads") is None:
        options = {**options, "threads": _threads()}
    what = os.fspath(model) if isinstance(model, str | os.PathLike) else model
    # Arguments with the same pickled bytes share a session; all others have a session of their own.
    said = ray.cloudpickle.dumps((what, remote, sorted(options.items())))
    key = hashlib.blake2b(said, digest_size=32).hexdigest()
    with _loading:
        found = _sessions.get(key)
        if found is None or found.closed:
            found = _load(what, remote, wait, options)
            _sessions[key] = found
        return found


def _load(model: Any, remote: Any, wait: float, options: dict[str, Any]) -> kiln.Session:
    """A session with the records of its store, after waiting for them for at most `wait` seconds."""
    mode = options.get("cache_mode") or os.environ.get("KILN_CACHE_MODE")
    if remote is False or mode in ("off", "memory"):
        return kiln.Session(model, **options)
    store = Records() if remote is None else remote
    session = kiln.Session(model, remote=store, **options)
    if not _heard_late(session, wait) or mode == "read":
        return session
    # A session makes the plans and executors of its records while it loads, and the file has the records now.
    session.save_records()
    session.close()
    return kiln.Session(model, remote=store, **options)


def _heard_late(session: kiln.Session, wait: float) -> bool:
    """Whether the store had records that came after the half second that loading waits for them."""
    records = session.stats()["records"]
    if records["remote_gets"] or records["loaded"]:
        return False
    until = time.monotonic() + wait
    while not records["remote_taken"] and time.monotonic() < until:
        if records["remote_failures"]:
            return False
        time.sleep(0.02)
        before, records = records, session.stats()["records"]
        if before["remote_gets"] and not records["remote_taken"]:
            return False  # It had nothing.
    return bool(records["remote_taken"])


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """The values of rows as a column: an array if all have the same shape, otherwise an array of objects."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if values and len(arrays) == len(values) and len({(array.shape, array.dtype) for array in arrays}) == 1:
        return np.stack(arrays)
    column = np.empty(len(values), object)
    for at, value in enumerate(values):
        column[at] = value
    return column


class Predictor:
    """A callable class for ``Dataset.map_batches``: columns of a batch are the model's inputs, outputs become columns.

    ``model`` is a path that every node has, the bytes of a model, or a reference to bytes (``ray.put``), which are not
    copied into each actor's arguments. The session has as many threads as the actor has processors, and the actors of a
    process share it. ``columns`` maps inputs to columns with other names. ``outputs`` are the wanted outputs, or None
    for all. ``keep`` are columns that are passed on.

    Each row is a request. Its values lack the model's first axis, which then has size 1, and may have any length;
    nothing is padded. The rows of a batch run side by side, and each result has the bits that it has alone. With
    ``stacked``, a batch is one request, and all rows of a column have the same shape.

    Records are shared through ``remote``: the option of :class:`kiln.Session`, None for :class:`Records`, or False for
    none. ``wait`` is the most seconds that loading waits for the store. All other options are the session's.

    ``dataset.map_batches(kiln.ray.Predictor, fn_constructor_kwargs={"model": "model.onnx"}, batch_size=256, num_cpus=1,
    compute=ray.data.ActorPoolStrategy(size=2))``
    """

    def __init__(
        self,
        model: Any,
        *,
        columns: Mapping[str, str] | None = None,
        outputs: Sequence[str] | None = None,
        keep: Sequence[str] = (),
        stacked: bool = False,
        remote: Any = None,
        wait: float = _PATIENCE,
        **options: Any,
    ) -> None:
        self._session = _session(model, remote, wait, options)
        ports = self._session.inputs
        known = [port.name for port in ports]
        for name in columns or {}:
            if name not in known:
                raise kiln.OptionError(f"columns: the model has no input {name!r}; it has {', '.join(known)}")
        given = [port.name for port in self._session.outputs]
        for name in outputs or ():
            if name not in given:
                raise kiln.OptionError(f"outputs: the model has no output {name!r}; it has {', '.join(given)}")
        self._columns = {name: (columns or {}).get(name, name) for name in known}
        self._may_lack = {port.name for port in ports if port.has_default}
        self._ranks = {port.name: None if port.shape is None else len(port.shape) for port in ports}
        self._outputs = list(outputs) if outputs is not None else given
        self._keep = list(keep)
        self._stacked = stacked

    @property
    def session(self) -> kiln.Session:
        """This process's session of the model."""
        return self._session

    def __call__(self, batch: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs of a batch, as columns."""
        inputs: dict[str, NDArray[Any]] = {}
        for name, column in self._columns.items():
            if column in batch:
                inputs[name] = batch[column]
            elif name not in self._may_lack:
                raise kiln.InputError(f"input {name!r}: there is no column {column!r}; there are {', '.join(batch)}")
        for column in self._keep:
            if column not in batch:
                raise kiln.InputError(f"keep: there is no column {column!r}; there are {', '.join(batch)}")
        rows = len(next(iter(batch.values()), ()))
        served = self._whole(inputs, rows) if self._stacked else self._rows(inputs, rows)
        # Columns of a batch are Ray's memory.
        return {**{column: np.array(batch[column]) for column in self._keep}, **served}

    def _whole(self, inputs: dict[str, NDArray[Any]], rows: int) -> dict[str, NDArray[Any]]:
        served = self._session.run(self._outputs, inputs)
        for name, value in zip(self._outputs, served, strict=True):
            if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != rows:
                raise kiln.OptionError(f"stacked: output {name!r} has no row for each of the batch's {rows}")
        return dict(zip(self._outputs, served, strict=True))

    def _rows(self, inputs: dict[str, NDArray[Any]], rows: int) -> dict[str, NDArray[Any]]:
        requests = [{name: self._value(name, column[at]) for name, column in inputs.items()} for at in range(rows)]
        served = self._session.run_many(self._outputs, requests, return_exceptions=True)
        for at, outputs in enumerate(served):
            if isinstance(outputs, BaseException):
                outputs.add_note(f"in row {at} of a batch of {rows}")
                raise outputs
        columns = zip(*served, strict=True) if served else [()] * len(self._outputs)
        named = zip(self._outputs, columns, strict=True)
        return {name: _column([self._row(name, value) for value in values]) for name, values in named}

    def _value(self, name: str, row: Any) -> NDArray[Any]:
        """A row's value with the model's first axis."""
        value = np.asarray(row)
        rank = self._ranks[name]
        return value[np.newaxis] if rank is None or value.ndim == rank - 1 else value

    def _row(self, name: str, value: Any) -> Any:
        """An output without the first axis."""
        if not isinstance(value, np.ndarray) or value.ndim == 0:
            return value
        if len(value) != 1:
            raise kiln.OptionError(f"outputs: {name!r} has {len(value)} rows of a request of one row")
        return value[0]


class _Replica:
    """A replica of a deployment. It takes requests after its constructor has returned, and is then warm."""

    def __init__(
        self,
        model: Any,
        outputs: Sequence[str] | None,
        warm: Sequence[Mapping[str, Sequence[int]]],
        time_limit: float | None,
        remote: Any,
        wait: float,
        options: dict[str, Any],
    ) -> None:
        self._session = _session(model, remote, wait, options)
        self._names = list(outputs) if outputs is not None else [port.name for port in self._session.outputs]
        self._warm = [dict(shapes) for shapes in warm]
        self._time_limit = time_limit
        # One request at a time has all threads: a second one beside it would take processors that others were given.
        self._lane = ThreadPoolExecutor(1, "kiln-serve")
        self._session.warm(self._warm)

    async def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a request by name. If the caller goes away, the request is cancelled."""
        if not isinstance(inputs, Mapping):
            kind = type(inputs).__name__
            raise kiln.InputError(f"a request is a dict of arrays by the names of inputs, and no {kind}")
        until = None if self._time_limit is None else time.monotonic() + self._time_limit
        cancel = kiln.Cancel()
        step = self._lane.submit(self._serve, dict(inputs), until, cancel)
        try:
            return await asyncio.wrap_future(step)
        except asyncio.CancelledError:
            cancel.cancel()
            raise

    def _serve(self, inputs: dict[str, Any], until: float | None, cancel: kiln.Cancel) -> dict[str, Any]:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise kiln.TimeLimitError("the request has waited for as long as it may take")
        served = self._session.run(self._names, inputs, time_limit=left, cancel=cancel)
        return dict(zip(self._names, served, strict=True))

    async def check_health(self) -> None:
        """Serves a request of zeros with the first shapes that the replica was warmed with. Ray Serve calls it."""
        await asyncio.to_thread(self._session.warm, self._warm[:1])

    async def stats(self) -> dict[str, dict[str, int]]:
        """The counters of the session."""
        return self._session.stats()

    async def publish(self) -> None:
        """Puts the records of the choices so far into the store now."""
        await asyncio.to_thread(self._session.publish)


def deployment(
    model: Any,
    *,
    outputs: Sequence[str] | None = None,
    warm: Sequence[Mapping[str, Sequence[int]]] = (),
    num_cpus: float = 1,
    time_limit: float | None = None,
    remote: Any = None,
    wait: float = _PATIENCE,
    serve: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """An application of Ray Serve that answers dicts of arrays: ``serve.run(kiln.ray.deployment("model.onnx"),
    route_prefix=None)`` is a handle, whose ``remote({"x": array}).result()`` is a dict of the outputs.

    A replica takes requests once it is warm: it has read the store of records, made the executors and plans of the
    records, and served a request of zeros for each mapping of inputs to shapes in ``warm``. A request of the first
    mapping is its health check from then on. It has ``num_cpus`` threads and runs one request at a time.
    ``time_limit``, in seconds, includes the time that a request waits in the replica. If a caller goes away, its
    request is cancelled.

    ``serve`` has options of ``ray.serve.deployment``: ``num_replicas``, ``autoscaling_config`` and so on. By default, a
    replica holds 8 requests, and 64 wait at each handle before others are refused. ``model``, ``outputs``, ``remote``,
    ``wait`` and all other options are those of :class:`Predictor`.
    """
    from ray import serve as ray_serve

    defaults = {"name": "kiln", "max_ongoing_requests": 8, "max_queued_requests": 64}
    given = {**defaults, **(serve or {})}
    given["ray_actor_options"] = {"num_cpus": num_cpus, **given.get("ray_actor_options", {})}
    kind = ray_serve.deployment(_Replica, **given)
    return kind.bind(model, outputs, list(warm), time_limit, remote, wait, options)
