"""Say in sentences what the answer is: the least memory of each framework, and its cost in time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import (
    describe_cost,
    describe_rivals,
    find_rivals,
    rank_savings,
    select_comparable,
    select_with_price,
)
from framebench.analysis.batch_tables import NOTED_CHANGE
from framebench.analysis.needs import format_guessed_needs
from framebench.analysis.results import Results
from framebench.models import spec
from framebench.publish.sentences import backing
from framebench.strategies.registry import BASELINES
from framebench.suite.case import DEFAULT_SIZE

BATCH = re.compile(r"/b\d+[^/]*")  # in the id of a case


# a strategy's needs over its baseline's by batch, by the id of its case without a batch
SharesByBatch = dict[str, dict[int, float]]


@dataclass(frozen=True)
class Sentences:
    """Sentences that a document may have in the place of a table."""

    key: str
    lines: tuple[str, ...]

    def markdown(self) -> str:
        """Return the sentences as a list."""
        return "".join(f"- {line}\n" for line in self.lines)


def describe_results(results: Results) -> list[Sentences]:
    """Return the sentences of each machine that has something to compare.

    The last ones say what backs the numbers of all machines.
    """
    all_sentences = []
    for machine in results.machines:
        all_sentences.append(describe_training(results.table(machine), machine))
    backed = backing.describe_backing(results.records, results.root)
    if backed:
        all_sentences.append(Sentences("what backs the numbers, in short", (backed.short,)))
        all_sentences.append(Sentences("what backs the numbers", backed.detailed))
    return [sentences for sentences in all_sentences if sentences.lines]


def describe_training(table: pd.DataFrame, machine: str) -> Sentences:
    """Return a line for each workload, from rows as `framebench.load` gives them."""
    shares = find_shares_by_batch(table)
    is_shown = (table["scenario"] == "train") & (table["size"] == DEFAULT_SIZE)
    trained = table[is_shown]
    # language models, which most people ask about, come first
    workloads = [spec.load_workload(name) for name in spec.list_workloads()]
    workloads.sort(key=lambda workload: workload.unit != "tokens")
    lines = []
    for workload in workloads:
        group = rows.select_shown(trained[trained["workload"] == workload.name])
        phrases = []
        comparable = select_comparable(group)
        for framework, ranked in rank_savings(comparable):
            framework_rows = comparable[comparable["framework"] == framework]
            phrases.append(describe_least_needs(framework, ranked, framework_rows, shares))
        if phrases:
            batch = rows.find_usual_batch(group)
            lines.append(f"**{workload.title}**, training at batch {batch}. {' '.join(phrases)}")
    return Sentences(f"{machine}: in words", tuple(lines))


def find_shares_by_batch(table: pd.DataFrame) -> SharesByBatch:
    """Return each case's share of the baseline's needs, where it has one at several batches."""
    shares = {}
    usable = table[table["usable"] & table["needs_ratio"].notna()]
    for case, group in usable.groupby(usable["case"].str.replace(BATCH, "", regex=True)):
        if len(group) > 1:
            shares[str(case)] = dict(zip(group["batch"], group["needs_ratio"], strict=True))
    return shares


def describe_least_needs(
    framework: str, ranked: list[Any], framework_rows: pd.DataFrame, shares: SharesByBatch
) -> str:
    """Return a sentence on the strategy of a framework that needs least.

    If that strategy was not timed, the sentence also names the timed strategy that needs least.
    Strategies that may need less are named too (`find_rivals`).

    Args:
        framework: Its proper name.
        ranked: The rows of strategies that save memory, least needs first.
        framework_rows: The rows of all its comparable strategies, with the baseline.
        shares: Of all strategies, from `find_shares_by_batch`.
    """
    baseline = next(rows.iterate_rows(framework_rows[framework_rows["baseline"]]), None)
    least = ranked[0] if ranked else baseline
    rivals = ""
    if least is not None:
        rivals = describe_rivals(find_rivals(framework_rows, least))
    if not ranked:
        sentence = f"{framework}: no strategy saves memory"
        return f"{sentence}, but {rivals}." if rivals else f"{sentence}."
    needs = []
    for row in select_with_price(ranked):
        needs.append(describe_needs(row, shares))
    sentence = f"{framework} needs {', or '.join(needs)}"
    return f"{sentence}; {rivals}." if rivals else f"{sentence}."


def describe_needs(row: Any, shares: SharesByBatch) -> str:
    """Return a strategy's needs, their share of the baseline's, and its cost in time."""
    amount = format_guessed_needs(row.needs_bytes, row.least_needs_bytes)
    share = f"{row.needs_ratio:.0%} of `{BASELINES[row.scenario]}`"
    dependence = describe_dependence(row.needs_ratio, shares.get(BATCH.sub("", row.case), {}))
    return f"{amount} MiB with `{row.strategy}` ({share}, {describe_cost(row)}{dependence})"


def describe_dependence(share: float, shares_by_batch: Mapping[int, float]) -> str:
    """Return the share at the batch where it differs most, if by more than NOTED_CHANGE.

    It is such as `; 61% at batch 16`, or "".
    """
    largest_change = NOTED_CHANGE
    text = ""
    for batch, other_share in shares_by_batch.items():
        if abs(other_share - share) > largest_change:
            largest_change = abs(other_share - share)
            text = f"; {other_share:.0%} at batch {batch}"
    return text
