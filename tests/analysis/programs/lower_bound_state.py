"""Print the bytes that a step of each case holds in PyTorch, by what they are, as JSON."""

import json
import sys
import warnings

from torch import Tensor

from framebench import adapters
from framebench.adapters.torch.observe import StepCounter, count_unique_bytes
from framebench.suite.selectors import parse


def list_optimizer_states(run):
    """Return the tensors that the optimizer keeps; a step that does not train has none."""
    states = []
    if run.case.scenario_spec.trains:
        for state in run.optimizer.state.values():
            states += [value for value in state.values() if isinstance(value, Tensor)]
    return states


def read_states(case_id):
    """Return the bytes after two steps of a case, and what the second saved."""
    run = adapters.load(parse(case_id))
    run.build()
    run.step()
    params = list(run.model.parameters())
    buffers = list(run.model.buffers())
    # without models all forward passes of a step count as one
    observed = StepCounter([], [], lasting=[*params, *buffers, *run.inputs])
    with observed:
        run.one_step()
    states = list_optimizer_states(run)
    run.release()

    gradients = [param.grad for param in params if param.grad is not None]
    # counters of steps and batches have no dimension
    counters = [tensor for tensor in [*states, *buffers] if tensor.ndim == 0]
    return {
        "parameters": count_unique_bytes(params),
        "gradients": count_unique_bytes(gradients),
        "buffers": count_unique_bytes(buffer for buffer in buffers if buffer.is_floating_point()),
        "optimizer": count_unique_bytes(state for state in states if state.ndim > 0),
        "inputs": count_unique_bytes(run.inputs),
        "live": run.live_bytes(),
        "counters": count_unique_bytes(counters),
        "saved": observed.activation_bytes,
    }


warnings.simplefilter("ignore")
print(json.dumps({case_id: read_states(case_id) for case_id in sys.argv[1:]}))
