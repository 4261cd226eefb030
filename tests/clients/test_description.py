"""Requests that schemathesis makes of the server's own OpenAPI description, right ones and wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Server, dense, infer_body

#: What has to hold for each answer. That a request which the description allows is accepted is not among them: names of
#: models, shapes and counts of elements are wrong in most of them, and no schema can say so.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
]

#: A time limit that is over is 504, as the description says.
STATUSES = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 504]
"""
NAMES = """
[parameters]
"path.model" = "dense"
"path.version" = "1"
"""


@pytest.mark.parametrize("names", ["names that schemathesis makes up", "names of what is there"])
def test_answers_are_what_the_description_says(serve: Callable[..., Server], tmp_path: Path, names: str) -> None:
    dense(tmp_path / "models" / "dense.onnx", 16, 2, 1)
    server = serve(tmp_path / "models", "--threads", "1")
    body, headers = infer_body(np.ones((3, 16), np.float32))
    expected = server.ask("POST", "/v2/models/dense/infer", body, headers)
    assert expected[0] == 200
    before = server.private_bytes()

    knows = names == "names of what is there"
    (tmp_path / "schemathesis.toml").write_text(STATUSES + (NAMES if knows else ""))
    command = [str(Path(sys.executable).with_name("schemathesis"))]
    command += ["--config-file", str(tmp_path / "schemathesis.toml")]
    command += ["run", f"http://{server.http}/v2/openapi.json"]
    command += ["--checks", ",".join(CHECKS), "-n", os.environ.get("KILN_CLIENT_EXAMPLES", "100"), "--seed", "7"]
    # A model that is unloaded would leave nothing to ask.
    command += ["--exclude-path-regex", "/(unload|load)$", "--no-color", "--continue-on-failure", "--warnings", "off"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    print(answer.stdout[answer.stdout.rfind("SUMMARY") :])
    assert answer.returncode == 0, answer.stdout + answer.stderr
    if knows:
        assert server.metric('kiln_requests_total{model="dense",version="1",outcome="refused"}') > 50

    assert server.ask("POST", "/v2/models/dense/infer", body, headers) == expected
    growth = server.private_bytes() - before
    print(f"{names}: memory: {growth / 2**20:+.1f} MiB")
    assert growth <= 16 << 20
    assert server.end() == 0
