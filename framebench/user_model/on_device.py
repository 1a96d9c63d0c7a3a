"""`try --device`: what a user's model needs on a device that is not here.

Nothing is run, measured or verified.
"""

from __future__ import annotations

from pathlib import Path

from framebench.cli.shared import err, say
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.shapes import FACTS, look_into
from framebench.user_file.trial import UserModel


def predict_on_device(
    model: UserModel,
    strategies: list[str] | None,
    device: str,
    budget: int | None,
    results: Path,
    env: str | None,
    as_json: bool,
) -> bool:
    """Print which strategies fit on the device, and return whether none does. Raises Fault."""
    from framebench.devices.fit.advice import fit_on_device

    if model.framework not in FACTS:
        raise Fault(
            f"{model.file.name}: --device takes a model in {' or '.join(FACTS)}; this one is in "
            f"{model.framework}",
        )
    trial.list_cases(model, strategies)  # refuses an unknown strategy before anything runs
    environment = trial.choose_environment(model, env, say)
    with trial.use_model(model) as folder, err.status(f"{model.file.name}: shapes"):
        look_into(model, environment, folder)
        cases, left_out = trial.list_cases(model, strategies, explain_unsupported)
        # without one, JAX's plans are made in an environment that has the device's compiler
        planner = environment if model.framework == "torch" or env else None
        return fit_on_device(cases, left_out, device, budget, results, as_json, planner)


def explain_unsupported(case: Case) -> str | None:
    """Return why no machine can measure the case; None if one with the device can."""
    return None if case.support.supported else case.support.why
