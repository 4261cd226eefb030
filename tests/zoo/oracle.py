"""The same network with its dynamically quantised products computed in f32: weights are what their codes say, and
activations are as they were. What is quantised to be multiplied moves by half a step in every product, and a step grows
on its way to the output; so a network of such products is judged by its distance from this one.

Products of integers whose left side is quantised at run time are rewritten (MatMulInteger, ConvInteger,
DynamicQuantizeLSTM), and so are the sums of their results and a bias in whole steps; all else stays.
"""
import numpy as np
import onnx
from onnx import helper, numpy_helper


class Rewriter:
    """One graph, and what its initialisers are."""

    def __init__(self, graph, outer):
        self.graph = graph
        self.values = {**outer, **{one.name: one for one in graph.initializer}}
        self.makers = {output: node for node in graph.node for output in node.output}
        self.added = 0
        # Values that were sums of integers and are floats now.
        self.floats = set()

    def number(self, name):
        return numpy_helper.to_array(self.values[name])

    def constant(self, array):
        name = f"oracle_{self.graph.name}_{self.added}"
        self.added += 1
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def weight(self, node, weight, zero):
        """The weight of a product of integers without its zero point, one a column or one for all."""
        codes = self.number(node.input[weight]).astype(np.float32)
        if len(node.input) > zero and node.input[zero]:
            codes = codes - self.number(node.input[zero]).astype(np.float32)
        return self.constant(codes)

    def rewritten(self, node):
        """What stands in the place of a node; None where it stays."""
        if node.op_type in ("MatMulInteger", "ConvInteger"):
            source = self.makers.get(node.input[0])
            if source is None or source.op_type != "DynamicQuantizeLinear" or node.input[1] not in self.values:
                return None
            # Those behind the product multiply by the step, which it has not.
            plain = node.output[0] + "_plain"
            operator = "MatMul" if node.op_type == "MatMulInteger" else "Conv"
            product = helper.make_node(operator, [source.input[0], self.weight(node, 1, 3)], [plain])
            product.attribute.extend(node.attribute)
            self.floats.add(node.output[0])
            return [product, helper.make_node("Div", [plain, source.output[1]], list(node.output))]
        if node.op_type == "Add" and self.floats & set(node.input):
            # A bias in whole steps.
            self.floats.add(node.output[0])
            wide = [name if name in self.floats else f"{name}_of_{node.output[0]}" for name in node.input]
            casts = [
                helper.make_node("Cast", [name], [made], to=onnx.TensorProto.FLOAT)
                for name, made in zip(node.input, wide)
                if name != made
            ]
            return casts + [helper.make_node("Add", wide, list(node.output))]
        if node.op_type == "DynamicQuantizeLSTM":
            (data, weights, recurrence, *others), steps = list(node.input)[:8], list(node.input)[8:]
            scaled = lambda name, step, zero: self.constant(np.swapaxes(
                (self.number(name).astype(np.float32) - spread(self.number(zero))) * spread(self.number(step)), 1, 2))
            spread = lambda array: np.asarray(array, np.float32).reshape(len(array), 1, -1)
            inputs = [data, scaled(weights, steps[0], steps[1]), scaled(recurrence, steps[2], steps[3]), *others]
            made = helper.make_node("LSTM", inputs, list(node.output), name=node.name)
            made.attribute.extend(node.attribute)
            return [made]
        return None

    def run(self):
        """Rewrites the graph and those within it; how many products there were."""
        count, nodes = 0, []
        for node in self.graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    count += Rewriter(attribute.g, self.values).run()
            made = self.rewritten(node)
            count += made is not None
            nodes.extend([node] if made is None else made)
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        declared = [one for one in self.graph.value_info if one.name not in self.floats]
        del self.graph.value_info[:]
        self.graph.value_info.extend(declared)
        return count


def in_f32(model):
    """The model with its quantised products in f32; None where it has none."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied if Rewriter(copied.graph, {}).run() else None
