"""Write the pages of predictions: a page for each device, and a section for each prediction.

Nothing on these pages is measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from framebench.analysis.rendering import format_mib
from framebench.devices.catalog import BY_NAME, DEVICES, Device
from framebench.devices.documents import make_device_tables
from framebench.devices.plans.planned import Planned, find_upper_needs
from framebench.devices.plans.store import read_every
from framebench.devices.tables.errors import tabulate_errors, tabulate_judged_steps
from framebench.devices.tables.table import (
    describe_reserved,
    describe_share,
    tabulate_devices,
    tabulate_parts,
)
from framebench.models.spec import USER_MODEL
from framebench.publish.site.links import (
    get_prediction_link,
    get_prediction_page,
    make_slug,
)
from framebench.publish.site.markup import make_table, render
from framebench.publish.site.source import Page, SourceFolder
from framebench.publish.site.titles import get_title
from framebench.suite.case import Case
from framebench.suite.sequences import group_by

SOURCE_TITLES = {"compiler.plan": "XLA's plan", "allocator.simulated": "simulated step"}
COLUMNS = ("case", "release", "reserved MiB", "needs MiB", "of memory", "source")


def name_release(planned: Planned) -> str:
    """Return the framework's release, such as `jax-0.10.2`."""
    return f"{planned.framework}-{planned.framework_version}"


def write_predictions(source: SourceFolder, results: Path) -> list[str]:
    """Write the pages of all devices, and return the path of the first one, if there is any."""
    predictions_by_device: dict[str, list[Planned]] = defaultdict(list)
    for planned in read_every(results):
        is_of_suite = Case.from_id(planned.case).workload != USER_MODEL
        if planned.device in BY_NAME and is_of_suite:
            predictions_by_device[planned.device].append(planned)
    if not predictions_by_device:
        return []
    page = Page(source, "predicted/index", "Predicted")
    page.add_markdown(
        "What cases need on GPUs and TPUs that nobody ran them on: PyTorch's step is simulated, "
        "JAX's is planned by XLA. Nothing here is measured. "
        "`framebench predict CASE --device NAME` predicts what is missing."
    )
    device_pages = []
    for device in DEVICES:
        if device.name in predictions_by_device:
            predictions = predictions_by_device[device.name]
            device_pages.append(write_device(source, device, predictions, results))
    page.add_contents(device_pages)
    page.add_tables(tabulate_errors(), tabulate_judged_steps(), tabulate_devices())
    return [page.save()]


def write_device(
    source: SourceFolder, device: Device, predictions: Sequence[Planned], results: Path
) -> str:
    """Write a device's page with all its predictions, and the pages of their sections.

    Returns the path of the device's page. A page of sections has the predictions of one workload
    and scenario.
    """
    page = Page(source, f"predicted/{make_slug(device.name)}/index", f"On one {device.title}")
    count = f"{len(predictions):,} predictions, none measured."
    page.add_text(f"{device.gib:,.2f} GiB of memory that a program can have. {count}")
    rows = []
    for planned in predictions:
        link = get_prediction_link(device.name, planned.case, name_release(planned))
        rows.append((page.root + link, planned, describe_numbers(planned, device)))
    page.add_heading("Every prediction")
    page.add_html(render("predictions.html", head=COLUMNS, rows=rows))
    page.add_tables(*make_device_tables(device, predictions, results))
    predictions_by_page = group_by(
        predictions, lambda planned: get_prediction_page(device.name, planned.case)
    )
    section_pages = []
    for path, page_predictions in sorted(predictions_by_page.items()):
        section_pages.append(write_sections(source, path, device, page_predictions))
    page.add_contents(section_pages, is_hidden=True)
    return page.save()


def describe_numbers(planned: Planned, device: Device) -> tuple[str, str, str]:
    """Return reserved and needed MiB, and the share of the device's memory."""
    needs = format_mib(find_upper_needs(planned), ",.0f")
    return describe_reserved(planned), needs, describe_share(planned, device)


def write_sections(
    source: SourceFolder, path: str, device: Device, predictions: Sequence[Planned]
) -> str:
    """Write a page with a section for each of these predictions, and return its path.

    The predictions are all of one workload and scenario.
    """
    case = Case.from_id(predictions[0].case)
    title = f"{get_title(case.workload)}, {get_title(case.scenario).lower()}"
    page = Page(source, path, f"{title}, predicted for one {device.title}")
    for planned in predictions:
        parts = None
        if planned.parts or planned.largest:
            parts = make_table(tabulate_parts(planned, device), page.root, is_sortable=False)
        release = name_release(planned)
        page.add_heading(f"{planned.case}, {release}")
        page.add_html(
            render(
                "prediction.html",
                anchor=make_slug(f"{planned.case}/{release}"),
                planned=planned,
                device=device,
                numbers=describe_numbers(planned, device),
                origin=SOURCE_TITLES.get(planned.source or "", "nothing can tell"),
                parts=parts,
            )
        )
    return page.save()
