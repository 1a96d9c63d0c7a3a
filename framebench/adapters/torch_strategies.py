"""How PyTorch switches each strategy on, and what proves that it was on. See `adapters/base.py` for what a switch is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from framebench.adapters.base import Evidence, Proof, Switch, Switches

if TYPE_CHECKING:
    from framebench.adapters.torch_adapter import TorchAdapter

switch = Switches()
STREAMED = 10  # steps that are watched for copies beside them


def only(dtype: str) -> Proof:
    """Every product of the observed step took this type."""
    return lambda e: set(e["products"]) == {dtype}


@switch
def fp32(run: TorchAdapter) -> Proof:
    return only("float32")


@switch
def amp_bf16(run: TorchAdapter) -> Proof:
    """Fresh per forward pass: autocast caches the cast weights until it is left."""
    run.contexts.append(partial(torch.autocast, run.where.type, torch.bfloat16))
    return only("bfloat16")


@switch
def half(run: TorchAdapter, dtype: str) -> Proof:
    run.dtype = getattr(torch, dtype)
    return lambda e: set(e["products"]) == {dtype} == {str(p.dtype).removeprefix("torch.") for p in run.model.parameters()}


@switch
def checkpoint(run: TorchAdapter, every: int = 1) -> Proof:
    chosen: set[nn.Module] = set()

    def attach(model: nn.Module) -> None:
        chosen.update(run.model_module.blocks_of(model)[::every])

        def remat(block: nn.Module, *xs: Any) -> Any:
            return recompute(block, *xs, use_reentrant=False) if block in chosen else block(*xs)

        model.remat = remat

    run.on_model.append(attach)

    def proof(e: Evidence) -> bool:
        """A block below every trained weight has nothing to recompute for."""
        again = [b for b in chosen if any(p.requires_grad for p in b.parameters())]
        return bool(again) and e["block_runs"] == run.micro * (e["blocks"] + len(again))

    return proof


@switch
def accumulate(run: TorchAdapter) -> Proof:
    return lambda e: e["forward_passes"] == run.micro and e["samples_per_pass"] * run.micro == run.case.batch


def mode(context: Callable[[], Any], proof: Proof) -> Switch:
    """Evaluation under a context of autograd."""

    def apply(run: TorchAdapter) -> Proof:
        run.contexts.append(context)
        return proof

    return apply


switch["no_grad"] = mode(torch.no_grad, lambda e: e["graph_nodes"] == 0 == e["saved_tensors"])
switch["inference_mode"] = mode(torch.inference_mode, lambda e: e["inference_tensor"] and e["saved_tensors"] == 0)
switch["grad"] = mode(torch.enable_grad, lambda e: min(e["graph_nodes"], e["saved_tensors"]) > e["blocks"])


@switch
def frozen(run: TorchAdapter) -> Proof:
    """What the workload does not train gets no gradient."""
    prefixes = run.workload.trained(run.config, "head" if run.case.plan.mathematics == "head" else "half")

    def freeze(model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith(prefixes))

    def proof(e: Evidence) -> bool:
        with_gradient = {name for name, p in run.model.named_parameters() if p.grad is not None}
        e["weights_with_gradient"] = len(with_gradient)
        return with_gradient == {n for n, _ in run.model.named_parameters() if n.startswith(prefixes)} != set()

    run.on_model.append(freeze)
    return proof


@switch
def tf32(run: TorchAdapter) -> Proof:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

    def proof(e: Evidence) -> bool:
        """A product whose exact result needs more than TensorFloat-32's ten bits of mantissa."""
        a = torch.full((64, 64), 1 + 2.0**-12, device=run.where)
        e["error_of_a_product"] = float((a @ a - 64 * (1 + 2.0**-12) ** 2).abs().max())
        return only("float32")(e) and e["error_of_a_product"] > 1e-3

    return proof


@switch
def amp_fp16(run: TorchAdapter) -> Proof:
    """The scale starts low enough that no step has to be skipped."""
    run.contexts.append(partial(torch.autocast, run.where.type, torch.float16))
    run.scaler = torch.amp.GradScaler(run.where.type, init_scale=2.0**10)

    def proof(e: Evidence) -> bool:
        e["scale"] = run.scaler.get_scale()
        return only("float16")(e) and e["scale"] >= 1

    return proof


SAVED_PRODUCTS = ("mm", "addmm", "bmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")


@switch
def checkpoint_dots(run: TorchAdapter) -> Proof:
    """Products are saved, whatever lies between them is computed again."""
    aten = torch.ops.aten
    saved = [getattr(aten, name).default for name in SAVED_PRODUCTS]
    saved += [aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_efficient_attention.default]
    contexts = partial(create_selective_checkpoint_contexts, saved)

    def attach(model: nn.Module) -> None:
        model.remat = lambda block, *xs: recompute(block, *xs, use_reentrant=False, context_fn=contexts)

    def proof(e: Evidence) -> bool:
        again, run.model.remat = run.model.remat, lambda block, *xs: block(*xs)
        e["products_without"] = run.observe()["products"]
        run.model.remat = again
        return e["block_runs"] == 2 * run.micro * e["blocks"] and e["products"] == e["products_without"]

    run.on_model.append(attach)
    return proof


@switch
def offload(run: TorchAdapter) -> Proof:
    """Its hooks lie over ours, which then see no tensor that is saved on the device."""
    run.contexts.append(partial(torch.autograd.graph.save_on_cpu, pin_memory=True))
    return lambda e: e["saved_tensors"] == 0 and e["operators"].get("copy_", 0) > e["blocks"]


@switch
def compile(run: TorchAdapter, mode: str | None = None) -> Proof:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()

    def attach(model: nn.Module) -> None:
        run.forward = torch.compile(model, mode=mode)

    def proof(e: Evidence) -> bool:
        """CUDA graphs are seen when they are launched, kernel variants when the compiler has measured them."""
        e["compiled_graphs"], e["graph_breaks"] = counters["stats"]["unique_graphs"], dict(counters["graph_break"])
        e["inductor"] = {k: int(v) for k, v in counters["inductor"].items()}
        seen = True
        if mode == "reduce-overhead":
            e["graph_launches"] = seen = launches(run)
        elif mode == "max-autotune":
            e["kernels_tried"] = seen = sum(n for k, n in e["inductor"].items() if k.startswith("select_algorithm"))
        return e["compiled_graphs"] > 0 and not e["graph_breaks"] and bool(seen)

    run.on_model.append(attach)
    return proof


def launches(run: TorchAdapter) -> int:
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

    def attach(model: nn.Module) -> None:
        scripted.update({block: torch.jit.script(block) for block in run.model_module.blocks_of(model)})
        plain = model.remat

        def remat(block: nn.Module, *xs: Any) -> Any:
            runs.append(block)
            return plain(scripted[block], *xs)

        model.remat = remat

    def proof(e: Evidence) -> bool:
        runs.clear()
        run.one_step()
        e["script_modules"], e["script_block_runs"] = len(scripted), len(runs)
        return e["script_block_runs"] == run.micro * e["blocks"] > 0 == e["block_runs"]

    run.on_model.append(attach)
    return proof


@switch
def attention_plain(run: TorchAdapter) -> Proof:
    run.model_options["attend"] = run.model_module.plain

    def proof(e: Evidence) -> bool:
        fused = sum(n for name, n in e["operators"].items() if name.startswith("_scaled_dot_product"))
        return fused == 0 and e["operators"].get("_softmax", 0) == e["block_runs"]

    return proof


FUSED = {  # the operator that each kernel runs under; none for the one that is put together from products
    "MATH": "",
    "EFFICIENT_ATTENTION": "_scaled_dot_product_efficient_attention",
    "FLASH_ATTENTION": "_scaled_dot_product_flash_attention",
    "CUDNN_ATTENTION": "_scaled_dot_product_cudnn_attention",
}


def allow_attention(*backends: str) -> None:
    """Which kernels scaled_dot_product_attention may choose from."""
    choices = torch.backends.cuda
    switches = (choices.enable_math_sdp, choices.enable_mem_efficient_sdp, choices.enable_flash_sdp, choices.enable_cudnn_sdp)
    for name, enable in zip(FUSED, switches):
        enable(name in backends)


@switch
def sdpa(run: TorchAdapter, backend: str) -> Proof:
    """Where the one kernel that is allowed cannot do it, PyTorch raises. Switched for the whole process: a context would not
    hold for what checkpointing computes again."""
    allow_attention(backend)

    def proof(e: Evidence) -> bool:
        e["attention"] = {
            n: k for n, k in e["operators"].items() if n.startswith("_scaled_dot_product") and "backward" not in n
        }
        fused = {n for n in e["attention"] if "math" not in n}
        by_products = e["operators"].get("_softmax", 0) + e["operators"].get("_safe_softmax", 0)
        return fused == {FUSED[backend]} - {""} and (bool(fused) or by_products == e["block_runs"] > 0)

    return proof


@switch
def autotune(run: TorchAdapter) -> Proof:
    """Every algorithm that is tried gets a workspace of its own: a shape that was never met costs more allocations."""
    torch.backends.cudnn.benchmark = True

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


class InBackward:
    """One optimizer per weight, which steps as soon as the weight's gradient is there; the gradient is then dropped.

    https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html
    """

    def __init__(self, make: Callable[..., Any], settings: Any, params: Iterable[nn.Parameter], **options: Any) -> None:
        self.each = {p: make(settings, [p], **options) for p in params}
        for p in self.each:
            p.register_post_accumulate_grad_hook(self.update)

    def update(self, parameter: nn.Parameter) -> None:
        self.each[parameter].step()
        parameter.grad = None

    @property
    def state(self) -> dict[Any, Any]:
        return {p: s for optimizer in self.each.values() for p, s in optimizer.state.items()}

    def zero_grad(self) -> None: ...

    def step(self) -> None: ...


@switch
def optimizer_in_backward(run: TorchAdapter) -> Proof:
    run.wrap_optimizer = partial(InBackward, run.wrap_optimizer)

    def proof(e: Evidence) -> bool:
        """No gradient is left when the backward pass ends, and yet every weight has moved."""
        before = [p.detach().clone() for p in run.model.parameters()]
        run.one_step()
        e["gradients_left"] = sum(p.grad is not None for p in run.model.parameters())
        e["weights_moved"] = sum(not torch.equal(a, b) for a, b in zip(before, run.model.parameters()))
        return e["gradients_left"] == 0 and e["weights_moved"] == len(before)

    return proof


@switch
def keep_grads(run: TorchAdapter) -> Proof:
    run.zero_grad_options["set_to_none"] = False

    def proof(e: Evidence) -> bool:
        """A step leaves its gradients in the very tensors where the last step's were."""
        before = [p.grad for p in run.model.parameters()]
        run.one_step()
        after = [p.grad for p in run.model.parameters()]
        e["gradients_kept"] = sum(a is b is not None for a, b in zip(after, before))
        return e["gradients_kept"] == len(before)

    return proof


def by_default(run: TorchAdapter) -> set[str]:
    """The operators of the workload's optimizer without options, on this device."""
    from framebench.adapters.torch_adapter import Observed, make_optimizer

    weights = [nn.Parameter(torch.ones(2, device=run.where)) for _ in range(2)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    with Observed([], []) as seen:
        make_optimizer(run.workload.optimizer, weights).step()
    return set(seen.operators)


def lists(operators: Iterable[str]) -> int:
    """How many of these work on lists of tensors."""
    return sum(name.startswith("_foreach_") for name in operators)


@switch
def foreach(run: TorchAdapter) -> Proof:
    """On a GPU it is the default, so that the baseline does the same: then nothing is proven."""
    run.optimizer_options["foreach"] = True

    def proof(e: Evidence) -> bool:
        e["operators_on_lists"], e["operators_on_lists_by_default"] = lists(e["operators"]), lists(by_default(run))
        return e["operators_on_lists"] > 0 == e["operators_on_lists_by_default"]

    return proof


@switch
def fused_optimizer(run: TorchAdapter) -> Proof:
    run.optimizer_options["fused"] = True
    return lambda e: any(name.startswith("_fused_") for name in e["operators"])


@switch
def channels_last(run: TorchAdapter) -> Proof:
    run.on_model.append(lambda model: model.to(memory_format=torch.channels_last))
    run.on_input = lambda x: x.to(memory_format=torch.channels_last)
    # an input with a single channel has both orders at once
    return lambda e: e["convolutions"]["channels_last"] > 0 and e["convolutions"]["channels_first"] <= 1


@switch
def empty_cache(run: TorchAdapter, every: int = 1) -> Proof:
    def give_back() -> None:
        if run.steps % every == 0:
            run.synchronize()
            torch.cuda.empty_cache()

    run.after_step.append(give_back)

    def proof(e: Evidence) -> bool:
        before = torch.cuda.memory_reserved()
        for _ in range(every):
            run.step()
        e["reserved_bytes"], e["reserved_bytes_before"] = torch.cuda.memory_reserved(), before
        return e["reserved_bytes"] < before

    return proof


@switch
def pool_off(run: TorchAdapter) -> Proof:
    """Without the pool nothing is counted either, and yet the weights are on the card."""

    def proof(e: Evidence) -> bool:
        e["counted_bytes"], e["reserved_bytes"] = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        return e["counted_bytes"] == e["reserved_bytes"] == 0 and all(p.is_cuda for p in run.model.parameters())

    return proof


@switch
def expandable_segments(run: TorchAdapter) -> Proof:
    """What the allocator says of each segment that it has taken."""

    def proof(e: Evidence) -> bool:
        segments = torch.cuda.memory._snapshot()["segments"]
        e["segments"], e["segments_expandable"] = len(segments), sum(segment["is_expandable"] for segment in segments)
        return e["segments_expandable"] == e["segments"] > 0

    return proof


@switch
def memory_fraction(run: TorchAdapter, share: float = 0.8) -> Proof:
    if run.where.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(share)

    def refused(size: int) -> str:
        """Why so many bytes cannot be had; empty if they can."""
        try:
            torch.empty(size, dtype=torch.uint8, device=run.where)
            return ""
        except torch.cuda.OutOfMemoryError as error:
            return str(error)[:200]
        finally:
            torch.cuda.empty_cache()

    def proof(e: Evidence) -> bool:
        """A little more than the share is refused, and without the share it is there."""
        torch.cuda.empty_cache()
        total = torch.cuda.mem_get_info()[1]
        size = int((share + 0.02) * total) - torch.cuda.memory_reserved()
        e["bytes_asked"], e["refused"] = size, refused(size)
        torch.cuda.set_per_process_memory_fraction(1.0)
        e["refused_without"] = refused(size)
        torch.cuda.set_per_process_memory_fraction(share)
        return e["refused"] != "" == e["refused_without"]

    return proof


Span = tuple[float, float]  # start and end, in ms


class Copies:
    """Batches copied from page-locked memory on a stream of their own, by the thread that prepares them; events tell when."""

    def __init__(self, run: TorchAdapter) -> None:
        self.run, self.stream = run, torch.cuda.Stream()
        self.made: list[tuple[Any, Any]] = []  # events before and after each copy

    def send(self, x: Any, y: Any) -> tuple[Tensor, Tensor, Any]:
        """Called by the thread."""
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        host = [torch.from_numpy(array).pin_memory() for array in (x, y)]
        with torch.cuda.stream(self.stream):
            first.record()
            inputs, targets = (tensor.to(self.run.where, non_blocking=True) for tensor in host)
            last.record()
        self.made.append((first, last))
        return inputs, targets, last

    def arrive(self, inputs: Tensor, targets: Tensor, copied: Any) -> tuple[Tensor, Tensor]:
        """Called by the step, which the device begins when the copy is done; the memory is not given back before it ends."""
        step = torch.cuda.current_stream()
        step.wait_event(copied)
        for tensor in (inputs, targets):
            tensor.record_stream(step)
        return self.run.on_input(inputs.to(self.run.dtype)), targets

    def watched(self, steps: int) -> tuple[list[Span], list[Span]]:
        """When copies and steps ran, in ms from now."""
        start, marks = torch.cuda.Event(enable_timing=True), []
        self.run.synchronize()
        start.record()
        self.made.clear()
        for _ in range(steps):
            marks.append(tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)))
            marks[-1][0].record()
            self.run.step()
            marks[-1][1].record()
        made = list(self.made)
        self.run.synchronize()
        done = [pair for pair in made if pair[1].query()]
        copies, ran = ([tuple(start.elapsed_time(e) for e in pair) for pair in pairs] for pairs in (done, marks))
        return copies, ran


def overlap(copies: list[Span], steps: list[Span]) -> float:
    """Share of the copies' time during which a step ran; steps do not overlap each other."""
    total = sum(end - start for start, end in copies)
    shared = sum(max(0.0, min(end, b) - max(start, a)) for start, end in copies for a, b in steps)
    return shared / total if total else 0.0


@switch
def pinned(run: TorchAdapter) -> Proof:
    from framebench.loading import Loader

    def attach() -> None:
        run.copies = Copies(run)
        run.loader = Loader(run.case, "pinned", run.copies.send, run.copies.arrive)

    run.before_first_step.append(attach)

    def proof(e: Evidence) -> bool:
        copies, steps = run.copies.watched(STREAMED)
        e |= run.loader.counted() | {"copies_watched": len(copies), "overlap_share": overlap(copies, steps)}
        e["copy_ms"] = sum(b - a for a, b in copies) / max(1, len(copies))
        return run.loader.worked_as("pinned") and e["overlap_share"] > 0.5

    return proof


@switch
def after_training(run: TorchAdapter, cleared: bool) -> Proof:
    """A training step of a model of its own, whose memory the allocator may keep."""
    left: Evidence = {}

    def train() -> None:
        model = run.load(run.config, run.case.weights).train()
        x, y = run.inputs
        run.model_module.loss(model(x), y).backward()
        left["gradients_of_the_training_step"] = sum(p.grad is not None for p in model.parameters())
        del model
        if cleared:
            gc.collect()
            torch.cuda.empty_cache()
        left["reserved_bytes"] = torch.cuda.memory_reserved()

    def proof(e: Evidence) -> bool:
        e |= left
        emptied = left["reserved_bytes"] < 2 * torch.cuda.memory_allocated()
        return left["gradients_of_the_training_step"] > 0 and emptied == cleared

    run.before_first_step.append(train)
    return proof


@switch
def distill(run: TorchAdapter) -> Proof:
    """Hinton et al. 2015, at temperature 1: half the labels' loss, half the divergence from the full model's outputs."""
    config = run.workload.config(run.case.size)
    passes: list[int] = []

    def attach(model: nn.Module) -> None:
        teacher = run.load(config, run.workload.weights(config)).eval()
        teacher.register_forward_hook(lambda *_: passes.append(1))
        run.held.append(teacher)

    def objective(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            target = run.held[1](x).flatten(0, -2).log_softmax(-1)
        logits = run.forward(x)
        log_probability = logits.flatten(0, -2).log_softmax(-1)
        divergence = F.kl_div(log_probability, target, log_target=True, reduction="batchmean")
        return (run.model_module.loss(logits, y) + divergence) / 2

    def proof(e: Evidence) -> bool:
        before = len(passes)
        run.one_step()
        e["teacher_passes"] = len(passes) - before
        e["teacher_gradients"] = sum(p.grad is not None for p in run.held[1].parameters())
        return e["teacher_passes"] == run.micro and e["teacher_gradients"] == 0

    run.on_model.append(attach)
    run.objective = objective
    return proof


@switch
def frozen_weights(run: TorchAdapter) -> Proof:
    run.on_model.append(lambda model: model.requires_grad_(False))
    return lambda e: e["graph_nodes"] == 0 == e["saved_tensors"]


@switch
def batch_stats(run: TorchAdapter) -> Proof:
    run.evaluates = False
    return lambda e: e["buffers_changed"] > 0


def parameter_bytes(models: Iterable[nn.Module]) -> int:
    from framebench.adapters.torch_adapter import unique_bytes

    return unique_bytes(p for model in models for p in model.parameters())


def hold(run: TorchAdapter, make: Callable[[], list[nn.Module]], shared: bool) -> Proof:
    """Two models that stay in memory."""

    def attach() -> None:
        run.held = make()

    def proof(e: Evidence) -> bool:
        e["parameter_bytes"], one = parameter_bytes(run.held), parameter_bytes(run.held[:1])
        e["parameter_bytes_of_one"] = one
        return one < e["parameter_bytes"] < 2 * one if shared else e["parameter_bytes"] == 2 * one

    run.before_first_step.append(attach)
    run.models = lambda: run.held
    return proof


@switch
def together(run: TorchAdapter, shared: bool = False) -> Proof:
    def make() -> list[nn.Module]:
        one, other = (run.load(run.config, weights) for weights in run.host_weights)
        if shared:
            for name, module in one.named_children():
                if not f"{name}.".startswith(run.workload.head):
                    setattr(other, name, module)
        return [one, other]

    return hold(run, make, shared)


@switch
def scripted(run: TorchAdapter, shared: bool = False) -> Proof:
    """Traced, since `remat` is a Python function; with one trunk, the models are a traced trunk and a head each."""

    def make() -> list[nn.Module]:
        one, other = (run.load(run.config, weights) for weights in run.host_weights)
        x = run.inputs[0]
        with torch.no_grad():
            if not shared:
                return [torch.jit.trace(model, x) for model in (one, other)]
            heads = [model.fc for model in (one, other)]
            one.fc = nn.Identity()
            trunk = torch.jit.trace(one, x)
            return [torch.jit.trace(nn.Sequential(trunk, head), x) for head in heads]

    def proof(e: Evidence) -> bool:
        e["script_modules"] = sum(isinstance(model, torch.jit.ScriptModule) for model in run.held)
        return bytes_proof(e) and e["script_modules"] == 2

    bytes_proof = hold(run, make, shared)
    return proof


@switch
def in_turn(run: TorchAdapter, cleared: bool = False) -> Proof:
    alive: weakref.WeakSet[nn.Module] = weakref.WeakSet()
    most = cleanings = 0

    def models() -> Iterator[nn.Module]:
        nonlocal most, cleanings
        for weights in run.host_weights:
            model = run.load(run.config, weights)
            alive.add(model)
            most = max(most, len(alive))
            yield model
            del model
            if cleared:
                gc.collect()
                cleanings += 1
                if run.where.type == "cuda":
                    torch.cuda.empty_cache()

    def proof(e: Evidence) -> bool:
        """A model that something still refers to would be alive beside the next one."""
        e |= {"models_at_once": most, "models_between_steps": len(alive), "caches_emptied": cleanings}
        return most == 1 > len(alive) and (cleanings > 0) == cleared

    run.models = models
    return proof


def saved_by(gelu: Callable[[Tensor], Tensor]) -> int:
    """How many tensors one GELU keeps for its backward pass."""
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        gelu(torch.linspace(-3, 3, 7, requires_grad=True))
    return len(kept)


@switch
def built_in(run: TorchAdapter) -> Proof:
    def proof(e: Evidence) -> bool:
        e["saved_by_one_gelu"] = saved_by(F.gelu)
        return e["saved_by_one_gelu"] == 1 and e["operators"].get("gelu", 0) == e["block_runs"]

    return proof


ROOT_HALF, ROOT_TWO_PI = 0.5**0.5, (2 * torch.pi) ** 0.5


class LeanGelu(torch.autograd.Function):
    """x Phi(x); keeps x alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return F.gelu(x)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        phi = torch.exp(-x * x / 2) / ROOT_TWO_PI
        return upstream * ((1 + torch.erf(x * ROOT_HALF)) / 2 + x * phi)


class WastefulGelu(torch.autograd.Function):
    """The same; keeps whatever it has computed on the way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        scaled = x * ROOT_HALF
        error_function = torch.erf(scaled)
        cumulative = (1 + error_function) / 2
        density = torch.exp(-scaled * scaled) / ROOT_TWO_PI
        ctx.save_for_backward(x, scaled, error_function, cumulative, density)
        return x * cumulative

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        x, _, _, cumulative, density = ctx.saved_tensors
        return upstream * (cumulative + x * density)


@switch
def custom_rule(run: TorchAdapter, lean: bool) -> Proof:
    rule = LeanGelu if lean else WastefulGelu
    run.model_options["gelu"] = rule.apply

    def proof(e: Evidence) -> bool:
        """PyTorch's own GELU would run its own backward pass: the lean rule shares the forward pass with it."""
        e["saved_by_one_gelu"] = saved_by(rule.apply)
        own = "gelu_backward" in e["operators"]
        return e["saved_by_one_gelu"] == (1 if lean else 5) and ("gelu" in e["operators"]) == lean and not own

    return proof
