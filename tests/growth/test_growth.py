"""`framebench grow`: planted leaks are found to the byte and named with their place; what is clean
is not accused.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framebench.engine.environments import Environment
from framebench.growth.measure import NoReadings, explain_unsupported_growth, read_case
from framebench.suite.selectors import parse
from tests.processes import framebench

STEPS = "52"
TORCH = "transformer/torch/train/fp32/b4/tiny"
# each has its leak in its last line
LOSSES = """
    kept = []

    def step(adapter):
        adapter.step()
        kept.append(adapter.recipe.objective(*adapter.inputs))
"""
CACHE = """
    cache = {}

    def step(adapter):
        adapter.step()
        cache[adapter.steps] = adapter.allocate(5000)
"""
ARRAYS = """
    import jax.numpy as jnp

    arrays = []

    def step(adapter):
        adapter.step()
        arrays.append(jnp.full(1250, adapter.steps))
"""
SHAPES = """
    import jax
    import numpy as np

    double = jax.jit(lambda x: x * 2)

    def step(adapter):
        adapter.step()
        double(np.ones(adapter.steps))
"""
MICRO_BATCH = """
    def step(adapter):
        loss = adapter.recipe.loss(*adapter.inputs)
        adapter.optimizer.backward(loss)
        loss.item()
"""


def write_step(code: str, folder: Path) -> Path:
    """Write the file of a step."""
    file = folder / "leak.py"
    file.write_text(textwrap.dedent(code).lstrip())
    return file


def grow(case: str, results: Path, code: str = "") -> tuple[int, dict[str, Any]]:
    """Return exit code and JSON of the command, with the case's own step or another one."""
    results.mkdir()
    step = ["--step", str(write_step(code, results))] if code else []
    done = framebench("grow", case, "--steps", STEPS, "--json", "--results", str(results), *step)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def last_line(code: str, results: Path) -> str:
    """Return the place of the leak as the report says it."""
    return f"{results / 'leak.py'}:{len(textwrap.dedent(code).strip().splitlines())}"


def find_kept(answer: dict[str, Any], kind: str, made_at: str) -> dict[str, Any]:
    """Return the largest leftover of this kind from this place."""
    rows = [row for row in answer["kept"] if (row["kind"], row["made_at"]) == (kind, made_at)]
    return rows[0]


@pytest.mark.all_cases
@pytest.mark.slow
def test_a_list_of_losses_with_their_graph(results: Path) -> None:
    """Each holds its forward pass: what it saved has no object in Python, but storages, and the
    operators that made them.
    """
    code, answer = grow(TORCH, results, LOSSES)
    assert (code, answer["verdict"]) == (1, "grows")
    (kept,) = (row for row in answer["kept"] if row["what"] == "torch.Tensor float32[]")
    assert kept["per_step"] == 1
    assert kept["note"].startswith("held by `kept`, list of ")
    assert "with a graph of " in kept["note"]
    saved = sum(row["bytes_per_step"] for row in answer["kept"] if row["kind"] == "storage")
    assert 0.5 * saved < answer["bytes_per_step"]["host.malloc"]["value"] < 2 * saved


@pytest.mark.slow
@pytest.mark.all_cases
@pytest.mark.parametrize("framework", ["torch", "jittor"])
def test_a_cache_that_never_empties(framework: str, results: Path) -> None:
    code, answer = grow(f"transformer/{framework}/train/fp32/b4/tiny", results, CACHE)
    assert (code, answer["verdict"]) == (1, "grows")
    instrument = "host.malloc" if framework == "torch" else "allocator.live"
    # what the instrument calls no growth
    assert 5000 <= answer["bytes_per_step"][instrument]["value"] < 5000 + 1024
    kept = find_kept(
        answer, "storage" if framework == "torch" else "object", last_line(CACHE, results)
    )
    assert (kept["per_step"], kept["bytes_per_step"]) == (1, 5000)


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_list_of_arrays(results: Path) -> None:
    code, answer = grow("transformer/jax/train/fp32/b4/tiny", results, ARRAYS)
    assert (code, answer["verdict"]) == (1, "grows")
    assert answer["bytes_per_step"]["allocator.live"]["value"] == 5000
    kept = find_kept(answer, "object", last_line(ARRAYS, results))
    assert (kept["what"], kept["per_step"], kept["bytes_per_step"]) == (
        "jaxlib.ArrayImpl int32[1250]",
        1,
        5000,
    )
    assert kept["note"].startswith("held by `arrays`, list of ")


@pytest.mark.slow
@pytest.mark.all_cases
def test_compilation_for_new_shapes(results: Path) -> None:
    """No array is kept, and yet memory grows: by the programs."""
    code, answer = grow("transformer/jax/train/fp32/b4/tiny", results, SHAPES)
    assert (code, answer["verdict"]) == (1, "grows")
    assert answer["bytes_per_step"]["allocator.live"]["verdict"] == "does not grow"
    kept = find_kept(answer, "compilation", last_line(SHAPES, results))
    assert kept["per_step"] == 1
    assert "lambda" in kept["what"]


@pytest.mark.slow
@pytest.mark.all_cases
def test_jittor_602(results: Path) -> None:
    """Gradients that are accumulated wait, unlike the loss that is read, and each keeps its forward
    pass: until somebody waits for them. https://github.com/Jittor/jittor/issues/602
    """
    code, answer = grow("transformer/jittor/train/fp32/b4/tiny", results, MICRO_BATCH)
    assert (code, answer["bytes_per_step"]["allocator.live"]["verdict"]) == (1, "grows")
    assert min(np.diff(answer["counts"]["operations"])) > 100
    kept = [row for row in answer["kept"] if row["kind"] == "storage"]
    assert kept[0]["made_at"] == "the graph of operations"
    assert all(re.match(r"\w+\[[\d, ]*\]( (of|for) [\w.]+)?$", row["what"]) for row in kept)
    assert any(" for " in row["what"] or " of " in row["what"] for row in kept)
    assert sum(row["bytes_per_step"] for row in kept) > 2**10


@pytest.mark.slow
@pytest.mark.all_cases
def test_jittor_602_does_not_grow_when_synchronized(results: Path) -> None:
    waited = MICRO_BATCH.replace("loss.item()", "adapter.synchronize()")
    code, answer = grow("transformer/jittor/train/fp32/b4/tiny", results, waited)
    assert (code, answer["verdict"]) == (0, "does not grow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework",
    [
        "torch",
        pytest.param("jax", marks=pytest.mark.all_cases),
        pytest.param("jittor", marks=pytest.mark.all_cases),
    ],
)
@pytest.mark.parametrize(
    "workload",
    [
        "transformer",
        pytest.param("resnet50", marks=pytest.mark.all_cases),
        pytest.param("unet3d", marks=pytest.mark.all_cases),
    ],
)
def test_clean_workloads_are_not_accused(workload: str, framework: str, results: Path) -> None:
    """Under load XLA's threads may leave the process's memory undecided, but not the arrays that
    JAX has alive.
    """
    code, answer = grow(f"{workload}/{framework}/train/fp32/b4/tiny", results)
    assert answer["kept"] == []
    if framework == "jax":
        assert answer["bytes_per_step"]["allocator.live"]["verdict"] == "does not grow"
        assert code in (0, 3)
    else:
        assert (code, answer["verdict"]) == (0, "does not grow")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys\nsys.exit(1)", "leak.py:2: sys.exit(1) would end the process here"),
        ("def steps(adapter):\n    pass", "no function `step(adapter)`"),
        (
            "def step(adapter):\n    adapter.step()\n    raise ValueError('too much')",
            "leak.py:3: ValueError: too much",
        ),
    ],
)
def test_errors_in_a_step_file_are_reported_with_their_line(
    code: str, message: str, tmp_path: Path, results: Path
) -> None:
    done = framebench(
        "grow", TORCH, "--step", str(write_step(code, tmp_path)), "--results", str(results)
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TORCH, "--steps", "20"], "52"),
        ([TORCH, "--step", "nowhere.py"], "nowhere.py"),
    ],
)
def test_invalid_arguments_end_with_a_hint(
    arguments: list[str], message: str, results: Path
) -> None:
    done = framebench("grow", *arguments, "--results", str(results))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr


def test_a_dead_worker_is_reported() -> None:
    assert explain_unsupported_growth(parse(TORCH)) is None
    with pytest.raises(NoReadings, match=r"tiny in torch-0: .*growth.worker failed"):
        read_case(parse(TORCH), Environment("torch", "0", Path("/bin/false")), 65)
