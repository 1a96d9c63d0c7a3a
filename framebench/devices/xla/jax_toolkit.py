"""Compile for a GPU that is not here, without its assembler and its timings.

XLA plans a program's memory before it compiles its kernels, which takes up to half of the time. No
option ends it after the plan. So the kernels are compiled without optimization, and the assembler,
which XLA starts as a process for each of them, is one that writes an empty result. What a real
assembler refuses is not noticed: a kernel that asks for too much of the memory on the chip. XLA
itself refuses most of these before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jax.errors import JaxRuntimeError

from framebench.devices.xla.jax_target import CUDA

Options = dict[str, str | bool]  # XLA's
Result = TypeVar("Result")

NO_TILES = "find output tile sizes"  # in an error of XLA's about Triton's kernels
WITHOUT_TRITON: Options = {"xla_gpu_enable_triton_gemm": False}

# XLA asks for the version, and passes the file of a result after -o
ASSEMBLER = """#!/bin/sh
case "$*" in
  *--version*) echo "Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.0"; exit ;;
esac
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then echo > "$2"; fi
  shift
done
"""


def make_toolkit(folder: Path) -> Options:
    """Make a toolkit with such an assembler in a folder, and return XLA's options to use it."""
    programs = folder / "bin"
    programs.mkdir()
    assembler = programs / "ptxas"
    major, minor = CUDA
    assembler.write_text(ASSEMBLER.format(major=major, minor=minor))
    assembler.chmod(0o755)
    return {"xla_gpu_cuda_data_dir": str(folder), "xla_backend_optimization_level": "0"}


def compile_with_tiles(
    compile_step: Callable[[Options], Result], options: Options
) -> tuple[Result, bool]:
    """Return what `compile_step(options)` returns, and whether it took cuBLAS for all matmuls.

    On a GPU XLA finds the tiles of Triton's kernels by running them. Without one it takes tiles
    that it has by default, which some shapes cannot have, such as the 196 tokens of a vision
    transformer: then the step is compiled again with cuBLAS's matmuls. Raises JaxRuntimeError.
    """
    try:
        return compile_step(options), False
    except JaxRuntimeError as error:
        if NO_TILES not in str(error):
            raise
    return compile_step(options | WITHOUT_TRITON), True
