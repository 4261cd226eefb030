"""Cases of com.microsoft: products by weights that are quantised by blocks, and tables of such weights."""

import numpy as np

from case import F16, F32, MS, Case, Draw, cases, grid, named


def packed(d, bits, *shape):
    """Codes of so many bits along the last axis, several a byte; what pads the last byte may be anything."""
    return d.bytes(np.uint8, *shape[:-1], -(-shape[-1] * bits // 8))


@cases
def products():
    for g in grid(
        bits=[2, 4, 8], block=[16, 32, 64, 128], zero=["none", "bytes", "floats"], level=[0, 4], dtype=[F32, F16]
    ):
        d = Draw(str(g))
        t, bits, block = g["dtype"], g["bits"], g["block"]
        k, n = 3 * block - (5 if d.i(0, 2) else 0), 21
        blocks = -(-k // block)
        weights = packed(d, bits, n, blocks, block)
        scales = (0.02 * d.f(n * blocks)).astype(t)
        zero = {"none": None, "bytes": packed(d, bits, n, blocks).reshape(-1), "floats": d.f(n * blocks, dtype=t)}
        # Level 4 lets activations be quantised to bytes by blocks, which costs a hundredth of what is added.
        near = 0.05 * 2 ** (bits - 4) if g["level"] else (0.02 if t == F16 else None)
        for bias in [None, d.f(n, dtype=t)]:
            yield Case(
                named(**g) + ("_bias" if bias is not None else ""),
                "MatMulNBits",
                MS,
                [[d.f(*lead, k, dtype=t), weights, scales, zero[g["zero"]], None, bias] for lead in ((1, 3), (2, 9))],
                constant=range(1, 6),
                atol=near and near * (k**0.5),
                K=k,
                N=n,
                bits=bits,
                block_size=block,
                accuracy_level=g["level"],
            )


@cases
def tables():
    # Blocks of K = 64 are within columns, those of 52 and 53 run over their ends.
    for g in grid(kind=[0, 1], k=[64, 52, 53], block=[16, 64], dtype=[F32, F16]):
        d = Draw(str(g))
        t, k, n = g["dtype"], g["k"], 5
        codes, scales = d.bytes(np.uint8, -(-k * n // 2)), (0.02 * d.f(-(-k * n // g["block"]))).astype(t)
        yield Case(
            named(**g),
            "MatMulBnb4",
            MS,
            [[d.f(*lead, k, dtype=t), codes, scales] for lead in ((1, 3), (2, 9))],
            constant=[1, 2],
            atol=0.02 if t == F16 else None,
            K=k,
            N=n,
            block_size=g["block"],
            quant_type=g["kind"],
        )
    for g in grid(
        bits=[2, 4, 8],
        block=[16, 128],
        zero=[0, 1],
        dtype=[F32, F16],
        index=[np.int32, np.int64],
        rank=[2, 3],
        several=[0, 1],
    ):
        d = Draw(str(g))
        t, bits, block = g["dtype"], g["bits"], g["block"]
        lead = (9,) if g["rank"] == 2 else (9, 2)
        k = 3 * block - 8
        blocks = -(-k // block)
        data, scales = packed(d, bits, *lead, k), (0.02 * d.f(*lead, blocks)).astype(t)
        zero = [packed(d, bits, *lead, blocks)] if g["zero"] else []
        places = [(2, 3), (1, 5)] if g["several"] else [(4,), (7,)]
        yield Case(
            named(**g),
            "GatherBlockQuantized",
            MS,
            [[data, d.i(-11, 11, *at, dtype=g["index"]), scales] + zero for at in places],
            constant=[0, 2, 3],
            bits=bits,
            block_size=block,
            gather_axis=0,
            quantize_axis=len(lead),
        )
