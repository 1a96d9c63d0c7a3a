"""How often do verdicts err? `make study` draws comparisons from measured noise, and writes docs/study.md and docs/study.svg.

Everything that disturbs is measured: ratios between two arms that are the same case. Simulated are only which rounds meet in a
comparison, and what is injected into one arm.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.comparison import Comparison
from analysis.figures import page
from analysis.reports.verdicts import VALUES, Process
from analysis.statistics import FEWEST, PEAK, TIME, Quantity, chance, decide, interval
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.records.rounds import ROUNDS as USUAL
from framebench.records.rounds import Round, rounds_as_json

SAMPLES = ROOT / "results/study/aa-samples.jsonl"  # `framebench compare CASE CASE --json`, a line each
RUNS = (
    ROOT / "results/study/two-runs.json"
)  # two runs of the quick profile: `python -m analysis.studies.study runs SESSION SESSION`
ROUNDS = (3, 5, 7, 10, 12, 15)
INJECTED = {"s": 1.10, "bytes": 1.02}  # by the quantity's unit
SEED = 20130620
COMPARISONS = 1000


class Noise(NamedTuple):
    """Ratios of a quantity between two arms of one round that are the same case: what a comparison has to see through."""

    source: str
    quantity: Quantity
    logs: np.ndarray  # (rounds,)

    @property
    def spread(self) -> float:
        """Standard deviation of the ratio within a round, from the median absolute deviation."""
        return float(np.median(np.abs(self.logs)) * 1.4826)


def loaded(samples: Path = SAMPLES) -> list[Noise]:
    """Measured rounds of A against A."""
    found = []
    for said in map(json.loads, samples.read_text().splitlines()):
        loads = [r[arm]["load_before"] for r in said["rounds"] for arm in Round._fields]
        case = "/".join(said["base"].split("/")[:3])
        source = f"busy: {case}, load {min(loads):.0f} to {max(loads):.0f}"
        found += [Noise(source, quantity, ratios(said["rounds"], quantity)) for quantity in VALUES]
    return found


def ratios(rounds: list[dict[str, Process]], quantity: Quantity) -> np.ndarray:
    value = VALUES[quantity]
    return np.log([value(r["change"]) / value(r["base"]) for r in rounds])  # type: ignore[operator]


def quiet(runs: Path = RUNS) -> list[Noise]:
    """Of two runs hours apart, what a round would have seen.

    A case against the same case of the other run differs by drift and by noise. Neighbours within a run drift together, so
    of two neighbours' differences only noise is left: that of four processes, where a round has two, so its root of a half.
    Peaks do not drift: there the two runs are the two arms. Only host.rss is noisy, the others are exact.
    """
    said = json.loads(runs.read_text())
    source = f"idle: {len(said['cases'])} cases, load {said['load'][0]:.1f} to {said['load'][1]:.1f}"
    found = []
    for quantity in VALUES:
        if quantity is PEAK:
            rounds = [r for r in said["cases"] if r["base"]["peak_instrument"] == "host.rss"]
            found.append(Noise(source, quantity, ratios(rounds, quantity)))
        else:
            found.append(Noise(source, quantity, np.diff(ratios(said["cases"], quantity)) / np.sqrt(2)))
    return found


def two_runs(root: Path, sessions: tuple[str, str]) -> dict[str, Any]:
    """The cases that both sessions measured, in the order of the first: the samples that `quiet` reads."""
    first, second = ({r.case: r for r in store.read_all(root) if ok(r, session)} for session in sessions)
    order = sorted(first.keys() & second.keys(), key=lambda case: first[case].provenance.measured_at)
    arms = [Round(first[case], second[case]) for case in order]
    loads = [r.provenance.load_before or 0.0 for pair in arms for r in pair]
    cases = [{"case": pair.base.case, **entry} for pair, entry in zip(arms, rounds_as_json(arms)["rounds"])]
    proof = arms[0].base.provenance
    return {
        "sessions": sessions, "machine": proof.machine, "hardware": proof.hardware, "load": [min(loads), max(loads)],
        "commits": [record.provenance.commit for record in arms[0]], "cases": cases,
    }  # fmt: skip


def ok(record: Record, session: str) -> bool:
    return record.status == "ok" and record.provenance.session == session


def outcomes(noise: Noise, rounds: int, comparisons: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts without and with the injected difference, from rounds drawn with replacement and arms swapped at random."""
    drawn = rng.choice(noise.logs, (comparisons, rounds)) * rng.choice((-1, 1), (comparisons, rounds))
    low, high = interval(drawn)
    shift = np.log(INJECTED[noise.quantity.unit])
    return (
        decide(low, high, chance(drawn), noise.quantity),
        decide(low + shift, high + shift, chance(drawn + shift), noise.quantity),
    )


def rates(
    noises: Iterable[Noise], rounds: Iterable[int] = ROUNDS, comparisons: int = COMPARISONS, seed: int = SEED
) -> pd.DataFrame:
    """A row for each noise and number of rounds, with the shares of SHARES."""
    rows = []
    for noise in noises:
        for n in rounds:
            same, changed = outcomes(noise, n, comparisons, np.random.default_rng(seed))
            alarm = np.isin(same, (noise.quantity.more, noise.quantity.less)).mean()
            found = (changed == noise.quantity.more).mean(), alarm, (same == "no difference").mean()
            rows.append((noise.source, noise.quantity.name, noise.spread, n, *found))
    return pd.DataFrame(rows, columns=["source", "quantity", "spread", "rounds", *SHARES])


def tables(found: pd.DataFrame) -> Iterator[Comparison]:
    """A table for each share, with a column for each number of rounds."""
    for share, title in SHARES.items():
        wide = found.pivot_table(index=["source", "quantity", "spread"], columns="rounds", values=share, sort=False)
        rows = (
            (source, quantity, f"{spread:.1%}", *(f"{r:.1%}" for r in line))
            for (source, quantity, spread), line in zip(wide.index, wide.to_numpy())
        )
        head = ("noise", "quantity", "spread", *(f"{n} rounds" for n in wide.columns))
        yield Comparison.of_text(title, "", head, tuple(rows))


SHARES = {
    "detected": "Found: 10 % slower, or 2 % more memory",
    "false alarm": "False alarms: equal arms called different",
    "settled": "Settled: equal arms called equal",
}


@page.styled
def figure(found: pd.DataFrame) -> Figure:
    """Detection over rounds, a line for each quantity, a panel for each source of noise."""
    grid = sns.relplot(
        found, x="rounds", y="detected", hue="quantity", style="quantity", col="source", kind="line", markers=True,
        dashes=False, palette="colorblind", height=3.2, facet_kws={"ylim": (0, 1.03)},
    )  # fmt: skip
    grid.refline(y=0.9, color="0.5", linewidth=1)
    grid.set_titles("{col_name}").set(xticks=sorted(set(found["rounds"])))
    grid.set_axis_labels("rounds (one process of each arm)", "share found")
    note = f"{COMPARISONS} comparisons each, drawn from results/study; dashed: 90 %. Below {FEWEST} rounds: none."
    return page.explained(grid.figure, title(found), [note])


def title(found: pd.DataFrame) -> str:
    """How often the default number of rounds finds a slower step: `... 94 % (idle machine), 12 to 26 % (busy machine)`."""
    usual = found[(found["quantity"] == TIME.name) & (found["rounds"] == USUAL)]
    said = []
    for kind, group in usual.groupby(usual["source"].str.partition(":")[0], sort=False):
        ends = (f"{share * 100:.0f}" for share in (group["detected"].min(), group["detected"].max()))
        said.append(f"{' to '.join(dict.fromkeys(ends))} % ({kind} machine)")
    slower = f"{100 * (INJECTED['s'] - 1):.0f} %"
    return f"{USUAL} rounds find a slowdown of {slower} in so many comparisons: {', '.join(said)}"


def study() -> pd.DataFrame:
    return rates([*quiet(), *loaded()])


def document(text: str, found: pd.DataFrame) -> str:
    """The text of docs/study.md with its tables made anew."""
    return re.sub(
        "(<!-- study -->\n).*?(<!-- end -->)",
        lambda m: m[1] + "\n".join(c.markdown() for c in tables(found)) + m[2],
        text,
        flags=re.S,
    )


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["runs"]:
        RUNS.write_text(json.dumps(two_runs(ROOT / "results", (arguments[1], arguments[2]))) + "\n")
        return
    found = study()
    written = ROOT / "docs/study.md"
    written.write_text(document(written.read_text(), found))
    (ROOT / "docs/study.svg").write_text(page.svg(figure(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
