"""JAX's loss scale reacts to an overflow, and float16 with it trains on a CPU too; Adafactor takes no layers together."""

from __future__ import annotations

import pytest

from framebench.engine.environments import Environment
from tests.processes import run_inside

pytestmark = pytest.mark.slow

LOSS_SCALE = """
import json, jax.numpy as jnp, optax
from framebench.adapters.jax.loss_scale import with_loss_scale
optimizer = with_loss_scale(optax.sgd(1.0, 0.9), 8.0, growth=2)
w = jnp.zeros(1)
state = optimizer.init(w)
seen = []
for gradient in (8.0, jnp.inf, 8.0, 8.0):
    update, state = optimizer.update(jnp.array([gradient]), state, w)
    w = optax.apply_updates(w, update)
    seen.append([float(w[0]), float(state.scale), float(state.inner[0].trace[0])])
print(json.dumps(seen))
"""


def test_an_overflow_halves_the_loss_scale_and_leaves_the_step_out(environment: dict[str, Environment]) -> None:
    """Columns: the weight, the scale, the momentum. The gradient is 8 / scale; two good steps double the scale again."""
    first, overflow, third, fourth = run_inside(environment["jax"], LOSS_SCALE)  # type: ignore[misc]
    assert first == [-1, 8, 1]
    assert overflow == [-1, 4, 1]
    assert third == pytest.approx([-3.9, 4, 2.9])
    assert fourth == pytest.approx([-8.51, 8, 4.61])


AMP_FP16 = """
import json, sys
from framebench import adapters
from framebench.worker import worker
from framebench.suite.selectors import parse
adapter = adapters.load(parse(sys.argv[1]))
adapter.build()
_, observed = worker.first_steps(adapter)
effect = adapter.effect()
print(json.dumps({"verification": worker.verify(adapter, observed), "proven": effect.proven, "evidence": effect.evidence}))
"""


@pytest.mark.parametrize(
    ("workload", "strategy"),
    [
        *(pytest.param(w, "amp_fp16", marks=pytest.mark.all_cells) for w in ("resnet50", "unet3d")),
        ("transformer", "amp_fp16"),
        ("transformer", "amp_fp16+multi_steps"),  # the scale lies inside what adds the gradients up
    ],
)
def test_a_loss_scale_trains_on_the_cpu_but_not_in_float16(
    workload: str, strategy: str, environment: dict[str, Environment]
) -> None:
    found = run_inside(environment["jax"], AMP_FP16, f"{workload}/jax/train/{strategy}/b4/tiny")
    assert isinstance(found, dict)
    assert found["verification"]["passed"], found["verification"]
    assert found["evidence"]["scale"] > 1 <= found["evidence"]["steps_without_overflow"]
    assert not found["proven"], "XLA:CPU has begun to multiply float16"


SCANNED = """
import json, sys
from framebench import adapters
from framebench.adapters.jax.checkpoint import scannable
from framebench.suite.selectors import parse
print(json.dumps([scannable(adapters.load(parse(name))) for name in sys.argv[1:]]))
"""


def test_adafactor_is_not_given_layers_as_one_stack(environment: dict[str, Environment]) -> None:
    """optax would clip, and take the size, of all of them together; AdamW takes each number alone."""
    cases = [f"transformer/jax/train/{strategy}/b4/tiny" for strategy in ("checkpoint", "adafactor+checkpoint")]
    assert run_inside(environment["jax"], SCANNED, *cases) == [True, False]
