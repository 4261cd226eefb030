"""The onnx package's own test runner over Kiln: every case of an operator, with the refusals that `kiln check` has."""

from __future__ import annotations

import os
import re
import unittest

import numpy as np
import onnx.backend.test
import pytest
from onnx import helper

import kiln
import kiln.backend

#: Operators that are refused: training, and decoders of image files.
REFUSED = re.compile(r"^test_(adagrad|adam|momentum|nesterov_momentum|image_decoder)(_|$)")
#: Cases whose random numbers are numpy's own, which no runtime draws.
RANDOM = re.compile(r"^test_bernoulli(_|$)")
#: Equal, but the runner asks scalars in sequences for their length.
NOT_COMPARED = re.compile(r"^test_loop16_seq_none_cpu$")

#: Where this is not set, only operators that most models have are run: all cases take a minute or two.
EVERY_CASE = bool(os.environ.get("KILN_TEST_BACKEND"))
USUAL = re.compile(r"^test_(relu|add|matmul|softmax_axis|concat_1d|gemm|cast_FLOAT_to|where|identity|split)(_|$)")


def node_cases() -> dict[str, type[unittest.TestCase]]:
    """The cases of operators, on the processor."""
    runner = onnx.backend.test.BackendTest(kiln.backend, __name__)
    runner.include("_cpu$")
    cases = runner.test_cases["OnnxBackendNodeModelTest"]
    for name in [name for name in dir(cases) if name.startswith("test_")]:
        usual = EVERY_CASE or USUAL.match(name)
        if (
            not name.endswith("_cpu")
            or not usual
            or RANDOM.match(name)
            or REFUSED.match(name)
            or NOT_COMPARED.match(name)
        ):
            delattr(cases, name)
    return {"OnnxBackendNodeModelTest": cases}


globals().update(node_cases())


def test_what_is_refused_is_refused_with_its_name() -> None:
    refused = [case for case in onnx.backend.test.loader.load_model_tests(kind="node") if REFUSED.match(case.name)]
    assert len(refused) == 16
    for case in refused:
        assert case.model is not None
        with pytest.raises(kiln.UnsupportedError, match="operator ai.onnx.(preview.training.)?[A-Z]"):
            kiln.backend.prepare(case.model)
        assert not kiln.backend.is_compatible(case.model)


def test_a_node_alone_is_a_model() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    outputs = kiln.backend.run_node(node, [np.float32([1, 2]), np.float32([3, 4])])
    np.testing.assert_array_equal(outputs[0], [4, 6])
    assert outputs.c is outputs[0]  # type: ignore[attr-defined]


def test_devices_and_models_that_are_not_here() -> None:
    assert kiln.backend.supports_device("CPU") and not kiln.backend.supports_device("CUDA:1")
    node = helper.make_node("Nonsense", ["a"], ["b"])
    with pytest.raises(kiln.KilnError):
        kiln.backend.run_node(node, [np.float32([1])])
