"""Runs a program with Kiln in onnxruntime's place.

python -m kiln.onnxruntime [--fallback] program.py [argument ...]
python -m kiln.onnxruntime [--fallback] -m module [argument ...]
"""

from __future__ import annotations

import os
import runpy
import sys

import kiln.onnxruntime


def main(arguments: list[str]) -> int:
    """Runs the program that the arguments name."""
    fallback = arguments[:1] == ["--fallback"]
    rest = arguments[1:] if fallback else arguments
    as_module = rest[:1] == ["-m"]
    rest = rest[1:] if as_module else rest
    if not rest or rest[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if rest else 2
    kiln.onnxruntime.install(fallback=fallback)
    sys.argv = rest
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(rest[0])))
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
