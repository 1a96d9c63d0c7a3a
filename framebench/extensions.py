"""Features: folders below `framebench/features`, which the rest of framebench does not know by name.

A feature's `__init__.py` holds `FEATURE`: what it adds, by the names in `HOOKS`. It is found by looking into the folder, so
that deleting a feature's folder removes it. No module outside a feature imports it; a test deletes each in turn.
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
    "commands": "a module that adds its commands to `framebench` when it is imported",
    "report": "(records, results) -> comparisons of each machine, beside those of its strategies and frameworks",
    "documents": "(results) -> further tables that a document or a page may ask for",
    "figures": "(results, machines) -> (name, function that draws, rows) of each figure; of the first machine that has any",
    "pages": "(machine of the site) -> further pages of it, each a Page",
    "workload": "() -> the workload `own`, which is a user's model",
    "measure_over_ranks": "(case, environment, run): measure a case that several processes share",
    "predict_rank": "(selector, ranks, as_json): print what one rank of a case over ranks needs",
    "predict_on_device": "(selectors, device's name, results, as_json, again): print what each case needs on a device not here",
    "explain_on_device": "(case, device's name, results, as_json): print what its peak on a device not here is made of",
    "planned_for": "(cases or selectors, device's name, results, say, version) -> predictions, made now unless there",
    "advise_over_ranks": "(workload, frameworks, scenario, batch, size, ranks, budget, as_json) -> whether none fits, printed",
    "run_on_slurm": "(what `framebench run` is asked for, cases, results, settings) -> each record's status",
    "causes": "(results folder) -> (case, base, change) -> why a peak changed between two versions, or None",
    "largest_batch": "(case, budget, environment, ...) -> the search for the largest batch within a budget",
    "build_site": "(results, folder, records) -> the pages of these records",
    "page_of_model": "(folder, tables, sentences, figure) -> the page of a user's model",
}


class Page(NamedTuple):
    """A page of a machine on the site. `context` is asked for when the page is written."""

    name: str  # of its file, without the ending
    title: str
    template: str  # below `framebench/features`
    context: Callable[[], dict[str, Any]]


class NoSuchHook(KeyError):
    """A feature adds something that nothing asks for; the message lists what can be added."""


@dataclass(frozen=True)
class Feature:
    """One folder's `FEATURE`. `adds`: by hook, `module:function` or `module`, relative to the feature's package."""

    summary: str
    adds: Mapping[str, str] = field(default_factory=dict)

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


def of_framework(feature: str, part: str, framework: str) -> Any:
    """A feature's module for one framework, imported now: `<framework>_<part>.py` in its folder."""
    return importlib.import_module(f"framebench.features.{feature}.{framework}_{part}")


def one(hook: str) -> Any | None:
    """The same where one feature at most has an answer; None if none of them does."""
    return next(every(hook), None)
