"""How PyTorch switches on the strategies of `suite/catalog/steps.py`, and what proves that they were on. See `base.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute

from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.observe import Arrays
from framebench.adapters.torch.process import FUSED
from framebench.models.spec import OWN
from framebench.suite.trees import called

switch = Switches()


@switch
def accumulate(run: TorchAdapter) -> Proof:
    return lambda e: (
        e["forward_passes"] == run.micro * run.evaluations
        and e["samples_per_pass"] * run.micro * run.case.ranks == run.case.batch
    )


@switch
def chunked_loss(run: TorchAdapter, chunks: int) -> Proof:
    run.recipe.model_options["head"] = run.model_module.unprojected

    def part(hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        logits = F.linear(hidden, embedding)
        return cast(Tensor, run.model_module.loss_sum(logits[None], targets[None]))

    def objective(x: Tensor, y: Tensor) -> Tensor:
        hidden, embedding = cast(tuple[Tensor, Tensor], run.recipe.forward(x))
        parts = zip(hidden.flatten(0, 1).chunk(chunks), y.flatten().chunk(chunks))
        losses = [recompute(part, h, embedding, targets, use_reentrant=False) for h, targets in parts]
        return torch.stack(losses).sum() / y.numel()

    run.recipe.objective = objective

    def counted(objective: Callable[[Tensor, Tensor], Tensor]) -> Arrays:
        was, run.recipe.objective = run.recipe.objective, objective
        with Arrays(run.inputs[1].numel() // run.micro, run.config.vocabulary, run.config.width) as seen:
            run.backward_pass()  # an update that compiles itself refuses to run beside what counts
        run.recipe.objective = was
        return seen

    def proof(e: Evidence) -> bool:
        """Beside those of a step that ends before the head."""
        seen, without = counted(run.recipe.objective), counted(lambda x, _: run.recipe.forward(x)[0].sum())
        e |= {"as_large_as_the_logits": seen.large, "as_large_without_a_head": without.large, "softmaxes": seen.softmaxes}
        return seen.large == without.large and seen.softmaxes == 2 * chunks * run.micro

    return proof


@switch
def compile(run: TorchAdapter, mode: str | None = None, budget: float = 1.0) -> Proof:
    """`budget`: the share of the activations kept by default that may be kept."""
    import torch._inductor.config
    from torch._dynamo.utils import counters

    torch._inductor.config.fallback_random = run.case.workload == OWN  # a user's dropout as eager steps draw it, so that it can
    # be verified; Inductor's own numbers are others
    run.process.activation_budget = budget
    torch._dynamo.reset()
    counters.clear()

    def attach(model: nn.Module) -> None:
        run.recipe.forward = torch.compile(model, mode=mode)

    def proof(e: Evidence) -> bool:
        """Each forward pass was one call of one graph, and each backward pass another; no product was computed outside of them.
        CUDA graphs are seen when they are launched, kernel variants when the compiler has measured them."""
        e["graph_breaks"] = dict(counters["graph_break"])
        e["inductor"] = {k: int(v) for k, v in counters["inductor"].items()}
        regions = e["compiled_regions"] - e["regions_of_the_update"]  # an 8-bit optimizer compiles its own
        forward = e["graphs_forward"] - e["graphs_of_the_update"]
        whole = regions == forward == e["forward_passes"] == run.micro
        backward = e["graphs_backward"] == run.micro * run.case.stage.trains
        seen = 1
        if mode == "reduce-overhead":
            e["graph_launches"] = seen = _launches(run)
        elif mode == "max-autotune":
            e["kernels_tried"] = seen = sum(n for k, n in e["inductor"].items() if k.startswith("select_algorithm"))
        elif budget < 1:
            seen = e["products_recomputed"]
        return whole and backward and not e["graph_breaks"] and e["products_outside_graphs"] == 0 and bool(seen)

    run.readings.profiled = True
    run.recipe.on_model.append(attach)
    return proof


@switch
def compile_step(run: TorchAdapter) -> Proof:
    """Without trace_autograd_ops Dynamo breaks the graph at `backward`. The optimizer breaks it by itself, at both ends of its
    `step`: the update is a graph of its own."""
    import torch._dynamo.config

    torch._dynamo.config.trace_autograd_ops = True
    torch._dynamo.reset()
    run.recipe.claim("forward", "objective", "backward", "scaler")
    run.readings.profiled, run.readings.passes_told = True, False

    def attach(model: Any) -> None:
        def gradients(x: Tensor, y: Tensor) -> Tensor:
            loss: Tensor = run.model_module.loss(called(model, x), y)
            loss.backward()
            return loss.detach()

        passes, update = torch.compile(gradients, fullgraph=True), torch.compile(lambda: run.optimizer.step())

        def step() -> None:
            run.optimizer.zero_grad()
            run.output = passes(*run.next_batch())
            update()

        run.recipe.step = step

    def proof(e: Evidence) -> bool:
        """The engine that walks through autograd's graph had nothing to do, and no operator ran by itself."""
        graphs = (e["graphs_forward"], e["graphs_backward"]) == (2, 0)
        return graphs and e["nodes_of_autograd"] == e["operators_outside_graphs"] == 0 < sum(e["products"].values())

    run.recipe.on_model.append(attach)
    return proof


def _launches(run: TorchAdapter) -> int:
    """CUDA graphs that one step launches, as the profiler sees the runtime being called."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        run.one_step()
        run.synchronize()
    return sum(event.count for event in seen.key_averages() if event.key == "cudaGraphLaunch")


@switch
def jit_script(run: TorchAdapter) -> Proof:
    """Each block replaced by its TorchScript form, which shares its weights."""
    scripted: dict[nn.Module, torch.jit.ScriptModule] = {}
    runs: list[nn.Module] = []

    def attach(model: Any) -> None:
        scripted.update({block: torch.jit.script(block) for block in run.model_module.blocks_of(model)})

    def run_scripted(block: nn.Module, *xs: Any) -> Any:
        runs.append(block)
        return scripted[block](*xs)

    def proof(e: Evidence) -> bool:
        runs.clear()
        run.one_step()
        e["script_modules"], e["script_block_runs"] = len(scripted), len(runs)
        others = e["blocks"] - len(scripted)  # a teacher's
        return e["script_block_runs"] == run.micro * len(scripted) > 0 and e["block_runs"] in (None, run.micro * others)

    run.recipe.block_runner = run_scripted
    run.recipe.on_model.append(attach)
    return proof


def _by_products(run: TorchAdapter, e: Evidence) -> bool:
    """Attention in products around a softmax, one for each block that ran. Where blocks are not seen one by one, at least one
    for each; a compiler makes it part of a kernel, and leaves the products."""
    # the second may call the first
    softmaxes = max(e["operators"].get(name, 0) for name in ("_softmax", "_safe_softmax"))
    if e["block_runs"]:
        return bool(softmaxes == e["block_runs"])
    return bool(max(softmaxes, e["operators"].get("bmm", 0) // 2) >= run.micro * e["blocks"] > 0)


@switch
def attention_plain(run: TorchAdapter) -> Proof:
    run.recipe.model_options["attend"] = run.model_module.plain

    def proof(e: Evidence) -> bool:
        fused = sum(n for name, n in e["operators"].items() if name.startswith("_scaled_dot_product"))
        return fused == 0 and _by_products(run, e)

    return proof


@switch
def sdpa(run: TorchAdapter, backend: str) -> Proof:
    """Where the one kernel that is allowed cannot do it, PyTorch raises. Switched for the whole process: a context would not
    hold for what checkpointing computes again."""
    run.process.attention = (backend,)

    def proof(e: Evidence) -> bool:
        e["attention"] = {
            n: k for n, k in e["operators"].items() if n.startswith("_scaled_dot_product") and "backward" not in n
        }
        fused = {n for n in e["attention"] if "math" not in n}
        return fused == {FUSED[backend]} - {""} and (bool(fused) or _by_products(run, e))

    return proof


@switch
def autotune(run: TorchAdapter) -> Proof:
    """Every algorithm that is tried gets a workspace of its own: a shape that was never met costs more allocations."""
    run.process.tries_algorithms = True

    def allocations() -> int:
        """Of one convolution, by the settings in force."""
        x, w = torch.ones(2, 48, 40, 40, device=run.where), torch.ones(48, 48, 3, 3, device=run.where)
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        F.conv2d(x, w)
        return torch.cuda.memory_stats()["allocation.all.allocated"] - before

    def proof(e: Evidence) -> bool:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=torch.backends.cudnn.allow_tf32):
            e["allocations_untried"] = allocations()
        e["allocations_tried"] = allocations()
        return e["allocations_tried"] > e["allocations_untried"]

    return proof
