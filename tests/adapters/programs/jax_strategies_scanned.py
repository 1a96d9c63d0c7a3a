import json
import sys

from framebench import adapters
from framebench.adapters.jax.checkpoint import scannable
from framebench.suite.selectors import parse

print(json.dumps([scannable(adapters.load(parse(name))) for name in sys.argv[1:]]))
