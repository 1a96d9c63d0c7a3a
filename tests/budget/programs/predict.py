import json
import sys

from framebench.budget.predict.worker import predict
from framebench.suite.hypothetical import parse_any_batch

print(json.dumps({c: predict(parse_any_batch(c)) for c in sys.argv[1:]}))
