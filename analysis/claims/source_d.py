"""Source D: GPU memory and the garbage collector in Flux.jl; the same effects in Python's frameworks."""

from __future__ import annotations

from analysis.claims.arms import FASTER, JAX, JITTOR, POINTS, RESNET, SECONDS, TORCH, each, ratios, ref, times
from analysis.claims.claim import Claim
from analysis.claims.measures import Difference, Value
from analysis.claims.rule import Target
from analysis.claims.samples import LIVE, RESERVED, TIME, share

OTHER_COLLECTOR = "Julia's collector owns the arrays; Python's counts references first, and collects cycles only, on any device"
COLLECTOR = share("collector")
NAIVE, DISCIPLINED = "pipeline/gc_every_1", "pipeline/gc_frozen+prefetch"

CLAIMS = (
    Claim(
        "D1", "Collecting garbage every two iterations bounds memory.", "less", "peak, collected every 2 steps / never", True,
        OTHER_COLLECTOR,
        "Leave Python's collector alone: calling it changed the peak by {range}, and costs the share shown. Break "
        "reference cycles instead.",
        if_so="Collect between steps where memory is short: {range}; the collector's share of the step is shown beside.",
        arms=ratios("train/gc_every_2", "train/gc_off"),
        evidence=(
            *ratios("train/gc_every_1", "train/gc_off", label="every step"),
            *each(lambda w, f: Value(COLLECTOR, ref(w, f, "train/gc_every_2"), "share"), Target(1, 0.0, POINTS),
                  label="collector's share"),
            *ratios("train/gc_every_2", "train/gc_off", Target(1, 1.0, SECONDS), label="time", quantity=TIME),
        ),
    ),
    Claim(
        "D2", "Reclaiming memory after a collection returns it to the device.", "less held", "memory held after training, cleared / not",
        False, "PyTorch's cache exists on a GPU only; JAX holds arrays, Jittor a pool, on either",
        "Delete what refers to the trained state first; then reclaim: {range} of what was held stays.",
        arms=(
            *ratios("eval/after_training_cleared", "eval/after_training", frameworks=TORCH, quantity=RESERVED),
            *ratios("eval/after_training_cleared", "eval/after_training", frameworks=(*JAX, *JITTOR), quantity=LIVE),
        ),
    ),
    Claim(
        "D3", "Buffers made beforehand stop memory from growing in the loop.", "less, faster",
        "peak and step time, reused / fresh buffers", False, "on a GPU the copy to the device decides",
        "Donate the step's arguments in JAX; input buffers matter little: {range}.",
        arms=(
            *ratios("pipeline/reused", "pipeline/memmap", workloads=RESNET, label="input buffer"),
            *ratios("pipeline/reused", "pipeline/memmap", FASTER, RESNET, label="input buffer, time", quantity=TIME),
            *ratios("train/fp32", "train/no_donate", frameworks=JAX, label="donated state"),
        ),
        evidence=ratios("train/fp32", "train/no_donate", FASTER, frameworks=JAX, label="donated state, time", quantity=TIME),
    ),
    Claim(
        "D4", "A batch iterator lowers the cost of transfers.", "less waiting", "waiting's share of the step, iterator less whole array",
        False, "there is no transfer to a device on a CPU: only the preparation is seen",
        "Iterate to save memory, and prefetch against the wait, whose shares stand beside. The share changed by {range}.",
        arms=each(lambda w, f: Difference(share("wait"), ref(w, f, "pipeline/iterator"), ref(w, f, "pipeline/whole")),
                  Target(-1, 0.0, POINTS), RESNET),
        evidence=(
            *ratios("pipeline/iterator", "pipeline/whole", FASTER, RESNET, label="time", quantity=TIME),
            *each(lambda w, f: Value(share("wait"), ref(w, f, "pipeline/iterator"), "share"), Target(-1, 0.0, POINTS), RESNET,
                  label="waiting's share, iterator"),
            *each(lambda w, f: Value(share("wait"), ref(w, f, "pipeline/whole"), "share"), Target(-1, 0.0, POINTS), RESNET,
                  label="waiting's share, whole"),
            *ratios("pipeline/iterator", "pipeline/whole", workloads=RESNET, label="peak"),
        ),
    ),
    Claim(
        "D5", "All together: from 28.5 s to 0.8 s, the collector's share from 67 % to 3 %.", "-97 % time; 67 % to 3 %",
        "step time, disciplined / naive loop; the collector's share of each", False,
        "the naive loop's transfers do not exist on a CPU, and Julia's collector is another",
        "Expect what the collector's and the waiting's shares say, no more: {range} of the time.",
        arms=ratios(DISCIPLINED, NAIVE, times(0.8 / 28.5, SECONDS), RESNET, quantity=TIME),
        evidence=(
            *each(lambda w, f: Value(COLLECTOR, ref(w, f, NAIVE), "share"), Target(1, 0.0, POINTS, 0.67), RESNET,
                  label="collector's share, naive"),
            *each(lambda w, f: Value(COLLECTOR, ref(w, f, DISCIPLINED), "share"), Target(1, 0.0, 0.0, 0.03), RESNET,
                  label="collector's share, disciplined"),
            *each(lambda w, f: Value(share("wait"), ref(w, f, NAIVE), "share"), Target(1, 0.0, POINTS), RESNET,
                  label="waiting's share, naive"),
        ),
    ),
)  # fmt: skip
