"""Open or update an issue for each regression of a framework's newest release.

`python -m tools.report_regressions newest.json`, with what `framebench versions newest --json`
printed. The issue has both versions, the change, and the release that `framebench versions bisect`
names. GitHub's `gh` does the rest: it reads the repository and a token from its environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from framebench.analysis.reports.verdicts import format_with_unit

MOST_BISECTED = 3  # each takes several installations
LABEL = "regression"
Row = dict[str, Any]  # a row of `framebench versions newest --json`


def main(
    file: Annotated[Path, typer.Argument(help="what `framebench versions newest --json` printed")],
    bisect: Annotated[
        bool, typer.Option(help="name the release of each of the largest regressions of peaks")
    ] = True,
) -> None:
    """Report the regressions in the file that are not accepted."""
    bisected = 0
    text = file.read_text()
    if not text.strip():  # the command ended before a verdict, and its own log says why
        print(f"{file} has no verdict: nothing to report")
        return
    for verdict in json.loads(text):
        rows = sorted(verdict["new_regressions"], key=lambda row: row["ratio"] or 0, reverse=True)
        for row in rows:
            release = ""
            if bisect and row["quantity"] == "peak memory" and bisected < MOST_BISECTED:
                release = find_release(
                    verdict["framework"], verdict["pinned"], verdict["newest"], row
                )
                bisected += 1
            report(make_title(row), make_body(row, release))


def find_release(framework: str, pinned: str, newest: str, row: Row) -> str:
    """Return what a bisection says of the release in which the case's peak changed."""
    question = ["--framework", framework, pinned, newest, row["case"], "--json"]
    command = [sys.executable, "-m", "framebench.cli", "versions", "bisect", *question]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        answer: str = json.loads(done.stdout)["answer"]
    except ValueError:
        last_line = (done.stderr.strip() or "no answer").splitlines()[-1]
        return f"`versions bisect` gave no answer: {last_line}"
    return answer


def make_title(row: Row) -> str:
    """Return a title that is the same each week: it has no numbers that noise could change."""
    return f"{row['change']}: {row['quantity']} of {row['case']}"


def make_body(row: Row, release: str) -> str:
    """Return the text of an issue: versions, values, interval, and the release of the change."""
    change = f"{row['ratio'] - 1:+.1%}" if row["ratio"] else "changed"
    lines = [
        f"`{row['case']}`: {row['quantity']} {change} from {row['base']} to {row['change']}.",
        "",
    ]
    for side in ("base", "change"):
        value = row[f"{side}_value"]
        text = "-" if value is None else format_with_unit(value, row["unit"])
        lines.append(f"- {row[side]}: {text}")
    if row["low"] is not None:
        lines.append(f"- 95 % interval of the ratio: {row['low']:.3f} to {row['high']:.3f}")
    if row["instrument"]:
        lines.append(f"- instrument: {row['instrument']}")
    if release:
        lines.append(f"- {release}")
    lines += [
        "",
        "If this is to stay, add it to `requirements/versions/accepted.toml` and close the issue.",
    ]
    return "\n".join(lines)


def report(title: str, body: str) -> None:
    """Comment on the open issue with this title, or open one."""
    query = ["--state", "open", "--label", LABEL, "--limit", "500", "--json", "number,title"]
    listing = run_gh("issue", "list", *query)
    for issue in json.loads(listing or "[]"):
        if issue["title"] == title:
            run_gh("issue", "comment", str(issue["number"]), "--body", body)
            print(f"updated #{issue['number']}: {title}")
            return
    run_gh("label", "create", LABEL, "--force")
    run_gh("issue", "create", "--title", title, "--label", LABEL, "--body", body)
    print(f"opened: {title}")


def run_gh(*words: str) -> str:
    """Return what `gh` prints. Raises CalledProcessError."""
    return subprocess.run(["gh", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    typer.run(main)
