"""Everything that the records say, as tables: what `framebench report` prints and the documents show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framebench.analysis.reports.documents import Generated

from framebench.analysis import frames, predict, tables
from framebench.analysis.comparison import Comparison
from framebench.analysis.reports import breakdown, columns, generation, ground_truth, in_words, support, tolerances, verified
from framebench.analysis.results import Results
from framebench.analysis.selection import of_one_version, unlimited
from framebench.features.claims import show as claims
from framebench.features.cluster import table as cluster
from framebench.features.explain import against
from framebench.features.explain import table as explained
from framebench.features.explain.record import Explanation
from framebench.features.ranks import sharding_tables as sharding
from framebench.features.ranks import table as ranks
from framebench.features.study import machines, study, widths
from framebench.features.study import repeatability as sittings
from framebench.features.versions import bisected
from framebench.features.versions import table as versions
from framebench.records.record import Record

if TYPE_CHECKING:
    import pandas as pd


def report_of(table: pd.DataFrame) -> list[Comparison]:
    """Every comparison that the rows of strategies in use give; of one version of each framework."""
    table = tables.used(table)
    ours = [*tables.strategies(table), *tables.frameworks(table), *breakdown.comparisons(table), *predict.comparisons(table)]
    return [*ours, *ground_truth.comparisons(table)]


def of_records(found: Sequence[Record], known: Sequence[Explanation] = ()) -> list[Comparison]:
    """The same of these records, the strategies only for claims, and the frameworks' versions against each other, with causes
    from the steps that are explained."""
    table = frames.frame(of_one_version(unlimited(found)))
    single = [r for r in found if r.parsed.ranks == 1]
    return [*report_of(table), *tables.claim_arms(table), *ranks.comparisons(found), *versions.comparisons(single, known)]


def generated(results: Results) -> list[Generated]:
    """Everything that a document may ask for, of every machine."""
    return [*for_documents(results), *in_words.every(results)]


def for_documents(results: Results) -> list[Comparison]:
    """The tables among them."""
    known = explained.kept(results.root)
    changes = [against.table(*pair) for pair in explained.of_two_versions(known)]
    changes += [bisected.table(found) for found in bisected.kept(results.root)]
    accounts = [make(found) for found in explained.newest(known) for make in (explained.by_kind, explained.by_layer)]
    rest = [*claims.tables(results), columns.comparison(), tolerances.comparison(), verified.comparison(results.records)]
    rest += [
        *study.comparisons(results.root / "study"),
        sittings.comparison(results.records),
        widths.comparison(results.records),
        *machines.comparisons(results.records, results.machines),
        generation.comparison(results.records),
    ]
    rest += [*cluster.comparisons(results.records)]
    return [
        *of_records(results.records, known),
        *support.every_table(),
        *sharding.comparisons(results.root),
        *accounts,
        *changes,
        *rest,
    ]
