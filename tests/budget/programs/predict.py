import json
import sys

from framebench.budget.predict.worker import predict_step_bytes
from framebench.suite.hypothetical import parse_any_batch

print(json.dumps({c: predict_step_bytes(parse_any_batch(c)) for c in sys.argv[1:]}))
