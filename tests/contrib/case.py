"""What a case of tests/contrib/run is, and the values that it draws."""

import itertools
import zlib

import numpy as np

MS, ML = "com.microsoft", "ai.onnx.ml"
F32, F16, F64 = np.float32, np.float16, np.float64


class Case:
    """One node: inputs are arrays (None where one is left out), those named in `constant` are initialisers."""

    def __init__(self, name, op, domain, inputs, outputs=1, constant=(), atol=None, version=1, opset=17, **attributes):
        self.name, self.op, self.domain, self.inputs, self.outputs = name, op, domain, inputs, outputs
        self.constant, self.atol, self.version, self.opset = set(constant), atol, version, opset
        # A network in the place of the one node.
        self.model = None
        # Inputs whose memory onnxruntime asks to be that of an output, by number.
        self.shared = {}
        self.attributes = {key: value for key, value in attributes.items() if value is not None}


GENERATORS = []


def cases(function):
    GENERATORS.append(function)
    return function


class Draw:
    """Random values, the same for the same name."""

    def __init__(self, name):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def f(self, *shape, dtype=F32, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def i(self, low, high, *shape, dtype=np.int32):
        return self.rng.integers(low, high, shape, dtype=np.int64).astype(dtype)

    def bytes(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape, dtype=np.int64).astype(dtype)


def named(**parts):
    return "_".join(f"{key}{getattr(value, '__name__', value)}" for key, value in parts.items())


def grid(**axes):
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values))
