import json
import sys

from framebench.budget.predict.worker import predict
from framebench.suite.hypothetical import named

print(json.dumps({c: predict(named(c)) for c in sys.argv[1:]}))
