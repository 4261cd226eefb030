"""The annotations are what the package is, and every public name says what it is."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kiln
import kiln.onnxruntime

PACKAGE = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [["mypy", "--strict", "-p", "kiln"], ["mypy.stubtest", "kiln", "--ignore-disjoint-bases"]],
    ids=["mypy", "stubtest"],
)
def test_annotations_hold(command: list[str], tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    configuration = ["--config-file" if command[0] == "mypy" else "--mypy-config-file", str(PACKAGE / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", *command, *configuration], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", [kiln, kiln.onnxruntime], ids=lambda module: module.__name__)
def test_every_public_name_has_a_docstring(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        thing = getattr(module, name)
        if isinstance(thing, str):
            continue
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and thing.__module__.startswith("kiln"):
            for part, value in vars(thing).items():
                if not part.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert inspect.getdoc(value), f"{name}.{part}"


@pytest.mark.parametrize(
    "name", ["kiln", "kiln.onnxruntime._process", "kiln.onnxruntime._options", "kiln.onnxruntime._values"]
)
def test_examples_run(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0 and outcome.attempted > 0


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tutorial = PACKAGE.parent / "docs" / "python.md"
    if not tutorial.exists():
        pytest.skip("the documents are not beside the tests")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", tutorial.read_text(), re.DOTALL):
        exec(compile(block, str(tutorial), "exec"), names)
    assert "(5, 10)" in capsys.readouterr().out
