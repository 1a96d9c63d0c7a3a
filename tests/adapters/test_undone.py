"""Proofs of effect say no where the strategy is undone behind the switch's back, and yes where nobody touches it."""

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
         "from framebench.adapters.torch.generation import growing; generation = adapter.recipe.step.__self__; "
         "generation.cache = growing(adapter); generation.begin()"),
    Deed("growing_cache", f"{GENERATE}/growing_cache/b4/tiny", proven=True),
    Deed("growing_cache, of arrays that are there", f"{GENERATE}/growing_cache/b4/tiny",
         "from framebench.adapters.torch.generation import static; generation = adapter.recipe.step.__self__; "
         "generation.cache = static(adapter, adapter.model); generation.begin()"),
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


# one array of the statistics is put back after each step
ONE_STATISTIC_STAYS = """
import jax
def stepped(step=adapter.recipe.step):
    first = jax.tree.leaves(adapter.stats)[0]
    step()
    leaves, tree = jax.tree.flatten(adapter.stats)
    adapter.stats = jax.tree.unflatten(tree, [first, *leaves[1:]])
adapter.recipe.step = stepped
"""
OTHER_PAIR = """
from framebench.adapters.jax.scenarios import canonical_pair, on_device
pair = [on_device(p) for p in canonical_pair(adapter)]
adapter.recipe.models = lambda: iter(pair)
"""
JAX = [
    Deed("fp32", "transformer/jax/train/fp32/b4/tiny", proven=True),
    Deed("fp32, asked for less", "transformer/jax/train/fp32/b4/tiny", "adapter.program.precision = 'default'"),
    Deed("batch_stats", "resnet50/jax/eval/batch_stats/b4/tiny", proven=True),
    Deed("batch_stats, of all but one", "resnet50/jax/eval/batch_stats/b4/tiny", ONE_STATISTIC_STAYS),
    Deed("static_cache", "transformer/jax/generate/static_cache/b4/tiny", proven=True),
    Deed("static_cache, another cache for each token", "transformer/jax/generate/static_cache/b4/tiny",
         "adapter.recipe.jit_options.clear(); adapter.program = adapter.programmed(adapter.graph)"),
    Deed("static_cache, of the whole sequence for each token", "transformer/jax/generate/static_cache/b4/tiny",
         "generation = adapter.recipe.step.__self__; generation.written = None; adapter.recipe.model_options.clear(); "
         "adapter.graph = adapter.split(adapter.abstract(adapter.config, False)).graph; "
         "adapter.program = adapter.programmed(adapter.graph)"),
    Deed("mu_bf16", "transformer/jax/train/mu_bf16/b4/tiny", proven=True),
    Deed("mu_bf16, in float32", "transformer/jax/train/mu_bf16/b4/tiny",
         "from framebench.adapters.jax.adapter import make_optimizer; "
         "adapter.recipe.optimizer = make_optimizer(adapter.workload.optimizer); "
         "adapter.optimizer_state = adapter.recipe.optimizer.init(adapter.params); "
         "adapter.program = adapter.programmed(adapter.graph)"),
    Deed("adafactor", "transformer/jax/train/adafactor/b4/tiny", proven=True),
    Deed("adafactor, of moments as large as the weights", "transformer/jax/train/adafactor/b4/tiny",
         "import optax; adapter.recipe.optimizer = optax.adafactor(1e-2, factored=False); "
         "adapter.optimizer_state = adapter.recipe.optimizer.init(adapter.params); "
         "adapter.program = adapter.programmed(adapter.graph)"),
    Deed("chunked_loss", "transformer/jax/train/chunked_loss/b4/tiny", proven=True),
    Deed("chunked_loss, of all logits at once", "transformer/jax/train/chunked_loss/b4/tiny",
         "adapter.recipe.loss = lambda u, x, y, c: adapter.model_module.loss(u[0].attend(u[1]), y); "
         "adapter.program = adapter.programmed(adapter.graph)"),
    Deed("chunked_loss, its chunks kept", "transformer/jax/train/chunked_loss/b4/tiny",
         "import jax; again = jax.checkpoint; jax.checkpoint = lambda f, **options: f; adapter.step(); jax.checkpoint = again"),
    Deed("accumulate", "transformer/jax/train/accumulate/b4/tiny", proven=True),
    Deed("accumulate, in one piece", "transformer/jax/train/accumulate/b4/tiny",
         "adapter.micro_batches = 1; adapter.program = adapter.programmed(adapter.graph); adapter.micro_batches = 4"),
    Deed("checkpoint, merged by the compiler", "unet3d/jax/train/checkpoint/b4/tiny", "adapter.program.options = {}"),
    Deed("checkpoint_linear, attention saved", "transformer/jax/train/checkpoint_linear/b4/tiny",
         "from framebench.adapters.jax.checkpoint import checkpoint_dots; checkpoint_dots(adapter); "
         "adapter.program = adapter.programmed(adapter.split(adapter.abstract(adapter.config, True)).graph)"),
    Deed("checkpoint_dots, merged by the compiler", "unet3d/jax/train/checkpoint_dots/b4/tiny", "adapter.program.options = {}"),
    Deed("no_donate, donated", "transformer/jax/train/no_donate/b4/tiny",
         "adapter.recipe.jit_options['donate_argnums'] = (0, 1, 2); adapter.program = adapter.programmed(adapter.graph)"),
    Deed("no_jit, compiled", "transformer/jax/train/no_jit/b4/tiny", "adapter.program.eager = False"),
    Deed("raw, of one batch", "transformer/jax/varlen/raw/b4/tiny", "adapter.stream = adapter.stream[:1]"),
    Deed("shared_trunk, of two", "resnet50/jax/pair/shared_trunk/b4/tiny", OTHER_PAIR),
    # nobody undoes it but the compiler
    Deed("amp_bf16", "transformer/jax/train/amp_bf16/b4/tiny"),
    Deed("bf16", "transformer/jax/eval/bf16/b4/tiny"),
]  # fmt: skip


def test_jax(environment: dict[str, Environment]) -> None:
    check(environment["jax"], undone(JAX))


JITTOR = [
    Deed("fp32", "transformer/jittor/train/fp32/b4/tiny", proven=True),
    Deed("no_grad", "resnet50/jittor/eval/no_grad/b4/tiny", proven=True),
    Deed("no_grad, in training mode", "resnet50/jittor/eval/no_grad/b4/tiny",
         "for module in adapter.model.modules(): module.is_train = True"),
    Deed("batch_stats", "resnet50/jittor/eval/batch_stats/b4/tiny", proven=True),
    Deed("batch_stats, of all norms but one", "resnet50/jittor/eval/batch_stats/b4/tiny", "adapter.model.bn1.is_train = False"),
    Deed("chunked_loss, of all logits at once", "transformer/jittor/train/chunked_loss/b4/tiny",
         "import jittor as jt; adapter.recipe.loss = lambda x, y: "
         "adapter.model_module.loss(jt.nn.linear(*adapter.model(x)), y)"),
    # the last one: it is for the whole process
    Deed("chunked_loss, its chunks kept", "transformer/jittor/train/chunked_loss/b4/tiny",
         "from framebench.adapters.jittor import steps; steps.checkpointed = lambda part, hidden: part(hidden)"),
]  # fmt: skip


def test_jittor(environment: dict[str, Environment]) -> None:
    check(environment["jittor"], undone(JITTOR))


@pytest.mark.all_cells
@pytest.mark.parametrize(("framework", "deeds"), [("torch", TORCH), ("jax", JAX), ("jittor", JITTOR)])
def test_what_nobody_touches_is_proven(framework: str, deeds: list[Deed], environment: dict[str, Environment]) -> None:
    check(environment[framework], [deed for deed in deeds if deed.proven])


ROUNDING = PROGRAMS / "undone_rounding.py"


def test_rounding_in_torch(environment: dict[str, Environment]) -> None:
    """By what the device rounds: whether fp32, and whether tf32 is proven."""
    assert run_inside(environment["torch"], ROUNDING) == {
        "": [True, False], "mm": [False, False], "convolution": [False, False], "mm convolution": [False, True]
    }  # fmt: skip


ROUNDING_XLA = PROGRAMS / "undone_rounding_xla.py"


def test_rounding_and_storage_in_jax(environment: dict[str, Environment]) -> None:
    """By what the device rounds: whether fp32 and tf32 are proven. By operands of the executable: whether amp_bf16 is."""
    assert run_inside(environment["jax"], ROUNDING_XLA) == {
        "": [True, False], "dot": [False, False], "conv": [False, False], "dot conv": [False, True],
        "amp": [True, False, False], "amp, stored": [False, False],
    }  # fmt: skip


# as XLA:GPU writes them: a product that Triton generates, one left to cuBLAS, a convolution left to cuDNN
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
  %conv = (f32[2,8,8,4]{3,2,1,0}, u8[0]{0}) custom-call(%c, %c), custom_call_target="__cudnn$convForward"
  %other = f32[64,16]{1,0} custom-call(%c, %c), custom_call_target="SomethingElse"
  ROOT %out = bf16[64,48]{1,0} get-tuple-element(%gemm), index=0
}
"""


def test_operands_of_a_program_for_a_gpu(environment: dict[str, Environment]) -> None:
    found = run_inside(environment["jax"], PROGRAMS / "undone_operands.py", XLA_GPU)
    assert found == {
        "float16": 2,
        "bfloat16": 2,
        "float32": 2,
    }
