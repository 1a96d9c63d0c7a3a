"""Keep XLA from compiling kernels for a GPU that is not here.

XLA plans a program's memory before it compiles its kernels, which takes up to half of the time. No
option ends it after the plan. So the kernels are compiled without optimization, and the assembler,
which XLA starts as a process for each of them, is one that writes an empty result. What a real
assembler refuses is not noticed: a kernel that asks for too much of the memory on the chip. XLA
itself refuses most of these before.
"""

from __future__ import annotations

from pathlib import Path

from framebench.devices.xla.jax_target import CUDA

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


def make_toolkit(folder: Path) -> dict[str, str | bool]:
    """Make a toolkit with such an assembler in a folder, and return XLA's options to use it."""
    programs = folder / "bin"
    programs.mkdir()
    assembler = programs / "ptxas"
    major, minor = CUDA
    assembler.write_text(ASSEMBLER.format(major=major, minor=minor))
    assembler.chmod(0o755)
    return {"xla_gpu_cuda_data_dir": str(folder), "xla_backend_optimization_level": "0"}
