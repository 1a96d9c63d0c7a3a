"""asv's history of framework releases: made from records, published and compared by the real
asv.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import date
from html import unescape
from pathlib import Path

import pytest

from framebench.analysis.statistics import PEAK
from framebench.records import store
from framebench.records.pins import find_pinned_versions
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.versions import asv_history as history
from framebench.versions.accepted import AcceptedRegression
from framebench.versions.asv_history import PlannedPeak, Regression, TaggedRelease
from framebench.versions.judge import STATUS
from tests import fake_records
from tests.discovery import list_benchmarks
from tests.processes import ROOT, framebench, run_process
from tests.record_files import add_records
from tests.repositories import run_git

MIB = 2**20
RELEASES = ["0.8.0", "0.8.1", "0.9.0", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2"]
FP32 = Case.from_id("transformer/jax/train/fp32/b4/cpu")
CHECKPOINT = Case.from_id("transformer/jax/train/checkpoint/b4/cpu")
FP32_PEAK = "transformer.TransformerJaxTrain.track_peak_memory('fp32', 4)"


@pytest.fixture
def config(tmp_path) -> Path:
    """Return the project's configuration, in a folder of its own."""
    file = tmp_path / "asv.releases.json"
    file.write_text((ROOT / "asv.releases.json").read_text())
    return file


@pytest.fixture(autouse=True)
def discovered_once(monkeypatch) -> None:
    monkeypatch.setattr(
        history, "list_benchmarks", lambda config: json.loads(list_benchmarks("quick"))
    )


def make_measured(
    case: Case, version: str, mib: float, machine: str = "m", seconds: float = 0.5
) -> Record:
    origin = {"versions": {case.framework: version}, "machine": machine}
    peak = int(mib * MIB)
    return fake_records.make_measured(
        case.strategy, peak, seconds, case.framework, size=case.size, origin=origin
    )


def run_asv(config: Path, *arguments: str) -> str:
    """Run asv, and return what it prints."""
    command = [sys.executable, "-m", "asv", "--config", config, *arguments]
    return run_process(command, PYTHONPATH=str(ROOT), HOME=str(config.parent)).stdout


def publish_history(
    config: Path, records: Sequence[Record], plans: Sequence[PlannedPeak] = ()
) -> tuple[list[Regression], list[str]]:
    """Return the regressions of a published history, and those that asv's page lists."""
    history.write(records, config, plans)
    regressions = history.find_regressions(records, plans, accepted=[])
    history.publish(config, regressions)
    folder = config.parent / ".asv/releases/html"
    page = json.loads((folder / "regressions.json").read_text())
    on_page = [regression[0] for regression in page["regressions"]]
    assert sorted(list_feed(folder / "regressions.xml")) == sorted(on_page)
    return regressions, on_page


def list_feed(file: Path) -> list[str]:
    """Return the benchmarks of a feed's entries, whose titles are a change and the benchmark."""
    entries = re.findall(r"<title[^>]*>\S+% (.*?)</title>", file.read_text())
    return [unescape(benchmark) for benchmark in entries]


@pytest.mark.parametrize("rise", [1.02, 1.05, 1.3])
def test_a_rise_of_a_peak_between_two_releases_is_a_regression(config, rise):
    records = []
    risen = RELEASES[RELEASES.index("0.9.2") :]
    for version in RELEASES:
        factor = rise if version in risen else 1.0
        records.append(make_measured(FP32, version, 100.0 * factor))
        records.append(make_measured(CHECKPOINT, version, 50.0))

    (found,), on_page = publish_history(config, records)

    assert (found.case, found.before, found.after) == (FP32, "jax-0.9.1", "jax-0.9.2")
    assert found.change == pytest.approx(rise - 1, abs=0.001)
    assert on_page == [FP32_PEAK]


def test_what_compare_calls_no_regression_is_none_on_the_page(config):
    """asv itself would list a step time that rises by 20 %. But with one process of each release
    `versions compare` has no verdict on times.
    """
    records = [
        make_measured(FP32, "0.9.2", 100.0, seconds=0.5),
        make_measured(FP32, "0.10.2", 100.0, seconds=0.6),
    ]
    regressions, on_page = publish_history(config, records)
    assert regressions == []
    assert on_page == []


def test_a_rise_that_two_instruments_read_is_one_regression(config):
    records = []
    for version, mib in (("0.9.2", 100.0), ("0.10.2", 130.0)):
        record = make_measured(FP32, version, mib)
        peaks = {"host.rss": int(mib * MIB), "compiler.plan": int(mib * MIB)}
        records.append(record.model_copy(update={"peaks": peaks}))

    regressions, on_page = publish_history(config, records)

    assert [regression.metric for regression in regressions] == ["track_own_counter_peak"]
    assert on_page == [FP32_PEAK.replace("track_peak_memory", "track_own_counter_peak")]


def test_an_accepted_regression_has_the_reason_why_it_is_accepted():
    records = [make_measured(FP32, "0.9.2", 100.0), make_measured(FP32, "0.10.2", 130.0)]
    entry = AcceptedRegression(
        release="jax==0.10.2", cases="*", quantity=PEAK.name, at_most=1.31, reason="reported"
    )
    (found,) = history.find_regressions(records, plans=[], accepted=[entry])
    assert found.accepted_reason == "reported"


def test_a_case_that_newly_fails_is_one_status_regression():
    """Of five processes of each release, as fewer may all fail by chance."""
    records = []
    for _ in range(5):
        right = make_measured(FP32, "0.9.2", 100.0)
        wrong = make_measured(FP32, "0.10.2", 100.0)
        wrong = wrong.model_copy(update={"status": "wrong", "reason": "loss"})
        records += [right, wrong]
    (found,) = history.find_regressions(records, plans=[], accepted=[])
    assert found.quantity == STATUS
    assert found.change is None


def test_the_command_counts_releases_and_prints_regressions(config, tmp_path):
    """0.9.0, 0.9.0.1 and 0.9.1 lie between the two that were measured."""
    for version, mib in (("0.8.3", 100.0), ("0.9.2", 105.0)):
        add_records(tmp_path, make_measured(FP32, version, mib))
    done = framebench("versions", "publish", "--config", config, results=tmp_path, code=0)
    lines = done.stderr.splitlines()
    assert "5 releases from jax-0.8.3 to jax-0.9.2, 2 of them with results" in lines
    assert f"jax-0.8.3 to jax-0.9.2, on m: +5.0% peak memory of {FP32.id}" in lines


def test_the_command_fails_if_no_record_can_be_read(config, tmp_path):
    file = store.find_file(tmp_path, "m", "jax-0.9.2")
    file.parent.mkdir(parents=True)
    file.write_text('{"case": 1}\n')
    done = framebench("versions", "publish", "--config", config, results=tmp_path, code=1)
    assert f"no record under {tmp_path} can be read" in done.stderr


def test_publishing_from_a_git_hook_writes_nothing_to_the_hooks_repository(
    config, tmp_path, monkeypatch
):
    """git sets these variables for its hooks, and every git that they start obeys them."""
    users = tmp_path / "users"
    users.mkdir()
    run_git(users, "init", "-q")
    before = sorted(users.rglob("*"))
    monkeypatch.setenv("GIT_DIR", str(users / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(users / ".git" / "index"))
    records = [make_measured(FP32, version, 100.0) for version in RELEASES]
    publish_history(config, records)
    assert sorted(users.rglob("*")) == before


def test_the_compare_command_of_the_docs_works_on_the_history(config):
    """The published history has several machines, so the command has to name one."""
    records = []
    for machine in ("xeon-2core", "zen4-2core"):
        records.append(make_measured(FP32, "0.9.2", 100.0, machine))
        records.append(make_measured(FP32, "0.10.2", 130.0, machine))
    history.write(records, config)
    page = (ROOT / "docs/asv.md").read_text()
    (command,) = re.findall(r"^asv --config asv.releases.json (compare .*)$", page, re.MULTILINE)
    printed = " ".join(run_asv(config, *command.split()).split())
    assert f"| + | 100.0MiB | 130.0MiB | 1.3 | {FP32_PEAK} |" in printed


def test_asvs_index_has_one_environment_all_releases_and_the_measured_parameters(config):
    history.write([make_measured(FP32, version, 100.0) for version in RELEASES], config)
    run_asv(config, "publish", "--no-pull")
    index = json.loads((config.parent / ".asv/releases/html/index.json").read_text())

    # asv draws a graph for each environment: no graph would show a rise from one to another
    assert len(index["graph_param_list"]) == 1
    # requirements/releases.csv has these too: they are listed without results
    not_measured = ["0.8.2", "0.8.3", "0.9.0.1"]
    versions = [*RELEASES, *not_measured]
    assert set(index["tags"]) == {f"jax-{version}" for version in versions}
    benchmark = index["benchmarks"]["transformer.TransformerJaxTrain.track_peak_memory"]
    strategies, batches = benchmark["params"]
    assert strategies == ["'fp32'"]
    assert batches == ["4"]


def test_a_build_counts_as_its_release_and_an_invalid_version_is_left_out():
    records = [make_measured(FP32, version, 100.0) for version in ("0.9.2", "0.10.2+cpu", "a b")]
    assert set(history.collect(records)["version"]) == {"0.9.2", "0.10.2"}


def test_planned_peaks_of_a_device_are_published_as_a_machine(config):
    case = Case.from_id("transformer/jax/train/fp32/b8/full")
    plans = [
        PlannedPeak("h100-80gb", case, "0.9.1", peak_bytes=100 * MIB),
        PlannedPeak("h100-80gb", case, "0.9.2", peak_bytes=100 * MIB),
        PlannedPeak("h100-80gb", case, "0.10.0", peak_bytes=130 * MIB),
    ]
    (found,), on_page = publish_history(config, records=[], plans=plans)
    assert (found.case, found.machine) == (case, "h100-80gb-planned")
    assert on_page == ["transformer.TransformerJaxTrainFull.track_own_counter_peak('fp32', 8)"]
    assert (found.before, found.after) == ("jax-0.9.2", "jax-0.10.0")


def test_planned_peaks_are_read_from_the_published_results():
    plans = history.read_plans(ROOT / "results")
    case = Case.from_id("transformer/jax/train/fp32/b8/full")
    versions = {plan.version for plan in plans if (plan.device, plan.case) == ("h100-80gb", case)}
    assert {"0.9.2", "0.10.2"} <= versions


def test_machines_and_frameworks_with_one_release_have_no_history(config):
    torch = Case.from_id("transformer/torch/train/fp32/b4/cpu")
    records = [
        make_measured(FP32, "0.9.2", 100.0, "old"),
        make_measured(FP32, "0.10.2", 100.0),
        make_measured(torch, "2.13.0", 90.0),
    ]
    with pytest.raises(history.NoHistoryError, match="framebench versions run"):
        history.write(records, config)


def test_the_same_records_give_the_same_commits(config):
    """asv names a file of results by the hash of its commit."""
    records = [make_measured(FP32, "0.9.2", 100.0), make_measured(FP32, "0.10.2", 130.0)]
    folder = config.parent / ".asv/releases/results/m"
    history.write(records, config)
    first_names = {file.name for file in folder.iterdir()}
    history.write(records, config)
    assert {file.name for file in folder.iterdir()} == first_names


def test_releases_are_in_the_order_of_their_versions_with_days_that_never_fall():
    """0.8.3, a fix of 0.8, appeared after 0.9.0. The day of 0.9.9 is not known."""
    placed = history.date_releases("jax", {"0.8.2", "0.9.9"})
    versions = [release.version for release in placed]
    days = [release.released for release in placed]
    assert versions == ["0.8.2", "0.8.3", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.9.9"]
    assert days == sorted(days)
    assert placed[0] == TaggedRelease(date(2025, 12, 18), "jax", "0.8.2")


def test_releases_between_measured_ones_are_marked_as_not_measured():
    placed = history.date_releases("jax", {"0.8.2", "0.9.9"})
    assert [release.version for release in placed if release.has_results] == ["0.8.2", "0.9.9"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xb2\x00", id="no text"),
        pytest.param(b"{", id="no JSON"),
        pytest.param(b"5", id="no object"),
        pytest.param(b'{"version": 1}', id="no repo"),
        pytest.param(b'{"version": 1, "repo": 5}', id="repo is a number"),
    ],
)
def test_a_file_that_is_no_configuration_of_asv_is_refused(content, tmp_path):
    file = tmp_path / "asv.conf.json"
    file.write_bytes(content)
    with pytest.raises(history.NoHistoryError, match="is no configuration of asv"):
        history.load_config(file)


def test_the_day_of_every_pinned_release_is_known():
    releases = history.RELEASES.read_text()
    for framework in FRAMEWORKS:
        for version in find_pinned_versions(framework):
            assert f"\n{framework},{version}," in releases


def test_regressions_are_sorted_by_release_and_then_largest_first():
    """Sorted as text, 0.10.2 would come before 0.9.0."""

    def make_regression(before: str, after: str, change: float) -> Regression:
        return Regression("m", before, after, FP32, PEAK.name, "track_peak_memory", change)

    early = make_regression("jax-0.9.0", "jax-0.9.1", 0.02)
    small = make_regression("jax-0.10.1", "jax-0.10.2", 0.05)
    large = make_regression("jax-0.10.1", "jax-0.10.2", 0.3)
    in_order = sorted([small, early, large], key=Regression.sort_key)
    assert in_order == [early, large, small]
