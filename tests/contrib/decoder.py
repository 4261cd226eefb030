"""Cases of com.microsoft: attention of decoders over a cache, and biases of attention."""

import numpy as np

from case import F16, F32, MS, Case, Draw, cases, grid, named

HEADS, KV_HEADS, SIZE = 4, 2, 32


def request(d, g, lengths, new, past):
    """Inputs of GroupQueryAttention: sequences filled to `lengths`, of which `new` positions are given."""
    batch, total, t = len(lengths), max(lengths), g.get("dtype", F32)
    if g.get("packed"):
        own = [d.f(batch, new, (HEADS + 2 * KV_HEADS) * SIZE, dtype=t), None, None]
    else:
        own = [d.f(batch, new, heads * SIZE, dtype=t) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    own += [d.f(batch, KV_HEADS, past, SIZE, dtype=t) for _ in "kv"] if past is not None else [None, None]
    own += [np.array(lengths, np.int32) - 1, np.array(total, np.int32)]
    pairs = SIZE // 4 if g.get("part") else SIZE // 2
    own += [d.f(24, pairs, dtype=t) for _ in "cs"] if g.get("rotary") else [None, None]
    ids = None
    if g.get("ids"):
        before = [0 if new == total else length - new for length in lengths]
        ids = np.array([[first + step + 1 for step in range(new)] for first in before], np.int64)
    own.append(ids)
    bias = g.get("bias")
    own.append(d.f(batch if bias == "batch" else 1, HEADS if bias else 1, new, total, dtype=t) if bias else None)
    own.append(d.f(HEADS, dtype=t) if g.get("sink") else None)
    return own


# Prompts, steps of sequences that are equally long, and of sequences that are not; a cache that grows or has room.
FORMS = {
    "prompt": [([5, 5], 5, None), ([3], 3, None)],
    "prompt_empty": [([5, 5], 5, 0), ([3], 3, 0)],
    "step": [([6, 6], 1, 5), ([4], 1, 3)],
    "batch": [([6, 3, 1], 1, 5), ([2, 4], 1, 3)],
    "room": [([6, 3], 1, 9), ([2, 4], 1, 7)],
    "steps": [([7], 3, 4), ([4], 2, 2)],
    "slide": [([12, 7], 1, 4), ([5, 16], 1, 4)],
    "slides": [([9], 3, 4), ([17], 6, 4)],
}

# Forms of a cache that grows or has room.
GROWS = [form for form in FORMS if not form.startswith("slide")]


def case(g, extra=None, **attributes):
    d = Draw(str(g))
    form = FORMS[g["form"]]
    return Case(
        named(**g),
        "GroupQueryAttention",
        MS,
        [request(d, g, *sizes) for sizes in form],
        ["y", "present_key", "present_value"],
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
        do_rotary=int(bool(g.get("rotary"))),
        **attributes,
    )


@cases
def group_query():
    for g in grid(form=GROWS, packed=[0, 1], rotary=[0, 1], dtype=[F32, F16]):
        yield case(g)
    for g in grid(form=GROWS, rotary=[0, 1], window=[-1, 1, 3]):
        yield case(g, local_window_size=g["window"])
    for g in grid(form=GROWS, softcap=[0.0, 0.5, 20.0], scale=[0.0, 0.3]):
        yield case(g, softcap=g["softcap"], scale=g["scale"])
    for g in grid(form=GROWS, smooth=[0, 1], sink=[0, 1], window=[-1, 2], bias=[0, "one", "batch"]):
        yield case(g, smooth_softmax=g["smooth"], local_window_size=g["window"])
    for g in grid(form=GROWS, rotary=[1], interleaved=[0, 1], part=[0, 1], ids=[0, 1]):
        yield case(g, rotary_interleaved=g["interleaved"])
    for g in grid(form=["prompt", "step", "batch"], causal=[0, 1]):
        yield case(g, causal=g["causal"])
    # A cache as long as its window is always full; what lies behind the rows of a longer one may be anything.
    for g in grid(form=["slide", "slides"], rotary=[0, 1], packed=[0, 1], dtype=[F32, F16]):
        yield case(g, local_window_size=4, sliding_window_cache=1)
    for g in grid(form=["step"], refused=["k_quant_type", "qk_output"]):
        value = {"k_quant_type": "PER_TENSOR", "qk_output": 1}[g["refused"]]
        yield case(g, **{g["refused"]: value})


@cases
def one_step():
    # Without a cache.
    for g in grid(mask=[0, 1], added=[0, 1], dtype=[F32, F16]):
        d = Draw(str(g))
        t = g["dtype"]

        def inputs(batch):
            own = [d.f(batch, 1, 8, dtype=t) for _ in "qkv"] + [np.ones((batch, 1), np.int32) if g["mask"] else None]
            return own + [None] * 6 + [d.f(24, dtype=t) if g["added"] else None]

        yield Case(named(**g), "DecoderMaskedMultiHeadAttention", MS, [inputs(2), inputs(1)], num_heads=2)
    for g in grid(mask=[0, 1], keys=[1, 6]):
        d = Draw(str(g))
        inputs = lambda batch: (
            [d.f(batch, 1, 8)]
            + [d.f(batch, 2, g["keys"], 4) for _ in "kv"]
            + [np.ones((batch, g["keys"]), np.int32) if g["mask"] else None]
        )
        yield Case("cross_" + named(**g), "DecoderMaskedMultiHeadAttention", MS, [inputs(2), inputs(1)], num_heads=2)
    # With a cache, onnxruntime runs it in one form alone, whose past and present are one buffer.
    for g in grid(mask=[0, 1], bias=[0, 1], added=[0, 1], beams=[0, 1, 2], size=[5, 32]):
        yield Case(
            "buffer_" + named(**g),
            "DecoderMaskedMultiHeadAttention",
            MS,
            [over_buffer(g, 4, 9, 5), over_buffer(g, 2, 40, 39), over_buffer(g, 4, 9, 0)],
            ["y", "present_key", "present_value", "qk"],
            num_heads=2,
            past_present_share_buffer=1,
            output_qk=1,
            scale=0.3 if g["added"] else None,
            mask_filter_value=-3.0 if g["mask"] else None,
        )


def over_buffer(g, batch, room, before):
    """Inputs of a step over a buffer that has so many positions."""
    d, width = Draw(str(g)), 2 * g["size"]
    one = lambda value: np.array([value], np.int32)
    own = [d.f(batch, 1, width) for _ in "qkv"]
    own.append(d.i(0, 2, batch, before + 1) if g["mask"] else None)
    # Beside beams, onnxruntime reads a bias of several sequences at other ones.
    own.append(d.f(1 if g["beams"] else batch, 2, 1, before + 1) if g["bias"] else None)
    own += [d.f(batch, 2, room, g["size"]) for _ in "kv"] + [one(before)]
    beams = g["beams"]
    own += [one(beams), d.i(0, beams, batch // beams, beams, room)] if beams else [None, None]
    return own + [d.f(3 * width) if g["added"] else None]
