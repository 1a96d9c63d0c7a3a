"""The front page: a question from lists, the same answer as elsewhere, and a chart to point at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis import answers
from framebench.analysis.results import Results
from framebench.publish.site import front
from framebench.publish.site.build import build
from framebench.publish.site.drawing import ScenarioDrawing
from framebench.publish.site.links import get_case_page
from framebench.publish.site.machine import Machine, list_machines
from framebench.publish.site.titles import get_title
from framebench.records.record import Record
from tests.fake_records import in_blocks
from tests.pages import EVIL, PHONE_WIDTH, browser, in_a_browser, keep, made, tab
from tests.sample_records import RESULTS

__all__ = ["browser", "tab"]
MIB = 2**20
CHECKPOINT = "transformer/torch/train/checkpoint/b4/tiny"


def timed() -> Iterator[Record]:
    yield made("fp32", 200 * MIB, [1.0, 1.1])
    yield made("checkpoint", 100 * MIB, [1.5, 1.65])
    yield made("amp_bf16", 400 * MIB, [0.5, 0.55])
    yield made("fp32", 300 * MIB, [2.0, 2.1], batch=8)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("front")
    untimed = made("checkpoint+accumulate", 80 * MIB, [], first_step_s=None)
    evaluated = [made("fp32", peak * MIB, [], first_step_s=None) for peak in (60, 30)]
    names = [f"transformer/torch/eval/{strategy}/b4/tiny" for strategy in ("no_grad", "bf16")]
    others = [r.model_copy(update={"case": name}) for r, name in zip(evaluated, names)]
    keep(folder / "results", iter([*in_blocks(timed()), untimed, *others]))
    build(Results(folder / "results"), folder / "site")
    return folder / "site" / "index.html"


def message(tab: Any) -> str:
    return str(tab.locator("#said").inner_text())


@in_a_browser
def test_the_answer_follows_the_budget(first: Path, tab: Any) -> None:
    tab.goto(first.as_uri())
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
        assert tab.locator("#chart line.budget").count() == 1
    tab.get_by_label("memory budget").fill("90")
    assert message(tab).startswith(
        "Within 90 MiB, 1 of 4 measured cases fit. None of them was timed."
    )
    assert tab.locator("#chart a.over").count() == 3
    tab.get_by_label("memory budget").fill("7")
    assert message(tab).startswith("Nothing that was measured needs 7 MiB or less.")
    assert not tab.errors


@in_a_browser
def test_a_question_is_kept_in_the_url(first: Path, tab: Any) -> None:
    tab.goto(first.as_uri())
    batch = tab.locator("select[name=batch]")
    assert batch.locator("option").all_inner_texts() == ["4, size tiny", "8, size tiny"], (
        "the one with most strategies first"
    )
    batch.select_option("8, size tiny")
    tab.get_by_label("memory budget").fill("320")
    address = tab.evaluate("location.href")
    tab.goto("about:blank")
    tab.goto(address)
    assert (batch.input_value(), tab.get_by_label("memory budget").input_value()) == (
        "8, size tiny",
        "320",
    )
    assert message(tab).startswith("Within 320 MiB, PyTorch with fp32 is the fastest measured")


@in_a_browser
@pytest.mark.parametrize("width", [1280, PHONE_WIDTH])
def test_a_mark_shows_its_numbers_and_links_to_its_case(first: Path, tab: Any, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(first.as_uri())
    boxes = tab.eval_on_selector_all(
        "#chart a", "all => all.map(a => a.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) == 4
    assert all(box["left"] >= 0 and box["right"] <= width and box["width"] > 5 for box in boxes)
    mark = tab.locator(f"#chart a[href='{get_case_page('lab', CHECKPOINT)}']")
    assert mark.get_attribute("aria-label").startswith(
        "PyTorch, checkpoint: needs 105 MiB; 50% of what fp32 needs; peak 100 MiB; "
    )
    mark.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/{get_case_page('lab', CHECKPOINT)}")


@in_a_browser
def test_without_scripts_the_answer_and_the_pictures_are_there(first: Path, browser: Any) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(first.as_uri())
    assert page.locator("#answer").is_visible()
    assert page.locator(".panel a").count() == 3
    assert not page.locator("#explorer").is_visible()
    page.close()


def test_the_least_memory_agrees_with_the_answer_command() -> None:
    """Of the committed records, the rows that are marked are those that the command names."""
    results = Results(RESULTS)
    machine = list_machines(results.records, results)[0]

    group: Any = next(front.list_groups(machine))

    marked = {row["framework"]: row["strategy"] for row in group["rows"] if row["least"]}
    drawing = find_drawing(machine, group)
    least = {}
    for framework, ranked in answers.rank_savings(answers.select_comparable(drawing.group)):
        if ranked:
            least[framework] = ranked[0].strategy
    assert marked == least
    assert str(drawing.batch) == group["batch"]


def find_drawing(machine: Machine, group: Any) -> ScenarioDrawing:
    """Return the machine's drawing of the same workload and scenario."""
    for drawings in machine.drawings.values():
        for drawing in drawings:
            titles = get_title(drawing.workload), get_title(drawing.scenario)
            if titles == (group["workload"], group["scenario"]):
                return drawing
    raise LookupError(group["workload"])


def test_the_script_has_a_marker_for_each_family() -> None:
    results = Results(RESULTS)
    machine = list_machines(results.records, results)[0]
    script = (Path(front.__file__).parent / "static" / "front.js").read_text()
    markers = re.search(r"const SHAPES = \{(.*?)\};", script, re.S)
    assert markers
    group: Any = next(front.list_groups(machine))
    assert {row["family"] for row in group["rows"]} <= set(re.findall(r'"([a-z ]+)":', markers[1]))


def test_no_link_lies_inside_another_control(first: Path) -> None:
    """A link within a summary or a button is out of reach for a keyboard and for a screen
    reader.
    """
    workload = first.parent / "machines" / "lab" / "transformer.html"
    assert "<summary>Evaluation: " in workload.read_text()
    for path in first.parent.rglob("*.html"):
        inside = re.findall(
            r"<(summary|button|a)\b[^>]*>((?:(?!</\1>).)*)</\1>", path.read_text(), re.S
        )
        assert not [text for _, text in inside if re.search(r"<(a|button|input|select)\b", text)], (
            path
        )


def test_text_of_records_is_escaped_in_scripts(tmp_path: Path) -> None:
    keep(
        tmp_path / "results",
        iter([made("fp32", MIB, [1.0], where={"versions": {"torch": EVIL}, "command": EVIL})]),
    )
    results = Results(tmp_path / "results")
    text = front.make_script(list_machines(results.records, results))
    body = text.split("const GROUPS = ", 1)[1].rstrip(";\n")
    assert json.loads(body)[0]["rows"][0]["strategy"] == "fp32"
