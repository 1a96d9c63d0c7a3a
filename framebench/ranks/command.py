"""Answer `predict` for a case that several processes share."""

from __future__ import annotations

from framebench.cli.shared import echo, fail, say, show_work
from framebench.engine import environments
from framebench.ranks import predicted
from framebench.ranks.cases import explain_unpredictable_rank, list_rank_notes, parse_rank_case
from framebench.ranks.predicted import Prediction, Unpredicted
from framebench.suite.case import Case


def predict_rank(selector: str, ranks: int | None, as_json: bool) -> None:
    """Print the peak of the fullest rank. Raises UnknownCase."""
    case = parse_rank_case(selector, ranks)
    try:
        prediction = predict_in_environment(case)
    except Unpredicted as error:
        fail(str(error), 2)
    if as_json:
        echo(prediction.model_dump_json(indent=1))
        return
    echo(f"{prediction.case}, rank {prediction.rank} of {prediction.ranks}: {prediction.note}")
    sizes = {"predicted peak": prediction.peak_bytes}
    for name, size in prediction.parts.items():
        sizes[f"  {name}"] = size
    for name, size in sizes.items():
        echo(f"  {name:<40} {size / 2**20:>10,.1f} MiB")
    for note in list_rank_notes(case):
        echo(f"  {note}")


def predict_in_environment(case: Case) -> Prediction:
    """Predict the peak of the fullest rank in its framework's environment. Raises Unpredicted."""
    obstacle = explain_unpredictable_rank(case)
    if obstacle:  # checked first, so that no environment is built for nothing
        raise Unpredicted(obstacle)
    with show_work(f"{case.id}: predicting the fullest rank"):
        return predicted.predict_rank_peak(case, environments.ensure(case.framework, say=say))
