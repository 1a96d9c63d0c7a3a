"""Find out what is in a user's model by its shapes alone: nothing is run, measured or verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from framebench.cli.shared import say
from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_file.trial import UserModel

# the program that looks into the file, by framework
FACTS = {
    "torch": "framebench.user_file.torch_facts",
    "jax": "framebench.user_file.flax_facts",
}
FACTS_LIMIT_S = 600.0  # for building a model without numbers, and importing what it needs


def look_into(model: UserModel, environment: Environment, folder: Path) -> dict[str, Any]:
    """Find out what is in the file, add it to `own.json` of the folder, print it, and return it.

    Raises Fault.
    """
    file = folder / "own.json"
    facts: dict[str, Any] = json.loads(file.read_text()) | read_facts(model, environment)
    file.write_text(json.dumps(facts))
    say(trial.describe_facts(model, facts))
    return facts


def read_facts(model: UserModel, environment: Environment) -> dict[str, object]:
    """Return what the framework's program says of the file. Raises Fault."""
    program = FACTS[model.framework]
    printed = environments.run_module(
        environment,
        program,
        str(model.batch),
        variables={"OMP_NUM_THREADS": "1"},
        limit_s=FACTS_LIMIT_S,
    )
    facts: dict[str, object] = json.loads(printed.splitlines()[-1])  # a file may print, too
    if "fault" in facts:
        raise Fault(str(facts["fault"]))
    return facts
