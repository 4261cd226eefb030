"""Writes the backend test suite of the package onnx as folders that `kiln check` reads.

    make_cases.py FOLDER [PATTERN...]

A case is FOLDER/SUITE/NAME with model.onnx, a folder for each data set with input_K.pb and output_K.pb (tensors,
sequences and optional values as the model declares them), and tolerance.json. Suites are those of the package: `node`,
which it computes, and `simple`, `pytorch-operator`, `pytorch-converted` and `light`, which it holds. PATTERNs choose
cases by SUITE/NAME, with `*` and `?`. Prints how many cases each suite has, and exits 1 where one could not be written.

Needs onnx and numpy.
"""
import fnmatch
import json
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

# Whole networks, whose sums are longer.
OF_NETWORKS = {"rtol": 1e-3, "atol": 1e-5}

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data"


def message(value, declared):
    """A value as the message of its kind."""
    if isinstance(value, onnx.TensorProto):
        return value
    make = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional}
    kind = declared.type.WhichOneof("value")
    return make.get(kind, lambda value, name: numpy_helper.from_array(np.asarray(value), name))(value, declared.name)


def write(folder, model, data_sets, tolerance):
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for number, sides in enumerate(data_sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for side, values, declared in zip(("input", "output"), sides, (model.graph.input, model.graph.output)):
            for at, (value, port) in enumerate(zip(values, declared)):
                (data / f"{side}_{at}.pb").write_bytes(message(value, port).SerializeToString())
    (folder / "tolerance.json").write_text(json.dumps(tolerance))


def computed():
    """The cases that the package computes: their names, and what writes them."""
    from onnx.backend.test.case import node

    for case in node.collect_testcases(None):
        allowed = {"rtol": case.rtol, "atol": case.atol}
        yield f"node/{case.name}", lambda to, case=case, allowed=allowed: write(to, case.model, case.data_sets, allowed)


def held():
    """The cases that the package holds as folders."""
    for suite in ("simple", "pytorch-operator", "pytorch-converted"):
        for source in sorted((DATA / suite).glob("test_*")):
            yield f"{suite}/{source.name}", lambda to, source=source: shutil.copytree(source, to)


def networks():
    """Networks whose weights are constants. Their input is k / n for the k-th of its n elements, as the package's own
    runner has it."""
    for source in sorted((DATA / "light").glob("light_*.onnx")):
        def made(to, source=source):
            model = onnx.load(source)
            weights = {one.name for one in model.graph.initializer}
            (port,) = (one for one in model.graph.input if one.name not in weights)
            shape = [dimension.dim_value for dimension in port.type.tensor_type.shape.dim]
            ramp = (np.arange(np.prod(shape), dtype=np.float64) / np.prod(shape)).astype(np.float32).reshape(shape)
            expected = onnx.TensorProto.FromString(source.with_name(f"{source.stem}_output_0.pb").read_bytes())
            write(to, model, [([ramp], [expected])], OF_NETWORKS)

        yield f"light/{source.stem}", made


def main():
    folder, *patterns = sys.argv[1:]
    folder = pathlib.Path(folder)
    warnings.filterwarnings("ignore")
    counts, failed = {}, []
    for cases in (computed(), held(), networks()):
        for name, make in cases:
            if patterns and not any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                continue
            shutil.rmtree(folder / name, ignore_errors=True)
            try:
                make(folder / name)
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
                shutil.rmtree(folder / name, ignore_errors=True)
                continue
            suite = name.split("/")[0]
            counts[suite] = counts.get(suite, 0) + 1
    print(", ".join(f"{suite} {count}" for suite, count in counts.items()))
    print("\n".join(failed), end="\n" if failed else "")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
