"""Cases for operators of com.microsoft and ai.onnx.ml, with the outputs of onnxruntime.

    cases.py FOLDER [NAME...]     writes a folder for each case: model.onnx, test_data_set_*, tolerance.json
    cases.py --compare CHECK.json     holds what `kiln check --json` found against REFUSED

A case is one node, or a network that onnxruntime has optimised. Its first data set has the sizes that the case names, the
second has others, because shapes are symbolic. What onnxruntime refuses is no case: its count is printed.
"""

import collections
import json
import os
import re
import shutil
import sys

import blockwise
import decoder
import early
import experts
import fused
import learn
import nchwc
import quantized
import streams
import texts
import numpy as np
from case import F16, GENERATORS

# Cases that are refused, by the start of their names, with the reason.
REFUSED = {
    "Attention__Attention_--do_rotary": "do_rotary, which ONNX Runtime does not do on processors either",
    **{
        f"LinearClassifier__classes{count}_one{one}_texts{texts}_postSOFTMAX_ZERO": "post_transform SOFTMAX_ZERO"
        for count in (2, 3)
        for one in (0, 1)
        for texts in (0, 1)
    },
    **{
        f"SVMClassifier__classes{count}_kernelRBF_postPROBIT": "post_transform PROBIT" for count in (2, 3, 5)
    },
    **{
        f"GroupQueryAttention__formstep_refused{name}": f"attribute {name}"
        for name in ("k_quant_type", "qk_output")
    },
    **{
        f"LinearRegressor__targets{targets}_intercepts{intercepts}_post{post}_": f"post_transform {post}"
        for targets, post in ((1, "PROBIT"), (3, "PROBIT"), (3, "SOFTMAX_ZERO"))
        for intercepts in (0, 1)
    },
}

# Operators whose results may be off by one step of a quantisation, and how large that is: a number before the rounding
# lies in the middle between two bytes, and its last bit depends on the order of additions and on the type of the
# quotient.
STEP = {"QLinearAveragePool__": 1, "QuantizeLinear__": 1, "DynamicQuantizeLSTM__": 1e-3}

# Cases in which onnxruntime does not do what the standard says, by the start of their names, with what it does.
OTHERWISE = {
    f"TreeEnsembleClassifier__classestwo_sign{sign}_post{post}_texts0": "two classes are named 0 and 1"
    for sign in ("positive", "mixed")
    for post in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
}

# Each adds its cases to GENERATORS.
GRIDS = (
    blockwise,
    decoder,
    experts,
    fused,
    nchwc,
    quantized,
    streams,
    learn,
    texts,
)


def type_of(value):
    """ONNX's number of an array's element type."""
    from onnx import TensorProto, helper

    dtype = np.asarray(value).dtype
    return TensorProto.STRING if dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(dtype)


def model_of(case):
    from onnx import TensorProto, helper, numpy_helper

    if case.model is not None:
        return case.model, [info.name for info in case.model.graph.input]
    names, infos, constants = [], [], []
    for index, values in enumerate(zip(*case.inputs)):
        if values[0] is None:
            names.append("")
            continue
        names.append(f"x{index}")
        if index in case.constant:
            constants.append(numpy_helper.from_array(np.asarray(values[0]), f"x{index}"))
            continue
        shapes = [np.shape(value) for value in values]
        dims = [sizes[0] if len(set(sizes)) == 1 else f"d{index}_{axis}" for axis, sizes in enumerate(zip(*shapes))]
        infos.append(helper.make_tensor_value_info(f"x{index}", type_of(values[0]), dims))
    while names and names[-1] == "":
        names.pop()
    outputs = [f"y{index}" for index in range(case.outputs)] if isinstance(case.outputs, int) else case.outputs
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **case.attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    if case.op == "ZipMap":
        # Its output has no type of its own: the node's does not tell which keys it has.
        results = [helper.ValueInfoProto(name=name) for name in outputs]
    for result in results:
        # Nor has this one a type: the operator's schema says none.
        if result.name == "qk":
            result.CopyFrom(helper.make_tensor_value_info("qk", TensorProto.FLOAT, None))
    graph = helper.make_graph([node], case.name, infos, results, constants)
    imports = [helper.make_opsetid("", case.opset)] + ([helper.make_opsetid(case.domain, case.version)] if case.domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=9), [info.name for info in infos]


def proto_of(value, name):
    from onnx import MapProto, SequenceProto, TensorProto, numpy_helper

    if isinstance(value, list):
        maps = []
        for entries in value:
            values = [numpy_helper.from_array(np.float32(entry)) for entry in entries.values()]
            made = MapProto(values=SequenceProto(elem_type=SequenceProto.TENSOR, tensor_values=values))
            if all(isinstance(key, str) for key in entries):
                made.key_type = TensorProto.STRING
                made.string_keys.extend(key.encode() for key in entries)
            else:
                made.key_type = TensorProto.INT64
                made.keys.extend(entries)
            maps.append(made)
        return SequenceProto(name=name, elem_type=SequenceProto.MAP, map_values=maps)
    array = np.asarray(value)
    return numpy_helper.from_array(array.astype(object) if array.dtype.kind == "U" else array, name)


def over_inputs(session, case, feed):
    """Outputs of a run that writes some of them over inputs, whose arrays stay as they are."""
    import onnxruntime as ort

    binding = session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(np.array(value)) for name, value in feed.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    inputs = {output: f"x{index}" for index, output in case.shared.items()}
    for index, info in enumerate(session.get_outputs()):
        if index in inputs:
            binding.bind_ortvalue_output(info.name, values[inputs[index]])
        else:
            binding.bind_output(info.name)
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


def write(folder, case):
    import onnxruntime as ort

    model, names = model_of(case)
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    place = f"{folder}/{case.name}"
    made = []
    for values in case.inputs:
        feed = {f"x{index}": value for index, value in enumerate(values) if f"x{index}" in names}
        made.append((feed, over_inputs(session, case, feed) if case.shared else session.run(None, feed)))
    # Outputs are declared as they are, without sizes.
    import onnx
    from onnx import helper

    for info, value in zip(model.graph.output, made[0][1]):
        if isinstance(value, list):
            keys = onnx.TensorProto.STRING if isinstance(next(iter(value[0])), str) else onnx.TensorProto.INT64
            number = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
            info.type.CopyFrom(helper.make_sequence_type_proto(helper.make_map_type_proto(keys, number)))
            continue
        array = np.asarray(value)
        info.CopyFrom(helper.make_tensor_value_info(info.name, type_of(array), [None] * array.ndim))
    if case.model is not None:
        model = nchwc.optimised(model)
    os.makedirs(place)
    onnx.save(model, f"{place}/model.onnx")
    for number, (feed, outputs) in enumerate(made):
        data = f"{place}/test_data_set_{number}"
        os.makedirs(data)
        for index, name in enumerate(names):
            open(f"{data}/input_{index}.pb", "wb").write(proto_of(feed[name], name).SerializeToString())
        for index, value in enumerate(outputs):
            open(f"{data}/output_{index}.pb", "wb").write(proto_of(value, f"y{index}").SerializeToString())
    halves = any(np.asarray(value).dtype == F16 for values in case.inputs for value in values if value is not None)
    atol = case.atol if case.atol is not None else 5e-3 if halves else 1e-5
    json.dump({"atol": atol, "rtol": 5e-3 if halves else 1e-4}, open(f"{place}/tolerance.json", "w"))


def apart(folder, case):
    """Writes a case in a process of its own, because onnxruntime ends the process for some nodes: the error, if any."""
    read, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            write(folder, case)
        except BaseException as error:
            os.write(end, (str(error).splitlines() or [repr(error)])[0].encode()[:4000])
        os._exit(0)
    os.close(end)
    error = open(read, "rb").read().decode()
    status = os.waitpid(child, 0)[1]
    return f"it ends the process ({status})" if status else error or None


def make(folder, wanted):
    shutil.rmtree(folder, ignore_errors=True)
    import onnx.helper
    import onnx.numpy_helper
    import onnxruntime  # Loaded once, before the processes of the cases begin.

    counts, refused, seen = collections.Counter(), collections.defaultdict(list), set()
    for generator in GENERATORS:
        for case in generator():
            case.name = "".join(c if c.isalnum() or c in "_-." else "-" for c in f"{case.op}__{case.name}")
            if wanted and not any(part in case.op for part in wanted):
                continue
            assert case.name not in seen, case.name
            seen.add(case.name)
            error = apart(folder, case)
            if error is None:
                counts[case.op] += 1
            else:
                shutil.rmtree(f"{folder}/{case.name}", ignore_errors=True)
                refused[case.op].append(f"{case.name}: {error}")
    print("  ".join(f"{op} {count}" for op, count in counts.items()))
    for op, errors in refused.items():
        print(f"onnxruntime refuses {len(errors)} of {op}: {errors[0][:200]}")


def is_within(result, step):
    """Whether the worst element is off by no more than that."""
    found = re.search(r"expected (-?[0-9.e-]+), got (-?[0-9.e-]+) ", result)
    return found is not None and abs(float(found[1]) - float(found[2])) <= step


def compare(path):
    results = json.load(open(path))
    counts, problems = collections.Counter(), []
    for name, result in sorted(results.items()):
        kind, listed = result.split(":")[0], any(name.startswith(start) for start in REFUSED)
        if kind == "wrong" and any(name.startswith(start) and is_within(result, step) for start, step in STEP.items()):
            kind = "passed"
        if kind == "wrong" and name.startswith(tuple(OTHERWISE)):
            kind = "passed"
        counts[kind] += 1
        if kind != ("refused" if listed else "passed"):
            problems.append(f"{name}: {result}")
    print("  ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    print("\n".join(problems) or "every case that is not listed is right")
    sys.exit(bool(problems))


if __name__ == "__main__":
    compare(sys.argv[2]) if sys.argv[1] == "--compare" else make(sys.argv[1], sys.argv[2:])
