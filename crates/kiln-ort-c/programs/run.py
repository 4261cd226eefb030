"""Runs a program on its own libonnxruntime and on Kiln's, and compares what it prints.

    python3 crates/kiln-ort-c/programs/run.py sherpa|node|cxx|ort [--library target/release/libonnxruntime.so]
        [--model MODEL] [--headers FOLDER] [--valgrind]

`sherpa` installs sherpa-onnx 2.0.1 and silero-vad from PyPI (some 40 MB) and finds speech in a made-up recording. `node`
installs onnxruntime-node 1.30.0 from npm (some 300 MB) and runs MODEL, a network of token ids such as minilm, at eight
lengths; without MODEL it makes a small one. `cxx` compiles cxx.cpp with g++ against onnxruntime's C++ header, of
version 1.21 or later, and runs it beside the library of PyPI's onnxruntime 1.31.1. FOLDER has the header; without it
`cxx-header` beside this file fetches version 1.21. `ort` runs the library tests of the crate `ort`, of the release that
this workspace is locked to, with models of its own, on both libraries. With `--valgrind` the C++ program runs on Kiln's
library under valgrind's memcheck, whose findings are a failure. Everything else goes to a temporary folder. The last
lines are the times of both; the exit code is 0 if the outputs are equal.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Sides:
    """How a program is started: what differs is the environment, or one argument."""

    command: list
    own: dict[str, str] = dataclasses.field(default_factory=dict)
    kiln: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Argument for the library: its own one's path, and Kiln's.
    libraries: tuple[pathlib.Path, pathlib.Path] | None = None

    def of(self, side: int) -> tuple[list, dict[str, str]]:
        """The command and its environment: 0 is its own library's, 1 Kiln's."""
        argument = [self.libraries[side]] if self.libraries else []
        return [*self.command, *argument], (self.own, self.kiln)[side]


def environment(folder: pathlib.Path) -> tuple[pathlib.Path, list]:
    """A Python environment, and the beginning of its pip's command."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    return venv, [venv / "bin/pip", "install", "-q", "--disable-pip-version-check"]


def sherpa(folder: pathlib.Path, options: argparse.Namespace) -> Sides:
    """sherpa-onnx, in which Kiln's library is preloaded because of its RPATH."""
    venv, pip = environment(folder)
    subprocess.run([*pip, "numpy", "sherpa-onnx==2.0.1", "sherpa-onnx-core==2.0.1"], check=True)
    subprocess.run([*pip, "--no-deps", "--target", folder / "models", "silero-vad==6.2.0"], check=True)
    model = next((folder / "models").rglob("silero_vad.onnx"))
    return Sides([venv / "bin/python", HERE / "sherpa.py", model], kiln={"LD_PRELOAD": str(options.library)})


def node(folder: pathlib.Path, options: argparse.Namespace) -> Sides:
    """onnxruntime-node, which finds Kiln's library in a folder of LD_LIBRARY_PATH."""
    model = options.model
    if model is None:
        venv, pip = environment(folder)
        subprocess.run([*pip, "onnx==1.23.2"], check=True)
        model = folder / "tokens.onnx"
        subprocess.run([venv / "bin/python", HERE / "node_model.py", model], check=True)
    install = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", folder, "onnxruntime-node@1.30.0"]
    subprocess.run(install, check=True)
    shutil.copy(HERE / "node.js", folder)
    beside = folder / "kiln"
    beside.mkdir()
    shutil.copy(options.library, beside / "libonnxruntime.so.1")
    return Sides(["node", folder / "node.js", model.resolve()], kiln={"LD_LIBRARY_PATH": str(beside)})


def cxx(folder: pathlib.Path, options: argparse.Namespace) -> Sides:
    """A C++ program that opens the library that it is given."""
    headers = options.headers
    if headers is None:
        fetch = subprocess.run([HERE / "cxx-header"], stdout=subprocess.PIPE, text=True, check=True)
        headers = fetch.stdout.strip()
    venv, pip = environment(folder)
    subprocess.run([*pip, "onnx==1.23.2"], check=True)
    subprocess.run([*pip, "--no-deps", "--target", folder / "onnxruntime", "onnxruntime==1.31.1"], check=True)
    real = next((folder / "onnxruntime").rglob("libonnxruntime.so.*"))
    models = folder / "models"
    models.mkdir()
    subprocess.run([venv / "bin/python", HERE / "cxx_models.py", models], check=True)
    program = folder / "cxx"
    compile = ["g++", "-std=c++17", "-O1", "-Wall", "-I", headers, HERE / "cxx.cpp", "-o", program]
    subprocess.run([*compile, "-ldl", "-lpthread"], check=True)
    return Sides([program, models], libraries=(real, options.library))


SUPPRESSED = HERE.parents[2] / "tests/sanitize/valgrind.supp"
#: Memcheck, which ends with 9 where it has found anything. Emitted code changes where it is: memcheck must look again.
MEMCHECK = ["valgrind", "-q", "--error-exitcode=9", "--smc-check=all", f"--suppressions={SUPPRESSED}"]


#: Tests of `ort` that need what a model made here has not: custom operators, a warning of onnxruntime's.
WITHOUT_DATA = re.compile(r"operator::tests::|session::builder::tests::test_session_builder_clone")


def ort(folder: pathlib.Path, options: argparse.Namespace) -> Sides:
    """The crate's tests, built once, which open the library that a variable names."""
    metadata = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    packages = json.loads(subprocess.run(metadata, stdout=subprocess.PIPE, check=True, cwd=HERE).stdout)["packages"]
    source = next(pathlib.Path(package["manifest_path"]).parent for package in packages if package["name"] == "ort")
    crate = folder / "ort"
    shutil.copytree(source, crate)
    venv, pip = environment(folder)
    subprocess.run([*pip, "onnx==1.23.2", "onnxruntime==1.31.1"], check=True)
    real = next(venv.rglob("libonnxruntime.so.1*"))
    data = crate / "tests/data"
    data.mkdir(parents=True)
    subprocess.run([venv / "bin/python", HERE / "ort_models.py", data], check=True)
    features = ["--no-default-features", "--features", "std,ndarray,half,load-dynamic,api-31"]
    build = ["cargo", "test", "--quiet", "--lib", *features, "--no-run", "--message-format", "json"]
    built = subprocess.run(build, stdout=subprocess.PIPE, check=True, cwd=crate).stdout.splitlines()
    program = next(line["executable"] for line in map(json.loads, built) if line.get("executable"))
    tests = ["bash", "-c", 'cd "$0" && "$1" --test-threads 1 || true', crate, program]
    return Sides(tests, own={"ORT_DYLIB_PATH": str(real)}, kiln={"ORT_DYLIB_PATH": str(options.library)})


def of_tests(text: str) -> dict:
    """The outcomes of tests, but for those that want other data."""
    found = dict(re.findall(r"^test (\S+) \.\.\. (ok|FAILED)$", text, re.MULTILINE))
    kept = {name: outcome for name, outcome in sorted(found.items()) if not WITHOUT_DATA.search(name)}
    if len(kept) < 50 or set(kept.values()) != {"ok"}:
        raise SystemExit(f"ort: not all tests passed, or only {len(kept)} ran to their end:\n{text}")
    return {"tests": kept, "left out": len(found) - len(kept), "times": {}}


def outcome(command: list, environment: dict[str, str]) -> dict:
    """What the program prints: one object with its times under `times`, or lines."""
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, timeout=300)
    if done.stdout.startswith(b"{"):
        return json.loads(done.stdout)
    if b"test result: " in done.stdout:
        return of_tests(done.stdout.decode())
    return {"lines": done.stdout.decode().splitlines(), "times": {}}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=["sherpa", "node", "cxx", "ort"])
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path("target/release/libonnxruntime.so"))
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--headers", type=pathlib.Path)
    parser.add_argument("--valgrind", action="store_true")
    options = parser.parse_args()
    if options.valgrind and options.program != "cxx":
        parser.error("--valgrind is for cxx alone")
    options.library = options.library.resolve(strict=True)
    with tempfile.TemporaryDirectory() as name:
        make = {"sherpa": sherpa, "node": node, "cxx": cxx, "ort": ort}[options.program]
        sides = make(pathlib.Path(name), options)
        theirs = outcome(*sides.of(0))
        command, variables = sides.of(1)
        ours = outcome([*(MEMCHECK if options.valgrind else []), *command], variables)
    times = {"its own library": theirs.pop("times"), "Kiln": ours.pop("times")}
    equal = theirs == ours
    print(f"{options.program}: {'equal' if equal else 'DIFFERENT'}: {json.dumps(ours)}")
    if not equal:
        print(f"{options.program}: its own library: {json.dumps(theirs)}")
    for whose, measured in times.items():
        if measured:
            print(f"{options.program} on {whose}: {json.dumps(measured)}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
