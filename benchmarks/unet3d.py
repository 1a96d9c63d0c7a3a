"""U-Net 3D in the three frameworks."""

from __future__ import annotations

from benchmarks.common import CaseBenchmarks


class UNet3DTorch(CaseBenchmarks):
    workload = "unet3d"
    framework = "torch"


class UNet3DJax(CaseBenchmarks):
    workload = "unet3d"
    framework = "jax"


class UNet3DJittor(CaseBenchmarks):
    workload = "unet3d"
    framework = "jittor"
