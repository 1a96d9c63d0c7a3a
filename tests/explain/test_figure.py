"""Figures of one step, and of one step in several frameworks."""

from itertools import product

from framebench.analysis.results import Results
from framebench.explain.figure import draw_step, figures, tabulate_kinds_by_layer
from tests.explain.explanations import make_explanation
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


def test_kinds_and_layers_of_a_step_are_drawn():
    explanation = make_explanation(
        {}, ("a.0", "parameter", 100_000), ("a.1", "new parameter", 50_000), ("b.1", "input", 9)
    )
    by_kind = {"parameter": (100_000,), "new parameter": (50_000,), "input": (9,)}
    drawn = draw_step(explanation.model_copy(update={"timeline_by_kind": by_kind}))
    over_step, at_peak = drawn.axes
    assert [text.get_text() for text in over_step.texts] == ["0.14 MiB"]
    _, labels = over_step.get_legend_handles_labels()
    assert labels == ["parameter", "other"], "new parameters are parameters"
    assert [tick.get_text() for tick in at_peak.get_yticklabels()] == ["a.* (2)", "b.1"]


def test_the_bar_of_the_rest_sums_all_layers_after_the_tenth():
    holders = [(name, "parameter", 100 - place) for place, name in enumerate("abcdefghijklm")]
    layers = tabulate_kinds_by_layer(make_explanation({}, *holders))
    assert [*layers.index] == [*"abcdefghij", "the rest"]
    assert layers.loc["the rest", "parameter"] == 90 + 89 + 88
