"""Writes the model of node.js into a file: a network of token ids, of two layers with an attention mask."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH = 1200, 96


def main() -> None:
    draw = np.random.default_rng(7)
    weights = {"words": (WORDS, WIDTH)}
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["rows0"])]

    def node(kind: str, *names: str, **more: object) -> None:
        """Adds a node; the last name is its output's."""
        nodes.append(helper.make_node(kind, names[:-1], names[-1:], **more))

    # What is masked is far below all others: (mask - 1) * 10000, in front of the rows of scores.
    node("Cast", "attention_mask", "mask", to=TensorProto.FLOAT)
    node("Sub", "mask", "one", "less")
    node("Mul", "less", "far", "low")
    node("Unsqueeze", "low", "axis", "masked")
    for layer in range(2):
        rows, out = f"rows{layer}", f"rows{layer + 1}"

        def name(word: str) -> str:
            return f"{word}{layer}"

        for part in ("query", "key", "value"):
            weights[name(f"of_{part}")] = (WIDTH, WIDTH)
            node("MatMul", rows, name(f"of_{part}"), name(part))
        node("Transpose", name("key"), name("keys"), perm=[0, 2, 1])
        node("MatMul", name("query"), name("keys"), name("scores"))
        node("Add", name("scores"), "masked", name("seen"))
        node("Softmax", name("seen"), name("shares"), axis=-1)
        node("MatMul", name("shares"), name("value"), name("mixed"))
        node("Add", rows, name("mixed"), name("sum"))
        node("LayerNormalization", name("sum"), "scale", name("even"), axis=-1)
        weights[name("wide")], weights[name("narrow")] = (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)
        node("MatMul", name("even"), name("wide"), name("hidden"))
        node("Tanh", name("hidden"), name("bent"))
        node("MatMul", name("bent"), name("narrow"), name("back"))
        node("Add", name("even"), name("back"), out)
    constants = {name: draw.normal(0, 0.1, shape).astype(np.float32) for name, shape in weights.items()}
    constants["words"] *= 10
    constants |= {"scale": np.ones(WIDTH, np.float32), "one": np.float32(1), "far": np.float32(10000)}
    constants["axis"] = np.array([1])
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
           for name in ("input_ids", "attention_mask")]
    last = [helper.make_tensor_value_info("rows2", TensorProto.FLOAT, ["batch", "length", WIDTH])]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tokens", ids, last, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    main()
