"""`CASE`: verify a case, and print the verification, the evidence and the verdict."""

import json
import sys

from framebench import adapters
from framebench.suite.result import to_json
from framebench.suite.selectors import parse
from framebench.worker import worker

adapter = adapters.load(parse(sys.argv[1]))
adapter.build()
verification = worker.make_verified_steps(adapter)[1]
effect = adapter.judge_effect()
answer = {
    "verification": to_json(verification),
    "proven": effect.proven,
    "evidence": effect.evidence,
}
print(json.dumps(answer))
