"""Time of tree ensembles beside onnxruntime: 1,000 trees of depth 8 over 50 features, by rows of a request.

    python benches/trees.py KILN [KILN...] [--threads 2] [--rounds 7] [--cases target/trees]

Each KILN is the command. In every round each runtime has its turn; the least of a runtime's medians is printed, in
microseconds a request, and its ratio to onnxruntime's. Needs numpy, onnx and onnxruntime.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

TREES, DEPTH, FEATURES = 1000, 8, 50


def model(classes):
    """Full trees of random tests, whose leaves weigh one target, or each of the classes."""
    rng = np.random.default_rng(7)
    inner, total = 2**DEPTH - 1, 2 ** (DEPTH + 1) - 1
    nodes = np.tile(np.arange(total), TREES)
    is_leaf = nodes >= inner
    trees = np.repeat(np.arange(TREES), total)
    attributes = {
        "nodes_treeids": trees,
        "nodes_nodeids": nodes,
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_featureids": np.where(is_leaf, 0, rng.integers(0, FEATURES, nodes.size)),
        "nodes_values": np.where(is_leaf, 0, rng.standard_normal(nodes.size)).astype(np.float32),
        "nodes_truenodeids": np.where(is_leaf, 0, 2 * nodes + 1),
        "nodes_falsenodeids": np.where(is_leaf, 0, 2 * nodes + 2),
    }
    of, op = ("class", "TreeEnsembleClassifier") if classes else ("target", "TreeEnsembleRegressor")
    each = max(classes, 1)
    leaves = np.flatnonzero(is_leaf).repeat(each)
    attributes[f"{of}_treeids"], attributes[f"{of}_nodeids"] = trees[leaves], nodes[leaves]
    attributes[f"{of}_ids"] = np.tile(np.arange(each), leaves.size // each)
    attributes[f"{of}_weights"] = (rng.standard_normal(leaves.size) / TREES).astype(np.float32)
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", each])]
    if classes:
        attributes["classlabels_int64s"] = list(range(classes))
        outputs.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, ["rows"]))
    else:
        attributes["n_targets"] = 1
    lists = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in attributes.items()}
    node = helper.make_node(op, ["x"], [output.name for output in outputs], domain="ai.onnx.ml", **lists)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", FEATURES])
    graph = helper.make_graph([node], "trees", [x], outputs)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def peer(path, rows, threads):
    """A function that takes the median of onnxruntime's requests, in microseconds."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(rows).standard_normal((rows, FEATURES), dtype=np.float32)

    def measure():
        times, until = [], time.perf_counter() + 1
        while time.perf_counter() < until or len(times) < 5:
            start = time.perf_counter()
            session.run(None, {"x": x})
            times.append(time.perf_counter() - start)
        return float(np.median(times)) * 1e6

    return measure


def kiln(command, path, rows, threads):
    """The same of a Kiln."""

    def measure():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "times.json"
            line = [command, "bench", path, "--shape", f"x:{rows}x{FEATURES}", "--threads", threads, "--time", 1]
            subprocess.run([str(word) for word in [*line, "--json", file]], check=True, capture_output=True)
            return json.loads(file.read_text())["steady"][0]["median_ms"] * 1e3

    return measure


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("commands", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cases", type=Path, default=Path("target/trees"))
    arguments = parser.parse_args()
    arguments.cases.mkdir(parents=True, exist_ok=True)
    for classes in (0, 5):
        path = arguments.cases / f"{classes}.onnx"
        onnx.save(model(classes), path)
        for rows in (1, 100, 10_000):
            measures = {"onnxruntime": peer(path, rows, arguments.threads)}
            measures |= {name: kiln(name, path, rows, arguments.threads) for name in arguments.commands}
            rounds = [{name: measure() for name, measure in measures.items()} for _ in range(arguments.rounds)]
            least = {name: min(times[name] for times in rounds) for name in measures}
            for name, time_us in least.items():
                ratio = time_us / least["onnxruntime"]
                print(f"{classes or 1} targets, {rows} rows: {name} {time_us:.1f} us, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
