"""An encoder of texts as a model of random weights: what tests of Ray and the bench of a fleet run."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

#: Tokens that it knows.
WORDS = 1000


def encoder(layers: int = 1, hidden: int = 64, heads: int = 4) -> bytes:
    """From `ids` [texts, length]: `states` [texts, length, hidden] and their mean `embedding` [texts, hidden]."""
    generator = np.random.default_rng(11)
    constants: dict[str, Any] = {
        "heads": np.array([0, 0, heads, hidden // heads]),
        "joined": np.array([0, 0, hidden]),
        "middle": np.array([1]),
        "root": np.float32((hidden // heads) ** -0.5),
        "half": np.float32(0.5),
        "one": np.float32(1),
        "root of two": np.float32(2**0.5),
    }
    nodes = []

    def weight(name: str, *shape: int) -> str:
        constants[name] = generator.standard_normal(shape, np.float32) * np.float32(shape[0] ** -0.5)
        return name

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def dense(at: str, x: str, rows: int, columns: int) -> str:
        product = node("MatMul", [x, weight(f"{at} weight", rows, columns)], f"{at} product")
        return node("Add", [product, weight(f"{at} bias", columns)], at)

    def normal(at: str, x: str, y: str) -> str:
        constants[f"{at} scale"], constants[f"{at} shift"] = np.ones(hidden, np.float32), np.zeros(hidden, np.float32)
        total = node("Add", [x, y], f"{at} sum")
        return node("LayerNormalization", [total, f"{at} scale", f"{at} shift"], at, axis=-1)

    constants["table"] = generator.standard_normal((WORDS, hidden), np.float32)
    x = node("Gather", ["table", "ids"], "embedded")
    for layer in range(layers):
        parts = {}
        for part, order in {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}.items():
            at = f"{layer} {part}"
            split = node("Reshape", [dense(at, x, hidden, hidden), "heads"], f"{at} split")
            parts[part] = node("Transpose", [split], f"{at} heads", perm=order)
        scores = node("MatMul", [parts["query"], parts["key"]], f"{layer} products")
        scores = node("Mul", [scores, "root"], f"{layer} scores")
        shares = node("Softmax", [scores], f"{layer} shares", axis=-1)
        attended = node("MatMul", [shares, parts["value"]], f"{layer} attended")
        attended = node("Transpose", [attended], f"{layer} turned", perm=[0, 2, 1, 3])
        attended = node("Reshape", [attended, "joined"], f"{layer} joined")
        x = normal(f"{layer} first", x, dense(f"{layer} back", attended, hidden, hidden))
        wide = dense(f"{layer} wide", x, hidden, 4 * hidden)
        bent = node("Erf", [node("Div", [wide, "root of two"], f"{layer} scaled")], f"{layer} erf")
        bent = node("Mul", [wide, node("Add", [bent, "one"], f"{layer} raised")], f"{layer} bent")
        bent = node("Mul", [bent, "half"], f"{layer} gelu")
        x = normal(f"{layer} second", x, dense(f"{layer} narrow", bent, 4 * hidden, hidden))
    node("Identity", [x], "states")
    node("ReduceMean", [x], "embedding", axes=[1], keepdims=0)
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "length"])],
        [
            helper.make_tensor_value_info("states", TensorProto.FLOAT, ["texts", "length", hidden]),
            helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", hidden]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def sentences(count: int) -> list[np.ndarray[Any, Any]]:
    """Texts of 3 to 64 tokens, 13 on average; one in ten is longer than 25."""
    generator = np.random.default_rng(13)
    lengths = np.clip(generator.lognormal(2.4, 0.65, count), 3, 64).astype(int)
    return [generator.integers(0, WORDS, length) for length in lengths]
