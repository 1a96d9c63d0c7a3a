"""The 3-D U-Net, which segments volumes: in each framework, scenario and size."""

from __future__ import annotations

from benchmarks.common import (
    Evaluation,
    FineTuning,
    OwnCounter,
    Training,
)


class UNet3DTorchTrain(Training):
    workload = "unet3d"
    framework = "torch"


class UNet3DTorchEval(Evaluation):
    workload = "unet3d"
    framework = "torch"


class UNet3DTorchFinetune(FineTuning):
    workload = "unet3d"
    framework = "torch"


class UNet3DJaxTrain(Training, OwnCounter):
    workload = "unet3d"
    framework = "jax"


class UNet3DJaxEval(Evaluation, OwnCounter):
    workload = "unet3d"
    framework = "jax"


class UNet3DJaxFinetune(FineTuning, OwnCounter):
    workload = "unet3d"
    framework = "jax"


class UNet3DJittorTrain(Training, OwnCounter):
    workload = "unet3d"
    framework = "jittor"


class UNet3DJittorEval(Evaluation, OwnCounter):
    workload = "unet3d"
    framework = "jittor"


class UNet3DJittorFinetune(FineTuning, OwnCounter):
    workload = "unet3d"
    framework = "jittor"


# Small enough to try something out: a second or two per case.


class UNet3DTorchTrainTiny(UNet3DTorchTrain):
    size = "tiny"


class UNet3DTorchEvalTiny(UNet3DTorchEval):
    size = "tiny"


class UNet3DJaxTrainTiny(UNet3DJaxTrain):
    size = "tiny"


class UNet3DJaxEvalTiny(UNet3DJaxEval):
    size = "tiny"


class UNet3DJittorTrainTiny(UNet3DJittorTrain):
    size = "tiny"


class UNet3DJittorEvalTiny(UNet3DJittorEval):
    size = "tiny"


# Of the published models, for a GPU.


class UNet3DTorchTrainFull(UNet3DTorchTrain):
    size = "full"


class UNet3DTorchEvalFull(UNet3DTorchEval):
    size = "full"


class UNet3DTorchFinetuneFull(UNet3DTorchFinetune):
    size = "full"


class UNet3DJaxTrainFull(UNet3DJaxTrain):
    size = "full"


class UNet3DJaxEvalFull(UNet3DJaxEval):
    size = "full"


class UNet3DJaxFinetuneFull(UNet3DJaxFinetune):
    size = "full"


class UNet3DJittorTrainFull(UNet3DJittorTrain):
    size = "full"


class UNet3DJittorEvalFull(UNet3DJittorEval):
    size = "full"


class UNet3DJittorFinetuneFull(UNet3DJittorFinetune):
    size = "full"
