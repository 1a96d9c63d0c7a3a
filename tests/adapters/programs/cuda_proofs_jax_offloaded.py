"""Print what a step with the optimizer's state in host memory does, next to a plain one."""

import json

import jax
import numpy as np

from framebench import adapters
from framebench.adapters.jax.offload import count_bytes_to_host
from framebench.suite.selectors import parse
from tests.adapters.programs.steps import are_close, read_tensors


def make_two_steps(strategy):
    adapter = adapters.load(parse(f"transformer/jax/train/{strategy}/b4/tiny"))
    adapter.build()
    adapter.step()
    adapter.restore()
    adapter.step()
    return adapter


def count_live_bytes_of_state(adapter):
    """Return by how much the live bytes fall if a state on the device is dropped."""
    on_host = jax.tree.map(np.asarray, adapter.optimizer_state)
    adapter.optimizer_state = jax.device_put(on_host)
    with_state = adapter.live_bytes()
    adapter.optimizer_state = None
    return with_state - adapter.live_bytes()


plain = read_tensors(make_two_steps("fp32"))
adapter = make_two_steps("optimizer_offload")
is_same = are_close(read_tensors(adapter), plain)
effect = adapter.judge_effect()
state_bytes = effect.evidence["state_bytes"]
answer = {
    "same": is_same,
    "proven": effect.proven,
    "on host": effect.evidence["state_bytes_on_host"] == state_bytes > 0,
    "asked for": count_bytes_to_host(adapter.list_jaxprs()) >= state_bytes,
    "live bytes": count_live_bytes_of_state(adapter) >= state_bytes,
}
print(json.dumps(answer))
