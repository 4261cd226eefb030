"""Operators of ONNX's first releases that onnxruntime still has: Affine, Crop, DynamicSlice, ImageScaler and others."""

import numpy as np
from case import Case, Draw, cases, grid, named


#: An operator set that has them: from 10 on onnxruntime takes them for removed.
OPSET = 9


@cases
def functions():
    for g in grid(op=["Affine", "Scale", "ParametricSoftplus", "ScaledTanh"], given=[0, 1]):
        d = Draw(str(g))
        if not g["given"] and g["op"] in ("ParametricSoftplus", "ScaledTanh"):
            continue
        both = dict(alpha=1.7, beta=-0.6)
        attributes = {} if not g["given"] else dict(scale=0.3) if g["op"] == "Scale" else both
        yield Case("Early_" + named(**g), g["op"], "", [[d.f(3, 5)], [d.f(2, 9)]], opset=OPSET, **attributes)


@cases
def images():
    for g in grid(scale=[None, 0.5], channels=[1, 3]):
        d = Draw(str(g))
        inputs = lambda n, size: [d.f(n, g["channels"], size, size + 1)]
        bias = [float(value) for value in d.f(g["channels"])]
        yield Case(
            "ImageScaler_" + named(**g),
            "ImageScaler",
            "",
            [inputs(2, 4), inputs(1, 7)],
            opset=OPSET,
            scale=g["scale"],
            bias=bias,
        )
    for g in grid(border=[[0, 0, 0, 0], [1, 2, 3, 1], [0, 1, 2, 0]], scale=[None, [3, 2]]):
        d = Draw(str(g))
        inputs = lambda n, size: [d.f(n, 2, size, size + 2)]
        yield Case("Crop_" + named(**g), "Crop", "", [inputs(2, 8), inputs(1, 9)], opset=OPSET, **g)
    for axes in (None, [1], [2, 0]):
        d, count = Draw(str(axes)), len(axes or [0, 1, 2])
        limits = [np.array([1] * count), np.array([-1] * count)] + ([np.array(axes)] if axes else [])
        inputs = lambda *shape: [d.f(*shape), *limits]
        yield Case(f"DynamicSlice_axes{axes}", "DynamicSlice", "", [inputs(4, 5, 6), inputs(3, 7, 4)], opset=OPSET)
