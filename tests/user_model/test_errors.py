"""What is wrong with a user's file is told in a line, which names the place."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from framebench.suite.user_file import Fault
from framebench.user_file import trial
from tests.processes import framebench, run_inside
from tests.user_model.small_file import write_variant

HERE = Path(__file__).parent
BROKEN = {row["name"]: row for row in tomllib.loads((HERE / "broken.toml").read_text())["file"]}


@pytest.fixture(scope="module")
def messages(tmp_path_factory, environment) -> dict[str, str]:
    """Return what is said of each file."""
    orders = []
    for row in BROKEN.values():
        changes = [(row["old"], row["new"])]
        if "steps" in row["new"]:
            changes.append(("import sys\n", "import sys\nsteps = []\n"))
        file = write_variant(tmp_path_factory.mktemp("own"), *changes)
        orders.append([str(file), "torch", "train", []])
    found = run_inside(environment["torch"], HERE / "programs/try_files.py", json.dumps(orders))
    messages = {}
    for name, result in zip(BROKEN, found.values(), strict=True):
        if "fault" in result:
            messages[name] = (
                f"out of memory: {result['fault']}" if result["oom"] else result["fault"]
            )
        else:
            facts = result["facts"]
            undetermined = ", ".join(facts["undetermined"])
            first = facts["without_gradient"]["first"]
            messages[name] = (
                f"taken: {undetermined} | {facts['uncut']}{facts.get('accumulation', '')} | {first}"
            )
    return messages


@pytest.mark.parametrize("name", BROKEN)
def test_errors_in_a_file_are_reported_with_their_line(name, messages):
    assert re.search(BROKEN[name]["message"], messages[name]), messages[name]
    assert "\n" not in messages[name].strip()


COMPLEX_IN_JAX = """
import jax.numpy as jnp

def model():
    return {"filter": jnp.ones(3, complex)}, apply

def apply(weights, x):
    return (x * weights["filter"]).real

def batch(n):
    return jnp.ones((n, 3)), jnp.ones((n, 3))

def loss(output, target):
    return ((output - target) ** 2).mean()
"""


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("complex", r"is complex, .* as two weights"),  # its imaginary part would be lost
        ("jnp.bfloat16", r"is bfloat16, .* float32"),  # its bytes would be doubled
        ("jnp.float16", r"is float16, .* float32"),
    ],
)
def test_a_weight_in_jax_that_float32_would_change_is_refused(dtype, reason, tmp_path, environment):
    file = tmp_path / "mine.py"
    file.write_text(COMPLEX_IN_JAX.replace("complex", dtype))
    orders = [[str(file), "jax", "train", []]]
    found = run_inside(environment["jax"], HERE / "programs/try_files.py", json.dumps(orders))
    message = found[str(file)]["fault"]
    assert re.search(rf"mine\.py:4: weights\.filter {reason}", message)


def test_a_pair_of_functions_in_jax_is_no_model_before_its_weights_are_made(tmp_path, environment):
    file = tmp_path / "mine.py"
    weights = '{"filter": jnp.ones(3, complex)}'
    assert weights in COMPLEX_IN_JAX
    file.write_text(COMPLEX_IN_JAX.replace(weights, "jnp.ones"))  # what makes the weights
    orders = [[str(file), "jax", "train", []]]
    found = run_inside(environment["jax"], HERE / "programs/try_files.py", json.dumps(orders))
    message = found[str(file)]["fault"]
    assert re.search(r"mine\.py:4: model\(\) must return \(weights, apply\).* call `init`", message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("def batch", "def batches"), "has no `batch`; it needs model and batch, and loss"),
        (("def model():", "def model(:"), "mine.py:6: SyntaxError"),
        (("import torch\nfrom torch import nn", ""), "imports none of torch, jax, jittor"),
        (("import sys", "import jax"), "imports torch and jax: say with --framework"),
    ],
)
def test_errors_are_found_without_running_the_file(change, message, tmp_path):
    with pytest.raises(Fault, match=re.escape(message)):
        trial.inspect_file(write_variant(tmp_path, change), 4)


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        (
            ("def loss(output, target):", "def loss(output, target):\n    sys.exit('done')"),
            (":13: sys.exit('done') would end the process here",),
        ),
        (
            ("import sys", "import sys, gone_for_good"),
            (":2: ModuleNotFoundError: No module named 'gone_for_good'; ", "--env"),
        ),
    ],
)
@pytest.mark.usefixtures("environment")
def test_an_error_in_the_file_ends_the_command_without_traceback(change, messages, tmp_path):
    """A file that has a module's name replaces no module."""
    file = write_variant(tmp_path, change, name="numpy.py")
    done = framebench("try", str(file), results=tmp_path / "results")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"framebench: {file}{messages[0]}" in done.stderr
    assert all(message in done.stderr for message in messages)
