"""Source A: Jittor, train mode against eval mode."""

from __future__ import annotations

from framebench.features.claims.arms import BYTES, GPT, JITTOR, LESS, MORE, POINTS, RESNET, ratios, sweeps
from framebench.features.claims.claim import Claim
from framebench.features.claims.rule import Target
from framebench.features.claims.samples import FRAGMENTATION, RESERVED, evidence
from framebench.suite.strategy import FRAMEWORKS

OTHERS = tuple(f for f in FRAMEWORKS if f not in JITTOR)
PROPORTIONAL = Target(-1, 1.0, 0.05)  # an exponent below 1 by more than a twentieth
NOT_MONOTONIC = Target(-1, 1.0, BYTES)
FALLS = Target(1, 0.0, POINTS)
DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
LARGEST = evidence("largest_block_bytes")
POOL = "the pool is the same code on a GPU, but the sizes asked of it are those of other kernels"

CLAIMS = (
    Claim(
        "A1", "Evaluation needs less memory than training with the same batch.", "eval < train", "peak, eval / train",
        True, DATA_FLOW,
        "Evaluate without gradients, and choose the evaluation's batch by its own peak: {range} against training here.",
        arms=ratios("eval/no_grad", "train/fp32", LESS),
    ),
    Claim(
        "A2", "Memory grows more slowly than the batch, so that a sample costs fewer bytes in a larger one.",
        "exponent < 1", "exponent of the peak over the batch", True, DATA_FLOW,
        "Weights, gradients and optimizer states are paid once: raise the batch until activations dominate (exponents {least} to "
        "{most} here), then there is nothing more to save.",
        arms=(
            *sweeps("exponent", "train/fp32", PROPORTIONAL, label="train"),
            *sweeps("exponent", "eval/no_grad", PROPORTIONAL, label="eval"),
        ),
        definition="Weights and states do not grow with the batch: where activations grow in proportion to it, the sum grows more slowly",
    ),
    Claim(
        "A3", "A larger evaluation batch can fit where a smaller one fails.", "some larger batch needs less",
        "least peak ratio of successive batches", False,
        "kernels and their workspaces are chosen by size on a GPU, so a step down could exist there",
        "Do not look for luck in larger batches: `framebench max-batch` finds the largest batch that fits. On the machine "
        "measured, from one batch to the next the peak changed by {range} at the least.",
        if_so="Try the next larger batch too: from one batch to the next the peak changed by {most} at the most favourable.",
        about_gpus="The failure was a GPU's, whose kernels and workspaces are chosen by size; a CPU's peaks are shown beside",
        arms=(
            *sweeps("step", "eval/no_grad", NOT_MONOTONIC, frameworks=JITTOR, label="fused"),
            *sweeps("step", "eval/no_fuse", NOT_MONOTONIC, frameworks=JITTOR, label="no_fuse"),
        ),
        evidence=(
            *sweeps("step", "eval/no_grad", NOT_MONOTONIC, frameworks=JITTOR, label="reserved", quantity=RESERVED),
            *sweeps("step", "eval/no_grad", NOT_MONOTONIC, frameworks=OTHERS),
        ),
    ),
    Claim(
        "A4", "Fusion in evaluation asks for more memory at once.", "fused > not fused", "largest block, fused / no_fuse",
        False, "on a GPU other operators are fused",
        "Leave fusion on until your card says otherwise. On the machine measured, the fused step's largest block was {range} "
        "against the unfused one's.",
        if_so="Where one large block does not fit, try jt.flags.no_fuse = 1: the fused step's largest block was {range} against the "
        "unfused one's.",
        about_gpus="Jittor fuses other operators on a GPU, and takes convolutions from cuDNN there",
        note="Compared without oneDNN in both arms: unfused, Jittor cannot hand its products and convolutions to oneDNN, and writes "
        "out every product, so that with oneDNN the libraries would be compared, not the fusion. The claim is about one block, so "
        "the largest is taken, not the peak.",
        arms=ratios("eval/no_onednn", "eval/no_fuse+no_onednn", MORE, frameworks=JITTOR, quantity=LARGEST),
        evidence=(
            *ratios("eval/no_onednn", "eval/no_fuse+no_onednn", MORE, frameworks=JITTOR, label="peak"),
            *ratios("eval/no_grad", "eval/no_onednn", MORE, workloads=RESNET, frameworks=JITTOR, label="oneDNN / without, peak"),
        ),
    ),
    Claim(
        "A5", "Small batches fragment memory.", "free share of the pool falls with the batch",
        "free share at the smallest batch less that at the largest", False, POOL,
        "Do not raise the batch against fragmentation: the pool's free share fell by {range} (below 0: it rose) "
        "from the smallest batch to the largest; look at `allocator.reserved` beside the peak.",
        if_so="Prefer larger batches where the pool is tight: its free share fell by {range} from the smallest batch to the largest.",
        note="The pool is taken as the timed steps have left it. Memory workers empty it before each step, which would hide what "
        "fragments it.",
        arms=(
            *sweeps("fall", "train/fp32", FALLS, frameworks=JITTOR, label="train", quantity=FRAGMENTATION),
            *sweeps("fall", "eval/no_grad", FALLS, frameworks=JITTOR, label="eval", quantity=FRAGMENTATION),
        ),
    ),
    Claim(
        "A6", "CUDA's unified memory relieves the device.", "device peak falls", "peak, managed / default",
        False, "a CPU build of Jittor does not have the flag",
        "Measure it on your card before trusting it: pages that move to the host are paid for in time.",
        arms=ratios("train/managed_allocator", "train/fp32", LESS, frameworks=JITTOR),
    ),
    Claim(
        "A7", "Jittor's amp_level = 3 saves memory.", "less", "peak, amp_level 3 / float32",
        True, "no variable changes its type at this level, wherever it runs (read in the source, counted on a CPU)",
        "Do not set it for memory: it changed the peak by {range}. Where half precision matters, use PyTorch's or "
        "JAX's bfloat16; Jittor's levels 4 to 6 need a GPU.",
        if_so="Set it: {range}.",
        arms=ratios("train/amp_level_3", "train/fp32", LESS, frameworks=JITTOR),
        evidence=ratios("train/amp_level_5", "train/fp32", LESS, workloads=GPT, frameworks=JITTOR, label="level 5"),
    ),
    Claim(
        "A8", "Recomputing activations lowers the memory of large models.", "less", "peak, checkpoint / plain",
        True, DATA_FLOW,
        "Use it where activations dominate: {most_arm} changed by {most}, {least_arm} by {least}.",
        arms=(
            *ratios("train/checkpoint", "train/fp32", LESS, workloads=GPT),
            *ratios("train/checkpoint+depth_16", "train/depth_16", LESS, workloads=GPT, label="16 layers"),
        ),
        evidence=(
            *ratios("train/checkpoint", "train/fp32", LESS, workloads=("resnet50", "unet3d")),
        ),
    ),
)  # fmt: skip
