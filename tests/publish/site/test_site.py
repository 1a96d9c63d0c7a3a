"""The site holds every record, harmless whatever a record contains, and all its links lead
somewhere.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.results import Results
from framebench.claims.lines import Line
from framebench.claims.registry import REGISTRY
from framebench.cli.__main__ import COMMANDS
from framebench.devices.catalog import DEVICES
from framebench.publish.site import build as building
from framebench.publish.site.build import build
from framebench.publish.site.claim_pages import draw_lines, group_lines, write_machine_claims
from framebench.publish.site.links import get_case_link, get_case_page, make_slug
from framebench.publish.site.machine import list_machines
from framebench.publish.site.source import SourceFolder
from framebench.publish.site.target import Unbuildable
from framebench.records import store
from tests.accessibility import list_dead_links
from tests.pages import (
    EVIL,
    EVIL_MACHINE,
    INJECTED,
    Page,
    make_all_records,
    make_record,
    needs_sphinx,
    write_records,
)
from tests.processes import ROOT
from tests.record_files import append_lines, list_files, load_fields

LARGEST = 2_000_000  # bytes of a page
# of the theme's menus and scripts, which every page has
OF_THE_THEME = "genindex.html"


def read_main(path: Path) -> str:
    """Return the HTML of what a page says, without the menus around it."""
    text = path.read_text()
    return text[text.index('<article class="bd-article"') : text.index("</article>")]


def read_case(site: Path, machine: str, case: str) -> str:
    """Return the HTML of the section of a case."""
    text = read_main(site / f"{get_case_page(machine, case)}.html")
    begin = text.index(f'id="{make_slug(case)}"')
    end = text.find('class="anchor"', begin)
    return text[begin:] if end < 0 else text[begin:end]


def strip_tags(html: str) -> str:
    """Return the text of HTML."""
    return re.sub(r"<[^>]+>", "", html)


@needs_sphinx
def test_every_link_leads_somewhere_inside_and_no_page_is_too_large(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) >= 40
    assert not list_dead_links(site)
    assert max(page.stat().st_size for page in pages) <= LARGEST


@pytest.mark.parametrize("name", ["form.js", "start.js", "site.css", "user_page.css"])
def test_style_and_script_load_nothing_external(name):
    text = (ROOT / "framebench/publish/site/static" / name).read_text()

    assert not re.search(r"url\(|@import|https?:|fetch\(|\bimport\b.*from|innerHTML", text)


@needs_sphinx
def test_every_case_has_a_section_with_its_record(site):
    for record in make_all_records():
        section = strip_tags(read_case(site, record.provenance.machine, record.case))
        assert f"framebench run {record.case}" in section
        assert record.status in section
        if record.reason and record.reason != EVIL:
            assert record.reason in section
    measured = strip_tags(read_case(site, "lab", next(make_all_records()).case))
    for expected in ("1; 1.1; 0.92", "History", "2026-01-01", "host.rss", "loss_0", "200.00 MiB"):
        assert expected in measured
    crashed = "transformer/torch/train/keep_grads/b4/tiny"
    assert "last words" in read_case(site, "lab", crashed), "the end of the log"
    listed = strip_tags(read_main(site / "machines" / "lab" / "transformer.html"))
    assert "oom: memory ran out" in listed


@needs_sphinx
def test_every_figure_is_shown_with_its_finding(site):
    path = site / "machines" / "lab" / "figures.html"
    shown = {Path(link).name for link in Page(path).links if "/figures/lab/" in link}
    drawn = {file.name for file in (site / "_static" / "figures" / "lab").glob("*.svg")}

    assert shown == drawn
    assert drawn != set()
    pictures = re.findall(r"<img[^>]*>", read_main(path))
    assert len(pictures) >= len(drawn)
    for picture in pictures:
        assert re.search(r'alt="[^"]{10,}"', picture)


@needs_sphinx
def test_every_claim_is_linked_to_its_section_with_its_recommendation(site):
    folder = site / "claims" / "lab"
    main = read_main(folder / "index.html")
    links = re.findall(r'href="(source-[^"#]+)\.html#([^"]+)"', main)

    assert len(set(links)) == len(links) == len(REGISTRY.claims)
    for page, anchor in links:
        text = read_main(folder / f"{page}.html")
        section = text[text.index(f'class="anchor" id="{anchor}"') :].partition("</dl>")[0]
        assert section.count("<dt>recommendation</dt>") == 1, anchor


def make_line(name: str, low: float | None, metric: str = "peak", decides: bool = True) -> Line:
    """Return a measurement of a claim that half of the memory is enough."""
    return Line(
        id=name,
        name=name,
        measurement=name,
        decides=decides,
        verdict="smaller than claimed",
        form="change",
        metric=metric,
        null=1.0,
        value=0.8,
        low=low,
        high=0.8,
        claimed=0.5,
    )


def test_a_chart_has_one_metric_and_marks_the_claim():
    lines = [
        make_line("other", low=0.7, metric="time", decides=False),
        make_line("a", low=0.6),
        make_line("without an interval", low=None),
    ]

    groups = group_lines(lines)

    # metrics with a line that is used for the verdict come first
    of_peak, of_time = groups
    assert [line.name for line in of_peak] == ["a"]
    assert [line.name for line in of_time] == ["other"]
    chart = draw_lines(of_peak)
    assert [bar["name"] for bar in chart["data"]["values"]] == ["a"]
    no_effect, claimed = chart["layer"][-1]["data"]["values"]
    assert (no_effect["at"], claimed["at"]) == (1.0, 0.5)


@needs_sphinx
def test_the_reference_has_commands_functions_columns_and_devices(site):
    pages = {path.stem: path.read_text() for path in (site / "reference").glob("*.html")}

    for name in COMMANDS:
        assert f'framebench</span> <span class="pre">{name}' in pages["commands"]
    assert 'id="framebench.load"' in pages["api"]
    assert 'id="framebench.devices.simulate"' in pages["api"]
    assert "needs_bytes" in pages["columns"]
    assert all(device.name in pages["devices"] for device in DEVICES)
    assert "checkpoint_every_2" in pages["strategies"]


@needs_sphinx
def test_notebooks_are_pages(site):
    pages = {path.stem for path in (site / "notebooks").glob("*.html")}
    notebooks = {path.stem for path in (ROOT / "analysis/notebooks/executed").glob("*.ipynb")}
    assert pages == notebooks | {"index"}


@needs_sphinx
def test_hostile_records_are_escaped(site):
    """The hostile text is shown, on at least three pages, and nothing of it has become HTML."""
    theme = Page(site / OF_THE_THEME)
    hostile = 0
    for path in site.rglob("*.html"):
        page = Page(path)
        if EVIL[:10] in page.text:  # a page may show only its beginning
            hostile += 1
        assert "onerror" not in page.handlers, path
        assert set(page.handlers) <= set(theme.handlers), path
        assert f"<script>window.{INJECTED}" not in path.read_text(), path
    assert hostile >= 3
    drawings = list(site.rglob("*.svg"))
    assert drawings
    for drawing in drawings:
        assert not re.search(r"<script|onerror=\"|<img", drawing.read_text()), drawing
    section = read_case(site, EVIL_MACHINE, "transformer/torch/train/fp32/b4/tiny")
    assert "{{ 7 * 7 }}" in section, "templates in records are not rendered"


@needs_sphinx
def test_a_case_id_with_path_parts_writes_no_page(tmp_path):
    results = tmp_path / "results"
    site = tmp_path / "a" / "site"
    write_records(results, make_record("fp32", 2**20, [1.0, 1.0]))
    (file,) = list_files(results)
    (fields,) = load_fields(file)
    append_lines(file, json.dumps(fields | {"case": "../../../../x/torch/train/fp32/b4/tiny"}))

    with pytest.warns(store.RecordWarning, match=rf"{file.name}:2: "):
        pages = build(Results(results), site, guides=False)

    assert pages
    for page in pages:
        assert page.is_relative_to(site)
    assert list(site.parent.iterdir()) == [site]


ANY_NAMES = st.text(max_size=300) | st.text(alphabet="./aA-_ \\", max_size=12)


@given(ANY_NAMES, ANY_NAMES)
def test_slugs_are_safe_and_distinct(one, other):
    assert re.fullmatch(r"[a-z0-9_-][a-z0-9._-]{0,120}", make_slug(one))
    assert ".." not in make_slug(one)
    assert (make_slug(one) == make_slug(other)) == (one == other)


@pytest.fixture
def lab(tmp_path) -> Results:
    """Return the results of a machine with one record."""
    write_records(tmp_path / "results", make_record("fp32", 2**20, [1.0, 1.0]))
    return Results(tmp_path / "results")


@needs_sphinx
def test_a_site_replaces_the_last_one_and_nothing_else(lab, tmp_path):
    target, precious = tmp_path / "site", tmp_path / "precious"
    build(lab, target, guides=False)
    (target / "old.html").touch()
    precious.mkdir()
    (precious / "file").touch()

    build(lab, target, lab.get_records("lab"), guides=False)
    with pytest.raises(Unbuildable, match="precious"):
        build(lab, precious)

    assert not (target / "old.html").exists()
    assert [p.name for p in (target / "machines").iterdir()] == ["lab"]
    assert (precious / "file").exists()


def test_without_records_there_is_no_site(tmp_path):
    with pytest.raises(Unbuildable, match="measure first"):
        build(Results(tmp_path / "nothing"), tmp_path / "site")


def test_missing_sphinx_is_reported_with_a_hint(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "PACKAGES", ("sphinx_of_nobody",))

    with pytest.raises(Unbuildable, match=r"sphinx_of_nobody.*pip install 'framebench\[site\]'"):
        build(lab, tmp_path / "site")

    assert not (tmp_path / "site").exists()


@needs_sphinx
def test_a_warning_of_sphinx_ends_the_build_with_its_text(tmp_path):
    (tmp_path / "source" / "assets").mkdir(parents=True)
    (tmp_path / "source" / "index.md").write_text("# Title\n\n[nowhere](gone.md)\n")

    with pytest.raises(Unbuildable, match=r"gone\.md"):
        building.run_sphinx(tmp_path / "source", tmp_path / "site")


def test_a_record_without_a_section_is_named_without_a_link(tmp_path):
    """A case over ranks is in no table, so that it has no section."""
    single, over_ranks = (
        "transformer/torch/train/fp32/b4/cpu",
        "transformer/torch/train/ddp/b4x2/cpu",
    )
    record = make_record("fp32", 100 * 2**20, [])
    records = [record.model_copy(update={"case": name}) for name in (single, over_ranks)]
    write_records(tmp_path / "results", *records)
    results = Results(tmp_path / "results")
    (machine,) = list_machines(results.records, results)

    write_machine_claims(SourceFolder(tmp_path / "source"), machine)

    html = "".join(file.read_text() for file in (tmp_path / "source").rglob("*.html"))
    assert get_case_link("lab", single) in html
    assert html.count("torch-1.jsonl:") >= 2
    assert get_case_link("lab", over_ranks) not in html
