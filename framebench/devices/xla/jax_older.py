"""The planner of `xla.jax_plan` in releases of JAX before 0.9, which need help twice.

XLA refuses products whose tiles it would choose by running them: "Expect autotune result cache hit for deviceless compilation".
Told not to choose, it takes its default, as later releases do where there is no device. And when XLA has compiled, JAX asks the
device for its kinds of memory, is told none, and refuses the executable: "Could not find memory addressable by device". The
plan is complete by then, so the question alone is left out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import jax
from jax._src.interpreters import pxla

from framebench.devices.catalog import find
from framebench.devices.xla.jax_plan import plan
from framebench.suite.case import Case

FLAGS = {"xla_gpu_autotune_level": "0"}


class WithoutKinds:
    """An executable that does not say in which kind of memory its outputs lie."""

    def __init__(self, executable: Any) -> None:
        self.executable = executable

    def get_output_memory_kinds(self) -> None:
        raise NotImplementedError  # which JAX takes for: not known

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def asked_without_kinds(shardings: Callable[..., Any]) -> Callable[..., Any]:
    return lambda executable, *others: shardings(WithoutKinds(executable), *others)


def help_jax() -> dict[str, str]:
    """Before anything is compiled. Returns the flags that are set."""
    if jax.__version_info__ >= (0, 9):
        return {}
    os.environ["XLA_FLAGS"] = " ".join(f"--{name}={value}" for name, value in FLAGS.items())
    pxla.get_out_shardings_from_executable = asked_without_kinds(pxla.get_out_shardings_from_executable)
    return FLAGS


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    flags = help_jax()
    asked, target = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints
    told = plan(Case.of(asked), find(target))
    print(json.dumps(told | {"flags": told.get("flags", {}) | flags}), file=out, flush=True)
    os._exit(0)
