"""What is in a user's model, by its shapes alone; and `try --device`: what it needs on a device that is not here. Nothing is
run, measured or verified."""

from __future__ import annotations

import json
from pathlib import Path

from framebench.cli.shared import err, needed, say
from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.features.user_model import measure as trial
from framebench.features.user_model.measure import UserModel
from framebench.suite.user_file import Fault

# the program that looks into the file, by framework
FACTS = {
    "torch": "framebench.features.user_model.torch_facts",
    "jax": "framebench.features.user_model.flax_facts",
}


def fits(
    model: UserModel, strategies: str | None, device: str, budget: int | None, results: Path, env: str | None, as_json: bool
) -> bool:
    """Whether nothing fits, printed. Raises Fault."""
    if model.framework not in FACTS:
        raise Fault(f"{model.file.name}: --device takes a model in {' or '.join(FACTS)}; this one is in {model.framework}")
    fit_on_device = needed("fit_on_device", "devices")
    named = strategies.split(",") if strategies else None
    trial.cases(model, named)  # a strategy that does not exist is told before anything runs
    environment = trial.environment(model, env, say)
    with trial.known(model) as folder, err.status(f"{model.file.name}: shapes"):
        looked_into(model, environment, folder)
        cases, left_out = trial.cases(model, named, lambda case: None if case.support.supported else case.support.why)
        planner = environment if model.framework == "torch" or env else None  # of JAX one that has the device's compiler
        nothing: bool = fit_on_device(cases, left_out, device, budget, results, as_json, planner)
    return nothing


def looked_into(model: UserModel, environment: Environment, folder: Path) -> None:
    """Note and say what is in the file. Raises Fault."""
    facts = json.loads((folder / "own.json").read_text()) | _facts(model, environment)
    (folder / "own.json").write_text(json.dumps(facts))
    say(trial.in_short(model, facts))


def _facts(model: UserModel, environment: Environment) -> dict[str, object]:
    """Raises Fault."""
    program = FACTS[model.framework]
    printed = environments.run_module(environment, program, str(model.batch), OMP_NUM_THREADS="1")
    facts: dict[str, object] = json.loads(printed.splitlines()[-1])
    if "fault" in facts:
        raise Fault(str(facts["fault"]))
    return facts
