"""Proofs of PyTorch's strategies say no where the strategy is undone, and yes where nobody touches it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from framebench.engine.environments import Environment
from tests.processes import quickly, run_inside

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Deed:
    """What is done to the adapter once it is built, before its first step, and whether the strategy is still to be proven."""

    name: str
    case: str
    code: str = ""
    proven: bool = False


PROGRAMS = Path(__file__).parent / "programs"
PROVE = PROGRAMS / "undone_prove.py"


def check(environment: Environment, deeds: list[Deed]) -> None:
    orders = json.dumps([(d.name, d.case, d.code) for d in deeds])
    found = run_inside(environment, PROVE, orders, variables=quickly())
    assert isinstance(found, dict)
    assert {d.name: found[d.name] for d in deeds if found[d.name][0] != d.proven} == {}


TRAIN, EVAL, GENERATE = "transformer/torch/train", "resnet50/torch/eval", "transformer/torch/generate"
AUTOCAST = "import torch; adapter.recipe.contexts.append(lambda: torch.autocast('cpu', torch.bfloat16))"

TORCH = [
    Deed("fp32", f"{TRAIN}/fp32/b4/tiny", proven=True),
    Deed("fp32, in autocast", f"{TRAIN}/fp32/b4/tiny", AUTOCAST),
    Deed("amp_bf16", f"{TRAIN}/amp_bf16/b4/tiny", proven=True),
    Deed("amp_bf16, no autocast", f"{TRAIN}/amp_bf16/b4/tiny", "adapter.recipe.contexts.clear()"),
    Deed("amp_bf16, weights in bfloat16 too", f"{TRAIN}/amp_bf16/b4/tiny", "adapter.model.bfloat16()"),
    Deed("bf16", "transformer/torch/eval/bf16/b4/tiny", proven=True),
    Deed("bf16, by autocast alone", "transformer/torch/eval/bf16/b4/tiny", "adapter.model.float(); " + AUTOCAST),
    Deed("amp_fp16", f"{TRAIN}/amp_fp16/b4/tiny", proven=True),
    Deed(
        "amp_fp16, scaler disabled", f"{TRAIN}/amp_fp16/b4/tiny",
        "import torch; adapter.recipe.scaler = torch.amp.GradScaler('cpu', enabled=False)",
    ),
    Deed(
        "amp_fp16, a scale that is read but not used", f"{TRAIN}/amp_fp16/b4/tiny",
        "adapter.recipe.scaler.scale = lambda loss: loss; adapter.recipe.scaler.step = lambda optimizer: optimizer.step(); "
        "adapter.recipe.scaler.update = lambda: None",
    ),
    Deed("no_grad", f"{EVAL}/no_grad/b4/tiny", proven=True),
    Deed("no_grad, in training mode", f"{EVAL}/no_grad/b4/tiny", "adapter.model.train()"),
    Deed("iterator", "resnet50/torch/pipeline/iterator/b4/tiny", proven=True),
    Deed("iterator, of batches that are there already", "resnet50/torch/pipeline/iterator/b4/tiny",
         "from itertools import cycle; adapter.loader.batches = cycle([next(adapter.loader.batches) for _ in range(2)])"),
    Deed("lora", "transformer/torch/finetune/lora/b4/tiny", proven=True),
    Deed("lora, and the last norm", "transformer/torch/finetune/lora/b4/tiny", "adapter.model.ln_f.requires_grad_(True)"),
    Deed("lora, and states of the last norm", "transformer/torch/finetune/lora/b4/tiny",
         "import torch; norm = adapter.model.ln_f.weight; adapter.optimizer.state[norm] = {'exp_avg': torch.zeros_like(norm)}"),
    Deed("checkpoint_linear, attention saved", f"{TRAIN}/checkpoint_linear/b4/tiny",
         "from framebench.adapters.torch.checkpoint import checkpoint_dots; checkpoint_dots(adapter); "
         "adapter.model.remat = adapter.recipe.block_runner"),
    Deed("static_cache", f"{GENERATE}/static_cache/b4/tiny", proven=True),
    Deed("static_cache, longer by each token", f"{GENERATE}/static_cache/b4/tiny",
         "from framebench.adapters.torch.generation import make_growing_cache; generation = adapter.recipe.step.__self__; "
         "generation.cache = make_growing_cache(adapter); generation.read_prompt()"),
    Deed("growing_cache", f"{GENERATE}/growing_cache/b4/tiny", proven=True),
    Deed("growing_cache, of arrays that are there", f"{GENERATE}/growing_cache/b4/tiny",
         "from framebench.adapters.torch.generation import make_static_cache; generation = adapter.recipe.step.__self__; "
         "generation.cache = make_static_cache(adapter, adapter.model); generation.read_prompt()"),
    Deed("no_cache", f"{GENERATE}/no_cache/b4/tiny", proven=True),
    Deed("int8_weights", "transformer/torch/eval/int8_weights/b4/tiny", proven=True),
    Deed("int8_weights, one of them made wide again", "transformer/torch/eval/int8_weights/b4/tiny",
         "import torch; layer = adapter.blocks()[0].fc1; layer.weight = torch.nn.Parameter(layer.weight.dequantize())"),
    Deed("int8_dynamic", "transformer/torch/eval/int8_dynamic/b4/tiny", proven=True),
    Deed("int8_dynamic, of weights alone", "transformer/torch/eval/int8_dynamic/b4/tiny",
         "for block in adapter.blocks(): block.fc1.weight.act_quant_kwargs = None"),
    Deed("adamw_8bit", f"{TRAIN}/adamw_8bit/b4/cpu", proven=True),
    Deed("adamw_8bit, one moment in float32", f"{TRAIN}/adamw_8bit/b4/cpu",
         "adapter.step(); states = next(s for s in adapter.optimizer.state.values() if hasattr(s['exp_avg'], 'codes')); "
         "states['exp_avg'] = states['exp_avg'].dequantize()"),
    Deed("adamw_8bit_bnb", f"{TRAIN}/adamw_8bit_bnb/b4/cpu", proven=True),
    Deed("adamw_8bit_bnb, large weights like small ones", f"{TRAIN}/adamw_8bit_bnb/b4/cpu",
         "adapter.optimizer.args.min_8bit_size = 10**9"),
    Deed("adafactor", f"{TRAIN}/adafactor/b4/tiny", proven=True),
    Deed("adafactor, AdamW in its place", f"{TRAIN}/adafactor/b4/tiny",
         "from framebench.adapters.torch.adapter import make_optimizer; "
         "adapter.optimizer = make_optimizer(adapter.workload.optimizer, adapter.parameters())"),
    Deed("chunked_loss", f"{TRAIN}/chunked_loss/b4/tiny", proven=True),
    Deed("chunked_loss, of all logits at once", f"{TRAIN}/chunked_loss/b4/tiny",
         "import torch; adapter.recipe.objective = lambda x, y: "
         "adapter.model_module.loss(torch.nn.functional.linear(*adapter.recipe.forward(x)), y)"),
    Deed("batch_stats", f"{EVAL}/batch_stats/b4/tiny", proven=True),
    Deed("batch_stats, of all norms but one", f"{EVAL}/batch_stats/b4/tiny", "adapter.model.get_submodule('bn1').eval()"),
    # the last one: it is for the whole process
    Deed("chunked_loss, its chunks kept", f"{TRAIN}/chunked_loss/b4/tiny",
         "from framebench.adapters.torch import steps; steps.recompute = lambda run, *xs, **options: run(*xs)"),
]  # fmt: skip


def undone(deeds: list[Deed]) -> list[Deed]:
    """What nobody touches is proven by `tests/suite/test_strategies.py` too."""
    return [deed for deed in deeds if not deed.proven]


def test_torch(environment: dict[str, Environment]) -> None:
    check(environment["torch"], undone(TORCH))


COMPILED = f"{TRAIN}/amp_bf16+checkpoint+compile/b4/tiny"
BREAK = """
import torch
block = adapter.model_module.blocks_of(adapter.model)[0]
forward = block.forward
def broken(x):
    torch._dynamo.graph_break()
    return forward(x)
block.forward = broken
"""
COMPILE = [
    Deed("compiled", COMPILED, proven=True),
    Deed("memory_budget, of all", "transformer/torch/train/memory_budget/b4/tiny",
         "import torch._functorch.config as config; config.activation_memory_budget = 1.0"),
    Deed("never compiled", COMPILED, "adapter.recipe.forward = adapter.model"),
    Deed("compile_step", f"{TRAIN}/compile_step/b4/tiny", proven=True),
    Deed("compile_step, the model alone", f"{TRAIN}/compile_step/b4/tiny",
         "import torch; adapter.recipe.forward = torch.compile(adapter.model); adapter.recipe.step = adapter.train_step"),
    Deed("compile_step, but for the update", f"{TRAIN}/compile_step/b4/tiny",
         "import torch; adapter.optimizer.step = torch._dynamo.disable(adapter.optimizer.step)"),
    Deed("captured, not compiled", COMPILED,
         "import torch; adapter.recipe.forward = torch.compile(adapter.model, backend='aot_eager')"),
    Deed("compiled in float32", COMPILED, "adapter.recipe.contexts.clear()"),
    Deed("nothing recomputed", COMPILED, "adapter.model.remat = lambda block, *xs: block(*xs)"),
    Deed("in pieces", "transformer/torch/eval/compile/b4/tiny", BREAK),
    Deed("one block alone", "transformer/torch/eval/compile/b4/tiny",
         "adapter.recipe.forward = adapter.model; adapter.model_module.blocks_of(adapter.model)[0].compile()"),
    # the last one: it is for the whole process
    Deed("compiled, but eager from the second step on", COMPILED,
         "adapter.step(); import torch; torch.compiler.set_stance('force_eager')"),
]  # fmt: skip


@pytest.mark.all_cells
def test_torch_compile(environment: dict[str, Environment]) -> None:
    """With what is combined with it: precision and recomputation of the compiled graph."""
    check(environment["torch"], COMPILE)


@pytest.mark.all_cells
def test_what_nobody_touches_is_proven(environment: dict[str, Environment]) -> None:
    check(environment["torch"], [deed for deed in TORCH if deed.proven])


ROUNDING = PROGRAMS / "undone_rounding.py"


def test_rounding_in_torch(environment: dict[str, Environment]) -> None:
    """By what the device rounds: whether fp32, and whether tf32 is proven."""
    assert run_inside(environment["torch"], ROUNDING) == {
        "": [True, False], "mm": [False, False], "convolution": [False, False], "mm convolution": [False, True]
    }  # fmt: skip
