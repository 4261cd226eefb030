"""Sessions in the processes of Dask, MLflow and Spark, which get them by pickling or load them by onnxruntime's names.

What is not installed is skipped.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import python
from encoder import encoder, sentences

import kiln


def embed(text: Any, session: kiln.Session) -> Any:
    [[embedding]] = session.run(["embedding"], {"ids": text[None]})
    return embedding


def test_a_session_that_is_pickled_has_its_model_and_options(tmp_path: Path) -> None:
    path = tmp_path / "encoder.onnx"
    path.write_bytes(encoder())
    session = kiln.Session(path, cache_mode="memory", threads=1)
    pickled = pickle.dumps(session)
    assert len(pickled) < 1000, "it holds the path, and not the model"
    text = sentences(1)[0]
    np.testing.assert_array_equal(embed(text, pickle.loads(pickled)), embed(text, session))


def test_processes_of_dask_run_a_session(tmp_path: Path) -> None:
    pytest.importorskip("dask", reason="Dask is not installed")
    program = """
import sys
import dask, numpy as np, kiln
from encoder import sentences
from test_frameworks import embed

session = kiln.Session(sys.argv[1], cache_mode="memory", threads=1)
texts = sentences(20)
tasks = [dask.delayed(embed)(text, session) for text in texts]
found = dask.compute(*tasks, scheduler="processes", num_workers=2)
for text, embedding in zip(texts, found):
    np.testing.assert_array_equal(embedding, embed(text, session))
print(len(found))
"""
    path = tmp_path / "encoder.onnx"
    path.write_bytes(encoder())
    assert python(program, str(path)).stdout.split() == ["20"]


def test_a_model_of_mlflow_runs_on_kiln(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed")
    program = """
import sys
import kiln.onnxruntime
kiln.onnxruntime.install()
import mlflow, numpy as np, onnx
from encoder import encoder, sentences
model, text = encoder(), sentences(1)[0]
mlflow.onnx.save_model(onnx.load_model_from_string(model), sys.argv[1], pip_requirements=[])
loaded = mlflow.pyfunc.load_model(sys.argv[1])
found = loaded.predict({"ids": text[None]})
[_, embedding] = kiln.Session(model, cache_mode="memory").run(None, {"ids": text[None]})
np.testing.assert_array_equal(found["embedding"], embedding)
assert isinstance(loaded._model_impl.rt, kiln.onnxruntime.InferenceSession)
"""
    python(program, str(tmp_path / "model"))


def embed_series(path: str) -> Any:
    """A function for `pandas_udf`, which loads its session where it runs, once a task."""

    def run(parts: Iterable[Any]) -> Iterator[Any]:
        import pandas

        session = kiln.Session(path, cache_mode="memory", threads=1)
        for part in parts:
            requests = [{"ids": np.asarray(text, np.int64)[None]} for text in part]
            yield pandas.Series([embedding[0].tolist() for [embedding] in session.run_many(["embedding"], requests)])

    return run


def test_a_function_of_pandas_in_spark_runs_a_session(tmp_path: Path) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed")
    path, texts = tmp_path / "encoder.onnx", sentences(20)
    path.write_bytes(encoder())
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        function = sql.functions.pandas_udf(embed_series(str(path)), "array<float>")
        rows = spark.createDataFrame([(text.tolist(),) for text in texts], "ids array<long>")
        found = [row[0] for row in rows.select(function("ids")).collect()]
    finally:
        spark.stop()
    session = kiln.Session(path, cache_mode="memory", threads=1)
    for text, embedding in zip(texts, found, strict=True):
        np.testing.assert_array_equal(np.float32(embedding), embed(text, session))
