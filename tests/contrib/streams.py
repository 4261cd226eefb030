"""Cases of com.microsoft: what decoders carry from step to step besides attention, branches of features, routers."""

import numpy as np

from case import F16, F32, MS, Case, Draw, cases, grid, named


@cases
def causal_conv():
    axes = dict(taps=[1, 4], dilation=[1, 3], last=[0, 1], form=["none", "silu"], bias=[0, 1], past=[0, 1])
    for g in grid(**axes, dtype=[F32, F16]):
        d, t, channels = Draw(str(g)), g["dtype"], 6
        kept = (g["taps"] - 1) * g["dilation"]

        def request(batch, steps):
            x = (batch, steps, 3, 2) if g["last"] else (batch, channels, steps)
            state = (batch, kept, 3, 2) if g["last"] else (batch, channels, kept)
            own = [d.f(*x, dtype=t), weights, d.f(channels, dtype=t) if g["bias"] else None]
            return own + [d.f(*state, dtype=t) if g["past"] else None]

        weights = d.f(channels, 1, g["taps"], dtype=t)
        attributes = {"dilation": g["dilation"], "channels_last": g["last"], "activation": g["form"]}
        yield Case(
            named(**g),
            "CausalConvWithState",
            MS,
            [request(2, 5), request(1, 1), request(1, 2)],
            ["y", "state"],
            constant=[1],
            **attributes,
        )


def packed(*lengths):
    return np.cumsum([0, *lengths]).astype(np.int32)


@cases
def packed_conv():
    axes = dict(taps=[1, 4], dilation=[1, 2], form=["none", "swish"], bias=[0, 1], capacity=[0, 3], dtype=[F32, F16])
    for g in grid(**axes):
        d, t, channels = Draw(str(g)), g["dtype"], 6
        kept = (g["taps"] - 1) * g["dilation"]
        weights = d.f(channels, 1, g["taps"], dtype=t)

        def request(*lengths):
            own = [d.f(sum(lengths), channels, dtype=t), weights, packed(*lengths)]
            own.append(d.f(channels, dtype=t) if g["bias"] else None)
            own.append(d.f(len(lengths), channels, kept, dtype=t))
            return own + [d.i(-1, 5, len(lengths)) if g["capacity"] else None]

        outputs = ["y", "state", "update"] if g["capacity"] else ["y", "state"]
        attributes = {"dilation": g["dilation"], "activation": g["form"], "state_update_capacity": g["capacity"]}
        inputs = [request(2, 5, 1), request(1), request(7, 3)]
        yield Case(named(**g), "VarlenCausalConvWithState", MS, inputs, outputs, constant=[1], **attributes)


@cases
def attention_gates():
    for g in grid(rate=[0, 1], dtype=[F32, F16]):
        d, t = Draw(str(g)), g["dtype"]
        heads = [d.f(6), d.f(6)]
        lines = lambda *shape: d.f(*shape, 6, dtype=t, scale=3.0)
        inputs = [[lines(*shape), *heads] + [lines(*shape)] * g["rate"] for shape in [(2, 3), (1, 1)]]
        yield Case(named(**g), "LinearAttentionGate", MS, inputs, ["decay", "rate"][: 1 + g["rate"]])


RULES = ["linear", "gated", "delta", "gated_delta"]


@cases
def delta_net():
    axes = dict(rule=RULES, form=["ragged", "even", "batch", "packed"], each=[0, 1], state=[0, 1], unit=[0, 1])
    for g in grid(**axes, gate=["none", "softplus", "kda"], dtype=[F32, F16]):
        decays, corrects = "gated" in g["rule"], "delta" in g["rule"]
        if not decays and (g["each"] or g["gate"] != "none") or not g["state"] and g["form"] in ("even", "packed"):
            continue
        if corrects and not g["unit"] and g["dtype"] == F16:
            continue
        d, t = Draw(str(g)), g["dtype"]
        keys, heads, key, value = 2, 4, 16, 12
        slopes, biases = d.f(heads, scale=0.5), d.f(*((heads, key) if g["each"] else (heads,)))

        def request(*lengths):
            tokens = sum(lengths)
            lead = (len(lengths), lengths[0]) if g["form"] == "batch" else (tokens,)
            scale = 0.2 if corrects and not g["unit"] else 1.0
            x = [d.f(*lead, keys, key, dtype=t, scale=scale) for _ in "qk"] + [d.f(*lead, heads, value, dtype=t)]
            if g["form"] == "packed":
                x = [np.concatenate([part.reshape(tokens, -1) for part in x], 1), None, None]
            x.append(packed(*lengths) if g["form"] == "ragged" else None)
            decay = d.f(*lead, heads, *([key] * g["each"]), dtype=t)
            x.append((decay if g["gate"] != "none" else -np.abs(decay)) if decays else None)
            rate = d.rng.random((*lead, heads)).astype(t)
            x.append(rate if corrects else None)
            x.append(d.f(len(lengths), heads, value, key) if g["state"] else None)
            return x + ([slopes, biases] if g["gate"] != "none" else [])

        attributes = {"update_rule": g["rule"], "qk_l2_norm": g["unit"], "gate_activation": g["gate"]}
        attributes |= {"beta_activation": "sigmoid"} if corrects and g["state"] else {}
        attributes |= {"scale": 0.3, "gate_lower_bound": -1.5} if g["unit"] else {}
        inputs = [request(5, 2, 3) if g["form"] == "ragged" else request(4, 4), request(1), request(2, 2, 2)]
        yield Case(named(**g), "GatedDeltaNet", MS, inputs, ["y", "state"], **attributes)


@cases
def delta_net_transitions():
    # onnxruntime writes zeros behind what is captured, which its definition leaves open.
    for g in grid(each=[0, 1], active=[None, 0, 1], rule=["gated_delta", "linear"]):
        d = Draw(str(g))
        if g["rule"] == "linear" and g["each"]:
            continue

        def request(counts, *lengths):
            tokens = sum(lengths)
            x = [d.f(tokens, 2, 16) for _ in "qk"] + [d.f(tokens, 4, 12), packed(*lengths)]
            if g["rule"] == "linear":
                x += [None, None]
            else:
                x.append(-np.abs(d.f(tokens, 4, *([16] * g["each"]))))
                x.append(d.rng.random((tokens, 4)).astype(F32))
            x += [d.f(len(lengths), 4, 12, 16), None, None, np.array(counts, np.int32)]
            return x + ([] if g["active"] is None else [np.array([g["active"]], np.int32)])

        attributes = {"state_update_capacity": 3, "qk_l2_norm": 1, "update_rule": g["rule"]}
        inputs = [request([2, 9], 5, 2), request([0], 1), request([1, -1, 3], 4, 1, 6)]
        yield Case("transitions_" + named(**g), "GatedDeltaNet", MS, inputs, ["y", "state", "u"], **attributes)


@cases
def rotary_by_three():
    for g in grid(form=["heads", "hidden"], layout=[0, 1], neighbours=[0, 1], part=[0, 1], dtype=[F32, F16]):
        d, t, heads, size = Draw(str(g)), g["dtype"], 2, 16
        half = 6 if g["part"] else 8
        tables = [d.f(40, half, dtype=t) for _ in "cs"]

        def request(batch, steps):
            shape = (batch, heads, steps, size) if g["form"] == "heads" else (batch, steps, heads * size)
            return [d.f(*shape, dtype=t), d.i(0, 40, 3, batch, steps, dtype=np.int64)] + tables

        attributes = {
            "mrope_section": [2, 2, 2] if g["part"] else [3, 3, 2] if g["layout"] else [4, 1, 3],
            "mrope_layout": g["layout"],
            "interleaved": g["neighbours"],
            "num_heads": heads,
            "rotary_embedding_dim": 2 * half if g["part"] else 0,
            "scale": 0.5 if g["neighbours"] else None,
        }
        yield Case(named(**g), "MRotaryEmbedding", MS, [request(2, 5), request(1, 1)], constant=[2, 3], **attributes)


@cases
def branches():
    types = dict(dtype=[F32, F16], gates=[F32, F16])
    shape = lambda g, lead, last: (*lead, 3 * last) if g["flat"] else (*lead, 3, last)
    requests = [(2, 5), (1, 1), (7,)]
    for g in grid(flat=[0, 1], scale=[None, (8,), (3, 8), (24,)], **types):
        d = Draw(str(g))
        scale = [] if g["scale"] is None else [d.f(*g["scale"], dtype=g["gates"])]
        inputs = [[d.f(*shape(g, lead, 8), dtype=g["dtype"])] + scale for lead in requests[:2]]
        count = 3 if g["flat"] else None
        yield Case(named(**g), "BranchwiseRMSNorm", MS, inputs, num_branches=count, epsilon=1e-3)
    for g in grid(flat=[0, 1], form=[(3,), (3, 1), (3, 8), (24,)], **types):
        if g["form"] == (24,) and not g["flat"]:
            continue
        d = Draw(str(g))
        streams = lambda lead: d.f(*shape(g, lead, 8), dtype=g["dtype"])
        gates = lambda lead: d.f(*lead, *g["form"], dtype=g["gates"])
        inputs = [[streams(lead), gates(lead)] for lead in requests[:2]]
        count, scale = 3 if g["flat"] else None, 0.25 if g["flat"] else None
        yield Case(named(**g), "HyperConnectionPreMix", MS, inputs, num_branches=count, reduction_scale=scale)
    for g in grid(flat=[0, 1], form=[(3,), (3, 1), (3, 8)], mix=[0, 1], **types):
        d = Draw(str(g))

        def request(lead):
            own = [d.f(*shape(g, lead, 8), dtype=g["dtype"]), d.f(*lead, 8, dtype=g["dtype"])]
            own.append(d.f(*lead, *g["form"], dtype=g["gates"]))
            return own + [d.f(*lead, 3, 3, dtype=g["gates"])] * g["mix"]

        inputs = [request(lead) for lead in requests[:2]]
        yield Case(named(**g), "HyperConnectionPostMix", MS, inputs, num_branches=3 if g["flat"] else None)


@cases
def engram_gates():
    for g in grid(normed=[0, 1], dtype=[F32, F16], epsilon=[None, 1e-2]):
        d, t = Draw(str(g)), g["dtype"]
        scales = [d.f(3, 16, dtype=t) for _ in range(2 + g["normed"])]

        def request(*lead):
            return [d.f(*lead, 3, 16, dtype=t) for _ in "kq"] + [d.f(*lead, 16, dtype=t)] + scales

        outputs = ["y", "normed"][: 1 + g["normed"]]
        yield Case(named(**g), "EngramGate", MS, [request(2, 5), request(1, 1)], outputs, epsilon=g["epsilon"])


@cases
def routers():
    for g in grid(groups=[1, 4], of=[1, 2, 4], best=[None, 1, 3], k=[1, 4], sentinel=[None, -3.0], dtype=[F32, F16]):
        if g["of"] > g["groups"] or g["groups"] == 1 and g["best"]:
            continue
        d, t = Draw(str(g)), g["dtype"]
        bias = d.f(16, scale=0.1)
        inputs = [[d.f(*lead, 16, dtype=t), bias] for lead in [(2, 5), (1, 1), (1, 40)]]
        attributes = {"n_group": g["groups"], "topk_group": g["of"], "group_topk": g["best"], "top_k": g["k"]}
        yield Case(named(**g), "MoEGroupRouter", MS, inputs, router_sentinel=g["sentinel"], **attributes)
    for g in grid(projected=[0, 1], dtype=[F32, F16]):
        d, t = Draw(str(g)), g["dtype"]
        bias, weights = d.f(16, scale=0.1), [d.f(16, 256, dtype=t, scale=0.1)] * g["projected"]
        inputs = [[d.f(rows, 256 if g["projected"] else 16, dtype=t), bias] + weights for rows in (5, 1)]
        yield Case("scores_" + named(**g), "MoEGroupRouter", MS, inputs, ["", "biased", "plain"], top_k=2)


@cases
def transposed_convolutions():
    for g in grid(rank=[1, 2], stride=[1, 2], dilation=[1, 2], group=[1, 2], extra=[0, 1], bias=[0, 1]):
        if g["extra"] >= max(g["stride"], g["dilation"]):
            continue
        d, rank = Draw(str(g)), g["rank"]
        each = lambda value: [value] * rank
        weights = d.f(4, 3, *each(3))

        def request(batch, *sizes):
            pads = d.i(0, 3, 2 * rank, dtype=np.int64)
            x = [d.f(batch, 4, *sizes[:rank]), weights, pads]
            return x + ([d.f(3 * g["group"])] if g["bias"] else [])

        attributes = {"strides": each(g["stride"]), "dilations": each(g["dilation"]), "group": g["group"]}
        attributes["output_padding"] = each(1) if g["extra"] else None
        inputs = [request(2, 5, 6), request(1, 4, 9)]
        yield Case(named(**g), "ConvTransposeWithDynamicPads", MS, inputs, constant=[1], **attributes)


def tables(count):
    """Blocks of keys that blocks of queries see, as rows of two compressed matrices."""
    seen = [[[0], [0, 1], [2], [0, 2, 3]], [[0], [1], [0, 1, 2], [1, 3]]][:count]
    ends = np.array([np.cumsum([0] + [len(row) for row in rows]) for rows in seen], np.int32)
    flat = [sum(rows, []) for rows in seen]
    width = max(len(row) for row in flat)
    return ends, np.array([row + [-1] * (width - len(row)) for row in flat], np.int32)


@cases
def sparse_attention():
    # Sequences of one request are equally long: of a shorter one onnxruntime gives other results in a batch than alone.
    axes = dict(form=["apart", "packed"], tables=[1, 2], rotary=[None, 0, 1], scale=[None, 0.4], dtype=[F32, F16])
    for g in grid(**axes):
        d, t, heads, kv, size, room = Draw(str(g)), g["dtype"], 4, 2, 16, 64
        ends, blocks = tables(g["tables"])
        angles = [] if g["rotary"] is None else [d.f(room, size // 2, dtype=t) for _ in "cs"]

        def request(positions, *totals):
            hidden = lambda count: d.f(len(totals), positions, count * size, dtype=t)
            packed = g["form"] == "packed"
            own = [hidden(heads + 2 * kv), None, None] if packed else [hidden(heads), hidden(kv), hidden(kv)]
            own += [d.f(len(totals), kv, room, size, dtype=t) for _ in "kv"] + [ends, blocks]
            own += [np.array([max(totals)], np.int32), np.array(totals, np.int32)]
            return own + angles

        case = Case(
            named(**g),
            "SparseAttention",
            MS,
            [request(40, 40, 40), request(1, 36, 36), request(1, 12), request(1, 64), request(3, 50)],
            ["y", "keys", "values"],
            constant=[5, 6],
            num_heads=heads,
            kv_num_heads=kv,
            sparse_block_size=16,
            scale=g["scale"],
            do_rotary=int(g["rotary"] is not None),
            rotary_interleaved=g["rotary"] or 0,
        )
        case.shared = {3: 1, 4: 2}
        yield case
