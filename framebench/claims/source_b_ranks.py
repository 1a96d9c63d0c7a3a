"""Source B: what it says of several devices, of measures together, and of its listings."""

from __future__ import annotations

from framebench.claims.arms import (
    GPT,
    JAX,
    LESS,
    NONE,
    SOME,
    TORCH,
    below,
    planned,
    ratios,
    snippet,
    times,
)
from framebench.claims.claim import Advice, Arm, Claim
from framebench.claims.needs import CARD, Needs
from framebench.claims.planned_measures import PlannedPeak
from framebench.claims.probed import counts_over, difference, of_all, ran
from framebench.claims.refs import Ref
from framebench.claims.rule import Target
from framebench.claims.samples import ALIVE, HOST, PLAN, Quantity, fullest

DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
COUNTED = "bytes of tensors, counted from their storages, are the same on a GPU"
SAME_CODE = "the same Python code runs on every device"
HELD, STATES = fullest("bytes that the fullest rank holds"), fullest("bytes of states in the fullest rank", "optimizer states")
FREE_OF_24_GB = 25250627584 - 1343 * 2**20  # as the catalogue has such cards, less the largest context that was measured
HALF = times(1 / 2, ours=True)  # of two ranks
WITH_RANKS = ("resnet50", "transformer")  # the workloads that the suite trains over ranks
THREE_TOGETHER = "all three together in a model of a thousand million parameters"
GPU_FIRST = Advice("Measure it on your cards first.")
COMPARE = Advice("Compare it in your model first.")


def zero(stage: int, target: Target, quantity: Quantity) -> tuple[Arm, ...]:
    """DeepSpeed's stage against its stage 0, which divides nothing."""
    change, base = f"train/deepspeed_zero{stage}@x2", "train/deepspeed_zero0@x2"
    return ratios(change, base, target, GPT, TORCH, f"DeepSpeed's ZeRO-{stage}", quantity)


def a_billion(strategy: str) -> Arm:
    """One step of the largest Transformer at batch 1, as planned, over what is free on a card of 24 GB."""
    measure = PlannedPeak(Ref("transformer", "torch", "train", strategy, own_size="full-1b", batch=1), FREE_OF_24_GB)
    return Arm(f"transformer/torch {strategy} planned", measure, below(1.0))


CLAIMS = (
    Claim(
        "B11", "Data parallelism spreads memory over devices: the peak.", "less per rank", "peak per rank, 2 ranks / 1, the same batch",
        True, DATA_FLOW,
        (
            Advice("Divide the batch over ranks: {range} per rank.", "less"),
            Advice("Count weights, states and buckets first: they are not divided (B11 states)."),
        ),
        part="peak", note="At the same batch of all ranks together; JAX's ranks are devices of one process, whose plan is compared. "
        "The U-Net has no records over ranks",
        arms=(
            *ratios("train/ddp@x2", "train/fp32", LESS, WITH_RANKS, TORCH),
            *ratios("train/replicated@x2", "train/fp32", LESS, WITH_RANKS, JAX, quantity=PLAN),
        ),
        evidence=(
            *ratios("train/ddp_bucket_view@x2", "train/fp32", LESS, WITH_RANKS, TORCH, "gradients in the buckets"),
            *ratios("train/fsdp@x2", "train/fp32", LESS, WITH_RANKS, TORCH, "fully sharded"),
            *ratios("train/fully_sharded@x2", "train/fp32", LESS, WITH_RANKS, JAX, "fully sharded", PLAN),
        ),
    ),
    Claim(
        "B11", "Data parallelism spreads memory over devices: what stays between two steps.", "less per rank",
        "bytes alive per rank, 2 ranks / 1", True, COUNTED,
        (Advice("Shard weights and states: {range} of what stays.", "less", "fully sharded"),), part="states",
        note="What PyTorch has more is a second copy of the gradients, in buckets: with gradient_as_bucket_view=True, beside, it is gone. "
        "The U-Net has no records over ranks",
        arms=(
            *ratios("train/ddp@x2", "train/fp32", LESS, WITH_RANKS, TORCH, quantity=ALIVE),
            *ratios("train/replicated@x2", "train/fp32", LESS, WITH_RANKS, JAX, quantity=ALIVE),
        ),
        evidence=(
            *ratios("train/ddp_bucket_view@x2", "train/fp32", LESS, WITH_RANKS, TORCH, "gradients in the buckets", ALIVE),
            *ratios("train/fsdp@x2", "train/fp32", LESS, WITH_RANKS, TORCH, "fully sharded", ALIVE),
            *ratios("train/fully_sharded@x2", "train/fp32", LESS, WITH_RANKS, JAX, "fully sharded", ALIVE),
        ),
    ),
    Claim(
        "B21", "ZeRO shards the optimizer's states.", "less (1 / N: ours)", "bytes of states in the fullest rank, sharded / copied, 2 ranks", True,
        COUNTED, (Advice("Shard the states: {range} of them in the fullest of two ranks.", "less"),), part="states",
        arms=(
            *(arm for stage in (1, 2, 3) for arm in zero(stage, HALF, STATES)),
            *ratios("train/zero_optimizer@x2", "train/ddp@x2", HALF, GPT, TORCH, "ZeroRedundancyOptimizer", STATES),
            *ratios("train/fsdp@x2", "train/ddp@x2", HALF, GPT, TORCH, "FSDP", STATES),
            *ratios("train/sharded_states@x2", "train/replicated@x2", HALF, GPT, JAX, quantity=STATES),
        ),
    ),
    Claim(
        "B21", "Mixed precision, checkpointing and ZeRO together use memory 45 % better.", "/ 1.45", "peak, all three / none", False,
        "a processor's ranks are no cards", (Advice("Count each measure for your model: what one of them saves stands beside."),),
        part="memory",
        evidence=(
            *planned("train/amp_bf16+checkpoint", "train/fp32", LESS, GPT, TORCH, "two of the three, one card"),
            *(arm for stage in (1, 2, 3) for arm in zero(stage, LESS, HELD)),
            *ratios("train/deepspeed_zero1@x2", "train/deepspeed_zero0@x2", LESS, GPT, TORCH, "ZeRO-1, peak"),
            *ratios("train/deepspeed_zero2@x2", "train/deepspeed_zero0@x2", LESS, GPT, TORCH, "ZeRO-2, peak"),
            *ratios("train/deepspeed_zero3@x2", "train/deepspeed_zero0@x2", LESS, GPT, TORCH, "ZeRO-3, peak"),
        ),
        needs=Needs(case=THREE_TOGETHER),
        note="Two of the three, planned for one card, stand beside",
    ),
    Claim(
        "B21", "Mixed precision, checkpointing and ZeRO together raise throughput by 30 %.", "+30 %", "step time", False,
        "ranks on one processor share its cores", (GPU_FIRST,), part="speed", needs=Needs(device="gpu", case=THREE_TOGETHER),
    ),
    Claim(
        "B22", "In Jittor gradients are accumulated by loss.backward().", "it runs", "the listing's run", True, SAME_CODE,
        (Advice("Call `optimizer.backward(loss)` for each micro-batch, then `optimizer.step()`: it is shown beside."),),
        note="What those calls leave behind is R14",
        arms=(snippet("jittor_accumulate", "as printed", of_all("steps"), SOME),),
        evidence=(snippet("jittor_optimizer_backward", "optimizer.backward, error of the gradient", of_all("relative_error"),
                          Target(-1, 1e-3), "error"),),
    ),
    Claim(
        "B23", "The listing of torch.utils.checkpoint trains its segment.", "it trains", "weights of the segment without a gradient", True,
        SAME_CODE,
        (Advice("Pass use_reentrant=False: without it, and with a plain input, {measured} weights get no gradient.", "more"),),
        arms=(snippet("torch_checkpoint", "as printed", of_all("weights_without_gradient"), NONE),),
        evidence=(snippet("torch_checkpoint", "warnings", of_all("warnings"), NONE),),
    ),
    Claim(
        "B24", "The listing of mixed precision by torch.cuda.amp runs.", "it runs", "the listing's run", True, SAME_CODE,
        (Advice("Write torch.amp.autocast('cuda') and torch.amp.GradScaler('cuda'): {measured} names of the listing are deprecated.",
                "more", "deprecated"),),
        arms=(snippet("torch_amp", "as printed", ran, SOME),),
        evidence=(snippet("torch_amp", "names that are deprecated", of_all("deprecated_names"), SOME),),
        needs=CARD,
        note="Without a card it runs to its end too, in float32: no mixed precision",
    ),
    Claim(
        "B25", "EfficientNet saves memory, at 30 % more accuracy.", "+30 % accuracy", "peak, accuracy", False, "no such model is here",
        (Advice("Try it as your own model: `framebench try`."),), needs=Needs(workload="efficientnet"),
    ),
    Claim(
        "B26", "GradScaler keeps small gradients from becoming zero in float16.", "fewer zeros", "zeros among 1,000 gradients, scaled less plain",
        True, SAME_CODE, (Advice("Scale the loss in float16: the zeros changed by {measured}.", "less"),),
        arms=(snippet("torch_grad_scaler", "torch", difference("zeros_scaled", "zeros"), Target(-1, 0.0, 0.5)),),
        note="Gradients of 1e-10 to 1e-6",
    ),
    Claim(
        "B27", "L1 pruning cuts memory.", "less", "bytes of a layer, pruned / before", True, SAME_CODE,
        (Advice("Rebuild the model with fewer channels: a masked layer changed by {measured}.", "more"),),
        arms=(snippet("torch_prune", "masked, as printed", counts_over("masked", "before"), LESS, "change"),),
        evidence=(snippet("torch_prune", "mask removed", counts_over("removed", "before"), LESS, "change"),),
    ),
    Claim(
        "B28", "Static graphs save memory.", "less", "peak, compiled / eager", False, "another back end generates the GPU's kernels",
        (COMPARE,),
        arms=(
            *ratios("train/compile", "train/fp32", frameworks=TORCH),
            *ratios("train/fp32", "train/no_jit", frameworks=JAX, quantity=HOST),
        ),
    ),
    Claim(
        "B29", "A model of a thousand million parameters trains on one RTX 3090.", "it fits",
        "planned peak with mixed precision and checkpointing / what is free of the card's 24 GB", False, "its 24 GB are a card's",
        (
            Advice("Checkpoint at batch 1: an H100's plan would fill {measured} of the card.", "less", "torch checkpoint"),
            Advice("Ask `framebench predict --device`: it plans a model of your size for a card."),
        ),
        needs=Needs(card="RTX 3090"),
        arms=(a_billion("amp_bf16+checkpoint"),),
        evidence=(a_billion("checkpoint"), a_billion("fp32")),
        note="The Transformer of 1.02 thousand million parameters, AdamW in float32, 1,024 tokens. Planned as for an H100, whose kernels may "
        f"be others. Free are {FREE_OF_24_GB / 1e9:.1f} GB: what the driver leaves, less 1,343 MiB of a CUDA context, the largest measured. "
        "With mixed precision as well the plan is larger",
    ),
)  # fmt: skip
