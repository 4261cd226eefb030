"""Times of Kiln beside onnxruntime's over the zoo's cases.

    times.py FOLDER [--rounds N] [--threads N] [--seconds S] [--json FILE] [NAME...]

FOLDER/suite has the cases that suite.py makes. Each measurement is a process of its own, which loads the model, answers
its requests in their order once (the first pass, in which most shapes are new), and then again and again for S seconds.
The processes of a model alternate: Kiln without records, onnxruntime, and Kiln with the records that its first process
has left. Both are called by the same program, through `kiln.onnxruntime` and `onnxruntime`.

Printed are medians over the rounds: milliseconds of onnxruntime, and Kiln's share of them. `steady` is the sum over all
requests of each one's median, `peak` the process's largest resident memory beyond what it had before the load. The
Python that runs this has both packages.
"""
import argparse
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

MEASURES = ("load", "first", "steady", "peak")


def resident(name):
    """A line of this process's memory in MiB: VmRSS is now, VmHWM the most."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(name + ":"))
    return int(line.split()[1]) / 1024


def measure(runtime, case, threads, seconds):
    """What one process takes for a model; printed as JSON. The package is imported before anything is timed."""
    import onnx
    from onnx import numpy_helper

    if runtime == "kiln":
        import kiln.onnxruntime as library
    else:
        import onnxruntime as library

    options = library.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3

    # Inputs are named by their files; the names of a session come later.
    requests = []
    sets = sorted(case.glob("test_data_set_*"), key=lambda path: int(path.name.rsplit("_", 1)[1]))
    for folder in sets:
        values = []
        for path in sorted(folder.glob("input_*.pb"), key=lambda path: int(path.stem.rsplit("_", 1)[1])):
            tensor = onnx.TensorProto.FromString(path.read_bytes())
            values.append((tensor.name, numpy_helper.to_array(tensor)))
        requests.append(values)
    gc.collect()
    base = resident("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")

    begun = time.perf_counter()
    session = library.InferenceSession(str(case / "model.onnx"), options, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - begun
    names = [one.name for one in session.get_inputs()]
    feeds = [
        {(name or names[index]): value for index, (name, value) in enumerate(values)} for values in requests
    ]

    def one_pass():
        times = []
        for feed in feeds:
            start = time.perf_counter()
            session.run(None, feed)
            times.append(time.perf_counter() - start)
        return times

    first = sum(one_pass())
    passes = [one_pass()]
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(passes) < 3:
        passes.append(one_pass())
    steady = sum(statistics.median(one) for one in zip(*passes))
    found = {"load": load * 1e3, "first": first * 1e3, "steady": steady * 1e3, "peak": resident("VmHWM") - base}
    print(json.dumps(found))


def child(runtime, case, options, records):
    command = [sys.executable, __file__, "--measure", runtime, str(case), "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds)]
    environment = {**os.environ, "KILN_CACHE_DIR": records}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise SystemExit(f"{runtime} on {case.name}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(case, options):
    """The medians of a model: of onnxruntime, and of Kiln's first and next process."""
    rounds = {"onnxruntime": [], "kiln": [], "kiln, next": []}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as records:
            rounds["kiln"].append(child("kiln", case, options, records))
            rounds["onnxruntime"].append(child("onnxruntime", case, options, records))
            rounds["kiln, next"].append(child("kiln", case, options, records))
    return {
        who: {measure: statistics.median(one[measure] for one in all_) for measure in MEASURES}
        for who, all_ in rounds.items()
    }


def row(name, found):
    peer, first, later = found["onnxruntime"], found["kiln"], found["kiln, next"]
    cells = [name] + [f"{peer[one]:.3g}" for one in MEASURES]
    cells += [f"{first[one] / peer[one]:.2f}" for one in MEASURES]
    cells += [f"{later[one] / peer[one]:.2f}" for one in ("load", "first")]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--measure", choices=("kiln", "onnxruntime"), help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.measure:
        return measure(options.measure, options.folder, options.threads, options.seconds)
    suite = options.folder / "suite"
    names = options.names or sorted(path.parent.name for path in suite.glob("*/tolerance.json"))
    print("| model | onnxruntime: load ms | first pass | steady | peak MiB "
          "| Kiln: load | first pass | steady | peak | next process: load | first pass |")
    print("|---" * 11 + "|")
    all_found = {}
    for name in names:
        all_found[name] = compared(suite / name, options)
        print(row(name, all_found[name]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(all_found, indent=1))
    for who, measures in (("kiln", MEASURES), ("kiln, next", ("load", "first"))):
        for one in measures:
            shares = [found[who][one] / found["onnxruntime"][one] for found in all_found.values()]
            mean = statistics.geometric_mean(max(share, 1e-3) for share in shares)
            print(f"{who}, {one}: geometric mean {mean:.2f}, most {max(shares):.2f}")


if __name__ == "__main__":
    main()
