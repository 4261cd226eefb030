"""Cases of com.microsoft: mixtures of experts, and linear attention."""

import numpy as np

from case import F16, F32, MS, Case, Draw, cases, grid, named

EXPERTS, HIDDEN, INNER = 4, 32, 48
SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1}
LIMITED = {**SWIGLU, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.7}
ACTIVATIONS = {"swiglu": SWIGLU, "limited": LIMITED} | {
    name: {"activation_type": name} for name in ("relu", "gelu", "silu", "identity")
}
# Rows of two requests: some experts get none of the first one's.
ROWS = {0: [(3,), (40,)], 1: [(1, 3), (2, 20)]}


def routed(d, rows, dtype):
    return [d.f(*rows, HIDDEN, dtype=dtype), d.f(int(np.prod(rows)), EXPERTS, dtype=dtype, scale=2.0)]


@cases
def experts():
    for g in grid(form=list(ACTIVATIONS), k=[1, 2, 4], normal=[0, 1], bias=[0, 1], constant=[0, 1], dtype=[F32, F16]):
        d, t = Draw(str(g)), g["dtype"]
        n = INNER * (2 if g["form"] in ("swiglu", "limited") else 1)
        row = lambda count: d.f(EXPERTS, count, dtype=t) if g["bias"] else None
        weights = [d.f(EXPERTS, n, HIDDEN, dtype=t, scale=0.3), row(n)]
        weights += [d.f(EXPERTS, HIDDEN, INNER, dtype=t, scale=0.3), row(HIDDEN)]
        inputs = [routed(d, rows, t) + weights for rows in ROWS[g["bias"]]]
        constant = range(2, 6) if g["constant"] else ()
        attributes = {**ACTIVATIONS[g["form"]], "k": g["k"], "normalize_routing_weights": g["normal"]}
        yield Case(named(**g), "MoE", MS, inputs, constant=constant, **attributes)


def packed(d, g, n, k):
    """Codes, scales and zero points of all experts."""
    bits, blocks = g["bits"], k // g["block"] if g["block"] else 1
    codes = d.bytes(np.uint8, EXPERTS, n, k * bits // 8)
    scales = (d.rng.random((EXPERTS, n, blocks)) + 0.1) / 2**bits
    shape = (n, -(-blocks * bits // 8)) if g["block"] else (n * bits // 8,)
    zeros = d.bytes(np.uint8, EXPERTS, *shape) if g["zeros"] else None
    return codes, scales.astype(g["dtype"]) if g["block"] else scales[..., 0].astype(g["dtype"]), zeros


@cases
def quantized_experts():
    forms = ["relu", "silu", "swiglu", "limited"]
    axes = dict(bits=[2, 4, 8], block=[0, 16], zeros=[0, 1], form=forms, apart=[0, 1], dtype=[F32, F16])
    for g in grid(**axes):
        # A product whose rows are rounded to bytes depends on how a single number was rounded.
        if g["block"] and g["bits"] == 8:
            continue
        d, t = Draw(str(g)), g["dtype"]
        n = INNER * (2 if g["form"] in ("swiglu", "limited") else 1)
        (up, up_scales, up_zeros), (down, down_scales, down_zeros) = packed(d, g, n, HIDDEN), packed(d, g, HIDDEN, INNER)
        weights = [up, up_scales, d.f(EXPERTS, n, dtype=t), down, down_scales, d.f(EXPERTS, HIDDEN, dtype=t)]
        weights += [None] * 3 + [up_zeros, down_zeros, None]
        mixed = lambda rows: [np.abs(d.f(int(np.prod(rows)), EXPERTS, dtype=t)) if g["apart"] else None]
        inputs = [routed(d, rows, t) + weights + mixed(rows) for rows in ROWS[g["apart"]]]
        attributes = {**ACTIVATIONS[g["form"]], "k": 2, "normalize_routing_weights": g["zeros"]}
        attributes |= {"expert_weight_bits": g["bits"], "block_size": g["block"] or None}
        yield Case(named(**g), "QMoE", MS, inputs, constant=range(2, 14), **attributes)


@cases
def linear_attention():
    # Heads of queries, of values and of keys.
    heads = [(1, 1, 1), (4, 2, 2), (2, 6, 2), (2, 4, 4)]
    rules = ["linear", "gated", "delta", "gated_delta"]
    for g in grid(rule=rules, heads=range(len(heads)), past=[0, 1], each=[0, 1], scale=[0.0, 0.7]):
        d = Draw(str(g))
        queries, values, keys = heads[g["heads"]]

        def request(batch, steps):
            key = d.f(batch, steps, keys * 8, scale=0.3)
            own = [d.f(batch, steps, queries * 8), key, d.f(batch, steps, values * 4)]
            own.append(d.f(batch, values, 8, 4) if g["past"] else None)
            decay = -np.abs(d.f(batch, steps, values * (8 if g["each"] else 1)))
            rate = d.rng.random((batch, steps, values if g["each"] else 1)).astype(F32)
            return own + [decay if "gated" in g["rule"] else None, rate if "delta" in g["rule"] else None]

        attributes = {"q_num_heads": queries, "kv_num_heads": values, "update_rule": g["rule"], "scale": g["scale"]}
        inputs = [request(2, 5), request(1, 1)]
        yield Case(named(**g), "LinearAttention", MS, inputs, ["y", "state"], **attributes)
