"""Steps as people have them in Flax: dropout left on, recurrent networks, Linen, several inputs,
keywords, clipping. Each kind of file is surveyed and verified under strategies.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from tests.conftest import asked
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "try_steps.py"
BEGINNING = """
import jax
import jax.numpy as jnp
import optax
from flax import linen, nnx

class Block(nnx.Module):
    def __init__(self, rngs, rate=0.0):
        self.up, self.down = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)
        self.dropout = nnx.Dropout(rate, rngs=rngs)

    def __call__(self, x):
        return x + self.down(self.dropout(jnp.tanh(self.up(x))))

class Net(nnx.Module):
    def __init__(self, rngs, rate=0.0):
        self.blocks = nnx.List([Block(rngs, rate) for _ in range(2)])
        self.head = nnx.Linear(8, 5, rngs=rngs)

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def model():
    return Net(nnx.Rngs(0))

def batch(n):
    keys = jax.random.split(jax.random.key(0))
    return jax.random.normal(keys[0], (n, 8)), jax.random.randint(keys[1], (n,), 0, 5)

def loss(output, target):
    return optax.softmax_cross_entropy_with_integer_labels(output, target).mean()
"""


@dataclass(frozen=True)
class File:
    more: str
    strategies: tuple[str, ...] = ("checkpoint", "accumulate")
    left_out: tuple[str, ...] = ()
    scenario: str = "train"


TWO = """
    class Two(Net):
        def __call__(self, x, t, mask):
            return super().__call__(x * mask + t[:, None])
    def model():
        return Two(nnx.Rngs(0))
    def batch(n):
        x = jax.random.normal(jax.random.key(0), (n, 8))
        return (x, jnp.arange(n) / n, jnp.ones(8)), jnp.arange(n) % 5
"""
FILES = {
    "gradients that optax adds up over two steps": File(
        """
        def optimizer():
            chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
            return optax.MultiSteps(chain, every_k_schedule=2)
        """,
    ),
    "weight decay that is masked": File(
        """
        def optimizer():
            def has_axes(weights):
                return jax.tree.map(lambda weight: weight.ndim > 1, weights)
            return optax.adamw(1e-3, mask=has_axes)
        """,
    ),
    "graphs in a named tuple": File(
        """
        from typing import NamedTuple
        class Graphs(NamedTuple):
            nodes: jax.Array
            senders: jax.Array
            owner: jax.Array
        class Reads(Net):
            def __call__(self, graphs):
                nodes = graphs.nodes + graphs.nodes[graphs.senders]
                return super().__call__(jax.ops.segment_sum(nodes, graphs.owner, 4))
        def model():
            return Reads(nnx.Rngs(0))
        def batch(n):
            owner = jnp.repeat(jnp.arange(n), 3)
            nodes = jax.random.normal(jax.random.key(0), (3 * n, 8))
            return Graphs(nodes, owner, owner % 4), jnp.arange(4) % 5
        """,
        left_out=("accumulate",),
    ),
    "dropout that is left on": File(
        """
        def model():
            return Net(nnx.Rngs(params=0, dropout=1), rate=0.3)
        """,
        left_out=("accumulate",),
    ),
    "an LSTM, and dropout that is switched off": File(
        """
        class Reads(nnx.Module):
            def __init__(self, rngs):
                self.rnn = nnx.RNN(nnx.LSTMCell(8, 8, rngs=rngs))
                self.dropout = nnx.Dropout(0.0, rngs=rngs)
                self.head = nnx.Linear(8, 5, rngs=rngs)
            def __call__(self, x):
                return self.head(self.dropout(self.rnn(x[:, None] * jnp.ones((1, 3, 1)))[:, -1]))
        def model():
            return Reads(nnx.Rngs(0))
        """,
        left_out=("checkpoint",),
    ),
    "Linen": File(
        """
        class Reads(linen.Module):
            @linen.compact
            def __call__(self, x):
                steps = x[:, None] * jnp.ones((1, 3, 1))
                return linen.Dense(5)(linen.RNN(linen.OptimizedLSTMCell(8))(steps)[:, -1])
        def model():
            return Reads()
        """,
        left_out=("checkpoint",),
    ),
    "plain functions, and their weights in a tree": File(
        """
        def apply(weights, x):
            hidden = jnp.tanh(x @ weights["layers"][0]["w"] + weights["layers"][0]["b"])
            return hidden @ weights["layers"][1]["w"]
        def model():
            keys = jax.random.split(jax.random.key(0))
            first = {"w": 0.3 * jax.random.normal(keys[0], (8, 16)), "b": jnp.zeros(16)}
            return {"layers": [first, {"w": 0.3 * jax.random.normal(keys[1], (16, 5))}]}, apply
        """,
        left_out=("checkpoint",),
    ),
    "several inputs, of which one has no samples": File(
        TWO, ("checkpoint", "accumulate", "multi_steps")
    ),
    "several inputs, evaluated": File(TWO, ("amp_bf16",), scenario="eval"),
    "keywords, with the loss in what comes out": File(
        """
        class Keywords(Net):
            def __call__(self, x, labels):
                logits = super().__call__(x)
                losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
                return {"loss": losses.mean(), "logits": logits}
        def model():
            return Keywords(nnx.Rngs(0))
        def batch(n):
            return {"x": jax.random.normal(jax.random.key(0), (n, 8)), "labels": jnp.arange(n) % 5}
        del loss
        """,
    ),
    "a weight that is one number": File(
        """
        class Scaled(Net):
            def __init__(self, rngs):
                super().__init__(rngs)
                self.scale = nnx.Param(jnp.array(0.5))
            def __call__(self, x):
                return super().__call__(x) * self.scale
        def model():
            return Scaled(nnx.Rngs(0))
        def optimizer():
            return optax.adam(1e-3)
        """,
    ),
    "one number in Linen, and two optimizers": File(
        """
        class Reads(linen.Module):
            @linen.compact
            def __call__(self, x):
                return linen.Dense(5)(x) * self.param("scale", linen.initializers.constant(0.5), ())
        def model():
            return Reads()
        def optimizer():
            named = lambda tree: jax.tree.map(lambda a: "matrix" if a.ndim == 2 else "rest", tree)
            transforms = {"matrix": optax.sgd(0.1, momentum=0.9), "rest": optax.adam(1e-3)}
            return optax.multi_transform(transforms, named)
        """,
        left_out=("checkpoint",),
    ),
    "gradients that are clipped": File(
        """
        def optimizer():
            return optax.chain(optax.clip_by_global_norm(1e-3), optax.adam(1e-3))
        """,
    ),
}


# the others after changes of an adapter
OFTEN = ("dropout that is left on", "several inputs, of which one has no samples")


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, Environment],
) -> dict[str, Any]:
    """By the file's name, what became of each that is asked for."""
    folders, files = {}, []
    for name in sorted(asked(request)):
        folders[name] = tmp_path_factory.mktemp("steps")
        (folders[name] / "mine.py").write_text(BEGINNING + "\n" + textwrap.dedent(FILES[name].more))
        files.append([str(folders[name] / "mine.py"), FILES[name].scenario, FILES[name].strategies])
    result = run_inside(environment["jax"], PROGRAM, json.dumps(files), "jax")
    assert isinstance(result, dict)
    return {name: result[str(folder / "mine.py")] for name, folder in folders.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.all_cases) for name in FILES],
)
def test_common_flax_steps_are_verified(name: str, found: dict[str, Any]) -> None:
    file, rows = FILES[name], found[name]
    assert "fault" not in rows, rows["fault"]
    for strategy, row in rows.items():
        assert ("left_out" in row) == (strategy in file.left_out), row
        if "left_out" not in row:
            assert row["passed"], (strategy, row["reason"])
            assert "that is one number" not in name or row["gradients"] == 2 * 4 + 2 + 1, (
                "two blocks, the head, the number"
            )
            assert "one number in" not in name or row["gradients"] == 2 + 1
            # XLA on a CPU widens what is bfloat16
            assert row["proven"] or strategy == "amp_bf16", strategy
            assert file.scenario == "eval" or len(set(row["losses"])) == len(row["losses"]), (
                "the weights move"
            )
