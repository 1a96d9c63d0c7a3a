"""Print what is in a user's file: `python -m framebench.user_file.facts FRAMEWORK BATCH`.

It prints JSON: the result of `read_facts_of_shapes` in the framework's `user_model.py`, or
`{"fault": ...}`.
"""

from __future__ import annotations

import importlib
import json
import sys

from framebench.suite.user_file import Fault, describe_fault

if __name__ == "__main__":
    _, framework, batch = sys.argv
    user_model = importlib.import_module(f"framebench.adapters.{framework}.user_model")
    try:
        print(json.dumps(user_model.read_facts_of_shapes(int(batch))))
    except Fault as error:
        print(json.dumps({"fault": str(error)}))
    except Exception as error:
        print(json.dumps({"fault": describe_fault(error, user_model.user().file)}))
