"""Runs a program of other authors on its own libonnxruntime and on Kiln's, and compares what it prints.

    python3 crates/kiln-ort-c/programs/run.py sherpa|node [--library target/release/libonnxruntime.so] [--model MODEL]

`sherpa` installs sherpa-onnx 2.0.1 and silero-vad from PyPI (some 40 MB) and finds speech in a made-up recording. `node`
installs onnxruntime-node 1.30.0 from npm (some 300 MB) and runs MODEL, a network of token ids such as minilm, at eight
lengths. Everything goes to a temporary folder. The last lines are the times of both; the exit code is 0 if the outputs are
equal.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def sherpa(folder: pathlib.Path, library: pathlib.Path, _model: pathlib.Path | None):
    """The commands of sherpa-onnx: on its own library, and on Kiln's, which is preloaded because of its RPATH."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin/pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "numpy", "sherpa-onnx==2.0.1", "sherpa-onnx-core==2.0.1"], check=True)
    subprocess.run([*pip, "--no-deps", "--target", folder / "models", "silero-vad==6.2.0"], check=True)
    model = next((folder / "models").rglob("silero_vad.onnx"))
    command = [venv / "bin/python", HERE / "sherpa.py", model]
    return command, {}, {"LD_PRELOAD": str(library)}


def node(folder: pathlib.Path, library: pathlib.Path, model: pathlib.Path | None):
    """The commands of onnxruntime-node: on its own library, and on Kiln's, which a folder in LD_LIBRARY_PATH has."""
    if model is None:
        raise SystemExit("node: --model is needed")
    subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--prefix", folder, "onnxruntime-node@1.30.0"], check=True)
    shutil.copy(HERE / "node.js", folder)
    beside = folder / "kiln"
    beside.mkdir()
    shutil.copy(library, beside / "libonnxruntime.so.1")
    return ["node", folder / "node.js", model.resolve()], {}, {"LD_LIBRARY_PATH": str(beside)}


def outcome(command: list, environment: dict[str, str]) -> dict:
    """What the program prints: one object, with its times under `times`."""
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, timeout=300)
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=["sherpa", "node"])
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path("target/release/libonnxruntime.so"))
    parser.add_argument("--model", type=pathlib.Path)
    options = parser.parse_args()
    library = options.library.resolve(strict=True)
    with tempfile.TemporaryDirectory() as name:
        make = {"sherpa": sherpa, "node": node}[options.program]
        command, own, kiln = make(pathlib.Path(name), library, options.model)
        theirs, ours = outcome(command, own), outcome(command, kiln)
    times = {"its own library": theirs.pop("times"), "Kiln": ours.pop("times")}
    equal = theirs == ours
    print(f"{options.program}: {'equal' if equal else 'DIFFERENT'}: {json.dumps(ours)}")
    if not equal:
        print(f"{options.program}: its own library: {json.dumps(theirs)}")
    for whose, measured in times.items():
        print(f"{options.program} on {whose}: {json.dumps(measured)}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
