"""Print as JSON how many indices differ between choices, and which operators are seen to choose."""

import json

import torch

from framebench.adapters.torch.choices import Choice, ChoiceMode


def count_changed(one: list[list[int]], other: list[list[int]], dim: int) -> int:
    first = Choice("topk", "", torch.tensor(one), dim)
    return first.count_changed(Choice("topk", "", torch.tensor(other), dim))


with ChoiceMode() as mode:
    torch.tensor([3, 1]).max()
    torch.tensor([3.0, 1.0]).argmax()
    torch.rand(4, 2).topk(2, 0)
    torch.rand(3, 2).max(1)
found = {
    "another entry": count_changed([[1, 2, 3]], [[4, 3, 2]], -1),
    "another order": count_changed([[1], [2]], [[2], [1]], 0),
    "other rows": count_changed([[1], [2]], [[2], [1]], -1),
    "operators": [choice.operator for choice in mode.choices],
}
print(json.dumps(found))
