"""The program in README does what README says, with the published records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from tests.processes import ROOT


def test_the_plot_in_the_readme_is_six_lines_and_draws_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(list(filter(None, code.splitlines()))) == 6
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    made: dict[str, Any] = {}
    exec(code, made)
    df, drawn = made["df"], {axes.get_title(): axes.lines for axes in plt.gcf().axes}
    assert set(df["framework"]) == {"torch", "jax", "jittor"}
    assert set(drawn) == {f"workload = {workload}" for workload in df["workload"]}
    for workload, rows in df.groupby("workload"):
        points = {point for line in drawn[f"workload = {workload}"] for point in zip(line.get_xdata(), line.get_ydata())}
        assert points == set(zip(rows["batch"], rows["host_rss_bytes"] / 2**20))
    assert (tmp_path / "peaks.png").read_bytes().startswith(b"\x89PNG")
