"""The tables that documents show of how often the suite errs."""

from __future__ import annotations

from framebench.analysis.comparison import Comparison
from framebench.analysis.results import Results
from framebench.features.study import faults, machines, mutants, repeatability, study, verified, widths


def documents(results: Results) -> list[Comparison]:
    """From the study's own records, and from all others."""
    return [
        *study.comparisons(results.root / "study"),
        repeatability.comparison(results.records),
        widths.comparison(results.records),
        *machines.comparisons(results.records, results.machines),
        verified.comparison(results.records),
        *faults.comparisons(results.root / "study/faults.json"),
        *mutants.comparisons(results.root / "study/mutants.json"),
    ]
