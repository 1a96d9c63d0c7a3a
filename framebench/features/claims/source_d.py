"""Source D: GPU memory and the garbage collector in Flux.jl; the same effects in Python's frameworks."""

from __future__ import annotations

from collections.abc import Callable

from framebench.features.claims import probed
from framebench.features.claims.arms import FASTER, JAX, LESS, POINTS, RESNET, SECONDS, each, ratios, ref, times
from framebench.features.claims.claim import Arm, Claim
from framebench.features.claims.measures import OfProbe, Value
from framebench.features.claims.probed import Found
from framebench.features.claims.rule import Effect, Target
from framebench.features.claims.samples import TIME, evidence, share
from framebench.suite.strategy import FRAMEWORKS

OTHER_COLLECTOR = "Julia's collector owns the arrays; Python's counts references first, and collects cycles only, on any device"
COLLECTOR, WAIT = share("collector"), share("wait")
HELD = evidence("bytes_held_before_evaluation")
NAIVE, DISCIPLINED = "pipeline/whole_every_step", "pipeline/gc_every_2+reused"


def collected(of: Callable[[Found], Effect], label: str = "") -> tuple[Arm, ...]:
    return tuple(Arm(f"transformer/{f} {label}".strip(), OfProbe(f"collector-{f}", of, "change", "b4"), LESS) for f in FRAMEWORKS)


CLAIMS = (
    Claim(
        "D1", "Collecting garbage every two iterations bounds memory.", "less",
        "bytes that a process grows to in 20 steps, collected every 2 steps / never", True, OTHER_COLLECTOR,
        "Leave Python's collector alone: calling it changed what a process grew to by {range}, and costs the share shown. Break "
        "reference cycles instead.",
        if_so="Collect between steps where memory is short: {range}; the collector's share of the step is shown beside.",
        note="In a process where nothing else collects: memory workers do so before each step that they measure, in every arm",
        arms=collected(probed.collected_every_2),
        evidence=(
            *collected(probed.collected_every_1, "every step"),
            *collected(probed.collected_by_python, "as Python likes"),
            *each(lambda w, f: Value(COLLECTOR, ref(w, f, "train/gc_every_2"), "share"), Target(1, 0.0, POINTS),
                  label="collector's share"),
            *ratios("train/gc_every_2", "train/gc_off", Target(1, 1.0, SECONDS), label="time", quantity=TIME),
        ),
    ),
    Claim(
        "D2", "Reclaiming memory after a collection returns it to the device.", "less held", "memory held after training, cleared / not",
        False, "PyTorch's cache exists on a GPU only; JAX holds arrays, Jittor a pool, on either",
        "Drop what refers to the trained state, which returns it to the framework; only a pool has something to give back then. What "
        "was held changed by {range}.",
        note="What the framework holds of the system (reserved; of JAX its arrays), right after training, whose state nothing refers "
        "to in either arm",
        arms=ratios("eval/after_training_cleared", "eval/after_training", quantity=HELD),
    ),
    Claim(
        "D3", "Buffers made beforehand stop memory from growing in the loop.", "less", "peak, reused / fresh buffers", False,
        "on a GPU the copy to the device decides", "Donate the step's arguments in JAX; input buffers matter little: {range}.",
        part="memory",
        arms=(
            *ratios("pipeline/reused", "pipeline/memmap", workloads=RESNET, label="input buffer"),
            *ratios("train/fp32", "train/no_donate", frameworks=JAX, label="donated state"),
        ),
    ),
    Claim(
        "D3", "Buffers made beforehand make the loop faster.", "faster", "step time, reused / fresh buffers", False,
        "on a GPU the copy to the device decides", "Do not expect time from them: {range}.", part="speed",
        if_so="Reuse buffers: {range}.",
        arms=(
            *ratios("pipeline/reused", "pipeline/memmap", FASTER, RESNET, label="input buffer", quantity=TIME),
            *ratios("train/fp32", "train/no_donate", FASTER, frameworks=JAX, label="donated state", quantity=TIME),
        ),
    ),
    Claim(
        "D4", "A batch iterator lowers the cost of transfers.", "less waiting", "step time, iterator / whole array at every step", False,
        "there is no transfer to a device on a CPU: only the preparation is seen",
        "Iterate, or prepare everything once if it fits: against preparing everything at every step the time changed by {range}.",
        definition="To prepare and copy one batch is less than to prepare and copy all of them at every step, which is what the naive "
        "loop does; all of them once, before the loop, make no step wait at all",
        arms=ratios("pipeline/iterator", NAIVE, FASTER, RESNET, quantity=TIME),
        evidence=(
            *ratios("pipeline/iterator", "pipeline/whole", FASTER, RESNET, label="whole array once, time", quantity=TIME),
            *each(lambda w, f: Value(WAIT, ref(w, f, "pipeline/iterator"), "share"), Target(1, 0.0, POINTS), RESNET,
                  label="waiting's share, iterator"),
            *each(lambda w, f: Value(WAIT, ref(w, f, NAIVE), "share"), Target(1, 0.0, POINTS), RESNET,
                  label="waiting's share, whole array at every step"),
            *ratios("pipeline/iterator", "pipeline/whole", workloads=RESNET, label="whole array once, peak"),
        ),
    ),
    Claim(
        "D5", "All together: from 28.5 s to 0.8 s.", "-97 % time", "step time, disciplined / naive loop", False,
        "the naive loop's transfers do not exist on a CPU, and Julia's collector is another",
        "Expect what the shares of collector and waiting say, which stand beside, no more: {range} of the time.", part="speed",
        note="The disciplined loop collects every second step and reuses its buffer, as the article has it; the naive one leaves the "
        "collector to Python and prepares the whole array at every step. They had been the other way round",
        arms=ratios(DISCIPLINED, NAIVE, times(0.8 / 28.5, SECONDS), RESNET, quantity=TIME),
        evidence=each(lambda w, f: Value(WAIT, ref(w, f, NAIVE), "share"), Target(1, 0.0, POINTS), RESNET,
                      label="waiting's share, naive"),
    ),
    Claim(
        "D5", "All together: the collector's share of the naive loop, from 67 % to 3 %.", "67 %", "collector's share of the naive step",
        False, OTHER_COLLECTOR, "Look at the share first: it was {range} where Python's collector ran as it likes.", part="collector",
        arms=each(lambda w, f: Value(COLLECTOR, ref(w, f, NAIVE), "share"), Target(1, 0.0, POINTS, 0.67), RESNET),
        evidence=each(lambda w, f: Value(COLLECTOR, ref(w, f, DISCIPLINED), "share"), Target(1, 0.0, 0.0, 0.03), RESNET,
                      label="disciplined"),
    ),
)  # fmt: skip
