"""What sorts and sums on a simulated GPU ask the allocator for: bytes by name, printed as JSON.

`requests` has those of operators on tensors without memory, and `peaks` the bytes that a step's
temporaries take at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
from torch import Tensor

from framebench.devices.catalog import find
from framebench.devices.simulation import torch_sorts, torch_sums
from framebench.devices.simulation.torch_gpu import Gpu
from framebench.devices.simulation.torch_simulate import simulate

DEVICE = find("h100-80gb")
GPU = Gpu(DEVICE)
WORDS, WIDTH, TOKENS = 50304, 768, (8, 1024)


def make(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def put(target: Tensor, indices: list[Tensor | None], values: Tensor) -> list[int]:
    return list(torch_sorts.put_by_index((target, indices, values, True), GPU))


def sum_columns(values: Tensor, *dims: list[int]) -> list[int]:
    return torch_sums.sum_columns((values, *dims), GPU)


def look_up_backward(texts: int, padding: int = -1) -> list[int]:
    """Return what an embedding's gradient requests around itself; -1 is no index of padding."""
    arguments = (make(texts, 1024, WIDTH), make(texts, 1024, dtype=torch.int64), WORDS, padding)
    return [size for size in torch_sums.embedding_backward([], arguments, GPU) if size]


tokens = make(*TOKENS, dtype=torch.int64)
table = make(WORDS, WIDTH)
gradient = make(*TOKENS, WIDTH)
REQUESTS = {
    "rows of a table": put(table, [tokens], gradient),
    "rows of a short table": put(make(169, 12), [make(2401, dtype=torch.int64)], make(2401, 12)),
    "by int32": put(table, [make(*TOKENS, dtype=torch.int32)], gradient),
    "an expanded gradient": put(table, [tokens], make(1).expand(*TOKENS, WIDTH)),
    "pairs of places": put(
        make(64, 512, 32),
        [make(64, 1, dtype=torch.int64), make(8, dtype=torch.int64)],
        make(64, 8, 32),
    ),
    "without adding up": list(torch_sorts.put_by_index((table, [tokens], gradient), GPU)),
    "the best words": list(torch_sorts.topk((make(64, WORDS), 50), GPU)),
    "experts": list(torch_sorts.topk((make(8192, 64), 2), GPU)),
    "the best 8,192 of a row": list(torch_sorts.topk((make(1, 16384), 8192), GPU)),
    "one long row": list(torch_sorts.sort((make(2**20),), GPU)),
    "few rows": list(torch_sorts.sort((make(64, 8192),), GPU)),
    "many rows": list(torch_sorts.sort((make(256, 8192),), GPU)),
    "short rows": list(torch_sorts.sort((make(256, 4096),), GPU)),
    "columns": list(torch_sorts.sort((make(8192, 64), 0), GPU)),
    "parts of rows": list(torch_sorts.sort((make(64, 16384)[:, :8192],), GPU)),
    "the best 8,192 of two columns": list(torch_sorts.topk((make(16384, 2), 8192, 0), GPU)),
    "768 sums": sum_columns(make(8192, 768), [0]),
    "2304 sums": sum_columns(make(8192, 2304), [0]),
    "3072 sums": sum_columns(make(8192, 3072), [0]),
    "sums in half precision": sum_columns(make(8192, 768, dtype=torch.bfloat16), [0]),
    "sums in float64": sum_columns(make(8192, 768, dtype=torch.float64), [0]),
    "sums of truth values": sum_columns(make(8192, 768, dtype=torch.bool), [0]),
    "sums of few rows": sum_columns(make(8, 786432), [0]),
    "sums along rows": sum_columns(make(8192, 768), [1]),
    "sums of a transposed matrix": sum_columns(make(768, 8192).T, [0]),
    "a sum of all dimensions": sum_columns(make(8192, 768), [0, 1]),
    "a sum without dimensions": sum_columns(make(8192, 768)),
    "a sum of one number": sum_columns(make(), [0]),
    "a sum of no number": sum_columns(make(10**6, 0), [0]),
    "an embedding of 8,192 words": look_up_backward(8),
    "an embedding of 3,072 words": look_up_backward(3),
    "an embedding with padding": look_up_backward(3, padding=0),
    "no rows of a table": put(table, [make(0, dtype=torch.int64)], make(0, WIDTH)),
}


def look_up(device: torch.device) -> Callable[[], None]:
    """The backward pass of indexing adds up rows, and that of an embedding does not use it."""
    weight = torch.empty(WORDS, WIDTH, device=device, requires_grad=True)
    places = torch.zeros(TOKENS, dtype=torch.long, device=device)
    values = torch.empty(*TOKENS, WIDTH, device=device)
    return lambda: weight[places].backward(values)


def sort_stably(device: torch.device) -> Callable[[], None]:
    values = torch.empty(8192, 64, device=device)
    return lambda: values.sort(dim=0, stable=True) and None


def measure_temporaries(make_step: Callable[[torch.device], Callable[[], None]]) -> int:
    """Return the bytes of the temporaries at the place where most are alive."""
    lives = simulate(make_step, DEVICE, steps=1).watch.lives
    temporaries = [life for life in lives if life.kind == "temporaries"]
    places = [life.born for life in temporaries]
    return max(sum(life.size for life in temporaries if life.is_alive_at(at)) for at in places)


PEAKS = {step.__name__: measure_temporaries(step) for step in (look_up, sort_stably)}
print(json.dumps({"requests": REQUESTS, "peaks": PEAKS}))
