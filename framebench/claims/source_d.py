"""Source D: GPU memory and the garbage collector in Flux.jl. Python's loops stand beside: they are others, and decide nothing."""

from __future__ import annotations

from collections.abc import Callable

from framebench.claims import probed
from framebench.claims.arms import FASTER, JAX, LESS, POINTS, RESNET, each, ratios, ref, times
from framebench.claims.claim import Advice, Arm, Claim
from framebench.claims.measures import OfProbe, Value
from framebench.claims.needs import JULIA, JULIA_ON_A_CARD, Needs
from framebench.claims.probed import Found
from framebench.claims.rule import Effect, Target
from framebench.claims.samples import TIME, evidence, share
from framebench.strategies.strategy import FRAMEWORKS

OTHER_COLLECTOR = "Julia's collector owns the arrays; Python's counts references first, and collects cycles only, on any device"
TRANSFERS = "there is no transfer to a device on a CPU"
COLLECTOR = share("collector")
HELD = evidence("bytes_held_before_evaluation")
NAIVE, DISCIPLINED = "pipeline/whole_every_step", "pipeline/gc_every_2+reused"
TIMED = "Measure it in Julia, by CUDA.@time: nothing here runs there."
HELD_THERE = "Measure it in Julia, by CUDA.memory_status(): nothing here runs there."
TRIED = "Run it in Julia: nothing here runs there."


def collected(of: Callable[[Found], Effect], label: str) -> tuple[Arm, ...]:
    return tuple(Arm(f"Python, transformer/{f} {label}", OfProbe(f"collector-{f}", of, "change", "b4"), LESS) for f in FRAMEWORKS)


def julia(
    id: str, says: str, claimed: str, metric: str, why: str, advice: str, *beside: Arm, part: str = "", needs: Needs = JULIA_ON_A_CARD
) -> Claim:
    """A sentence of the article that only a program in Julia can decide."""
    return Claim(id, says, claimed, metric, False, why, (Advice(advice),), evidence=beside, needs=needs, part=part)


CLAIMS = (
    julia("D1", "Collecting garbage every two iterations bounds memory.", "less", "bytes that a process grows to", OTHER_COLLECTOR, HELD_THERE,
          *collected(probed.collected_every_2, "every 2 steps"), *collected(probed.collected_by_python, "as Python likes")),
    julia("D2", "Reclaiming memory after a collection returns it to the device.", "less held", "memory held after training", OTHER_COLLECTOR, HELD_THERE,
          *ratios("eval/after_training_cleared", "eval/after_training", quantity=HELD, label="held")),
    julia("D3", "Buffers made beforehand stop memory from growing in the loop.", "less", "peak, reused / fresh buffers", TRANSFERS, HELD_THERE,
          *ratios("train/fp32", "train/no_donate", frameworks=JAX, label="donated state"), part="memory"),
    julia("D3", "Buffers made beforehand make the loop faster.", "faster", "step time, reused / fresh buffers", TRANSFERS, TIMED,
          *ratios("train/fp32", "train/no_donate", FASTER, frameworks=JAX, label="donated state", quantity=TIME), part="speed"),
    julia("D4", "A batch iterator lowers the cost of transfers.", "less waiting", "step time, iterator / whole array at every step", TRANSFERS, TIMED,
          *ratios("pipeline/iterator", NAIVE, FASTER, RESNET, label="preparation alone", quantity=TIME)),
    julia("D5", "All together: from 28.5 s to 0.8 s.", "-97 % time", "step time, disciplined / naive loop", OTHER_COLLECTOR, TIMED,
          *ratios(DISCIPLINED, NAIVE, times(0.8 / 28.5, 0.05), RESNET, label="Python", quantity=TIME), part="speed"),
    julia("D5", "The collector takes 67 % of the naive loop.", "67 %", "collector's share of the naive step", OTHER_COLLECTOR, TIMED,
          *each(lambda w, f: Value(COLLECTOR, ref(w, f, NAIVE), "share"), Target(1, 0.0, POINTS, 0.67), RESNET, label="Python"),
          part="collector"),
    julia("D6", "The collector takes 3 % of the disciplined loop.", "3 %", "collector's share of the disciplined step", OTHER_COLLECTOR, TIMED,
          *each(lambda w, f: Value(COLLECTOR, ref(w, f, DISCIPLINED), "share"), Target(1, 0.0, 0.0, 0.03), RESNET, label="Python")),
    julia("D7", "Transfers fall from 0.1 s to 0.001 s.", "-99 % time", "time of a transfer", TRANSFERS, TIMED),
    julia("D8", "Memory can be reclaimed only after a collection.", "not before", "memory held", OTHER_COLLECTOR, HELD_THERE),
    julia("D9", "The collector cannot see the card's memory.", "it cannot", "collections while the card fills", OTHER_COLLECTOR, TIMED),
    julia("D10", "CUDA.zeros makes a buffer once.", "it runs", "the listing's run", TRANSFERS, TRIED),
    julia("D11", "Flux.DataLoader hands out batches.", "it runs", "the listing's run", TRANSFERS, TRIED, needs=JULIA),
)  # fmt: skip
