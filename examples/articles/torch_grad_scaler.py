"""Article B, why losses are scaled: gradients too small for float16 are zero, unless the loss is
multiplied first.

Tried are numbers from 1e-10 to 1e-6, and the gradients of a small model's first layer, which are
computed in float32 and then rounded to float16 as they are, or scaled.
"""

import json

import torch

SCALE = torch.amp.GradScaler("cpu").get_scale()


def count_zeros(values, scale):
    """Return how many of these numbers are zero in float16."""
    return int(((values * scale).half() == 0).sum())


def list_gradients():
    """Return those gradients of a model's first layer that are not zero in float32."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))
    images, labels = torch.randn(256, 64), torch.randint(10, (256,))
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    for _ in range(500):  # gradients get smaller as it learns
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    gradients = model[0].weight.grad.flatten()
    return gradients[gradients != 0]


numbers, gradients = torch.logspace(-10, -6, 1000), list_gradients()
found = {
    "zeros": count_zeros(numbers, 1.0),
    "zeros_scaled": count_zeros(numbers, SCALE),
    "zeros_of_a_model": count_zeros(gradients, 1.0),
    "zeros_of_a_model_scaled": count_zeros(gradients, SCALE),
    "gradients_of_a_model": len(gradients),
}
print(json.dumps(found))
