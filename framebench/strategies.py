"""The one table of strategies, total over the frameworks. Its cells are the support matrix that the README shows.

The worker reads this file inside any framework's environment, so it needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FRAMEWORKS = ("torch", "jax", "jittor")
BASELINES = {"train": "fp32", "eval": "no_grad"}  # what the ratios of a table refer to
SCENARIOS = tuple(BASELINES)


@dataclass(frozen=True)
class Cell:
    """How one framework does one strategy. `why` is the mechanism, or the reason against it."""

    why: str

    @property
    def supported(self) -> bool:
        return not isinstance(self, Unsupported)


class Native(Cell):
    """The framework has it."""


class Emulated(Cell):
    """Written by us with the framework's public parts."""


class AlwaysOn(Cell):
    """The framework always works this way; the case is measured as it is."""


class Unsupported(Cell):
    """Cannot be done, and this is why."""


@dataclass(frozen=True)
class Strategy:
    name: str
    scenario: str
    summary: str
    effect: str  # what proves, other than memory, that it was on
    cells: Mapping[str, Cell]
    precision: str = "fp32"  # selects the tolerance of the verification
    micro_batches: int = 1
    env: Mapping[str, str] = field(default_factory=dict)  # must precede the framework's import

    def __post_init__(self) -> None:
        missing = [f for f in FRAMEWORKS if f not in self.cells]
        if missing:
            raise ValueError(f"strategy {self.scenario}/{self.name} has no cell for {', '.join(missing)}")


_NO_BF16 = Unsupported(
    "oneDNN products take float32 only there; amp levels 0-3 change nothing, 4-5 turn the weights to bfloat16 too"
)
_TABLE = (
    Strategy(
        "fp32", "train", "everything in strict float32", "dtype of every saved activation",
        {
            "torch": Native("TF32 switched off for matmul and cuDNN"),
            "jax": Native("default_matmul_precision = highest"),
            "jittor": Native("float32 is the only dtype used"),
        },
    ),
    Strategy(
        "amp_bf16", "train", "bfloat16 activations, float32 weights and optimizer", "dtype of the activations",
        {
            "torch": Native("torch.autocast(dtype=bfloat16)"),
            "jax": Native("Flax dtype=bfloat16, param_dtype=float32"),
            "jittor": _NO_BF16,
        },
        precision="bf16",
    ),
    Strategy(
        "checkpoint", "train", "recompute each block in the backward pass", "number of block executions per step",
        {
            "torch": Native("torch.utils.checkpoint per block, non-reentrant"),
            "jax": Native(
                "jax.checkpoint per block, identical blocks as one scanned layer; unrolled on XLA:CPU with the pass "
                "cse_barrier_expander off, which would merge the recomputation away"
            ),
            "jittor": Emulated("a jt.Function that re-runs the block in its backward"),
        },
    ),
    Strategy(
        "accumulate", "train", "4 micro-batches per optimizer step, the effective batch unchanged", "micro-steps counted",
        {
            "torch": Native("backward of loss / 4 four times, then one optimizer step"),
            "jax": Native("lax.scan over the micro-batches"),
            "jittor": Native("optimizer.backward(loss / 4) four times, then one step"),
        },
        micro_batches=4,
    ),
    Strategy(
        "rewrite", "train", "a slow kernel avoided by writing the same mathematics differently", "operations counted",
        {
            "torch": Unsupported("no slow path was found in this workload to write differently"),
            "jax": Emulated("see the workload's `rewrites`"),
            "jittor": Emulated("see the workload's `rewrites`"),
        },
    ),
    Strategy(
        "grad", "eval", "evaluation that forgets to switch gradients off", "graph kept: residuals held by the output",
        {
            "torch": Native("the output's grad_fn keeps the graph"),
            "jax": Emulated("the forward half of jax.vjp, whose residuals are returned"),
            "jittor": Emulated("is_train cleared module by module: Module.eval() itself stops every gradient"),
        },
    ),
    Strategy(
        "no_grad", "eval", "evaluation without a graph, in strict float32", "no graph and no residuals kept",
        {
            "torch": Native("torch.no_grad()"),
            "jax": AlwaysOn("nothing is kept unless a derivative is asked for"),
            "jittor": Native("jt.no_grad()"),
        },
    ),
    Strategy(
        "inference_mode", "eval", "no graph, no version counters", "outputs are inference tensors",
        {
            "torch": Native("torch.inference_mode()"),
            "jax": Unsupported("JAX records no tape that could be switched off; it is no_grad"),
            "jittor": Unsupported("Jittor has jt.no_grad() only"),
        },
    ),
    Strategy(
        "amp_bf16", "eval", "bfloat16 activations without a graph", "dtype of the activations",
        {
            "torch": Native("torch.autocast(dtype=bfloat16) under no_grad"),
            "jax": Native("Flax dtype=bfloat16"),
            "jittor": _NO_BF16,
        },
        precision="bf16",
    ),
)  # fmt: skip

STRATEGIES: dict[tuple[str, str], Strategy] = {(s.scenario, s.name): s for s in _TABLE}


def names(scenario: str) -> tuple[str, ...]:
    """The strategies of a scenario, in the order of the table."""
    return tuple(name for where, name in STRATEGIES if where == scenario)
