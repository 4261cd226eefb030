"""What a store of records gives a fleet: `python python/bench/fleet.py`, with the package built with clients.

Starts 1, 2, 4 and 8 workers at once, each a process with an empty folder of records, and prints how long they take
until the model is loaded, what their first request takes beside a later one, and how many executors they chose: without
a store, with one redis-server on loopback and, where moto[server] is installed, with one S3. A store is first empty, so
that all workers find the same records and put them at once, and then full. What goes over the wire is as Redis counts
it. With Redis two more cases follow: a full store behind a line of 10 Mbit/s and 200 ms, and workers of two kinds, half
without AVX-512.

`--model FILE` and `--input ids=int64` name another model, of one input [texts, length]; `--workers 1,2` other numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Lengths of the requests that every worker serves, in this order.
LENGTHS = (12, 7, 33, 12, 64, 19, 128)
#: The slow line: bytes a second, and seconds to an answer.
SLOW_RATE, SLOW_DELAY = 10_000_000 / 8, 0.2


def worker(model: str, folder: str, store: str, port: str, dtype: str, born: float) -> None:
    """One worker, which prints what it has seen as JSON."""
    import numpy as np

    import kiln

    imported = time.time()
    options = {} if store == "none" else {"remote": store}
    with kiln.Session(model, cache_dir=folder, threads=1, **options) as session:
        ready = time.time()
        passes = []
        for _ in range(2):
            times = []
            for length in LENGTHS:
                began = time.perf_counter()
                session.run(None, {port: np.ones((1, length), dtype)})
                times.append(time.perf_counter() - began)
            passes.append(times)
        if store != "none" and session.stats()["session"]["misses"]:
            # What fails is counted, as when others write all the time.
            with contextlib.suppress(kiln.RecordsError):
                session.publish(60.0)
        stats = session.stats()
    seen = {
        "import": imported - born,
        "ready": ready - born,
        "first": passes[0][0],
        "later": passes[1][0],
        "first pass": sum(passes[0]),
        "second pass": sum(passes[1]),
        "chosen": stats["session"]["misses"],
        "taken": stats["records"]["remote_taken"],
        "failures": stats["records"]["remote_failures"],
        "puts": stats["records"]["remote_puts"],
    }
    print(json.dumps(seen))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def server(command: list[str], port: int) -> Iterator[None]:
    """A server that listens at that port."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{command[0]} does not listen")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(30)


def redis_counts(port: int) -> dict[str, int]:
    """What Redis has counted of commands and bytes."""
    with socket.create_connection(("127.0.0.1", port), 5) as line:
        line.sendall(b"INFO stats\r\nQUIT\r\n")
        text = b"".join(iter(lambda: line.recv(65536), b"")).decode()
    pairs = (row.split(":", 1) for row in text.splitlines() if ":" in row)
    return {name: int(value) for name, value in pairs if value.isdigit()}


class SlowLine:
    """A line to a port of the loopback that is slow, as a store far away is."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        # One line for all: answers wait for each other.
        self.turn = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self.listening.accept()
            far = socket.create_connection(("127.0.0.1", self.to))
            for source, sink, slow in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._carry, args=(source, sink, slow), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, slow: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                if slow:
                    time.sleep(SLOW_DELAY)
                    with self.turn:
                        time.sleep(len(data) / SLOW_RATE)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


class Fleet:
    """Workers of one model."""

    def __init__(self, model: Path, port: str, dtype: str) -> None:
        self.model, self.port, self.dtype = model, port, dtype

    def start(self, count: int, store: str, each: Any = None) -> list[dict[str, float]]:
        """Starts `count` workers at once, and gives what they have seen. `each` has settings of the worker's number."""
        with tempfile.TemporaryDirectory() as home:
            running = []
            for number in range(count):
                settings = {**os.environ, **(each(number) if each else {})}
                settings.pop("KILN_CACHE_DIR", None)
                said = [str(self.model), f"{home}/{number}", store, self.port, self.dtype, repr(time.time())]
                command = [sys.executable, __file__, "--worker", *said]
                running.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=settings, text=True))
            answers = [process.communicate(timeout=600)[0] for process in running]
            failed = [process.returncode for process in running if process.returncode]
            if failed:
                raise SystemExit(f"{len(failed)} of {count} workers ended with {failed}")
        return [json.loads(answer) for answer in answers]


def row(title: str, seen: list[dict[str, float]], wire: str = "") -> None:
    """Prints a line of the table."""

    def middle(name: str) -> float:
        return statistics.median(one[name] for one in seen) * 1000

    most = max(one["ready"] for one in seen) * 1000
    total = {name: int(sum(one[name] for one in seen)) for name in ("chosen", "taken", "puts", "failures")}
    print(
        f"| {title} | {len(seen)} | {middle('ready'):.0f} | {most:.0f} | {middle('first'):.1f} | {middle('later'):.1f} "
        f"| {middle('first pass'):.0f} | {middle('second pass'):.0f} | {total['chosen']} | {total['taken']} "
        f"| {total['puts']} | {total['failures']} | {wire} |",
        flush=True,
    )


def with_redis(fleet: Fleet, counts: list[int]) -> None:
    """The cases of a redis-server."""
    program = shutil.which("redis-server")
    if program is None:
        print("(no redis-server is installed: its cases are left out)")
        return

    def half(number: int) -> dict[str, str]:
        return {"KILN_MAX_ISA": "avx2"} if number % 2 else {}

    for count in counts:
        at = free_port()
        command = [program, "--port", str(at), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with server(command, at):
            url = f"redis://127.0.0.1:{at}/kiln"
            slow = f"redis://127.0.0.1:{SlowLine(at).port}/kiln"
            cases = [("Redis, empty", url, None), ("Redis, full", url, None), ("Redis, full, slow", slow, None)]
            if count > 1:
                # The first of the second kind finds nothing of its own.
                cases += [("Redis, new kind joins", url, half), ("Redis, two kinds", url, half)]
            for title, store, each in cases:
                # Asking takes commands and bytes too.
                asked, before = redis_counts(at), redis_counts(at)
                seen = fleet.start(count, store, each)
                after = redis_counts(at)
                names = [f"total_{name}" for name in ("commands_processed", "net_output_bytes", "net_input_bytes")]
                sums = [after[name] - before[name] - (before[name] - asked[name]) for name in names]
                row(title, seen, f"{sums[0]} commands, {sums[1] / 1024:.1f} KiB out, {sums[2] / 1024:.1f} KiB in")


def with_s3(fleet: Fleet, counts: list[int]) -> None:
    """The cases of one S3."""
    beside = Path(sys.executable).with_name("moto_server")
    program = str(beside) if beside.exists() else shutil.which("moto_server")
    if program is None:
        print("(moto[server] is not installed: the cases of S3 are left out)")
        return
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for count in counts:
        at = free_port()
        with server([program, "-H", "127.0.0.1", "-p", str(at)], at):
            bucket = urllib.request.Request(f"http://127.0.0.1:{at}/records", method="PUT")
            urllib.request.urlopen(bucket, timeout=30).close()
            url = f"s3://records/kiln?endpoint=http://127.0.0.1:{at}&region=us-east-1"
            for title in ("S3, empty", "S3, full"):
                row(title, fleet.start(count, url))


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:7], born=float(sys.argv[7]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model of one input [texts, length]")
    parser.add_argument("--input", default="ids=int64", help="the input's name and element type")
    parser.add_argument("--workers", default="1,2,4,8", help="numbers of workers")
    given = parser.parse_args()
    counts = [int(count) for count in given.workers.split(",")]
    port, _, dtype = given.input.partition("=")
    with tempfile.TemporaryDirectory() as home:
        model = given.model
        if model is None:
            sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
            from encoder import encoder

            model = Path(home) / "encoder.onnx"
            model.write_bytes(encoder(layers=6, hidden=384, heads=12))
        fleet = Fleet(model, port, dtype)
        # The files of the package and the model are in memory from here on, for all alike.
        fleet.start(1, "none")
        print(
            "| store | workers | ready, ms | slowest | first request | later | first pass | second | chosen | taken",
            end="",
        )
        print(" | puts | failed | over the wire |\n|---|" + "---|" * 12)
        for count in counts:
            row("none", fleet.start(count, "none"))
        with_redis(fleet, counts)
        with_s3(fleet, counts)


if __name__ == "__main__":
    main()
