import gc
import json
import sys
from pathlib import Path

from framebench import adapters
from framebench.suite.selectors import parse


def judge(proof, evidence):
    # None where the record lacks a count that decides
    is_complete = True
    for expectation in proof.expectations:
        try:
            if expectation.failure(evidence):
                return False
        except KeyError:
            is_complete = False
    return True if is_complete else None


verdicts = []
for record in json.loads(Path(sys.argv[1]).read_text()):
    adapter = adapters.load(parse(record["case"]))
    adapter.switch_on()
    effect = record["effect"]
    for name, proof in adapter.proofs.items():
        # all parts of a combination add to one evidence; "buffers" may be of the last that counted
        # them
        recorded = effect["evidence"].get("proven", {}).get(name, effect["proven"])
        verdicts.append([record["case"], name, recorded, judge(proof, effect["evidence"])])
    gc.callbacks.clear()
print(json.dumps(verdicts))
