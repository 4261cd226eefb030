#!/usr/bin/env python3
"""Kiln beside PyTorch on one NVIDIA GPU: search, steady state, many shapes, restart, memory.

    python3 benches/gpu/compare.py target/release/kiln [--images 200] [--json FILE]

Needs torch, torchvision and onnx, and a kiln with the feature `cuda` (KILN_CUDA_LIB_DIRS names the folders of the
libraries where the loader does not find them). Both run the same network: torchvision's resnet50 with random weights,
exported once. All times are medians in milliseconds, of whole requests with their inputs and outputs on the
processor, which is what a request costs; TF32 is off for both, then on for both. Each part has a process of its own:
PyTorch keeps what it chose without its benchmark mode, and would find it again with it. Prints tables in Markdown.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEADY = 30


def shapes(count):
    """Image sizes that a server may meet: all different, between 160 and 480 pixels a side."""
    found, state = [], 12345
    while len(found) < count:
        state = (state * 1103515245 + 12345) % (1 << 31)
        size = (160 + state // 64 % 41 * 8, 160 + state // 8192 % 41 * 8)
        if size not in found:
            found.append(size)
    return found


def resnet50():
    import torch
    import torchvision

    torch.manual_seed(0)
    return torchvision.models.resnet50(weights=None).eval()


def export(path):
    import torch

    dims = {"input": {0: "N", 2: "H", 3: "W"}, "logits": {0: "N"}}
    names = {"input_names": ["input"], "output_names": ["logits"]}
    torch.onnx.export(resnet50(), torch.zeros(1, 3, 224, 224), path, dynamic_axes=dims, dynamo=False, **names)


def alone(work, *arguments):
    """The result of a function in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(work, *arguments).result()


def torch_side(sizes, tf32, benchmark):
    """First and steady times by size, and the total of all sizes once."""
    import torch

    torch.backends.cudnn.benchmark = benchmark
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    model = resnet50().cuda()
    inputs = {size: torch.rand(1, 3, *size) for size in sizes}

    def request(size):
        start = time.perf_counter()
        with torch.inference_mode():
            model(inputs[size].cuda()).cpu()
        return (time.perf_counter() - start) * 1e3

    firsts = [request(size) for size in sizes]
    steady = {str(size): statistics.median(request(size) for _ in range(STEADY)) for size in sizes[:4]}
    return {"first": statistics.median(firsts), "steady": steady, "total": sum(firsts), "firsts": firsts}


def kiln_side(kiln, path, sizes, tf32, cache, tune="off"):
    """What `kiln bench` says of the same sizes, in a process of its own, with room for as many plans as PyTorch keeps."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        inputs = [{"name": "input", "dtype": "float32", "shape": ["N", 3, "H", "W"], "fill": "unit"}]
        requests = [{"N": 1, "H": height, "W": width} for height, width in sizes]
        with open(trace, "w") as file:
            json.dump({"resnet50": {"inputs": inputs, "requests": requests, "steady": requests[:4]}}, file)
        out = os.path.join(folder, "out.json")
        command = [kiln, "bench", path, "--trace", trace, "--device", "cuda", "--iters", str(STEADY), "--json", out]
        command += ["--cache-dir", cache, "--tune", tune] + (["--tf32"] if tf32 else [])
        subprocess.run(command, check=True, stdout=sys.stderr, env={"KILN_CACHE_BYTES": "2GiB", **os.environ})
        with open(out) as file:
            return json.load(file)


def table(name, side):
    """The targets of the GPU part, row by row: what was found, and the most that it may be."""
    kiln, restart, plain, searched = (side[part] for part in ("kiln", "kiln restart", "torch", "torch benchmark"))
    steady = [row["median_ms"] for row in side["kiln tuned"]["steady"]]
    theirs = list(searched["steady"].values())
    # The first two requests load libraries and compile kernels, once in a process.
    firsts = [first / again for first, again in zip(kiln["lat1"][2:], kiln["lat2"][2:])]
    again = [first / again for first, again in zip(restart["lat1"][1:], restart["lat2"][1:])]
    rows = [
        ("first request of a new shape / its repeat", statistics.median(firsts), 1.1),
        ("restart: requests that had to choose anything", restart["outcomes"].count("cache_miss"), 0),
        ("restart: first request of a known shape / its repeat", statistics.median(again), 1.05),
        ("restart: the process's first request / PyTorch's", restart["lat1"][0] / plain["firsts"][0], 1.0),
        ("steady / PyTorch, benchmark on", statistics.median(a / b for a, b in zip(steady, theirs)), 1.0),
        ("all sizes once / PyTorch, benchmark on", kiln["pass1_ms"] / searched["total"], 0.2),
        ("all sizes once / PyTorch, benchmark off", kiln["pass1_ms"] / plain["total"], 1.0),
        ("device memory taken / most in use", kiln["device"]["taken"] / kiln["device"]["most_lent"], 2.0),
    ]
    print(f"\n{name}\n\n| what | found | at most |\n|---|---|---|")
    for what, found, most in rows:
        print(f"| {what} | {found:.3g} | {most:g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("--images", type=int, default=200, help="different sizes in turn (default 200)")
    parser.add_argument("--json", help="write everything to this file")
    arguments = parser.parse_args()
    sizes = shapes(arguments.images)
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "resnet50.onnx")
        alone(export, path)
        for tf32 in (False, True):
            name = "tf32" if tf32 else "f32"
            cache = os.path.join(folder, "cache-" + name)
            report[name] = {
                "torch": alone(torch_side, sizes, tf32, False),
                "torch benchmark": alone(torch_side, sizes, tf32, True),
                "kiln": kiln_side(arguments.kiln, path, sizes, tf32, cache),
                "kiln restart": kiln_side(arguments.kiln, path, sizes, tf32, cache),
                "kiln tuned": kiln_side(arguments.kiln, path, sizes[:4], tf32, cache + "-tuned", "full"),
            }
    for name, side in report.items():
        table(name, side)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(report, file, indent=1, default=str)


if __name__ == "__main__":
    main()
