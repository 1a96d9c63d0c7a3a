"""What asv sees: a class for each workload, framework and size of a profile, made of what the workloads declare. asv finds the
classes here, and takes a class's name, `resnet50.ResNet50TorchTiny`, into those of its benchmarks."""

from __future__ import annotations

from benchmarks.common import classes

globals().update({one.__name__: one for one in classes()})
