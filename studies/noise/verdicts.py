"""How often do verdicts err? Comparisons of equal variants, and of variants with a planted
difference.

In each block several equal processes of a case run next to processes whose steps are longer by a
known share; of memory, processes that hold a known share more. They are judged as `framebench
compare` judges two cases.

The rule was fixed before anything was measured. A verdict is that of
`framebench.analysis.statistics.verdict` on one pair of variants over all of its blocks, moderated
by the machine's other pairs. *Found* is a planted difference that is called slower, or more memory.
A *false alarm* is a pair of equal variants that is called different, either way. Undecided is
neither. Equal variants are paired so that no two pairs of them share a process.
"""

from __future__ import annotations

import gzip
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from scipy import stats

from framebench.analysis.blocks import Blocks
from framebench.analysis.rendering import Table
from framebench.analysis.reports.verdicts import Verdict, compare_memory, compare_times
from framebench.analysis.statistics import CONFIDENCE, PEAK, TIME, UNDECIDED, WIDE_INTERVAL
from framebench.records import store
from framebench.records.record import Record
from studies.noise.plan import MEMORY_GROUP

DATA = Path(__file__).parent / "data"
# the share that is to be found, by what was planted; of equal variants the share of false alarms
# that may be
GOALS = {
    (TIME.name, 0.0): 0.05,
    (TIME.name, 0.05): 0.60,
    (TIME.name, 0.10): 0.90,
    (PEAK.name, 0.0): 0.05,
    (PEAK.name, 0.02): 1.0,
}
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Pair:
    """Two variants that were compared."""

    condition: str  # of the machine, such as quiet
    framework: str
    case: str
    quantity: str
    # the share by which the second variant's steps are longer, or its peak larger; 0 of equal
    # variants
    planted: float
    verdict: Verdict

    @property
    def is_found(self) -> bool:
        """Whether a planted difference was found; of equal variants, whether there was a false
        alarm.
        """
        if self.planted:
            return self.verdict.verdict in (TIME.more, PEAK.more)
        return self.verdict.verdict in (TIME.more, TIME.less, PEAK.more, PEAK.less)

    @property
    def is_covered(self) -> bool:
        """Whether the interval holds what was planted."""
        low = self.verdict.low or 0.0
        high = self.verdict.high or math.inf
        return low <= 1 + self.planted <= high


@dataclass(frozen=True)
class MatchedVariants:
    """The records of two variants of a case, and the share that was planted in the second one."""

    planted: float
    base: list[Record]
    change: list[Record]


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


def compare_variants(condition: str, records: Iterable[Record]) -> list[Pair]:
    """Return every comparison of a condition: of times, and of the peaks of variants that hold
    more.

    Of equal variants the first two are compared, the next two, and so on; each planted variant with
    an equal variant of its own.
    """
    good = [r for r in records if r.status == "ok" and r.turns]
    blocks = Blocks(good)
    pairs = []
    for case in sorted({r.case for r in good}):
        of_case = [r for r in good if r.case == case]
        framework = case.split("/")[1]
        of_memory_half = [r for r in of_case if r.turns and f"/{MEMORY_GROUP}/" in r.turns.block]
        of_time_half = [r for r in of_case if r.timed and r not in of_memory_half]
        for variants in match_variants(of_time_half, "spin"):
            verdict = compare_times(variants.base, variants.change, blocks)
            if verdict:
                pairs.append(Pair(condition, framework, case, TIME.name, variants.planted, verdict))
        by_host = [keep_host_peak(r) for r in of_memory_half]
        for variants in match_variants([r for r in by_host if r.peaks], "extra"):
            verdict = compare_memory(variants.base, variants.change)
            if verdict:
                pairs.append(Pair(condition, framework, case, PEAK.name, variants.planted, verdict))
    return pairs


def keep_host_peak(record: Record) -> Record:
    """Return the record with its peak by `host.rss` alone.

    A compiler's plan does not know what is held next to the program, and exact counters would make
    it easy.
    """
    peaks = {name: peak for name, peak in record.peaks.items() if name == "host.rss"}
    return record.model_copy(update={"peaks": peaks})


def match_variants(records: list[Record], plant: str) -> list[MatchedVariants]:
    """Pair the variants of one case. `plant`: what was planted, `spin` or `extra`."""
    variants: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for r in records:
        if r.turns and r.provenance.planted.keys() <= {plant}:
            # SESSION/study/CASE of SESSION/study/CASE/NUMBER.LOT
            group = r.turns.block.rpartition("/")[0]
            variants[group, r.turns.arm].append(r)
    equal, planted = [], []
    for _, variant in sorted(variants.items()):
        share = variant[0].provenance.planted.get(plant, 0.0)
        if share:
            planted.append((share, variant))
        else:
            equal.append(variant)
    matched = [MatchedVariants(0.0, base, change) for base, change in zip(equal[::2], equal[1::2])]
    matched += [
        MatchedVariants(share, base, change) for base, (share, change) in zip(equal, planted)
    ]
    return matched


def group_pairs(pairs: Iterable[tuple[Key, Pair]]) -> list[tuple[Key, list[Pair]]]:
    """Return the pairs of each key, in the keys' order."""
    groups: dict[Key, list[Pair]] = defaultdict(list)
    for key, pair in pairs:
        groups[key].append(pair)
    return sorted(groups.items())  # type: ignore[type-var]


def show_share(planted: float) -> str:
    """Return what was planted as tables print it."""
    return f"+{planted:.0%}" if planted else "nothing"


def show_rates(pairs: Iterable[Pair]) -> Table:
    """Count, by condition and what was planted, how many comparisons were called different."""
    groups = group_pairs(((p.quantity, p.condition, p.planted), p) for p in pairs)
    rows = [
        make_rate_row(condition, quantity, planted, group)
        for (quantity, condition, planted), group in groups
    ]
    return Table.of_text(
        "How often verdicts err",
        "Each comparison is one pair of variants over all its blocks. Found: what was planted was "
        f"called slower, or more memory; of equal variants, a false alarm. {CONFIDENCE:.0%} "
        "interval: Clopper and Pearson's. Undecided: neither a difference nor none. Held: by how "
        "many intervals what was planted is held.",
        (
            "quantity",
            "machine",
            "planted",
            "comparisons",
            "found",
            "share",
            "95 % interval",
            "goal",
            "undecided",
            "held",
        ),
        rows,
    )


def make_rate_row(
    condition: str, quantity: str, planted: float, group: list[Pair]
) -> tuple[str, ...]:
    """Return the cells of one condition and planted share, with the exact interval of the share
    that was found.
    """
    total = len(group)
    found = sum(p.is_found for p in group)
    undecided = sum(p.verdict.verdict == UNDECIDED for p in group)
    covered = sum(p.is_covered for p in group)
    low, high = stats.binomtest(found, total).proportion_ci(CONFIDENCE, method="exact")
    counts = str(total), str(found), f"{found / total:.0%}", f"{low:.0%} to {high:.0%}"
    return (
        quantity,
        condition,
        show_share(planted),
        *counts,
        show_goal(quantity, planted),
        str(undecided),
        f"{covered / total:.0%}",
    )


def show_goal(quantity: str, planted: float) -> str:
    """Return the share of comparisons that is to be found, or of equal variants may be."""
    goal = GOALS.get((quantity, planted))
    if goal is None:
        return "-"
    return f"at least {goal:.0%}" if planted else f"at most {goal:.0%}"


def show_equal_times(pairs: Iterable[Pair]) -> Table:
    """Show how wide the intervals of equal variants' times are, and how far the ratios stray."""
    equal = [p for p in pairs if p.quantity == TIME.name and not p.planted]
    rows = []
    for (condition, framework), group in group_pairs(
        ((p.condition, p.framework), p) for p in equal
    ):
        errors = [abs(math.log(p.verdict.ratio)) for p in group]
        half_widths = [math.log(p.verdict.high / p.verdict.ratio) for p in group if p.verdict.high]
        narrow = sum(width <= math.log(1 + WIDE_INTERVAL) for width in half_widths)
        middle = f"{median(half_widths):.1%}" if half_widths else "-"
        blocks = min(p.verdict.blocks for p in group)
        off = f"{median(errors):.1%}", f"{max(errors):.1%}"
        rows.append(
            (
                condition,
                framework,
                str(len(group)),
                *off,
                middle,
                f"{narrow / len(group):.0%}",
                str(blocks),
            )
        )
    caption = (
        "Ratios of step times between equal variants: how far from 1, and the half-width of "
        "their intervals."
    )
    head = (
        "machine",
        "framework",
        "comparisons",
        "off, median",
        "off, largest",
        "half-width, median",
        "within 5 %",
        "blocks",
    )
    return Table.of_text("Step times of equal variants", caption, head, rows)


def show_peaks(pairs: Iterable[Pair]) -> Table:
    """Show the ratios of peaks that were seen, by framework and what was planted."""
    of_peaks = [p for p in pairs if p.quantity == PEAK.name]
    rows = []
    for (condition, framework, planted), group in group_pairs(
        ((p.condition, p.framework, p.planted), p) for p in of_peaks
    ):
        ratios = [p.verdict.ratio for p in group]
        found = sum(p.is_found for p in group)
        seen = [f"{ratio - 1:+.1%}" for ratio in (min(ratios), median(ratios), max(ratios))]
        rows.append((condition, framework, show_share(planted), str(len(group)), str(found), *seen))
    caption = "Ratios of peaks by host.rss to those of equal processes; found as above."
    head = ("machine", "framework", "planted", "comparisons", "found", "least", "median", "most")
    return Table.of_text("Peaks of variants that hold more", caption, head, rows)


def comparisons(folder: Path = DATA) -> list[Table]:
    """Return all tables of the records below a folder."""
    pairs: list[Pair] = []
    for condition, records in load_records(folder).items():
        pairs += compare_variants(condition, records)
    return [show_rates(pairs), show_peaks(pairs), show_equal_times(pairs)]
