"""Print how each of XLA's error messages, given as arguments, is classified."""

import json
import sys
from dataclasses import asdict

from framebench.devices.xla.jax_errors import explain_error

print(json.dumps([asdict(explain_error(error)) for error in sys.argv[1:]]))
