"""ResNet-50, which classifies images: in each framework, scenario and size."""

from __future__ import annotations

from benchmarks.common import (
    Evaluation,
    FineTuning,
    InputPipeline,
    OwnCounter,
    PairOfModels,
    Training,
)


class ResNet50TorchTrain(Training):
    workload = "resnet50"
    framework = "torch"


class ResNet50TorchEval(Evaluation):
    workload = "resnet50"
    framework = "torch"


class ResNet50TorchFinetune(FineTuning):
    workload = "resnet50"
    framework = "torch"


class ResNet50TorchPair(PairOfModels):
    workload = "resnet50"
    framework = "torch"


class ResNet50TorchPipeline(InputPipeline):
    workload = "resnet50"
    framework = "torch"


class ResNet50JaxTrain(Training, OwnCounter):
    workload = "resnet50"
    framework = "jax"


class ResNet50JaxEval(Evaluation, OwnCounter):
    workload = "resnet50"
    framework = "jax"


class ResNet50JaxFinetune(FineTuning, OwnCounter):
    workload = "resnet50"
    framework = "jax"


class ResNet50JaxPair(PairOfModels, OwnCounter):
    workload = "resnet50"
    framework = "jax"


class ResNet50JaxPipeline(InputPipeline, OwnCounter):
    workload = "resnet50"
    framework = "jax"


class ResNet50JittorTrain(Training, OwnCounter):
    workload = "resnet50"
    framework = "jittor"


class ResNet50JittorEval(Evaluation, OwnCounter):
    workload = "resnet50"
    framework = "jittor"


class ResNet50JittorFinetune(FineTuning, OwnCounter):
    workload = "resnet50"
    framework = "jittor"


class ResNet50JittorPair(PairOfModels, OwnCounter):
    workload = "resnet50"
    framework = "jittor"


class ResNet50JittorPipeline(InputPipeline, OwnCounter):
    workload = "resnet50"
    framework = "jittor"


# Small enough to try something out: a second or two per case.


class ResNet50TorchTrainTiny(ResNet50TorchTrain):
    size = "tiny"


class ResNet50TorchEvalTiny(ResNet50TorchEval):
    size = "tiny"


class ResNet50JaxTrainTiny(ResNet50JaxTrain):
    size = "tiny"


class ResNet50JaxEvalTiny(ResNet50JaxEval):
    size = "tiny"


class ResNet50JittorTrainTiny(ResNet50JittorTrain):
    size = "tiny"


class ResNet50JittorEvalTiny(ResNet50JittorEval):
    size = "tiny"


# Of the published models, for a GPU.


class ResNet50TorchTrainFull(ResNet50TorchTrain):
    size = "full"


class ResNet50TorchEvalFull(ResNet50TorchEval):
    size = "full"


class ResNet50TorchFinetuneFull(ResNet50TorchFinetune):
    size = "full"


class ResNet50TorchPairFull(ResNet50TorchPair):
    size = "full"


class ResNet50TorchPipelineFull(ResNet50TorchPipeline):
    size = "full"


class ResNet50JaxTrainFull(ResNet50JaxTrain):
    size = "full"


class ResNet50JaxEvalFull(ResNet50JaxEval):
    size = "full"


class ResNet50JaxFinetuneFull(ResNet50JaxFinetune):
    size = "full"


class ResNet50JaxPairFull(ResNet50JaxPair):
    size = "full"


class ResNet50JaxPipelineFull(ResNet50JaxPipeline):
    size = "full"


class ResNet50JittorTrainFull(ResNet50JittorTrain):
    size = "full"


class ResNet50JittorEvalFull(ResNet50JittorEval):
    size = "full"


class ResNet50JittorFinetuneFull(ResNet50JittorFinetune):
    size = "full"


class ResNet50JittorPairFull(ResNet50JittorPair):
    size = "full"


class ResNet50JittorPipelineFull(ResNet50JittorPipeline):
    size = "full"
