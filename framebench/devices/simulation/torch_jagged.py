"""Let nested tensors of the layout `torch.jagged` run on the simulated GPU.

The length of their ragged dimension is a symbol. Fake tensors would make one for a compiler, and
have none here. Attention chooses its kernel as on a GPU (`_select_sdp_backend` in
torch/nested/_internal/sdpa.py).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nested._internal import nested_tensor, sdpa
from torch.nested._internal.nested_int import NestedIntNode
from torch.nn.attention import SDPBackend
from torch.utils.weak import WeakTensorKeyDictionary

from framebench.devices.simulation.torch_device import Replacement
from framebench.devices.simulation.torch_gpu import Gpu


def list_replacements(gpu: Gpu) -> list[Replacement]:
    """Return the attributes that are replaced in a simulation of this GPU."""
    return [
        (nested_tensor, "get_tensor_symint", make_lengths()),
        (sdpa, "_select_sdp_backend", make_choice(gpu)),
    ]


def make_lengths() -> Callable[..., torch.SymInt]:
    """Return a function that returns one symbol for each tensor of offsets."""
    symbols = WeakTensorKeyDictionary()

    def find_length(offsets: Tensor, *, coeff: int = 1) -> torch.SymInt:
        if offsets not in symbols:
            symbols[offsets] = torch.SymInt(NestedIntNode(len(symbols), coeff))
        return symbols[offsets]  # type: ignore[no-any-return]

    return find_length


def make_choice(gpu: Gpu) -> Callable[..., SDPBackend]:
    """Return the function that chooses a kernel of attention on this GPU."""

    def choose(query: Tensor, *_: object) -> SDPBackend:
        is_half = query.dtype in (torch.float16, torch.bfloat16)
        if is_half and gpu.capability >= (8, 0) and torch.backends.cuda.flash_sdp_enabled():
            return SDPBackend.FLASH_ATTENTION
        if torch.backends.cuda.mem_efficient_sdp_enabled():
            return SDPBackend.EFFICIENT_ATTENTION
        raise NotImplementedError(
            "attention of nested tensors is simulated by its flash and its efficient kernel alone"
        )

    return choose
