"""Help releases of JAX before 0.9 to plan for a device that is not here.

They need help twice. XLA refuses matmuls whose tiles it would choose by running them: "Expect
autotune result cache hit for deviceless compilation". Told not to choose, it takes its default, as
later releases do without a device. And when XLA has compiled, JAX asks the device for its kinds of
memory, gets none, and refuses the executable: "Could not find memory addressable by device". The
plan is complete by then, so this question is not asked.
"""

from __future__ import annotations

import os
from typing import Any

import jax
from jax._src.interpreters import pxla

FLAGS = {"xla_gpu_autotune_level": "0"}


class WithoutKinds:
    """An executable that does not say in which kind of memory its outputs lie."""

    def __init__(self, executable: Any) -> None:
        """Stand in for `executable`, except for the kinds of memory."""
        self.executable = executable

    def get_output_memory_kinds(self) -> None:
        """Raise NotImplementedError, by which JAX understands that the kinds are not known."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def help_jax() -> dict[str, str]:
    """Help a release that needs it, before anything is compiled. Return the flags that are set."""
    if jax.__version_info__ >= (0, 9):
        return {}
    os.environ["XLA_FLAGS"] = " ".join(f"--{name}={value}" for name, value in FLAGS.items())
    get_shardings = pxla.get_out_shardings_from_executable

    def get_shardings_without_kinds(executable: Any, *others: Any) -> Any:
        return get_shardings(WithoutKinds(executable), *others)

    pxla.get_out_shardings_from_executable = get_shardings_without_kinds  # type: ignore[assignment]
    return FLAGS
