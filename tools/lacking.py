"""List which cases a machine lacks of another's.

It is started as `python -m tools.lacking zen4-2core --of xeon-2core`. With `--times`, also those
that the other has timed and this one has not. Without, a peak is enough, which `framebench run
--rounds 0` reads on a busy machine, too.
"""

from __future__ import annotations

from typing import Annotated

import pandas as pd
import typer

import framebench


def main(
    machine: str,
    of: Annotated[str, typer.Option(help="the machine that has them")],
    times: Annotated[bool, typer.Option(help="of step times too")] = False,
) -> None:
    """Print the cases, one a line."""
    column = "step_time_s" if times else "host_rss_bytes"
    mine = list_measured(machine, column)
    theirs = list_measured(of, column)
    for case in theirs[~theirs.isin(mine)]:
        typer.echo(case)


def list_measured(machine: str, column: str) -> pd.Series[str]:
    """Return the cases of a machine whose verified records have this number."""
    df = framebench.load(machine=machine)
    return df.loc[df["verified"].eq(True) & df[column].notna(), "case"]


if __name__ == "__main__":
    typer.run(main)
