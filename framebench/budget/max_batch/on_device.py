"""A user's file on a device that is not here: `predict`, `max-batch` and `try` with `--device`.

Nothing is run, measured or verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from framebench.cli.shared import say
from framebench.devices.catalog import find
from framebench.devices.plans import planning
from framebench.devices.show import plan_with_progress, show_predictions
from framebench.engine import runner
from framebench.user_file.opening import DeviceQuestion, open_for_device
from framebench.user_file.trial import UserModel


def show_needs_of_file(
    model: UserModel,
    strategies: list[str],
    device_name: str,
    results: Path,
    env: str | None,
    as_json: bool,
) -> None:
    """Print the file's needs on the device; end with exit code 1 if a plan failed.

    Raises Fault and UnknownDevice.
    """
    device = find(device_name)
    strategies = strategies or [model.baseline.strategy]
    with prepare(model, strategies, env) as question:
        cases = [case for case in question.cases if case.strategy in strategies]
        folder = choose_folder(model, results)
        predictions = plan_with_progress(cases, device, folder, environment=question.environment)
        for strategy, reason in question.left_out.items():
            say(f"left out: {strategy}: {reason}")
        show_predictions(predictions, device, as_json)


def fit_file(
    model: UserModel,
    strategies: list[str] | None,
    device_name: str,
    budget: int | None,
    largest_batch: bool,
    results: Path,
    env: str | None,
    as_json: bool,
) -> bool | None:
    """Print which strategies fit, or the largest batch of each, and return whether any fits.

    Raises Fault and UnknownDevice.

    Args:
        model: The file, and the batch that has to fit unless the largest is searched for.
        strategies: Those to plan in addition to the baseline; None for all that apply.
        device_name: The target device.
        budget: Bytes, if less than the device's memory.
        largest_batch: Whether the largest batch is searched for.
        results: The folder of predictions.
        env: The interpreter that has the file's packages, if not the pinned one.
        as_json: Whether to print JSON.
    """
    from framebench.devices.fit import advice  # imports pandas

    find(device_name)  # refuses an unknown one before anything is built
    with prepare(model, strategies, env) as question:
        cases = question.cases
        print_answer = advice.fit_on_device
        if largest_batch:
            # a search starts at the smallest batch: one sample in each micro-batch
            cases = [replace(case, batch=case.strategy_spec.micro_batches) for case in cases]
            print_answer = advice.search_on_device
        return print_answer(
            cases=cases,
            left_out=question.left_out,
            device_name=device_name,
            budget=budget,
            results=choose_folder(model, results),
            as_json=as_json,
            environment=question.environment,
        )


def choose_folder(model: UserModel, results: Path) -> Path:
    """Return the folder of the file's predictions: its own below `results`, or the named one."""
    return results / "own" / model.folder if results == runner.RESULTS else results


@contextmanager
def prepare(
    model: UserModel, strategies: list[str] | None, env: str | None
) -> Iterator[DeviceQuestion]:
    """Yield the file's cases for a device, which planners can load in this context. Raises Fault.

    For PyTorch's convolutions the environment with cuDNN is built, from which the planner reads
    their workspaces.
    """
    with open_for_device(model, strategies, env) as question:
        if model.framework == "torch" and question.has_convolutions:
            planning.ensure_cudnn(say)
        yield question
