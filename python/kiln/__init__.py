"""Kiln runs ONNX models, and never compiles, tunes or picks the same kernel twice.

>>> import numpy as np, kiln
>>> session = kiln.Session(model)          # a path or bytes
>>> [y] = session.run(None, {"x": np.ones((2, 3), np.float32)})

A :class:`Session` is one model, ready to run at any shape from any number of threads. Arrays go in and come out without
being copied, and the interpreter's lock is free while a model loads and while a request runs. A :class:`Decoder` runs a
language model step by step. An :class:`EncoderDecoder` encodes texts or sounds, and decodes texts from them. A
:class:`Generator` continues one text, and a :class:`Batch` many. Programs written for onnxruntime find its names in
:mod:`kiln.onnxruntime`.
"""

from kiln._errors import (
    CancelledError,
    ClosedError,
    InputError,
    InternalError,
    KilnError,
    ModelError,
    ModelNotFoundError,
    OptionError,
    OutputError,
    RecordsError,
    RunError,
    TimeLimitError,
    UnsupportedError,
)
from kiln._generator import Generator
from kiln._kiln import (
    Adapter,
    Batch,
    Cancel,
    Decoder,
    DecoderCache,
    Encoded,
    EncoderDecoder,
    Finished,
    Hypothesis,
    Metadata,
    Pool,
    Port,
    Session,
    __version__,
    pack,
)

__all__ = [
    "Adapter",
    "Batch",
    "Cancel",
    "CancelledError",
    "ClosedError",
    "Decoder",
    "DecoderCache",
    "Encoded",
    "EncoderDecoder",
    "Finished",
    "Generator",
    "Hypothesis",
    "InputError",
    "InternalError",
    "KilnError",
    "Metadata",
    "ModelError",
    "ModelNotFoundError",
    "OptionError",
    "OutputError",
    "Pool",
    "Port",
    "RecordsError",
    "RunError",
    "Session",
    "TimeLimitError",
    "UnsupportedError",
    "__version__",
    "pack",
]
