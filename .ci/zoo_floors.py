"""Holds what `kiln check --json` found of the zoo against what is known of every model: nothing may be lost again.

    zoo_floors.py CHECK.json ZOO.json KIND...

Prints the counts and exits 1 where a model that is not listed below does not pass, where one that is listed as refused
passes (then the list is out of date), or where too many models of these kinds (shipped, made) are missing.
"""
import collections
import json
import sys

# Refused when the model is loaded, and why.
CONTRIB = "operators of onnxruntime's own (com.microsoft), which it fuses and saves"
LEARN = "classical models (ai.onnx.ml): only TreeEnsemble of version 5 and a few others are done"
MAPS = "a sequence of maps as output"
REFUSED = {
    "ddddocr_old_int8": CONTRIB,
    "distilbert_fused": CONTRIB,
    "kokoro_int8": CONTRIB,
    "luscinia_trees": MAPS,
    "minilm_int8_saved": CONTRIB,
    "minilm_l3_fused": CONTRIB,
    "minilm_l3_saved": CONTRIB,
    "ppocr4_det_saved": CONTRIB,
    "ppocr6_rec_saved": CONTRIB,
    "qwen_genai_fp32": CONTRIB,
    "qwen_genai_int4": CONTRIB,
    "rawi_int8": CONTRIB,
    "sk_boost": LEARN,
    "sk_forest": LEARN,
    "sk_lr": LEARN,
    "sk_lr_zipmap": MAPS,
    "surf_scaler": LEARN,
    "tagger_int8": CONTRIB,
    "tashkeel_bilstm_int8": CONTRIB,
    "whisper_enc_fused": CONTRIB,
}

# Quantised models whose values may differ from onnxruntime's by a step of a quantisation, which grows on its way to the
# output, and where it comes from.
STEP = {}

# Models of each kind that may be missing: packages vanish from their indices, and exporters change.
MISSING = {"shipped": 6, "made": 10}

results, zoo = (json.load(open(path)) for path in sys.argv[1:3])
counts, problems = collections.Counter(), []
for name, result in sorted(results.items()):
    kind = result.split(":")[0]
    counts[kind] += 1
    if name in REFUSED:
        if kind == "passed":
            problems.append(f"{name} passes: take it off the list in .ci/zoo_floors.py")
        elif kind != "refused":
            problems.append(f"{name}: {result}")
    elif kind != "passed" and not (kind == "wrong" and name in STEP):
        problems.append(f"{name}: {result}")
print("  ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
for kind in sys.argv[3:]:
    missing = sorted(name for name, model in zoo.items() if model["kind"] == kind and name not in results)
    if missing:
        print(f"{kind}, not to be had: {', '.join(missing)}")
    if len(missing) > MISSING[kind]:
        problems.append(f"{len(missing)} models of the kind {kind} are missing")
print("\n".join(problems) or "every model that is not listed is right")
sys.exit(bool(problems))
