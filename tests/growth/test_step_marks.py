"""Which function of a script makes a step, and that its calls are counted."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from framebench.growth.step_marks import (
    FORWARD_PASSES,
    STEPS_OF_OPTIMIZER,
    MarkedStep,
    choose_functions,
)
from framebench.growth.worker import run_as_main
from framebench.suite.user_file import Fault


def write_script(folder: Path, code: str) -> str:
    file = folder / "script.py"
    file.write_text(textwrap.dedent(code))
    return str(file)


@pytest.mark.parametrize(
    ("framework", "code", "functions", "what"),
    [
        ("torch", "optimizer = torch.optim.SGD([])", set(), STEPS_OF_OPTIMIZER),
        ("torch", "with torch.no_grad():\n    model(x)", set(), FORWARD_PASSES),
        ("jittor", "optimizer.step(loss)", set(), STEPS_OF_OPTIMIZER),
        ("jax", "@partial(jax.jit, donate_argnums=0)\ndef f(x): ...", {"f"}, "calls of f()"),
        ("jax", "@nnx.jit\ndef f(x): ...", {"f"}, "calls of f()"),
        ("jax", "f = jax.jit(g, donate_argnums=0)", {"f"}, "calls of f()"),
        (
            "jax",
            "@jit\ndef train_step(x): ...\n@jit\ndef metrics(x): ...",
            {"train_step"},
            "calls of train_step()",
        ),
    ],
)
def test_a_step_is_found_in_the_source(framework, code, functions, what, tmp_path):
    assert choose_functions(write_script(tmp_path, code), framework, "") == (functions, what)


@pytest.mark.parametrize(
    ("framework", "code", "step_at", "message"),
    [
        ("jax", "def f(x): ...", "", "It compiles: none; say it with --step-at FUNCTION"),
        ("jax", "a = jax.jit(f)\nb = jax.jit(g)", "", "It compiles: a, b; say it with --step-at"),
        ("torch", "a = b()\ndef f(x): ...", "g", "no function `g` for --step-at; it defines: f$"),
    ],
)
def test_a_step_that_is_not_found_is_asked_for(framework, code, step_at, message, tmp_path):
    with pytest.raises(Fault, match=message):
        choose_functions(write_script(tmp_path, code), framework, step_at)


SCRIPT = """
    calls = []
    class Trainer:
        def fit_step(self, x):
            return self.add(x)
        def add(self, x):
            return x + 1
    def double(function):
        return lambda x: 2 * function(x)
    @double
    def step(x):
        return x
    made = double(step)
    if __name__ == "__main__":
        results = [Trainer().fit_step(1), step(2), made(3)]
"""


@pytest.mark.parametrize(("name", "result"), [("fit_step", 2), ("step", 4), ("made", 12)])
def test_calls_of_a_marked_function_end_steps(name, result, tmp_path):
    ended = []

    def mark(function):
        return MarkedStep(function, ended.append)

    run_as_main(write_script(tmp_path, SCRIPT), {name}, mark)
    assert result in ended
    assert len(ended) == {"fit_step": 1, "step": 2, "made": 1}[name]
