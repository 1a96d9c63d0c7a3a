"""Every notebook runs on the committed results without a framework, gives the same bytes twice, and finds what the rows say."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import jupytext
import nbformat
import pytest

import framebench
from framebench.analysis.results import Results
from framebench.features.claims.ledger import ledger
from framebench.features.devices.plans import store
from framebench.features.devices.tables.frame import used_bytes
from framebench.features.notebooks import notebook
from framebench.features.versions import judge as versions
from framebench.records.pins import pinned_version
from framebench.suite.case import Case
from tests.processes import ROOT

MACHINE = "xeon-2core"  # whose records the committed notebooks show
UPGRADED = "zen4-2core"  # but of releases, which were measured anew there
NO_FRAMEWORK = 'import sys\nprint({"torch", "jax", "jittor"} & set(sys.modules))'
Rows = list[Any]
OFTEN = ("strategies", "versions")  # which `make test` runs; of the others it looks at the finding and at the source
EVERY = pytest.mark.parametrize("source", notebook.sources(), ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """The committed rows as named tuples: findings are recomputed from them in plain Python."""
    return list(framebench.load(ROOT / "results", MACHINE).itertuples())


def strategies(rows: Rows) -> str:
    peaks, times = defaultdict(list), defaultdict(list)
    for r in rows:
        if r.scenario == "train" and r.usable and r.same_mathematics and not r.baseline and not r.only_for_claims:
            peaks[r.strategy] += [r.shared_ratio] if r.shared_ratio > 0 else []
            times[r.strategy] += [r.time_ratio] if r.time_ratio > 0 else []
    often = [name for name, found in peaks.items() if len(found) >= max(map(len, peaks.values())) / 2]
    best = min(often, key=lambda name: median(peaks[name]))
    cost = (
        f", for a median of {median(times[best]):.2f} times the step time in {len(times[best])} of them" if times[best] else ""
    )
    return (
        f"Of the {len(often)} strategies that were measured most widely {best} leaves the least: a median of "
        f"{median(peaks[best]):.2f} of the baseline's peak in {len(peaks[best])} cases{cost}."
        + ("" if any(times.values()) else " Times are being measured anew in blocks.")
    )


def frameworks(rows: Rows) -> str:
    base = [r for r in rows if r.usable and r.baseline and r.scenario in ("train", "eval") and r.host_rss_bytes > 0]
    peaks = {(r.workload, r.scenario, r.batch, r.size, r.framework): r.host_rss_bytes for r in base}
    places = {
        place for *place_, _ in peaks if all((place := tuple(place_)) + (f,) in peaks for f in ("torch", "jax", "jittor"))
    }
    said = []
    for framework in ("jax", "jittor"):
        ratios = [peaks[*place, framework] / peaks[*place, "torch"] for place in places]
        ends = f"{min(ratios):.2f} to {max(ratios):.2f}"
        said.append(f"{framework} peaks at a median of {median(ratios):.2f} times torch's peak ({ends})")
    return f"With the same batch {' and '.join(said)}, over {len(places)} baselines."


def train_against_eval(rows: Rows) -> str:
    peaks = {
        (r.workload, r.framework, r.batch, r.scenario, r.strategy): r.host_rss_bytes
        for r in rows
        if r.usable and r.host_rss_bytes > 0
    }
    without, left_on = [], []
    for (*place, scenario, strategy), peak in peaks.items():
        leaky, lean = (peaks.get((*place, "eval", other)) for other in ("grad", "no_grad"))
        if (scenario, strategy) == ("train", "fp32") and leaky and lean:
            without.append(lean / peak)
            left_on.append(leaky / peak)
    return (
        f"Evaluation takes {min(without):.2f} to {max(without):.2f} of the peak of training with the same batch; where "
        f"gradients are left on, {min(left_on):.2f} to {max(left_on):.2f}."
    )


def batch_scaling(rows: Rows) -> str:
    curves = defaultdict(dict)
    for r in rows:
        if r.usable and r.baseline and r.scenario in ("train", "eval"):
            curves[r.workload, r.scenario, r.framework][r.batch] = r
    memory = []
    for curve in curves.values():
        first, last = curve[min(curve)], curve[max(curve)]
        if first is not last:
            doublings = math.log2(last.batch / first.batch)
            memory.append((last.host_rss_bytes / first.host_rss_bytes) ** (1 / doublings))
    return f"Twice the batch takes {min(memory):.2f} to {max(memory):.2f} times the memory (median {median(memory):.2f})."


def claims(_: Rows) -> str:
    entries = ledger(Results(ROOT / "results"), MACHINE)
    counts = Counter(entry.verdict for entry in entries)
    failed = counts["weaker"] + counts["contradicted"] + counts["no effect worth having"]
    return (
        f"{len({entry.id for entry in entries})} claims, of which some are judged in parts, took {counts.total()} verdicts: "
        f"{counts['reproduced'] + counts['stronger']} reproduced or stronger, {failed} weaker, contradicted or "
        f"without an effect worth having, {counts['undecided']} undecided; the others no measurement decides, or none was made."
    )


def upgrades(_: Rows) -> str:
    records = Results(ROOT / "results").of_machine(UPGRADED)
    pairs = [("jax==0.9.2", "jax==0.10.2"), ("jittor==1.3.10.0", "jittor==1.3.11.0"), ("torch==2.12.1", "torch==2.13.0")]
    counts = Counter(row.verdict for base, change in pairs for row in versions.rows_of(records, base, change))
    return (
        f"Of {counts.total()} comparisons of two versions {counts['regression']} show a regression and "
        f"{counts['improvement']} an improvement; the others show no difference that matters, or are undecided or too few."
    )


def devices(_: Rows) -> str:
    kept = [p for p in store.every(ROOT / "results") if p.device == "h100-80gb" and used_bytes(p)]
    pinned = [p for p in kept if p.framework_version == pinned_version(p.framework)]
    used = {p.case: used_bytes(p) for p in pinned}
    ratios = defaultdict(list)
    for case_id in used:
        case = Case.of(case_id)
        whole = (case.scenario, case.size, case.ranks, case.batch) == ("train", "full", 1, case.spec.preset("full").base)
        if whole and "+" not in case.strategy and case.strategy != "fp32":
            ratios[case.framework, case.strategy].append(used[case_id] / used[replace(case, strategy="fp32").id])
    middle = {of: sorted(found)[1] for of, found in ratios.items() if len(found) == 3}
    best = {name: min((of for of in middle if of[0] == name), key=lambda of: middle[of]) for name in ("torch", "jax")}
    return (
        f"On an H100 {best['torch'][1]} leaves the least of PyTorch's baseline among the strategies planned for all three "
        f"workloads, a median of {middle[best['torch']]:.2f}; of JAX's {best['jax'][1]} does, with {middle[best['jax']]:.2f}."
    )


FINDINGS: dict[str, Callable[[Rows], str]] = {
    "strategies": strategies, "frameworks": frameworks, "train_against_eval": train_against_eval,
    "batch_scaling": batch_scaling, "claims": claims, "versions": upgrades,
    "devices": devices,
}  # fmt: skip


def test_there_is_one_for_each_family_of_questions() -> None:
    assert {source.stem for source in notebook.sources()} == set(FINDINGS)


@EVERY
def test_the_finding_is_what_the_records_say(source: Path, rows: Rows) -> None:
    committed = nbformat.read(notebook.EXECUTED / f"{source.stem}.ipynb", as_version=4)
    assert findings(committed) == [f"**{FINDINGS[source.stem](rows)}**"], "or stale: make notebooks"
    assert [cell.source for cell in committed.cells] == [cell.source for cell in jupytext.read(source).cells], "stale"


def findings(made: nbformat.NotebookNode) -> list[str]:
    outputs = [output for cell in made.cells for output in cell.get("outputs", [])]
    return [o["data"]["text/markdown"] for o in outputs if "text/markdown" in o.get("data", {})]


@EVERY
def test_each_is_an_example_of_what_a_reader_can_do(source: Path) -> None:
    text = source.read_text()
    assert "\nimport seaborn as sns\n" in text
    assert "\nimport framebench\n" in text
    assert re.search(r"\bdf = framebench\.(load|planned)\(", text)
    assert re.search(r"\b(groupby|pivot_table|crosstab)\(", text)
    assert re.search(r"\bsns\.(relplot|catplot|heatmap)\(", text), "at least one picture is drawn in the cell"


@EVERY
def test_the_finding_stands_above_its_picture(source: Path) -> None:
    cell = next(c.source for c in jupytext.read(source).cells if "finding = " in c.source)
    assert cell.index('display(Markdown(f"**{finding}**"))') < re.search(r"sns\.(relplot|catplot|heatmap)\(", cell).start()  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in OFTEN else pytest.mark.all_cells)
        for path in notebook.sources()
    ],
)
def test_each_runs_on_the_committed_results_without_a_framework(source: Path) -> None:
    made = notebook.execute(source, ROOT / "results", UPGRADED if source.stem == "versions" else MACHINE, NO_FRAMEWORK)
    assert made.cells[-1].outputs[0].text == "set()\n"
    outputs = [output for cell in made.cells[:-1] if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output.output_type == "stream" for output in outputs), "nothing went wrong"
    assert not any(" at 0x" in text for cell in made.cells for text in told(cell)[1]), "an address is another one every time"
    committed = nbformat.read(notebook.EXECUTED / f"{source.stem}.ipynb", as_version=4)
    assert list(map(told, committed.cells)) == list(map(told, made.cells[:-1])), "stale: make notebooks"


def told(cell: nbformat.NotebookNode) -> tuple[str, list[str]]:
    """What a cell is and says; pictures may differ in their last bits from machine to machine."""
    data = [output.get("data", {}) for output in cell.get("outputs", [])]
    return cell.source, [d[kind] for d in data for kind in ("text/markdown", "text/html", "text/plain") if kind in d]


@pytest.mark.slow
@pytest.mark.all_cells
def test_the_same_records_give_the_same_notebook(tmp_path: Path) -> None:
    source = notebook.SOURCES / "versions.py"
    first, second = (
        notebook.save(notebook.execute(source, ROOT / "results", UPGRADED), tmp_path / f"{i}.ipynb").read_bytes()
        for i in range(2)
    )
    assert first == second
    assert str(ROOT).encode() not in first


@EVERY
def test_the_prose_carries_no_measured_number(source: Path) -> None:
    """Numbers are computed: a ratio or a percentage in prose would be typed by hand."""
    prose = [cell.source for cell in jupytext.read(source).cells if cell.cell_type == "markdown"]
    assert prose[0].startswith("# ")
    assert prose[0].split("\n")[0].endswith("?"), "the title is the question"
    assert not any(mark in text for text in prose for mark in ("%", "0.", "MiB", "GiB"))
