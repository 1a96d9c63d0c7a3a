"""How often do verdicts err? Comparisons of equal arms, and of arms with a planted difference.

In each block several equal processes of a case run next to processes whose steps are longer by a known share; of memory,
processes that hold a known share more. They are judged as `framebench compare` judges two cases.

The rule was fixed before anything was measured. A verdict is that of `framebench.analysis.statistics.verdict` on one pair of
arms over all of its blocks, moderated by the machine's other pairs. *Found* is a planted difference that is called slower, or
more memory. A *false alarm* is a pair of equal arms that is called different, either way. Undecided is neither. Equal arms are
paired so that no two pairs of them share a process.
"""

from __future__ import annotations

import gzip
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from scipy import stats

from framebench.analysis.blocks import Blocks
from framebench.analysis.comparison import Comparison
from framebench.analysis.reports.verdicts import Verdict, compare_memory, compare_times
from framebench.analysis.statistics import CONFIDENCE, PEAK, TIME, UNDECIDED, WIDE
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.protocol import HELD

DATA = Path(__file__).parent / "data"
GOALS = {  # the share that is to be found, by what was planted; of equal arms the share of false alarms that may be
    ("step time", 0.0): 0.05, ("step time", 0.05): 0.60, ("step time", 0.10): 0.90, ("peak memory", 0.0): 0.05,
    ("peak memory", 0.02): 1.0,
}  # fmt: skip


class Pair(NamedTuple):
    """Two arms that were compared."""

    condition: str  # of the machine, such as quiet
    framework: str
    case: str
    quantity: str
    planted: float  # the share by which the second arm's steps are longer, or its peak larger; 0 of equal arms
    verdict: Verdict

    @property
    def counts(self) -> bool:
        """Of a planted difference, whether it was found; of equal arms, whether there was a false alarm."""
        more, either = (TIME.more, PEAK.more), (TIME.more, TIME.less, PEAK.more, PEAK.less)
        return self.verdict.verdict in (more if self.planted else either)

    @property
    def covered(self) -> bool:
        """Whether the interval holds what was planted."""
        return (self.verdict.low or 0.0) <= 1 + self.planted <= (self.verdict.high or float("inf"))


def gather(folder: Path, condition: str) -> Path:
    """Write the records below a results folder into one data file, a line each. Return the file."""
    target = DATA / f"{condition}.jsonl.gz"
    records = sorted(store.read_all(folder), key=lambda r: r.provenance.measured_at)
    lines = "".join(r.model_dump_json() + "\n" for r in records)
    target.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return target


def load_records(folder: Path = DATA) -> dict[str, list[Record]]:
    """Return the records of each condition, by its name."""
    records = {}
    for file in sorted(folder.glob("*.jsonl.gz")):
        condition = file.name.removesuffix(".jsonl.gz")
        lines = gzip.decompress(file.read_bytes()).splitlines()
        records[condition] = [Record.model_validate_json(line) for line in lines]
    return records


def pairs(condition: str, records: Iterable[Record]) -> Iterator[Pair]:
    """Every comparison of a condition, times, and the peaks of what is held. Of equal arms the first
    two, the next two, and so on; each planted arm with an equal arm of its own."""
    good = [r for r in records if r.status == "ok" and r.turns]
    blocks = Blocks(good)
    for case in sorted({r.case for r in good}):
        case_records = [r for r in good if r.case == case]
        framework = case.split("/")[1]
        held = [r for r in case_records if r.turns and f"/{HELD}/" in r.turns.block]
        for share, base, change in _matched([r for r in case_records if r.timed and r not in held], "spin"):
            if verdict := compare_times(base, change, blocks):
                yield Pair(condition, framework, case, TIME.name, share, verdict)
        for share, base, change in _matched([seen for r in held if (seen := _by_host(r)).peaks], "extra"):
            if verdict := compare_memory(base, change):
                yield Pair(condition, framework, case, PEAK.name, share, verdict)


def _by_host(r: Record) -> Record:
    """With the peaks of `host.rss` alone: a compiler's plan does not know what is held beside the program, and exact counters
    would make it easy."""
    return r.model_copy(update={"peaks": {name: peak for name, peak in r.peaks.items() if name == "host.rss"}})


def _matched(case_records: list[Record], plant: str) -> Iterator[tuple[float, list[Record], list[Record]]]:
    """What was planted, and the records of both arms."""
    arms: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for r in case_records:
        if r.turns and r.provenance.planted.keys() <= {plant}:
            arms[_group_of(r.turns.block), r.turns.arm].append(r)
    shares = {arm: arm_records[0].provenance.planted.get(plant, 0.0) for arm, arm_records in sorted(arms.items())}
    equal, other = [arm for arm in shares if not shares[arm]], [arm for arm in shares if shares[arm]]
    for one, two in zip(equal[::2], equal[1::2]):
        yield 0.0, arms[one], arms[two]
    for one, two in zip(equal, other):
        yield shares[two], arms[one], arms[two]


def _group_of(block: str) -> str:
    """What the blocks of one group of arms share: `SESSION/study/CASE` of `SESSION/study/CASE/NUMBER.LOT`."""
    return block.rpartition("/")[0]


def rates(all_pairs: Iterable[Pair]) -> Comparison:
    """By condition and what was planted: how many comparisons, and how many were called different, with the exact interval."""
    groups: dict[tuple[str, str, float], list[Pair]] = defaultdict(list)
    for pair in all_pairs:
        groups[pair.condition, pair.quantity, pair.planted].append(pair)
    rows = [row(*key, groups[key]) for key in sorted(groups, key=lambda key: (key[1], key[0], key[2]))]
    return Comparison.of_text(
        "How often verdicts err",
        "Each comparison is one pair of arms over all its blocks. Found: what was planted was called slower, or more memory; "
        f"of equal arms, a false alarm. {CONFIDENCE:.0%} interval: Clopper and Pearson's. Undecided: neither a difference nor "
        "none. Held: by how many intervals what was planted is held.",
        ("quantity", "machine", "planted", "comparisons", "found", "share", "95 % interval", "goal", "undecided", "held"),
        rows,
    )


def row(condition: str, quantity: str, share: float, group: list[Pair]) -> tuple[str, ...]:
    count, total = sum(pair.counts for pair in group), len(group)
    low, high = stats.binomtest(count, total).proportion_ci(CONFIDENCE, method="exact")
    goal = GOALS.get((quantity, share))
    goal_text = "-" if goal is None else f"{'at least' if share else 'at most'} {goal:.0%}"
    undecided = sum(pair.verdict.verdict == UNDECIDED for pair in group)
    return (
        quantity, condition, f"+{share:.0%}" if share else "nothing", str(total), str(count), f"{count / total:.0%}",
        f"{low:.0%} to {high:.0%}", goal_text, str(undecided), f"{sum(pair.covered for pair in group) / total:.0%}",
    )  # fmt: skip


def by_framework(all_pairs: Iterable[Pair]) -> Comparison:
    """The equal arms' times: how wide the intervals are, and how far the ratios stray."""
    groups: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in all_pairs:
        if pair.quantity == TIME.name and not pair.planted:
            groups[pair.condition, pair.framework].append(pair)
    rows = []
    for (condition, framework), group in sorted(groups.items()):
        off = [abs(math.log(pair.verdict.ratio)) for pair in group]
        half = [math.log(pair.verdict.high / pair.verdict.ratio) for pair in group if pair.verdict.high]
        rows.append((
            condition, framework, str(len(group)), f"{median(off):.1%}", f"{max(off):.1%}",
            f"{median(half):.1%}" if half else "-", f"{sum(h <= math.log(1 + WIDE) for h in half) / len(group):.0%}",
            str(min(pair.verdict.blocks for pair in group)),
        ))  # fmt: skip
    caption = "Ratios of step times between equal arms: how far from 1, and the half-width of their intervals."
    head = ("machine", "framework", "comparisons", "off, median", "off, largest", "half-width, median", "within 5 %", "blocks")
    return Comparison.of_text("Step times of equal arms", caption, head, rows)


def of_peaks(all_pairs: Iterable[Pair]) -> Comparison:
    """By framework and what was planted: which ratios of peaks were seen."""
    groups: dict[tuple[str, str, float], list[Pair]] = defaultdict(list)
    for pair in all_pairs:
        if pair.quantity == PEAK.name:
            groups[pair.condition, pair.framework, pair.planted].append(pair)
    rows = []
    for (condition, framework, share), group in sorted(groups.items()):
        ratios = sorted(pair.verdict.ratio for pair in group)
        planted_text = f"+{share:.0%}" if share else "nothing"
        seen = (f"{ratio - 1:+.1%}" for ratio in (ratios[0], median(ratios), ratios[-1]))
        rows.append((condition, framework, planted_text, str(len(group)), str(sum(pair.counts for pair in group)), *seen))
    caption = "Ratios of peaks by host.rss to those of equal processes; found as above."
    head = ("machine", "framework", "planted", "comparisons", "found", "least", "median", "most")
    return Comparison.of_text("Peaks of arms that hold more", caption, head, rows)


def comparisons(folder: Path = DATA) -> list[Comparison]:
    """Return all tables of the records below a folder."""
    all_pairs: list[Pair] = []
    for condition, records in load_records(folder).items():
        all_pairs += pairs(condition, records)
    return [rates(all_pairs), of_peaks(all_pairs), by_framework(all_pairs)]
