"""A user's file on a device that is not here: `predict`, `max-batch` and `try` with `--device`.

Nothing is run, measured or verified.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from framebench.cli.shared import say
from framebench.devices.catalog import find
from framebench.devices.fit import advice
from framebench.devices.plans import planning
from framebench.devices.show import plan_with_progress, show_predictions
from framebench.engine import runner
from framebench.suite.case import Case
from framebench.user_file.opening import DeviceQuestion, open_for_device
from framebench.user_file.trial import UserModel


def predict_file(
    model: UserModel,
    strategies: list[str],
    device_name: str,
    results: Path,
    env: str | None,
    as_json: bool,
) -> None:
    """Print what the file's model needs on the device; end with exit code 1 if a plan failed.

    Raises Fault and UnknownDevice.
    """
    device = find(device_name)
    results = choose_folder(model, results)
    with open_for_device(model, strategies or [model.baseline.strategy], env) as question:
        prepare(model, question)
        cases = choose_cases(question, strategies)
        predictions = plan_with_progress(cases, device, results, environment=question.environment)
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
) -> bool:
    """Print which strategies fit, or the largest batch of each, and return whether none fits.

    Raises Fault and UnknownDevice.

    Args:
        model: The file, at the batch that is asked about.
        strategies: Next to the baseline; None: all that apply.
        device_name: The target device.
        budget: Bytes, if less than the device's memory.
        largest_batch: Whether the largest batch is searched for.
        results: The folder of predictions.
        env: The interpreter that has the file's packages, if not the pinned one.
        as_json: Whether to print JSON.
    """
    find(device_name)  # refuses an unknown one before anything is built
    results = choose_folder(model, results)
    with open_for_device(model, strategies, env) as question:
        prepare(model, question)
        if not largest_batch:
            return advice.fit_on_device(
                question.cases,
                question.left_out,
                device_name,
                budget,
                results,
                as_json,
                question.environment,
            )
        smallest = [replace(case, batch=case.plan.micro_batches) for case in question.cases]
        return advice.search_on_device(
            smallest,
            question.left_out,
            device_name,
            budget,
            results,
            as_json,
            question.environment,
        )


def choose_folder(model: UserModel, results: Path) -> Path:
    """Return the folder of the file's predictions: of its own, unless one was named."""
    return results / "own" / model.folder if results == runner.RESULTS else results


def choose_cases(question: DeviceQuestion, strategies: list[str]) -> list[Case]:
    """Return the cases of the named strategies, or the baseline's without any."""
    if not strategies:
        return question.cases[:1]
    return [case for case in question.cases if case.strategy in strategies]


def prepare(model: UserModel, question: DeviceQuestion) -> None:
    """Get cuDNN, which is asked for the workspaces of PyTorch's convolutions."""
    if model.framework == "torch" and question.has_convolutions:
        planning.ensure_cudnn(say)
