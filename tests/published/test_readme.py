"""Test what README says against the published records, and the program of docs/data.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import framebench
from framebench.models.spec import confirmed_names
from framebench.suite.profiles import profile
from tests.processes import ROOT

README = (ROOT / "README.md").read_text()
(SHOWN,) = re.findall(r"table: (.+): in words", README)
BLOCKS = 5


def test_every_time_of_the_quick_profile_has_five_blocks_on_the_machine_that_is_shown() -> None:
    df = framebench.load(results=ROOT / "results", machine=SHOWN).set_index("case")
    quick = df.loc[[case.id for case in profile("quick") if case.workload in confirmed_names()]]
    assert set(quick.loc[quick["status"] != "ok", "status"]) <= {"unsupported", "wrong"}
    measured = quick.loc[quick["status"] == "ok", "blocks"]
    assert len(measured) > 60
    assert (few := measured[measured < BLOCKS]).empty, few


def test_what_readme_calls_least_is_least_where_more_strategies_were_measured() -> None:
    """The shown machine has the times. It has fewer strategies, and none of the others may need less."""
    machines = {machine: framebench.load(results=ROOT / "results", machine=machine) for machine in framebench.machines()[:2]}
    assert SHOWN in machines
    least = {}
    for machine, df in machines.items():
        same = df[df.usable & df.same_mathematics & (df["scenario"] == "train") & (df["size"] == "cpu")]
        for (workload, framework), rows in same.groupby(["workload", "framework"]):
            usual = rows[rows["batch"] == {"resnet50": 8}.get(workload, 4)]
            least.setdefault((workload, framework), {})[machine] = usual.loc[usual["shared_bytes"].idxmin(), "strategy"]
    assert len(least) == 9
    assert [place for place, found in least.items() if len(set(found.values())) != 1 or len(found) != 2] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To files that exist, and to headings that they have."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+://", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}, target


def test_the_plot_of_the_page_about_the_data_draws_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), re.S)
    (code,) = (one for one in found if "relplot" in one)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAMEBENCH_MACHINE", SHOWN)  # else it draws what this machine has measured, if it has
    plt.close("all")
    made: dict[str, Any] = {}
    exec(code, made)
    df, drawn = made["df"], {axes.get_title(): axes.lines for axes in plt.gcf().axes}
    assert set(df["framework"]) == {"torch", "jax", "jittor"}
    assert set(drawn) == {f"workload = {workload}" for workload in df["workload"]}
    for workload, rows in df.groupby("workload"):
        points = {point for line in drawn[f"workload = {workload}"] for point in zip(line.get_xdata(), line.get_ydata())}
        assert points == set(zip(rows["batch"], rows["host_rss_bytes"] / 2**20))
