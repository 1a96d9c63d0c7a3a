"""Print what is in a user's file in JAX: `python -m framebench.user_file.flax_facts BATCH`.

It prints JSON: `user_model.facts`, or `{"fault": ...}`. The weights are made on the host.
"""

from __future__ import annotations

import json
import sys

from framebench.adapters.jax import user_model
from framebench.suite.user_file import Fault, describe_fault

if __name__ == "__main__":
    try:
        print(json.dumps(user_model.facts(int(sys.argv[1]))))
    except Fault as error:
        print(json.dumps({"fault": str(error)}))
    except Exception as error:
        print(json.dumps({"fault": describe_fault(error, user_model.user().file)}))
