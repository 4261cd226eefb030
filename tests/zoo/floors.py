"""Holds what `kiln check --json` found of the zoo against what is known of every model: nothing may be lost again.

    floors.py CHECK.json [--all]
    floors.py --addresses CHECK.json

Prints the counts, and exits 1 where a model does not pass that is not listed below, where one passes that is (then the
list is out of date), or where --all was to run and too many models are missing. With --addresses, of a run that may have
so many addresses: a model may also be refused memory, and nothing else, and some are.
"""
import collections
import json
import sys

import models

# Refused when the model is loaded, and why.
REFUSED = {}

# Models that may be missing: packages vanish from their indices.
MISSING = 6

few_addresses, whole = "--addresses" in sys.argv, "--all" in sys.argv
(file,) = (word for word in sys.argv[1:] if not word.startswith("--"))
results = json.load(open(file))
counts, problems = collections.Counter(), []
for name, result in sorted(results.items()):
    kind = result.split(":")[0]
    counts[kind] += 1
    if few_addresses and kind == "refused" and ("memory" in result or "bytes" in result):
        continue
    if name in REFUSED:
        if kind == "passed":
            problems.append(f"{name} passes: take it off the list in tests/zoo/floors.py")
        elif kind != "refused":
            problems.append(f"{name}: {result}")
    elif kind != "passed":
        problems.append(f"{name}: {result}")
print("  ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
if few_addresses and not (counts["refused"] and counts["passed"]):
    problems.append("a limit that refuses none, or all, shows nothing")
missing = sorted(models.read().keys() - results.keys())
if whole and missing:
    print(f"not to be had: {', '.join(missing)}")
    if len(missing) > MISSING:
        problems.append(f"{len(missing)} models are missing")
print("\n".join(problems) or "every model that is not listed is right")
sys.exit(bool(problems))
