"""Source B: memory saving in PyTorch and Jittor, one strategy at a time."""

from __future__ import annotations

from typing import Literal

from framebench.claims.arms import (
    FASTER,
    GPT,
    JAX,
    JITTOR,
    LESS,
    MORE,
    NONE,
    POINTS,
    RESNET,
    SLOWER,
    TORCH,
    UNET,
    below,
    each,
    not_recomputed,
    planned,
    ratios,
    ref,
    snippet,
    times,
)
from framebench.claims.claim import Advice, Arm, Claim
from framebench.claims.measures import Apart, Difference, OfTheWay, Ratio, Value
from framebench.claims.needs import CARD, FULL, FULL_ON_A_CARD, Needs
from framebench.claims.planned_measures import Planned
from framebench.claims.probed import counts_over, of_all
from framebench.claims.refs import Ref
from framebench.claims.rule import Target
from framebench.claims.samples import ADDED, HOST, KEPT, PARAMETERS, PEAK, RESERVED, TIME, evidence, observed, share

DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
SAME_CODE = "the same Python code runs on every device"
CPU_HALF = "a CPU's kernels for bfloat16 are others, and XLA:CPU widens to float32"
BLOCK_RUNS = evidence("block_runs")
TWICE = times(2)  # every block runs once more
SEVENTY_OR_MORE = times(0.3, or_more=True)
GRADIENT, LATER_LOSS = observed("grad_norm"), observed("loss_1")
POOL = evidence("pool_bytes")
NO_MORE = below(1.01)  # of the small batch's peak
SAME_GRADIENT, SAME_LOSS = below(1e-3), below(1e-2)  # relative
ALL_OF_IT = Target(1, 0.0, 0.05, 1.0)  # of the difference between the large batch's peak and the small one's
GPU_FIRST = Advice("Measure it on your card first.")
COMPARE = Advice("Compare it in your model first.")
COMPILER = "another back end generates the GPU's kernels"


def across(quantity: str, change: str, base: str, target: Target) -> Arm:
    """Two frameworks on the U-Net, by the one instrument that they share."""
    (one, what), (other, plain) = (side.split(" ") for side in (change, base))
    measure = Ratio(HOST if quantity == "peak" else TIME, ref("unet3d", one, what), ref("unet3d", other, plain))
    return Arm(f"unet3d: {change} / {base} {quantity}", measure, target)


def of_the_way(large: str, small: str, workloads: tuple[str, ...]) -> tuple[Arm, ...]:
    """How far four micro-batches go from the large batch's peak to that of the small one, a quarter of it."""

    def measure(w: str, f: str) -> OfTheWay:
        change, high, low = (ref(w, f, f"train/{what}") for what in (f"accumulate{large}", f"fp32{large}", f"fp32{small}"))
        return OfTheWay(PEAK, change, high, low)

    return each(measure, ALL_OF_IT, workloads, label="share of the way")


def of_the_small_batch() -> tuple[Arm, ...]:
    """The peak of four micro-batches over that of one such batch alone; full-size plans as well."""
    batches = {"resnet50": (64, "@2", ""), "unet3d": (4, "@1", "@-1"), "transformer": (8, "", "@-2")}
    measured = (ratios(f"train/accumulate{large}", f"train/fp32{small}", NO_MORE, (w,)) for w, (_, large, small) in batches.items())
    return (*(arm for arms in measured for arm in arms), *(
        Arm(f"{w}/{f} planned", Planned("peak", Ref(w, f, "train", "accumulate", batch=4 * small), Ref(w, f, "train", "fp32", batch=small)),
            NO_MORE)
        for w, (small, *_) in batches.items() for f in (*TORCH, *JAX)
    ))  # fmt: skip


def of_the_volume(quantity: Literal["added", "kept"], label: str) -> Arm:
    """Sixteen of 128x128x128 have as many voxels as one of 512x512x128."""
    change, base = (Ref("unet3d", "torch", "train", strategy, batch=16) for strategy in ("checkpoint", "fp32"))
    return Arm(f"unet3d/torch the article's voxels, {label}, planned", Planned(quantity, change, base), times(1 / 3))


CLAIMS = (
    Claim(
        "B1", "Mixed precision takes 40 % off the memory of training ResNet-50.", "-40 %", "peak, amp / float32", False, CPU_HALF,
        (Advice("Expect {most} at best ({most_arm}) and {least} at worst ({least_arm}).", "less"), COMPARE), part="memory",
        arms=(
            *planned("train/amp_fp16", "train/fp32", times(0.6), RESNET, label="float16"),
            *planned("train/amp_bf16", "train/fp32", times(0.6), RESNET, label="bfloat16"),
            *ratios("train/amp_bf16", "train/fp32", times(0.6), RESNET, TORCH, "bfloat16"),
            *ratios("train/amp_fp16", "train/fp32", times(0.6), RESNET, label="float16"),
        ),
        evidence=(
            *ratios("train/amp_bf16", "train/fp32", times(0.6), RESNET, JAX, "bfloat16"),
            *planned("train/amp_bf16", "train/fp32", times(0.6), ("unet3d", "transformer")),
            *ratios("train/amp_bf16", "train/fp32", times(0.6), ("unet3d", "transformer")),
            *ratios("train/amp_bf16", "train/fp32", FASTER, RESNET, label="time", quantity=TIME),
        ),
        note="XLA:CPU widens what its products multiply to float32: on a CPU JAX has no mixed precision",
    ),
    Claim(
        "B1", "Mixed precision trains ResNet-50 to the same accuracy.", "same accuracy", "accuracy after training", False, CPU_HALF,
        (Advice("Compare your own curves: no run here is long enough."),), part="result",
        evidence=each(lambda w, f: Apart(LATER_LOSS, ref(w, f, "train/amp_bf16"), ref(w, f, "train/fp32")), SAME_LOSS, RESNET,
                      label="loss after one update"),
        needs=Needs(instrument="accuracy after training"),
    ),
    Claim(
        "B2", "Checkpointing saves about 65 % of the memory.", "-65 %", "peak, checkpoint / plain", True, DATA_FLOW,
        (
            Advice("Use it: the most was {most} ({most_arm}), the least {least} ({least_arm}).", "less"),
            COMPARE,
        ),
        part="memory",
        arms=(
            *planned("train/checkpoint", not_recomputed, times(0.35)),
            *ratios("train/checkpoint", not_recomputed, times(0.35)),
        ),
        evidence=(
            *planned("train/checkpoint", "train/fp32", times(0.35), GPT, JAX, "scan + remat / unrolled"),
            *ratios("train/checkpoint", "train/fp32", times(0.35), GPT, JAX, "scan + remat / unrolled"),
            *planned("train/checkpoint_every_2", "train/fp32", times(0.35), label="every second block"),
            *ratios("train/checkpoint_every_2", "train/fp32", times(0.35), label="every second block"),
        ),
        note="JAX's Transformer runs its layers as one scanned layer on both sides. Jittor has no checkpointing of its own: its arms are "
        "this suite's",
    ),
    Claim(
        "B2", "Checkpointing costs one more forward pass.", "each block twice", "blocks run in a step, checkpoint / plain", True, SAME_CODE,
        (Advice("Count every recomputed block twice ({range}); its time stands beside.", "more"),), part="passes",
        note="Blocks are counted in PyTorch and Jittor, whose checkpointing is this suite's; what a second forward pass takes is the "
        "device's, and stands beside",
        arms=ratios("train/checkpoint", "train/fp32", TWICE, frameworks=(*TORCH, *JITTOR), quantity=BLOCK_RUNS),
        evidence=(
            *ratios("train/checkpoint", "train/fp32", SLOWER, frameworks=(*TORCH, *JITTOR), label="time", quantity=TIME),
            *ratios("train/checkpoint", "train/fp32", SLOWER, (*RESNET, *UNET), JAX, "time", TIME),
            *ratios("train/checkpoint", "train/fp32", SLOWER, GPT, JAX, "scan + remat / unrolled, time", TIME),
            *ratios("train/checkpoint", "train/scan", SLOWER, GPT, JAX, "scan + remat / scan, time", TIME),
        ),
    ),
    Claim(
        "B3", "Checkpointing saves 70 % or more of a deep Transformer's activations.", "-70 % or more",
        "what is kept for the backward pass, checkpoint / plain", True, DATA_FLOW,
        (Advice("Recompute deep Transformers: {range} of what is kept. All that a step adds stands beside.", "less"),),
        arms=(
            *ratios("train/checkpoint+depth_16", "train/depth_16", SEVENTY_OR_MORE, GPT, TORCH, "16 layers", KEPT),
            *ratios("train/checkpoint", "train/fp32", SEVENTY_OR_MORE, GPT, TORCH, "the size's own layers", KEPT),
        ),
        evidence=(
            *planned("train/checkpoint", "train/fp32", SEVENTY_OR_MORE, GPT, TORCH, "12 layers, kept at the peak", "kept"),
            *ratios("train/checkpoint+depth_16", "train/depth_16", SEVENTY_OR_MORE, GPT, (*TORCH, *JITTOR), "16 layers, added", ADDED),
            *planned("train/checkpoint", not_recomputed, SEVENTY_OR_MORE, GPT, label="12 layers, added", quantity="added"),
            *ratios("train/checkpoint+depth_16", "train/depth_16", SEVENTY_OR_MORE, GPT, JAX, "16 layers, added, scan + remat / unrolled", ADDED),
            *ratios("train/checkpoint", not_recomputed, SEVENTY_OR_MORE, GPT, label="the size's own layers, added", quantity=ADDED),
            *ratios("train/checkpoint+depth_4", "train/depth_4", SEVENTY_OR_MORE, GPT, label="4 layers, added", quantity=ADDED),
        ),
        note="Activations are what is kept for the backward pass, which PyTorch alone tells. Deep are 8 layers "
        "and more: the small size's own, and 16; full size has 12",
    ),
    Claim(
        "B4", "Grouped and depthwise convolutions cut memory.", "less", "peak, grouped / dense", False,
        "kernels for grouped convolutions and their workspaces are others on a GPU",
        (Advice("Expect {range} of the peak.", "less"), COMPARE), part="memory",
        arms=(
            *planned("train/grouped", "train/fp32", workloads=RESNET, label="grouped"),
            *planned("train/depthwise", "train/fp32", workloads=RESNET, label="depthwise"),
            *ratios("train/grouped", "train/fp32", workloads=RESNET, label="grouped"),
            *ratios("train/depthwise", "train/fp32", workloads=RESNET, label="depthwise"),
        ),
        evidence=(
            *ratios("train/grouped", "train/fp32", FASTER, RESNET, label="grouped, time", quantity=TIME),
            *ratios("train/depthwise", "train/fp32", FASTER, RESNET, label="depthwise, time", quantity=TIME),
            *ratios("eval/grouped", "eval/no_grad", workloads=RESNET, label="grouped, eval"),
        ),
        note="At full size the plans' error is larger than what they say",
    ),
    Claim(
        "B4", "Grouped and depthwise convolutions cut parameters.", "fewer", "parameters, grouped / dense", True, SAME_CODE,
        (Advice("Use them to have fewer parameters: {range}.", "less"),), part="parameters",
        definition="A convolution in g > 1 groups has a g-th of the dense one's weights, and nothing else of the model changes",
        arms=(
            *each(lambda w, f: Value(PARAMETERS, ref(w, f, "train/grouped"), "change"), LESS, RESNET, label="grouped"),
            *each(lambda w, f: Value(PARAMETERS, ref(w, f, "train/depthwise"), "change"), LESS, RESNET, label="depthwise"),
        ),
    ),
    Claim(
        "B5", "Pruned channels cut memory.", "less", "peak, half the channels / all", True, DATA_FLOW,
        (Advice("Remove the channels for real and rebuild the model: {range}.", "less"),),
        arms=(
            *ratios("train/width_half", "train/fp32"),
            *planned("train/width_half", "train/fp32"),
        ),
        evidence=(
            *ratios("eval/width_half", "eval/no_grad", workloads=RESNET, label="eval"),
            *planned("eval/width_half", "eval/no_grad", workloads=GPT, label="eval"),
        ),
        note="The channels are gone from the model; masks are another row",
    ),
    Claim(
        "B6", "A distilled, smaller student needs less memory than the model that it replaces.", "less", "peak, student / full model, eval",
        True, DATA_FLOW,
        (Advice("Serve the student: {range}. Whether it answers as well is not measured here.", "less"), COMPARE),
        arms=(*ratios("eval/student", "eval/no_grad"), *planned("eval/student", "eval/no_grad")),
        evidence=(
            *ratios("train/distill", "train/fp32", MORE, workloads=("resnet50", "transformer"), label="distillation / training"),
            *ratios("train/student", "train/fp32", label="student alone, train"),
        ),
    ),
    Claim(
        "B7", "Jittor's fusion makes a U-Net need 15 % less than PyTorch.", "-15 %", "peak by host.rss, Jittor / PyTorch",
        False, "both run other kernels on a GPU", (COMPARE,),
        arms=(
            across("peak", "jittor train/fp32", "torch train/fp32", times(0.85)),
            across("peak", "jittor eval/no_grad", "torch eval/no_grad", times(0.85)),
        ),
        evidence=(
            across("peak", "jittor train/rewrite", "torch train/fp32", times(0.85)),
            across("time", "jittor train/fp32", "torch train/fp32", FASTER),
            *ratios("train/fp32", "train/no_fuse", workloads=UNET, frameworks=JITTOR, label="fused / not fused"),
        ),
    ),
    Claim(
        "B8", "Reusing a pool's memory saves the time of repeated allocation.", "emptying it costs time",
        "step time, pool emptied after every step / kept", False, "on a GPU an allocation synchronises the device", (GPU_FIRST,),
        arms=(
            *ratios("train/pool_off", "train/fp32", SLOWER, frameworks=(*TORCH, *JAX), label="no pool", quantity=TIME),
            *ratios("train/empty_cache", "train/fp32", SLOWER, frameworks=JITTOR, label="emptied", quantity=TIME),
        ),
        needs=CARD,
        note="Time is judged: on a CPU nothing counts how often memory is asked of a device",
    ),
    Claim(
        "B9", "Accumulation needs less memory than the large batch at once.", "less", "peak, 4 micro-batches / the batch at once",
        True, DATA_FLOW,
        (Advice("Accumulate: {range}.", "less"), Advice("Compare it with the batch at once.")),
        part="memory",
        arms=(*ratios("train/accumulate", "train/fp32"), *planned("train/accumulate", "train/fp32")),
    ),
    Claim(
        "B9", "Accumulation needs no more memory than the small batch.", "no more (by at most 1 %: ours)", "peak, 4 micro-batches / one of them alone", True,
        DATA_FLOW, (Advice("Count the sums of the gradients on top of the small batch: {range}.", "more"), COMPARE), part="way",
        arms=of_the_small_batch(),
        evidence=(*of_the_way("", "@-2", GPT), *of_the_way("@1", "@-1", UNET), *of_the_way("@2", "", RESNET)),
        note="The share of the way from the large batch's peak to the small one's stands beside",
    ),
    Claim(
        "B9", "Accumulation gives the large batch's gradient.", "same gradient (within 0.1 %: ours)", "relative difference of the gradient's norm", True,
        "batch norm sees micro-batches everywhere",
        (Advice("Compare gradients first where the model has batch norm."),), part="gradient",
        arms=each(lambda w, f: Apart(GRADIENT, ref(w, f, "train/accumulate"), ref(w, f, "train/fp32")), SAME_GRADIENT),
        note="ResNet-50 has batch norm, the U-Net and the Transformer have not. At the small "
        "size their records passed verification on both sides, tensor by tensor, by the same float64 references; of the card the norm alone is told",
    ),
    Claim(
        "B10", "Micro-batches lower the memory of long sequences.", "less", "peak, 4 micro-batches / none, sequences 4 times as long",
        True, DATA_FLOW, (Advice("Split the batch: {range}.", "less"), COMPARE),
        arms=(
            *ratios("train/accumulate+long", "train/long", workloads=GPT),
            *planned("train/accumulate+long", "train/long", workloads=GPT),
        ),
        evidence=(
            *ratios("train/checkpoint+long", "train/long", workloads=GPT, label="checkpoint"),
            *ratios("train/accumulate+long", "train/long", SLOWER, GPT, label="time", quantity=TIME),
        ),
    ),
    Claim(
        "B12", "torch.cuda.empty_cache() frees memory.", "less reserved", "reserved between two steps, after the call / before", False,
        "PyTorch has no caching allocator on a CPU", (GPU_FIRST,), part="memory",
        evidence=(
            *ratios("train/empty_cache", "train/fp32", LESS, frameworks=TORCH, label="most in a step, train", quantity=RESERVED),
            *planned("train/empty_cache", "train/fp32", LESS, frameworks=TORCH, label="most in a step, train"),
            *planned("eval/empty_cache", "eval/no_grad", LESS, frameworks=TORCH, label="most in a step, eval"),
            *ratios("train/empty_cache", "train/fp32", LESS, frameworks=JITTOR, label="pool, jt.gc()", quantity=POOL),
            snippet("torch_empty_cache", "torch, reserved without a card", of_all("reserved"), NONE),
        ),
        needs=Needs(case="what is reserved just before the call and just after"),
        note="The most that is reserved in a step stands beside. It is reached before the call, and is no answer. A card's record of "
        "`empty_cache` says how many segments the call gave back, not what was reserved before it",
    ),
    Claim(
        "B12", "torch.cuda.empty_cache() costs time.", "slower", "step time, emptied / kept", False,
        "PyTorch has no caching allocator on a CPU", (GPU_FIRST,), part="speed",
        arms=ratios("train/empty_cache", "train/fp32", SLOWER, frameworks=TORCH, quantity=TIME),
        evidence=ratios("train/empty_cache", "train/fp32", SLOWER, frameworks=JITTOR, label="jt.gc()", quantity=TIME),
        needs=CARD,
    ),
    Claim(
        "B13", "jittor.misc.set_memory_limit() caps memory.", "a cap", "names found", False,
        "on a CPU JT_SAVE_MEM swaps to a disk, on a GPU to host memory",
        (Advice("There is no such function. A build with JT_SAVE_MEM has device_mem_limit, which swaps."),),
        absent=("jittor.misc.set_memory_limit",),
        evidence=(
            snippet("jittor_memory_limit", "as printed", of_all("capped"), NONE),
            *ratios("train/mem_limit", "train/fp32", LESS, frameworks=JITTOR, label="JT_SAVE_MEM, reserved", quantity=RESERVED),
        ),
    ),
    Claim(
        "B14", "TF32 and float16 tensor cores speed training up.", "faster", "step time, tf32 or amp / float32", False,
        "a CPU has no tensor cores", (GPU_FIRST,),
        arms=(
            *ratios("train/tf32", "train/fp32", FASTER, label="TF32", quantity=TIME),
            *ratios("train/amp_fp16", "train/fp32", FASTER, label="float16", quantity=TIME),
        ),
        needs=CARD,
    ),
    Claim(
        "B15", "Preparing input beside the step shortens the wait.", "less waiting", "waiting's share of the step, prefetched less in turn",
        False, "the faster the step, the larger the share of the wait",
        (Advice("Prefetch: the wait changed by {range}.", "less"), Advice("Look at the share of the wait first.")),
        arms=each(lambda w, f: Difference(share("wait"), ref(w, f, "pipeline/prefetch"), ref(w, f, "pipeline/memmap")),
                  Target(-1, 0.0, POINTS), RESNET),
        evidence=(
            *each(lambda w, f: Value(share("wait"), ref(w, f, "pipeline/memmap"), "share"), Target(1, 0.0, POINTS), RESNET,
                  label="waiting's share, in turn"),
            *ratios("pipeline/prefetch", "pipeline/memmap", FASTER, RESNET, label="time", quantity=TIME),
        ),
        needs=CARD,
        note="In points of the step",
    ),
    Claim(
        "B16", "nn.VolumeBatchNorm3d saves 20 %.", "-20 %", "names found", False, "there is nothing to measure",
        (Advice("There is no such class; nn.BatchNorm3d exists."),),
        absent=("jittor.nn.VolumeBatchNorm3d",),
        evidence=(
            snippet("jittor_volume_norm", "as printed", of_all("channels"), NONE),
            snippet("torch_batch_norm_3d", "torch: a step's bytes with nn.BatchNorm3d / without", counts_over("normed", "plain"),
                    times(0.8), "change"),
            snippet("torch_batch_norm_3d", "torch.nn.VolumeBatchNorm3d, found", of_all("volume_norms"), NONE),
        ),
    ),
    Claim(
        "B17", "Checkpointing a 3-D U-Net takes its activations from 12 to 4 GB.", "-67 %",
        "what is kept for the backward pass, checkpoint / plain", True, DATA_FLOW,
        (Advice("Expect {range} of what is kept. All that a step adds stands beside.", "less"), COMPARE),
        arms=(
            *ratios("train/checkpoint", "train/fp32", times(1 / 3), UNET, TORCH, "kept", KEPT),
            *ratios("train/checkpoint@-1", "train/fp32@-1", times(1 / 3), UNET, TORCH, "kept, half the batch", KEPT),
        ),
        evidence=(
            *planned("train/checkpoint", "train/fp32", times(1 / 3), UNET, TORCH, "kept at the peak", "kept"),
            of_the_volume("kept", "kept at the peak"),
            *planned("train/checkpoint", "train/fp32", times(1 / 3), UNET, label="added", quantity="added"),
            of_the_volume("added", "added"),
            *ratios("train/checkpoint", "train/fp32", times(1 / 3), UNET, label="added", quantity=ADDED),
            *ratios("train/checkpoint@-1", "train/fp32@-1", times(1 / 3), UNET, TORCH, "added, half the batch", ADDED),
        ),
        needs=FULL,
        note="The article's volume is 512x512x128: as many voxels as sixteen of 128x128x128, of which the arms' batches are made. PyTorch "
        "alone tells what is kept for the backward pass apart from recomputed blocks and gradients; its plan tells what of it is there at "
        "the peak, when some is free again",
    ),
    Claim(
        "B18", "On a 3-D U-Net mixed precision takes 30 % more off a checkpointed step.", "-30 %", "peak, checkpoint+amp / checkpoint",
        False, CPU_HALF, (Advice("Combine them, and check the gradients: {range}.", "less"), COMPARE), part="memory",
        arms=(
            *planned("train/amp_bf16+checkpoint", "train/checkpoint", times(0.7), UNET),
            *ratios("train/amp_bf16+checkpoint", "train/checkpoint", times(0.7), UNET),
        ),
        needs=FULL,
        note="The article's 3-D case is of a large volume. PyTorch's U-Net in bfloat16 failed verification on xeon-2core, and at full "
        "size on nvidia-h200",
    ),
    Claim(
        "B18", "On a 3-D U-Net checkpointing and mixed precision together are 1.8 times faster.", "1.8 x faster",
        "step time, checkpoint+amp / float32", False, CPU_HALF, (GPU_FIRST,), part="speed",
        arms=ratios("train/amp_bf16+checkpoint", "train/fp32", times(1 / 1.8, 0.05), UNET, quantity=TIME),
        needs=FULL_ON_A_CARD,
    ),
    Claim(
        "B19", "torch.compile fuses kernels, and saves memory.", "less", "peak, compiled / eager", False, COMPILER, (COMPARE,),
        part="memory",
        arms=(
            *ratios("train/compile", "train/fp32", frameworks=TORCH, label="train"),
            *ratios("eval/compile", "eval/no_grad", frameworks=TORCH, label="eval"),
        ),
    ),
    Claim(
        "B19", "torch.compile fuses kernels, and saves time.", "faster", "step time, compiled / eager", False, COMPILER, (GPU_FIRST,),
        part="speed", arms=ratios("train/compile", "train/fp32", FASTER, quantity=TIME), needs=CARD,
    ),
    Claim(
        "B19", "torch.compile is there from version 1.13 on.", "1.13", "names found", True, SAME_CODE,
        (Advice("Take PyTorch 2.0 or newer."),), part="version",
        needs=Needs(release="torch 1.13"),
        note="The release notes of PyTorch 2.0, of March 2023, bring torch.compile. No older release was tried",
    ),
    Claim(
        "B20", "jittor.ops.optimized_attention replaces attention.", "less", "names found", False, "fused kernels on a GPU are others",
        (Advice("There is no such function in Jittor. PyTorch has scaled_dot_product_attention."),),
        absent=("jittor.ops.optimized_attention",),
        evidence=(
            snippet("jittor_attention", "as printed", of_all("tokens"), NONE),
            *ratios("train/fp32", "train/attention_plain", workloads=GPT, frameworks=TORCH, label="PyTorch, train"),
            *ratios("eval/no_grad", "eval/attention_plain", workloads=GPT, frameworks=TORCH, label="PyTorch, eval"),
        ),
    ),
)  # fmt: skip
