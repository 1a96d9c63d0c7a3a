import json
import sys

from framebench.features.predict.worker import predict
from framebench.suite.hypothetical import named

print(json.dumps({c: predict(named(c)) for c in sys.argv[1:]}))
