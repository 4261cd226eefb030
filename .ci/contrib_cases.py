"""Cases for operators of com.microsoft and ai.onnx.ml, with the outputs of onnxruntime.

    contrib_cases.py FOLDER [NAME...]     writes a folder for each case: model.onnx, test_data_set_*, tolerance.json
    contrib_cases.py --compare CHECK.json     holds what `kiln check --json` found against REFUSED

A case is one node. Its first data set has the sizes that the case names, the second has others, because shapes are
symbolic. What onnxruntime refuses is no case: its count is printed.
"""
import collections
import itertools
import json
import os
import re
import shutil
import sys
import zlib

import numpy as np

# Cases that are refused, by the start of their names, with the reason.
REFUSED = {
    "FusedMatMul__FusedMatMul_batch": "transBatchA and transBatchB, which need the operands' ranks",
    "QGemm__QGemm_alpha": "a factor of a product of bytes",
    "Attention__Attention_--do_rotary": "do_rotary, which ONNX Runtime does not do on processors either",
    **{f"LinearClassifier__classes{count}_one{one}_texts{texts}_postSOFTMAX_ZERO": "post_transform SOFTMAX_ZERO"
       for count in (2, 3) for one in (0, 1) for texts in (0, 1)},
    **{f"LinearRegressor__targets{targets}_intercepts{intercepts}_post{post}_": f"post_transform {post}"
       for targets in (1, 3) for intercepts in (0, 1) for post in ("SOFTMAX_ZERO", "PROBIT")},
}

# Operators whose results may be off by one step of a quantisation, and how large that is: a number before the rounding
# lies in the middle between two bytes, and its last bit depends on the order of additions and on the type of the quotient.
STEP = {"QLinearAveragePool__": 1, "QuantizeLinear__": 1, "DynamicQuantizeLSTM__": 1e-3}

MS, ML = "com.microsoft", "ai.onnx.ml"
F32, F16, F64 = np.float32, np.float16, np.float64


class Case:
    """One node: inputs are arrays (None where one is left out), those named in `constant` are initialisers."""

    def __init__(self, name, op, domain, inputs, outputs=1, constant=(), atol=None, version=1, opset=17, **attributes):
        self.name, self.op, self.domain, self.inputs, self.outputs = name, op, domain, inputs, outputs
        self.constant, self.atol, self.version, self.opset = set(constant), atol, version, opset
        self.attributes = {key: value for key, value in attributes.items() if value is not None}


GENERATORS = []


def cases(function):
    GENERATORS.append(function)
    return function


class Draw:
    """Random values, the same for the same name."""

    def __init__(self, name):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def f(self, *shape, dtype=F32, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def i(self, low, high, *shape, dtype=np.int32):
        return self.rng.integers(low, high, shape, dtype=np.int64).astype(dtype)

    def bytes(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape, dtype=np.int64).astype(dtype)


def named(**parts):
    return "_".join(f"{key}{getattr(value, '__name__', value)}" for key, value in parts.items())


def grid(**axes):
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values))


@cases
def activations():
    for g in grid(op=["BiasGelu", "FastGelu", "Gelu", "QuickGelu"], bias=[0, 1], dtype=[F32, F16]):
        if (g["op"] == "BiasGelu") > g["bias"] or g["bias"] and g["op"] in ("Gelu", "QuickGelu"):
            continue
        d = Draw(str(g))
        inputs = lambda n: [d.f(n, 3, 8, dtype=g["dtype"])] + [d.f(8, dtype=g["dtype"])] * g["bias"]
        yield Case(named(**g), g["op"], MS, [inputs(2), inputs(5)])
    d = Draw("alpha")
    yield Case("QuickGelu_alpha", "QuickGelu", MS, [[d.f(2, 3)], [d.f(4, 1)]], alpha=0.75)
    yield Case("BiasAdd", "BiasAdd", MS, [[d.f(2, 4, 320), d.f(320), d.f(2, 4, 320)]])
    yield Case("BiasSplitGelu", "BiasSplitGelu", MS, [[d.f(2, 4, 2560), d.f(2560)]])


@cases
def norms():
    for g in grid(simple=[0, 1], dtype=[F32, F16], skip=["whole", "one", "flat"], beta=[0, 1], bias=[0, 1], sum=[0, 1]):
        if g["simple"] and g["beta"]:
            continue
        d = Draw(str(g))
        t = g["dtype"]

        def inputs(batch, steps):
            skip = {"whole": (batch, steps, 16), "one": (1, steps, 16), "flat": (steps, 16)}[g["skip"]]
            own = [d.f(batch, steps, 16, dtype=t), d.f(*skip, dtype=t), d.f(16, dtype=t)]
            if not g["simple"]:
                own.append(d.f(16, dtype=t) if g["beta"] else None)
            return own + ([d.f(16, dtype=t)] if g["bias"] else [])

        op = "SkipSimplifiedLayerNormalization" if g["simple"] else "SkipLayerNormalization"
        outputs = ["y", "", "", "sum"] if g["sum"] else 1
        yield Case(named(**g), op, MS, [inputs(2, 3), inputs(1, 5)], outputs, constant=[2, 3, 4], epsilon=1e-5)
    d = Draw("default epsilon")
    yield Case("SkipLayerNormalization_default", "SkipLayerNormalization", MS, [[d.f(2, 3, 4) for _ in "ab"] + [d.f(4)]])
    for g in grid(domain=["", MS], dtype=[F32, F16, F64], axis=[-1, 1], scale=["same", F16]):
        d = Draw(str(g))
        scale = g["dtype"] if g["scale"] == "same" else g["scale"]
        shape = lambda n: (n, 3, 8)
        inputs = lambda n: [d.f(*shape(n), dtype=g["dtype"]), d.f(*shape(n)[g["axis"]:], dtype=scale)]
        yield Case(named(**g), "SimplifiedLayerNormalization", g["domain"], [inputs(2), inputs(4)], axis=g["axis"], epsilon=1e-3)
    for g in grid(dtype=[F32, F16], segment=[0, 1], mask=[0, 1], positions=[0, 1], outputs=[1, 2, 3], ):
        d = Draw(str(g))
        t = g["dtype"]
        tables = [d.f(20, 8, dtype=t), d.f(12, 8, dtype=t), d.f(2, 8, dtype=t), d.f(8, dtype=t), d.f(8, dtype=t)]
        if not g["segment"]:
            tables[2] = None

        def inputs(batch, steps):
            ids = [d.i(0, 20, batch, steps), d.i(0, 2, batch, steps) if g["segment"] else None]
            mask = d.i(0, 2, batch, steps) if g["mask"] else None
            positions = [d.i(0, 12, batch, steps)] if g["positions"] else []
            return ids + tables + ([mask] if mask is not None or positions else []) + positions

        index = 1 if g["outputs"] == 2 else 0
        outputs = ["y", "mask_index", "sum"][: g["outputs"]]
        yield Case("EmbedLayerNormalization_" + named(**g), "EmbedLayerNormalization", MS, [inputs(2, 5), inputs(1, 7)],
                   outputs, constant=range(2, 7), epsilon=1e-5, mask_index_type=index)
    for g in grid(segment=[0, 1], mask=[0, 1], signed=[0, 1]):
        d = Draw(str(g))
        t = np.int8 if g["signed"] else np.uint8
        tables = [d.bytes(t, 20, 8), d.bytes(t, 12, 8), d.bytes(t, 2, 8), d.bytes(t, 8), d.bytes(t, 8)]
        scales = [np.array(0.01 * (1 + i), F32) for i in range(5)]
        zeros = [np.array(3 + i, t) for i in range(5)]
        if not g["segment"]:
            tables[2] = scales[2] = zeros[2] = None

        def inputs(batch, steps):
            ids = [d.i(0, 20, batch, steps), d.i(0, 2, batch, steps) if g["segment"] else None]
            return ids + tables + [d.i(0, 2, batch, steps) if g["mask"] else None] + scales + zeros

        yield Case("QEmbedLayerNormalization_" + named(**g), "QEmbedLayerNormalization", MS, [inputs(2, 5), inputs(1, 7)],
                   ["y", "mask_index"], constant=[*range(2, 7), *range(8, 18)], epsilon=1e-5)


@cases
def products():
    for g in grid(op=["FusedMatMul", "TransposeMatMul"], a=[0, 1], b=[0, 1], alpha=[1.0, 0.125], rank=["22", "32", "33", "44", "23"],
                  dtype=[F32, F64], constant=[0, 1]):
        d = Draw(str(g))
        if g["constant"] and g["rank"][1] != "2":
            continue
        weights = {}

        def inputs(rows, batch):
            lead = {2: (), 3: (batch,), 4: (batch, 3)}
            left, right = lead[int(g["rank"][0])], lead[int(g["rank"][1])]
            a = (*left, 5, rows) if g["a"] else (*left, rows, 5)
            b = (*right, 4, 5) if g["b"] else (*right, 5, 4)
            made = d.f(*b, dtype=g["dtype"])
            return [d.f(*a, dtype=g["dtype"]), weights.setdefault(0, made) if g["constant"] else made]

        yield Case(named(**g), g["op"], MS, [inputs(3, 2), inputs(6, 4)], constant=[1] if g["constant"] else (),
                   transA=g["a"], transB=g["b"], alpha=g["alpha"])
    for g in grid(batchA=[0, 1], batchB=[0, 1]):
        if g["batchA"] or g["batchB"]:
            d = Draw(str(g))
            a = d.f(3, 2, 5) if g["batchA"] else d.f(2, 3, 5)
            b = d.f(5, 2, 4) if g["batchB"] else d.f(2, 5, 4)
            yield Case("FusedMatMul_" + named(**g), "FusedMatMul", MS, [[a, b]], transBatchA=g["batchA"], transBatchB=g["batchB"])
    functions = {"Relu": {}, "Sigmoid": {}, "Tanh": {}, "LeakyRelu": {"activation_alpha": 0.2}, "HardSigmoid": {
        "activation_alpha": 0.3, "activation_beta": 0.4}, "Elu": {"activation_alpha": 0.7}, "Softplus": {}, "Softsign": {},
        "ThresholdedRelu": {"activation_alpha": 0.3}, "": {}, "Selu": {"activation_alpha": 1.5, "activation_gamma": 1.1}}
    for g in grid(function=functions, a=[0, 1], b=[0, 1], c=[0, 1]):
        d = Draw(str(g))
        inputs = lambda n: [d.f(*((5, n) if g["a"] else (n, 5))), d.f(*((4, 5) if g["b"] else (5, 4)))] + [d.f(4)] * g["c"]
        yield Case("FusedGemm_" + named(**g), "FusedGemm", MS, [inputs(3), inputs(7)], alpha=0.5, beta=2.0, transA=g["a"],
                   transB=g["b"], activation=g["function"], **functions[g["function"]])
    d = Draw("GemmFastGelu")
    yield Case("GemmFastGelu", "GemmFastGelu", MS, [[d.f(2, 3, 4), d.f(4, 5), d.f(5)]])
    params = {"Relu": None, "Sigmoid": None, "Tanh": None, "LeakyRelu": [0.2], "Clip": [-0.5, 0.6], "HardSigmoid": [0.3, 0.4], "": None}
    for g in grid(function=params, bias=[0, 1], residual=[0, 1], group=[1, 2], rank=[1, 2]):
        d = Draw(str(g))
        weights = d.f(4, 4 // g["group"], *[3] * g["rank"])

        def inputs(batch, size):
            own = [d.f(batch, 4, *[size] * g["rank"]), weights, d.f(4) if g["bias"] else None]
            return own + ([d.f(batch, 4, *[size] * g["rank"])] if g["residual"] else [])

        yield Case("FusedConv_" + named(**g), "FusedConv", MS, [inputs(2, 6), inputs(1, 9)], constant=[1, 2], group=g["group"],
                   pads=[1] * 2 * g["rank"], activation=g["function"] or None, activation_params=params[g["function"]])
    for g in grid(dtype=[np.int8, np.uint8], pads=[[0] * 4, [1, 0, 1, 1]], strides=[1, 2]):
        d = Draw(str(g))
        inputs = lambda n: [d.bytes(g["dtype"], n, 7, 6, 3)]
        yield Case("NhwcMaxPool_" + named(**g), "NhwcMaxPool", MS, [inputs(2), inputs(1)], kernel_shape=[2, 3], pads=g["pads"],
                   strides=[g["strides"]] * 2)


def mask_of(d, kind, batch, steps, keys):
    shape = {"lengths": (batch,), "both": (2 * batch,), "keys": (batch, keys), "pairs": (batch, steps, keys)}.get(kind)
    if shape is None:
        return None
    if kind == "lengths":
        return d.i(1, keys + 1, batch)
    if kind == "both":
        return np.concatenate([d.i(keys // 2 + 1, keys + 1, batch), d.i(0, 2, batch)])
    mask = d.i(0, 2, *shape)
    mask[..., 0] = 1
    return mask


@cases
def attention():
    for g in grid(mask=["none", "lengths", "both", "keys", "pairs"], past=[0, 1], causal=[0, 1], bias=[0, 1], scores=[0, 1], sizes=[0, 1]):
        d = Draw(str(g))
        hidden = [8, 8, 12] if g["sizes"] else [8, 8, 8]
        if g["sizes"] and g["past"]:
            continue
        weights, biases = d.f(6, sum(hidden), scale=0.5), d.f(sum(hidden)) if g["bias"] else None

        def inputs(batch, steps, past):
            keys = steps + past * g["past"]
            own = [d.f(batch, steps, 6), weights, biases, mask_of(d, g["mask"], batch, steps, keys)]
            own.append(d.f(2, batch, 2, past, 4) if g["past"] else None)
            return own + ([d.f(batch, 2, steps, keys)] if g["scores"] else [])

        outputs = ["y", "present"] if g["past"] else 1
        yield Case("Attention_" + named(**g), "Attention", MS, [inputs(2, 3, 2), inputs(1, 5, 4)], outputs, constant=[1, 2],
                   num_heads=2, unidirectional=g["causal"], qkv_hidden_sizes=hidden if g["sizes"] else None)
    for extra in [{"scale": 0.3}, {"mask_filter_value": -50.0}, {"do_rotary": 1}]:
        d = Draw(str(extra))
        yield Case(f"Attention_{extra}", "Attention", MS, [[d.f(2, 3, 8), d.f(8, 24), d.f(24), mask_of(d, "keys", 2, 3, 3)]], num_heads=2, **extra)
    for g in grid(form=["apart", "kv", "qkv"], bias=[0, 1], mask=["none", "lengths", "keys", "pairs"], scores=[0, 1], past=[0, 1],
                  causal=[0, 1], present=[0, 1], dtype=[F32, F16]):
        d = Draw(str(g))
        t = g["dtype"]
        if g["form"] != "apart" and (g["bias"] or g["past"]) or t == F16 and (g["mask"] != "none" or g["past"]):
            continue
        if g["present"] != g["past"]:
            continue
        biases = d.f(24, dtype=t) if g["bias"] else None

        def inputs(batch, steps, keys, past):
            if g["past"] or g["causal"]:
                keys = steps
            total = keys + past * g["past"]
            own = {"apart": [d.f(batch, steps, 8, dtype=t), d.f(batch, keys, 8, dtype=t), d.f(batch, keys, 8, dtype=t)],
                   "kv": [d.f(batch, steps, 8, dtype=t), d.f(batch, keys, 2, 2, 4, dtype=t), None],
                   "qkv": [d.f(batch, steps, 2, 3, 4, dtype=t), None, None]}[g["form"]]
            if g["form"] == "qkv":
                total = steps
            own += [biases, mask_of(d, g["mask"], batch, steps, total)]
            own.append(d.f(batch, 2, steps, total, dtype=t) if g["scores"] else None)
            return own + ([d.f(batch, 2, past, 4, dtype=t) for _ in "kv"] if g["past"] else [])

        outputs = ["y", "keys", "values"] if g["present"] else 1
        yield Case("MultiHeadAttention_" + named(**g), "MultiHeadAttention", MS, [inputs(2, 3, 4, 2), inputs(1, 5, 2, 3)], outputs,
                   constant=[3], num_heads=2, unidirectional=g["causal"] or None, scale=0.4 if g["scores"] else None)
    for g in grid(rank=[3, 4], ids=["first", "all"], interleaved=[0, 1], part=[0, 1], heads=[0, 1], dtype=[F32, F16]):
        d = Draw(str(g))
        turned = 4 if g["part"] else 8
        if g["part"] and not g["heads"]:
            continue
        tables = [d.f(16, turned // 2, dtype=g["dtype"]) for _ in "cs"]

        def inputs(batch, steps):
            shape = (batch, steps, 16) if g["rank"] == 3 else (batch, 2, steps, 8)
            ids = d.i(0, 16, batch, steps, dtype=np.int64) if g["ids"] == "all" else np.array([3], np.int64)
            return [d.f(*shape, dtype=g["dtype"]), ids] + tables

        yield Case("RotaryEmbedding_" + named(**g), "RotaryEmbedding", MS, [inputs(2, 3), inputs(1, 5)], constant=[2, 3],
                   interleaved=g["interleaved"], num_heads=2 * g["heads"] or None, rotary_embedding_dim=turned if g["part"] else None)
    for g in grid(mask=["none", "lengths", "keys"], past=[0, 1], causal=[0, 1], signed=[0, 1], columns=[0, 1], zero=[0, 1]):
        d = Draw(str(g))
        t = np.int8 if g["signed"] else np.uint8
        weights, biases = d.bytes(t, 6, 24), d.f(24)
        scale = (0.005 + 0.01 * d.rng.random(24)).astype(F32) if g["columns"] else np.array(0.01, F32)
        zero = (np.full(24, 5, t) if g["columns"] else np.array(5, t)) if g["zero"] else None

        def inputs(batch, steps, past):
            own = [d.bytes(np.uint8, batch, steps, 6), weights, biases, np.array(0.02, F32), scale]
            own.append(mask_of(d, g["mask"], batch, steps, steps + past * g["past"]))
            own += [np.array(120, np.uint8) if g["zero"] else None, zero]
            return own + ([d.f(2, batch, 2, past, 4)] if g["past"] else [])

        yield Case("QAttention_" + named(**g), "QAttention", MS, [inputs(2, 3, 2), inputs(1, 5, 4)],
                   ["y", "present"] if g["past"] else 1, constant=[1, 2, 3, 4, 6, 7], num_heads=2, unidirectional=g["causal"])


def scalar(value, dtype=F32):
    return np.array(value, dtype)


@cases
def quantized():
    for g in grid(signed=[0, 1], columns=[0, 1], zero=[0, 1], bias=[0, 1], rank=[2, 3]):
        d = Draw(str(g))
        t = np.int8 if g["signed"] else np.uint8
        weights = d.bytes(t, 6, 5)
        scale = (0.01 + 0.01 * d.rng.random(5)).astype(F32) if g["columns"] else scalar(0.02)
        zero = (d.i(0, 9, 5, dtype=t) if g["columns"] else scalar(4, t)) if g["zero"] else None
        lead = lambda n: (n, 3) if g["rank"] == 3 else (n,)
        bias = [d.f(5)] if g["bias"] else []
        inputs = lambda n: [d.f(*lead(n), 6), weights, scale, zero] + bias
        yield Case("DynamicQuantizeMatMul_" + named(**g), "DynamicQuantizeMatMul", MS, [inputs(2), inputs(7)], constant=range(1, 5))
        for a in [np.uint8, np.int8]:
            inputs = lambda n: [d.bytes(a, *lead(n), 6), weights, scalar(0.03), scale, scalar(7, a) if g["zero"] else None, zero] + bias
            if a == np.int8 and t == np.uint8:
                continue
            yield Case("MatMulIntegerToFloat_" + named(a=a, **g), "MatMulIntegerToFloat", MS, [inputs(2), inputs(7)], constant=range(1, 7))
    d = Draw("16")
    yield Case("MatMulInteger16", "MatMulInteger16", MS, [[d.i(-999, 999, 3, 4, dtype=np.int16), d.i(-999, 999, 4, 5, dtype=np.int16)]])
    for g in grid(dtype=[np.uint8, np.int8], zero=[0, 1], part=[0, 1], constant=[0, 1], op=["QLinearAdd", "QLinearMul"]):
        d = Draw(str(g))
        t = g["dtype"]
        z = lambda v: scalar(v, t) if g["zero"] else None
        b = d.bytes(t, 5) if g["part"] else None

        def inputs(n):
            other = b if g["part"] else d.bytes(t, n, 3, 5)
            own = [d.bytes(t, n, 3, 5), scalar(0.02), z(3), other, scalar(0.03), z(9)]
            return own + [scalar(0.05 if g["op"] == "QLinearAdd" else 0.09)] + ([z(2)] if g["zero"] else [])

        known = [1, 2, 4, 5, 6, 7] + ([3] if g["part"] and g["constant"] else [])
        yield Case(named(**g), g["op"], MS, [inputs(2), inputs(4)], constant=known, atol=1)
    for g in grid(dtype=[np.uint8, np.int8], zero=[0, 1], op=["QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearSoftmax12"]):
        d = Draw(str(g))
        t = g["dtype"]
        z = lambda v: scalar(v, t) if g["zero"] else None
        softmax = g["op"].startswith("QLinearSoftmax")
        extra = {"axis": 1 if g["op"].endswith("12") else -1, "opset": 12 if g["op"].endswith("12") else 13} if softmax else {}
        if g["op"] == "QLinearLeakyRelu":
            extra = {"alpha": 0.2}
        last = scalar(-128 if t == np.int8 else 0, t) if softmax else z(5)
        inputs = lambda n: [d.bytes(t, n, 3, 8), scalar(0.05), z(7), scalar(1 / 256 if softmax else 0.04)] + ([last] if last is not None else [])
        yield Case(named(**g), g["op"].removesuffix("12"), MS, [inputs(2), inputs(4)], constant=range(1, 5), atol=1, **extra)
    for g in grid(dtype=[np.uint8, np.int8], axis=[1, -1], count=[1, 2, 3], constant=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]

        def inputs(n):
            own = [scalar(0.05), scalar(4, t)]
            for i in range(g["count"]):
                own += [d.bytes(t, n, 3, 5), scalar(0.02 * (i + 1)), scalar(3 * i, t)]
            return own

        known = [i for i in range(2 + 3 * g["count"]) if i < 2 or i % 3 != 2] if g["constant"] else []
        yield Case("QLinearConcat_" + named(**g), "QLinearConcat", MS, [inputs(2), inputs(1)], constant=known, atol=1, axis=g["axis"])
    for g in grid(dtype=[np.uint8, np.int8], last=[0, 1], ceil=[0, 1], pads=[0, 1], include=[0, 1], auto=["NOTSET", "SAME_UPPER", "VALID"]):
        d = Draw(str(g))
        t = g["dtype"]
        if g["auto"] != "NOTSET" and g["pads"]:
            continue
        inputs = lambda n: [d.bytes(t, *((n, 7, 6, 3) if g["last"] else (n, 3, 7, 6))), scalar(0.05), scalar(4, t), scalar(0.03), scalar(2, t)]
        yield Case("QLinearAveragePool_" + named(**g), "QLinearAveragePool", MS, [inputs(2), inputs(1)], constant=range(1, 5), atol=1,
                   kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1] if g["pads"] else None, channels_last=g["last"],
                   ceil_mode=g["ceil"], count_include_pad=g["include"], auto_pad=g["auto"])
        if not g["pads"] and not g["ceil"] and not g["include"] and g["auto"] == "NOTSET":
            yield Case("QLinearGlobalAveragePool_" + named(**g), "QLinearGlobalAveragePool", MS, [inputs(2), inputs(1)],
                       constant=range(1, 5), atol=1, channels_last=g["last"])
    for g in grid(dtype=[np.uint8, np.int8], part=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]
        inputs = lambda n: [d.i(0, 2, n, 1 if g["part"] else 3, 5).astype(bool), d.bytes(t, n, 3, 5), scalar(0.02), scalar(3, t),
                            d.bytes(t, 5), scalar(0.03), scalar(1, t), scalar(0.04), scalar(5, t)]
        yield Case("QLinearWhere_" + named(**g), "QLinearWhere", MS, [inputs(2), inputs(4)], constant=[2, 3, 5, 6, 7, 8], atol=1)
    for g in grid(dtype=[np.uint8, np.int8], axes=[[1], [1, 2], None], keep=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]
        inputs = lambda n: [d.bytes(t, n, 3, 5), scalar(0.02), scalar(3, t), scalar(0.03), scalar(1, t)]
        yield Case("QLinearReduceMean_" + named(**g), "QLinearReduceMean", MS, [inputs(2), inputs(4)], constant=range(1, 5), atol=1,
                   axes=g["axes"], keepdims=g["keep"])
    for g in grid(signed=[0, 1], b=[0, 1], c=[0, 1], out=[0, 1], columns=[0, 1]):
        d = Draw(str(g))
        t = np.int8 if g["signed"] else np.uint8
        weights = d.bytes(t, *((5, 6) if g["b"] else (6, 5)))
        scale = (0.01 + 0.01 * d.rng.random(5)).astype(F32) if g["columns"] else scalar(0.02)
        zero = np.zeros(5, t) if g["columns"] else scalar(4, t)
        c = d.i(-900, 900, 5) if g["c"] else None
        end = [scalar(1.5), scalar(100, np.uint8)] if g["out"] else []
        inputs = lambda n: [d.bytes(np.uint8, n, 6), scalar(0.03), scalar(9, np.uint8), weights, scale, zero] + ([c] if g["c"] or end else []) + end
        name = "QGemm_alpha" if g == dict.fromkeys(g, 0) else "QGemm_" + named(**g)
        yield Case(name, "QGemm", MS, [inputs(2), inputs(5)], constant=range(1, 9), atol=1 if g["out"] else None,
                   transB=g["b"], alpha=0.5 if g == dict.fromkeys(g, 0) else None)
    for g in grid(dtype=[np.uint8, np.int8, np.uint16, np.int16], x=[F32, F16], axis=[None, 1], zero=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]
        scale = (0.01 + 0.01 * d.rng.random(3)).astype(g["x"]) if g["axis"] is not None else scalar(0.02, g["x"])
        zero = [d.i(0, 9, 3, dtype=t) if g["axis"] is not None else scalar(4, t)] if g["zero"] or t != np.uint8 else []
        inputs = lambda n: [d.f(n, 3, 5, dtype=g["x"]), scale] + zero
        yield Case("QuantizeLinear_" + named(**g), "QuantizeLinear", MS, [inputs(2), inputs(4)], constant=[1, 2], axis=g["axis"], atol=1)
        inputs = lambda n: [d.bytes(t, n, 3, 5), scale] + zero
        yield Case("DequantizeLinear_" + named(**g), "DequantizeLinear", MS, [inputs(2), inputs(4)], constant=[1, 2], axis=g["axis"])


@cases
def movement():
    d = Draw("movement")
    for g in grid(upper=[0, 1], k=[None, 0, 1, -1], dtype=[F32, np.int64]):
        inputs = lambda n: [d.f(n, 4, 5).astype(g["dtype"])] + ([np.array(g["k"], np.int64)] if g["k"] is not None else [])
        yield Case("Trilu_" + named(**g), "Trilu", MS, [inputs(2), inputs(3)], upper=g["upper"])
    inputs = lambda n: [d.f(3, 4, 5), d.i(0, 3, n, 2)]
    yield Case("GatherND", "GatherND", MS, [inputs(2), inputs(5)])
    for axis in [0, 1, -1]:
        inputs = lambda n: [d.f(n, 4), np.array(axis, np.int32)]
        yield Case(f"ExpandDims_{axis}", "ExpandDims", MS, [inputs(2), inputs(5)])
    for g in grid(mode=["constant", "reflect", "edge"], value=[0, 1], rows=[0, 1]):
        pads = np.array([0, 1, 2, 1], np.int64)
        inputs = lambda n: [d.f(n, 4), pads.reshape(1, 4) if g["rows"] else pads] + [np.array([0.5], F32)] * g["value"]
        yield Case("Pad_" + named(**g), "Pad", MS, [inputs(3), inputs(5)], mode=g["mode"])


@cases
def recurrent():
    for g in grid(direction=["forward", "reverse", "bidirectional"], signed=[0, 1], columns=[0, 1], bias=[0, 1], lengths=[0, 1],
                  initial=[0, 1], peepholes=[0, 1], clip=[0, 1]):
        if g["clip"] and (g["peepholes"] or g["lengths"]):
            continue
        d = Draw(str(g))
        n, units, size = (2 if g["direction"] == "bidirectional" else 1), 7, 5
        t = np.int8 if g["signed"] else np.uint8
        scale = lambda: (0.004 + 0.004 * d.rng.random((n, 4 * units))).astype(F32) if g["columns"] else np.full(n, 0.006, F32)
        zero = lambda: np.full((n, 4 * units) if g["columns"] else n, 0 if g["signed"] else 128, t)
        w, r, b = d.bytes(t, n, size, 4 * units), d.bytes(t, n, units, 4 * units), d.f(n, 8 * units)
        p = d.f(n, 3 * units) if g["peepholes"] else None
        parameters = [scale(), zero(), scale(), zero()]

        def inputs(steps, batch):
            lengths = d.i(1, steps + 1, batch) if g["lengths"] else None
            if lengths is not None:
                lengths[0] = steps
            states = [d.f(n, batch, units) if g["initial"] else None for _ in "hc"]
            return [d.f(steps, batch, size), w, r, b if g["bias"] else None, lengths, *states, p, *parameters]

        # Rows of a batch are quantised each by itself, and by onnxruntime together or in parts, by the number of threads.
        sets = [inputs(4, 1), inputs(6, 1)]
        yield Case("DynamicQuantizeLSTM_" + named(**g), "DynamicQuantizeLSTM", MS, sets, ["y", "h", "c"], constant=[1, 2, 3, *range(7, 12)],
                   hidden_size=units, direction=g["direction"], clip=0.4 if g["clip"] else None, atol=2e-5)


@cases
def tables():
    for g in grid(dtype=[F32, F64, np.int64, np.int32], offset=[0, 1, 3], scale=[1, 3], rank=[1, 2]):
        d = Draw(str(g))
        shape = lambda n: (n, 3) if g["rank"] == 2 else (3,)
        inputs = lambda n: [(d.f(*shape(n)) * 10).astype(g["dtype"])]
        yield Case(named(**g), "Scaler", ML, [inputs(2), inputs(5)], offset=d.f(g["offset"]).tolist() or None, scale=d.f(g["scale"]).tolist())
    for g in grid(norm=["MAX", "L1", "L2"], dtype=[F32, F64, np.int64], rank=[1, 2]):
        d = Draw(str(g))
        shape = lambda n: (n, 3) if g["rank"] == 2 else (3,)

        def inputs(n):
            made = (d.f(*shape(n)) * 10).astype(g["dtype"])
            if g["rank"] == 2:
                made[0] = 0
            return [made]

        yield Case(named(**g), "Normalizer", ML, [inputs(2), inputs(5)], norm=g["norm"])
    for g in grid(dtype=[F32, np.int64], each=[0, 1], nan=[0, 1]):
        d = Draw(str(g))
        if g["dtype"] == F32:
            replaced = float("nan") if g["nan"] else 3.0
            values = {"imputed_value_floats": d.f(4 if g["each"] else 1).tolist(), "replaced_value_float": replaced}
        else:
            replaced, values = 2, {"imputed_value_int64s": d.i(5, 9, 4 if g["each"] else 1).tolist(), "replaced_value_int64": 2}

        def inputs(n):
            made = d.i(0, 4, n, 4).astype(g["dtype"])
            made[0, 1] = replaced
            return [made]

        yield Case(named(**g), "Imputer", ML, [inputs(2), inputs(5)], **values)
    for g in grid(targets=[1, 3], intercepts=[0, 1], post=["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"], rank=[1, 2]):
        d = Draw(str(g))
        inputs = lambda n: [d.f(*((n, 4) if g["rank"] == 2 else (4,)))]
        yield Case(named(**g), "LinearRegressor", ML, [inputs(2), inputs(5)], coefficients=d.f(4 * g["targets"]).tolist(),
                   intercepts=d.f(g["targets"]).tolist() if g["intercepts"] else None, targets=g["targets"], post_transform=g["post"])
    for g in grid(classes=[1, 2, 3], one=[0, 1], texts=[0, 1], post=["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"], dtype=[F32, F64, np.int64]):
        d = Draw(str(g))
        rows = 1 if g["one"] else g["classes"]
        if g["one"] and g["classes"] == 3 or not g["one"] and g["classes"] == 1:
            continue
        inputs = lambda n: [(d.f(n, 4) * 3).astype(g["dtype"])]
        labels = {"classlabels_strings": ["no", "yes", "perhaps"]} if g["texts"] else {"classlabels_ints": [4, 7, 9]}
        labels = {key: value[: g["classes"]] for key, value in labels.items()}
        yield Case(named(**g), "LinearClassifier", ML, [inputs(2), inputs(5)], ["label", "scores"], coefficients=d.f(4 * rows).tolist(),
                   intercepts=d.f(rows).tolist(), post_transform=g["post"], multi_class=0, **labels)
    for g in grid(kind=["strings", "int64s", "float"], zeros=[0, 1], rank=[1, 2]):
        d = Draw(str(g))
        names = np.array(["a", "bb", "c", "x"], object)

        def inputs(n):
            made = d.i(0, 4, *((n, 3) if g["rank"] == 2 else (n,)), dtype=np.int64)
            if not g["zeros"]:
                made = np.minimum(made, 2)
            return [names[made] if g["kind"] == "strings" else made.astype(F32) if g["kind"] == "float" else made]

        values = {"cats_strings": ["a", "bb", "c"]} if g["kind"] == "strings" else {"cats_int64s": [0, 1, 2]}
        yield Case(named(**g), "OneHotEncoder", ML, [inputs(2), inputs(5)], zeros=g["zeros"], **values)
    for g in grid(dtype=[F32, F64, np.int64], count=[1, 3]):
        d = Draw(str(g))
        inputs = lambda n: [(d.f(n, i + 1) * 5).astype(g["dtype"]) for i in range(g["count"])]
        yield Case(named(**g), "FeatureVectorizer", ML, [inputs(2), inputs(5)], inputdimensions=[i + 1 for i in range(g["count"])])


def trees(d, count, depth, features, classes, of, modes, whole):
    """Complete trees: their attributes, and ids of targets drawn from `classes`."""
    made = collections.defaultdict(list)
    for tree in range(count):
        inner = 2**depth - 1
        for node in range(2 * inner + 1):
            leaf = node >= inner
            made["nodes_treeids"].append(tree)
            made["nodes_nodeids"].append(node)
            made["nodes_modes"].append("LEAF" if leaf else modes[int(d.i(0, len(modes)))])
            made["nodes_featureids"].append(0 if leaf else int(d.i(0, features)))
            made["nodes_values"].append(0.0 if leaf else float(d.i(-3, 4)) if whole else float(d.f()))
            made["nodes_truenodeids"].append(0 if leaf else 2 * node + 1)
            made["nodes_falsenodeids"].append(0 if leaf else 2 * node + 2)
            made["nodes_missing_value_tracks_true"].append(0 if leaf else int(d.i(0, 2)))
            for target in classes if leaf else []:
                made[f"{of}_treeids"].append(tree)
                made[f"{of}_nodeids"].append(node)
                made[f"{of}_ids"].append(target)
                made[f"{of}_weights"].append(float(d.f()))
    return made


ALL = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


@cases
def forests():
    for g in grid(targets=[1, 2], aggregate=["SUM", "AVERAGE", "MIN", "MAX"], post=["NONE", "LOGISTIC", "SOFTMAX"], base=[0, 1],
                  modes=["one", "all"], dtype=[F32, F64, np.int64]):
        d = Draw(str(g))
        own = trees(d, 5, 3, 4, range(g["targets"]), "target", ALL[:1] if g["modes"] == "one" else ALL, g["modes"] == "all")

        def inputs(n):
            made = (d.f(n, 4) * 2).astype(g["dtype"]) if g["modes"] == "one" else d.i(-3, 4, n, 4).astype(g["dtype"])
            if g["dtype"] != np.int64 and g["modes"] == "one":
                made[0, 1] = np.nan
            return [made]

        yield Case(named(**g), "TreeEnsembleRegressor", ML, [inputs(3), inputs(70)], n_targets=g["targets"], aggregate_function=g["aggregate"],
                   post_transform=g["post"], base_values=d.f(g["targets"]).tolist() if g["base"] else None, **own)
    for g in grid(classes=["one", "two", "three"], sign=["positive", "mixed"], post=["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"], texts=[0, 1],
                  base=[0, 1, 2], dtype=[F32, np.int64]):
        d = Draw(str(g))
        count = 3 if g["classes"] == "three" else 2
        ids = {"one": [0], "two": [0, 1], "three": [0, 1, 2]}[g["classes"]]
        if g["base"] and g["base"] != count and not (g["base"] == 1 and count == 2):
            continue
        own = trees(d, 5, 3, 4, ids, "class", ALL[:1], False)
        if g["sign"] == "positive":
            own["class_weights"] = [abs(weight) / 5 for weight in own["class_weights"]]
        labels = {"classlabels_strings": ["no", "yes", "perhaps"]} if g["texts"] else {"classlabels_int64s": [4, 7, 9]}
        labels = {key: value[:count] for key, value in labels.items()}
        inputs = lambda n: [(d.f(n, 4) * 2).astype(g["dtype"])]
        yield Case(named(**g), "TreeEnsembleClassifier", ML, [inputs(3), inputs(70)], ["label", "scores"], post_transform=g["post"],
                   base_values=d.f(g["base"]).tolist() if g["base"] else None, version=3, **labels, **own)


def type_of(value):
    """ONNX's number of an array's element type."""
    from onnx import TensorProto, helper

    dtype = np.asarray(value).dtype
    return TensorProto.STRING if dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(dtype)


def model_of(case):
    from onnx import helper, numpy_helper

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
    graph = helper.make_graph([node], case.name, infos, results, constants)
    imports = [helper.make_opsetid("", case.opset)] + ([helper.make_opsetid(case.domain, case.version)] if case.domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=9), [info.name for info in infos]


def proto_of(value, name):
    from onnx import numpy_helper

    array = np.asarray(value)
    return numpy_helper.from_array(array.astype(object) if array.dtype.kind == "U" else array, name)


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
        made.append((feed, session.run(None, feed)))
    # Outputs are declared as they are, without sizes.
    import onnx
    from onnx import helper

    for info, value in zip(model.graph.output, made[0][1]):
        array = np.asarray(value)
        info.CopyFrom(helper.make_tensor_value_info(info.name, type_of(array), [None] * array.ndim))
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
        counts[kind] += 1
        if kind != ("refused" if listed else "passed"):
            problems.append(f"{name}: {result}")
    print("  ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    print("\n".join(problems) or "every case that is not listed is right")
    sys.exit(bool(problems))


if __name__ == "__main__":
    compare(sys.argv[2]) if sys.argv[1] == "--compare" else make(sys.argv[1], sys.argv[2:])
