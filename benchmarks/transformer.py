"""The Transformer, a language model: in each framework, scenario and size."""

from __future__ import annotations

from benchmarks.common import (
    CustomOperator,
    Evaluation,
    FineTuning,
    Generation,
    OwnCounter,
    Training,
    VariableLengths,
)


class TransformerTorchTrain(Training):
    workload = "transformer"
    framework = "torch"


class TransformerTorchEval(Evaluation):
    workload = "transformer"
    framework = "torch"


class TransformerTorchFinetune(FineTuning):
    workload = "transformer"
    framework = "torch"


class TransformerTorchVarlen(VariableLengths):
    workload = "transformer"
    framework = "torch"


class TransformerTorchGenerate(Generation):
    workload = "transformer"
    framework = "torch"


class TransformerTorchCustomOp(CustomOperator):
    workload = "transformer"
    framework = "torch"


class TransformerJaxTrain(Training, OwnCounter):
    workload = "transformer"
    framework = "jax"


class TransformerJaxEval(Evaluation, OwnCounter):
    workload = "transformer"
    framework = "jax"


class TransformerJaxFinetune(FineTuning, OwnCounter):
    workload = "transformer"
    framework = "jax"


class TransformerJaxVarlen(VariableLengths, OwnCounter):
    workload = "transformer"
    framework = "jax"


class TransformerJaxGenerate(Generation, OwnCounter):
    workload = "transformer"
    framework = "jax"


class TransformerJaxCustomOp(CustomOperator, OwnCounter):
    workload = "transformer"
    framework = "jax"


class TransformerJittorTrain(Training, OwnCounter):
    workload = "transformer"
    framework = "jittor"


class TransformerJittorEval(Evaluation, OwnCounter):
    workload = "transformer"
    framework = "jittor"


class TransformerJittorFinetune(FineTuning, OwnCounter):
    workload = "transformer"
    framework = "jittor"


class TransformerJittorVarlen(VariableLengths, OwnCounter):
    workload = "transformer"
    framework = "jittor"


class TransformerJittorGenerate(Generation, OwnCounter):
    workload = "transformer"
    framework = "jittor"


class TransformerJittorCustomOp(CustomOperator, OwnCounter):
    workload = "transformer"
    framework = "jittor"


# Small enough to try something out: a second or two per case.


class TransformerTorchTrainTiny(TransformerTorchTrain):
    size = "tiny"


class TransformerTorchEvalTiny(TransformerTorchEval):
    size = "tiny"


class TransformerJaxTrainTiny(TransformerJaxTrain):
    size = "tiny"


class TransformerJaxEvalTiny(TransformerJaxEval):
    size = "tiny"


class TransformerJittorTrainTiny(TransformerJittorTrain):
    size = "tiny"


class TransformerJittorEvalTiny(TransformerJittorEval):
    size = "tiny"


# Of the published models, for a GPU.


class TransformerTorchTrainFull(TransformerTorchTrain):
    size = "full"


class TransformerTorchEvalFull(TransformerTorchEval):
    size = "full"


class TransformerTorchFinetuneFull(TransformerTorchFinetune):
    size = "full"


class TransformerTorchVarlenFull(TransformerTorchVarlen):
    size = "full"


class TransformerTorchGenerateFull(TransformerTorchGenerate):
    size = "full"


class TransformerTorchCustomOpFull(TransformerTorchCustomOp):
    size = "full"


class TransformerJaxTrainFull(TransformerJaxTrain):
    size = "full"


class TransformerJaxEvalFull(TransformerJaxEval):
    size = "full"


class TransformerJaxFinetuneFull(TransformerJaxFinetune):
    size = "full"


class TransformerJaxVarlenFull(TransformerJaxVarlen):
    size = "full"


class TransformerJaxGenerateFull(TransformerJaxGenerate):
    size = "full"


class TransformerJaxCustomOpFull(TransformerJaxCustomOp):
    size = "full"


class TransformerJittorTrainFull(TransformerJittorTrain):
    size = "full"


class TransformerJittorEvalFull(TransformerJittorEval):
    size = "full"


class TransformerJittorFinetuneFull(TransformerJittorFinetune):
    size = "full"


class TransformerJittorVarlenFull(TransformerJittorVarlen):
    size = "full"


class TransformerJittorGenerateFull(TransformerJittorGenerate):
    size = "full"


class TransformerJittorCustomOpFull(TransformerJittorCustomOp):
    size = "full"
