"""The devices that XLA compiles for without having them:

GPUs by their figures, TPUs by the name of a slice.
"""

from __future__ import annotations

import jax
from jax.experimental import topologies

from framebench.devices.catalog import Device

CUDNN = (9, 12, 0)  # the oldest that the plug-in's release takes
CUDA = (13, 0)  # the oldest that the plug-in's release takes
SLICES = ((2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))  # chips of a TPU's slice


def make_devices(device: Device, ranks: int) -> list[jax.Device]:
    """Return as many devices as a case has ranks, in one host. Raises the errors of XLA."""
    if device.kind == "tpu":
        topology = topologies.get_topology_desc(
            platform="tpu", topology_name=choose_slice(device, ranks)
        )
    else:
        config = describe_gpu(device)
        topology = topologies.get_topology_desc(
            platform="cuda", target_config=config, topology=f"1x1x{ranks}"
        )
    return list(topology.devices[:ranks])


def choose_slice(device: Device, ranks: int) -> str:
    """Return the smallest slice with so many chips, such as v5e:2x4.

    It has three axes if the device's topology has three.
    """
    kind, _, shape = device.topology.partition(":")
    third_axis = "x1" if shape.count("x") == 2 else ""
    enough = [(height, width) for height, width in SLICES if height * width >= ranks]
    height, width = enough[0]
    return f"{kind}:{height}x{width}{third_axis}"


def describe_gpu(device: Device) -> str:
    """Return what XLA asks a GPU for, as a GpuTargetConfigProto in text.

    Fields that older releases do not know are left out.
    """
    major, minor = device.compute_capability
    return f"""gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {device.shared_memory_per_core}
  threads_per_core_limit: {device.threads_per_core}
  core_count: {device.cores}
  fpus_per_core: {device.fpus_per_core}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {device.bandwidth}
  l2_cache_size: {device.l2_bytes}
  clock_rate_ghz: {device.clock_ghz}
  device_memory_size: {device.memory_bytes}
  shared_memory_per_block_optin: {device.shared_memory_per_block}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: {device.registers_per_core}
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: {CUDNN[0]} minor: {CUDNN[1]} patch: {CUDNN[2]} }}
runtime_version {{ major: {CUDA[0]} minor: {CUDA[1]} }}
device_description_str: "{device.title}"
"""
