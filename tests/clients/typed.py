"""A model with every element type that clients send, its values, and what `kiln run` gives for them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import KILN, Server, save
from onnx import helper, numpy_helper

#: By the protocol's names: the element type, and the operator and its inputs that give an output of it.
TYPES: dict[str, tuple[Any, str, int]] = {
    "FP32": (np.float32, "Add", 2),
    "FP16": (np.float16, "Add", 2),
    "INT64": (np.int64, "Mul", 2),
    "INT32": (np.int32, "Mul", 2),
    "UINT8": (np.uint8, "Add", 2),
    "BOOL": (np.bool_, "Not", 1),
    "BYTES": (np.object_, "Identity", 1),
}
SHAPE = (2, 3)


def element_type(dtype: Any) -> int:
    return int(onnx.TensorProto.STRING if dtype is np.object_ else helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def typed(path: Path) -> Path:
    """A model that has an input and an output of each type, and a product with weights."""
    nodes, inputs, outputs = [], [], []
    for name, (dtype, operator, count) in TYPES.items():
        nodes.append(helper.make_node(operator, [f"x_{name}"] * count, [f"y_{name}"]))
        inputs.append(helper.make_tensor_value_info(f"x_{name}", element_type(dtype), ["n", 3]))
        outputs.append(helper.make_tensor_value_info(f"y_{name}", element_type(dtype), ["n", 3]))
    nodes.append(helper.make_node("MatMul", ["x_FP32", "w"], ["product"]))
    nodes.append(helper.make_node("Softmax", ["product"], ["z"]))
    outputs.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n", 5]))
    weights = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    return save(path, nodes, inputs, outputs, {"w": weights})


def values() -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(7)
    made = {}
    for name, (dtype, _, _) in TYPES.items():
        if name == "BYTES":
            texts = ["", "kiln", "größer", "\U0001f525", "a" * 300, "line\nend"]
            made[f"x_{name}"] = np.array([text.encode() for text in texts], np.object_).reshape(SHAPE)
        elif name == "BOOL":
            made[f"x_{name}"] = random.integers(0, 2, SHAPE).astype(np.bool_)
        elif name in ("FP32", "FP16"):
            made[f"x_{name}"] = random.standard_normal(SHAPE).astype(dtype)
        else:
            made[f"x_{name}"] = random.integers(0, 120, SHAPE).astype(dtype)
    return made


def same(found: Any, expected: np.ndarray[Any, Any]) -> None:
    found = np.asarray(found)
    if expected.dtype.kind in "OUS":
        texts = [text.decode() if isinstance(text, bytes) else text for text in found.ravel().tolist()]
        assert texts == expected.ravel().tolist()
    else:
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    assert found.shape == expected.shape


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray[Any, Any]]:
    """What `kiln run` gives for these values."""
    folder = tmp_path_factory.mktemp("run")
    model = typed(folder / "typed.onnx")
    command = [KILN, "run", str(model), "--output-dir", str(folder / "outputs"), "--cache-mode", "off"]
    for name, value in values().items():
        texts = np.vectorize(bytes.decode, otypes=[np.object_])(value) if value.dtype == np.object_ else value
        (folder / f"{name}.pb").write_bytes(numpy_helper.from_array(texts, name).SerializeToString())
        command += ["--input", f"{name}={folder / name}.pb"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {path.stem: np.load(path) for path in (folder / "outputs").glob("*.npy")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("wire") / "models"
    typed(folder / "typed" / "1" / "model.onnx")
    server = Server(folder, "--threads", "1")
    yield server
    assert server.end() == 0
