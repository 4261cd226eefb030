"""Holds the results of `kiln check --json` against what is known of every case: nothing may be lost again.

    floors.py CHECK.json

Prints the counts of each suite and exits 1 where a case that is not listed below does not pass, where one that is listed
passes (then the list is out of date), or where a suite has lost cases.
"""
import collections
import fnmatch
import json
import sys

# Cases of each suite: a suite that shrinks has lost some.
CASES = {"light": 9, "node": 1884, "pytorch-converted": 82, "pytorch-operator": 35, "simple": 23}

# Everything that is refused, and why. Nothing may be wrong or crash.
REFUSED = {
    "node/test_image_decoder_*": "decoding images is out of scope",
    "node/test_adagrad*": "training is out of scope",
    "node/test_adam*": "training is out of scope",
    "node/test_momentum*": "training is out of scope",
    "node/test_nesterov_momentum": "training is out of scope",
    "simple/test_gradient_of_*": "training is out of scope",
}

results = json.load(open(sys.argv[1]))
suites = collections.defaultdict(collections.Counter)
problems = []
for name, result in sorted(results.items()):
    kind = result.split(":")[0]
    suites[name.split("/")[0]][kind] += 1
    allowed = any(fnmatch.fnmatch(name, pattern) for pattern in REFUSED)
    if allowed and kind == "passed":
        problems.append(f"{name} passes: take it off the list in {sys.argv[0]}")
    elif kind != ("refused" if allowed else "passed"):
        problems.append(f"{name}: {result}")
for suite, counts in sorted(suites.items()):
    print(f"{suite:20} " + "  ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
for suite, expected in CASES.items():
    found = sum(suites[suite].values())
    if found < expected:
        problems.append(f"suite {suite} has {found} cases, not {expected}")
print("\n".join(problems) or "every case that is not listed as refused passes")
sys.exit(bool(problems))
