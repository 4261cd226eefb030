"""Batches and deployments on Ray: workers with the threads of their processors, warm from the first worker's records.

All tests are skipped if Ray is not installed. Tests through a server are skipped if it is not installed, or if the
package has no client for it.
"""

from __future__ import annotations

import gc
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ENDLESS, S3_CREDENTIALS, SQUARE, looping, make_model, python, tensor, unary
from encoder import encoder, sentences
from onnx import helper

import kiln

# Ray reads it at import. Without a token of the tests' own, Ray would write one into the home folder.
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

try:
    import ray

    import kiln.ray
except ImportError:
    ray = None

needs_ray = pytest.mark.skipif(ray is None, reason="Ray is not installed")
# Ray's own.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of this process, with four processors to give away whatever the machine has."""
    with pytest.MonkeyPatch.context() as environment:
        # Workers import what the tests import.
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        environment.setenv("PYTHONPATH", os.pathsep.join(paths))
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        for name, value in S3_CREDENTIALS.items():
            environment.setenv(name, value)
        ray.init(num_cpus=4, include_dashboard=False, object_store_memory=160 << 20, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield
        ray.shutdown()


@pytest.fixture
def serve(cluster: None) -> Iterator[Any]:
    """Ray Serve, without applications in the end."""
    from ray import serve

    serve.start(proxy_location="Disabled")
    yield serve
    serve.shutdown()


@pytest.fixture(params=["redis", "s3", "object store"])
def store(request: pytest.FixtureRequest, cluster: None) -> Iterator[Any]:
    """What the option `remote` is: the URL of a server, or a store in Ray's objects."""
    if request.param != "object store":
        yield request.getfixturevalue(f"{request.param}_url")
        return
    records = kiln.ray.Records(f"test-{time.monotonic_ns()}")
    yield records
    records.close()


def compute_threads(predictor: Any) -> int:
    """The threads that compute in this process: the caller's, and those of pools."""
    names = [Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in os.listdir("/proc/self/task")]
    return 1 + sum(re.fullmatch(r"kiln-\d+", name) is not None for name in names)


def stats(predictor: Any) -> dict[str, dict[str, int]]:
    return {**predictor.session.stats(), "warmed": {"executors": predictor.session.warmed}}


def publish(predictor: Any) -> None:
    predictor.session.publish()


def column(texts: list[Any]) -> np.ndarray[Any, Any]:
    """Texts of any lengths as a column."""
    made = np.empty(len(texts), object)
    for at, text in enumerate(texts):
        made[at] = text
    return made


def predictors(count: int, num_cpus: int, model: Any, *folders: Path, **options: Any) -> list[Any]:
    kind = ray.remote(num_cpus=num_cpus)(kiln.ray.Predictor)
    each = [{"cache_dir": folder} for folder in folders] or [{"cache_mode": "memory"}] * count
    return [kind.remote(model, **own, **options) for own in each]


@needs_ray
@pytest.mark.parametrize("processors", [1, 2])
def test_two_actors_compute_on_the_processors_they_were_given(cluster: None, processors: int) -> None:
    model = ray.put(encoder())
    actors = predictors(2, processors, model)
    batch = {"ids": column(sentences(64))}
    ray.get([actor.__call__.remote(batch) for actor in actors])
    counts = ray.get([actor.__ray_call__.remote(compute_threads) for actor in actors])
    assert counts == [processors, processors]


@needs_ray
def test_ten_thousand_texts_have_the_bits_of_one_process(cluster: None) -> None:
    model, texts = encoder(), sentences(10_000)
    alone = kiln.Session(model, threads=1, cache_mode="memory")
    expected = [embedding[0] for [embedding] in alone.run_many(["embedding"], ({"ids": text[None]} for text in texts))]
    reference = ray.put(model)
    for actors in (1, 2):
        dataset = ray.data.from_items(
            [{"ids": text, "number": number} for number, text in enumerate(texts)], override_num_blocks=20
        )
        began = time.perf_counter()
        found = dataset.map_batches(
            kiln.ray.Predictor,
            fn_constructor_kwargs={
                "model": reference,
                "outputs": ["embedding"],
                "keep": ["number"],
                "cache_mode": "memory",
            },
            batch_size=256,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=actors),
        ).take_all()
        print(f"{len(found)} texts by {actors} actors: {time.perf_counter() - began:.2f} s with their start")
        assert sorted(row["number"] for row in found) == list(range(len(texts)))
        for row in found:
            np.testing.assert_array_equal(row["embedding"], expected[row["number"]], strict=True)


@needs_ray
def test_outputs_of_changing_length_are_columns_too(cluster: None) -> None:
    model, texts = encoder(), sentences(100)
    alone = kiln.Session(model, threads=1, cache_mode="memory")
    dataset = ray.data.from_items([{"text": text, "number": number} for number, text in enumerate(texts)])
    made = {"model": model, "columns": {"ids": "text"}, "keep": ["number"], "cache_mode": "memory"}
    options = {"batch_size": 16, "num_cpus": 1, "compute": ray.data.ActorPoolStrategy(size=1)}
    for row in dataset.map_batches(kiln.ray.Predictor, fn_constructor_kwargs=made, **options).take_all():
        states, embedding = alone.run(None, {"ids": texts[row["number"]][None]})
        np.testing.assert_array_equal(row["states"], states[0])
        np.testing.assert_array_equal(row["embedding"], embedding[0])


@needs_ray
def test_actors_join_warm(tmp_path: Path, store: Any) -> None:
    model, texts = ray.put(encoder()), sentences(40)
    [first] = predictors(1, 1, model, tmp_path / "1", remote=store)
    expected = ray.get(first.__call__.remote({"ids": column(texts)}))["embedding"]
    assert ray.get(first.__ray_call__.remote(stats))["session"]["misses"] > 0
    ray.get(first.__ray_call__.remote(publish))
    folders = [tmp_path / str(number) for number in (2, 3, 4)]
    others = predictors(3, 1, model, *folders, remote=store, remote_read_only=True, error_on_cache_miss=True)
    for answer in ray.get([other.__call__.remote({"ids": column(texts[::-1])}) for other in others]):
        np.testing.assert_array_equal(answer["embedding"][::-1], expected)
    for counters in ray.get([other.__ray_call__.remote(stats) for other in others]):
        assert counters["session"]["misses"] == 0 and counters["warmed"]["executors"] > 0
        assert counters["records"]["remote_taken"] > 0 and counters["records"]["remote_puts"] == 0


@needs_ray
def test_a_short_job_leaves_its_records_to_the_next(cluster: None, tmp_path: Path) -> None:
    dataset = ray.data.from_items([{"ids": text} for text in sentences(20)])
    reference = ray.put(encoder())

    def job(folder: str, **options: Any) -> None:
        # Records are in Ray's object store where no other is named.
        made = {"model": reference, "outputs": ["embedding"], "cache_dir": tmp_path / folder, **options}
        compute = ray.data.ActorPoolStrategy(size=1)
        batches = {"batch_size": 8, "num_cpus": 1, "compute": compute, "fn_constructor_kwargs": made}
        assert len(dataset.map_batches(kiln.ray.Predictor, **batches).take_all()) == 20

    try:
        job("one")
        job("two", remote_read_only=True, error_on_cache_miss=True)
    finally:
        kiln.ray.Records().close()


@needs_ray
def test_replicas_join_warm(tmp_path: Path, serve: Any, store: Any) -> None:
    model, texts = encoder(), sentences(40)

    def deployed(number: int, **options: Any) -> Any:
        made = kiln.ray.deployment(model, cache_dir=tmp_path / str(number), remote=store, num_cpus=0.5, **options)
        return serve.run(made, name=f"worker-{number}", route_prefix=None)

    first = deployed(1)
    expected = [first.remote({"ids": text[None]}).result(timeout_s=60) for text in texts]
    assert first.stats.remote().result(timeout_s=60)["session"]["misses"] > 0
    first.publish.remote().result(timeout_s=60)
    for number in (2, 3, 4):
        other = deployed(number, remote_read_only=True, error_on_cache_miss=True)
        answers = [other.remote({"ids": text[None]}) for text in reversed(texts)]
        for answer, known in zip(answers, reversed(expected), strict=True):
            found = answer.result(timeout_s=60)
            assert found.keys() == {"states", "embedding"}
            np.testing.assert_array_equal(found["states"], known["states"])
        counters = other.stats.remote().result(timeout_s=60)
        assert counters["session"]["misses"] == 0 and counters["records"]["remote_taken"] > 0


@needs_ray
def test_a_replica_is_warm_before_its_first_request(serve: Any) -> None:
    warm = [{"ids": (1, length)} for length in (5, 9)]
    made = kiln.ray.deployment(encoder(), warm=warm, outputs=["embedding"], cache_mode="memory")
    handle = serve.run(made, route_prefix=None)
    before = handle.stats.remote().result(timeout_s=60)["session"]
    for length in (9, 5):
        [name] = handle.remote({"ids": np.ones((1, length), np.int64)}).result(timeout_s=60)
        assert name == "embedding"
    after = handle.stats.remote().result(timeout_s=60)["session"]
    assert before["misses"] > 0 and after["misses"] == before["misses"]


@needs_ray
def test_a_replicas_requests_end(serve: Any) -> None:
    made = kiln.ray.deployment(looping(), time_limit=2.0, cache_mode="memory")
    handle = serve.run(made, route_prefix=None)
    endless, short = {"n": ENDLESS, "x": SQUARE}, {"n": np.array(0, np.int64), "x": SQUARE}
    with pytest.raises(kiln.TimeLimitError):
        handle.remote(endless).result(timeout_s=60)
    with pytest.raises(kiln.InputError, match="input 'x': not given"):
        handle.remote({"n": ENDLESS}).result(timeout_s=60)
    with pytest.raises(kiln.InputError, match="a request is a dict of arrays by the names of inputs, and no list"):
        handle.remote([1, 2]).result(timeout_s=60)
    np.testing.assert_array_equal(handle.remote(short).result(timeout_s=60)["y"], SQUARE)


@needs_ray
def test_a_caller_that_goes_away_stops_the_computation(serve: Any) -> None:
    handle = serve.run(kiln.ray.deployment(looping(), cache_mode="memory"), route_prefix=None)
    called = handle.remote({"n": ENDLESS, "x": SQUARE})
    time.sleep(1)
    called.cancel()
    # A replica has one lane: this waits until the request before it has ended.
    short = handle.remote({"n": np.array(0, np.int64), "x": SQUARE})
    np.testing.assert_array_equal(short.result(timeout_s=20)["y"], SQUARE)


@needs_ray
def test_a_process_has_one_session_of_a_model() -> None:
    model, memory = unary("Relu"), {"cache_mode": "memory"}
    first, second = (kiln.ray.Predictor(model, threads=1, **memory) for _ in range(2))
    assert first.session is second.session
    assert kiln.ray.Predictor(model, threads=2, **memory).session is not first.session
    assert kiln.ray.Predictor(unary("Neg"), threads=1, **memory).session is not first.session
    first.session.close()
    assert not kiln.ray.Predictor(model, threads=1, **memory).session.closed
    del first, second
    gc.collect()
    assert not kiln.ray._sessions


@needs_ray
def test_a_stacked_batch_is_one_request() -> None:
    model = unary("Relu")
    predictor = kiln.ray.Predictor(model, stacked=True, columns={"x": "picture"}, cache_mode="memory")
    batch = {"picture": np.arange(-6, 6, dtype=np.float32).reshape(4, 3)}
    batch["picture"].flags.writeable = False
    np.testing.assert_array_equal(predictor(batch)["y"], np.maximum(batch["picture"], 0))
    assert predictor.session.stats()["plans"]["entries"] == 1
    by_rows = kiln.ray.Predictor(model, columns={"x": "picture"}, cache_mode="memory")
    np.testing.assert_array_equal(by_rows(batch)["y"], np.maximum(batch["picture"], 0))


@needs_ray
def test_what_does_not_fit_is_an_error_that_names_it() -> None:
    model, memory = unary("Relu"), {"cache_mode": "memory"}
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(kiln.OptionError, match="^columns: the model has no input 'z'; it has x"):
        kiln.ray.Predictor(model, columns={"z": "x"}, **memory)
    with pytest.raises(kiln.OptionError, match="^outputs: the model has no output 'z'; it has y"):
        kiln.ray.Predictor(model, outputs=["z"], **memory)
    with pytest.raises(kiln.OptionError, match="^pool: "):
        kiln.ray.Predictor(model, pool=kiln.Pool(1), **memory)
    with pytest.raises(kiln.InputError, match="^input 'x': there is no column 'x'; there are a"):
        kiln.ray.Predictor(model, **memory)({"a": x})
    with pytest.raises(kiln.InputError, match="^keep: there is no column 'number'; there are x"):
        kiln.ray.Predictor(model, keep=["number"], **memory)({"x": x})
    with pytest.raises(kiln.InputError) as refused:
        kiln.ray.Predictor(model, **memory)({"x": column([x[0], x[0, :2]])})
    assert refused.value.__notes__ == ["in row 1 of a batch of 2"]
    total = make_model([helper.make_node("Shape", ["x"], ["y"])], [tensor("x")], [tensor("y", 7, None)])
    with pytest.raises(kiln.OptionError, match="^outputs: 'y' has 2 rows of a request of one row"):
        kiln.ray.Predictor(total, **memory)({"x": x})
    with pytest.raises(kiln.OptionError, match="^stacked: output 'y' has no row for each of the batch's 5"):
        kiln.ray.Predictor(total, stacked=True, **memory)({"x": np.zeros((5, 3), np.float32)})
    assert kiln.ray.Predictor(model, **memory)({"x": x[:0]})["y"].shape == (0,)


@needs_ray
def test_the_object_store_keeps_records_for_all_jobs(cluster: None) -> None:
    one, two = (kiln.ray.Records("kept") for _ in range(2))
    assert one.get("a") is None
    one.put("a", b"x" * 200_000)
    one.put("a", b"y" * 200_000)
    assert two.get("a") == b"y" * 200_000 and two.get("b") is None
    with pytest.raises(ValueError, match="are too much"):
        one.put("b", bytes((24 << 20) + 1))
    two.close()
    two.close()
    assert one.get("a") is None
    one.put("a", b"z")
    assert two.get("a") == b"z"
    two.close()


class Late(dict):  # type: ignore[type-arg]
    """A store that answers later than loading a session waits."""

    def get(self, name: str) -> bytes | None:
        time.sleep(1.5)
        return super().get(name)

    def put(self, name: str, data: bytes) -> None:
        self[name] = data


@needs_ray
@pytest.mark.parametrize("mode", ["read", "read-write"])
def test_a_late_store_is_waited_for(tmp_path: Path, mode: str) -> None:
    store, model, shape = Late(), unary("Softmax"), {"x": (8, 3)}
    with kiln.Session(model, cache_dir=tmp_path / "one", remote=store, threads=1) as first:
        first.warm(shape)
        first.publish()
    options = {"remote": store, "threads": 1, "error_on_cache_miss": True, "remote_read_only": True}
    joined = kiln.ray.Predictor(model, cache_dir=tmp_path / "two", cache_mode=mode, **options)
    joined.session.warm(shape)
    assert joined.session.stats()["session"]["misses"] == 0


def test_without_ray_the_import_says_what_to_install() -> None:
    program = """
import sys
sys.modules["ray"] = None
try:
    import kiln.ray
except ImportError as error:
    print(error.name, error)
"""
    assert python(program).stdout == 'ray kiln.ray needs Ray: pip install "ray[data,serve]"\n'
