"""ResNet-50 v1.5 in the three frameworks."""

from __future__ import annotations

from benchmarks.common import CaseBenchmarks


class ResNet50Torch(CaseBenchmarks):
    workload = "resnet50"
    framework = "torch"


class ResNet50Jax(CaseBenchmarks):
    workload = "resnet50"
    framework = "jax"


class ResNet50Jittor(CaseBenchmarks):
    workload = "resnet50"
    framework = "jittor"
