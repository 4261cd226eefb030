"""Networks that onnxruntime has optimised for a processor: operators of com.microsoft.nchwc, with weights in blocks.

A case is a network as onnxruntime saves it with all optimisations, and the outputs of the network as it was. Blocks are
as wide as those of the machine that makes the cases: 16 channels with AVX-512, 8 without.
"""

import numpy as np
from case import F32, Case, Draw, cases, grid, named

DOMAIN = "com.microsoft.nchwc"


class Net:
    """A network while it is written."""

    def __init__(self, name, opset=17):
        self.draw, self.name, self.opset = Draw(name), name, opset
        self.nodes, self.constants, self.outputs, self.channels = [], [], [], {}
        self.layouts = {}

    def constant(self, value):
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def image(self, name, channels, last=False):
        self.channels[name], self.layouts[name] = channels, last
        return name

    def op(self, op, *inputs, channels=None, **attributes):
        from onnx import helper

        output = f"v{len(self.nodes)}"
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        self.channels[output] = channels or self.channels.get(inputs[0])
        return output

    def conv(self, x, outputs, kernel=3, group=1, bias=True, scale=1.0, **attributes):
        inputs = self.channels[x] // group
        shape = (outputs, inputs, kernel, kernel)
        weights = self.draw.f(*shape, scale=scale / np.sqrt(inputs * kernel * kernel))
        # Trained channels have scales of their own.
        weights *= np.exp(self.draw.f(outputs, 1, 1, 1, scale=0.5))
        own = [x, self.constant(weights)] + ([self.constant(self.draw.f(outputs))] if bias else [])
        return self.op("Conv", *own, channels=outputs, group=group, **attributes)

    def norm(self, x):
        count = self.channels[x]
        own = [self.draw.f(count), self.draw.f(count), self.draw.f(count), np.abs(self.draw.f(count)) + F32(0.5)]
        return self.op("BatchNormalization", x, *map(self.constant, own), epsilon=1e-5)

    def case(self, *outputs, sizes=((1, 13, 12), (2, 18, 15)), atol=1e-4):
        """A case whose images have these batches, heights and widths."""
        from onnx import TensorProto, helper

        infos, inputs = [], []
        for name, last in self.layouts.items():
            space = ["N", f"{name}_h", f"{name}_w"]
            count = self.channels[name]
            dims = [*space, count] if last else [space[0], count, *space[1:]]
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        for batch, height, width in sizes:
            shapes = [
                (batch, height, width, self.channels[name]) if last else (batch, self.channels[name], height, width)
                for name, last in self.layouts.items()
            ]
            inputs.append([self.draw.f(*shape) for shape in shapes])
        names = [f"y{index}" for index in range(len(outputs))]
        for name, output in zip(names, outputs):
            self.nodes.append(helper.make_node("Identity", [output], [name]))
        results = [helper.make_empty_tensor_value_info(name) for name in names]
        graph = helper.make_graph(self.nodes, "net", infos, results, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        case = Case(self.name, "nchwc", DOMAIN, inputs, len(outputs), atol=atol)
        case.model = model
        return case


def optimised(model):
    """The network as onnxruntime saves it for this machine."""
    import os
    import tempfile

    import onnx
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "model.onnx")
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        saved = onnx.load(options.optimized_model_filepath)
    if not any(node.domain == DOMAIN for node in saved.graph.node):
        raise ValueError("it has no value in blocks")
    return saved


@cases
def convolutions():
    for g in grid(channels=[1, 3, 7, 12], outputs=[16, 20, 24, 40], bias=[0, 1]):
        n = Net("image_" + named(**g))
        y = n.conv(n.image("x0", g["channels"]), g["outputs"], bias=g["bias"], pads=[1] * 4)
        yield n.case(y)
    for g in grid(inputs=[16, 20, 24, 32, 36, 48], outputs=[16, 20, 32, 40], kernel=[1, 3]):
        n = Net("whole_" + named(**g))
        x = n.conv(n.image("x0", 3), g["inputs"], strides=[2, 2])
        yield n.case(n.conv(n.op("Relu", x), g["outputs"], kernel=g["kernel"]))
    for g in grid(inputs=[16, 20, 24, 32], outputs=[32, 24]):
        n = Net("alone_" + named(**g))
        yield n.case(n.conv(n.image("x0", g["inputs"]), g["outputs"]))
        # Nothing but the nodes before it says how many channels this has.
        n = Net("between_" + named(**g))
        x = n.op("Reshape", n.image("x0", g["inputs"]), n.constant(np.array([0, 0, -1, 1], np.int64)))
        yield n.case(n.conv(x, g["outputs"], kernel=1))
    for g in grid(group=[2, 4], each=[16, 32], more=[1, 2]):
        n = Net("group_" + named(**g))
        x = n.conv(n.image("x0", 3), g["group"] * g["each"])
        yield n.case(n.conv(x, g["group"] * g["each"] * g["more"], group=g["group"], pads=[1] * 4))
    for g in grid(channels=[16, 32, 48], kernel=[3, 5], bias=[0, 1], strides=[1, 2], after=[0, 1]):
        n = Net("depthwise_" + named(**g))
        x = n.conv(n.image("x0", 3), g["channels"])
        y = n.conv(x, g["channels"], g["kernel"], g["channels"], g["bias"], strides=[g["strides"]] * 2)
        yield n.case(n.conv(y, 24, kernel=1) if g["after"] else y)
    for g in grid(
        dilations=[[1, 1], [2, 1]], strides=[[1, 1], [2, 3]], pad=["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]
    ):
        if g["pad"].startswith("SAME") and g["dilations"] != [1, 1] and g["strides"] != [1, 1]:
            continue
        n = Net("space_" + named(**g))
        pads = [1, 0, 2, 1] if g["pad"] == "NOTSET" else None
        own = {"dilations": g["dilations"], "strides": g["strides"], "auto_pad": g["pad"], "pads": pads}
        yield n.case(n.conv(n.conv(n.image("x0", 3), 20, **own), 16, **own), sizes=[(1, 37, 41), (2, 30, 33)])


@cases
def functions():
    own = {
        "Relu": {},
        "Sigmoid": {},
        "Tanh": {},
        "LeakyRelu": {"alpha": 0.2},
        "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
        "Clip": {},
    }
    for g in grid(function=own, outputs=[16, 20], residual=[0, 1], again=[0, 1]):
        n = Net("function_" + named(**g))
        x = n.conv(n.image("x0", 3), 20, pads=[1] * 4)
        y = n.conv(x, g["outputs"], pads=[1] * 4)
        if g["residual"]:
            y = n.op("Add", y, n.conv(x, g["outputs"], kernel=1))
        bounds = [n.constant(F32(-0.5)), n.constant(F32(0.6))] if g["function"] == "Clip" else []
        y = n.op(g["function"], y, *bounds, **own[g["function"]])
        yield n.case(n.conv(y, 16), y) if g["again"] else n.case(y)


@cases
def values():
    for g in grid(op=["Add", "Mul", "Sum"], channels=[16, 20, 32], function=["", "Relu", "Sigmoid"]):
        n = Net("pair_" + named(**g))
        x = n.conv(n.image("x0", 3), 16, pads=[1] * 4)
        left, right = (n.op("Relu", n.conv(x, g["channels"], kernel=1)) for _ in "lr")
        y = n.op(g["op"], left, right)
        y = n.op(g["function"], y) if g["function"] else y
        yield n.case(n.conv(y, 16, kernel=1), y)
    # Sizes of which nothing says that they are equal: the block is an axis of its own.
    for g in grid(channels=[16, 20]):
        n = Net("sizes_" + named(**g))
        left, right = (n.conv(n.image(f"x{index}", 3), g["channels"]) for index in (0, 1))
        yield n.case(n.op("Relu", n.op("Add", left, right)))
        n = Net("sizes_then_" + named(**g))
        left, right = (n.conv(n.image(f"x{index}", 3), g["channels"]) for index in (0, 1))
        yield n.case(n.conv(n.op("Add", left, right), 24, kernel=1))
    for g in grid(first=[16, 32, 20], second=[16, 48], after=[0, 1]):
        n = Net("concat_" + named(**g))
        x = n.conv(n.image("x0", 3), 16, pads=[1] * 4)
        parts = [n.op("Relu", n.conv(x, g[name], kernel=1)) for name in ("first", "second")]
        y = n.op("Concat", *parts, channels=g["first"] + g["second"], axis=1)
        yield n.case(n.conv(y, 20) if g["after"] else y)
    for g in grid(channels=[16, 20, 32], function=["", "Relu"]):
        n = Net("norm_" + named(**g))
        x = n.op("Relu", n.conv(n.image("x0", 3), g["channels"]))
        # Two readers, so that it is not folded into the convolution.
        y = n.norm(n.op("MaxPool", x, kernel_shape=[2, 2]))
        y = n.op(g["function"], y) if g["function"] else y
        yield n.case(n.conv(y, 16))
    for g in grid(channels=[16, 20], where=["out", "in", "both"]):
        n = Net("transpose_" + named(**g))
        x = n.image("x0", 16, last=g["where"] != "out")
        if g["where"] != "out":
            x = n.op("Transpose", x, perm=[0, 3, 1, 2])
        y = n.conv(x, g["channels"], pads=[1] * 4)
        yield n.case(n.op("Transpose", y, perm=[0, 2, 3, 1]) if g["where"] != "in" else y)
    n = Net("squeeze")
    x = n.conv(n.image("x0", 3), 32)
    gate = n.conv(n.op("Relu", n.conv(n.op("GlobalAveragePool", x), 16, kernel=1)), 32, kernel=1)
    yield n.case(n.conv(n.op("Mul", x, n.op("Sigmoid", gate)), 16))


@cases
def pools():
    for g in grid(
        op=["MaxPool", "AveragePool"], ceil=[0, 1], pads=[[0] * 4, [1, 0, 1, 1]], strides=[1, 2], include=[0, 1]
    ):
        if g["op"] == "MaxPool" and g["include"]:
            continue
        n = Net("pool_" + named(**g))
        x = n.conv(n.image("x0", 3), 32)
        include = {"count_include_pad": g["include"]} if g["op"] == "AveragePool" else {}
        own = {"kernel_shape": [3, 2], "pads": g["pads"], "strides": [g["strides"]] * 2, "ceil_mode": g["ceil"]}
        yield n.case(n.op(g["op"], x, **own, **include))
    for g in grid(op=["MaxPool", "AveragePool"], pad=["SAME_UPPER", "SAME_LOWER", "VALID"], strides=[1, 2]):
        n = Net("pool_" + named(**g))
        x = n.conv(n.image("x0", 3), 16)
        yield n.case(n.op(g["op"], x, kernel_shape=[3, 3], strides=[g["strides"]] * 2, auto_pad=g["pad"]))
    n = Net("pool_dilated")
    yield n.case(n.op("MaxPool", n.conv(n.image("x0", 3), 16), kernel_shape=[2, 3], dilations=[2, 2]))
    for g in grid(op=["MaxPool", "AveragePool"], channels=[16, 32]):
        n = Net("pool_first_" + named(**g))
        yield n.case(n.conv(n.op(g["op"], n.image("x0", g["channels"]), kernel_shape=[2, 2]), 16))
    for g in grid(op=["GlobalMaxPool", "GlobalAveragePool"], channels=[16, 20], after=[0, 1]):
        n = Net("global_" + named(**g))
        y = n.op(g["op"], n.op("Relu", n.conv(n.image("x0", 3), g["channels"])))
        yield n.case(n.conv(y, 16, kernel=1) if g["after"] else y)


@cases
def sizes():
    for g in grid(op=["Resize", "Upsample"], scales=[(2, 2), (3, 1)], mode=["nearest", "linear"], channels=[16, 20]):
        n = Net("up_" + named(**g), opset=9 if g["op"] == "Upsample" else 17)
        x = n.conv(n.image("x0", 3), g["channels"])
        scales = n.constant(np.array([1, 1, *g["scales"]], F32))
        if g["op"] == "Upsample":
            yield n.case(n.op("Upsample", x, scales, mode=g["mode"]))
            continue
        modes = ["asymmetric", "half_pixel", "align_corners"] if g["mode"] == "linear" else ["asymmetric"]
        for coordinates in modes:
            n = Net("up_" + named(**g) + coordinates)
            x = n.conv(n.image("x0", 3), g["channels"])
            scales = n.constant(np.array([1, 1, *g["scales"]], F32))
            own = {"mode": g["mode"], "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
            yield n.case(n.conv(n.op("Resize", x, "", scales, **own), 16, kernel=1))


@cases
def networks():
    for g in grid(width=[16, 24, 32], blocks=[1, 3], opset=[11, 17]):
        n = Net("residual_" + named(**g), g["opset"])
        x = n.op("Relu", n.norm(n.conv(n.image("x0", 3), g["width"], 7, bias=0, strides=[2, 2], pads=[3] * 4)))
        x = n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        for block in range(g["blocks"]):
            count = g["width"] << block
            own = {"bias": 0, "pads": [1] * 4}
            y = n.op("Relu", n.norm(n.conv(x, count, strides=[1 + (block > 0)] * 2, **own)))
            y = n.norm(n.conv(y, count, **own))
            if block:
                x = n.norm(n.conv(x, count, kernel=1, bias=0, strides=[2, 2]))
            x = n.op("Relu", n.op("Add", y, x))
        y = n.op("Flatten", n.op("GlobalAveragePool", x))
        y = n.op("MatMul", y, n.constant(n.draw.f(n.channels[x], 10, scale=0.2)))
        yield n.case(y, sizes=[(1, 64, 64), (2, 48, 80)], atol=1e-3)
