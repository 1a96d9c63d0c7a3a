"""Instruments read known allocations right: 512 MiB within 1 %."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from framebench.environments import Environment
from framebench.instruments.host import MALLOC_ENV, HostPeak, status_bytes
from tests.conftest import run_inside

MIB = 2**20
KNOWN = 512 * MIB

HOST = """
import json
import numpy as np
from framebench.instruments.host import HostPeak
warm = np.ones(64 * 2**20 // 8); del warm
found = []
for _ in range(3):
    peak = HostPeak()
    peak.start()
    array = np.ones(512 * 2**20 // 8)
    del array
    small = np.ones(2**20)
    found.append(peak.grown())
print(json.dumps(found))
"""


@pytest.mark.skipif(not HostPeak.available(), reason="needs a writable /proc/self/clear_refs")
def test_host_peak_sees_what_was_freed_again(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["torch"], HOST, variables=MALLOC_ENV)
    assert isinstance(found, list)
    assert found == pytest.approx([KNOWN] * 3, rel=0.01)


TORCH = """
import json
import torch
from framebench.instruments.host import HostPeak
peak = HostPeak(); peak.start()
a = torch.ones(256 * 2**20 // 4)
b = a * 2
del a, b
print(json.dumps(peak.grown()))
"""


@pytest.mark.skipif(not HostPeak.available(), reason="needs a writable /proc/self/clear_refs")
def test_host_peak_of_two_torch_tensors(environment: dict[str, Environment]) -> None:
    assert run_inside(environment["torch"], TORCH, variables=MALLOC_ENV) == pytest.approx(KNOWN, rel=0.01)


PLAN = """
import json
import jax, jax.numpy as jnp
from framebench.adapters.jax_adapter import plan_bytes
x = jnp.ones((256, 2**18), jnp.float32)  # 256 MiB in, 256 MiB out, nothing between
print(json.dumps(plan_bytes(jax.jit(lambda x: x + 1).lower(x).compile())))
"""


def test_xla_plan_of_a_known_program(environment: dict[str, Environment]) -> None:
    assert run_inside(environment["jax"], PLAN) == pytest.approx(KNOWN, rel=0.01)


JITTOR = """
import json
import jittor as jt
from framebench.instruments.jittor_probe import Probe
probe = Probe()
before = probe.in_use()
probe.reset()
a = jt.ones(256 * 2**20 // 4); a.sync()
b = a * 2; b.sync()
jt.sync_all(True)
del a, b
jt.gc()
print(json.dumps([probe.peak() - before, probe.in_use() - before]))
"""


def test_jittor_pool_peak_of_two_arrays(environment: dict[str, Environment]) -> None:
    peak, after = run_inside(environment["jittor"], JITTOR)  # type: ignore[misc]
    assert peak == pytest.approx(KNOWN, rel=0.01)
    assert after < 0.01 * KNOWN


def test_status_fields() -> None:
    assert status_bytes("VmHWM") >= status_bytes("VmRSS") > MIB
    with pytest.raises(OSError, match="VmNothing"):
        status_bytes("VmNothing")


def test_malloc_settings_are_what_makes_frees_visible() -> None:
    """The settings must be the worker's environment, since glibc reads them when a process starts."""
    assert set(MALLOC_ENV) == {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
    assert sys.platform != "linux" or os.confstr("CS_GNU_LIBC_VERSION")
    assert Path("/proc/self/status").exists() or sys.platform != "linux"
