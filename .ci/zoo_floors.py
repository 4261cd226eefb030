"""Holds what `kiln check --json` found of the zoo against what is known of every model: nothing may be lost again.

    zoo_floors.py CHECK.json ZOO.json KIND...
    zoo_floors.py --addresses CHECK.json

Prints the counts and exits 1 where a model that is not listed below does not pass, where one that is listed as refused
passes (then the list is out of date), or where too many models of these kinds (shipped, made) are missing. With
--addresses, of a run that may have so many addresses: a model may also be refused memory, and nothing else, and some are.
"""
import collections
import json
import sys

# Refused when the model is loaded, and why.
REFUSED = {}

# Quantised models whose values may differ from onnxruntime's by a step of a quantisation, which grows on its way to the
# output, and where it comes from.
GROWS = "a dynamically quantised LSTM keeps its rounded state: one step in a gate grows from step to step"
ROWS = "every sequence of a batch is quantised by itself; onnxruntime quantises rows by its threads, and moves as much"
STEP = {
    "ddddocr_old_int8": "617 of 122,880 numbers of value 164 differ by one step; values before it are equal to 1e-4",
    "qwen_genai_int4": "rows of MatMulNBits are bytes (accuracy_level 4); at level 0 all values are within the tolerance",
    "kokoro_int8": "265 of 16,896 numbers differ by one step in the first of twelve layers, which share their weights",
    "rawi_int8": ROWS,
    "tagger_int8": ROWS,
    "tashkeel_bilstm_int8": f"{GROWS}; {ROWS}",
}

# Models of each kind that may be missing: packages vanish from their indices, and exporters change.
MISSING = {"shipped": 6, "made": 10}

few_addresses = sys.argv[1] == "--addresses"
results, zoo = json.load(open(sys.argv[2 if few_addresses else 1])), {}
if not few_addresses:
    zoo = json.load(open(sys.argv[2]))
counts, problems = collections.Counter(), []
for name, result in sorted(results.items()):
    kind = result.split(":")[0]
    counts[kind] += 1
    if few_addresses and kind == "refused" and ("memory" in result or "bytes" in result):
        continue
    if name in REFUSED:
        if kind == "passed":
            problems.append(f"{name} passes: take it off the list in .ci/zoo_floors.py")
        elif kind != "refused":
            problems.append(f"{name}: {result}")
    elif kind != "passed" and not (kind == "wrong" and name in STEP):
        problems.append(f"{name}: {result}")
print("  ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
if few_addresses and not (counts["refused"] and counts["passed"]):
    problems.append("a limit that refuses none, or all, shows nothing")
for kind in [] if few_addresses else sys.argv[3:]:
    missing = sorted(name for name, model in zoo.items() if model["kind"] == kind and name not in results)
    if missing:
        print(f"{kind}, not to be had: {', '.join(missing)}")
    if len(missing) > MISSING[kind]:
        problems.append(f"{len(missing)} models of the kind {kind} are missing")
print("\n".join(problems) or "every model that is not listed is right")
sys.exit(bool(problems))
