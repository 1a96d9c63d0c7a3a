"""The GPT-style decoder in the three frameworks, at each size."""

from __future__ import annotations

from benchmarks.common import CaseBenchmarks


class TransformerTorch(CaseBenchmarks):
    workload = "transformer"
    framework = "torch"


class TransformerTorchTiny(TransformerTorch):
    size = "tiny"


class TransformerTorchFull(TransformerTorch):
    size = "full"


class TransformerJax(CaseBenchmarks):
    workload = "transformer"
    framework = "jax"


class TransformerJaxTiny(TransformerJax):
    size = "tiny"


class TransformerJaxFull(TransformerJax):
    size = "full"


class TransformerJittor(CaseBenchmarks):
    workload = "transformer"
    framework = "jittor"


class TransformerJittorTiny(TransformerJittor):
    size = "tiny"


class TransformerJittorFull(TransformerJittor):
    size = "full"
