"""U-Net 3D in the three frameworks, at each size."""

from __future__ import annotations

from benchmarks.common import CaseBenchmarks


class UNet3DTorch(CaseBenchmarks):
    workload = "unet3d"
    framework = "torch"


class UNet3DTorchTiny(UNet3DTorch):
    size = "tiny"


class UNet3DTorchFull(UNet3DTorch):
    size = "full"


class UNet3DJax(CaseBenchmarks):
    workload = "unet3d"
    framework = "jax"


class UNet3DJaxTiny(UNet3DJax):
    size = "tiny"


class UNet3DJaxFull(UNet3DJax):
    size = "full"


class UNet3DJittor(CaseBenchmarks):
    workload = "unet3d"
    framework = "jittor"


class UNet3DJittorTiny(UNet3DJittor):
    size = "tiny"


class UNet3DJittorFull(UNet3DJittor):
    size = "full"
