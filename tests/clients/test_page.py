"""The page at `/`, as a browser shows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from conftest import Server, dense, infer_body

CHROMIUM = shutil.which("chromium")
AWKWARD = '<b>"quoted"'


def shown(server: Server, profile: Path) -> str:
    """The document once its script has run for three seconds of the browser's clock."""
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    command = [str(CHROMIUM), "--headless", "--no-sandbox", *quiet, "--disable-component-update"]
    command += [f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--dump-dom", f"http://{server.http}/"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env={**os.environ})
    return answer.stdout


def rows(document: str) -> list[list[str]]:
    body = document.split('<tbody id="models">')[1].split("</tbody>")[0]
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", body)]
    return [[unescape(cell) for cell in row] for row in cells]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_shows_models_and_their_requests(serve: Callable[..., Server], tmp_path: Path) -> None:
    dense(tmp_path / "models" / "dense.onnx", 16, 2, 1)
    dense(tmp_path / "models" / f"{AWKWARD}.onnx", 16, 2, 2)
    server = serve(tmp_path / "models", "--threads", "1")
    body, headers = infer_body(np.ones((3, 16), np.float32))
    for _ in range(7):
        assert server.ask("POST", "/v2/models/dense/infer", body, headers)[0] == 200
    assert server.ask("POST", "/v2/models/dense/infer", b"{}")[0] == 400
    document = shown(server, tmp_path / "profile")
    assert re.search(r'<p id="state" role="status">ready, 0 running, 0 waiting</p>', document), document
    assert re.search(r'<p id="memory">.*executors \d+\.\d MiB', document), document
    found = {row[0]: row[1:] for row in rows(document)}
    assert set(found) == {"dense 1", f"{AWKWARD} 1"}, found
    assert found["dense 1"][:3] == ["READY", "7", "1"], found
    # Mean, median and 99 % in milliseconds.
    assert all(float(time) > 0 for time in found["dense 1"][3:6]), found

    server.ask("POST", "/v2/repository/models/dense/unload", b"{}")
    found = {row[0]: row[1:] for row in rows(shown(server, tmp_path / "profile"))}
    assert found["dense 1"] == ["UNAVAILABLE: unloaded"], found
