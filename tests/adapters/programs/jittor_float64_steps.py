"""`CASE ...`: print what the check in float64 says of each case."""

import json
import sys

from framebench.suite.result import to_json
from framebench.suite.selectors import parse
from framebench.worker.mathematics import check_in_float64

print(json.dumps([to_json(check_in_float64(parse(name))) for name in sys.argv[1:]]))
