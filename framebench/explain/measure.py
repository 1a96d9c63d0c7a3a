"""Where the peak of one steady step comes from: the parent's side of `worker.py`."""

from __future__ import annotations

from pydantic import ValidationError

from framebench.engine import runner
from framebench.engine.environments import Environment, SetupError, run_module
from framebench.engine.runner import Options
from framebench.explain.record import Explanation
from framebench.suite.case import Case


class Unexplained(Exception):
    """No explanation of this case; the message says why."""


def obstacle(case: Case) -> str | None:
    """Why there is no account of this case, if there is none."""
    hows = {part.how for part in case.parts}
    if why := runner.unsupported(case):
        return why
    if case.ranks > 1:
        return "explain follows a single process; framebench predict tells the parts of a rank's peak"
    if case.scenario not in ("train", "eval"):
        return f"explain covers train and eval, not {case.scenario}"
    if {"compile", "compile_step"} & hows:
        return "explain follows PyTorch operator by operator, and torch.compile leaves no operators to follow"
    if {"adamw_8bit", "int8"} & hows:
        return "explain follows storages, and a tensor of torchao's is made of several"
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
        printed = run_module(environment, "framebench.explain.worker", case.id, **variables)
        return Explanation.model_validate_json(printed.splitlines()[-1])
    except SetupError as error:
        raise Unexplained(f"{case.id} in {environment.name}: {str(error).splitlines()[-1]}") from error
    except (ValidationError, IndexError) as error:
        raise Unexplained(f"{case.id} in {environment.name}: the account does not hold: {error}") from error
