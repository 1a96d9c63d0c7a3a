"""Explain the peak of a case in a process of its own: the parent's side of `worker.py`."""

from __future__ import annotations

from pydantic import ValidationError

from framebench.engine import runner
from framebench.engine.environments import Environment, SetupError, ask_module
from framebench.engine.runner import Options
from framebench.explain.record import Explanation
from framebench.suite.case import Case

# why a step with one of these switches cannot be followed
NO_OPERATORS = (
    "explain follows PyTorch operator by operator, and torch.compile leaves no operators to follow"
)
SEVERAL_STORAGES = "explain follows storages, and a tensor of torchao's is made of several"
OBSTACLES = {
    "compile": NO_OPERATORS,
    "compile_step": NO_OPERATORS,
    "adamw_8bit": SEVERAL_STORAGES,
    "int8": SEVERAL_STORAGES,
    "no_jit": "explain reads JAX's compiled plan, and the step under jax.disable_jit has none",
}


class Unexplained(Exception):
    """A case cannot be explained; the message says why."""


def check_explainable(case: Case) -> None:
    """Raise Unexplained for a case without an account."""
    obstacles = [runner.explain_unsupported(case)]
    if case.ranks > 1:
        obstacles.append(
            "explain follows a single process; framebench predict tells the parts of a rank's peak"
        )
    if case.scenario not in ("train", "eval"):
        obstacles.append(f"explain covers train and eval, not {case.scenario}")
    obstacles += [OBSTACLES.get(part.switch) for part in case.parts]
    for obstacle in filter(None, obstacles):
        raise Unexplained(f"{case.id}: {obstacle}")


def explain(case: Case, environment: Environment) -> Explanation:
    """Run a few steps of a case in a fresh process, and return the holders at the peak of one.

    Raises Unexplained.
    """
    check_explainable(case)
    variables = runner.make_worker_variables(environment, case, "memory", Options())
    variables["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # a program from the cache dumps no plan
    place = f"{case.id} in {environment.name}"
    try:
        answer = ask_module(environment, "framebench.explain.worker", case.id, variables=variables)
        return Explanation.model_validate(answer)
    except SetupError as error:
        raise Unexplained(f"{place}: {str(error).splitlines()[-1]}") from error
    except ValidationError as error:
        raise Unexplained(f"{place}: the worker returned no valid breakdown: {error}") from error
