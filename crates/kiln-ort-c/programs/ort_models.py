"""Writes what tests of the crate `ort` load into a folder: an image network, also in onnxruntime's own format, and a
product with an adapter of its weights."""

import pathlib
import sys

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper


def upsample() -> onnx.ModelProto:
    """Doubles an image with channels last, and filters it."""
    image = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, "H", "W", 3])
    larger = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, "H2", "W2", 3])
    filters = np.random.default_rng(1).random((3, 3, 3, 3), np.float32) / 10
    nodes = [
        helper.make_node("Transpose", ["input"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("Resize", ["first", "", "scales"], ["resized"], mode="linear"),
        helper.make_node("Conv", ["resized", "filters"], ["filtered"], pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["filtered"], ["output"], perm=[0, 2, 3, 1]),
    ]
    weights = [
        numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
        numpy_helper.from_array(filters, "filters"),
    ]
    graph = helper.make_graph(nodes, "upsample", [image], [larger], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def adaptable() -> onnx.ModelProto:
    """A product by 1 to 16, and by the product of two matrices whose defaults are zeros."""
    sides = {"weights": np.arange(1, 17, dtype=np.float32).reshape(4, 4)}
    sides |= {"left": np.zeros((4, 1), np.float32), "right": np.zeros((1, 4), np.float32)}
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, [4, 4])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, sides[name].shape) for name in ("left", "right")]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, [4, 4])
    nodes = [
        helper.make_node("MatMul", ["input", "weights"], ["base"]),
        helper.make_node("MatMul", ["input", "left"], ["narrow"]),
        helper.make_node("MatMul", ["narrow", "right"], ["beside"]),
        helper.make_node("Add", ["base", "beside"], ["output"]),
    ]
    defaults = [numpy_helper.from_array(value, name) for name, value in sides.items()]
    graph = helper.make_graph(nodes, "adaptable", inputs, [output], defaults)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def main() -> None:
    import onnxruntime

    folder = pathlib.Path(sys.argv[1])
    model = upsample()
    onnx.checker.check_model(model)
    onnx.save(model, folder / "upsample.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "upsample.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(folder / "upsample.onnx"), options, providers=["CPUExecutionProvider"])
    onnx.save(adaptable(), folder / "lora_model.onnx")
    # The tests expect 5.5 times the product by 1 to 16 of a matrix of ones.
    sides = {"left": np.ones((4, 1), np.float32), "right": np.float32([[31.5, 36, 40.5, 45]])}
    adapter = onnxruntime.AdapterFormat()
    adapter.set_adapter_version(1)
    adapter.set_model_version(1)
    adapter.set_parameters({name: onnxruntime.OrtValue.ortvalue_from_numpy(side) for name, side in sides.items()})
    adapter.export_adapter(str(folder / "adapter.orl"))


if __name__ == "__main__":
    main()
