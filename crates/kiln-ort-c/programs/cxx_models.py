"""Writes the models of cxx.cpp into a folder."""

import pathlib
import sys

import onnx
from onnx import TensorProto, helper


def save(folder: pathlib.Path, name: str, nodes: list, inputs: list, outputs: list) -> None:
    graph = helper.make_graph(nodes, name, inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="cxx")
    helper.set_model_props(model, {"language": "C++"})
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    tensor = helper.make_tensor_value_info
    x, y = (tensor(name, TensorProto.FLOAT, ["rows", 2]) for name in "xy")
    save(folder, "twice", [helper.make_node("Add", ["x", "x"], ["y"])], [x], [y])
    texts = [tensor(name, TensorProto.STRING, ["n"]) for name in "xy"]
    save(folder, "texts", [helper.make_node("Identity", ["x"], ["y"])], texts[:1], texts[1:])
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("SplitToSequence", ["x"], ["y"], axis=0)]
    save(folder, "sequence", nodes, [tensor("x", TensorProto.FLOAT, ["rows", 2])], [sequence])


if __name__ == "__main__":
    main()
