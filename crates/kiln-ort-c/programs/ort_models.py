"""Writes the models that tests of the crate `ort` load into a folder: an image network, also in onnxruntime's own format."""

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


if __name__ == "__main__":
    main()
