"""A table of how many predictions are cached, and how many of them are of an older version of the planners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from framebench.analysis.comparison import Comparison
from framebench.devices.catalog import DEVICES, find
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.version import is_current
from framebench.models import spec
from framebench.records.record import case_of
from framebench.suite.case import Case


def kept(predictions: Sequence[Planned], title: str = "Predictions kept") -> Comparison | None:
    """By device and release; None where nothing is kept."""
    of_suite = [p for p in predictions if Case.of(p.case).workload != spec.OWN]  # a user's file is planned each time
    count = Counter(map(_place, of_suite))
    older = Counter(_place(p) for p in of_suite if not current(p))
    order = sorted(count, key=lambda place: ([device.name for device in DEVICES].index(place[0]), place[1]))
    if not order:
        return None
    caption = (
        f"{older.total()} of {count.total()} were made by an older version of the planners. "
        "Such a prediction is made again when `framebench predict CASES --device NAME` asks for it."
    )
    rows = tuple((*place, str(count[place]), str(older[place])) for place in order)
    return Comparison.of_text(title, caption, ("device", "release", "cases", "older"), rows, left=2)


def _place(planned: Planned) -> tuple[str, str]:
    return planned.device, f"{planned.framework} {planned.framework_version}"


def current(planned: Planned) -> bool:
    """Return whether `predict` would reuse the prediction: not if the case or the device is gone."""
    try:
        find(planned.device)
        case = case_of(planned.case)
    except (ValueError, KeyError):
        return False
    return case.known and is_current(planned.origin.code)
