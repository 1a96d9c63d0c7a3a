"""The form: a question from lists, the same answer as elsewhere, and a chart to point at."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis import frames, rows
from framebench.analysis.answers import select_comparable
from framebench.analysis.results import Results
from framebench.analysis.searches import Searches
from framebench.devices.catalog import BY_NAME
from framebench.devices.tables import frame as planned_frame
from framebench.publish.site import front
from framebench.publish.site.build import build
from framebench.publish.site.links import get_case_link
from framebench.publish.site.machine import list_machines
from framebench.records import provenance
from framebench.suite.case import Case
from tests.fake_records import repeat_in_blocks
from tests.pages import (
    PHONE_HEIGHT,
    PHONE_WIDTH,
    in_a_browser,
    make_record,
    needs_sphinx,
    write_records,
)
from tests.processes import ROOT
from tests.sample_records import RESULTS
from tests.search_records import make_search

MIB = 2**20
CHECKPOINT = "transformer/torch/train/checkpoint/b4/tiny"
H100 = "h100-80gb"


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Path:
    """Return the first page of a site with a few records and the published predictions."""
    folder = tmp_path_factory.mktemp("front")
    timed = [
        make_record("fp32", 200 * MIB, [1.0, 1.1]),
        make_record("checkpoint", 100 * MIB, [1.5, 1.65]),
        make_record("amp_bf16", 400 * MIB, [0.5, 0.55]),
        make_record("fp32", 300 * MIB, [2.0, 2.1], batch=8),
    ]
    untimed = make_record("checkpoint+accumulate", 80 * MIB, [], first_step_s=None)
    write_records(folder / "results", *repeat_in_blocks(timed), untimed)
    planned = folder / "results" / "planned"
    planned.symlink_to(ROOT / "results" / "planned")
    with pytest.MonkeyPatch.context() as patch:
        # published searches would add what a process keeps to these needs
        patch.setattr(provenance, "PUBLISHED", folder / "unpublished")
        build(Results(folder / "results"), folder / "site", guides=False)
    return folder / "site" / "index.html"


@pytest.fixture
def lab(first, tab) -> Any:
    """Return the page as it is when the reader has chosen the machine."""
    tab.goto("about:blank")
    tab.goto(f"{first.as_uri()}#place=lab")
    return tab


def read_message(tab: Any) -> str:
    return str(tab.locator("#said").inner_text())


def choose_answers(tab: Any, budget: int | None = None, **answers_by_list: str) -> None:
    """Choose from the form's lists, by their names, and type a budget in MiB."""
    for name, value in answers_by_list.items():
        tab.locator(f"select[name={name}]").select_option(value)
    if budget is not None:
        tab.get_by_label("memory budget").fill(str(budget))


def test_a_need_that_is_a_guess_has_the_least_that_may_be_enough():
    case = Case.from_id("transformer/torch/train/fp32/b4/tiny")
    searches = Searches([make_search(case=case, kept=100 * MIB, versions={"torch": "0"})])
    records = [make_record("fp32", 200 * MIB, [1.0]), make_record("checkpoint", 100 * MIB, [1.5])]
    table = rows.order_by_catalog(frames.make_frame(records, searches=searches))

    searched, guessed = front.list_points("lab", select_comparable(table))

    assert (searched["strategy"], searched["needs"]) == ("fp32", 315)
    assert "atLeast" not in searched
    assert (guessed["strategy"], guessed["needs"], guessed["atLeast"]) == ("checkpoint", 210, 105)


def test_a_strategy_that_may_need_less_than_the_least_is_marked():
    """The baseline was seen to keep 100 MiB and checkpoint nothing; accumulate was never searched.

    So what accumulate keeps is a guess, by which it needs more, though its peak is lower.
    """
    searches = []
    for strategy, kept in (("fp32", 100 * MIB), ("checkpoint", 0)):
        case = Case.from_id(f"transformer/torch/train/{strategy}/b4/tiny")
        searches.append(make_search(case=case, kept=kept, versions={"torch": "0"}))
    records = [
        make_record("fp32", 400 * MIB, [1.0]),
        make_record("checkpoint", 100 * MIB, [1.5]),
        make_record("accumulate", 90 * MIB, [1.5]),
    ]
    table = rows.order_by_catalog(frames.make_frame(records, searches=Searches(searches)))

    points = front.list_points("lab", select_comparable(table))

    assert [point["strategy"] for point in points if "mayNeedLess" in point] == ["accumulate"]


@needs_sphinx
@in_a_browser
def test_the_answer_follows_the_budget(lab):
    """A case needs 1.05 times its peak: amp_bf16 420 MiB, fp32 210, checkpoint 105, and
    checkpoint+accumulate, which was not timed, 84.
    """
    assert read_message(lab).startswith(
        "Without a limit, PyTorch with amp_bf16 is the fastest measured: "
    )
    assert read_message(lab).endswith(
        "PyTorch with checkpoint+accumulate needs least, 84 MiB, not timed."
    )
    for budget, answer in (
        (420, "Within 420 MiB, PyTorch with amp_bf16 is the fastest measured: "),
        (419, "Within 419 MiB, PyTorch with fp32 is the fastest measured: "),
        (209, "Within 209 MiB, PyTorch with checkpoint is the fastest measured: "),
        (90, "Within 90 MiB, 1 of 4 measured cases fit. None of them was timed."),
        (7, "Nothing that was measured needs 7 MiB or less."),
    ):
        choose_answers(lab, budget)
        assert read_message(lab).startswith(answer)
    assert not lab.errors


@needs_sphinx
@in_a_browser
def test_a_question_is_kept_in_the_url(lab):
    batch = lab.locator("select[name=batch]")
    assert batch.locator("option").all_inner_texts() == ["4", "8"], "the most strategies first"
    choose_answers(lab, 320, batch="8")
    address = lab.evaluate("location.href")
    lab.goto("about:blank")
    lab.goto(address)
    assert (batch.input_value(), lab.get_by_label("memory budget").input_value()) == ("8", "320")
    assert read_message(lab).startswith("Within 320 MiB, PyTorch with fp32 is the fastest measured")


@needs_sphinx
@in_a_browser
@pytest.mark.parametrize("width", [1280, PHONE_WIDTH])
def test_a_mark_shows_its_numbers_and_links_to_its_case(lab, width):
    lab.set_viewport_size({"width": width, "height": PHONE_HEIGHT})
    answer = lab.locator("#said").bounding_box()
    assert answer["y"] + answer["height"] <= PHONE_HEIGHT, "the answer is seen without scrolling"

    marks = lab.locator("#chart svg path[aria-label^='PyTorch']")
    marks.first.wait_for()
    assert marks.count() == 3, "those that were timed"
    for mark in marks.all():
        box = mark.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width

    mark = lab.locator("#chart svg path[aria-label^='PyTorch, checkpoint: needs 105 MiB']")
    assert "; 50% of what fp32 needs; peak 100 MiB; " in mark.get_attribute("aria-label")
    mark.click()
    lab.wait_for_url(f"**/{get_case_link('lab', CHECKPOINT)}")


@needs_sphinx
@in_a_browser
def test_a_keyboard_reaches_every_case(lab):
    summary = lab.locator("#words summary")
    assert summary.inner_text() == "All 4 strategies in words"
    summary.focus()
    lab.keyboard.press("Enter")
    lab.locator(f"#words a[href='{get_case_link('lab', CHECKPOINT)}']").focus()
    lab.keyboard.press("Enter")
    lab.wait_for_url(f"**/{get_case_link('lab', CHECKPOINT)}")


@needs_sphinx
@in_a_browser
def test_a_device_answers_with_predictions_alone(first, tab):
    tab.goto(first.as_uri())
    assert tab.locator("select[name=place]").input_value() == H100
    choose_answers(
        tab, place=H100, workload="Transformer", size="full", scenario="Training", batch="8"
    )
    memory = f"{BY_NAME[H100].memory_bytes // MIB:,}"

    assert read_message(tab).startswith(f"Within {memory} MiB of one {BY_NAME[H100].title}, ")
    assert "measured" not in read_message(tab)
    assert tab.locator("#source").inner_text().startswith("Predicted, not measured: ")
    assert "tokens/s" not in tab.locator("#rows").inner_text()
    assert "predicted/h100-80gb/" in str(tab.locator("#rows a").first.get_attribute("href"))
    assert not tab.errors


@needs_sphinx
@in_a_browser
def test_a_question_without_a_prediction_gets_the_command(first, tab):
    tab.goto(first.as_uri())
    choose_answers(
        tab, place="b200", workload="Transformer", size="full-1b", scenario="Training", batch="4"
    )
    choose_answers(tab, 9000)

    assert tab.locator("#said code").inner_text() == (
        "framebench advise 'transformer/*/train/*/b4/full-1b' --device b200 --budget 9000MiB"
    )
    assert not tab.locator("#chart").is_visible()
    assert not tab.errors


@needs_sphinx
@in_a_browser
def test_a_typed_size_is_answered_or_gets_the_command(first, tab):
    own = tab.locator("input[name=own]")
    tab.goto(first.as_uri())
    choose_answers(
        tab, place=H100, workload="Transformer", size="full", scenario="Training", batch="8"
    )
    own.fill("2.7b")
    command = f"framebench advise 'transformer/*/train/*/b8/2.7B' --device {H100}"
    assert tab.locator("#said code").inner_text() == command
    assert "own=2.7b" in tab.evaluate("location.href")

    own.fill("1.3 b")
    assert "fit at the upper end of the error. PyTorch needs least with " in read_message(tab), (
        "it is published at batch 1"
    )
    assert tab.locator("select[name=batch]").input_value() == "1"

    own.fill("full")
    assert "predicted cases fit" in read_message(tab), "it names no number of parameters"
    assert "124.5 M parameters" in tab.locator("select[name=size]").inner_text()
    choose_answers(tab, workload="ResNet-50")
    assert not own.is_visible()
    assert not tab.errors


@needs_sphinx
@in_a_browser
def test_without_scripts_the_answer_is_there(first, browser):
    page = browser.new_page(java_script_enabled=False)
    page.goto(first.as_uri())
    assert "checkpoint" in page.locator("#still").inner_text()
    assert not page.locator("#explorer").is_visible()
    page.close()


def test_every_published_prediction_of_a_pinned_release_is_behind_the_form():
    table = planned_frame.load(ROOT / "results")
    is_answered = table["pinned"] & (table["ranks"] == 1) & table["needs_bytes"].notna()

    rows = []
    for group in front.list_predicted_groups(front.load_predictions(ROOT / "results")):
        rows += group["rows"]

    assert len(rows) == is_answered.sum()
    assert is_answered.sum() > 500
    assert len({row["href"] for row in rows}) == len(rows)
    least = [row for row in rows if row["least"]]
    assert least
    for row in least:
        assert row["share"] < 1, "the least of each framework saves memory"


def read_data(results: Path) -> dict[str, Any]:
    """Return what the script holds, by name."""
    folder = Results(results)
    machines = list_machines(folder.records, folder)
    script = front.make_script(machines, front.load_predictions(results))
    data = {}
    for name, value in re.findall(r"^const (\w+) = (.*);$", script, re.M):
        data[name] = json.loads(value)
    return data


def test_a_group_never_mixes_measurements_and_predictions():
    data = read_data(RESULTS)
    kinds = {place["name"]: place["kind"] for place in data["PLACES"]}

    groups = data["GROUPS"] + front.list_predicted_groups(front.load_predictions(ROOT / "results"))
    assert {group["kind"] for group in groups} == {"measured", "predicted"}
    for group in groups:
        assert group["rows"]
        assert group["kind"] == kinds[group["place"]]
        for row in group["rows"]:
            assert ("source" in row) == (group["kind"] == "predicted")
