"""A scenario of a package, run and observed: `python observed.py NAME OUT`.

Writes to OUT.npz what every call of a session returned, and to OUT.json the package's answers and its times. The
package, its models and onnxruntime's class are what they are; only calls of `InferenceSession.run` are noted.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

#: How often a scenario is repeated after its first time, of which the least counts.
REPEATS = 9


def numbers(outputs: list[Any]) -> list[Any]:
    """The arrays of numbers among outputs."""
    return [array for array in outputs if isinstance(array, np.ndarray) and array.dtype.kind in "fiub"]


def main(name: str, out: str) -> None:
    """Runs the scenario of that name."""
    noted: list[Any] = []
    run = onnxruntime.InferenceSession.run

    def noting(self: Any, *arguments: Any, **options: Any) -> Any:
        outputs = run(self, *arguments, **options)
        # A program may write over its outputs.
        noted.extend(array.copy() for array in numbers(outputs))
        return outputs

    spec = importlib.util.spec_from_file_location("scenario", Path(__file__).parent / "scenarios" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    scenario = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scenario)
    began = time.perf_counter()
    loaded = scenario.load()
    times = {"load": time.perf_counter() - began}
    onnxruntime.InferenceSession.run = noting
    answer = scenario.ask(loaded)
    onnxruntime.InferenceSession.run = run
    each = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        scenario.ask(loaded)
        each.append(time.perf_counter() - began)
    times.update(repeat=min(each))
    np.savez(f"{out}.npz", *noted)
    report = {"answer": answer, "times": times, "module": onnxruntime.InferenceSession.__module__}
    Path(f"{out}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
