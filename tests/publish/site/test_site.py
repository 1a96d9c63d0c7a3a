"""The site holds every record, harmless whatever a record contains, and opens from a file in a real
browser.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis import frames
from framebench.analysis.results import Results
from framebench.claims.registry import REGISTRY
from framebench.publish.site import asv
from framebench.publish.site.build import Unbuildable, build
from framebench.publish.site.headlines import make_headlines
from framebench.publish.site.links import get_case_page, make_anchors, make_slug
from framebench.publish.site.machine import list_machines
from framebench.records import provenance as origin
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.result import StrategyEffect
from tests import fake_records
from tests.accessibility import dead_links
from tests.fake_records import in_blocks
from tests.pages import EVIL, EVIL_MACHINE, Page, everything, keep, made
from tests.processes import ROOT
from tests.record_files import list_files, load_fields, plant
from tests.sample_records import RESULTS


def test_every_link_leads_somewhere_inside(site: Path) -> None:
    pages = [Page(path) for path in site.rglob("*.html")]
    assert len(pages) >= 8
    assert all(len(set(page.ids)) == len(page.ids) for page in pages)
    assert sum(len(page.links) for page in pages) > 100
    assert not dead_links(site)


@pytest.mark.parametrize(
    "link",
    ["gone.html", "second.html#gone", "../elsewhere.html", "//elsewhere.invalid/x.js"],
)
def test_a_dead_link_is_found(link: str, tmp_path: Path) -> None:
    (tmp_path / "outside.html").write_text("<p>")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "second.html").write_text("<p id=here>")
    (tmp_path / "site" / "index.html").write_text(
        f"<a id=top href='second.html#here'><a href='#top'><img src='{link}'>"
    )
    assert dead_links(tmp_path / "site") == [f"index.html: {link}"]


def test_a_claim_names_the_record_of_a_case_that_has_no_page_without_a_link(tmp_path: Path) -> None:
    """A case over ranks is in no table, so that it has no page."""
    names = ("transformer/torch/train/fp32/b4/cpu", "transformer/torch/train/ddp/b4x2/cpu")
    keep(
        tmp_path,
        iter([made("fp32", 100 * 2**20, []).model_copy(update={"case": name}) for name in names]),
    )
    results = Results(tmp_path)
    (machine,) = list_machines(results.records, results)
    assert set(machine.page_rows) == {names[0]}
    (page,) = [page for page in machine.more_pages if page.name == "claims/b11"]
    assert {case for _, case in page.context()["records"]} == {"", names[0]}


def test_every_image_has_an_alternative_text(site: Path) -> None:
    """A text of its own for each picture, and each drawing in a page has a name for those who do
    not see it.
    """
    pictures = [
        tag for path in site.rglob("*.html") for tag in re.findall(r"<img[^>]*>", path.read_text())
    ]
    assert pictures
    assert all(re.search(r'alt="[^"]{10,}"', tag) for tag in pictures)
    drawings = [
        tag for path in site.rglob("*.html") for tag in re.findall(r"<svg[^>]*>", path.read_text())
    ]
    assert all("aria-label=" in tag or "hidden" in tag for tag in drawings)


def test_style_and_script_load_nothing_external() -> None:
    for file in (ROOT / "framebench/publish/site/static").iterdir():
        assert not re.search(r"url\(|@import|https?:|fetch\(|import\b.*from", file.read_text()), (
            file
        )


def test_every_case_has_a_page_with_its_samples(site: Path) -> None:
    found = list(everything())
    for r in found:
        page = Page(site / get_case_page(r.provenance.machine, r.case))
        assert r.case in page.text.replace("\n", "")
        assert f"framebench run {r.case}" in page.text
        assert r.status in page.text
        if r.reason:
            assert r.reason in page.text
    text = Page(site / get_case_page("lab", found[0].case)).text
    for expected in (
        "1,000.00; 1,100.00; 920.00",
        "History",
        "2026-01-01",
        "2026-01-02",
        "200.00",
        "host.rss",
        "loss_0",
        "blocks",
    ):
        assert expected in text
    assert (
        "last words"
        in Page(site / get_case_page("lab", "transformer/torch/train/keep_grads/b4/tiny")).text
    )


def test_the_summary_has_the_strategy_that_needs_least_and_the_fastest(site: Path) -> None:
    text = (site / "machines" / "lab" / "index.html").read_text()
    (row,) = [
        line
        for line in re.findall(r"<tr>.*?</tr>", text, re.S)
        if "<td>PyTorch</td>" in line and ">4<" in line
    ]
    cells = re.sub(r"<[^>]+>", " ", row).split()
    text = " ".join(cells)
    assert text.startswith("Transformer 4 PyTorch checkpoint ")
    assert "0.50 1.50 (1.50 to 1.50) amp_bf16" in text
    assert "amp_bf16 0.55 (0.55 to 0.55)" in text
    assert text.endswith("1,050 host.rss")


def headline(*found: Record) -> list[str]:
    (comparison,) = make_headlines(frames.make_frame(found))
    return [c for c in comparison.rows[0] if c.startswith("none")]


def test_differences_within_the_noise_are_none() -> None:
    """Half a per cent less memory is none, nor is a ratio of times that may be chance; an unproven
    effect is left out.
    """
    base, close = made("fp32", 1000, [1.0, 1.2]), made("checkpoint", 995, [0.9, 1.1])
    unseen = made("amp_bf16", 100, [0.1, 0.1], effect=StrategyEffect(proven=False, evidence={}))
    shaky = [
        r.model_copy(update={"step_s": [s * (1 + number) for s in r.step_s]})
        for number, r in enumerate(in_blocks([close]))
    ]
    assert headline(*in_blocks([base]), *shaky, *in_blocks([unseen])) == [
        "none less",
        "none shorter",
    ]
    assert headline(*in_blocks([base, close, unseen])) == ["none less"], (
        "the same difference in every block"
    )


def test_cases_without_a_common_block_are_never_the_fastest() -> None:
    assert headline(made("fp32", 1000, [1.0]), made("amp_bf16", 500, [0.1])) == ["none shorter"]


def test_every_figure_is_shown_with_its_finding(site: Path) -> None:
    lab = site / "machines" / "lab"
    page = Page(lab / "figures.html")

    shown = {link for link in page.links if link.endswith(".svg")}
    drawn = {f"figures/{file.name}" for file in lab.glob("figures/*.svg")}
    assert drawn
    assert shown == drawn
    assert "Memory and speed against the baseline: Transformer, training" in page.text


CLAIM_LINK = re.compile(r'href="(claims/[a-dr]\d+(?:-[a-z]+)?\.html)"')  # ids such as D1


def test_every_claim_is_linked_once_to_a_page_with_its_recommendation(site: Path) -> None:
    lab = site / "machines" / "lab"
    links = []
    for name in ("claims", "reports"):
        links += CLAIM_LINK.findall((lab / f"{name}.html").read_text())

    assert len(links) == len(set(links)) == len(REGISTRY.claims)
    for link in links:
        assert (lab / link).read_text().count("<dt>recommendation</dt>") == 1, link


def test_failed_cases_are_listed_with_their_reason(site: Path) -> None:
    text = Page(site / "machines" / "lab" / "transformer.html").text
    assert "torch accumulate: oom: memory ran out" in text
    assert "torch keep_grads: crashed: signal 11" in text


def test_hostile_records_are_escaped(site: Path) -> None:
    hostile = 0
    for path in site.rglob("*.html"):
        page = Page(path)
        hostile += EVIL[:10] in page.text
        assert page.tags.count("script") == (3 if path == site / "index.html" else 1), path
        assert not page.handlers, path
        assert page.tags.count("img") == (
            0 if path.name != "figures.html" else len(list(path.parent.glob("figures/*.svg")))
        ), path
    assert hostile >= 4
    for drawing in site.rglob("*.svg"):
        assert not re.search(r"<script|onerror=\"|<img", drawing.read_text()), drawing
    assert (
        "{{ 7 * 7 }}"
        in Page(site / get_case_page(EVIL_MACHINE, "transformer/torch/train/fp32/b4/tiny")).text
    )


def test_a_case_id_with_path_parts_writes_no_page(tmp_path: Path) -> None:
    keep(tmp_path / "results", iter([made("fp32", 2**20, [1.0, 1.0])]))
    (file,) = list_files(tmp_path / "results")
    (fields,) = load_fields(file)
    plant(file, json.dumps(fields | {"case": "../../../../x/torch/train/fp32/b4/tiny"}))
    with pytest.warns(store.RecordWarning, match=rf"{file.name}:2: "):
        pages = build(Results(tmp_path / "results"), tmp_path / "a" / "site")
    assert all(page.is_relative_to(tmp_path / "a" / "site") for page in pages)
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["site"]


NAMES = st.text(max_size=300) | st.text(alphabet="./aA-_ \\", max_size=12)


@given(NAMES, NAMES)
def test_slugs_are_safe_and_distinct(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-z0-9_-][a-z0-9._-]{0,120}", make_slug(one))
    assert ".." not in make_slug(one)
    assert (make_slug(one) == make_slug(other)) == (one == other)


def test_anchors_of_a_page_are_distinct() -> None:
    assert len(set(make_anchors(["a", "a", "a/b", "a.b", "A"]))) == 5


def test_a_folder_without_a_site_is_never_overwritten(tmp_path: Path) -> None:
    elsewhere = made("fp32", 2**20, [1.0, 1.0], where={"machine": "elsewhere"})
    keep(tmp_path / "results", iter([made("fp32", 2**20, [1.0, 1.0]), elsewhere]))
    target, results = tmp_path / "site", Results(tmp_path / "results")
    build(results, target)
    (target / "old.html").touch()
    build(results, target, results.get_records("lab"))
    assert not (target / "old.html").exists()
    assert [p.name for p in (target / "machines").iterdir()] == ["lab"]
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    with pytest.raises(Unbuildable, match="precious"):
        build(Results(tmp_path / "results"), tmp_path / "precious")
    with pytest.raises(Unbuildable, match="measure first"):
        build(Results(tmp_path / "nothing"), target)
    assert (target / "index.html").exists(), "a failed build leaves the last one"


@pytest.mark.skipif(
    origin.find_commit() is None,
    reason="asv needs the history of the repository, and there is no git here",
)
def test_asv_publishes_without_its_page(tmp_path: Path) -> None:
    asv.publish_histories(copy_histories(tmp_path / "results"), tmp_path / "asv")
    found = asv.read_benchmarks(tmp_path / "asv")
    assert {p.name for p in (tmp_path / "asv").iterdir()} == set(asv.PUBLISHED)
    names = {b.name for b in found}
    assert "transformer.TransformerTorchTrain.track_peak_memory" in names
    (peak,) = [b for b in found if b.name == "transformer.TransformerTorchTrain.track_peak_memory"]
    stored = {
        v
        for file in (tmp_path / "asv" / "graphs" / "branch-HEAD").rglob(f"{peak.name}.json")
        for v in numbers(file)
    }
    assert {value for s in peak.series for _, value in s.points} == stored


def test_releases_are_a_page_of_their_own(tmp_path: Path) -> None:
    records = []
    for version, peak in (("2.12.1", 100), ("2.13.0", 130)):
        record = fake_records.made("fp32", peak * 2**20, 1.0)
        records.append(
            record.model_copy(
                update={"provenance": fake_records.provenance(versions={"torch": version})}
            )
        )
    (peak,) = [
        b
        for b in asv.read_release_benchmarks(records, [])
        if b.name == "transformer.TransformerTorchTrainTiny.track_peak_memory"
    ]
    (series,) = peak.series
    assert (series.parameters, series.where) == ("strategy fp32, batch 4", "m")
    assert series.points == (("torch-2.12.1", 100.0), ("torch-2.13.0", 130.0))
    assert asv.read_release_benchmarks(records[:1], []) == []


def test_asv_publishes_only_with_two_commits(tmp_path: Path) -> None:
    for name in (
        "one/0123-env.json",
        "one/0123-other.json",
        "one/machine.json",
        "two/4567-env.json",
    ):
        (tmp_path / "asv" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "asv" / name).write_text("{}")
    assert not asv.has_several_commits(tmp_path)
    (tmp_path / "asv" / "two" / "89ab-env.json").write_text("{}")
    assert asv.has_several_commits(tmp_path)


def copy_histories(results: Path) -> Path:
    """A results folder with what asv keeps of one machine."""
    shutil.copytree(RESULTS / "asv", results / "asv")
    return results


def numbers(file: Path) -> set[float]:
    return {
        value for _, values in json.loads(file.read_text()) for value in values if value is not None
    }
