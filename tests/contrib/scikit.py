"""Cases of estimators and pipelines of scikit-learn, converted by skl2onnx, with the outputs of onnxruntime.

    sklearn.py FOLDER

Writes a folder for each case as cases.py does: model.onnx, test_data_set_*, tolerance.json. Classifiers are
there with and without ZipMap, which makes a map of each row's probabilities. `tests/contrib/run --sklearn` runs it, and has
the versions of the packages: others fit and convert other models.
"""

import json
import os
import sys

import numpy as np
import onnx
import onnxruntime
from cases import proto_of
from skl2onnx import to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVR, NuSVC, NuSVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

FEATURES = 6

CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "sgd": SGDClassifier(loss="log_loss", random_state=0),
    "tree": DecisionTreeClassifier(max_depth=6, random_state=0),
    "forest": RandomForestClassifier(20, random_state=0),
    "extra_trees": ExtraTreesClassifier(20, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=20, random_state=0),
    "ada_boost": AdaBoostClassifier(n_estimators=10, random_state=0),
    "bagging": BaggingClassifier(random_state=0),
    "voting": VotingClassifier(
        [("a", LogisticRegression()), ("b", GaussianNB())], voting="soft", flatten_transform=False
    ),
    "bayes": GaussianNB(),
    "neighbours": KNeighborsClassifier(),
    "network": MLPClassifier((16,), max_iter=50, random_state=0),
    "discriminant": LinearDiscriminantAnalysis(),
    "svc": SVC(),
    "svc_linear": SVC(kernel="linear"),
    "svc_polynomial": SVC(kernel="poly", coef0=0.5),
    "svc_sigmoid": SVC(kernel="sigmoid"),
    "svc_chances": SVC(probability=True, random_state=0),
    "nu_svc": NuSVC(nu=0.2),
    "scaled_logistic": make_pipeline(StandardScaler(), PolynomialFeatures(), LogisticRegression(max_iter=200)),
    "reduced_forest": make_pipeline(MinMaxScaler(), PCA(3), RandomForestClassifier(20, random_state=0)),
    "selected_tree": make_pipeline(SelectKBest(k=3), Normalizer(), DecisionTreeClassifier(random_state=0)),
}

REGRESSORS = {
    "linear": LinearRegression(),
    "ridge": Ridge(),
    "elastic": ElasticNet(),
    "tree": DecisionTreeRegressor(random_state=0),
    "forest": RandomForestRegressor(20, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=20, random_state=0),
    "neighbours": KNeighborsRegressor(),
    "network": MLPRegressor(hidden_layer_sizes=(16,), max_iter=50, random_state=0),
    "imputed": make_pipeline(SimpleImputer(), TruncatedSVD(3), Ridge()),
    "columns": make_pipeline(
        ColumnTransformer([("one", OneHotEncoder(handle_unknown="ignore"), [0]), ("number", StandardScaler(), [1, 2])]),
        LinearRegression(),
    ),
    "svr": SVR(),
    "svr_linear": SVR(kernel="linear"),
    "svr_polynomial": SVR(kernel="poly", degree=2, coef0=0.5),
    "nu_svr": NuSVR(),
    "linear_svr": LinearSVR(),
    "one_class": OneClassSVM(nu=0.1),
    "isolation": IsolationForest(n_estimators=20, random_state=0),
}

TEXTS = [
    "The quick brown fox.",
    "jumps over the lazy dog",
    "A dog, a fox and \u00e9",
    "Numbers 12 and 34_5: none?",
    "!",
    "fox;fox dog  DOG",
]

# Vectorizers of texts, with the options of their conversion.
VECTORIZERS = {
    "tfidf": (TfidfVectorizer(), {}),
    "pairs": (TfidfVectorizer(ngram_range=(1, 2), stop_words=["the"], sublinear_tf=False), {}),
    "pattern": (TfidfVectorizer(token_pattern="[a-z]{2,}"), {}),
    "separators": (CountVectorizer(), {"separators": [" ", "[.]", r"\?", ",", ";", ":", r"\!"]}),
    "characters": (CountVectorizer(analyzer="char", ngram_range=(1, 2)), {}),
    "cased": (CountVectorizer(lowercase=False, binary=True), {}),
    "classified": (make_pipeline(TfidfVectorizer(), LogisticRegression()), {}),
}


def table(seed, rows):
    """Rows of numbers of which the first is a category."""
    made = np.random.default_rng(seed).standard_normal((rows, FEATURES)).astype(np.float32)
    made[:, 0] = np.abs(made[:, 0] * 2).astype(int)
    return made


def convert(name, estimator, **how):
    """The model of a fitted estimator; none where skl2onnx has none."""
    try:
        return to_onnx(estimator, target_opset={"": 17, "ai.onnx.ml": 3}, **how)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        print(f"{name}: skl2onnx refuses it: {str(error).splitlines()[0]}")


def write(folder, name, estimator, labels, options):
    x = table(1, 200)
    estimator.fit(x, labels(x))
    model = convert(name, estimator, X=x[:1], options=options)
    if model:
        save(folder, name, model, [table(2 + number, rows) for number, rows in enumerate((1, 5, 100))])


def write_texts(folder, name, estimator, options):
    estimator.fit(TEXTS, [0, 1, 0, 1, 1, 0])
    own = {id(estimator): options} if options else None
    model = convert(name, estimator, initial_types=[("x", StringTensorType([None, 1]))], options=own)
    if model:
        for node in model.graph.node:
            # The locale that it has otherwise is not on every machine.
            if node.op_type == "StringNormalizer":
                node.attribute.append(onnx.helper.make_attribute("locale", "C.UTF-8"))
        column = lambda texts: np.array(texts, dtype=object).reshape(-1, 1)
        save(folder, name, model, [column(TEXTS), column(TEXTS[1:2]), column(["nothing known", "dog\tfox"])])


def save(folder, name, model, inputs):
    # One thread: sums of trees in their order, by which votes of equal numbers are told apart.
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    place = f"{folder}/{name}"
    os.makedirs(place)
    onnx.save(model, f"{place}/model.onnx")
    for number, rows in enumerate(inputs):
        data = f"{place}/test_data_set_{number}"
        os.makedirs(data)
        [given] = session.get_inputs()
        open(f"{data}/input_0.pb", "wb").write(proto_of(rows, given.name).SerializeToString())
        for index, value in enumerate(session.run(None, {given.name: rows})):
            open(f"{data}/output_{index}.pb", "wb").write(proto_of(value, f"y{index}").SerializeToString())
    json.dump({"atol": 1e-5, "rtol": 1e-4}, open(f"{place}/tolerance.json", "w"))


def main(folder):
    two = lambda x: (x[:, 1] + x[:, 2] > 0).astype(int)
    three = lambda x: np.array(["low", "middle", "high"])[np.digitize(x[:, 1] * x[:, 2], [-0.3, 0.3])]
    for name, estimator in CLASSIFIERS.items():
        for zipped in (False, True):
            for count, labels in ((2, two), (3, three)):
                case = f"sklearn_{name}__classes{count}_{'maps' if zipped else 'arrays'}"
                write(folder, case, estimator, labels, {id(estimator): {"zipmap": zipped}})
    for name, (estimator, options) in VECTORIZERS.items():
        write_texts(folder, f"sklearn_{name}__texts", estimator, options)
    for name, estimator in REGRESSORS.items():
        write(folder, f"sklearn_{name}__regressor", estimator, lambda x: x[:, 1] * 3 + np.sin(x[:, 2]), None)


if __name__ == "__main__":
    main(*sys.argv[1:])
