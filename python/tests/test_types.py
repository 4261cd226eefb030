"""The annotations match the package, and every public name is documented."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import reference
from conftest import python

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
    if command[0] != "mypy" and importlib.util.find_spec("ray") is None:
        # Importing the module is an error that says what to install, so its annotations cannot be checked.
        allowed = tmp_path / "allowed"
        allowed.write_text("kiln.ray\n")
        configuration += ["--allowlist", str(allowed)]
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


EXAMPLES = """
import doctest, sys
import numpy as np, onnx
import kiln, kiln.backend, kiln.onnxruntime as ort
from conftest import language_model, translator, unary

def named(prefix, thing):
    yield prefix, getattr(thing, "__doc__", None)
    if isinstance(thing, type):
        private = [base for base in thing.__bases__ if base.__name__.startswith("_")]
        for part, value in (item for part in (thing, *private) for item in vars(part).items()):
            if not part.startswith("_"):
                yield f"{prefix}.{part}", getattr(value, "__doc__", None)

texts = [("kiln", kiln.__doc__), ("kiln.backend", kiln.backend.__doc__)]
texts += list(named("kiln.backend.KilnRep", kiln.backend.KilnRep))
for module in (kiln, ort):
    for name in module.__all__:
        if name not in ("__version__", "install"):
            texts += named(f"{module.__name__}.{name}", getattr(module, name))
# The last one, because the real package cannot be imported afterwards.
texts += named("kiln.onnxruntime.install", ort.install)
translator("translator")
runner, parser = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), doctest.DocTestParser()
bare = []
for name, text in texts:
    names = {"kiln": kiln, "np": np, "onnx": onnx, "ort": ort, **vars(ort), "model": unary("Relu")}
    names["language_model"], names["translator"] = language_model(), "translator"
    test = parser.get_doctest(text or "", names, name, None, None)
    # The class's text explains methods that onnxruntime has too.
    method = name.count(".") > (2 if name.startswith("kiln.onnxruntime.") else 1)
    told = ("kiln.Session.", "kiln.Decoder", "kiln.Encode", "kiln.Generator.", "kiln.Batch.")
    if not test.examples and (not method or name.startswith(told)):
        bare.append(name)
    runner.run(test)
print(runner.tries, "examples;", "without one:", *bare)
sys.exit(bool(runner.failures or bare))
"""


def test_every_public_name_has_an_example_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    python(EXAMPLES)


def test_the_reference_is_what_the_stubs_and_docstrings_say() -> None:
    page = PACKAGE.parent / "docs" / "python-api.md"
    if not page.exists():
        pytest.skip("the documents are not beside the tests")
    assert page.read_text() == reference.page(), "python python/tests/reference.py > docs/python-api.md"


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tutorial = PACKAGE.parent / "docs" / "python.md"
    if not tutorial.exists():
        pytest.skip("the documents are not beside the tests")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", tutorial.read_text(), re.DOTALL):
        exec(compile(block, str(tutorial), "exec"), names)
    assert "(5, 10)" in capsys.readouterr().out
