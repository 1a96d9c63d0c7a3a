"""PyTorch's switches for the strategies of `framebench/strategies/steps.toml`."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute

from framebench.adapters.base import Switches
from framebench.adapters.proof import (
    Evidence,
    Proof,
    above,
    below,
    check,
    equal_to,
    expect,
    other_than,
)
from framebench.adapters.torch.adapter import TorchAdapter
from framebench.adapters.torch.device import FUSED
from framebench.adapters.torch.profiled import record_events
from framebench.suite.trees import call_with, list_arrays, read_batch_length

switch = Switches()
SELECTION = "select_algorithm"  # TorchInductor's counters of kernels that it has measured


@switch
def accumulate(adapter: TorchAdapter) -> Proof:
    """Prove that a step makes a forward pass for each micro-batch, of a part of the batch.

    There is nothing to switch on: the adapter cuts the batch by the case's `micro_batches`.
    """
    micro_batches = adapter.micro_batches

    def count_parts() -> Evidence:
        """Count samples and elements of micro-batches, and the passes that a step must make."""
        # Samples are those of the last micro-batch, since a step's counters have the length of its
        # last pass. Elements count too: a user's graphs or lists of images have no axis of samples.
        inputs = [x for x, _ in adapter.cut_batch(adapter.inputs, micro_batches)]
        return {
            "passes_expected": micro_batches * adapter.loss_evaluations,
            "samples_in_last_part": read_batch_length(inputs[-1]),
            "elements_in_largest_part": max(count_elements(x) for x in inputs),
            "elements_in_batch": count_elements(adapter.inputs[0]),
        }

    proof = expect(
        forward_passes=equal_to("passes_expected"),
        samples_per_pass=equal_to("samples_in_last_part"),
        elements_in_largest_part=below("elements_in_batch"),
    )
    return proof.counting(count_parts)


def count_elements(inputs: Any) -> int:
    """Return how many elements the tensors of a batch have."""
    return sum(tensor.numel() for tensor in list_arrays(inputs))


@switch
def chunked_loss(adapter: TorchAdapter, chunks: int) -> Proof:
    """Compute logits and loss chunk by chunk of the tokens, and again for the backward pass."""
    adapter.recipe.model_options["head"] = adapter.model_module.skip_head

    def compute_part(hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        logits = F.linear(hidden, embedding)
        return cast(Tensor, adapter.model_module.loss_sum(logits[None], targets[None]))

    def objective(x: Tensor, y: Tensor) -> Tensor:
        hidden, embedding = cast(tuple[Tensor, Tensor], adapter.recipe.forward(x))
        chunk_pairs = zip(hidden.flatten(0, 1).chunk(chunks), y.flatten().chunk(chunks))
        losses = []
        for h, targets in chunk_pairs:
            losses.append(recompute(compute_part, h, embedding, targets, use_reentrant=False))
        return torch.stack(losses).sum() / y.numel()

    adapter.recipe.objective = objective

    # one for each chunk in the forward pass, and again in the backward pass
    return expect({"operators._log_softmax": 2 * chunks * adapter.micro_batches})


@switch
def compile(adapter: TorchAdapter, mode: str | None = None, budget: float = 1.0) -> Proof:
    """Compile the model.

    Args:
        adapter: The adapter.
        mode: The mode of torch.compile.
        budget: The share of the activations kept by default that may be kept.
    """
    import torch._inductor.config
    from torch._dynamo.utils import counters

    # Inductor draws other random numbers than eager steps, by which a user's dropout is verified
    torch._inductor.config.fallback_random = adapter.is_user_model
    adapter.process.activation_budget = budget
    torch._dynamo.reset()
    counters.clear()

    def attach(model: nn.Module) -> None:
        adapter.recipe.forward = torch.compile(model, mode=mode)

    def count_compiled() -> Evidence:
        """Count the breaks of the graph, and the evidence of the compiler's mode."""
        counted: Evidence = {"graph_breaks": dict(counters["graph_break"])}
        if mode == "reduce-overhead":
            names = [event.name for event in record_events(adapter)]
            counted["graph_launches"] = names.count("cudaGraphLaunch")
        elif mode == "max-autotune":
            trials = [n for name, n in counters["inductor"].items() if name.startswith(SELECTION)]
            counted["kernels_tried"] = sum(trials)
        return counted

    def is_whole(e: Evidence) -> bool:
        """Return whether each forward pass was one call of one graph.

        An 8-bit optimizer compiles its own update.
        """
        regions = e["compiled_regions"] - e["regions_of_the_update"]
        graphs = e["graphs_forward"] - e["graphs_of_the_update"]
        return bool(regions == graphs == e["forward_passes"])

    proof = expect(
        graph_breaks={},
        forward_passes=adapter.micro_batches,
        graphs_backward=adapter.micro_batches if adapter.case.scenario_spec.trains else 0,
        products_outside_graphs=0,
    )
    proof &= check(is_whole, "each forward pass is one call of one graph")
    # CUDA graphs are visible when they are launched, variants of kernels when they are measured
    if mode == "reduce-overhead":
        proof &= expect(graph_launches=above(0))
    elif mode == "max-autotune":
        proof &= expect(kernels_tried=above(0))
    elif budget < 1:
        proof &= expect(products_recomputed=above(0))
    adapter.readings.uses_profiler = True
    adapter.recipe.on_model.append(attach)
    return proof.counting(count_compiled)


@switch
def compile_step(adapter: TorchAdapter) -> Proof:
    """Compile the forward and backward pass as one graph, and the update as another.

    Without trace_autograd_ops Dynamo breaks the graph at `backward`. The optimizer breaks it by
    itself, at both ends of its `step`.
    """
    import torch._dynamo.config

    torch._dynamo.config.trace_autograd_ops = True
    torch._dynamo.reset()
    adapter.recipe.claim("forward", "objective", "backward", "scaler")
    adapter.readings.uses_profiler = True
    adapter.readings.counts_passes = False

    def attach(model: Any) -> None:
        """Replace the step by two compiled functions: both passes, and the update."""

        def compute_gradients(x: Tensor, y: Tensor) -> Tensor:
            target = adapter.find_target((x, y))
            loss: Tensor = adapter.model_module.loss(call_with(model, x), target)
            loss.backward()
            return loss.detach()

        passes = torch.compile(compute_gradients, fullgraph=True)
        update = torch.compile(lambda: adapter.optimizer.step())

        def step() -> None:
            adapter.optimizer.zero_grad()
            adapter.output = passes(*adapter.next_batch())
            update()

        adapter.recipe.step = step

    adapter.recipe.on_model.append(attach)
    return expect(
        graphs_forward=2,  # forward with backward, and the update
        graphs_backward=0,
        nodes_of_autograd=0,  # the engine that walks through autograd's graph had nothing to do
        operators_outside_graphs=0,
        products=other_than({}),  # the profiler saw the matmuls
    )


@switch
def jit_script(adapter: TorchAdapter) -> Proof:
    """Replace each block by its TorchScript form, which shares its weights."""
    scripted: dict[nn.Module, torch.jit.ScriptModule] = {}
    runs: Counter[str] = Counter()

    def attach(model: Any) -> None:
        for block in adapter.model_module.blocks_of(model):
            scripted[block] = torch.jit.script(block)

    def run_scripted(block: nn.Module, *xs: Any) -> Any:
        runs["script_block_runs"] += 1
        return scripted[block](*xs)

    def count_runs() -> Evidence:
        runs.clear()
        adapter.one_step()
        return {"script_modules": len(scripted), "script_block_runs": runs["script_block_runs"]}

    adapter.recipe.block_runner = run_scripted
    adapter.recipe.on_model.append(attach)
    proof = expect(
        script_modules=above(0),
        script_block_runs=equal_to("script_modules", times=adapter.micro_batches),
    )
    return proof.counting(count_runs)


def attends_by_products(adapter: TorchAdapter, e: Evidence) -> bool:
    """Return whether attention is computed in matmuls around a softmax in each block.

    One softmax is expected for each block that ran. If single runs of blocks are not visible, at
    least one is expected for each block. A compiler fuses the softmax into a kernel, but leaves the
    matmuls, so pairs of matmuls count too.
    """
    operators: Counter[str] = Counter(e["operators"])
    # `_safe_softmax` may call `_softmax`: one softmax must not count as two
    softmaxes = max(operators["_softmax"], operators["_safe_softmax"])
    if e["block_runs"]:
        return bool(softmaxes == e["block_runs"])
    pairs_of_products = operators["bmm"] // 2  # the scores, and the values weighted by them
    expected = adapter.micro_batches * e["blocks"]
    return bool(expected > 0 and max(softmaxes, pairs_of_products) >= expected)


def list_attention_kernels(e: Evidence) -> list[str]:
    """Return the operators that compute attention as a whole in a forward pass."""
    names = [name for name in e["operators"] if name.startswith("_scaled_dot_product")]
    return [name for name in names if "backward" not in name]


BY_PRODUCTS = "attention is computed in products around a softmax, in each block"


@switch
def attention_plain(adapter: TorchAdapter) -> Proof:
    """Compute attention as the model writes it out."""
    adapter.recipe.model_options["attend"] = adapter.model_module.attend_plainly

    not_fused = check(lambda e: not list_attention_kernels(e), "no operator fuses attention")
    return not_fused & check(partial(attends_by_products, adapter), BY_PRODUCTS)


@switch
def sdpa(adapter: TorchAdapter, backend: str) -> Proof:
    """Allow one kernel of attention; PyTorch raises an error where that kernel cannot be used.

    It is switched for the whole process, since a context would have ended when checkpointing
    recomputes attention.
    """
    adapter.process.attention = (backend,)

    kernel = FUSED[backend]  # empty if attention consists of matmuls

    def is_kernel_used(e: Evidence) -> bool:
        fused = [name for name in list_attention_kernels(e) if "math" not in name]
        return fused == ([kernel] if kernel else [])

    proof = check(is_kernel_used, f"attention is fused by {kernel or 'no kernel'} alone")
    if not kernel:
        proof &= check(partial(attends_by_products, adapter), BY_PRODUCTS)
    return proof


@switch
def autotune(adapter: TorchAdapter) -> Proof:
    """Let cuDNN time its algorithms for each shape and take the fastest.

    Each trial of an algorithm allocates a workspace, so the first convolution of a shape makes more
    allocations. The proof counts them.
    """
    adapter.process.tries_algorithms = True

    def count_allocations() -> int:
        """Return how many allocations one convolution makes under the current settings."""
        x = torch.ones(2, 48, 40, 40, device=adapter.torch_device)
        w = torch.ones(48, 48, 3, 3, device=adapter.torch_device)
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        F.conv2d(x, w)
        return torch.cuda.memory_stats()["allocation.all.allocated"] - before

    def count_both() -> Evidence:
        rounding = torch.backends.cudnn.allow_tf32
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=rounding):
            untried = count_allocations()
        return {"allocations_untried": untried, "allocations_tried": count_allocations()}

    return expect(allocations_tried=above("allocations_untried")).counting(count_both)
