"""Batches and losses of a user's file, in the forms that people write them in, without a
framework: NumPy's arrays stand for tensors.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framebench.adapters.user_functions import UserFile, find_loss
from framebench.suite.trees import call_with
from framebench.suite.user_file import Fault
from tests.callbacks import ignore

N = 6
ONE = np.float32(1).reshape(())
ROWS = np.ones((N, 3), np.float32)

BEGINNING = """
import numpy as np

class Graph:
    def __init__(self, n):
        self.x, self.y = np.ones((4 * n, 3)), np.ones(n)

class Model:
    def forward(self, x):
        return x

class Six:
    def forward(self, a, b, c, d, e, f):
        return a

class Detector:
    def forward(self, images, targets=None):
        return images

def function():
    return {}, lambda weights, batch: batch

def rows(n):
    return np.ones((n, 3))

def images(n):
    return [np.ones((3, 4 + i)) for i in range(n)]
"""
LOSS = "def loss(output, target): return 0.0"
STEP = "def step(model, batch, optimizer): return 0.0"


def open_file(folder: Path, *lines: str) -> UserFile:
    """Return a user's file of these lines."""
    path = folder / "mine.py"
    path.write_text("\n".join([BEGINNING, *lines]))
    numbers = (np.ndarray, np.generic)
    return UserFile(str(path), ignore, "array", batch_types=np.ndarray, loss_types=numbers)


def make_file(folder: Path, *lines: str) -> UserFile:
    """Return a user's file of these lines, whose model is made."""
    file = open_file(folder, *lines)
    file.make_model(type(None))
    return file


MODULES = """
class Base:
    def forward(self, *_):
        raise NotImplementedError
    def __call__(self, *args):
        return self.forward(*args)

class Pair(Base):
    pass

class Model(Base):
    def forward(self, x):
        return x

class Trains(Base):
    def training_step(self, batch, number):
        return 0.0

class Assigned(Base):
    def __init__(self):
        self.forward = abs
"""


@pytest.mark.parametrize(("made", "function"), [("Pair()", ""), ("Pair()", LOSS), ("Base()", "")])
def test_a_model_without_a_forward_pass_is_refused(made, function, tmp_path):
    """Frameworks' base classes have one that raises an error, and a `__call__` that calls it."""
    file = open_file(tmp_path, MODULES, f"def model(): return {made}", function)
    with pytest.raises(
        Fault, match=r"mine\.py:\d+: [\w.]+ has no forward pass of its own.* step\("
    ):
        file.make_model(file.module.Base)


@pytest.mark.parametrize(
    ("made", "function"),
    [("Pair()", STEP), ("Model()", ""), ("Assigned()", ""), ("Trains()", "")],
)
def test_a_model_with_a_forward_pass_or_a_step_is_made(made, function, tmp_path):
    file = open_file(tmp_path, MODULES, f"def model(): return {made}", function)
    file.make_model(file.module.Base)


def collect_arguments(batch: tuple[Any, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Return what a model is called with, and the targets that stay apart."""
    inputs, targets = batch

    def model(*arguments: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return arguments, named

    arguments, named = call_with(model, inputs)
    return arguments, named, targets


@pytest.mark.parametrize(
    ("model", "returned", "function", "argument_count", "has_targets_apart"),
    [
        ("Model", "rows(n), rows(n)", LOSS, 1, True),
        ("Model", "(rows(n), rows(n)), rows(n)", LOSS, 2, True),
        ("Detector", "rows(n), rows(n)", "", 2, False),
        ("Detector", "images(n), images(n)", "", 2, False),
        ("Detector", "images(n), images(n)", LOSS, 1, True),
        ("Model", "rows(n), rows(n)", "", 1, True),  # it takes no targets
        ("Model", "rows(n), None", "", 1, False),
        ("Model", "rows(n)", "", 1, False),
        ("Model", "Graph(n)", LOSS, 1, False),
        ("Model", "images(n)", LOSS, 1, False),
        ("Model", "rows(n), rows(n), rows(n)", "", 3, False),
        ("Model", "rows(n), rows(n), rows(n)", STEP, 3, False),
        ("Model", "{'x': rows(n)}", LOSS, 1, False),
        ("Six", "(rows(9),) * n, rows(n)", LOSS, 6, True),  # they are no samples
        ("Detector", "{'images': rows(n), 'targets': rows(n)}", LOSS, 2, False),
        ("Model", "{'left': rows(n), 'right': rows(n)}", LOSS, 1, False),  # as one argument
        ("Model", "{'left': rows(n), 'right': rows(n)}, rows(n)", LOSS, 1, True),
        ("function", "{'left': rows(n), 'right': rows(n)}, rows(n)", LOSS, 1, True),
    ],
)
def test_a_model_gets_the_targets_if_nothing_else_takes_them(
    model, returned, function, argument_count, has_targets_apart, tmp_path
):
    file = make_file(tmp_path, f"model = {model}", f"def batch(n): return {returned}", function)
    batch = file.make_batch(N)
    positional, named, targets = collect_arguments(batch)
    assert len(positional) + len(named) == argument_count
    assert (targets is not None) == has_targets_apart
    written_and_read = file.as_arguments(file.as_written(batch))
    assert collect_arguments(written_and_read)[:2] == (positional, named)


@pytest.mark.parametrize("samples", [2, 3])
def test_a_list_of_dictionaries_is_a_list_of_samples(samples, tmp_path):
    """Two of them are no pair of inputs and targets."""
    batch = "def batch(n): return [{'x': rows(5), 'y': rows(7)} for _ in range(n)]"
    file = make_file(tmp_path, "model = Model", batch, LOSS)
    (inputs,), targets = file.make_batch(samples)
    assert targets is None
    assert [sorted(sample) for sample in inputs] == [["x", "y"]] * samples


def test_a_batch_that_nobody_could_take_is_refused(tmp_path):
    file = make_file(
        tmp_path, "model = Model", "def batch(n): return rows(n), rows(n), rows(n)", LOSS
    )
    with pytest.raises(Fault, match=r"mine\.py:.*must return \(inputs, target\)"):
        file.make_batch(N)


@pytest.mark.parametrize(
    "returned", ["rows(n), rows(n)", "{'x': rows(n)}", "Graph(n)", "images(n)", "rows(n)"]
)
def test_a_training_step_gets_the_whole_batch_as_written(returned, tmp_path):
    file = make_file(tmp_path, "model = Model", f"def batch(n): return {returned}")
    file.takes_batch = True
    inputs, targets = file.make_batch(N)
    assert targets is None
    positional, named, _ = collect_arguments((inputs, targets))
    written = file.as_written((named or positional, None))
    assert type(written) is type(file.module.batch(N))


@pytest.mark.parametrize(
    ("output", "loss"),
    [
        (ONE, 1.0),
        ((ROWS, ONE), 1.0),
        ({"loss": ONE, "loss_box": ONE}, 1.0),
        ({"loss_box": ONE, "total_loss": 2 * ONE}, 2.0),
        ({"depth": ONE, "total": 2 * ONE}, 2.0),
        ({"loss": ONE, "total": 2 * ONE}, 1.0),
        (SimpleNamespace(loss=ONE, logits=ROWS), 1.0),
        pytest.param(ROWS, None, id="several numbers"),
        pytest.param((ONE, 2 * ONE), None, id="two candidates"),
        pytest.param(np.int64(3), None, id="an integer"),
    ],
)
def test_the_loss_in_a_models_output_is_found_if_it_is_clear(output, loss):
    assert find_loss(output) == loss


class Number(np.ndarray):
    """An array that tells whether it is trained, as those of PyTorch do."""

    requires_grad = False


def make_number(value: float, requires_grad: bool = True) -> np.ndarray:
    """Return an array of one number that tells whether it is trained."""
    number = np.array(value, np.float32).view(Number)
    number.requires_grad = requires_grad
    return number


ONE_TRAINED = make_number(1.0)
TWO_TRAINED = make_number(2.0)
ONE_LOGGED = make_number(1.0, requires_grad=False)


@pytest.mark.parametrize(
    ("output", "loss", "counted", "logged"),
    [
        ({"loss_box": ONE_TRAINED, "loss_class": TWO_TRAINED}, 3.0, "loss_box loss_class", ""),
        ({"Loss_box": ONE_TRAINED, "accuracy": ONE_LOGGED}, 1.0, "Loss_box", "accuracy"),
        ({"loss_box": ONE_TRAINED, "last_loss": ONE_LOGGED}, 1.0, "loss_box", "last_loss"),
        ({"loss_box": ONE_LOGGED, "accuracy": ONE_LOGGED}, 1.0, "loss_box", "accuracy"),
        ({"loss_box": ONE_TRAINED, "seconds": 0.5}, 1.0, "loss_box", "seconds"),
        ({"logits": ROWS, "nll": TWO_TRAINED, "accuracy": ONE_LOGGED}, 2.0, "nll", "accuracy"),
        ({"loss_box": ONE, "loss_class": 2 * ONE}, 3.0, "loss_box loss_class", ""),
    ],
)
def test_losses_in_a_dictionary_are_added_up_and_named(output, loss, counted, logged, tmp_path):
    file = make_file(tmp_path, "model = Model")
    assert file.compute_loss(output, None) == loss
    assert file.loss_terms.counted == tuple(counted.split())
    assert file.loss_terms.logged == tuple(logged.split())


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({"loss_box": ONE_TRAINED, "kl": ONE_TRAINED}, "`loss_box` would be .* `kl` may be a part"),
        ({"loss_box": ONE, "accuracy": ONE}, "`loss_box` would be .* `accuracy` may be a part"),
        ({"kd": ONE_TRAINED, "ce": ONE_TRAINED}, "no key has loss in it, and `kd`, `ce` may be"),
        ({"accuracy": ONE_LOGGED, "logits": ROWS}, "`accuracy`, `logits`: none of them is a num"),
        ({"accuracy": ONE}, "no key has loss in it, and `accuracy` may be"),
    ],
)
def test_a_dictionary_whose_loss_is_unclear_is_refused(output, message, tmp_path):
    file = make_file(tmp_path, "model = Model")
    with pytest.raises(Fault, match=f"{message}.*return the total under the key `loss`"):
        file.compute_loss(output, None)


@pytest.mark.parametrize(
    ("returned", "loss", "counted"),
    [
        ({"d_loss": ONE_LOGGED, "g_loss": ONE_LOGGED, "steps": 3.0}, 2.0, ("d_loss", "g_loss")),
        ({"critic": 1.0, "actor": 2.0}, 3.0, ("critic", "actor")),
        ({"critic": ONE_TRAINED, "actor": ONE_TRAINED}, 2.0, ("critic", "actor")),
        (2.5, 2.5, ()),
    ],
)
def test_what_a_step_reports_is_its_loss(returned, loss, counted, tmp_path):
    """The step has trained already: values without gradients are losses here, and numbers too."""
    file = make_file(tmp_path, "model = Model", STEP)
    assert file.read_loss("step", returned) == loss
    assert file.loss_terms.counted == counted


@pytest.mark.parametrize(
    ("optimizer", "takes_model"),
    [
        ("def optimizer(model): return model", True),
        ("def optimizer(parameters): return parameters", False),
        ("optimizer = print", False),
        ("", False),
    ],
)
def test_an_optimizers_argument_called_model_is_the_model(optimizer, takes_model, tmp_path):
    assert make_file(tmp_path, "model = Model", optimizer).takes_model() == takes_model
