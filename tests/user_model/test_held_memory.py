"""Test that memory that a user's file holds next to its model is part of the peak, and is named.

The peak is compared with the high-water mark (VmHWM) of a plain loop's process.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from framebench.adapters.base import UNSEEN
from framebench.engine.environments import Environment
from framebench.instruments.host import MALLOC_ENV
from tests.conftest import asked
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "try_held_memory.py"
KERNELS = PROGRAM.with_name("try_kernels.py")
GRAPHS = PROGRAM.with_name("try_graphs.py")
MIB = 2**20
BEGINNING = """
import ctypes
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        return self.down(self.up(x).relu())

def model():
    return Net()

def batch(n):
    return torch.randn(n, 256), torch.randn(n, 256)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""
# As a library of kernels does: its first call takes room that it keeps for the next ones
LIBRARY = """
import ctypes

allocate = ctypes.CDLL(None).malloc
allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
places = {}

def multiply(matrix, factor, size):
    if size not in places:
        places[size] = allocate(size)
        ctypes.memset(places[size], 1, size)
    return matrix * factor
"""
BUFFERED = """
import tiny_kernels
class Buffered(Net):
    def forward(self, x):
        return super().forward(tiny_kernels.multiply(x, 2.0, {size} * 2**20))
def model():
    return Buffered()
"""
BUFFERS = (3, 9, 30)  # MiB, below and above what was once told apart


class Held(NamedTuple):
    """Memory that a user's file holds next to its model."""

    code: str  # added to the file
    bytes: int
    holder: str  # its name in the report; empty for none


HELD = {
    "nothing": Held("", 0, ""),
    "a teacher that the loss calls": Held(
        """
        TEACHER = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).requires_grad_(False)
        def loss(output, target):
            return (output.mean(1) - TEACHER(target.repeat(1, 4)).mean(1)).square().mean()
        """,
        6 * (1024 + 1) * 1024 * 4,
        "the global `TEACHER` of mine.py",
    ),
    "a matrix in an attribute": Held(
        """
        class Mixed(Net):
            def __init__(self):
                super().__init__()
                self.mixing = {"way": [torch.eye(256).repeat(96, 1)]}
            def forward(self, x):
                return super().forward(x @ self.mixing["way"][0][:256])
        def model():
            return Mixed()
        """,
        24 * MIB,
        "the attribute `mixing` of the model",
    ),
    "a closure": Held(
        """
        def made():
            weight = torch.ones(24, 512, 512)
            return lambda output, target: ((output - target) ** 2 * weight[0, 0, 0]).mean()
        loss = made()
        """,
        24 * MIB,
        "the global `loss` of mine.py",
    ),
    "an array of NumPy's": Held(
        "DATA = [np.ones((512, 512, 12), np.float64)]",
        24 * MIB,
        "the global `DATA` of mine.py",
    ),
    "a module beside it": Held("import beside", 24 * MIB, "the global `TABLE` of beside.py"),
    "activations that are kept with their graph": Held(
        """
        KEPT = []
        class Keeping(Net):
            def forward(self, x):
                KEPT[:] = [(self.up(x.repeat(96, 1)).tanh() * 2.0).sin()]
                return super().forward(x)
        def model():
            return Keeping()
        """,
        # of tanh, of the product, which sin saves, the repeated input, and the last one
        2 * 24 * MIB + 6 * MIB + 24 * MIB,
        "the global `KEPT` of mine.py",
    ),
    "what a function of one's own gave, after its backward pass": Held(
        """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x
            @staticmethod
            def backward(ctx, above):
                return 2 * ctx.saved_tensors[0] * above
        KEPT = []
        class Keeping(Net):
            def forward(self, x):
                KEPT[:] = [Square.apply(self.up(x.repeat(96, 1)))]
                return super().forward(x) + KEPT[0].mean()
        def model():
            return Keeping()
        """,
        24 * MIB,
        "the global `KEPT` of mine.py",
    ),
    "memory of a library": Held(
        """
        allocate = ctypes.CDLL(None).malloc
        allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        PLACE = allocate(24 * 2**20)
        ctypes.memset(PLACE, 1, 24 * 2**20)
        """,
        24 * MIB,
        UNSEEN,
    ),
    "states that the optimizer begins with": Held(
        """
        class Wide(Net):
            def __init__(self):
                super().__init__()
                self.up, self.down = nn.Linear(256, 12 * 1024), nn.Linear(12 * 1024, 256)
        def model():
            return Wide()
        def optimizer(weights):
            return torch.optim.Adagrad(weights, 0.01)
        """,
        # weights, gradients and sums, beyond those of the model with 2 MiB of weights
        3 * 22 * MIB,
        "",
    ),
    "products while the file is imported": Held(
        "PRODUCT = (torch.ones(1500, 700) @ torch.ones(700, 900)).sum().item()",
        0,
        "",
    ),
    **{
        f"a library with {size} MiB of buffers": Held(BUFFERED.format(size=size), 0, "")
        for size in BUFFERS
    },
}


OFTEN = (
    "nothing",
    "what a function of one's own gave, after its backward pass",
    "a teacher that the loss calls",
    "a matrix in an attribute",
    "memory of a library",
    "states that the optimizer begins with",
    "products while the file is imported",
    *(f"a library with {size} MiB of buffers" for size in BUFFERS),
)


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, Environment],
) -> dict[str, Any]:
    folder, packages = tmp_path_factory.mktemp("held"), tmp_path_factory.mktemp("packages")
    (packages / "tiny_kernels.py").write_text(LIBRARY)
    for name in {"nothing", *asked(request)}:
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text(BEGINNING + textwrap.dedent(HELD[name].code))
        (folder / name / "beside.py").write_text("import torch\nTABLE = torch.ones(6, 2**20)\n")
    result = run_inside(
        environment["torch"], PROGRAM, str(folder), str(packages), variables=MALLOC_ENV
    )
    assert isinstance(result, dict)
    return result


# the cases that `make test` runs; `make test-all` runs the others too
CASES = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.all_cases) for name in HELD]


@pytest.mark.parametrize("name", CASES)
def test_memory_held_outside_the_model_is_part_of_the_peak(
    name: str, found: dict[str, Any]
) -> None:
    reported = found[name]["reported"]
    peak_without_holder = found["nothing"]["reported"]["peak"]
    # a plain loop's process also takes code and kernels into memory, some MiB whatever the file
    process_overhead = found["nothing"]["plain_peak"] - peak_without_holder
    expected_peak = peak_without_holder + HELD[name].bytes

    assert reported["peak"] == pytest.approx(
        found[name]["plain_peak"] - process_overhead, abs=4 * MIB
    ), reported
    assert reported["peak"] >= expected_peak - 4 * MIB
    assert reported["saved"] <= reported["peak"]


@pytest.mark.parametrize("name", CASES)
def test_the_holder_of_memory_outside_the_model_is_named(name: str, found: dict[str, Any]) -> None:
    holders = found[name]["reported"]["holders"]
    held = HELD[name]

    if not held.holder:
        assert sum(holders.values()) < 0.1 * MIB
        return
    assert max(holders, key=holders.get) == held.holder
    tolerance = 4 * MIB if held.holder == UNSEEN else 0.1 * MIB
    assert holders[held.holder] == pytest.approx(held.bytes, abs=tolerance)


@pytest.mark.parametrize("size", BUFFERS)
def test_library_buffers_are_reported_apart_from_the_peak(size: int, found: dict[str, Any]) -> None:
    without = found["nothing"]["reported"]
    buffered = found[f"a library with {size} MiB of buffers"]["reported"]

    assert buffered["peak"] == pytest.approx(without["peak"], abs=MIB)
    assert buffered["libraries"] - without["libraries"] == pytest.approx(size * MIB, abs=0.5 * MIB)


@pytest.mark.all_cases
@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fp32", "amp_bf16"])
def test_kernel_caches_are_in_no_peak(
    strategy: str, environment: dict[str, Environment], tmp_path: Path
) -> None:
    """With twice as many kinds of products oneDNN keeps twice as much, on a processor with units
    for bfloat16: any bytes.
    """
    few, many = run_inside(
        environment["torch"], KERNELS, str(tmp_path), strategy, variables=MALLOC_ENV
    )

    for one in (few, many):
        assert sum(one["holders"].values()) < 0.1 * MIB
        # gradients and the weights' copies in bfloat16 are no larger than the weights, and
        # activations are few
        assert one["peak"] <= one["live"] + 2 * one["weights"] + one["activations"] + MIB


FLAX = """
import jax
import optax
from flax import {api}

WIDTH = 256

def model():
    return {model}

def batch(n):
    x, y = jax.random.normal(jax.random.key(0), (2, n, WIDTH))
    return x, y

def loss(output, target):
    return ((output - target) ** 2).mean()

def optimizer():
    return optax.adam(1e-3)
"""


@pytest.mark.parametrize(
    ("api", "model"),
    [
        ("nnx", "nnx.Sequential(*[nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(0)) for _ in range(3)])"),
        ("linen", "linen.Sequential([linen.Dense(WIDTH) for _ in range(3)])"),
    ],
)
def test_a_flax_model_is_held_once(
    api: str, model: str, tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """Weights and Adam's two moments: what the file's model began as is not kept beside them."""
    file = tmp_path / "mine.py"
    file.write_text(FLAX.format(api=api, model=model))
    found = run_inside(environment["jax"], PROGRAM.with_name("try_flax_live.py"), str(file))
    assert isinstance(found, dict)
    assert found["live"] == pytest.approx(3 * found["weights"] + found["inputs"], abs=4096)


@pytest.mark.slow
def test_a_graph_of_jittor_is_part_of_the_peak(
    tmp_path: Path, environment: dict[str, Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred bytes an operation, whatever the batch.

    The suite's own peaks are the counter's alone.
    """
    monkeypatch.setenv("FRAMEBENCH_OWN", str(tmp_path))

    def read(layers: int, batch: int) -> Any:
        return run_inside(environment["jittor"], GRAPHS, str(tmp_path), str(layers), str(batch))

    few, many, larger = read(10, 4), read(40, 4), read(40, 64)
    assert 300 < few["beyond"] / few["operations"] < 1200
    assert many["beyond"] / few["beyond"] == pytest.approx(
        many["operations"] / few["operations"], rel=0.2
    )
    assert many["operations"] > 3 * few["operations"]
    assert larger["beyond"] == pytest.approx(many["beyond"], rel=0.05)
    assert read(0, 4)["beyond"] == 0
