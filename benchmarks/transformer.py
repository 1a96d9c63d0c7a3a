"""The GPT-style decoder in the three frameworks."""

from __future__ import annotations

from benchmarks.common import CaseBenchmarks


class TransformerTorch(CaseBenchmarks):
    workload = "transformer"
    framework = "torch"


class TransformerJax(CaseBenchmarks):
    workload = "transformer"
    framework = "jax"


class TransformerJittor(CaseBenchmarks):
    workload = "transformer"
    framework = "jittor"
