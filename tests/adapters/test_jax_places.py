"""In which layers mixed precision must act in JAX, and in which it did not."""

from __future__ import annotations

from pathlib import Path

from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "jax_places.py"
FILE = """
import jax
import jax.numpy as jnp
from flax import nnx

class Stubborn(nnx.Linear):
    def __call__(self, x):
        return x.astype(jnp.float32) @ self.kernel[...]

class Scores(nnx.Module):  # without a type of its own, and with weights in float32
    def __init__(self, rngs):
        self.weight = nnx.Param(jax.random.normal(rngs.params(), (8, 8)))
    def __call__(self, x):
        return x @ self.weight[...]

class Block(nnx.Module):
    def __init__(self, rngs):
        self.up, self.down = nnx.Linear(8, 16, rngs=rngs), Stubborn(16, 8, rngs=rngs)
    def __call__(self, x):
        return self.down(jax.jit(jnp.tanh)(self.up(x)))

class Net(nnx.Module):
    def __init__(self, rngs):
        self.scores = Scores(rngs)
        self.blocks = nnx.List([Block(rngs), Block(rngs)])
        self.head = nnx.Linear(8, 5, rngs=rngs)
    def __call__(self, x):
        x = self.scores(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def model():
    return Net(nnx.Rngs(0))

def batch(n):
    return jnp.ones((n, 8)), jnp.arange(n) % 5

def loss(output, target):
    return output.mean()
"""


def test_layers_that_widen_their_operands_are_named(tmp_path, environment):
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    found = run_inside(environment["jax"], PROGRAM, str(file))
    expected = ["blocks.0.down: dot_general", "blocks.1.down: dot_general"]
    assert found == {"amp_bf16": expected, "amp_bf16+checkpoint": expected}
