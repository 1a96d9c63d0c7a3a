"""Features: folders below `framebench/features`, which the rest of framebench does not know by name.

A feature's `__init__.py` holds `FEATURE`: what it adds, by the names in `HOOKS`. It is found by looking into the folder. No
import statement outside a feature's folder names it, but commands and features call others by hooks (`one`, `every`).

A copy without a feature's folder works: its commands, tables and pages are gone, a command that needs its hook ends with a
sentence, and records of its strategies cannot be read. A test deletes each folder in turn.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "features"
# What a feature may add, and how it is called. A module's name alone means that importing it is enough.
HOOKS = {
    "tables": "(rows) -> comparisons of them, which stand behind a workload's page on the site too",
    "report": "(records, results) -> comparisons of each machine, beside those of its strategies and frameworks",
    "documents": "(results) -> further tables that a document or a page may ask for",
    "words": "(results) -> sentences that a document may have in the place of a table",
    "questions": "(rows of one machine) -> (name, function that draws, rows) of each figure",
    "figures": "(results, machines) -> (name, function that draws, rows) of each figure; of the first machine that has any",
    "pages": "(machine of the site) -> further pages of it, each a Page",
    "case_over_ranks": "(case id) -> the case with any batch, over any number of ranks",
    "measure_over_ranks": "(case, environment, run): measure a case that several processes share",
    "predict_rank": "(selector, ranks, as_json): print what one rank of a case over ranks needs",
    "predict_on_device": "(selectors, device's name, results, as_json, again): print what each case needs on a device not here",
    "explain_on_device": "(case, device's name, results, as_json): print what its peak on a device not here is made of",
    "planned_rows": "(results folder) -> what was predicted for devices that are not here, as a DataFrame",
    "report_on_device": "(device's name, results) -> tables of what was predicted for it",
    "releases_on_device": "(selectors, device's name, releases as jax==0.9.2, results, say) -> a table of plans, made now",
    "planned_for": "(cases or selectors, device's name, results, say, release) -> predictions, made now unless there",
    "kept_plans": "(results folder, device's name) -> by case what is kept of predictions: it, its file, what it may be off by",
    "advise_over_ranks": "(workload, frameworks, scenario, batch, size, ranks, budget, as_json) -> whether none fits, printed",
    "advise_on_device": "(parts of a selector, device's name, budget, results, as_json) -> whether none fits, printed",
    "fit_on_device": "(cases, why others are left out, device's name, budget, results, as_json, environment) -> as before",
    "run_on_slurm": "(what `framebench run` is asked for, cases, results, settings) -> each record's status",
    "causes": "(results folder) -> (case, base, change) -> why a peak changed between two versions, or None",
    "largest_batch": "(case, budget, environment, ...) -> the search for the largest batch within a budget",
    "evaluator": "(environment, options) -> (case, samples, budget) -> the evaluation; batches are halved when memory runs out",
    "run_notebooks": "(names, results, machine, folder or None): execute notebooks on the machine's records, and save them",
    "build_site": "(results, folder, records) -> the pages of these records",
    "own_model": "(file, scenario, strategies, batch, env, results) -> a context in which workers know a user's file: cases, "
    "environment, results",
    "own_shapes": "(file, scenario, strategies, batch, env) -> the same, where nothing is run: cases, why others are left "
    "out, environment",
    "fits_within": "(case, budget, environment) -> a probe of this batch under an enforced limit",
    "page_of_model": "(folder, tables, sentences, figure) -> the page of a user's model",
}


class Page(NamedTuple):
    """A page of a machine on the site. `context` is asked for when the page is written; the front page shows the sentences of
    `news` with a link to it."""

    name: str  # of its file, without the ending
    title: str  # in the machine's menu; empty where another page leads to it
    template: str  # below `framebench/features`
    context: Callable[[], dict[str, Any]]
    news: tuple[str, ...] = ()


class NoSuchHook(KeyError):
    """A feature adds something that nothing asks for; the message lists what can be added."""


@dataclass(frozen=True)
class Feature:
    """One folder's `FEATURE`. Modules are relative to the feature's package.

    `adds`: by hook, `module:function` or `module`. `workers`: what a framework's environment runs as a process of its own
    . `records`: by folder or file below a results folder, `module:class` of what lies there.
    """

    summary: str
    adds: Mapping[str, str] = field(default_factory=dict)
    workers: tuple[str, ...] = ()
    records: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.adds) - set(HOOKS)):
            raise NoSuchHook(f"no hook {', '.join(unknown)}; a feature may add: {', '.join(HOOKS)}")


@cache
def features() -> dict[str, Feature]:
    """All that are there, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]) if module.ispkg)
    return {name: importlib.import_module(f"framebench.features.{name}").FEATURE for name in names}


def every(hook: str) -> Iterator[Any]:
    """What each feature adds under this hook, imported now: a function, or a module where none was named."""
    for name, feature in features().items():
        if target := feature.adds.get(hook):
            module, _, function = target.partition(":")
            feature_module = importlib.import_module(f"framebench.features.{name}.{module}")
            yield getattr(feature_module, function) if function else feature_module


def one(hook: str) -> Any | None:
    """The same where one feature at most has an answer; None if none of them does."""
    return next(every(hook), None)
