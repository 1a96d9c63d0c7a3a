"""Plan JAX's cases one after the other, in an environment with XLA's compiler (`plans.serving`).

python -m framebench.devices.xla.jax_server
"""

from __future__ import annotations

import warnings

import jax

from framebench.devices.catalog import Device
from framebench.devices.plans.answer import PlannerAnswer
from framebench.devices.plans.serving import serve
from framebench.devices.xla.jax_older import help_jax
from framebench.devices.xla.jax_plan import plan
from framebench.suite.case import Case

MOST_DUMPED_BYTES = 2**30  # of a file of XLA's about one case


def plan_on_cpu(case: Case, device: Device) -> PlannerAnswer:
    """Return the plan of a case, for which JAX runs on the CPU.

    If its release needs help, flags of XLA are set, and are added to the `flags` of the answer.
    """
    jax.config.update("jax_platforms", "cpu")
    flags = help_jax()
    answer = plan(case, device)
    answer.flags |= flags
    return answer


if __name__ == "__main__":
    # JAX warns of a fork, whose threads do not go on in the child. Until then it has none here:
    # they begin with the first array or device
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
    serve(plan_on_cpu, MOST_DUMPED_BYTES)
