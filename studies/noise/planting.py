"""Measure variants with a known difference: steps that take longer, or hold more memory.

The suite knows nothing of it. The interpreter of a `PlantedEnvironment` is a script, which runs
`planted_worker.py` in the framework's own interpreter.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from framebench.engine import mathematics
from framebench.engine.blocks import MathematicsCheck, Run
from framebench.engine.environments import Environment
from framebench.engine.recording import Context
from framebench.engine.runner import Options, Variant
from framebench.suite.case import Case
from framebench.suite.result import Mathematics

WORKER = Path(__file__).with_name("planted_worker.py").absolute()


@dataclass(frozen=True, kw_only=True)
class PlantedEnvironment(Environment):
    """An environment in whose processes a difference is planted."""

    plain: Environment  # without it
    spin: float = 0.0  # a share of its own time by which each timed step is made longer
    extra: float = 0.0  # a share of its peak by which each step holds more

    @property
    def name(self) -> str:
        """Return the name of the file of its records."""
        return f"{self.plain.name}-spin-{self.spin:g}-extra-{self.extra:g}"


def plant(
    environment: Environment, scripts: Path, spin: float = 0.0, extra: float = 0.0
) -> PlantedEnvironment:
    """Return the environment with a difference planted, and write the script of its interpreter.

    Args:
        environment: The environment without it.
        scripts: The folder of scripts, which must stay as long as the environment is used.
        spin: See `PlantedEnvironment`.
        extra: See `PlantedEnvironment`.
    """
    values = {field.name: getattr(environment, field.name) for field in fields(Environment)}
    planted = PlantedEnvironment(**values, plain=environment, spin=spin, extra=extra)
    script = scripts / planted.name / "bin" / "python"
    script.parent.mkdir(parents=True, exist_ok=True)
    command = [str(environment.python), "-P", str(WORKER), str(spin), str(extra)]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o755)
    return replace(planted, python=script)


def get_planted_shares(variant: Variant) -> dict[str, float]:
    """Return what is planted in a variant, as its records say it: nothing, or shares by name."""
    environment = variant.environment
    if not isinstance(environment, PlantedEnvironment):
        return {}
    shares = {"spin": environment.spin, "extra": environment.extra}
    return {name: share for name, share in shares.items() if share}


def check_unplanted(
    variants: list[Variant], options: Options, on_phase: Callable[[Case, str], None]
) -> dict[Variant, Mathematics]:
    """Check the mathematics of each case once: what is planted does not change it."""
    plain = {}
    for variant in variants:
        environment = variant.environment
        if isinstance(environment, PlantedEnvironment):
            environment = environment.plain
        plain[variant] = Variant(variant.case, environment)
    outcomes = mathematics.check(list(dict.fromkeys(plain.values())), options, on_phase)
    return {variant: outcomes[plain[variant]] for variant in variants}


@dataclass
class PlantingRun(Run):
    """A run whose records say what was planted, so that no table shows them."""

    check_mathematics: MathematicsCheck = check_unplanted

    def make_context(self, variant: Variant, load: float | None) -> Context:
        """Return the circumstances of a measurement, with what was planted."""
        return replace(super().make_context(variant, load), planted=get_planted_shares(variant))
