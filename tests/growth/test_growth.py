"""`framebench grow`: planted leaks are found to the byte and named with their place, and what keeps nothing is not accused."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framebench.engine.environments import Environment
from framebench.growth.measure import NoReadings, obstacle, read
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


def planted(code: str, folder: Path) -> Path:
    file = folder / "leak.py"
    file.write_text(textwrap.dedent(code).lstrip())
    return file


def grow(case: str, results: Path, code: str = "") -> tuple[int, dict[str, Any]]:
    """Exit code, and what was said."""
    results.mkdir()
    own = ["--step", str(planted(code, results))] if code else []
    done = framebench("grow", case, "--steps", STEPS, "--json", "--results", str(results), *own)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def place(code: str, results: Path) -> str:
    return f"{results / 'leak.py'}:{len(textwrap.dedent(code).strip().splitlines())}"


def named(found: dict[str, Any], kind: str, where: str) -> dict[str, Any]:
    """The largest leaving of this kind from this place."""
    return next(row for row in found["kept"] if (row["kind"], row["made_at"]) == (kind, where))


@pytest.mark.all_cells
@pytest.mark.slow
def test_a_list_of_losses_with_their_graph(results: Path) -> None:
    """Each holds its forward pass: what it saved has no object in Python, but storages, and the operators that made them."""
    code, found = grow(TORCH, results, LOSSES)
    assert (code, found["verdict"]) == (1, "grows")
    (kept,) = (row for row in found["kept"] if row["what"] == "torch.Tensor float32[]")
    assert kept["per_step"] == 1
    assert kept["note"].startswith("held by `kept`, list of ")
    assert "with a graph of " in kept["note"]
    saved = sum(row["bytes_per_step"] for row in found["kept"] if row["kind"] == "storage")
    assert 0.5 * saved < found["bytes_per_step"]["host.malloc"]["value"] < 2 * saved


@pytest.mark.slow
@pytest.mark.all_cells
@pytest.mark.parametrize("framework", ["torch", "jittor"])
def test_a_cache_that_never_empties(framework: str, results: Path) -> None:
    code, found = grow(f"transformer/{framework}/train/fp32/b4/tiny", results, CACHE)
    assert (code, found["verdict"]) == (1, "grows")
    instrument = "host.malloc" if framework == "torch" else "allocator.live"
    assert 5000 <= found["bytes_per_step"][instrument]["value"] < 5000 + 1024  # what the instrument calls no growth
    kept = named(found, "storage" if framework == "torch" else "object", place(CACHE, results))
    assert (kept["per_step"], kept["bytes_per_step"]) == (1, 5000)


@pytest.mark.slow
@pytest.mark.all_cells
def test_a_list_of_arrays(results: Path) -> None:
    code, found = grow("transformer/jax/train/fp32/b4/tiny", results, ARRAYS)
    assert (code, found["verdict"]) == (1, "grows")
    assert found["bytes_per_step"]["allocator.live"]["value"] == 5000
    kept = named(found, "object", place(ARRAYS, results))
    assert (kept["what"], kept["per_step"], kept["bytes_per_step"]) == ("jaxlib.ArrayImpl int32[1250]", 1, 5000)
    assert kept["note"].startswith("held by `arrays`, list of ")


@pytest.mark.slow
@pytest.mark.all_cells
def test_compilation_for_new_shapes(results: Path) -> None:
    """No array is kept, and yet memory grows: by the programs."""
    code, found = grow("transformer/jax/train/fp32/b4/tiny", results, SHAPES)
    assert (code, found["verdict"]) == (1, "grows")
    assert found["bytes_per_step"]["allocator.live"]["verdict"] == "does not grow"
    kept = named(found, "compilation", place(SHAPES, results))
    assert kept["per_step"] == 1
    assert "lambda" in kept["what"]


@pytest.mark.slow
@pytest.mark.all_cells
def test_jittor_602(results: Path) -> None:
    """Gradients that are accumulated wait, unlike the loss that is read, and each keeps its forward pass: until somebody waits
    for them. https://github.com/Jittor/jittor/issues/602"""
    code, found = grow("transformer/jittor/train/fp32/b4/tiny", results, MICRO_BATCH)
    assert (code, found["bytes_per_step"]["allocator.live"]["verdict"]) == (1, "grows")
    assert min(np.diff(found["counts"]["operations"])) > 100
    kept = [row for row in found["kept"] if row["kind"] == "storage"]
    assert kept[0]["made_at"] == "the graph of operations"
    assert all(re.match(r"\w+\[[\d, ]*\]( (of|for) [\w.]+)?$", row["what"]) for row in kept)
    assert any(" for " in row["what"] or " of " in row["what"] for row in kept)
    assert sum(row["bytes_per_step"] for row in kept) > 2**10


@pytest.mark.slow
@pytest.mark.all_cells
def test_jittor_602_does_not_grow_when_synchronized(results: Path) -> None:
    waited = MICRO_BATCH.replace("loss.item()", "adapter.synchronize()")
    code, found = grow("transformer/jittor/train/fp32/b4/tiny", results, waited)
    assert (code, found["verdict"]) == (0, "does not grow")


EVERY = [f"{w}/{f}/train/fp32/b4/tiny" for f in ("torch", "jax", "jittor") for w in ("transformer", "resnet50", "unet3d")]


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(c, marks=() if c == TORCH else pytest.mark.all_cells) for c in EVERY])
def test_clean_workloads_are_not_accused(case: str, results: Path) -> None:
    """Of the process's memory XLA's threads may leave it undecided under load; not of the arrays that JAX has alive."""
    code, found = grow(case, results)
    alive = found["bytes_per_step"].get("allocator.live", found)["verdict"]
    assert (alive, found["kept"]) == ("does not grow", [])
    assert code == 0 or (code == 3 and "/jax/" in case)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys\nsys.exit(1)", "leak.py:2: sys.exit(1) would end the process here"),
        ("def steps(adapter):\n    pass", "no function `step(adapter)`"),
        ("def step(adapter):\n    adapter.step()\n    raise ValueError('too much')", "leak.py:3: ValueError: too much"),
    ],
)
def test_errors_in_a_step_file_are_reported_with_their_line(code: str, message: str, tmp_path: Path, results: Path) -> None:
    done = framebench("grow", TORCH, "--step", str(planted(code, tmp_path)), "--results", str(results))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TORCH, "--steps", "20"], "52"),
        ([TORCH, "--step", "nowhere.py"], "nowhere.py"),
    ],
)
def test_invalid_arguments_end_with_a_hint(arguments: list[str], message: str, results: Path) -> None:
    done = framebench("grow", *arguments, "--results", str(results))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr


def test_a_dead_worker_is_reported() -> None:
    assert obstacle(parse(TORCH)) is None
    with pytest.raises(NoReadings, match=r"tiny in torch-0: .*growth.worker failed"):
        read(parse(TORCH), Environment("torch", "0", Path("/bin/false")), 65)
