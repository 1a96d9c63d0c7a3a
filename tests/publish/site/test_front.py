"""The form: a question from lists, the same answer as elsewhere, and a chart to point at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from framebench.analysis import answers
from framebench.analysis.results import Results
from framebench.devices.catalog import BY_NAME
from framebench.devices.tables import frame as planned_frame
from framebench.publish.site import front
from framebench.publish.site.build import build
from framebench.publish.site.links import get_case_link
from framebench.publish.site.machine import list_machines
from framebench.publish.site.titles import get_title
from framebench.records.record import Record
from tests.fake_records import in_blocks
from tests.pages import (
    EVIL,
    PHONE_WIDTH,
    browser,
    in_a_browser,
    keep,
    made,
    needs_sphinx,
    tab,
)
from tests.processes import ROOT
from tests.sample_records import RESULTS

__all__ = ["browser", "tab"]
MIB = 2**20
CHECKPOINT = "transformer/torch/train/checkpoint/b4/tiny"
H100 = "h100-80gb"


def timed() -> Iterator[Record]:
    yield made("fp32", 200 * MIB, [1.0, 1.1])
    yield made("checkpoint", 100 * MIB, [1.5, 1.65])
    yield made("amp_bf16", 400 * MIB, [0.5, 0.55])
    yield made("fp32", 300 * MIB, [2.0, 2.1], batch=8)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first page of a site with a few records and the published predictions."""
    folder = tmp_path_factory.mktemp("front")
    untimed = made("checkpoint+accumulate", 80 * MIB, [], first_step_s=None)
    evaluated = [made("fp32", peak * MIB, [], first_step_s=None) for peak in (60, 30)]
    names = [f"transformer/torch/eval/{strategy}/b4/tiny" for strategy in ("no_grad", "bf16")]
    others = [r.model_copy(update={"case": name}) for r, name in zip(evaluated, names)]
    keep(folder / "results", iter([*in_blocks(timed()), untimed, *others]))
    planned = folder / "results" / "planned"
    planned.symlink_to(ROOT / "results" / "planned")
    build(Results(folder / "results"), folder / "site", guides=False)
    return folder / "site" / "index.html"


def open_lab(tab: Any, first: Path) -> None:
    """Open the page as it is when the reader has chosen the machine."""
    tab.goto("about:blank")
    tab.goto(f"{first.as_uri()}#place=lab")


def message(tab: Any) -> str:
    return str(tab.locator("#said").inner_text())


def ask(tab: Any, **answers_by_list: str) -> None:
    for name, value in answers_by_list.items():
        tab.locator(f"select[name={name}]").select_option(value)


@needs_sphinx
@in_a_browser
def test_the_answer_follows_the_budget(first: Path, tab: Any) -> None:
    open_lab(tab, first)
    assert message(tab).startswith(
        "Without a limit, PyTorch with amp_bf16 is the fastest measured: "
    )
    assert message(tab).endswith(
        "PyTorch with checkpoint+accumulate needs least, 84 MiB, not timed."
    )
    for budget, strategy in ((420, "amp_bf16"), (419, "fp32"), (209, "checkpoint")):
        tab.get_by_label("memory budget").fill(str(budget))
        assert message(tab).startswith(
            f"Within {budget} MiB, PyTorch with {strategy} is the fastest measured: "
        )
        assert tab.locator("#rows td").nth(1).locator("a").inner_text() == strategy
    tab.get_by_label("memory budget").fill("90")
    assert message(tab).startswith(
        "Within 90 MiB, 1 of 4 measured cases fit. None of them was timed."
    )
    tab.get_by_label("memory budget").fill("7")
    assert message(tab).startswith("Nothing that was measured needs 7 MiB or less.")
    assert not tab.errors


@needs_sphinx
@in_a_browser
def test_a_question_is_kept_in_the_url(first: Path, tab: Any) -> None:
    open_lab(tab, first)
    batch = tab.locator("select[name=batch]")
    assert batch.locator("option").all_inner_texts() == ["4", "8"], "the most strategies first"
    batch.select_option("8")
    tab.get_by_label("memory budget").fill("320")
    address = tab.evaluate("location.href")
    tab.goto("about:blank")
    tab.goto(address)
    assert (batch.input_value(), tab.get_by_label("memory budget").input_value()) == ("8", "320")
    assert message(tab).startswith("Within 320 MiB, PyTorch with fp32 is the fastest measured")


@needs_sphinx
@in_a_browser
@pytest.mark.parametrize("width", [1280, PHONE_WIDTH])
def test_a_mark_shows_its_numbers_and_links_to_its_case(first: Path, tab: Any, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    open_lab(tab, first)
    marks = tab.locator("#chart svg path[aria-label^='PyTorch']")
    marks.first.wait_for()
    boxes = [mark.bounding_box() for mark in marks.all()]
    assert len(boxes) == 3, "those that were timed"
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    mark = tab.locator("#chart svg path[aria-label^='PyTorch, checkpoint: needs 105 MiB']")
    assert "; 50% of what fp32 needs; peak 100 MiB; " in mark.get_attribute("aria-label")
    mark.click()
    tab.wait_for_url(f"**/{get_case_link('lab', CHECKPOINT)}")


@needs_sphinx
@in_a_browser
def test_a_keyboard_reaches_every_case(first: Path, tab: Any) -> None:
    open_lab(tab, first)
    summary = tab.locator("#words summary")
    assert summary.inner_text() == "All 4 strategies in words"
    summary.focus()
    tab.keyboard.press("Enter")
    tab.locator(f"#words a[href='{get_case_link('lab', CHECKPOINT)}']").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/{get_case_link('lab', CHECKPOINT)}")


@needs_sphinx
@in_a_browser
def test_a_device_answers_with_predictions_alone(first: Path, tab: Any) -> None:
    tab.goto(first.as_uri())
    ask(tab, place=H100, workload="Transformer", size="full", scenario="Training", batch="8")
    memory = f"{BY_NAME[H100].memory_bytes // MIB:,}"

    assert message(tab).startswith(f"Within {memory} MiB of one {BY_NAME[H100].title}, ")
    assert "measured" not in message(tab)
    assert tab.locator("#source").inner_text().startswith("Predicted, not measured: ")
    assert "tokens/s" not in tab.locator("#rows").inner_text()
    assert "predicted/h100-80gb/" in str(tab.locator("#rows a").first.get_attribute("href"))
    assert not tab.errors


@needs_sphinx
@in_a_browser
def test_the_first_device_is_one_that_is_predicted(first: Path, tab: Any) -> None:
    tab.goto(first.as_uri())

    assert tab.locator("select[name=place]").input_value() == H100
    assert message(tab).startswith("Within ")


@needs_sphinx
@in_a_browser
def test_a_question_without_a_prediction_gets_the_command(first: Path, tab: Any) -> None:
    tab.goto(first.as_uri())
    ask(tab, place="b200", workload="Transformer", size="full-1b", scenario="Training", batch="4")
    tab.get_by_label("memory budget").fill("9000")

    command = tab.locator("#said code").inner_text()

    assert command == (
        "framebench advise 'transformer/*/train/*/b4/full-1b' --device b200 --budget 9000MiB"
    )
    assert not tab.locator("#chart").is_visible()
    assert not tab.errors


@needs_sphinx
@in_a_browser
def test_without_scripts_the_answer_is_there(first: Path, browser: Any) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(first.as_uri())
    assert "checkpoint" in page.locator("#still").inner_text()
    assert not page.locator("#explorer").is_visible()
    page.close()


def test_the_least_memory_agrees_with_the_answer_command() -> None:
    """Of the committed records, the rows that are marked are those that the command names."""
    results = Results(RESULTS)
    machine = list_machines(results.records, results)[0]
    group: Any = next(front.list_groups(machine))
    titles = machine.shown.assign(
        workload=machine.shown["workload"].map(get_title),
        scenario=machine.shown["scenario"].map(get_title),
    )
    is_asked = pd.Series(True, titles.index)
    for name in ("workload", "scenario", "size"):
        is_asked &= titles[name] == group[name]
    rows = machine.shown[is_asked & (titles["batch"] == int(group["batch"]))]

    least = {}
    for framework, ranked in answers.rank_savings(answers.select_comparable(rows)):
        if ranked:
            least[get_title(framework)] = ranked[0].strategy

    assert {row["framework"]: row["strategy"] for row in group["rows"] if row["least"]} == least


def read_data(results: Path) -> dict[str, Any]:
    """Return what the script holds, by name."""
    folder = Results(results)
    predictions = list(front.list_pinned(results))
    text = front.make_script(list_machines(folder.records, folder), predictions)
    return {
        name: json.loads(value) for name, value in re.findall(r"^const (\w+) = (.*);$", text, re.M)
    }


def test_every_published_prediction_of_a_pinned_release_is_behind_the_form() -> None:
    results = ROOT / "results"
    table = planned_frame.load(results)
    is_answered = table["pinned"] & (table["ranks"] == 1) & table["needs_bytes"].notna()
    published = table[is_answered]

    groups = list(front.list_predicted_groups(front.list_pinned(results)))

    rows = [row for group in groups for row in group["rows"]]  # type: ignore[attr-defined]
    assert len(rows) == len(published) > 500
    links = {row["href"] for row in rows}
    assert len(links) == len(rows)


def test_a_group_never_mixes_what_is_measured_with_what_is_predicted() -> None:
    data = read_data(RESULTS)
    kinds = {place["name"]: place["kind"] for place in data["PLACES"]}

    for group in data["GROUPS"]:
        assert group["kind"] == kinds[group["place"]]
        for row in group["rows"]:
            assert ("source" in row) == (group["kind"] == "predicted")


def test_text_of_records_is_escaped_in_scripts(tmp_path: Path) -> None:
    keep(
        tmp_path / "results",
        iter([made("fp32", MIB, [1.0], where={"versions": {"torch": EVIL}, "command": EVIL})]),
    )

    data = read_data(tmp_path / "results")

    assert data["GROUPS"][0]["rows"][0]["strategy"] == "fp32"
