"""ResNet-50 v1.5 in the three frameworks, at each size."""

from __future__ import annotations

from benchmarks.common import CaseBenchmarks


class ResNet50Torch(CaseBenchmarks):
    workload = "resnet50"
    framework = "torch"


class ResNet50TorchTiny(ResNet50Torch):
    size = "tiny"


class ResNet50TorchFull(ResNet50Torch):
    size = "full"


class ResNet50Jax(CaseBenchmarks):
    workload = "resnet50"
    framework = "jax"


class ResNet50JaxTiny(ResNet50Jax):
    size = "tiny"


class ResNet50JaxFull(ResNet50Jax):
    size = "full"


class ResNet50Jittor(CaseBenchmarks):
    workload = "resnet50"
    framework = "jittor"


class ResNet50JittorTiny(ResNet50Jittor):
    size = "tiny"


class ResNet50JittorFull(ResNet50Jittor):
    size = "full"
