from collections.abc import Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, Self, SupportsIndex, TypedDict, final

from numpy.typing import NDArray

__all__ = [
    "Adapter",
    "Batch",
    "Cancel",
    "Decoder",
    "DecoderCache",
    "Encoded",
    "EncoderDecoder",
    "Finished",
    "Hypothesis",
    "Metadata",
    "Pool",
    "Port",
    "Session",
    "_Generator",
    "__version__",
    "command",
    "pack",
    "reopen",
]

__version__: str

class _Member(Protocol):
    def open(self, mode: Literal["rb"], /) -> Any: ...
    def joinpath(self, *parts: Any) -> Any: ...

class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

class _RecordStore(Protocol):
    def get(self, name: str, /) -> bytes | None: ...
    def put(self, name: str, data: bytes, /) -> object: ...

class _ProfileRow(TypedDict):
    name: str
    op: str
    family: str
    calls: int
    prepare_seconds: float
    execute_seconds: float

@final
class Cancel:
    def __new__(cls) -> Self: ...
    def cancel(self) -> None: ...
    @property
    def cancelled(self) -> bool: ...

@final
class Adapter:
    def __new__(
        cls, parameters: dict[str, Any], *, adapter_version: int = 1, model_version: int = 1
    ) -> Self: ...
    @staticmethod
    def read(path: str | PathLike[str]) -> Adapter: ...
    @staticmethod
    def from_bytes(data: bytes) -> Adapter: ...
    @property
    def parameters(self) -> dict[str, NDArray[Any]]: ...
    @property
    def adapter_version(self) -> int: ...
    @property
    def model_version(self) -> int: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: str | PathLike[str]) -> None: ...

@final
class Pool:
    def __new__(cls, threads: int = 0) -> Self: ...
    @property
    def threads(self) -> int: ...

@final
class Port:
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def shape(self) -> tuple[int | str | None, ...] | None: ...
    @property
    def kind(
        self,
    ) -> Literal["tensor", "sequence", "optional", "optional sequence", "map", "sequence of maps"]: ...
    @property
    def keys(self) -> Literal["int64", "string"] | None: ...
    @property
    def has_default(self) -> bool: ...

@final
class Metadata:
    @property
    def producer_name(self) -> str: ...
    @property
    def producer_version(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def description(self) -> str: ...
    @property
    def graph_name(self) -> str: ...
    @property
    def graph_description(self) -> str: ...
    @property
    def properties(self) -> dict[str, str]: ...

class Session:
    def __new__(
        cls,
        model: str | PathLike[str] | bytes | bytearray | memoryview | _Member | _Readable,
        *,
        external_data: dict[str, Any] | None = None,
        initializers: dict[str, Any] | None = None,
        threads: int | None = None,
        pool: Pool | None = None,
        cache_dir: str | PathLike[str] | None = None,
        cache_mode: Literal["off", "memory", "read", "read-write"] | None = None,
        cache_per_model: bool | None = None,
        precision: Literal["f32", "bf16", "int8", "int4"] | None = None,
        numerics: Literal["strict", "precise", "default", "invariant"] | None = None,
        max_isa: Literal["portable", "avx2", "avx512"] | None = None,
        tune: Literal["off", "fast", "full"] | None = None,
        pack: Literal["off", "auto"] | None = None,
        pack_verify: Literal["each", "once", "never"] | None = None,
        pack_bytes: int | None = None,
        rehearse: bool | None = None,
        profile: bool | None = None,
        error_on_cache_miss: bool | None = None,
        memory_bytes: int | None = None,
        process_bytes: int | None = None,
        buffer_bytes: int | None = None,
        time_limit: float | None = None,
        load_time_limit: float | None = None,
        taps: Sequence[str] | None = None,
        remote: str | _RecordStore | None = None,
        remote_read_only: bool | None = None,
    ) -> Self: ...
    def run(
        self,
        output_names: Iterable[str] | None,
        inputs: dict[str, Any],
        *,
        out: dict[str, NDArray[Any]] | None = None,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> list[Any]: ...
    def run_many(
        self,
        output_names: Iterable[str] | None,
        requests: Iterable[dict[str, Any]],
        *,
        return_exceptions: bool = False,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> list[Any]: ...
    def _seconds_in_rust(self, inputs: dict[str, Any], requests: int) -> float: ...
    @property
    def inputs(self) -> list[Port]: ...
    @property
    def outputs(self) -> list[Port]: ...
    @property
    def metadata(self) -> Metadata: ...
    @property
    def closed(self) -> bool: ...
    @property
    def warmed(self) -> int: ...
    @property
    def packed(self) -> bool: ...
    def stats(self) -> dict[str, dict[str, int]]: ...
    def profile(self) -> list[_ProfileRow]: ...
    def save_records(self, path: str | PathLike[str] | None = None) -> int: ...
    def load_records(self, path: str | PathLike[str]) -> int: ...
    def save_cache(
        self,
        path: str | PathLike[str],
        kind: Literal["all", "cpu", "cudnn", "cublaslt", "chains", "fusion"] = "all",
    ) -> int: ...
    def load_cache(
        self,
        path: str | PathLike[str],
        kind: Literal["all", "cpu", "cudnn", "cublaslt", "chains", "fusion"] = "all",
    ) -> int: ...
    def publish(self, timeout: float = 10.0) -> None: ...
    def warm(self, shapes: dict[str, Sequence[int]] | Iterable[dict[str, Sequence[int]]]) -> int: ...
    def cancel(self) -> None: ...
    def trim(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Decoder:
    def __new__(
        cls,
        model: str | PathLike[str] | bytes | bytearray | memoryview | _Member | _Readable,
        *,
        embedding: str | PathLike[str] | None = None,
        external_data: dict[str, Any] | None = None,
        threads: int | None = None,
        pool: Pool | None = None,
        cache_dir: str | PathLike[str] | None = None,
        cache_mode: Literal["off", "memory", "read", "read-write"] | None = None,
        cache_per_model: bool | None = None,
        precision: Literal["f32", "bf16", "int8", "int4"] | None = None,
        numerics: Literal["strict", "precise", "default", "invariant"] | None = None,
        max_isa: Literal["portable", "avx2", "avx512"] | None = None,
        tune: Literal["off", "fast", "full"] | None = None,
        pack: Literal["off", "auto"] | None = None,
        pack_verify: Literal["each", "once", "never"] | None = None,
        pack_bytes: int | None = None,
        rehearse: bool | None = None,
        profile: bool | None = None,
        error_on_cache_miss: bool | None = None,
        memory_bytes: int | None = None,
        process_bytes: int | None = None,
        buffer_bytes: int | None = None,
        time_limit: float | None = None,
        load_time_limit: float | None = None,
        alias: Sequence[str] | None = None,
        remote: str | _RecordStore | None = None,
        remote_read_only: bool | None = None,
    ) -> Self: ...
    def cache(self, sequences: int = 1, *, room: int = 512, most: int = 4096) -> DecoderCache: ...
    def step(
        self,
        cache: DecoderCache,
        tokens: Iterable[Iterable[SupportsIndex]],
        *,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> NDArray[Any]: ...
    def search(
        self,
        tokens: Iterable[SupportsIndex],
        *,
        beams: int = 4,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        counted: int = 0,
        ends: Sequence[int] = ...,
        suppress: Sequence[int] = ...,
        begin_suppress: Sequence[int] = ...,
        no_repeat_ngram: int = 0,
        min_tokens: int = 0,
        timestamp_begin: int | None = None,
        max_initial_timestamp: int | None = None,
        max_tokens: int = 256,
        context: int = 4096,
        repetition_penalty: float = 1.0,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> list[Hypothesis]: ...
    def stats(self) -> dict[str, dict[str, int]]: ...
    def cancel(self) -> None: ...

@final
class DecoderCache:
    @property
    def lengths(self) -> list[int]: ...
    @property
    def room(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def fork(self, source: int, to: int, positions: int) -> None: ...
    def announce(self, sequence: int, length: int) -> None: ...
    def rewind(self, sequence: int, length: int) -> None: ...

@final
class EncoderDecoder:
    def __new__(
        cls,
        model: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        threads: int | None = None,
        pool: Pool | None = None,
        cache_dir: str | PathLike[str] | None = None,
        cache_mode: Literal["off", "memory", "read", "read-write"] | None = None,
        cache_per_model: bool | None = None,
        precision: Literal["f32", "bf16", "int8", "int4"] | None = None,
        numerics: Literal["strict", "precise", "default", "invariant"] | None = None,
        max_isa: Literal["portable", "avx2", "avx512"] | None = None,
        tune: Literal["off", "fast", "full"] | None = None,
        pack: Literal["off", "auto"] | None = None,
        pack_verify: Literal["each", "once", "never"] | None = None,
        pack_bytes: int | None = None,
        rehearse: bool | None = None,
        profile: bool | None = None,
        error_on_cache_miss: bool | None = None,
        memory_bytes: int | None = None,
        process_bytes: int | None = None,
        buffer_bytes: int | None = None,
        time_limit: float | None = None,
        load_time_limit: float | None = None,
        remote: str | _RecordStore | None = None,
        remote_read_only: bool | None = None,
    ) -> Self: ...
    def encode(
        self,
        inputs: dict[str, Any],
        *,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> Encoded: ...
    def step(
        self,
        cache: DecoderCache,
        tokens: Iterable[SupportsIndex],
        *,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> NDArray[Any]: ...
    @property
    def inputs(self) -> list[Port]: ...
    def stats(self) -> dict[str, dict[str, dict[str, int]]]: ...
    def cancel(self) -> None: ...

@final
class Encoded:
    @property
    def sequences(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def cache(self, *, room: int = 512, most: int = 4096) -> DecoderCache: ...
    def likeliest(self, start: int, among: Iterable[SupportsIndex]) -> list[int]: ...
    def search(
        self,
        tokens: Iterable[SupportsIndex],
        *,
        beams: int = 4,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        counted: int = 0,
        ends: Sequence[int] = ...,
        suppress: Sequence[int] = ...,
        begin_suppress: Sequence[int] = ...,
        no_repeat_ngram: int = 0,
        min_tokens: int = 0,
        timestamp_begin: int | None = None,
        max_initial_timestamp: int | None = None,
        max_tokens: int = 256,
        context: int = 4096,
        repetition_penalty: float = 1.0,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> list[Hypothesis]: ...

class _Generator:
    def __new__(
        cls,
        decoder: Decoder | Encoded,
        *,
        ends: Sequence[int] = ...,
        suppress: Sequence[int] = ...,
        begin_suppress: Sequence[int] = ...,
        no_repeat_ngram: int = 0,
        min_tokens: int = 0,
        timestamp_begin: int | None = None,
        max_initial_timestamp: int | None = None,
        max_tokens: int = 256,
        context: int = 4096,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        lookup: int = 0,
        lookup_ngram: int = 2,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> Self: ...
    def append(self, tokens: Iterable[SupportsIndex]) -> None: ...
    @property
    def text(self) -> list[int]: ...
    @property
    def ended(self) -> Literal["token", "max_tokens", "context", "failed"] | None: ...
    @property
    def lookup_stats(self) -> tuple[int, int]: ...
    def cancel(self) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> int: ...

@final
class Batch:
    def __new__(cls, decoder: Decoder, *, texts: int = 8, context: int = 4096) -> Self: ...
    def push(
        self,
        tokens: Iterable[SupportsIndex],
        *,
        ends: Sequence[int] = ...,
        suppress: Sequence[int] = ...,
        begin_suppress: Sequence[int] = ...,
        no_repeat_ngram: int = 0,
        min_tokens: int = 0,
        max_tokens: int = 256,
        context: int = 4096,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
    ) -> int: ...
    def step(
        self,
        *,
        time_limit: float | None = None,
        cancel: Cancel | None = None,
    ) -> list[tuple[int, int]]: ...
    def finished(self) -> list[Finished]: ...
    def forget(self, text: int) -> bool: ...
    @property
    def idle(self) -> bool: ...
    def cancel(self) -> None: ...

@final
class Hypothesis:
    @property
    def tokens(self) -> list[int]: ...
    @property
    def score(self) -> float: ...
    @property
    def ended(self) -> Literal["token", "max_tokens", "context"]: ...

@final
class Finished:
    @property
    def id(self) -> int: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def ended(self) -> Literal["token", "max_tokens", "context", "failed"]: ...
    @property
    def error(self) -> Exception | None: ...

def command(before: Sequence[str], arguments: Sequence[str]) -> int: ...
def pack(
    model: str | PathLike[str],
    to: str | PathLike[str],
    *,
    weightless: bool = False,
    decoder: bool = False,
    alias: Sequence[str] | None = None,
    precision: Literal["f32", "bf16", "int8", "int4"] | None = None,
    numerics: Literal["strict", "precise", "default", "invariant"] | None = None,
    max_isa: Literal["portable", "avx2", "avx512"] | None = None,
) -> int: ...
def reopen(kind: type[Session], model: str | PathLike[str] | bytes, options: dict[str, Any]) -> Session: ...
