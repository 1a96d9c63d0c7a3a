"""Which versions and cases are measured: every release with pinned requirements, and a selection that stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from framebench.cli.__main__ import app
from framebench.engine.environments import SetupError
from framebench.versions import command
from framebench.versions import measure as measuring


def test_the_matrix_has_pinned_releases_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.releases, "listed", lambda framework: ["0.9.1", "0.9.2", "0.10.2"])
    assert measuring.matrix("jax") == ["0.9.2", "0.10.2"], "oldest first, by version and not by letter"
    assert measuring.matrix("jax", ["0.10.2", "0.9.2"]) == ["0.9.2", "0.10.2"]
    with pytest.raises(SetupError, match=r"one version to measure, 2.13.0.*framebench versions add torch==VERSION"):
        measuring.matrix("torch", ["2.13.0"])
    with pytest.raises(SetupError, match=r"no release '0\.1' of jax; the nearest: 0\.9\.1"):
        measuring.matrix("jax", ["0.1", "0.9.2"])


@pytest.mark.parametrize(
    ("statuses", "code"), [(["ok", "unsupported", "oom"], 0), (["ok", "timeout"], 1), (["crashed", "wrong"], 1)]
)
def test_failed_cases_fail_the_command(statuses: list[str], code: int, monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    """As in `framebench run`; the session is finished all the same."""
    monkeypatch.setattr(command.environments, "ensure", lambda *_: None)
    monkeypatch.setattr(command.environments, "warm", lambda *_: None)
    monkeypatch.setattr(command.versions, "measure", lambda *_: statuses)
    done = CliRunner().invoke(app, ["versions", "run", "--framework", "jax", "--results", str(results)])
    assert done.exit_code == code, done.output
    assert ("of 2 measurements failed" in done.stderr) == bool(code)
    assert not list(results.glob(".session*"))
