"""What `predict` and `advise` say of cases that several processes share."""

from __future__ import annotations

import json
from pathlib import Path

from framebench.cli.shared import echo, err, fail, out, say
from framebench.engine import environments
from framebench.models import spec
from framebench.ranks import predicted
from framebench.ranks.cases import explain_unpredictable_rank, over_ranks
from framebench.ranks.predicted import Unpredicted
from framebench.ranks.prediction import Prediction
from framebench.strategies.registry import OVER_RANKS
from framebench.suite.case import Case, UnknownCase


def predict_rank(selector: str, ranks: int | None, as_json: bool) -> None:
    """Print the peak of the fullest rank. Raises UnknownCase."""
    case = over_ranks(selector, ranks)
    try:
        prediction = predict_in_environment(case)
    except Unpredicted as error:
        fail(str(error), 2)
    if as_json:
        echo(prediction.model_dump_json(indent=1))
        return
    echo(f"{prediction.case}, rank {prediction.rank} of {prediction.ranks}: {prediction.note}")
    print_size("predicted peak", prediction.peak_bytes)
    for name, size in prediction.parts.items():
        print_size(f"  {name}", size)


def predict_in_environment(case: Case) -> Prediction:
    """Predict the peak of the fullest rank in its framework's environment. Raises Unpredicted."""
    obstacle = explain_unpredictable_rank(case)
    if obstacle:  # before an environment is built for nothing
        raise Unpredicted(f"{case.id}: {obstacle}")
    with err.status(case.id):
        return predicted.predict_rank_peak(case, environments.ensure(case.framework, say=say))


def print_size(name: str, size: int) -> None:
    """Print a line of bytes in MiB."""
    echo(f"  {name:<40} {size / 2**20:>10,.1f} MiB")


def advise(
    workload: str,
    frameworks: tuple[str, ...],
    scenario: str,
    batch: int,
    size: str,
    ranks: int,
    budget: int,
    results: Path,
    as_json: bool,
) -> bool:
    """Print which strategies over ranks fit into a budget of bytes for each rank, and return
    whether none does.

    Raises UnknownCase if there are no such strategies.
    """
    from framebench.analysis.results import Results  # imports pandas
    from framebench.ranks import advice

    searches = Results(results).searches

    cases = select_cases(workload, frameworks, scenario, batch, size, ranks)
    if cases[0].batch != batch:
        say(
            f"a batch of {batch} does not divide by {ranks} ranks: of {cases[0].batch} samples "
            "instead"
        )
    offers = []
    unpredicted = []
    for case in cases:
        obstacle = explain_unpredictable_rank(case)
        if obstacle:
            unpredicted.append(advice.UnpredictedCase(case, obstacle))
            continue
        try:
            kept = searches.find_untracked(case) or 0
            offers.append(advice.RankOffer(case, predict_in_environment(case), kept))
        except Unpredicted as error:
            unpredicted.append(advice.UnpredictedCase(case, str(error)))
    answer = advice.judge(offers, unpredicted, budget)
    if as_json:
        echo(json.dumps(advice.as_json(answer), indent=1))
    else:
        out.print(advice.summarize(answer), markup=False, highlight=False, soft_wrap=True)
        advice.make_table(answer).terminal(out)
    return not answer.fitting


def select_cases(
    workload: str, frameworks: tuple[str, ...], scenario: str, batch: int, size: str, ranks: int
) -> list[Case]:
    """Return a case for each strategy over ranks that a framework has and that exists by itself.

    Raises UnknownCase.
    """
    cases = []
    for framework in frameworks:
        for (of_scenario, name), strategy in OVER_RANKS.items():
            if (
                of_scenario == scenario
                and strategy.suits(spec.load_workload(workload))
                and not strategy.needs
            ):
                case = over_ranks(
                    f"{workload}/{framework}/{scenario}/{name}/b{batch}/{size}", ranks
                )
                if case.support.supported:
                    cases.append(case)
    if not cases:
        raise UnknownCase(
            f"no strategy over ranks for {workload} {scenario} in {', '.join(frameworks)}; "
            f"there are some for {', '.join(list_scenarios())}"
        )
    return cases


def list_scenarios() -> list[str]:
    """Return the workloads and scenarios that have strategies over ranks, such as `transformer
    train`.
    """
    scenarios = set()
    for (scenario, _), strategy in OVER_RANKS.items():
        for workload in strategy.workloads or spec.list_workloads():
            scenarios.add(f"{workload} {scenario}")
    return sorted(scenarios)
