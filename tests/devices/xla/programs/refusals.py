"""What is made of an error of XLA's, given as the first argument."""

import json
import sys

from framebench.devices.xla.jax_plan import refused

if __name__ == "__main__":
    print(json.dumps([refused(error) for error in sys.argv[1:]]))
