"""Proofs in PyTorch say no where the strategy is undone, and yes where nobody touches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.adapters.undone import Sabotage, judge_undone, judge_untouched
from tests.processes import run_inside

pytestmark = pytest.mark.slow

ROUNDING = Path(__file__).parent / "programs" / "undone_rounding.py"

TRAIN = "transformer/torch/train"
EVAL = "transformer/torch/eval"
IMAGES = "resnet50/torch/eval"
COMPILED = f"{TRAIN}/amp_bf16+checkpoint+compile/b4/tiny"

UNTOUCHED = (
    f"{TRAIN}/fp32/b4/tiny",
    f"{TRAIN}/amp_bf16/b4/tiny",
    f"{EVAL}/bf16/b4/tiny",
    f"{TRAIN}/amp_fp16/b4/tiny",
    f"{IMAGES}/no_grad/b4/tiny",
    "resnet50/torch/pipeline/iterator/b4/tiny",
    "transformer/torch/finetune/lora/b4/tiny",
    "transformer/torch/generate/static_cache/b4/tiny",
    "transformer/torch/generate/growing_cache/b4/tiny",
    "transformer/torch/generate/no_cache/b4/tiny",
    f"{EVAL}/int8_weights/b4/tiny",
    f"{EVAL}/int8_dynamic/b4/tiny",
    f"{TRAIN}/adamw_8bit/b4/cpu",
    f"{TRAIN}/adamw_8bit_bnb/b4/cpu",
    f"{TRAIN}/adafactor/b4/tiny",
    f"{TRAIN}/chunked_loss/b4/tiny",
    f"{IMAGES}/batch_stats/b4/tiny",
)
UNTOUCHED_COMPILED = (COMPILED, f"{TRAIN}/compile_step/b4/tiny")

ENTER_AUTOCAST = """
import torch
adapter.recipe.contexts.append(lambda: torch.autocast("cpu", torch.bfloat16))
"""
DISABLE_SCALER = """
import torch
adapter.recipe.scaler = torch.amp.GradScaler("cpu", enabled=False)
"""
IGNORE_SCALE = """
scaler = adapter.recipe.scaler
scaler.scale = lambda loss: loss
scaler.step = lambda optimizer: optimizer.step()
scaler.update = lambda: None
"""
REPEAT_TWO_BATCHES = """
from itertools import cycle
batches = [next(adapter.loader.batches) for _ in range(2)]
adapter.loader.batches = cycle(batches)
"""
KEEP_STATES_OF_NORM = """
import torch
norm = adapter.model.ln_f.weight
adapter.optimizer.state[norm] = {"exp_avg": torch.zeros_like(norm)}
"""
SAVE_ATTENTION = """
from framebench.adapters.torch.checkpoint import checkpoint_dots
checkpoint_dots(adapter)
adapter.model.block_runner = adapter.recipe.block_runner
"""
GROW_CACHE = """
from framebench.adapters.torch.generation import make_growing_cache
generator = adapter.recipe.step.__self__
generator.cache = make_growing_cache(adapter)
generator.read_prompt()
"""
WRITE_INTO_CACHE = """
from framebench.adapters.torch.generation import make_static_cache
generator = adapter.recipe.step.__self__
generator.cache = make_static_cache(adapter, adapter.model)
generator.read_prompt()
"""
WIDEN_ONE_LAYER = """
import torch
layer = adapter.blocks()[0].fc1
layer.weight = torch.nn.Parameter(layer.weight.dequantize())
"""
KEEP_WIDE_INPUTS = """
for block in adapter.blocks():
    block.fc1.weight.act_quant_kwargs = None
"""
WIDEN_ONE_MOMENT = """
adapter.step()
states = [s for s in adapter.optimizer.state.values() if hasattr(s["exp_avg"], "codes")]
states[0]["exp_avg"] = states[0]["exp_avg"].dequantize()
"""
USE_ADAMW = """
from framebench.adapters.torch.adapter import make_optimizer
adapter.optimizer = make_optimizer(adapter.workload.optimizer, adapter.parameters())
"""
COMPUTE_ALL_LOGITS = """
import torch
def objective(x, y):
    logits = torch.nn.functional.linear(*adapter.recipe.forward(x))
    return adapter.model_module.loss(logits, y)
adapter.recipe.objective = objective
"""
KEEP_CHUNKS = """
from framebench.adapters.torch import steps
steps.recompute = lambda run, *xs, **options: run(*xs)
"""
SABOTAGES = [
    Sabotage("fp32, in autocast", f"{TRAIN}/fp32/b4/tiny", ENTER_AUTOCAST),
    Sabotage(
        "amp_bf16, no autocast",
        f"{TRAIN}/amp_bf16/b4/tiny",
        "adapter.recipe.contexts.clear()",
    ),
    Sabotage(
        "amp_bf16, weights in bfloat16 too",
        f"{TRAIN}/amp_bf16/b4/tiny",
        "adapter.model.bfloat16()",
    ),
    Sabotage(
        "bf16, by autocast alone",
        f"{EVAL}/bf16/b4/tiny",
        "adapter.model.float()" + ENTER_AUTOCAST,
    ),
    Sabotage("amp_fp16, scaler disabled", f"{TRAIN}/amp_fp16/b4/tiny", DISABLE_SCALER),
    Sabotage(
        "amp_fp16, a scale that is read but not used",
        f"{TRAIN}/amp_fp16/b4/tiny",
        IGNORE_SCALE,
    ),
    Sabotage("no_grad, in training mode", f"{IMAGES}/no_grad/b4/tiny", "adapter.model.train()"),
    Sabotage(
        "iterator, of batches that are there already",
        "resnet50/torch/pipeline/iterator/b4/tiny",
        REPEAT_TWO_BATCHES,
    ),
    Sabotage(
        "lora, and the last norm",
        "transformer/torch/finetune/lora/b4/tiny",
        "adapter.model.ln_f.requires_grad_(True)",
    ),
    Sabotage(
        "lora, and states of the last norm",
        "transformer/torch/finetune/lora/b4/tiny",
        KEEP_STATES_OF_NORM,
    ),
    Sabotage(
        "checkpoint_linear, attention saved",
        f"{TRAIN}/checkpoint_linear/b4/tiny",
        SAVE_ATTENTION,
    ),
    Sabotage(
        "static_cache, longer by each token",
        "transformer/torch/generate/static_cache/b4/tiny",
        GROW_CACHE,
    ),
    Sabotage(
        "growing_cache, of arrays that are there",
        "transformer/torch/generate/growing_cache/b4/tiny",
        WRITE_INTO_CACHE,
    ),
    Sabotage(
        "int8_weights, one of them made wide again",
        f"{EVAL}/int8_weights/b4/tiny",
        WIDEN_ONE_LAYER,
    ),
    Sabotage(
        "int8_dynamic, of weights alone",
        f"{EVAL}/int8_dynamic/b4/tiny",
        KEEP_WIDE_INPUTS,
    ),
    Sabotage(
        "adamw_8bit, one moment in float32",
        f"{TRAIN}/adamw_8bit/b4/cpu",
        WIDEN_ONE_MOMENT,
    ),
    Sabotage(
        "adamw_8bit_bnb, large weights like small ones",
        f"{TRAIN}/adamw_8bit_bnb/b4/cpu",
        "adapter.optimizer.args.min_8bit_size = 10**9",
    ),
    Sabotage("adafactor, AdamW in its place", f"{TRAIN}/adafactor/b4/tiny", USE_ADAMW),
    Sabotage(
        "chunked_loss, of all logits at once",
        f"{TRAIN}/chunked_loss/b4/tiny",
        COMPUTE_ALL_LOGITS,
    ),
    Sabotage(
        "batch_stats, of all norms but one",
        f"{IMAGES}/batch_stats/b4/tiny",
        "adapter.model.get_submodule('bn1').eval()",
    ),
    # the last one: it is for the whole process
    Sabotage("chunked_loss, its chunks kept", f"{TRAIN}/chunked_loss/b4/tiny", KEEP_CHUNKS),
]


def test_undone_strategies_are_not_proven(environment: dict[str, Environment]) -> None:
    proven, _ = judge_undone(environment["torch"], SABOTAGES)
    assert proven == {}


@pytest.mark.all_cases
def test_untouched_strategies_are_proven(environment: dict[str, Environment]) -> None:
    _, refuted = judge_untouched(environment["torch"], UNTOUCHED)
    assert refuted == {}


KEEP_ALL_ACTIVATIONS = """
import torch._functorch.config as config
config.activation_memory_budget = 1.0
"""
COMPILE_THE_MODEL_ALONE = """
import torch
adapter.recipe.forward = torch.compile(adapter.model)
adapter.recipe.step = adapter.train_step
"""
LEAVE_THE_UPDATE_EAGER = """
import torch
adapter.optimizer.step = torch._dynamo.disable(adapter.optimizer.step)
"""
CAPTURE_WITHOUT_COMPILING = """
import torch
adapter.recipe.forward = torch.compile(adapter.model, backend="aot_eager")
"""
BREAK_THE_GRAPH = """
import torch
block = adapter.model_module.blocks_of(adapter.model)[0]
forward = block.forward
def broken(x):
    torch._dynamo.graph_break()
    return forward(x)
block.forward = broken
"""
COMPILE_ONE_BLOCK = """
adapter.recipe.forward = adapter.model
adapter.model_module.blocks_of(adapter.model)[0].compile()
"""
STOP_COMPILING = """
import torch
adapter.step()
torch.compiler.set_stance("force_eager")
"""
COMPILED_SABOTAGES = [
    Sabotage(
        "memory_budget, of all",
        f"{TRAIN}/memory_budget/b4/tiny",
        KEEP_ALL_ACTIVATIONS,
    ),
    Sabotage("never compiled", COMPILED, "adapter.recipe.forward = adapter.model"),
    Sabotage(
        "compile_step, the model alone",
        f"{TRAIN}/compile_step/b4/tiny",
        COMPILE_THE_MODEL_ALONE,
    ),
    Sabotage(
        "compile_step, but for the update",
        f"{TRAIN}/compile_step/b4/tiny",
        LEAVE_THE_UPDATE_EAGER,
    ),
    Sabotage("captured, not compiled", COMPILED, CAPTURE_WITHOUT_COMPILING),
    Sabotage("compiled in float32", COMPILED, "adapter.recipe.contexts.clear()"),
    Sabotage(
        "nothing recomputed",
        COMPILED,
        "adapter.model.block_runner = lambda block, *xs: block(*xs)",
    ),
    Sabotage("in pieces", f"{EVAL}/compile/b4/tiny", BREAK_THE_GRAPH),
    Sabotage("one block alone", f"{EVAL}/compile/b4/tiny", COMPILE_ONE_BLOCK),
    # the last one: it is for the whole process
    Sabotage("compiled, but eager from the second step on", COMPILED, STOP_COMPILING),
]


@pytest.mark.all_cases
def test_undone_compilation_is_not_proven(environment: dict[str, Environment]) -> None:
    """The compiled cases are combined with a precision and with recomputation."""
    proven, _ = judge_undone(environment["torch"], COMPILED_SABOTAGES)
    assert proven == {}


@pytest.mark.all_cases
def test_untouched_compilation_is_proven(environment: dict[str, Environment]) -> None:
    _, refuted = judge_untouched(environment["torch"], UNTOUCHED_COMPILED)
    assert refuted == {}


def test_rounding_decides_whether_fp32_and_tf32_are_proven(
    environment: dict[str, Environment],
) -> None:
    """For each set of operators that round: whether fp32 is proven, and whether tf32 is."""
    assert run_inside(environment["torch"], ROUNDING) == {
        "": [True, False],
        "mm": [False, False],
        "convolution": [False, False],
        "mm convolution": [False, True],
    }
