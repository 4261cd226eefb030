"""Cases for every operator of ONNX and every element type that the standard allows, from the backend suite's own cases.

    element_types.py FOLDER [OPERATOR...]     writes a folder for each case: model.onnx, test_data_set_0, tolerance.json
    element_types.py --table CHECK.json       prints what `kiln check FOLDER --json CHECK.json` found, by operator and type

A case of the suite that is one node is made anew for each type of each type variable: inputs of that variable are cast,
and the reference implementation of the onnx package computes what is expected. Floats of 16 bits are computed in
`float32` and rounded once; where the reference has no arithmetic on a type, in `float64`. The first case of an operator
is also made with another size. Needs onnx 1.23 and numpy alone:

    python3 tests/conformance/element_types.py target/types && kiln check target/types --quiet --json target/types.json
    python3 tests/conformance/element_types.py --table target/types.json
"""

import collections
import json
import pathlib
import sys
import warnings
import zlib

warnings.filterwarnings("ignore")

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

# Cases of an operator that are made anew at most: those that differ most in what they give.
CASES = 5
HALVES = {TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-2}
INTEGERS = {
    getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)
}
FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, *HALVES}
OTHERS = {TensorProto.BOOL, TensorProto.STRING}
# `float64` to ten digits.
EXACT = True
# Their values are the runtime's own.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Dropout"}
# They convert, so that the suite's own cases are those of types; or they train or decode images.
# LabelEncoder's attributes decide its types.
LEFT = {
    "Adagrad", "Adam", "BitCast", "Cast", "CastLike", "DynamicQuantizeLinear", "Gradient", "ImageDecoder",
    "LabelEncoder", "Momentum",
}
# Other sizes make no sense to them, which the reference does not notice.
SIZED = {"LSTM", "ReverseSequence", "RoiAlign", "ScatterElements"}
# What large integers become is the runtime's own: the reference goes by way of floats, or wraps between its steps.
SMALL = {"Gemm", "GridSample", "Pow", "ReduceL2", "ReduceMean", "Resize"}


# The reference rounds each step of these to integers.
BY_FLOATS = {"GridSample"}


def cast(values, to):
    """An array's values in another type: small integers where it has no fractions."""
    kind = values.dtype.kind
    if to == TensorProto.STRING:
        return np.array([str(value) for value in values.reshape(-1)], dtype=object).reshape(values.shape)
    if kind in "OUS":
        values = np.array([zlib.crc32(str(value).encode()) % 7 for value in values.reshape(-1)]).reshape(values.shape)
        kind = "i"
    if to == TensorProto.BOOL:
        return values > 0.5 if kind != "b" else values
    target = helper.tensor_dtype_to_np_dtype(to)
    if to in INTEGERS and kind not in "iub":
        wide = np.asarray(values, np.float64)
        spread = 3 if np.abs(wide[np.isfinite(wide)]).max(initial=0) <= 4 else 1
        values = np.clip(np.nan_to_num(np.rint(wide * spread)), -100, 100).astype(np.int64)
    if to in INTEGERS and np.issubdtype(target, np.unsignedinteger):
        values = np.abs(np.asarray(values, np.int64))
    return np.asarray(values).astype(target)


def number_of(array):
    return TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)


class Case:
    """A case of the suite that is one node on tensors."""

    def __init__(self, case):
        self.model, self.name = case.model, case.name
        (self.node,) = case.model.graph.node
        inputs, outputs = case.data_sets[0]
        self.inputs = dict(zip((value.name for value in case.model.graph.input), map(array_of, inputs)))
        self.outputs = {value.name: value for value in case.model.graph.output}
        version = next(o.version for o in case.model.opset_import if o.domain == self.node.domain)
        self.version = version
        self.schema = onnx.defs.get_schema(self.node.op_type, version, self.node.domain)

    def formals(self, names, formals):
        for place, name in enumerate(names):
            if name and formals:
                yield name, formals[min(place, len(formals) - 1)].type_str

    def variables(self):
        """Inputs by type variable."""
        found = collections.OrderedDict()
        for name, variable in self.formals(self.node.input, self.schema.inputs):
            if name in self.inputs and "(" not in variable:
                found.setdefault(variable, []).append(name)
        return found

    def allowed(self, variable):
        constraint = next((c for c in self.schema.type_constraints if c.type_param_str == variable), None)
        names = constraint.allowed_type_strs if constraint else []
        for name in names:
            if name.startswith("tensor("):
                number = getattr(TensorProto, name[7:-1].upper(), None)
                if number in INTEGERS | FLOATS | OTHERS:
                    yield number

    def network(self, inputs, types, constants=()):
        """The node on inputs of these types; outputs have no shape, and types as ONNX infers them."""
        graph_inputs = [
            helper.make_tensor_value_info(name, number_of(value), None if constants else value.shape)
            for name, value in inputs.items()
            if name not in constants
        ]
        initialisers = [numpy_helper.from_array(inputs[name], name) for name in constants]

        def model(outputs):
            graph = helper.make_graph([self.node], "types", graph_inputs, outputs, initialisers)
            return helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)

        names = [name for name, _ in self.formals(self.node.output, self.schema.outputs) if name in self.outputs]
        inferred = onnx.shape_inference.infer_shapes(model([onnx.ValueInfoProto(name=name) for name in names]))
        outputs = []
        for name, variable in self.formals(self.node.output, self.schema.outputs):
            if name in self.outputs:
                known = next(o.type.tensor_type.elem_type for o in inferred.graph.output if o.name == name)
                number = types.get(variable, self.outputs[name].type.tensor_type.elem_type)
                outputs.append(helper.make_tensor_value_info(name, known or number, None))
        return model(outputs)


def array_of(value):
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, dict)) or value is None:
        raise ValueError("no tensor")
    return np.asarray(value)


def expected(case, inputs, types, number, names):
    """What the reference makes of the inputs, or None where it cannot."""
    attempts = [number]
    if number in HALVES:
        attempts = [TensorProto.FLOAT]
    elif number in INTEGERS:
        by_floats = [TensorProto.DOUBLE, TensorProto.FLOAT]
        attempts = by_floats if case.node.op_type in BY_FLOATS else [number, *by_floats]
    for attempt in attempts:
        given = {k: v.astype(helper.tensor_dtype_to_np_dtype(attempt)) if k in names and attempt != number else v
                 for k, v in inputs.items()}
        changed = {k: attempt if v == number else v for k, v in types.items()}
        try:
            with np.errstate(all="ignore"):
                model = case.network(given, changed)
                made = ReferenceEvaluator(model).run(None, given)
        except Exception:
            continue
        outputs = case.network(inputs, types).graph.output
        result = []
        for info, value in zip(outputs, made):
            if isinstance(value, list) or value is None:
                return None
            value, to = np.asarray(value), info.type.tensor_type.elem_type
            if to != TensorProto.STRING and value.dtype.kind in "OUS":
                return None
            if to == TensorProto.STRING and not all(isinstance(text, str) for text in value.reshape(-1)):
                return None
            if to in INTEGERS and attempt != number:
                top = np.iinfo(helper.tensor_dtype_to_np_dtype(to))
                if not np.all((value >= top.min) & (value <= top.max)):
                    return None
                value = np.trunc(value)
            target = object if to == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(to)
            with np.errstate(all="ignore"):
                result.append(value.astype(target))
        return result
    return None


def resized(case):
    """The inputs with another size in the place of one that they have, if the reference takes that."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    main = next(iter(case.variables().values()), [])
    for size in sorted({size for name in main for size in case.inputs[name].shape[:1]}, reverse=True):
        inputs = {}
        for name, value in case.inputs.items():
            shape = [size + 3 if have == size and name in main else have for have in value.shape]
            inputs[name] = value if name not in main else np.resize(rng.permutation(value.reshape(-1)), shape)
        try:
            ReferenceEvaluator(case.network(inputs, {})).run(None, inputs)
            return inputs
        except Exception:
            continue
    return None


def write(folder, model, inputs, outputs, tolerance):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    (folder / "tolerance.json").write_text(json.dumps(dict(zip(("rtol", "atol"), tolerance))))
    for stem, values, infos in ("input", inputs, model.graph.input), ("output", outputs, model.graph.output):
        for place, (value, info) in enumerate(zip(values, infos)):
            (data / f"{stem}_{place}.pb").write_bytes(numpy_helper.from_array(value, info.name).SerializeToString())


def suite(wanted):
    import onnx.backend.test.case.node as node

    by_operator = collections.defaultdict(list)
    for raw in node.collect_testcases(None):
        nodes = raw.model.graph.node
        if len(nodes) != 1 or "expanded" in raw.name or (wanted and nodes[0].op_type not in wanted):
            continue
        if nodes[0].op_type in RANDOM | LEFT or any(a.type in (5, 10) for a in nodes[0].attribute):
            continue
        try:
            case = Case(raw)
        except Exception:
            continue
        by_operator[nodes[0].op_type].append(case)
    return by_operator


def chosen(cases):
    """The cases of the newest version whose inputs and attributes differ most."""
    newest = max(case.version for case in cases)
    kinds, rest = collections.OrderedDict(), []
    for case in cases:
        if case.version < newest and len(cases) > CASES:
            rest.append(case)
            continue
        key = tuple(map(bool, case.node.input)), tuple(sorted(a.name for a in case.node.attribute))
        if key in kinds:
            rest.append(case)
        else:
            kinds[key] = case
    return (list(kinds.values()) + rest)[: max(CASES, len(kinds) if len(kinds) < 10 else 10)]


def wide(values, number):
    """Integers beyond the whole numbers that `float32` holds, and those of 64 bits beyond those of `float64`."""
    bits = {4: 18, 8: 50}.get(values.dtype.itemsize)
    return values + (values << bits) if number in INTEGERS and bits else None


def forms(case, at):
    """What is changed in a case: type variables, their inputs, the type, and the suffix that says it."""
    for variable, names in case.variables().items():
        for number in case.allowed(variable):
            yield variable, {variable}, names, number
    if at < 3 and len(case.variables()) > 1:
        for number in FLOATS:
            together = {v for v in case.variables() if number in case.allowed(v) and TensorProto.FLOAT in case.allowed(v)}
            if len(together) > 1:
                yield "all", together, [n for v in together for n in case.variables()[v]], number


def make(folder, wanted):
    folder, count, without = pathlib.Path(folder), 0, collections.Counter()

    def add(case, name, inputs, changed, number, names, constants=()):
        nonlocal count
        types = dict.fromkeys(changed, number)
        try:
            outputs = expected(case, inputs, types, number, names)
        except Exception:
            outputs = None
        kind = TensorProto.DataType.Name(number).lower()
        if outputs is None:
            without[f"{case.node.op_type} {kind}"] += 1
            return
        tolerance = (HALVES[number],) * 2 if number in HALVES else (1e-3, 1e-7)
        if number == TensorProto.DOUBLE and EXACT:
            tolerance = (1e-10, 1e-10)
        model = case.network(inputs, types, constants)
        given = [value for key, value in inputs.items() if key not in constants]
        write(folder / name, model, given, outputs, tolerance)
        count += 1

    for operator, cases in sorted(suite(wanted).items()):
        for at, case in enumerate(chosen(cases)):
            other = resized(case) if at == 0 and operator not in SIZED else None
            for variable, changed, names, number in forms(case, at):
                kind = TensorProto.DataType.Name(number).lower()
                name = f"{operator}--{variable}--{kind}--{case.name}"
                inputs = {k: cast(v, number) if k in names else v for k, v in case.inputs.items()}
                add(case, name, inputs, changed, number, names)
                if at < 3 and len(inputs) > 1:
                    add(case, name + "_constant", inputs, changed, number, names, list(inputs)[1:])
                if at < 3 and variable.startswith("T") and "ind" not in variable and operator not in SMALL:
                    larger = {k: wide(v, number) if k in names else v for k, v in inputs.items()}
                    if all(value is not None for value in larger.values()):
                        add(case, name + "_large", larger, changed, number, names)
                if other is not None:
                    inputs = {k: cast(v, number) if k in names else v for k, v in other.items()}
                    add(case, name + "_resized", inputs, changed, number, names)
    print(f"{count} cases; the reference computes nothing for {sum(without.values())}")
    (folder.parent / f"{folder.name}-without.json").write_text(json.dumps(without, indent=1))


def table(path):
    """Prints each operator's types by what became of their cases, and the first words on what did not pass."""
    rows, words = collections.defaultdict(lambda: collections.defaultdict(collections.Counter)), {}
    for case, verdict in json.loads(pathlib.Path(path).read_text()).items():
        operator, variable, kind, _ = case.rsplit("/", 1)[-1].split("--", 3)
        what = verdict.split(":")[0]
        rows[operator, variable][what][kind] += 1
        words.setdefault((operator, variable, what, kind), verdict)
    for (operator, variable), row in sorted(rows.items()):
        for what in ("wrong", "refused", "crashed"):
            for kind, count in sorted(row[what].items()):
                passed = row["passed"][kind]
                print(f"{operator} {variable} {kind}: {count} {what}, {passed} passed: "
                      f"{words[operator, variable, what, kind][:150]!r}")
    total = collections.Counter()
    for row in rows.values():
        for what, kinds in row.items():
            total[what] += sum(kinds.values())
    print(dict(total))


if __name__ == "__main__":
    table(sys.argv[2]) if sys.argv[1] == "--table" else make(sys.argv[1], set(sys.argv[2:]))
