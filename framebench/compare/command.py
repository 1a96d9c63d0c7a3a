"""The command `compare`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from framebench.cli.shared import (
    MEASURE,
    AsJson,
    Env,
    ResultsOption,
    Rounds,
    app,
    echo,
    err,
    fail,
    open_session,
    out,
    say,
)
from framebench.compare import measure
from framebench.engine import environments, installed, runner
from framebench.engine.progress import CaseProgress
from framebench.suite import selectors
from framebench.suite.sequences import drop_duplicates


@app.command("compare", rich_help_panel=MEASURE)
def compare_(
    base: Annotated[str, typer.Argument(help="The full case id that CHANGE is compared with.")],
    change: Annotated[
        str, typer.Argument(help="A full case id. The same as BASE shows the machine's noise.")
    ],
    blocks: Annotated[int, typer.Option(min=1, help="Number of blocks.")] = measure.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    results: ResultsOption = runner.RESULTS,
    threads: Annotated[int, typer.Option(min=1, help="1 pins the timing workers to one core.")] = 1,
    env: Env = None,
    as_json: AsJson = False,
) -> None:
    """Is CHANGE slower than BASE, or does it need more memory?

    Alternates runs of both, and keeps the records.

    An interrupted comparison resumes.
    """
    from framebench.analysis.blocks import Blocks
    from framebench.analysis.reports import verdicts
    from framebench.analysis.results import Results

    pair = selectors.parse(base), selectors.parse(change)
    for case in pair:
        if case.ranks > 1:
            fail(
                f"{case.id} is over ranks, which have no step times to compare: framebench "
                "run measures their memory",
                2,
            )
    for difference in measure.list_differences(*pair):
        say(f"note: the cases differ in {difference}")
    options = runner.Options(threads=threads, rounds=rounds, peaks_each_block=True)
    title = f"compare {base} {change} {blocks} blocks --env {env} {options}"
    frameworks = drop_duplicates(case.framework for case in pair)
    with open_session(results, title) as session:
        try:
            found_environments = installed.find_environments(frameworks, env, say)
            missing = sorted(set(frameworks) - found_environments.keys())
            if missing:
                raise measure.NotMeasured(
                    f"{' and '.join(missing)} cannot be measured by --env {env}"
                )
            cases = drop_duplicates(pair)  # one case if it is compared with itself
            for environment in found_environments.values():
                environments.warm(environment, cases, say)
            with CaseProgress(cases, results, err, blocks, session.id) as progress:
                base_records, change_records = measure.measure(
                    pair, blocks, session.id, found_environments, options, results, progress
                )
        except measure.NotMeasured as error:
            session.close(results)  # the next try is a new comparison
            fail(str(error), 1)
    # intervals rest on all blocks of the machine, not on these alone
    machine = base_records[0].provenance.machine
    machine_blocks = Blocks(Results(results).get_records(machine))
    if as_json:
        echo(json.dumps(verdicts.make_report(base_records, change_records, machine_blocks)))
    else:
        verdicts.make_table(base_records, change_records, machine_blocks).terminal(out)
