"""Print whether fp32 and tf32 are proven where some operators round as a GPU does."""

import json

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from framebench import adapters
from framebench.adapters.torch import SWITCHES
from framebench.suite.selectors import parse


def round_to_tf32(value):
    """Round a tensor to the ten bits of TensorFloat-32's mantissa."""
    if not isinstance(value, Tensor):
        return value
    bits = value.view(torch.int32) + 0x1000
    return (bits & ~0x1FFF).view(torch.float32)


class RoundedOperands(TorchDispatchMode):
    def __init__(self, names):
        super().__init__()
        self.names = names

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.removeprefix("aten::") in self.names:
            args = [round_to_tf32(arg) for arg in args]
        return func(*args, **(kwargs or {}))


adapter = adapters.load(parse("transformer/torch/train/fp32/b4/tiny"))
adapter.build()
adapter.step()
evidence = adapter.observe()
proven = {}
for names in ((), ("mm",), ("convolution",), ("mm", "convolution")):
    with RoundedOperands(names):
        verdicts = {}
        for name in ("fp32", "tf32"):
            verdicts[name] = SWITCHES[name](adapter).judge(evidence).proven
    proven[" ".join(names)] = verdicts
print(json.dumps(proven))
