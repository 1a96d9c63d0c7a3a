"""Explain the peak of a case in a process of its own: the parent's side of `worker.py`."""

from __future__ import annotations

from pydantic import ValidationError

from framebench.engine import runner
from framebench.engine.environments import Environment, SetupError, run_module
from framebench.engine.runner import Options
from framebench.explain.record import Explanation
from framebench.suite.case import Case


class Unexplained(Exception):
    """A case cannot be explained; the message says why."""


def explain_unsupported_breakdown(case: Case) -> str | None:
    """Return why the peak of this case cannot be explained, or None if it can."""
    why = runner.explain_unsupported(case)
    if why:
        return why
    if case.ranks > 1:
        return (
            "explain follows a single process; framebench predict tells the parts of a rank's peak"
        )
    if case.scenario not in ("train", "eval"):
        return f"explain covers train and eval, not {case.scenario}"
    switches = {part.how for part in case.parts}
    if {"compile", "compile_step"} & switches:
        return (
            "explain follows PyTorch operator by operator, and torch.compile leaves no "
            "operators to follow"
        )
    if {"adamw_8bit", "int8"} & switches:
        return "explain follows storages, and a tensor of torchao's is made of several"
    if "no_jit" in switches:
        return "explain reads JAX's compiled plan, and the step under jax.disable_jit has none"
    return None


def explain(case: Case, environment: Environment) -> Explanation:
    """Run a few steps in a fresh process, one of them under the framework's account.

    Raises Unexplained.
    """
    obstacle = explain_unsupported_breakdown(case)
    if obstacle:
        raise Unexplained(f"{case.id}: {obstacle}")
    variables = runner.make_worker_variables(environment, case, "memory", Options())
    variables["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # a program from the cache dumps no plan
    try:
        printed = run_module(environment, "framebench.explain.worker", case.id, variables=variables)
        return Explanation.model_validate_json(printed.splitlines()[-1])
    except SetupError as error:
        raise Unexplained(
            f"{case.id} in {environment.name}: {str(error).splitlines()[-1]}"
        ) from error
    except (ValidationError, IndexError) as error:
        raise Unexplained(
            f"{case.id} in {environment.name}: the worker returned no valid breakdown: {error}"
        ) from error
