"""`try --device`: what a user's model needs on a device that is not here. Nothing is run, measured or verified."""

from __future__ import annotations

from pathlib import Path

from framebench.cli.shared import err, say
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.shapes import FACTS, look_into
from framebench.user_file.trial import UserModel


def fits(
    model: UserModel, strategies: str | None, device: str, budget: int | None, results: Path, env: str | None, as_json: bool
) -> bool:
    """Whether nothing fits, printed. Raises Fault."""
    from framebench.devices.fit.advice import fit_on_device

    if model.framework not in FACTS:
        raise Fault(f"{model.file.name}: --device takes a model in {' or '.join(FACTS)}; this one is in {model.framework}")
    named = strategies.split(",") if strategies else None
    trial.cases(model, named)  # a strategy that does not exist is told before anything runs
    environment = trial.environment(model, env, say)
    with trial.known(model) as folder, err.status(f"{model.file.name}: shapes"):
        look_into(model, environment, folder)
        cases, left_out = trial.cases(model, named, lambda case: None if case.support.supported else case.support.why)
        planner = environment if model.framework == "torch" or env else None  # of JAX one that has the device's compiler
        nothing = fit_on_device(cases, left_out, device, budget, results, as_json, planner)
    return nothing
