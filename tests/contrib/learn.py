"""Cases of ai.onnx.ml: tables, linear models, trees."""

import collections

import numpy as np

from case import F32, F64, ML, Case, Draw, cases, grid, named


@cases
def tables():
    for g in grid(dtype=[F32, F64, np.int64, np.int32], offset=[0, 1, 3], scale=[1, 3], rank=[1, 2]):
        d = Draw(str(g))
        shape = lambda n: (n, 3) if g["rank"] == 2 else (3,)
        inputs = lambda n: [(d.f(*shape(n)) * 10).astype(g["dtype"])]
        yield Case(
            named(**g),
            "Scaler",
            ML,
            [inputs(2), inputs(5)],
            offset=d.f(g["offset"]).tolist() or None,
            scale=d.f(g["scale"]).tolist(),
        )
    for g in grid(texts=[0, 1], rank=[1, 2]):
        d = Draw(str(g))
        inputs = lambda n: [d.f(*((n, 3) if g["rank"] == 2 else (3,)))]
        labels = {"classlabels_strings": ["no", "yes", "perhaps"]} if g["texts"] else {"classlabels_int64s": [4, -7, 9]}
        yield Case(named(**g), "ZipMap", ML, [inputs(2), inputs(5)], **labels)
    for g in grid(texts=[0, 1], default=[0, 1], rank=[1, 2]):
        d = Draw(str(g))

        def inputs(n):
            made = d.i(0, 5, *((n, 3) if g["rank"] == 2 else (n,)), dtype=np.int64)
            return [np.array(list("abcde"), dtype=object)[made] if g["texts"] else made]

        defaults = {"default_int64": 77, "default_string": "none"} if g["default"] else {}
        lists = {"cats_strings": ["a", "d", "c"], "cats_int64s": [2, 3, 0]}
        yield Case(named(**g), "CategoryMapper", ML, [inputs(2), inputs(5)], **lists, **defaults)
    for g in grid(norm=["MAX", "L1", "L2"], dtype=[F32, F64, np.int64], rank=[1, 2]):
        d = Draw(str(g))
        shape = lambda n: (n, 3) if g["rank"] == 2 else (3,)

        def inputs(n):
            made = (d.f(*shape(n)) * 10).astype(g["dtype"])
            if g["rank"] == 2:
                made[0] = 0
            return [made]

        yield Case(named(**g), "Normalizer", ML, [inputs(2), inputs(5)], norm=g["norm"])
    for g in grid(dtype=[F32, np.int64], each=[0, 1], nan=[0, 1]):
        d = Draw(str(g))
        if g["dtype"] == F32:
            replaced = float("nan") if g["nan"] else 3.0
            values = {"imputed_value_floats": d.f(4 if g["each"] else 1).tolist(), "replaced_value_float": replaced}
        else:
            replaced, values = (
                2,
                {"imputed_value_int64s": d.i(5, 9, 4 if g["each"] else 1).tolist(), "replaced_value_int64": 2},
            )

        def inputs(n):
            made = d.i(0, 4, n, 4).astype(g["dtype"])
            made[0, 1] = replaced
            return [made]

        yield Case(named(**g), "Imputer", ML, [inputs(2), inputs(5)], **values)
    for g in grid(
        targets=[1, 3], intercepts=[0, 1], post=["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"], rank=[1, 2]
    ):
        d = Draw(str(g))
        inputs = lambda n: [d.f(*((n, 4) if g["rank"] == 2 else (4,)))]
        yield Case(
            named(**g),
            "LinearRegressor",
            ML,
            [inputs(2), inputs(5)],
            coefficients=d.f(4 * g["targets"]).tolist(),
            intercepts=d.f(g["targets"]).tolist() if g["intercepts"] else None,
            targets=g["targets"],
            post_transform=g["post"],
        )
    for g in grid(
        classes=[1, 2, 3],
        one=[0, 1],
        texts=[0, 1],
        post=["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"],
        dtype=[F32, F64, np.int64],
    ):
        d = Draw(str(g))
        rows = 1 if g["one"] else g["classes"]
        if g["one"] and g["classes"] == 3 or not g["one"] and g["classes"] == 1:
            continue
        inputs = lambda n: [(d.f(n, 4) * 3).astype(g["dtype"])]
        labels = {"classlabels_strings": ["no", "yes", "perhaps"]} if g["texts"] else {"classlabels_ints": [4, 7, 9]}
        labels = {key: value[: g["classes"]] for key, value in labels.items()}
        yield Case(
            named(**g),
            "LinearClassifier",
            ML,
            [inputs(2), inputs(5)],
            ["label", "scores"],
            coefficients=d.f(4 * rows).tolist(),
            intercepts=d.f(rows).tolist(),
            post_transform=g["post"],
            multi_class=0,
            **labels,
        )
    for g in grid(kind=["strings", "int64s", "float"], zeros=[0, 1], rank=[1, 2]):
        d = Draw(str(g))
        names = np.array(["a", "bb", "c", "x"], object)

        def inputs(n):
            made = d.i(0, 4, *((n, 3) if g["rank"] == 2 else (n,)), dtype=np.int64)
            if not g["zeros"]:
                made = np.minimum(made, 2)
            return [names[made] if g["kind"] == "strings" else made.astype(F32) if g["kind"] == "float" else made]

        values = {"cats_strings": ["a", "bb", "c"]} if g["kind"] == "strings" else {"cats_int64s": [0, 1, 2]}
        yield Case(named(**g), "OneHotEncoder", ML, [inputs(2), inputs(5)], zeros=g["zeros"], **values)
    for g in grid(dtype=[F32, F64, np.int64], count=[1, 3]):
        d = Draw(str(g))
        inputs = lambda n: [(d.f(n, i + 1) * 5).astype(g["dtype"]) for i in range(g["count"])]
        yield Case(
            named(**g),
            "FeatureVectorizer",
            ML,
            [inputs(2), inputs(5)],
            inputdimensions=[i + 1 for i in range(g["count"])],
        )


def trees(d, count, depth, features, classes, of, modes, whole):
    """Complete trees: their attributes, and ids of targets drawn from `classes`."""
    made = collections.defaultdict(list)
    for tree in range(count):
        inner = 2**depth - 1
        for node in range(2 * inner + 1):
            leaf = node >= inner
            made["nodes_treeids"].append(tree)
            made["nodes_nodeids"].append(node)
            made["nodes_modes"].append("LEAF" if leaf else modes[int(d.i(0, len(modes)))])
            made["nodes_featureids"].append(0 if leaf else int(d.i(0, features)))
            made["nodes_values"].append(0.0 if leaf else float(d.i(-3, 4)) if whole else float(d.f()))
            made["nodes_truenodeids"].append(0 if leaf else 2 * node + 1)
            made["nodes_falsenodeids"].append(0 if leaf else 2 * node + 2)
            made["nodes_missing_value_tracks_true"].append(0 if leaf else int(d.i(0, 2)))
            for target in classes if leaf else []:
                made[f"{of}_treeids"].append(tree)
                made[f"{of}_nodeids"].append(node)
                made[f"{of}_ids"].append(target)
                made[f"{of}_weights"].append(float(d.f()))
    return made


ALL = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


@cases
def forests():
    for g in grid(
        targets=[1, 2],
        aggregate=["SUM", "AVERAGE", "MIN", "MAX"],
        post=["NONE", "LOGISTIC", "SOFTMAX"],
        base=[0, 1],
        modes=["one", "all"],
        dtype=[F32, F64, np.int64],
    ):
        d = Draw(str(g))
        own = trees(
            d, 5, 3, 4, range(g["targets"]), "target", ALL[:1] if g["modes"] == "one" else ALL, g["modes"] == "all"
        )

        def inputs(n):
            made = (d.f(n, 4) * 2).astype(g["dtype"]) if g["modes"] == "one" else d.i(-3, 4, n, 4).astype(g["dtype"])
            if g["dtype"] != np.int64 and g["modes"] == "one":
                made[0, 1] = np.nan
            return [made]

        yield Case(
            named(**g),
            "TreeEnsembleRegressor",
            ML,
            [inputs(3), inputs(70)],
            n_targets=g["targets"],
            aggregate_function=g["aggregate"],
            post_transform=g["post"],
            base_values=d.f(g["targets"]).tolist() if g["base"] else None,
            **own,
        )
    for g in grid(
        classes=["one", "two", "three"],
        sign=["positive", "mixed"],
        post=["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"],
        texts=[0, 1],
        base=[0, 1, 2],
        dtype=[F32, np.int64],
    ):
        d = Draw(str(g))
        count = 3 if g["classes"] == "three" else 2
        ids = {"one": [0], "two": [0, 1], "three": [0, 1, 2]}[g["classes"]]
        if g["base"] and g["base"] != count and not (g["base"] == 1 and count == 2):
            continue
        own = trees(d, 5, 3, 4, ids, "class", ALL[:1], False)
        if g["sign"] == "positive":
            own["class_weights"] = [abs(weight) / 5 for weight in own["class_weights"]]
        labels = {"classlabels_strings": ["no", "yes", "perhaps"]} if g["texts"] else {"classlabels_int64s": [4, 7, 9]}
        labels = {key: value[:count] for key, value in labels.items()}
        inputs = lambda n: [(d.f(n, 4) * 2).astype(g["dtype"])]
        yield Case(
            named(**g),
            "TreeEnsembleClassifier",
            ML,
            [inputs(3), inputs(70)],
            ["label", "scores"],
            post_transform=g["post"],
            base_values=d.f(g["base"]).tolist() if g["base"] else None,
            version=3,
            **labels,
            **own,
        )


@cases
def machines():
    """Support vector machines: one feature row after the other, kernels, and votes of pairs of classes."""
    kernels = ["LINEAR", "POLY", "RBF", "SIGMOID"]
    for g in grid(kernel=kernels, vectors=[0, 5], one=[0, 1], post=["NONE", "LOGISTIC", "SOFTMAX"]):
        d = Draw(str(g))
        count = g["vectors"]
        yield Case(
            named(**g),
            "SVMRegressor",
            ML,
            [[d.f(2, 3)], [d.f(150, 3)]],
            kernel_type=g["kernel"],
            kernel_params=[0.5, 0.3, 3.0],
            coefficients=d.f(count or 3).tolist(),
            support_vectors=d.f(count * 3).tolist() or None,
            n_supports=count,
            rho=d.f(1).tolist(),
            one_class=g["one"],
            post_transform=g["post"],
        )
    for g in grid(
        classes=[2, 3, 5],
        kernel=kernels,
        post=["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"],
        chances=[0, 1],
        texts=[0, 1],
        dtype=[F32, F64, np.int64],
    ):
        if g["kernel"] != "RBF" and (g["post"] != "NONE" or g["dtype"] != F32):
            continue
        d = Draw(str(g))
        classes = g["classes"]
        counts = [2, 3, 1, 2, 4][:classes]
        pairs = classes * (classes - 1) // 2
        names = {"classlabels_strings": list("abcde")} if g["texts"] else {"classlabels_ints": [4, 7, 9, -1, 2]}
        yield Case(
            named(**g),
            "SVMClassifier",
            ML,
            [[(d.f(2, 3) * 2).astype(g["dtype"])], [(d.f(150, 3) * 2).astype(g["dtype"])]],
            ["label", "scores"],
            kernel_type=g["kernel"],
            kernel_params=[0.5, 0.3, 3.0],
            coefficients=d.f(sum(counts) * (classes - 1)).tolist(),
            support_vectors=d.f(sum(counts) * 3).tolist(),
            vectors_per_class=counts,
            rho=d.f(pairs).tolist(),
            prob_a=(-0.5 - d.rng.random(pairs)).tolist() if g["chances"] else None,
            prob_b=d.f(pairs, scale=0.3).tolist() if g["chances"] else None,
            post_transform=g["post"],
            **{name: values[:classes] for name, values in names.items()},
        )
    for g in grid(classes=[1, 2, 3], post=["NONE", "LOGISTIC", "SOFTMAX"], positive=[0, 1]):
        d = Draw(str(g))
        coefficients = d.f(g["classes"] * 3)
        yield Case(
            "linear_" + named(**g),
            "SVMClassifier",
            ML,
            [[d.f(2, 3)], [d.f(70, 3)]],
            ["label", "scores"],
            coefficients=(abs(coefficients) if g["positive"] else coefficients).tolist(),
            classlabels_ints=[4, 7, 9][: g["classes"]],
            rho=d.f(g["classes"]).tolist(),
            post_transform=g["post"],
        )
