"""Cases of com.microsoft: texts, and operators that are met seldom."""

import numpy as np
from case import F16, F32, F64, MS, Case, Draw, cases, grid, named

# Characters of one to four bytes, and what separates words.
ALPHABET = list("abcdefgABC019_-. ,;\t\n") + ["\u00e9", "\u00df", "\u03bb", "\u65e5", "\U0001f600", "\u0301", "\u00a0"]

SEPARATORS = {
    "none": [""],
    "space": [" "],
    "many": [" ", ",", ";"],
    "longest": ["a|ab|abc"],
    "classes": [r"\s+", r"[\d_]+"],
    "nothing": ["b*"],
    "border": [r"\b"],
    "start": ["^"],
    "literal": [r"\.", r"\-", r"\Q.,\E"],
    "beyond": ["\u00e9", "[\u03bb\u65e5]+", r"\pM"],
    "case": ["(?i)[ab]C?"],
}
TOKENS = {
    "one": ".",
    "word": r"\w+",
    "letters": "[a-zA-Z0-9_]+",
    "wide": r"\pL+",
    "lazy": "[a-c]+?",
    "nothing": "[a-c]*",
    "border": r"\b\w",
    "negated": r"[^\s,;]+",
    "count": "[a-z]{2,3}",
    "brace": "a{|[[]|[&&b]",
    "posix": "[[:alpha:]]+",
}


def text(d, length):
    return "".join(np.array(ALPHABET, dtype=object)[d.i(0, len(ALPHABET), length)])


@cases
def tokens():
    kinds = [("separators", name) for name in SEPARATORS] + [("tokenexp", name) for name in TOKENS]
    for g in grid(kind=kinds, mark=[0, 1], least=[1, 2, 3], rank=[1, 2]):
        if g["least"] > 1 and g["kind"][1] in ("none", "one"):
            continue
        by, name = g["kind"]
        d = Draw(str(g))

        def inputs(n):
            made = np.array([text(d, int(d.i(0, 20))) for _ in range(2 * n)], dtype=object)
            return [made.reshape(n, 2) if g["rank"] == 2 else made]

        value = SEPARATORS[name] if by == "separators" else TOKENS[name]
        yield Case(
            named(by=by, kind=name, mark=g["mark"], least=g["least"], rank=g["rank"]),
            "Tokenizer",
            MS,
            [inputs(1), inputs(4)],
            mark=g["mark"],
            mincharnum=g["least"],
            pad_value="#",
            **{by: value},
        )
    empty = lambda *shape: [np.zeros(shape, dtype=object)]
    for by, value in (("separators", [""]), ("tokenexp", "a")):
        for shape in ((0,), (2, 0), (0, 2)):
            yield Case(
                f"empty_{by}_{len(shape)}_{shape[0]}",
                "Tokenizer",
                MS,
                [empty(*shape), empty(*shape)],
                mark=1,
                mincharnum=1,
                pad_value="",
                **{by: value},
            )


@cases
def hashes():
    dtypes = [np.int32, np.uint32, np.int64, np.uint64, F32, F64, object]
    for g in grid(dtype=dtypes, positive=[None, 0, 1], seed=[None, 7, -3]):
        d = Draw(str(g))

        def inputs(n):
            if g["dtype"] is object:
                return [np.array([text(d, int(d.i(0, 9))) for _ in range(3 * n)], dtype=object).reshape(n, 3)]
            numbers = d.f(n, 3) * 100
            return [(np.abs(numbers) if np.dtype(g["dtype"]).kind == "u" else numbers).astype(g["dtype"])]

        yield Case(named(**g), "MurmurHash3", MS, [inputs(2), inputs(5)], positive=g["positive"], seed=g["seed"])


@cases
def seldom():
    for g in grid(size=[1, 2, 3, 5], tokens=[3, 6]):
        d = Draw(str(g))
        inputs = lambda n, length: [d.i(0, g["tokens"], n, length, dtype=np.int64), d.f(n, g["tokens"])]
        yield Case(named(**g), "NGramRepeatBlock", MS, [inputs(2, 12), inputs(3, 4)], ngram_size=g["size"])
    for g in grid(dtype=[F32, F64, np.int32, np.int64], dim=[None, 0, 1, -2], size=[1, 3], step=[None, 2, 3]):
        d = Draw(str(g))
        inputs = lambda n: [(d.f(n, 5, n + 1) * 10).astype(g["dtype"])]
        attributes = {"dim": g["dim"], "size": g["size"], "step": g["step"]}
        yield Case(named(**g), "UnfoldTensor", MS, [inputs(3), inputs(6)], **attributes)
    for g in grid(rank=[2, 3], ties=[0, 1]):
        d = Draw(str(g))

        def inputs(rows, columns):
            costs = d.i(0, 3, rows, columns).astype(F32) if g["ties"] else d.f(rows, columns)
            return [costs[None] if g["rank"] == 3 else costs]

        yield Case(named(**g), "DynamicTimeWarping", MS, [inputs(4, 7), inputs(9, 3)])
    crops = [(1, 1), (2, 3), (5, 1)]
    for g in grid(mode=[None, "bilinear", "nearest"], outside=[None, -2.5], crop=crops, inside=[0, 1]):
        d = Draw(str(g))

        def inputs(n, height, width):
            boxes = d.rng.random((n, 4)).astype(F32) if g["inside"] else d.f(n, 4)
            images = d.i(0, 2, n)
            return [d.f(2, 3, height, width), boxes, images, np.array(g["crop"], np.int32)]

        yield Case(
            named(**g),
            "CropAndResize",
            MS,
            [inputs(2, 4, 5), inputs(5, 7, 3)],
            mode=g["mode"],
            extrapolation_value=g["outside"],
        )
    for g in grid(window=[1, 2, 3], stated=[0, 1]):
        d = Draw(str(g))
        filters, size = 5, 4

        def inputs(n, length):
            words = d.i(1, 9, n, length)
            for word, end in zip(words, d.i(1, length + 1, n)):
                word[end:] = 0
            weights = [d.f(filters, 1, g["window"], size), d.f(filters), d.f(9, size)]
            return [words, *weights]

        names = {"embedding_size": filters, "conv_window_size": g["window"], "char_embedding_size": size}
        stated = names if g["stated"] else {}
        yield Case(named(**g), "WordConvEmbedding", MS, [inputs(3, 6), inputs(4, 4)], **stated)
    for dtype in (np.int16, np.int32, np.int64, F32, F64):
        for shape in ((), (1,)):
            bound = lambda value: np.full(shape, value, dtype)
            whole, steps = [bound(1), bound(6)], [bound(6), bound(0), bound(-2)]
            yield Case(f"{dtype.__name__}_{len(shape)}_whole", "Range", MS, [whole, [bound(-2), bound(1)]])
            yield Case(f"{dtype.__name__}_{len(shape)}_steps", "Range", MS, [steps, [bound(1), bound(9), bound(3)]])
    for g in grid(mode=[None, "bilinear", "nearest", "bicubic"], padding=[None, "border", "reflection"], align=[0, 1]):
        d = Draw(str(g))
        inputs = lambda n: [d.f(n, 3, 5, 4), d.f(n, 3, 2, 2)]
        attributes = {"mode": g["mode"], "padding_mode": g["padding"], "align_corners": g["align"]}
        yield Case(named(**g), "GridSample", MS, [inputs(1), inputs(2)], **attributes)
    yield Case("same", "SampleOp", MS, [[Draw("same").f(2, 3)], [Draw("other").f(4, 3)]])


@cases
def gates():
    for g in grid(dtype=[F32, F16], alpha=[None, 1.702], scale=[None, F32, F16]):
        d = Draw(str(g))
        scale = [] if g["scale"] is None else [np.array(0.75, g["scale"])]
        inputs = lambda n: [d.f(n, 3, dtype=g["dtype"]), *scale]
        yield Case(named(**g), "ScaledSiLU", MS, [inputs(2), inputs(5)], alpha=g["alpha"])
    for dtype in (F32, F16):
        d = Draw(dtype.__name__)
        inputs = lambda n: [d.f(n, 2, 4, dtype=dtype), d.f(n, 2, 4, dtype=dtype), d.f(n, 2, 1, dtype=dtype)]
        yield Case(dtype.__name__, "GatedAdd", MS, [inputs(2), inputs(5)])
    for g in grid(dtype=[F32, F16], heads=[1, 3], activation=[None, "silu", "swish", "sigmoid"], epsilon=[None, 1e-2]):
        d = Draw(str(g))
        wide = lambda n: d.f(n, 2, 4 * g["heads"], dtype=g["dtype"])
        inputs = lambda n: [wide(n), d.f(4, dtype=g["dtype"]), wide(n)]
        attributes = {"activation": g["activation"], "epsilon": g["epsilon"]}
        yield Case(named(**g), "GatedRMSNorm", MS, [inputs(2), inputs(5)], **attributes)
