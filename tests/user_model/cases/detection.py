"""A detector whose targets are a dictionary for each image, with as many boxes as the image has
(https://github.com/open-mmlab/mmdetection/issues/188).
"""

import torch
import torch.nn.functional as F
from torch import nn

SIDE = 128
CLASSES = 4


def make_layer(inputs, outputs, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1), nn.GroupNorm(8, outputs), nn.ReLU()
    )


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            make_layer(3, 32, 2), make_layer(32, 64, 2), make_layer(64, 64, 2)
        )
        self.tower = nn.Sequential(make_layer(64, 64, 1), make_layer(64, 64, 1))
        self.classes, self.boxes = nn.Conv2d(64, CLASSES, 1), nn.Conv2d(64, 4, 1)

    def forward(self, images):
        features = self.tower(self.stem(images))
        return self.classes(features).flatten(2), self.boxes(features).flatten(2)


def model():
    return Detector()


def batch(n):
    targets = []
    for i in range(n):
        count = 40 + 100 * (i % 3)
        labels = torch.randint(CLASSES, (count,))
        targets.append({"boxes": torch.rand(count, 4), "labels": labels})
    return torch.rand(n, 3, SIDE, SIDE), targets


def loss(output, targets):
    total = 0.0
    for logits, boxes, target in zip(*output, targets):
        distances = torch.cdist(boxes.T, target["boxes"])
        nearest = distances.argmin(0)
        total = total + F.cross_entropy(logits.T[nearest], target["labels"])
        total = total + F.l1_loss(boxes.T[nearest], target["boxes"])
    return total / len(targets)


def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-4)
