"""The largest batch that fits in three cards' memory, among those that were planned: a table for each workload and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from framebench.analysis.comparison import Comparison, mib
from framebench.devices.catalog import Device, find
from framebench.devices.fit.fitting import Offer, context
from framebench.devices.plans.planned import Planned, code_of, workspaces_of
from framebench.records.pins import pinned_version
from framebench.strategies.registry import names
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

CARDS = {"24 GB": "l4-24gb", "40 GB": "a100-40gb", "80 GB": "h100-80gb"}  # whose memory the columns have
FEWEST = 3  # batches of a strategy that make a row
HEAD = ("framework", "strategy", "batches planned", *CARDS)
Tried = dict[int, Planned]  # by batch


def tables(predictions: Sequence[Planned], device: Device, errors: Mapping[str, float]) -> Iterator[Comparison]:
    """Of the pinned releases. `errors`: by framework, the share that predictions may be off by."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str], Tried]] = {}
    for planned in predictions:
        case = Case.of(planned.case)
        if planned.device == device.name and planned.framework_version == pinned_version(case.framework) and case.ranks == 1:
            group = groups.setdefault((case.workload, case.scenario, case.size), {})
            if planned.outcome in ("planned", "refused"):
                group.setdefault((case.framework, case.strategy), {})[case.batch] = planned
    for (workload, scenario, size), group in sorted(groups.items()):
        known = names(scenario)
        several = {of: tried for of, tried in group.items() if len(tried) >= FEWEST and of[1] in known}
        order = sorted(several, key=lambda of: (FRAMEWORKS.index(of[0]), known.index(of[1])))
        if order:
            told = [one for of in order for one in several[of].values()]
            code = f"{workspaces_of(told)} {code_of(one.origin.commit for one in told)}"
            rows = tuple((*of, _listed(several[of]), *_cells(several[of], device, errors[of[0]])) for of in order)
            yield _table(f"{workload} {scenario}, size {size}", rows, device, errors, code)


def _table(
    what: str, rows: tuple[tuple[str, ...], ...], device: Device, errors: Mapping[str, float], code: str
) -> Comparison:  # fmt: skip
    memory = ", ".join(f"{mib(find(card).memory_bytes)} MiB" for card in CARDS.values())
    off = ", ".join(f"{errors[framework]:.1%} in {framework}" for framework in FRAMEWORKS if framework in errors)
    least, most = (mib(size) for size in context(device))
    caption = (
        f"Predicted, not measured. The largest of the batches planned that fits for certain in the memory that such cards "
        f"leave a program ({memory}), with the kernels of one {device.title}. The answer allows for a CUDA context of up to "
        f"{most} MiB ({least} at the least), and for predictions that are off by {off}. '... or more': no larger one was "
        f"planned. {code}"
    )
    return Comparison.of_text(f"Largest batch that fits: {what}, as on one {device.title}", caption, HEAD, rows, left=3)


def _listed(tried: Tried) -> str:
    return ", ".join(map(str, sorted(tried)))


def _cells(tried: Tried, device: Device, error: float) -> Iterator[str]:
    for card in CARDS.values():
        budget = min(find(card).memory_bytes, device.memory_bytes)
        fitting = [batch for batch, one in tried.items() if Offer(Case.of(one.case), one, device, error, budget).fits]
        largest = max(fitting, default=None)
        if largest is None:
            yield f"below {min(tried)}"
        else:
            yield f"{largest}" if largest < max(tried) else f"{largest} or more"
