"""The figure of a step in several frameworks: one for each question, under a name of its own."""

from itertools import product

from framebench.analysis.results import Results
from framebench.explain.figure import figures
from tests.processes import ROOT

EXPLAINED = ROOT / "results" / "explained"
CASE = "transformer.{}.train.fp32.b4.cpu"


def test_each_strategy_and_batch_has_a_figure_of_its_own_name(tmp_path):
    (tmp_path / "explained").mkdir()
    for framework in ("torch", "jax"):
        name = CASE.format(framework)
        text = (EXPLAINED / f"{name}.json").read_text()
        for strategy, batch in product(("fp32", "checkpoint"), ("b4", "b8")):
            case = name.replace("fp32", strategy).replace("b4", batch)
            changed = text.replace(name.replace(".", "/"), case.replace(".", "/"))
            (tmp_path / "explained" / f"{case}.json").write_text(changed)

    names = [name for name, *_ in figures(Results(tmp_path), [])]

    assert names == [
        "step-transformer-train-checkpoint-b4",
        "step-transformer-train-checkpoint-b8",
        "step-transformer-train-fp32-b4",
        "step-transformer-train-fp32-b8",
    ]
