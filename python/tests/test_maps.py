"""Maps and sequences of maps: dicts and lists of dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import kiln
from conftest import tensor

ROWS = np.array([[0.25, 0.75], [1, 0], [0.5, 0.5]], np.float32)


def map_type(keys: int) -> onnx.TypeProto:
    return helper.make_map_type_proto(keys, helper.make_tensor_type_proto(TensorProto.FLOAT, []))


def session(node: onnx.NodeProto, given: onnx.ValueInfoProto, made: list[onnx.ValueInfoProto]) -> kiln.Session:
    """A session of one node of ai.onnx.ml."""
    graph = helper.make_graph([node], "graph", [given], made)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return kiln.Session(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


def zipped(keys: int, **labels: Any) -> kiln.Session:
    """A map of each row of two numbers."""
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(map_type(keys)))
    node = helper.make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", **labels)
    return session(node, tensor("x", shape=("n", 2)), [maps])


@pytest.mark.parametrize(
    ("keys", "labels", "names"),
    [
        (TensorProto.STRING, {"classlabels_strings": ["no", "yes"]}, ["no", "yes"]),
        (TensorProto.INT64, {"classlabels_int64s": [7, -3]}, [7, -3]),
    ],
)
def test_a_sequence_of_maps_is_a_list_of_dicts(keys: int, labels: dict[str, Any], names: list[Any]) -> None:
    made = zipped(keys, **labels)
    assert made.outputs[0].kind == "sequence of maps"
    [maps] = made.run(None, {"x": ROWS})
    assert maps == [dict(zip(names, row)) for row in ROWS.tolist()]
    assert {type(value) for entry in maps for value in entry.values()} == {float}
    assert made.run(None, {"x": ROWS[:0]}) == [[]]


def vectorizer() -> kiln.Session:
    """A row of the values of four words."""
    node = helper.make_node(
        "DictVectorizer", ["words"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c", "d"]
    )
    given = helper.make_value_info("words", map_type(TensorProto.STRING))
    return session(node, given, [tensor("y", shape=(1, 4))])


def test_a_dict_is_a_map() -> None:
    made = vectorizer()
    assert (made.inputs[0].kind, made.inputs[0].dtype) == ("map", "float32")
    for words, row in [({"b": 2.5, "d": -1}, [0, 2.5, 0, -1]), ({}, [0, 0, 0, 0]), ({"other": 1.0}, [0, 0, 0, 0])]:
        [y] = made.run(None, {"words": words})
        np.testing.assert_array_equal(y, np.array([row], np.float32))


@pytest.mark.parametrize(
    ("of", "cast", "sizes", "row"),
    [
        (TensorProto.FLOAT, "TO_FLOAT", {}, [-2.75, 1.5]),
        (TensorProto.FLOAT, "TO_FLOAT", {"map_form": "SPARSE", "max_map": 4}, [0, 0, -2.75, 0]),
        (TensorProto.FLOAT, "TO_INT64", {"map_form": "SPARSE", "max_map": 6}, [0, 0, -2, 0, 0, 1]),
        (TensorProto.FLOAT, "TO_STRING", {}, ["-2.750000", "1.500000"]),
        (TensorProto.STRING, "TO_STRING", {"map_form": "SPARSE", "max_map": 3}, ["0.f", "0.f", "-2.75"]),
        (TensorProto.STRING, "TO_FLOAT", {}, [-2.75, 1.5]),
    ],
)
def test_a_map_is_cast_to_a_row(of: int, cast: str, sizes: dict[str, Any], row: list[Any]) -> None:
    """The rows of numbers are onnxruntime's."""
    types = {"TO_FLOAT": TensorProto.FLOAT, "TO_INT64": TensorProto.INT64, "TO_STRING": TensorProto.STRING}
    node = helper.make_node("CastMap", ["numbers"], ["y"], domain="ai.onnx.ml", cast_to=cast, **sizes)
    element = helper.make_tensor_type_proto(of, [])
    given = helper.make_value_info("numbers", helper.make_map_type_proto(TensorProto.INT64, element))
    made = session(node, given, [tensor("y", types[cast], (1, "n"))])
    values = {5: 1.5, 2: -2.75} if of == TensorProto.FLOAT else {5: "1.5", 2: "-2.75"}
    assert made.run(None, {"numbers": values})[0].tolist() == [row]
    if "max_map" in sizes:
        with pytest.raises(kiln.RunError, match="key -1 is no place"):
            made.run(None, {"numbers": {**values, -1: next(iter(values.values()))}})


@pytest.mark.parametrize("given", [None, 3, [("a", 1.0)], ROWS, {"a": "many"}, {"a": [1.0, 2.0]}, {"a": object()}])
def test_what_is_no_map_is_refused(given: Any) -> None:
    with pytest.raises(kiln.InputError, match="words"):
        vectorizer().run(None, {"words": given})


def test_a_bound_output_and_a_map_of_it_lie_apart() -> None:
    keys = helper.make_value_info("maps", helper.make_sequence_type_proto(map_type(TensorProto.INT64)))
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("ZipMap", ["y"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
    ]
    graph = helper.make_graph(nodes, "graph", [tensor("x", shape=("n", 2))], [tensor("y", shape=("n", 2)), keys])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    both = kiln.Session(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    for _ in range(3):
        out = np.zeros_like(ROWS)
        y, maps = both.run(None, {"x": ROWS}, out={"y": out})
        assert y is out
        np.testing.assert_array_equal(out, ROWS)
        assert maps == [dict(enumerate(row)) for row in ROWS.tolist()]
