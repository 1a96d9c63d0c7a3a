"""What parent and worker agree on: the protocol's version, the knobs of a measurement and the tolerances of its verification.

A worker is started with a Task as JSON on its command line, and prints one JSON object a line: `{"phase": ...}` while it works,
then `{"result": {...}}` or `{"error": {...}}`. Standard library only: both sides import it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

VERSION = 2  # raised whenever a change makes new numbers incomparable with old ones: 2: Jittor's views count as what they keep


@dataclass(frozen=True)
class Reference:
    """Values of another case of the session to verify against, where there are none in float64."""

    case: str
    values: dict[str, float]
    wider: float  # the tolerance is so many times that against float64


@dataclass(frozen=True)
class Task:
    """One worker's orders."""

    case: str  # a full case id
    part: str  # "time" | "memory"
    samples: int = 20  # at most so many timed steps
    min_samples: int = 3  # at least so many, however slow they are
    warmup: int = 3  # steps that do not count, of those that verification needs
    budget_s: float = 2.0  # sampling stops after this time once min_samples are there
    memory_steps: int = 3  # at most so many steady steps whose peak is taken, beginning with the second step of all
    memory_budget_s: float = 1.0  # after which one of them is enough
    core: int | None = None  # pin the process to this core
    memory_limit: int | None = None  # bytes of private memory the worker may map
    reference: Reference | None = None  # where golden.json has no values

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Task:
        """The inverse of `as_dict`."""
        reference = fields.get("reference")
        return Task(**{**fields, "reference": Reference(**reference) if reference else None})

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


LOSS_STEPS = 3  # the second verified loss is observed after this many updates

# Relative tolerances by precision. On the first values they allow for rounding alone; three updates feed rounding back through
# the optimizer: U-Net's loss after them was up to 9e-5 off on one processor, where another's kernels stayed below 5e-5.
TOLERANCES: dict[str, dict[str, float]] = {
    "fp32": {
        "loss_0": 1e-5,
        "loss_3": 2e-4,
        "grad_norm": 3e-4,
        "loss": 1e-5,
        "logits_norm": 1e-5,
        "logits_checksum": 1e-4,
    },
    "tf32": {
        "loss_0": 1e-3,
        "loss_3": 5e-3,
        "grad_norm": 1e-2,
        "loss": 1e-3,
        "logits_norm": 2e-3,
        "logits_checksum": 1e-2,
    },
    "fp16": {
        "loss_0": 2e-3,
        "loss_3": 1e-2,
        "grad_norm": 2e-2,
        "loss": 2e-3,
        "logits_norm": 5e-3,
        "logits_checksum": 2e-2,
    },
    "bf16": {
        "loss_0": 1e-2,
        "loss_3": 5e-2,
        "grad_norm": 5e-2,
        "loss": 1e-2,
        "logits_norm": 2e-2,
        "logits_checksum": 5e-2,
    },
}
# Batch norm over the few values that small batches of small images leave in the last stages is ill-conditioned: there every
# framework's float32, PyTorch's too, strays from float64 by up to 6e-4 within three steps.
BATCH_NORM = {"loss_3": 1e-3, "grad_norm": 1e-3}
# With one sample at a time there are four such values at 64 px. Weights moved by 6e-8, half a float32 ulp, change even
# float64's loss after three updates by up to 2.4e-3 there; the loss before them and the gradient still hold.
ONE_SAMPLE = BATCH_NORM | {"loss_3": 1e-2}


def tolerances(precision: str, batch_norm: bool, one_sample: bool = False) -> dict[str, float]:
    """The tolerance of each observed quantity; `one_sample`: batch norm sees one sample at a time."""
    coupled = ONE_SAMPLE if one_sample else BATCH_NORM
    return TOLERANCES[precision] | (coupled if batch_norm and precision == "fp32" else {})
