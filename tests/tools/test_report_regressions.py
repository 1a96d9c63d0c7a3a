"""Each new regression has one issue, which is updated from week to week; `gh` is played by a
script.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from framebench.records import store
from tests.fake_records import provenance, record
from tests.processes import COMMAND, ROOT, run_process
from tests.repositories import run_git

ROW = {
    "case": "transformer/jax/train/fp32/b4/cpu",
    "base": "jax==0.10.2",
    "change": "jax==0.11.0",
    "quantity": "peak memory",
    "unit": "bytes",
    "instrument": "compiler.plan",
    "base_value": 100 * 2**20,
    "change_value": 118 * 2**20,
    "ratio": 1.18,
    "low": None,
    "high": None,
}
TITLE = "jax==0.11.0: peak memory of transformer/jax/train/fp32/b4/cpu"
FAKE_GH = """\
#!{python}
import json, os, sys
with open(os.environ["GH_LOG"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1:3] == ["issue", "list"]:
    print(os.environ["GH_OPEN"])
"""


def run_report(
    folder: Path, new: list[dict[str, object]] | None, open_issues: list[dict[str, object]]
) -> list[list[str]]:
    """Run the tool on a verdict with these new regressions, and return the commands that `gh` was
    given. None stands for a command that ended before its verdict.
    """
    gh = folder / "gh"
    gh.write_text(FAKE_GH.format(python=sys.executable))
    gh.chmod(0o755)
    log = folder / "log"
    log.touch()
    verdict = {"framework": "jax", "pinned": "0.10.2", "newest": "0.11.0", "new_regressions": new}
    file = folder / "newest.json"
    file.write_text("" if new is None else json.dumps([verdict]))
    variables = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "GH_LOG": str(log),
        "GH_OPEN": json.dumps(open_issues),
    }
    command = [sys.executable, "-m", "tools.report_regressions", str(file), "--no-bisect"]
    run_process(command, **variables)
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_new_regression_opens_an_issue(tmp_path):
    *_, create = run_report(tmp_path, [ROW], [])
    assert create[:4] == ["issue", "create", "--title", TITLE]
    body = create[create.index("--body") + 1]
    for part in ("+18.0%", "jax==0.10.2: 100.00 MiB", "jax==0.11.0: 118.00 MiB", "compiler.plan"):
        assert part in body


def test_a_regression_with_an_open_issue_is_a_comment_there(tmp_path):
    open_issues = [{"number": 7, "title": TITLE}, {"number": 8, "title": "another"}]
    *_, last = run_report(tmp_path, [ROW], open_issues)
    assert last[:3] == ["issue", "comment", "7"]


def test_the_branch_with_the_records_keeps_those_of_every_week(tmp_path):
    remote, clone = tmp_path / "remote.git", tmp_path / "clone"
    run_git(tmp_path, "init", "--quiet", "--bare", str(remote))
    run_git(tmp_path, "clone", "--quiet", str(remote), str(clone))
    (clone / "code").write_text("x = 1\n")
    run_git(clone, "add", "code")
    run_git(clone, "commit", "--quiet", "--message", "Begin")
    run_git(clone, "push", "--quiet", "origin", "HEAD:main")
    for week in ("1", "2", "2"):  # the third time there is nothing new
        out = tmp_path / f"out{week}"
        if not out.exists():
            measured = record(provenance=provenance(session=week))
            store.append(measured, store.find_file(out, "m", "torch-1"))
        (out / "calibration").mkdir(exist_ok=True)
        (out / "calibration" / "m.json").write_text(week)
        command = [ROOT / "tools/keep_series.sh", out, "weekly-records"]
        run_process(command, clone, FRAMEBENCH=shlex.join(COMMAND))
    run_git(clone, "fetch", "--quiet", "origin", "weekly-records")
    assert run_git(clone, "ls-tree", "-r", "--name-only", "FETCH_HEAD").split() == [
        "calibration/m.json",
        "records/m/torch-1.jsonl",
    ]
    lines = run_git(clone, "show", "FETCH_HEAD:records/m/torch-1.jsonl").splitlines()
    assert [json.loads(line)["provenance"]["session"] for line in lines] == ["1", "2"]
    assert run_git(clone, "rev-list", "--count", "FETCH_HEAD") == "2"
