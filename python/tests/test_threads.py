"""Threads of Python's, threads of Kiln's, signals and forked children."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import ENDLESS, SQUARE, looping, make_model, python, tensor, unary
from onnx import TensorProto, helper

import kiln


def counted_while(work: Callable[[], None]) -> tuple[int, float]:
    """How far another thread counts while this one works, and how long that takes."""
    count, done = 0, threading.Event()

    def run() -> None:
        nonlocal count
        while not done.is_set():
            count += 1
            time.sleep(0.001)

    counter = threading.Thread(target=run)
    counter.start()
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    done.set()
    counter.join()
    return count, took


def test_another_thread_counts_on_during_a_request() -> None:
    session = kiln.Session(looping(), threads=1)

    def work() -> None:
        with pytest.raises(kiln.TimeLimitError):
            session.run(None, {"n": ENDLESS, "x": SQUARE}, time_limit=1.0)

    count, took = counted_while(work)
    assert took >= 1.0 and count > 50, (count, took)


def test_another_thread_counts_on_while_a_model_loads() -> None:
    nodes = [helper.make_node("Add", [f"v{at}", f"c{at}"], [f"v{at + 1}"]) for at in range(1500)]
    constants = [helper.make_tensor(f"c{at}", TensorProto.FLOAT, (3,), [at, 1, 2]) for at in range(1500)]
    model = make_model(nodes, [tensor("v0")], [tensor("v1500")], constants)
    count, took = counted_while(lambda: kiln.Session(model, cache_mode="memory").close())
    assert count > took * 1000 * 0.05, (count, took)


def test_requests_of_many_threads_are_right() -> None:
    session = kiln.Session(unary("Relu"))
    wrong: list[int] = []

    def serve(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(50):
            x = random.standard_normal((random.integers(1, 400), 3)).astype(np.float32)
            [y] = session.run(None, {"x": x})
            if not np.array_equal(y, np.maximum(x, 0)):
                wrong.append(seed)

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_hundred_sessions_share_one_pool() -> None:
    program = """
import numpy as np, kiln
from conftest import threads_beside_janitor, unary
model, x = unary("Relu"), -np.ones((1000, 3), np.float32)
first = kiln.Session(model, threads=4, cache_mode="memory")
before = threads_beside_janitor()
sessions = [kiln.Session(model, threads=4, cache_mode="memory") for _ in range(199)]
for session in sessions:
    [y] = session.run(None, {"x": x})
    assert (y == 0).all()
assert threads_beside_janitor() == before
pool = kiln.Pool(3)
assert pool.threads == 3 and threads_beside_janitor() == before + 2
own = [kiln.Session(model, pool=pool, cache_mode="memory") for _ in range(5)]
assert threads_beside_janitor() == before + 2
"""
    python(program)


def test_idle_threads_take_no_time() -> None:
    # Without records, no session measures the machine while it rests.
    session = kiln.Session(unary("Relu", TensorProto.FLOAT, ("n",)), threads=4, cache_mode="off")
    session.run(None, {"x": np.ones(1 << 20, np.float32)})
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.02


@pytest.mark.parametrize("stop", ["session", "token"])
def test_another_thread_calls_a_request_off(stop: str) -> None:
    session, cancel = kiln.Session(looping()), kiln.Cancel()
    timer = threading.Timer(0.2, session.cancel if stop == "session" else cancel.cancel)
    timer.start()
    began = time.perf_counter()
    with pytest.raises(kiln.CancelledError):
        session.run(None, {"n": ENDLESS, "x": SQUARE}, cancel=cancel, time_limit=30)
    assert time.perf_counter() - began < 20
    timer.join()
    [y] = session.run(None, {"n": np.array(0, np.int64), "x": SQUARE})
    np.testing.assert_array_equal(y, SQUARE)


def test_control_c_ends_a_request() -> None:
    session = kiln.Session(looping())
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        session.run(None, {"n": ENDLESS, "x": SQUARE}, time_limit=60)
    assert time.perf_counter() - began < 30
    timer.join()


def test_children_forked_after_loading_run_drop_and_exit(tmp_path: Path) -> None:
    program = """
import os, sys, time
import numpy as np, kiln
from conftest import unary
session = kiln.Session(unary("Relu"), threads=4)
x = np.arange(3000, dtype=np.float32).reshape(1000, 3) - 1500
[expected] = session.run(None, {"x": x})
slowest = 0.0
for number in range(100):
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        [y] = session.run(None, {"x": x})
        right = np.array_equal(y, expected)
        if number % 10 == 0:
            fresh = kiln.Session(unary("Neg"), threads=2)
            right = right and np.array_equal(fresh.run(None, {"x": x})[0], -x)
            del fresh
        del session
        sys.exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, (number, status)
    slowest = max(slowest, time.monotonic() - began)
assert slowest < 5, slowest
[y] = session.run(None, {"x": x})
assert np.array_equal(y, expected)
"""
    python(program)


@pytest.mark.parametrize(("kilns", "openmps", "threads"), [("", "3", 3), ("5", "3", 5), ("2", "", 2), ("4", "many", 4)])
def test_openmps_variable_stands_behind_kilns(
    monkeypatch: pytest.MonkeyPatch, kilns: str, openmps: str, threads: int
) -> None:
    program = """
import os, numpy as np, kiln
from conftest import threads_beside_janitor, unary
before = len(os.listdir("/proc/self/task"))
session = kiln.Session(unary("Relu"), cache_mode="memory")
print(threads_beside_janitor() - before + 1)
"""
    monkeypatch.setenv("KILN_NUM_THREADS", kilns)
    monkeypatch.setenv("OMP_NUM_THREADS", openmps)
    assert int(python(program).stdout) == threads
