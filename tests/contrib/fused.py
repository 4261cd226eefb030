"""Cases of com.microsoft: functions, normalisations, products, attention."""

import numpy as np

from case import F16, F32, F64, MS, Case, Draw, cases, grid, named


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
    yield Case(
        "SkipLayerNormalization_default", "SkipLayerNormalization", MS, [[d.f(2, 3, 4) for _ in "ab"] + [d.f(4)]]
    )
    for g in grid(domain=["", MS], dtype=[F32, F16, F64], axis=[-1, 1], scale=["same", F16]):
        d = Draw(str(g))
        scale = g["dtype"] if g["scale"] == "same" else g["scale"]
        shape = lambda n: (n, 3, 8)
        inputs = lambda n: [d.f(*shape(n), dtype=g["dtype"]), d.f(*shape(n)[g["axis"] :], dtype=scale)]
        yield Case(
            named(**g),
            "SimplifiedLayerNormalization",
            g["domain"],
            [inputs(2), inputs(4)],
            axis=g["axis"],
            epsilon=1e-3,
        )
    for g in grid(
        dtype=[F32, F16],
        segment=[0, 1],
        mask=[0, 1],
        positions=[0, 1],
        outputs=[1, 2, 3],
    ):
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
        yield Case(
            "EmbedLayerNormalization_" + named(**g),
            "EmbedLayerNormalization",
            MS,
            [inputs(2, 5), inputs(1, 7)],
            outputs,
            constant=range(2, 7),
            epsilon=1e-5,
            mask_index_type=index,
        )
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

        yield Case(
            "QEmbedLayerNormalization_" + named(**g),
            "QEmbedLayerNormalization",
            MS,
            [inputs(2, 5), inputs(1, 7)],
            ["y", "mask_index"],
            constant=[*range(2, 7), *range(8, 18)],
            epsilon=1e-5,
        )


@cases
def products():
    for g in grid(
        op=["FusedMatMul", "TransposeMatMul"],
        a=[0, 1],
        b=[0, 1],
        alpha=[1.0, 0.125],
        rank=["22", "32", "33", "44", "23"],
        dtype=[F32, F64],
        constant=[0, 1],
    ):
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

        yield Case(
            named(**g),
            g["op"],
            MS,
            [inputs(3, 2), inputs(6, 4)],
            constant=[1] if g["constant"] else (),
            transA=g["a"],
            transB=g["b"],
            alpha=g["alpha"],
        )
    for g in grid(batchA=[0, 1], batchB=[0, 1], a=[0, 1], b=[0, 1], stack=[(2,), (2, 3)]):
        if g["batchA"] or g["batchB"]:
            d = Draw(str(g))

            def operand(matrix, transposed, first):
                rows, columns = matrix[::-1] if transposed else matrix
                return d.f(rows, *g["stack"], columns) if first else d.f(*g["stack"], rows, columns)

            yield Case(
                "FusedMatMul_" + named(**g),
                "FusedMatMul",
                MS,
                [[operand((rows, 5), g["a"], g["batchA"]), operand((5, 4), g["b"], g["batchB"])] for rows in (3, 6)],
                transA=g["a"],
                transB=g["b"],
                transBatchA=g["batchA"],
                transBatchB=g["batchB"],
            )
    functions = {
        "Relu": {},
        "Sigmoid": {},
        "Tanh": {},
        "LeakyRelu": {"activation_alpha": 0.2},
        "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
        "Elu": {"activation_alpha": 0.7},
        "Softplus": {},
        "Softsign": {},
        "ThresholdedRelu": {"activation_alpha": 0.3},
        "": {},
        "Selu": {"activation_alpha": 1.5, "activation_gamma": 1.1},
    }
    for g in grid(function=functions, a=[0, 1], b=[0, 1], c=[0, 1]):
        d = Draw(str(g))
        inputs = lambda n: (
            [d.f(*((5, n) if g["a"] else (n, 5))), d.f(*((4, 5) if g["b"] else (5, 4)))] + [d.f(4)] * g["c"]
        )
        yield Case(
            "FusedGemm_" + named(**g),
            "FusedGemm",
            MS,
            [inputs(3), inputs(7)],
            alpha=0.5,
            beta=2.0,
            transA=g["a"],
            transB=g["b"],
            activation=g["function"],
            **functions[g["function"]],
        )
    d = Draw("GemmFastGelu")
    yield Case("GemmFastGelu", "GemmFastGelu", MS, [[d.f(2, 3, 4), d.f(4, 5), d.f(5)]])
    params = {
        "Relu": None,
        "Sigmoid": None,
        "Tanh": None,
        "LeakyRelu": [0.2],
        "Clip": [-0.5, 0.6],
        "HardSigmoid": [0.3, 0.4],
        "": None,
    }
    for g in grid(function=params, bias=[0, 1], residual=[0, 1], group=[1, 2], rank=[1, 2]):
        d = Draw(str(g))
        weights = d.f(4, 4 // g["group"], *[3] * g["rank"])

        def inputs(batch, size):
            own = [d.f(batch, 4, *[size] * g["rank"]), weights, d.f(4) if g["bias"] else None]
            return own + ([d.f(batch, 4, *[size] * g["rank"])] if g["residual"] else [])

        yield Case(
            "FusedConv_" + named(**g),
            "FusedConv",
            MS,
            [inputs(2, 6), inputs(1, 9)],
            constant=[1, 2],
            group=g["group"],
            pads=[1] * 2 * g["rank"],
            activation=g["function"] or None,
            activation_params=params[g["function"]],
        )
    for g in grid(dtype=[np.int8, np.uint8], pads=[[0] * 4, [1, 0, 1, 1]], strides=[1, 2]):
        d = Draw(str(g))
        inputs = lambda n: [d.bytes(g["dtype"], n, 7, 6, 3)]
        yield Case(
            "NhwcMaxPool_" + named(**g),
            "NhwcMaxPool",
            MS,
            [inputs(2), inputs(1)],
            kernel_shape=[2, 3],
            pads=g["pads"],
            strides=[g["strides"]] * 2,
        )


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
    for g in grid(
        mask=["none", "lengths", "both", "keys", "pairs"],
        past=[0, 1],
        causal=[0, 1],
        bias=[0, 1],
        scores=[0, 1],
        sizes=[0, 1],
    ):
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
        yield Case(
            "Attention_" + named(**g),
            "Attention",
            MS,
            [inputs(2, 3, 2), inputs(1, 5, 4)],
            outputs,
            constant=[1, 2],
            num_heads=2,
            unidirectional=g["causal"],
            qkv_hidden_sizes=hidden if g["sizes"] else None,
        )
    for extra in [{"scale": 0.3}, {"mask_filter_value": -50.0}, {"do_rotary": 1}]:
        d = Draw(str(extra))
        yield Case(
            f"Attention_{extra}",
            "Attention",
            MS,
            [[d.f(2, 3, 8), d.f(8, 24), d.f(24), mask_of(d, "keys", 2, 3, 3)]],
            num_heads=2,
            **extra,
        )
    for g in grid(
        form=["apart", "kv", "qkv", "heads"],
        bias=[0, 1],
        mask=["none", "lengths", "keys", "pairs"],
        scores=[0, 1],
        past=[0, 1],
        causal=[0, 1],
        present=[0, 1],
        dtype=[F32, F16],
    ):
        d = Draw(str(g))
        t = g["dtype"]
        if g["form"] in ("kv", "qkv") and (g["bias"] or g["past"]) or t == F16 and (g["mask"] != "none" or g["past"]):
            continue
        # Keys and values by heads are those of another sequence.
        if g["present"] != g["past"] or g["form"] == "heads" and (g["past"] or g["causal"]):
            continue
        biases = d.f(24, dtype=t) if g["bias"] else None

        def inputs(batch, steps, keys, past):
            if g["past"] or g["causal"]:
                keys = steps
            total = keys + past * g["past"]
            own = {
                "apart": [d.f(batch, steps, 8, dtype=t), d.f(batch, keys, 8, dtype=t), d.f(batch, keys, 8, dtype=t)],
                "kv": [d.f(batch, steps, 8, dtype=t), d.f(batch, keys, 2, 2, 4, dtype=t), None],
                "qkv": [d.f(batch, steps, 2, 3, 4, dtype=t), None, None],
                "heads": [d.f(batch, steps, 8, dtype=t), *(d.f(batch, 2, keys, 4, dtype=t) for _ in "kv")],
            }[g["form"]]
            if g["form"] == "qkv":
                total = steps
            own += [biases, mask_of(d, g["mask"], batch, steps, total)]
            own.append(d.f(batch, 2, steps, total, dtype=t) if g["scores"] else None)
            return own + ([d.f(batch, 2, past, 4, dtype=t) for _ in "kv"] if g["past"] else [])

        outputs = ["y", "keys", "values"] if g["present"] else 1
        yield Case(
            "MultiHeadAttention_" + named(**g),
            "MultiHeadAttention",
            MS,
            [inputs(2, 3, 4, 2), inputs(1, 5, 2, 3)],
            outputs,
            constant=[3],
            num_heads=2,
            unidirectional=g["causal"] or None,
            scale=0.4 if g["scores"] else None,
        )
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

        yield Case(
            "RotaryEmbedding_" + named(**g),
            "RotaryEmbedding",
            MS,
            [inputs(2, 3), inputs(1, 5)],
            constant=[2, 3],
            interleaved=g["interleaved"],
            num_heads=2 * g["heads"] or None,
            rotary_embedding_dim=turned if g["part"] else None,
        )
    for g in grid(
        mask=["none", "lengths", "keys"], past=[0, 1], causal=[0, 1], signed=[0, 1], columns=[0, 1], zero=[0, 1]
    ):
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

        yield Case(
            "QAttention_" + named(**g),
            "QAttention",
            MS,
            [inputs(2, 3, 2), inputs(1, 5, 4)],
            ["y", "present"] if g["past"] else 1,
            constant=[1, 2, 3, 4, 6, 7],
            num_heads=2,
            unidirectional=g["causal"],
        )


@cases
def tables():
    for g in grid(metric=["euclidean", "sqeuclidean"], dtype=[F32, F64]):
        d = Draw(str(g))
        inputs = lambda m, n: [d.f(m, 5, dtype=g["dtype"]), d.f(n, 5, dtype=g["dtype"])]
        yield Case(named(**g), "CDist", MS, [inputs(3, 4), inputs(7, 2)], metric=g["metric"], atol=1e-4)
    for g in grid(dtype=[F32, F16, F64], rank=[2, 3, 4], swapped=[0, 1]):
        d = Draw(str(g))
        stack = lambda n: {2: (), 3: (n,), 4: (n, 3)}[g["rank"]]

        def inputs(n, size):
            whole = 4 * np.eye(size) + d.rng.uniform(-1, 1, (*stack(n), size, size))
            # Rows in another order have no diagonal to divide by.
            return [(whole[..., ::-1, :] if g["swapped"] else whole).astype(g["dtype"])]

        yield Case("Inverse_" + named(**g), "Inverse", MS, [inputs(2, 4), inputs(5, 7)])
    d = Draw("unique")
    inputs = lambda n: [d.i(0, 6, n).astype(F32)]
    yield Case("Unique", "Unique", MS, [inputs(9), inputs(4)], ["y", "places", "counts"])
