"""Cases of the zoo for `kiln check`, with onnxruntime's outputs.

    suite.py FOLDER [NAME...]

Makes FOLDER/suite/NAME of FOLDER/models/NAME: model.onnx, a folder for each request, and tolerance.json. The data
sets of a case are requests in their order (models.py), so that one session meets changing shapes.

Whole numbers, booleans and texts are equal. Floats may be off by 1e-4 of the output's largest value over all requests, by
ten times what onnxruntime itself moves when its optimisations are off, or by 1e-7 as in ONNX's own suite, whichever is
most. onnxruntime is asked for exact sums of bytes (session.x64quantprecision): without VNNI it saturates them.

Of networks whose products are quantised at run time, expected outputs are those of the same network in f32 (oracle.py).
Kiln may be as far from these as onnxruntime's exact mode is, with its optimisations or without them, and a tenth more, by
the root mean square over all requests.
"""
import json
import pathlib
import shutil
import sys
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import models
import oracle
from values import build

# Outputs that no product is quantised for are not equal bit by bit either.
NEAR = 1e-3


def session(model, optimised=True):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def is_float(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 0


def spread(all_values, all_others):
    """The largest magnitude of each output over all requests, and the most that it differs."""
    found = {}
    for values, others in zip(all_values, all_others):
        for index, (value, other) in enumerate(zip(values, others)):
            if not is_float(value) or value.shape != other.shape:
                continue
            value, other = value.astype(np.float64), other.astype(np.float64)
            finite = np.isfinite(value) & np.isfinite(other)
            scale, moved = found.get(index, (0.0, 0.0))
            scale = max(scale, np.abs(value[finite]).max(initial=0))
            found[index] = scale, max(moved, np.abs(value[finite] - other[finite]).max(initial=0))
    return found


def distances(expected, actual):
    """How far each output is over all requests: the root mean square of differences as a share of that of the output.
    None for an output that is not of floats, or whose shape differs."""
    found = []
    for index in range(len(expected[0])):
        pairs = [(one[index], other[index]) for one, other in zip(expected, actual)]
        if not all(is_float(one) and one.shape == other.shape for one, other in pairs):
            found.append(None)
            continue
        squares = sum(((one.astype(np.float64) - other) ** 2).sum() for one, other in pairs)
        size = sum((one.astype(np.float64) ** 2).sum() for one, _ in pairs)
        found.append(float(np.sqrt(squares / size)))
    return found


def written(path, value, name):
    if isinstance(value, list):
        if value and not isinstance(value[0], np.ndarray):
            return
        proto = numpy_helper.from_list(value, name)
    else:
        proto = numpy_helper.from_array(np.asarray(value), name)
    path.write_bytes(proto.SerializeToString())


def port(name):
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


def cut(model, cuts):
    """The model with the values of the cuts as inputs, and what it computes there, or rounds there, as outputs."""
    for one in cuts:
        value, computed = one["value"], one["value"] + "_computed"
        for node in model.graph.node:
            node.output[:] = [computed if name == value else name for name in node.output]
        model.graph.input.append(port(value))
        model.graph.output.append(port(one.get("of", computed)))
    return model


def values_at(model, cuts, feeds):
    """The values of the cuts for each request."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(port(one["value"]) for one in cuts)
    made = session(probe.SerializeToString())
    return {request: dict(zip((one["value"] for one in cuts), made.run(None, feed))) for request, feed in feeds.items()}


def make(folder, spec):
    source, out = folder / "models" / spec.name, folder / "suite" / spec.name
    shutil.rmtree(out, ignore_errors=True)
    requests, feeds = spec.requests(), {}
    for index, draw in requests:
        lengths = {}
        seed = lambda at: zlib.crc32(f"{spec.name} {index}{draw} {at}".encode())
        feeds[index, draw] = {
            one.name: build(one, spec.shapes[index], np.random.default_rng(seed(at)), lengths)
            for at, one in enumerate(spec.inputs)
        }
    model = onnx.load(source / "model.onnx")
    out.mkdir(parents=True)
    if spec.cuts:
        for request, values in values_at(model, spec.cuts, feeds).items():
            feeds[request].update(values)
        onnx.save(cut(model, spec.cuts), out / "model.onnx")
    else:
        for file in source.iterdir():
            # Weights beside a model are read where they are no links of any kind.
            place = shutil.copy if file.name != "model.onnx" else lambda file, to: to.symlink_to(file.absolute())
            place(file, out / file.name)
    file = str(out / "model.onnx")
    exact = session(file)
    run = lambda made: [made.run(None, feeds[request]) for request in requests]
    values = run(exact)
    in_f32 = oracle.in_f32(model)
    if in_f32 is None:
        expected = values
        found = spread(values, run(session(file, optimised=False)))
        most = max((max(1e-7, 1e-4 * scale, 10 * moved) for scale, moved in found.values()), default=0)
        allowed = {"rtol": 0, "atol": float(most)}
    else:
        expected = run(session(in_f32.SerializeToString()))
        far = [distances(expected, one) for one in (values, run(session(file, optimised=False)))]
        most = [None if None in one else max(1.1 * max(one), NEAR) for one in zip(*far)]
        allowed = {"rtol": 0, "atol": 0, "distance": most}
    order = [one.name for one in model.graph.input]
    for number, (request, outputs) in enumerate(zip(requests, expected)):
        data = out / f"test_data_set_{number}"
        data.mkdir(parents=True)
        for at, name in enumerate(name for name in order if name in feeds[request]):
            written(data / f"input_{at}.pb", feeds[request][name], name)
        for at, (port, value) in enumerate(zip(exact.get_outputs(), outputs)):
            written(data / f"output_{at}.pb", value, port.name)
    # Written last: a case without it is not whole.
    (out / "tolerance.json").write_text(json.dumps(allowed))
    return allowed


def main():
    folder, *names = sys.argv[1:]
    folder, listed = pathlib.Path(folder), models.read()
    for name in names or listed:
        if not (folder / "models" / name).exists():
            continue
        try:
            print(name, make(folder, listed[name]), flush=True)
        except Exception as error:
            shutil.rmtree(folder / "suite" / name, ignore_errors=True)
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main()
