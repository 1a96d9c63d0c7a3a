"""Print as JSON the planned peak of attention over 196 tokens on a GPU, and its arguments' bytes.

For the gradient of the projection XLA has no default tiles of Triton's kernels.
"""

import json

import jax
import jax.numpy as jnp

from framebench.devices import plan

HEADS, WIDTH = 6, 64


def attend(tokens, weights):
    projected = (tokens @ weights).reshape(*tokens.shape[:2], HEADS, WIDTH)
    scores = jnp.einsum("bqhd,bkhd->bhqk", projected, projected)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), projected).sum()


tokens = jax.ShapeDtypeStruct((64, 196, HEADS * WIDTH), jnp.float32)
weights = jax.ShapeDtypeStruct((HEADS * WIDTH, HEADS * WIDTH), jnp.float32)
planned = plan(jax.grad(attend, argnums=(0, 1)), [tokens, weights], "a100-40gb")
print(json.dumps({"peak": planned.peak, "arguments": 4 * (tokens.size + weights.size)}))
