import json

import jax
import jax.numpy as jnp

from framebench.adapters.jax.program import count_plan_bytes

x = jnp.ones((256, 2**18), jnp.float32)  # 256 MiB in, 256 MiB out, nothing between
print(json.dumps(count_plan_bytes(jax.jit(lambda x: x + 1).lower(x).compile())))
