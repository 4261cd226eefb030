"""What a request costs beyond the model: `python python/bench/overhead.py`, with onnxruntime beside it where installed.

First a request of three small inputs: the time of `run`, the time of the same request without Python, and the
difference, which may be at most 3 us. Then the requests a second of four threads, on one session and on four; they
should be no fewer than onnxruntime's. Times are the least and throughputs the largest of many short rounds, because
other work on the machine only makes them worse. `--check`, for release builds, exits 1 if either target is missed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import kiln
import kiln.onnxruntime


def small_model() -> bytes:
    """y = a + b + c, of eight numbers each."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "abcy"]
    nodes = [helper.make_node("Add", ["a", "b"], ["ab"]), helper.make_node("Add", ["ab", "c"], ["y"])]
    graph = helper.make_graph(nodes, "three", ports[:3], ports[3:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def product_model(size: int) -> bytes:
    """y = x w w w w, of matrices."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name in ("x", "y")]
    names = ["x", "v0", "v1", "v2", "y"]
    nodes = [helper.make_node("MatMul", [names[at], "w"], [names[at + 1]]) for at in range(4)]
    weights = np.eye(size, dtype=np.float32)
    w = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)
    graph = helper.make_graph(nodes, "products", ports[:1], ports[1:], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def microseconds(call: Callable[[], Any], rounds: int = 100, calls: int = 500) -> float:
    """The least time of a call."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - began) / calls * 1e6)
    return min(times)


def microseconds_in_rust(session: kiln.Session, feeds: dict[str, Any], rounds: int = 100, calls: int = 500) -> float:
    """The least time of a request without Python."""
    return min(session._seconds_in_rust(feeds, calls) / calls * 1e6 for _ in range(rounds))


def requests_a_second(serve: list[Callable[[], Any]], rounds: int = 12) -> float:
    """The most requests that threads get served, one thread for each of these."""
    return max(requests_of_a_round(serve) for _ in range(rounds))


def requests_of_a_round(serve: list[Callable[[], Any]], seconds: float = 0.25) -> float:
    """The same of one round."""
    counts, end = [0] * len(serve), time.perf_counter() + seconds

    def work(place: int) -> None:
        while time.perf_counter() < end:
            serve[place]()
            counts[place] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(serve))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def measured(make: Callable[[bytes], Any], feeds: dict[str, Any], x: dict[str, Any]) -> tuple[float, float, float]:
    """A row of the table."""
    small, products = make(small_model()), [make(product_model(256)) for _ in range(4)]
    one = microseconds(lambda: small.run(None, feeds))
    shared = requests_a_second([lambda: products[0].run(None, x)] * 4)
    apart = requests_a_second([lambda session=session: session.run(None, x) for session in products])
    return one, shared, apart


def main() -> int:
    """Prints the table; 1 where something is not as it should be and that is asked for."""
    feeds = {name: np.ones(8, np.float32) for name in "abc"}
    x = {"x": np.ones((64, 256), np.float32)}
    runtimes: dict[str, Callable[[bytes], Any]] = {"kiln.Session": kiln.Session}
    runtimes["kiln.onnxruntime"] = kiln.onnxruntime.InferenceSession
    try:
        import onnxruntime

        runtimes["onnxruntime"] = lambda model: onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    except ImportError:
        print("onnxruntime is not installed: its row is missing")
    in_rust = microseconds_in_rust(kiln.Session(small_model()), feeds)
    rows = {name: measured(make, feeds, x) for name, make in runtimes.items()}
    print("| runtime | three small inputs, us | beyond Rust, us | one session, 1/s | four sessions, 1/s |")
    print("|---|---|---|---|---|")
    for name, (one, shared, apart) in rows.items():
        beyond = f"{one - in_rust:.2f}" if name.startswith("kiln") else ""
        print(f"| {name} | {one:.2f} | {beyond} | {shared:.0f} | {apart:.0f} |")
    print(f"\nA request of three small inputs takes {in_rust:.2f} us in Rust. Throughput is that of four threads.")
    failed = rows["kiln.Session"][0] - in_rust > 3.0
    if theirs := rows.get("onnxruntime"):
        failed |= any(ours < other for ours, other in zip(rows["kiln.Session"][1:], theirs[1:]))
    return int(failed and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
