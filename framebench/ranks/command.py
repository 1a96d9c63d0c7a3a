"""What `predict` and `advise` say of cases that several processes share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from framebench.cli.shared import err, fail, out, say
from framebench.engine import environments
from framebench.models import spec
from framebench.ranks.cases import obstacle, over_ranks
from framebench.strategies.registry import OVER_RANKS
from framebench.suite.case import Case, UnknownCase

if TYPE_CHECKING:
    from framebench.ranks.advice import RankOffer


def predict_rank(selector: str, ranks: int | None, as_json: bool) -> None:
    """Print the peak of the fullest rank."""
    from framebench.ranks.predicted import Unpredicted
    from framebench.ranks.predicted import predict as predicted

    case = over_ranks(selector, ranks)
    try:
        if why := obstacle(case):  # before an environment is built for nothing
            raise Unpredicted(f"{case.id}: {why}")
        with err.status(case.id):
            prediction = predicted(case, environments.ensure(case.framework, say=say))
    except Unpredicted as error:
        fail(str(error), 2)
    if as_json:
        typer.echo(prediction.model_dump_json(indent=1))
        return
    typer.echo(f"{prediction.case}, rank {prediction.rank} of {prediction.ranks}: {prediction.note}")
    for name, size in {
        "predicted peak": prediction.peak_bytes,
        **{f"  {name}": size for name, size in prediction.parts.items()},
    }.items():
        typer.echo(f"  {name:<40} {size / 2**20:>10,.1f} MiB")


def _cases_over_ranks(
    workload: str, frameworks: tuple[str, ...], scenario: str, batch: int, size: str, ranks: int
) -> list[Case]:
    """Of every strategy over ranks that a framework has and that exists by itself. Raises UnknownCase."""
    rows = {n: row for (where, n), row in OVER_RANKS.items() if where == scenario}
    names = [n for n, row in rows.items() if row.suits(spec.load_workload(workload)) and not row.needs]
    every = [over_ranks(f"{workload}/{f}/{scenario}/{name}/b{batch}/{size}", ranks) for f in frameworks for name in names]
    if supported_cases := [case for case in every if case.support.supported]:
        return supported_cases
    able = sorted({f"{w} {where}" for (where, _), row in OVER_RANKS.items() for w in row.workloads or spec.list_workloads()})
    raise UnknownCase(
        f"no strategy over ranks for {workload} {scenario} in {', '.join(frameworks)}; there are some for {', '.join(able)}"
    )


def advise(
    workload: str, frameworks: tuple[str, ...], scenario: str, batch: int, size: str, ranks: int, budget: int, as_json: bool
) -> bool:  # fmt: skip
    """Print what fits. Returns whether nothing does."""
    from framebench.ranks import advice

    cases = _cases_over_ranks(workload, frameworks, scenario, batch, size, ranks)
    if cases[0].batch != batch:
        say(f"a batch of {batch} does not divide by {ranks} ranks: of {cases[0].batch} samples instead")

    offers = []
    for case in cases:
        with err.status(case.id):
            offers.append(_offered(case))
    if as_json:
        typer.echo(json.dumps(advice.as_json(offers, budget), indent=1))
    else:
        out.print(advice.answer(offers, budget), markup=False, highlight=False, soft_wrap=True)
        advice.table(offers, budget).terminal(out)
    return not advice.fitting(offers, budget)


def _offered(case: Case) -> RankOffer:
    from framebench.engine import environments
    from framebench.ranks import predicted as predicted_rank
    from framebench.ranks.advice import RankOffer

    if why := obstacle(case):
        return RankOffer(case, why=why)
    try:
        return RankOffer(case, predicted_rank.predict(case, environments.ensure(case.framework, say=say)))
    except predicted_rank.Unpredicted as error:
        return RankOffer(case, why=str(error))
