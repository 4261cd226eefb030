"""The command `kiln` as a part of the package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from conftest import unary

import kiln


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kiln", *arguments], capture_output=True, text=True, timeout=300)


def test_it_is_a_module_and_a_script() -> None:
    assert command("--version").stdout.split() == ["kiln", kiln.__version__]
    assert version("kiln-onnx") == kiln.__version__
    [script] = [script for script in entry_points(group="console_scripts") if script.name == "kiln"]
    assert script.value == "kiln.__main__:main"
    assert command("ops").stdout.count("\n") > 150


def test_it_runs_a_model(tmp_path: Path) -> None:
    model = tmp_path / "relu.onnx"
    model.write_bytes(unary("Relu"))
    done = command("run", model, "--shape", "x[2,3]")
    assert done.returncode == 0 and "y" in done.stdout, done.stderr


def test_it_starts_itself_again() -> None:
    done = command("demo", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "decided nothing anew" in done.stdout


def test_its_exit_codes_are_the_commands(tmp_path: Path) -> None:
    refused = command("run", tmp_path / "missing.onnx")
    assert refused.returncode == 2 and refused.stderr.startswith("kiln: ")
    assert command("no-such-subcommand").returncode == 2


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(tmp_path: Path, stop: signal.Signals) -> None:
    from conftest import looping

    model = tmp_path / "long.onnx"
    model.write_bytes(looping())
    import numpy as np

    turns = tmp_path / "n.npy"
    np.save(turns, np.array(1_000_000, np.int64))
    arguments = ["run", str(model), "--input", f"n={turns}", "--shape", "x[256,256]"]
    process = subprocess.Popen([sys.executable, "-m", "kiln", *arguments], stderr=subprocess.PIPE)
    try:
        time.sleep(3)
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        began = time.monotonic()
        os.kill(process.pid, stop)
        assert process.wait(20) == -stop
        assert time.monotonic() - began < 10
    finally:
        process.kill()
