"""`kiln serve` in a process of its own, over models that are made here."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

KILN = os.environ.get("KILN", "target/release/kiln")


def save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: dict[str, Any]) -> Path:
    """Writes a model of these nodes."""
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, stored)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def dense(path: Path, width: int, layers: int, seed: int) -> Path:
    """Products of rows of `width` floats, as many as `layers`."""
    random = np.random.default_rng(seed)
    constants, nodes = {}, []
    for layer in range(layers):
        constants[f"w{layer}"] = (random.standard_normal((width, width)) / width**0.5).astype(np.float32)
        source, target = "x" if layer == 0 else f"h{layer}", "y" if layer == layers - 1 else f"h{layer + 1}"
        nodes.append(helper.make_node("MatMul", [source, f"w{layer}"], [target]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width]) for name in ("x", "y")]
    return save(path, nodes, ports[:1], ports[1:], constants)


class Server:
    """A server that listens at `http` and `grpc`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        command = [KILN, "serve", str(folder), "--port", "0", "--grpc-port", "0", *flags]
        records = ["--cache-dir", str(folder.parent / "records")]
        self.process = subprocess.Popen([*command, *records], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.http = self._line("listening on http://")
        self.grpc = self._line("listening on grpc://")
        self._line("ready: ")

    def _line(self, start: str) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith(start), line
        return line.removeprefix(start)

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """The status and the body of the answer to a request by a connection of its own."""
        connection = http.client.HTTPConnection(self.http, timeout=120)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metric(self, line: str) -> float:
        """The value of a line of the metrics."""
        text = self.ask("GET", "/metrics")[1].decode()
        found = re.search(f"^{re.escape(line)} (.*)$", text, re.MULTILINE)
        assert found, f"no {line} in {text}"
        return float(found[1])

    def private_bytes(self) -> int:
        """The bytes that are in memory for this process alone."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return sum(int(kib) << 10 for kib in re.findall(r"^Private_\w+: +(\d+) kB", text, re.MULTILINE))

    def end(self) -> int:
        """Asks it to end, and gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """Starts servers, which end with the test."""
    servers: list[Server] = []

    def start(folder: Path, *flags: str) -> Server:
        servers.append(Server(folder, *flags))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def infer_body(x: np.ndarray[Any, Any]) -> tuple[bytes, dict[str, str]]:
    """A request of one input `x` in FP32, all of it binary, and its header."""
    head = {
        "inputs": [
            {"name": "x", "shape": list(x.shape), "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}
        ],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }
    text = json.dumps(head).encode()
    return text + x.tobytes(), {"Inference-Header-Content-Length": str(len(text))}
