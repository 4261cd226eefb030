"""Cases of com.microsoft: products, functions and recurrent layers on bytes, and what moves elements."""

import numpy as np

from case import F16, F32, MS, Case, Draw, cases, grid, named


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
        yield Case(
            "DynamicQuantizeMatMul_" + named(**g),
            "DynamicQuantizeMatMul",
            MS,
            [inputs(2), inputs(7)],
            constant=range(1, 5),
        )
        for a in [np.uint8, np.int8]:
            inputs = lambda n: (
                [d.bytes(a, *lead(n), 6), weights, scalar(0.03), scale, scalar(7, a) if g["zero"] else None, zero]
                + bias
            )
            if a == np.int8 and t == np.uint8:
                continue
            yield Case(
                "MatMulIntegerToFloat_" + named(a=a, **g),
                "MatMulIntegerToFloat",
                MS,
                [inputs(2), inputs(7)],
                constant=range(1, 7),
            )
    d = Draw("16")
    yield Case(
        "MatMulInteger16",
        "MatMulInteger16",
        MS,
        [[d.i(-999, 999, 3, 4, dtype=np.int16), d.i(-999, 999, 4, 5, dtype=np.int16)]],
    )
    for g in grid(
        dtype=[np.uint8, np.int8], zero=[0, 1], part=[0, 1], constant=[0, 1], op=["QLinearAdd", "QLinearMul"]
    ):
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
    for g in grid(
        dtype=[np.uint8, np.int8],
        zero=[0, 1],
        op=["QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearSoftmax12"],
    ):
        d = Draw(str(g))
        t = g["dtype"]
        z = lambda v: scalar(v, t) if g["zero"] else None
        softmax = g["op"].startswith("QLinearSoftmax")
        extra = (
            {"axis": 1 if g["op"].endswith("12") else -1, "opset": 12 if g["op"].endswith("12") else 13}
            if softmax
            else {}
        )
        if g["op"] == "QLinearLeakyRelu":
            extra = {"alpha": 0.2}
        last = scalar(-128 if t == np.int8 else 0, t) if softmax else z(5)
        inputs = lambda n: (
            [d.bytes(t, n, 3, 8), scalar(0.05), z(7), scalar(1 / 256 if softmax else 0.04)]
            + ([last] if last is not None else [])
        )
        yield Case(
            named(**g), g["op"].removesuffix("12"), MS, [inputs(2), inputs(4)], constant=range(1, 5), atol=1, **extra
        )
    for g in grid(dtype=[np.uint8, np.int8], axis=[1, -1], count=[1, 2, 3], constant=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]

        def inputs(n):
            own = [scalar(0.05), scalar(4, t)]
            for i in range(g["count"]):
                own += [d.bytes(t, n, 3, 5), scalar(0.02 * (i + 1)), scalar(3 * i, t)]
            return own

        known = [i for i in range(2 + 3 * g["count"]) if i < 2 or i % 3 != 2] if g["constant"] else []
        yield Case(
            "QLinearConcat_" + named(**g),
            "QLinearConcat",
            MS,
            [inputs(2), inputs(1)],
            constant=known,
            atol=1,
            axis=g["axis"],
        )
    for g in grid(last=[0, 1], bias=[0, 1], columns=[0, 1], group=[1, 2]):
        d = Draw(str(g))
        weights = d.bytes(np.int8, 4, 6 // g["group"], 3, 2)
        scale = (0.001 + 0.001 * d.rng.random(4)).astype(F32) if g["columns"] else scalar(0.002)
        zero = np.zeros(4, np.int8) if g["columns"] else scalar(0, np.int8)
        rest = [weights, scale, zero, scalar(0.03), scalar(120, np.uint8)] + ([d.i(-500, 500, 4)] if g["bias"] else [])
        image = lambda n: d.bytes(np.uint8, *((n, 7, 6, 6) if g["last"] else (n, 6, 7, 6)))
        inputs = lambda n: [image(n), scalar(0.05), scalar(131, np.uint8), *rest]
        yield Case(
            "QLinearConv_" + named(**g),
            "QLinearConv",
            MS,
            [inputs(2), inputs(1)],
            constant=range(1, 9),
            atol=1,
            channels_last=g["last"],
            group=g["group"],
            pads=[1, 0, 1, 1],
            strides=[2, 1],
        )
    for g in grid(
        dtype=[np.uint8, np.int8],
        last=[0, 1],
        ceil=[0, 1],
        pads=[0, 1],
        include=[0, 1],
        auto=["NOTSET", "SAME_UPPER", "VALID"],
    ):
        d = Draw(str(g))
        t = g["dtype"]
        if g["auto"] != "NOTSET" and g["pads"]:
            continue
        inputs = lambda n: [
            d.bytes(t, *((n, 7, 6, 3) if g["last"] else (n, 3, 7, 6))),
            scalar(0.05),
            scalar(4, t),
            scalar(0.03),
            scalar(2, t),
        ]
        yield Case(
            "QLinearAveragePool_" + named(**g),
            "QLinearAveragePool",
            MS,
            [inputs(2), inputs(1)],
            constant=range(1, 5),
            atol=1,
            kernel_shape=[3, 2],
            strides=[2, 1],
            pads=[1, 0, 1, 1] if g["pads"] else None,
            channels_last=g["last"],
            ceil_mode=g["ceil"],
            count_include_pad=g["include"],
            auto_pad=g["auto"],
        )
        if not g["pads"] and not g["ceil"] and not g["include"] and g["auto"] == "NOTSET":
            yield Case(
                "QLinearGlobalAveragePool_" + named(**g),
                "QLinearGlobalAveragePool",
                MS,
                [inputs(2), inputs(1)],
                constant=range(1, 5),
                atol=1,
                channels_last=g["last"],
            )
    for g in grid(dtype=[np.uint8, np.int8], part=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]
        inputs = lambda n: [
            d.i(0, 2, n, 1 if g["part"] else 3, 5).astype(bool),
            d.bytes(t, n, 3, 5),
            scalar(0.02),
            scalar(3, t),
            d.bytes(t, 5),
            scalar(0.03),
            scalar(1, t),
            scalar(0.04),
            scalar(5, t),
        ]
        yield Case(
            "QLinearWhere_" + named(**g),
            "QLinearWhere",
            MS,
            [inputs(2), inputs(4)],
            constant=[2, 3, 5, 6, 7, 8],
            atol=1,
        )
    for g in grid(dtype=[np.uint8, np.int8], axes=[[1], [1, 2], None], keep=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]
        inputs = lambda n: [d.bytes(t, n, 3, 5), scalar(0.02), scalar(3, t), scalar(0.03), scalar(1, t)]
        yield Case(
            "QLinearReduceMean_" + named(**g),
            "QLinearReduceMean",
            MS,
            [inputs(2), inputs(4)],
            constant=range(1, 5),
            atol=1,
            axes=g["axes"],
            keepdims=g["keep"],
        )
    for g in grid(
        signed=[0, 1],
        a=[0, 1],
        b=[0, 1],
        c=[None, "row", "column", "matrix", "one"],
        out=[0, 1],
        columns=[0, 1],
        alpha=[None, 0.5],
    ):
        d = Draw(str(g))
        t = np.int8 if g["signed"] else np.uint8
        weights = d.bytes(t, *((5, 6) if g["b"] else (6, 5)))
        scale = (0.01 + 0.01 * d.rng.random(5)).astype(F32) if g["columns"] else scalar(0.02)
        zero = np.zeros(5, t) if g["columns"] else scalar(4, t)
        end = [scalar(1.5), scalar(100, np.uint8)] if g["out"] else []
        whole = g["c"] in ("column", "matrix")

        def inputs(n):
            shape = {"row": (5,), "column": (n, 1), "matrix": (n, 5), "one": (1,)}.get(g["c"])
            c = d.i(-900, 900, *shape) if shape else None
            left = d.bytes(np.uint8, *((6, n) if g["a"] else (n, 6)))
            return [left, scalar(0.03), scalar(9, np.uint8), weights, scale, zero] + ([c] if shape or end else []) + end

        yield Case(
            "QGemm_" + named(**g),
            "QGemm",
            MS,
            [inputs(2), inputs(5)],
            constant=[at for at in range(1, 9) if at != 6 or not whole],
            atol=1 if g["out"] else None,
            transA=g["a"],
            transB=g["b"],
            alpha=g["alpha"],
        )
    for g in grid(dtype=[np.uint8, np.int8, np.uint16, np.int16], x=[F32, F16], axis=[None, 1], zero=[0, 1]):
        d = Draw(str(g))
        t = g["dtype"]
        scale = (0.01 + 0.01 * d.rng.random(3)).astype(g["x"]) if g["axis"] is not None else scalar(0.02, g["x"])
        zero = [d.i(0, 9, 3, dtype=t) if g["axis"] is not None else scalar(4, t)] if g["zero"] or t != np.uint8 else []
        inputs = lambda n: [d.f(n, 3, 5, dtype=g["x"]), scale] + zero
        yield Case(
            "QuantizeLinear_" + named(**g),
            "QuantizeLinear",
            MS,
            [inputs(2), inputs(4)],
            constant=[1, 2],
            axis=g["axis"],
            atol=1,
        )
        inputs = lambda n: [d.bytes(t, n, 3, 5), scale] + zero
        yield Case(
            "DequantizeLinear_" + named(**g),
            "DequantizeLinear",
            MS,
            [inputs(2), inputs(4)],
            constant=[1, 2],
            axis=g["axis"],
        )


@cases
def movement():
    d = Draw("movement")
    for g in grid(upper=[0, 1], k=[None, 0, 1, -1], dtype=[F32, np.int64]):
        inputs = lambda n: (
            [d.f(n, 4, 5).astype(g["dtype"])] + ([np.array(g["k"], np.int64)] if g["k"] is not None else [])
        )
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
    for g in grid(
        direction=["forward", "reverse", "bidirectional"],
        signed=[0, 1],
        columns=[0, 1],
        bias=[0, 1],
        lengths=[0, 1],
        initial=[0, 1],
        peepholes=[0, 1],
        clip=[0, 1],
    ):
        if g["clip"] and (g["peepholes"] or g["lengths"]):
            continue
        d = Draw(str(g))
        n, units, size = (2 if g["direction"] == "bidirectional" else 1), 7, 5
        t = np.int8 if g["signed"] else np.uint8
        scale = lambda: (
            (0.004 + 0.004 * d.rng.random((n, 4 * units))).astype(F32) if g["columns"] else np.full(n, 0.006, F32)
        )
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

        # Rows of a batch are quantised each by itself, and by onnxruntime together or in parts, by its threads.
        sets = [inputs(4, 1), inputs(6, 1)]
        yield Case(
            "DynamicQuantizeLSTM_" + named(**g),
            "DynamicQuantizeLSTM",
            MS,
            sets,
            ["y", "h", "c"],
            constant=[1, 2, 3, *range(7, 12)],
            hidden_size=units,
            direction=g["direction"],
            clip=0.4 if g["clip"] else None,
            atol=2e-5,
        )
