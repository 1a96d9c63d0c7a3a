"""Article B, attention in the place of the model's."""

import json

import jittor

q, k, v = (jittor.rand(1, 2, 16, 8) for _ in range(3))
print(json.dumps({"tokens": jittor.ops.optimized_attention(q, k, v).shape[2]}))
