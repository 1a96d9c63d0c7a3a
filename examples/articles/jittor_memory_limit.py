"""Article B, a cap on Jittor's memory."""

import json

import jittor

jittor.misc.set_memory_limit(2**30)
print(json.dumps({"capped": 1}))
