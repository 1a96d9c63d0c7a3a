"""Many arms at once: one for each workload and framework in which both cases exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Literal

from framebench.claims import plans
from framebench.claims.claim import Arm
from framebench.claims.measures import Exponent, Fall, Measure, OfProbe, Ratio, SmallestStep, Steepest
from framebench.claims.planned_measures import Planned
from framebench.claims.probed import Found
from framebench.claims.refs import Ref
from framebench.claims.rule import Effect, Target
from framebench.claims.samples import PEAK, Quantity
from framebench.claims.store import SNIPPET
from framebench.models import spec
from framebench.models.spec import confirmed_names
from framebench.strategies.strategy import FRAMEWORKS, Unsupported
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, declared

# The smallest departures that matter: bytes by 1 %, as everywhere (framebench/analysis/statistics.py); times by 5 %, since two
# processes on a shared machine differ by some per cent (studies/noise); shares by two points of a hundred.
BYTES, SECONDS, POINTS = 0.01, 0.05, 0.02
LESS, MORE = Target(-1, 1.0, BYTES), Target(1, 1.0, BYTES)
FASTER, SLOWER = Target(-1, 1.0, SECONDS), Target(1, 1.0, SECONDS)
SOME, NONE = Target(1, 0.5), Target(-1, 0.5)  # a count above zero, and none: between none and one

RESNET, UNET, GPT = ("resnet50",), ("unet3d",), ("transformer",)
TORCH, JAX, JITTOR = ("torch",), ("jax",), ("jittor",)
PLANNED = (*TORCH, *JAX)  # whose cases can be planned for a card


def times(ratio: float, minimum: float = BYTES, or_more: bool = False, ours: bool = False) -> Target:
    """The change is claimed to be so many times the base; `ours` where no article says how many."""
    return Target(-1 if ratio < 1 else 1, 1.0, minimum, ratio, or_more, ours)


def below(limit: float) -> Target:
    """Equality: an error below a limit."""
    return Target(-1, limit)


def exists(case: Case | None) -> bool:
    """Declared, and not unsupported by nature; what needs a GPU exists."""
    return case is not None and declared(case) and not isinstance(case.support, Unsupported) and case.support.supported


def ref(workload: str, framework: str, what: str) -> Ref:
    """`train/fp32`; `train/fp32@-2`: two declared batches below the base; `train/fp32@1:px224`: the next batch of that size;
    `train/ddp@x2`: over two ranks."""
    name, _, place = what.partition("@")
    batch, _, size = place.partition(":")
    shift, _, ranks = batch.partition("x")
    scenario, strategy = name.split("/")
    return Ref(workload, framework, scenario, strategy, int(shift or 0), size, int(ranks or 1))


Base = str | Callable[[str, str], str]  # a case's `scenario/strategy`, or that of a workload and a framework


def not_recomputed(workload: str, framework: str) -> str:
    """What a checkpointed step is compared with: JAX's Transformer runs its layers as one scanned layer there, so here too."""
    return "train/scan" if (workload, framework) == ("transformer", "jax") else "train/fp32"


def _of(base: Base, workload: str, framework: str) -> Ref:
    return ref(workload, framework, base if isinstance(base, str) else base(workload, framework))


def places(
    make: Callable[[str, str], Measure], workloads: tuple[str, ...], frameworks: tuple[str, ...]
) -> Iterator[tuple[str, Measure]]:
    for workload, framework in product(workloads, frameworks):
        measure = make(workload, framework)
        cases = measure.cases(DEFAULT_SIZE)
        if cases and all(map(exists, cases)):
            yield f"{workload}/{framework}", measure


def each(
    make: Callable[[str, str], Measure],
    target: Target,
    workloads: tuple[str, ...] = (),
    frameworks: tuple[str, ...] = FRAMEWORKS,
    label: str = "",
) -> tuple[Arm, ...]:
    """Make an arm for each place where the cases of `make(workload, framework)` exist.

    Where no workloads are named, they are all those whose references two frameworks confirm.
    """
    named_measures = places(make, workloads or confirmed_names(), frameworks)
    return tuple(Arm(f"{name} {label}".strip(), measure, target) for name, measure in named_measures)


def ratios(
    change: str,
    base: Base,
    target: Target = LESS,
    workloads: tuple[str, ...] = (),
    frameworks: tuple[str, ...] = FRAMEWORKS,
    label: str = "",
    quantity: Quantity = PEAK,
) -> tuple[Arm, ...]:
    """Change / base, each written as `scenario/strategy`."""
    return each(lambda w, f: Ratio(quantity, ref(w, f, change), _of(base, w, f)), target, workloads, frameworks, label)


def planned(
    change: str,
    base: Base,
    target: Target = LESS,
    workloads: tuple[str, ...] = (),
    frameworks: tuple[str, ...] = PLANNED,
    label: str = "",
    quantity: plans.Quantity = "peak",
) -> tuple[Arm, ...]:
    """The same at full size, as planned for a card that is not here."""
    pairs = [(w, f) for w in workloads or confirmed_names() for f in frameworks]
    made = [(w, f, Planned(quantity, ref(w, f, change), _of(base, w, f))) for w, f in pairs]
    return tuple(
        Arm(f"{w}/{f} {label} planned".replace("  ", " "), measure, target)
        for w, f, measure in made
        if measure.planned() and all(map(exists, measure.planned()))
    )


def planned_steps(what: str, target: Target, workloads: tuple[str, ...] = (), label: str = "") -> tuple[Arm, ...]:
    """The exponent of the planned peak between each batch and the next of full size."""
    made = []
    for workload, framework in product(workloads or confirmed_names(), PLANNED):
        if (full := spec.workload(workload).sizes.get(FULL_SIZE)) is None:
            continue
        scenario, strategy = what.split("/")
        for small, large in pairwise(full.batches):
            change, base = (Ref(workload, framework, scenario, strategy, batch=batch) for batch in (large, small))
            measure = Planned("peak", change, base, "number", batches=large / small)
            if all(map(exists, measure.planned())):
                made.append(Arm(f"{workload}/{framework} {label} planned".replace("  ", " "), measure, target))
    return tuple(made)


def snippet(
    stem: str, name: str, of: Callable[[Found], Effect], target: Target, form: Literal["change", "count", "error"] = "count"
) -> Arm:
    """A number of what an article prints: `examples/articles/<stem>.py`."""
    return Arm(name, OfProbe(f"{SNIPPET}{stem}", of, form, f"{stem}.py"), target)


SWEEPS: dict[str, type[Exponent] | type[Fall] | type[SmallestStep] | type[Steepest]] = {
    "exponent": Exponent, "fall": Fall, "step": SmallestStep, "steepest": Steepest,
}  # fmt: skip


def sweeps(
    kind: str,
    what: str,
    target: Target,
    workloads: tuple[str, ...] = (),
    frameworks: tuple[str, ...] = FRAMEWORKS,
    label: str = "",
    quantity: Quantity = PEAK,
) -> tuple[Arm, ...]:
    """A measure over every declared batch of `scenario/strategy`."""
    scenario, strategy = what.split("/")
    return each(lambda w, f: SWEEPS[kind](quantity, w, f, scenario, strategy), target, workloads, frameworks, label or scenario)
