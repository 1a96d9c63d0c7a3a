"""Source A: Jittor, train mode against eval mode."""

from __future__ import annotations

from framebench.claims.arms import (
    BYTES,
    GPT,
    JAX,
    JITTOR,
    LESS,
    MORE,
    POINTS,
    SOME,
    TORCH,
    each,
    not_recomputed,
    planned,
    planned_steps,
    ratios,
    ref,
    snippet,
    sweeps,
)
from framebench.claims.claim import Advice, Claim
from framebench.claims.measures import Ratio, Value
from framebench.claims.needs import CARD, Needs
from framebench.claims.probed import difference, of_all
from framebench.claims.rule import Target
from framebench.claims.samples import FLOAT16, FRAGMENTATION, RESERVED, TIME, evidence
from framebench.strategies.strategy import FRAMEWORKS

OTHERS = tuple(f for f in FRAMEWORKS if f not in JITTOR)
PROPORTIONAL = Target(-1, 1.0, 0.05)  # an exponent below 1 by more than a twentieth
NOT_MONOTONIC = Target(-1, 1.0, BYTES)
FALLS = Target(1, 0.0, POINTS)
DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
MIB = 2**20
LARGEST, KERNELS = evidence("largest_block_bytes"), evidence("kernels")
POOL = "the pool is the same code on a GPU, but the sizes asked of it are those of other kernels"
OTHER_KERNELS = "on a GPU other operators are fused"
GPU_FIRST = Advice("Measure it on your card first.")

CLAIMS = (
    Claim(
        "A1", "Evaluation needs less memory than training with the same batch.", "eval < train", "peak, eval / train",
        True, DATA_FLOW,
        (Advice("Evaluate without gradients, and choose the evaluation's batch by its own peak: {range} against training.", "less"),),
        arms=(*ratios("eval/no_grad", "train/fp32"), *planned("eval/no_grad", "train/fp32")),
    ),
    Claim(
        "A2", "Bytes per sample fall as the batch grows.", "exponent < 1", "largest exponent of the peak between successive batches",
        True, DATA_FLOW,
        (
            Advice("Raise the batch where memory is what a sample costs: the exponents are {range}.", "less"),
            Advice("Compare two batches of your own."),
        ),
        arms=(
            *sweeps("steepest", "train/fp32", PROPORTIONAL, label="train"),
            *sweeps("steepest", "eval/no_grad", PROPORTIONAL, label="eval"),
        ),
        evidence=(
            *planned_steps("train/fp32", PROPORTIONAL, label="train"),
            *planned_steps("eval/no_grad", PROPORTIONAL, label="eval"),
        ),
        note="Between each batch and the next: the ends of a sweep would hide where bytes per sample rise. Plans stand beside: between two "
        "batches their error leaves every exponent open",
    ),
    Claim(
        "A3", "On a GPU a larger evaluation batch can fit where a smaller one fails.", "some larger batch needs less",
        "least peak ratio of successive batches", False,
        "kernels and their workspaces are chosen by size on a GPU, so a step down could exist there",
        (Advice("Search the largest batch by `framebench max-batch`: it tries batches until one fails."),),
        arms=(
            *sweeps("step", "eval/no_grad", NOT_MONOTONIC, frameworks=JITTOR, label="fused"),
            *sweeps("step", "eval/no_fuse", NOT_MONOTONIC, frameworks=JITTOR, label="no_fuse"),
        ),
        evidence=(
            *sweeps("step", "eval/no_grad", NOT_MONOTONIC, frameworks=JITTOR, label="reserved", quantity=RESERVED),
            *sweeps("step", "eval/no_grad", NOT_MONOTONIC, frameworks=OTHERS),
        ),
        needs=CARD,
        note="A user's evaluation on a GPU failed. What a CPU shows cannot tell that no GPU does so",
    ),
    Claim(
        "A4", "Fusion in evaluation asks for larger blocks.", "fused > not fused", "largest block, fused / no_fuse",
        False, OTHER_KERNELS,
        (
            Advice("Leave fusion on: the largest block is {range} with it.", "less"),
            Advice("Look at the largest block with and without it."),
        ),
        arms=ratios("eval/no_onednn", "eval/no_fuse+no_onednn", MORE, frameworks=JITTOR, quantity=LARGEST),
        evidence=(
            *ratios("eval/no_onednn", "eval/no_fuse+no_onednn", MORE, frameworks=JITTOR, label="peak"),
            *ratios("eval/no_grad", "train/fp32", MORE, frameworks=JITTOR, label="eval / train, largest block", quantity=LARGEST),
        ),
        note="Without oneDNN in both arms: with it, libraries would be compared and not the fusion",
    ),
    Claim(
        "A5", "Small batches fragment memory.", "less contiguous room", "bytes free for lack of a contiguous block", False, POOL,
        (Advice("Look at `allocator.reserved` beside the peak."),),
        evidence=(
            *sweeps("fall", "train/fp32", FALLS, frameworks=JITTOR, label="slack of the pool, train", quantity=FRAGMENTATION),
            *sweeps("fall", "eval/no_grad", FALLS, frameworks=JITTOR, label="slack of the pool, eval", quantity=FRAGMENTATION),
        ),
        needs=Needs(instrument="the pool's largest free block"),
        note="What is free in the pool as the timed steps left it stands beside: it tells nothing of contiguous blocks",
    ),
    Claim(
        "A6", "CUDA's unified memory relieves the device.", "device peak falls", "peak, managed / default",
        False, "a CPU build of Jittor does not have the flag", (GPU_FIRST,),
        arms=ratios("train/managed_allocator", "train/fp32", LESS, frameworks=JITTOR),
        needs=CARD,
    ),
    Claim(
        "A7", "Jittor's amp_level = 3 saves memory.", "less", "peak, amp_level 3 / float32",
        False, "on a CPU Jittor's products take float32 alone; on CUDA kernels in half precision exist",
        (
            Advice("Do not set it for memory on a CPU: it changed the peak by {range}.", "none"),
            Advice("Set it: {range}.", "less"),
            Advice("Look first whether any variable is in half precision: on a CPU the level does nothing."),
        ),
        arms=ratios("train/amp_level_3", "train/fp32", LESS, frameworks=JITTOR),
        evidence=(
            *each(lambda w, f: Value(FLOAT16, ref(w, f, "train/amp_level_3")), SOME, frameworks=JITTOR,
                  label="variables in half precision"),
            *ratios("train/amp_level_5", "train/fp32", LESS, workloads=GPT, frameworks=JITTOR, label="level 5"),
        ),
        reaches=FLOAT16,
        note="Levels 4 to 6 are not judged: they change the weights' type too",
    ),
    Claim(
        "A8", "Recomputing activations lowers the memory of large models.", "less", "peak, checkpoint / plain",
        True, DATA_FLOW,
        (Advice("Use it: the most was {most} ({most_arm}), the least {least} ({least_arm}).", "less"),),
        arms=(
            *ratios("train/checkpoint", not_recomputed),
            *ratios("train/checkpoint+depth_16", "train/depth_16", workloads=GPT, frameworks=(*TORCH, *JITTOR), label="16 layers"),
            *planned("train/checkpoint", not_recomputed),
        ),
        evidence=(
            *ratios("train/checkpoint", "train/fp32", LESS, GPT, JAX, "scan + remat / unrolled"),
            *ratios("train/checkpoint+depth_16", "train/depth_16", LESS, GPT, JAX, "16 layers, scan + remat / unrolled"),
        ),
        note="Jittor has no checkpointing of its own: its arms are this suite's. JAX's Transformer runs its layers as one scanned layer "
        "on both sides",
    ),
    Claim(
        "A9", "Evaluation asks for larger contiguous blocks than training.", "eval > train", "largest block, eval / train",
        False, OTHER_KERNELS, (Advice("Compare the largest block of both at your batch."),),
        arms=ratios("eval/no_grad", "train/fp32", MORE, frameworks=JITTOR, quantity=LARGEST),
    ),
    Claim(
        "A10", "Fusion saves launches of kernels.", "fewer", "kernels of an evaluation, fused / no_fuse", False, OTHER_KERNELS,
        (Advice("Leave fusion on: {range} kernels in an evaluation.", "less"), GPU_FIRST),
        arms=ratios("eval/no_onednn", "eval/no_fuse+no_onednn", LESS, frameworks=JITTOR, quantity=KERNELS),
        evidence=ratios("eval/no_grad", "eval/no_fuse", LESS, frameworks=JITTOR, label="with oneDNN", quantity=KERNELS),
        note="Without oneDNN in both arms. A kernel is a launch on a GPU and a call on a CPU",
    ),
    Claim(
        "A11", "Larger batches are faster per sample.", "faster", "step time, twice the batch / the batch", False,
        "how well a batch fills a device is that device's", (Advice("Time two batches of your own."),),
        arms=each(
            lambda w, f: Ratio(TIME, ref(w, f, "train/fp32@1"), ref(w, f, "train/fp32")), Target(-1, 2.0, 0.1), frameworks=JITTOR
        ),
        needs=CARD,
    ),
    Claim(
        "A12", "Jittor shows what memory is held.", "more than 0", "bytes shown while an array of 1 MiB is held", True,
        "the same Python code runs on every device",
        (Advice("Look at `jt.display_memory_info()`: it shows {measured} bytes of an array of 1 MiB.", "more"),), part="shown",
        arms=(snippet("jittor_memory_tools", "jittor", of_all("held"), Target(1, 0.0, 0.5 * MIB)),),
    ),
    Claim(
        "A12", "After deletion and jt.gc() Jittor no longer counts an array as in use.", "all of it",
        "bytes in use shown after deletion and jt.gc() less before", True,
        "the same Python code runs on every device",
        (Advice("Look at what is shown after an array is gone: with the listing's calls it changed by {measured} bytes.", "less"),), part="returned",
        arms=(snippet("jittor_memory_tools", "jittor", difference("left", "held"), Target(-1, 0.0, 0.5 * MIB)),),
        note="Deletion alone may lower what is in use: no arm tells what jt.gc() adds, or what the system gets back",
    ),
    Claim(
        "A13", "Jittor has checkpointing.", "it exists", "names found", True, "the same Python code runs on every device",
        (Advice("Recompute by hand, as this suite's adapter does (`framebench/adapters/jittor/checkpoint.py`)."),),
        absent=("jittor.checkpoint", "jittor.utils.checkpoint", "jittor.nn.checkpoint", "jittor.**checkpoint**", "jittor.**recompute**",
                "jittor.**remat**"),
        note="Searched is every public name of every module that the package imports, for checkpoint, recompute and remat",
    ),
)  # fmt: skip
