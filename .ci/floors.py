"""Holds the counts of `kiln check --json` against what has been reached before: nothing may be lost again.

    floors.py CHECK.json

Prints the counts of each suite and exits 1 where a suite passes fewer cases than its floor, or a case is wrong or
crashed in greater number than allowed. Raise a floor whenever a change passes more.
"""
import collections
import json
import sys

# suite: (cases passed at least, cases wrong at most)
FLOORS = {
    "light": (9, 0),
    # Wrong are: half-precision attention that rounds in another order than the reference (10), random numbers that no
    # seed pins down across implementations (3), and a transform whose expected zeros are the reference's own noise (2).
    "node": (1830, 15),
    "pytorch-converted": (79, 0),
    "pytorch-operator": (35, 0),
    "simple": (21, 0),
}

results = json.load(open(sys.argv[1]))
suites = collections.defaultdict(collections.Counter)
for name, result in results.items():
    suites[name.split("/")[0]][result.split(":")[0]] += 1
bad = False
for suite, counts in sorted(suites.items()):
    print(f"{suite:20} " + "  ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    passed, wrong = FLOORS.get(suite, (0, 0))
    if counts["passed"] < passed or counts["wrong"] > wrong or counts["crashed"]:
        print(f"{suite}: at least {passed} must pass, at most {wrong} may be wrong, none may crash")
        bad = True
        for name, result in sorted(results.items()):
            if name.startswith(suite + "/") and result.split(":")[0] in ("wrong", "crashed"):
                print(f"  {name}: {result}")
missing = set(FLOORS) - set(suites)
if missing:
    print("no such suite in the results:", ", ".join(sorted(missing)))
sys.exit(bad or bool(missing))
