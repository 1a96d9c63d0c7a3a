import json

import jax
import numpy as np

from framebench import adapters
from framebench.suite.selectors import parse


def stepped(strategy):
    adapter = adapters.load(parse(f"transformer/jax/train/{strategy}/b4/tiny"))
    adapter.build()
    adapter.step()
    adapter.restore()
    adapter.step()
    return adapter, dict(adapter.weights()) | {f"{s.kind} {s.name}": s.array for s in adapter.states()}


_, plain = stepped("fp32")
adapter, values = stepped("optimizer_offload")
found = {"same": all(np.allclose(values[k], plain[k], rtol=1e-4, atol=1e-7) for k in plain) and sorted(values) == sorted(plain)}
effect = adapter.judge_effect()
found |= {"proven": effect.proven, "on host": effect.evidence["state_bytes_on_host"] == effect.evidence["state_bytes"] > 0}
asked = [v.aval for q in adapter.jaxprs() for eq in q.eqns if eq.primitive.name == "device_put" for v in eq.outvars]
found["asked for"] = sum(a.size * a.dtype.itemsize for a in asked if "<host>" in str(a)) >= effect.evidence["state_bytes"]
adapter.optimizer_state = jax.tree.map(lambda a: jax.device_put(np.asarray(a)), adapter.optimizer_state)
found["live bytes"] = adapter.live_bytes()
adapter.optimizer_state = None
found["live bytes"] -= adapter.live_bytes()
found["live bytes"] = found["live bytes"] >= effect.evidence["state_bytes"]
print(json.dumps(found))
