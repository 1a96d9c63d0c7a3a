"""`framebench grow train.py -- arguments`: a user's own script, whose steps end where its
optimizer's do.
"""

import json
import re
from pathlib import Path

import pytest

from framebench.growth.measure import NoReadings, find_framework
from framebench.suite.user_file import Fault
from tests.marks import rarely
from tests.processes import framebench

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "note", "line", "bytes_per_step"),
    [
        ("running_sum", (), "hangs on `total`", "running_sum.py:13", 0),
        # the nodes of its graph; what they saved was freed by the backward pass
        rarely("train", ("--keep",), "train.py:24; with a graph of", "train.py:18", 1024),
        rarely("evaluation", (), "held by `outputs`", "", 2 * 2048),
        ("jax_metrics", (), "", "jax_metrics.py:", 8192),
    ],
)
def test_objects_that_grow_in_a_script_are_named(
    name, arguments, note, line, bytes_per_step, tmp_path
):
    options = ("--steps", "52", "--json", "--results", tmp_path / "results")
    done = framebench("grow", PROGRAMS / f"{name}.py", *options, "--", *arguments)
    assert done.stdout, done.stderr
    growth = json.loads(done.stdout)
    assert (done.returncode, growth["verdict"]) == (1, "grows")
    named = []
    for leak in growth["kept"]:
        assert "Backward" not in leak["what"], "what watches the steps makes these nodes itself"
        if note in leak["note"] and line in leak["made_at"]:
            named.append(leak)
    assert named, growth["kept"]
    slopes = [slope["value"] for slope in growth["bytes_per_step"].values()]
    assert max(slopes) >= bytes_per_step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "code", "message"),
    [
        rarely("1000", 0, "memory does not grow"),
        ("30", 2, "ended after 30 steps of its optimizer, and 96 are needed"),
    ],
)
def test_a_script_is_followed_with_its_arguments(steps, code, message, tmp_path):
    """The script has two optimizers; the steps of the first are counted."""
    options = ("--steps", "52", "--results", tmp_path / "results")
    done = framebench("grow", PROGRAMS / "train.py", *options, "--", "--steps", steps, code=code)
    assert message in " ".join((done.stdout + done.stderr).split())


@pytest.mark.slow
def test_a_script_that_ends_early_is_told_how_many_steps_it_can_have_read(tmp_path):
    """It makes 100 steps, of which 44 are not read."""
    options = ("--steps", "200", "--results", tmp_path / "results")
    done = framebench("grow", PROGRAMS / "train.py", *options, "--", "--steps", "100", code=2)
    message = " ".join(done.stderr.split())
    assert "let it loop 144 steps longer, or read fewer: --steps 56;" in message


@pytest.mark.slow
def test_a_slow_script_says_how_far_it_is(tmp_path):
    options = ("--steps", "52", "--results", tmp_path / "results")
    script = PROGRAMS / "train.py"
    done = framebench("grow", script, *options, "--", "--pause", "0.1", code=0)
    assert done.stderr.startswith("96 steps: 20 of warm-up, 52 that are read")
    assert re.search(r"^train.py: step \d+ of 96, about \d+ s left$", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("code", "message"),
    [("import math", "imports none of torch"), ("def (", "SyntaxError"), (None, "does not exist")],
)
def test_scripts_that_cannot_be_followed_are_refused(code, message, tmp_path):
    file = tmp_path / "train.py"
    if code:
        file.write_text(code)
    with pytest.raises((NoReadings, Fault), match=message):
        find_framework(file)
