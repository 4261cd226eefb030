"""A server under more load than it can bear, at its end, and over models that come and go."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from conftest import Server, dense, infer_body

THREADS, QUEUE, REQUESTS = 2, 24, 1000


class Load:
    """Requests by a number of clients at a time, each request by a connection of its own."""

    def __init__(self, server: Server, clients: int, count: int, x: np.ndarray[Any, Any]) -> None:
        self.server, self.left = server, count
        self.body, self.headers = infer_body(x)
        self.lock = threading.Lock()
        #: By what came of them: the seconds that each took.
        self.took: dict[str, list[float]] = {}
        #: The bytes of all right answers.
        self.outputs: set[bytes] = set()
        self.threads = [threading.Thread(target=self._client, daemon=True) for _ in range(clients)]

    def run(self) -> None:
        self.start()
        self.join()

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join()

    def _client(self) -> None:
        while True:
            with self.lock:
                self.left -= 1
                if self.left < 0:
                    return
            begun = time.perf_counter()
            came, output = self._ask()
            with self.lock:
                self.took.setdefault(came, []).append(time.perf_counter() - begun)
                if came == "200":
                    self.outputs.add(output)
            if came == "429":
                time.sleep(0.001)

    def _ask(self) -> tuple[str, bytes]:
        connection = http.client.HTTPConnection(self.server.http, timeout=120)
        try:
            connection.connect()
        except ConnectionRefusedError:
            return "not taken", b""
        try:
            connection.request("POST", "/v2/models/slow/infer", self.body, self.headers)
            answer = connection.getresponse()
            text = answer.read()
            head = int(answer.headers.get("Inference-Header-Content-Length", len(text)))
            return str(answer.status), text[head:]
        except ConnectionResetError:
            return "reset", b""
        except (OSError, http.client.HTTPException) as error:
            return f"broken: {error!r}", b""
        finally:
            connection.close()

    def say(self, what: str) -> None:
        parts = []
        for came, times in sorted(self.took.items()):
            ordered = sorted(times)
            half, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
            parts.append(f"{len(ordered)} times {came} (median {half * 1e3:.1f} ms, 99 % {late * 1e3:.1f} ms)")
        print(f"{what}: {', '.join(parts)}")


def until(holds: Callable[[], bool]) -> None:
    """Asks again and again, for a minute at the most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not come"


def slow(folder: Path, flags: list[str], serve: Callable[..., Server]) -> tuple[Server, np.ndarray[Any, Any], bytes]:
    """A server over a model of some milliseconds, a request for it, and the bytes of the right answer."""
    dense(folder / "models" / "slow.onnx", 512, 8, 3)
    server = serve(folder / "models", "--threads", str(THREADS), *flags)
    x = np.random.default_rng(5).standard_normal((200, 512)).astype(np.float32)
    load = Load(server, 1, 1, x)
    load.run()
    [output] = load.outputs
    return server, x, output


def test_four_times_what_it_can_bear(serve: Callable[..., Server], tmp_path: Path) -> None:
    server, x, expected = slow(tmp_path, ["--queue", str(QUEUE)], serve)
    load = Load(server, 4 * (THREADS + QUEUE), REQUESTS, x)
    load.start()
    waiting = []
    while any(thread.is_alive() for thread in load.threads):
        waiting.append(server.metric("kiln_queue_length"))
        time.sleep(0.01)
    load.join()
    load.say("four times its capacity")
    # All are answered: right, or that the queue is full.
    assert set(load.took) == {"200", "429"} and sum(map(len, load.took.values())) == REQUESTS
    assert load.outputs == {expected}
    assert max(waiting) == QUEUE
    labels = 'model="slow",version="1"'
    assert server.metric(f'kiln_requests_total{{{labels},outcome="ok"}}') == len(load.took["200"]) + 1
    assert server.metric(f'kiln_requests_total{{{labels},outcome="full"}}') == len(load.took["429"])
    assert server.end() == 0


def test_nothing_that_was_taken_is_lost_at_the_end(serve: Callable[..., Server], tmp_path: Path) -> None:
    server, x, expected = slow(tmp_path, ["--queue", "1000", "--drain-limit", "60000"], serve)
    load = Load(server, 32, 100_000, x)
    load.start()
    until(lambda: server.metric('kiln_requests_total{model="slow",version="1",outcome="ok"}') >= 50)
    code = server.end()
    load.left = 0
    load.join()
    load.say("an end under load")
    assert code == 0
    # Answers have the right bits; no other connection was taken.
    assert len(load.took["200"]) >= 50 and load.outputs == {expected}
    assert set(load.took) <= {"200", "not taken", "reset"}, load.took.keys()
    # The system resets a connection that is made between the last one that the server takes and the listener's end.
    assert len(load.took.get("reset", [])) <= 1


#: Requests whose clients go away.
TIMES = 200


def test_a_client_that_goes_away_stops_its_request(serve: Callable[..., Server], tmp_path: Path) -> None:
    dense(tmp_path / "models" / "slow.onnx", 1024, 200, 3)
    server = serve(tmp_path / "models", "--threads", "1")
    body, headers = infer_body(np.zeros((2000, 1024), np.float32))
    took = []
    for _ in range(TIMES):
        connection = http.client.HTTPConnection(server.http, timeout=120)
        connection.request("POST", "/v2/models/slow/infer", body, headers)
        until(lambda: server.metric("kiln_requests_running") == 1)
        connection.close()
        begun = time.perf_counter()
        until(lambda: server.metric("kiln_requests_running") == 0)
        took.append(time.perf_counter() - begun)
    took.sort()
    half, late = took[TIMES // 2], took[TIMES * 99 // 100 - 1]
    print(f"a request of a client that went: {half * 1e3:.1f} ms longer, 99 % {late * 1e3:.1f}, {took[-1] * 1e3:.1f} at most")
    labels = 'model="slow",version="1"'
    assert server.metric(f'kiln_requests_total{{{labels},outcome="cancelled"}}') == TIMES
    assert server.metric(f'kiln_requests_total{{{labels},outcome="ok"}}') == 0


def test_memory_of_models_that_come_and_go(serve: Callable[..., Server], tmp_path: Path) -> None:
    for model in range(20):
        dense(tmp_path / "models" / f"model{model}.onnx", 256, 2, model)
    server = serve(tmp_path / "models", "--threads", "1")
    bodies = [infer_body(np.ones((rows, 256), np.float32)) for rows in (1, 7, 30)]

    def turn() -> None:
        for model in range(20):
            name = f"model{model}"
            assert server.ask("POST", f"/v2/repository/models/{name}/unload", b"{}")[0] == 200
            assert server.ask("POST", f"/v2/repository/models/{name}/load", b"{}")[0] == 200
            for body, headers in bodies:
                assert server.ask("POST", f"/v2/models/{name}/infer", body, headers)[0] == 200

    # The first turns grow what stays: the cache, the heap, records.
    for _ in range(10):
        turn()
    before = server.private_bytes()
    for _ in range(100):
        turn()
    growth = server.private_bytes() - before
    print(f"20 models, 100 times unloaded and loaded: {growth / 2**20:+.1f} MiB on {before / 2**20:.1f}")
    assert growth <= 8 << 20
