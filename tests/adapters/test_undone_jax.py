"""Proofs in JAX say no where the strategy is undone, and yes where nobody touches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.adapters.undone import Sabotage, judge_undone, judge_untouched
from tests.processes import run_inside

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
ROUNDING = PROGRAMS / "undone_rounding_xla.py"
OPERANDS = PROGRAMS / "undone_operands.py"

UNTOUCHED = (
    "transformer/jax/train/fp32/b4/tiny",
    "resnet50/jax/eval/batch_stats/b4/tiny",
    "transformer/jax/generate/static_cache/b4/tiny",
    "transformer/jax/train/mu_bf16/b4/tiny",
    "transformer/jax/train/adafactor/b4/tiny",
    "transformer/jax/train/chunked_loss/b4/tiny",
    "transformer/jax/train/accumulate/b4/tiny",
)
# nobody undoes these but XLA:CPU
UNDONE_BY_XLA = ("transformer/jax/train/amp_bf16/b4/tiny", "transformer/jax/eval/bf16/b4/tiny")

REMAKE_PROGRAM = "\nadapter.program = adapter.make_program(adapter.graph)"
INIT_OPTIMIZER = "\nadapter.optimizer_state = adapter.recipe.optimizer.init(adapter.params)"
REMAKE_OPTIMIZER = INIT_OPTIMIZER + REMAKE_PROGRAM
KEEP_ONE_STATISTIC = """
import jax
def step(original_step=adapter.recipe.step):
    first = jax.tree.leaves(adapter.stats)[0]
    original_step()
    leaves, tree = jax.tree.flatten(adapter.stats)
    adapter.stats = jax.tree.unflatten(tree, [first, *leaves[1:]])
adapter.recipe.step = step
"""
STOP_WRITING_CACHE = """
adapter.recipe.step.__self__.writer = None
adapter.recipe.model_options.clear()
adapter.graph = adapter.take_apart(adapter.make_abstract(adapter.config, False)).graph
"""
KEEP_MOMENTS_IN_FLOAT32 = """
from framebench.adapters.jax.adapter import make_optimizer
adapter.recipe.optimizer = make_optimizer(adapter.workload.optimizer)
"""
KEEP_WHOLE_MOMENTS = """
import optax
adapter.recipe.optimizer = optax.adafactor(1e-2, factored=False)
"""
COMPUTE_ALL_LOGITS = """
def loss(unprojected, x, y, constants):
    embedding, hidden = unprojected
    return adapter.model_module.loss(embedding.attend(hidden), y)
adapter.recipe.loss = loss
"""
KEEP_CHUNKS = """
import jax
original = jax.checkpoint
jax.checkpoint = lambda function, **options: function
adapter.step()
jax.checkpoint = original
"""
SAVE_ATTENTION = """
from framebench.adapters.jax.checkpoint import checkpoint_dots
checkpoint_dots(adapter)
model = adapter.make_abstract(adapter.config, True)
adapter.program = adapter.make_program(adapter.take_apart(model).graph)
"""
HOLD_TWO_MODELS = """
from framebench.adapters.jax.scenarios import copy_to_device, load_pair
pair = [copy_to_device(model) for model in load_pair(adapter)]
adapter.recipe.models = lambda: iter(pair)
"""
SABOTAGES = [
    Sabotage(
        "fp32, asked for less",
        "transformer/jax/train/fp32/b4/tiny",
        "adapter.program.precision = 'default'",
    ),
    Sabotage(
        "batch_stats, of all but one",
        "resnet50/jax/eval/batch_stats/b4/tiny",
        KEEP_ONE_STATISTIC,
    ),
    Sabotage(
        "static_cache, another cache for each token",
        "transformer/jax/generate/static_cache/b4/tiny",
        "adapter.recipe.jit_options.clear()" + REMAKE_PROGRAM,
    ),
    Sabotage(
        "static_cache, of the whole sequence for each token",
        "transformer/jax/generate/static_cache/b4/tiny",
        STOP_WRITING_CACHE + REMAKE_PROGRAM,
    ),
    Sabotage(
        "mu_bf16, in float32",
        "transformer/jax/train/mu_bf16/b4/tiny",
        KEEP_MOMENTS_IN_FLOAT32 + REMAKE_OPTIMIZER,
    ),
    Sabotage(
        "adafactor, of moments as large as the weights",
        "transformer/jax/train/adafactor/b4/tiny",
        KEEP_WHOLE_MOMENTS + REMAKE_OPTIMIZER,
    ),
    Sabotage(
        "chunked_loss, of all logits at once",
        "transformer/jax/train/chunked_loss/b4/tiny",
        COMPUTE_ALL_LOGITS + REMAKE_PROGRAM,
    ),
    Sabotage(
        "chunked_loss, its chunks kept",
        "transformer/jax/train/chunked_loss/b4/tiny",
        KEEP_CHUNKS,
    ),
    Sabotage(
        "accumulate, in one piece",
        "transformer/jax/train/accumulate/b4/tiny",
        "adapter.micro_batches = 1" + REMAKE_PROGRAM + "\nadapter.micro_batches = 4",
    ),
    Sabotage(
        "checkpoint, merged by the compiler",
        "unet3d/jax/train/checkpoint/b4/tiny",
        "adapter.program.options = {}",
    ),
    Sabotage(
        "checkpoint_linear, attention saved",
        "transformer/jax/train/checkpoint_linear/b4/tiny",
        SAVE_ATTENTION,
    ),
    Sabotage(
        "checkpoint_dots, merged by the compiler",
        "unet3d/jax/train/checkpoint_dots/b4/tiny",
        "adapter.program.options = {}",
    ),
    Sabotage(
        "no_donate, donated",
        "transformer/jax/train/no_donate/b4/tiny",
        "adapter.recipe.jit_options['donate_argnums'] = (0, 1, 2)" + REMAKE_PROGRAM,
    ),
    Sabotage(
        "no_jit, compiled",
        "transformer/jax/train/no_jit/b4/tiny",
        "adapter.program.eager = False",
    ),
    Sabotage(
        "raw, of one batch",
        "transformer/jax/varlen/raw/b4/tiny",
        "adapter.stream = adapter.stream[:1]",
    ),
    Sabotage(
        "shared_trunk, of two",
        "resnet50/jax/pair/shared_trunk/b4/tiny",
        HOLD_TWO_MODELS,
    ),
]


def test_undone_strategies_are_not_proven(environment: dict[str, Environment]) -> None:
    proven, _ = judge_undone(environment["jax"], SABOTAGES)
    assert proven == {}


def test_strategies_that_xla_undoes_are_not_proven(environment: dict[str, Environment]) -> None:
    proven, _ = judge_untouched(environment["jax"], UNDONE_BY_XLA)
    assert proven == {}


@pytest.mark.all_cases
def test_untouched_strategies_are_proven(environment: dict[str, Environment]) -> None:
    _, refuted = judge_untouched(environment["jax"], UNTOUCHED)
    assert refuted == {}


def test_precision_is_proven_by_what_the_device_rounds_and_stores(
    environment: dict[str, Environment],
) -> None:
    """By what it rounds, whether fp32 and tf32 are proven; by what it stores, amp_bf16."""
    assert run_inside(environment["jax"], ROUNDING) == {
        "": [True, False],
        "dot": [False, False],
        "conv": [False, False],
        "dot conv": [False, True],
        "amp": [True, False, False],
        "amp, stored": [False, False],
    }


# as XLA:GPU writes them: a product of Triton, one left to cuBLAS, a convolution left to cuDNN
XLA_GPU = """
HloModule jit_step

%gemm_fusion_dot_computation (p.0: f16[64,16], p.1: f16[16,48]) -> f16[64,48] {
  %p.0 = f16[64,16]{1,0} parameter(0)
  %p.1 = f16[16,48]{1,0} parameter(1)
  ROOT %dot.1 = f16[64,48]{1,0} dot(%p.0, %p.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (a: bf16[64,16], b: bf16[16,48], c: f32[64,16]) -> bf16[64,48] {
  %a = bf16[64,16]{1,0} parameter(0)
  %b = bf16[16,48]{1,0} parameter(1)
  %c = f32[64,16]{1,0} parameter(2)
  %gemm = (bf16[64,48]{1,0}, s8[4194304]{0}) custom-call(%a, %b), custom_call_target="__cublas$gemm"
  %conv = (f32[2,8,8,4]{3,2,1,0}, u8[0]{0}) custom-call(%c, %c), \
custom_call_target="__cudnn$convForward"
  %other = f32[64,16]{1,0} custom-call(%c, %c), custom_call_target="SomethingElse"
  ROOT %out = bf16[64,48]{1,0} get-tuple-element(%gemm), index=0
}
"""


def test_operands_of_libraries_are_counted_in_a_program_for_a_gpu(
    environment: dict[str, Environment],
) -> None:
    operands = run_inside(environment["jax"], OPERANDS, XLA_GPU)
    assert operands == {"float16": 2, "bfloat16": 2, "float32": 2}
