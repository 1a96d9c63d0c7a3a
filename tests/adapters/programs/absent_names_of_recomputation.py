"""Print the public names in Jittor's modules and classes that speak of recomputation."""

import json
import os
import sys

import jittor

WORDS = ("checkpoint", "recompute", "remat")
names = set(dir(jittor))
for module_name, module in list(sys.modules.items()):
    if module_name.startswith("jittor."):
        names |= set(dir(module))
        for value in list(vars(module).values()):
            if isinstance(value, type):
                names |= set(vars(value))
found = []
for name in sorted(names):
    if not name.startswith("_") and any(word in name.lower() for word in WORDS):
        found.append(name)
print(json.dumps(found))
sys.stdout.flush()
os._exit(0)  # Jittor's clean-up at exit sometimes crashes
