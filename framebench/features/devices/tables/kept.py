"""How many predictions are kept, and how many of them older code has made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from framebench.analysis.comparison import Comparison
from framebench.features.devices.catalog import DEVICES, find
from framebench.features.devices.plans.fingerprint import fingerprint
from framebench.features.devices.plans.planned import Planned
from framebench.models import spec
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
        f"{older.total()} of {count.total()} were made by older code of framebench, or with other figures of the device. "
        "Such a prediction is made again when `framebench predict CASES --device NAME` asks for it."
    )
    rows = tuple((*place, str(count[place]), str(older[place])) for place in order)
    return Comparison.of_text(title, caption, ("device", "release", "cases", "by older code"), rows, left=2)


def _place(planned: Planned) -> tuple[str, str]:
    return planned.device, f"{planned.framework} {planned.framework_version}"


def current(planned: Planned) -> bool:
    """Whether these sources would be answered with it; not if they do not know the case any more."""
    try:
        return planned.origin.code == fingerprint(Case.of(planned.case), find(planned.device), planned.framework_version)
    except (ValueError, KeyError):
        return False
