"""Where the peak of one steady step comes from: the parent's side of `worker/explain.py`."""

from __future__ import annotations

from collections import Counter

from pydantic import Field, ValidationError, model_validator

from framebench.measure import runner
from framebench.measure.environments import Environment, SetupError, run_module
from framebench.measure.runner import Options
from framebench.records.record import Part
from framebench.suite.case import Case


class Unexplained(Exception):
    """No explanation of this case; the message says why."""


class Peak(Part):
    """The fullest moment of the step."""

    event: int
    bytes: int
    phase: str


class Holder(Part):
    """What is alive at the peak, of one kind, from one layer, made in one phase."""

    kind: str
    layer: str
    phase: str  # "before" if the step began with it
    bytes: int
    tensors: int
    by: tuple[str, ...] = ()  # the operators that made it, the one with most bytes first


class Explanation(Part):
    """One steady step's memory. The holders' bytes sum to the peak's, which is the timeline's highest point."""

    case: str
    how: str  # what was counted, and what an event is
    measured: dict[str, int]  # peak of a step without the account, in the same process, by instrument
    plan: dict[str, int] = Field(default={})  # JAX: bytes that the executable reserves, by what for
    timeline: tuple[tuple[int, int, str], ...]  # event, bytes in use from then on, phase
    peak: Peak
    holders: tuple[Holder, ...]
    versions: dict[str, str]
    device: str

    @model_validator(mode="after")
    def adds_up(self) -> Explanation:
        highest = max(moment[1] for moment in self.timeline)
        held = sum(h.bytes for h in self.holders)
        if not highest == self.peak.bytes == held:
            raise ValueError(f"the holders sum to {held} bytes, the peak is {self.peak.bytes}, the timeline's {highest}")
        return self

    @property
    def kinds(self) -> dict[str, int]:
        """Bytes at the peak by kind, most first."""
        found: Counter[str] = Counter()
        for holder in self.holders:
            found[holder.kind] += holder.bytes
        return dict(found.most_common())


def obstacle(case: Case) -> str | None:
    """Why there is no account of this case, if there is none."""
    hows = {part.how for part in case.parts}
    if why := runner.unsupported(case):
        return why
    if case.scenario not in ("train", "eval"):
        return f"explain covers train and eval, not {case.scenario}"
    if "compile" in hows:
        return "explain follows PyTorch operator by operator, and torch.compile leaves no operators to follow"
    if "no_jit" in hows:
        return "explain reads JAX's compiled plan, and the step under jax.disable_jit has none"
    return None


def explain(case: Case, environment: Environment) -> Explanation:
    """Run a few steps in a fresh process, one of them under the framework's own account. Raises Unexplained."""
    if why := obstacle(case):
        raise Unexplained(f"{case.id}: {why}")
    variables = runner.worker_variables(environment, case, "memory", Options())
    variables["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # what is taken from a cache tells nothing of its plan
    try:
        printed = run_module(environment, "framebench.worker.explain", case.id, **variables)
        return Explanation.model_validate_json(printed.splitlines()[-1])
    except SetupError as error:
        raise Unexplained(f"{case.id} in {environment.name}: {str(error).splitlines()[-1]}") from error
    except (ValidationError, IndexError) as error:
        raise Unexplained(f"{case.id} in {environment.name}: the account does not hold: {error}") from error
