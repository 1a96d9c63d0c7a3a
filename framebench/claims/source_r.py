"""Source R: what users reported in the frameworks' trackers, each tried anew by a program small enough for a CPU.

The programs are `framebench/claims/<framework>_reports.py`; the last report is judged by the suite's own cases. What is judged is
whether the pinned release still does what was reported of another one, at the size of the program; a size is claimed only where the report
has one that does not depend on the model's.
"""

from __future__ import annotations

from collections.abc import Callable

from framebench.claims.arms import GPT, MORE, TORCH, below, planned, ratios, times
from framebench.claims.claim import Advice, Arm, Claim
from framebench.claims.measures import OfProbe
from framebench.claims.needs import Needs
from framebench.claims.planned_measures import PlannedReport
from framebench.claims.probed import Found, amount, of_all, off_from, over, saved
from framebench.claims.rule import Effect, Target

RELEASES = ("0.8.0", "0.8.3", "0.9.0", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2")  # of JAX that plan for a card
PLACES = {"torch": "pytorch/pytorch", "jax": "jax-ml/jax", "jittor": "Jittor/jittor"}
WRONG = 1e-2  # relative error of a gradient in float32: rounding explains a hundredth of it
SAVES = 0.05  # of the peak: less is no saving
CALL, SHAPE = 1.0, 1024.0  # bytes that a call, and a call with a new shape, may keep: of a million calls, 1 MB and 1 GB
SAVED = Target(1, 0.0, SAVES)
AS_MUCH = Target(1, 1 - SAVES)  # not below all but a twentieth
SAME_GRAPH = "the same graph is compiled for a GPU, by another back end"


def link(framework: str, number: int) -> str:
    return f"https://github.com/{PLACES[framework]}/issues/{number}"


def arm(framework: str, number: int, name: str, of: Callable[[Found], Effect], target: Target, form: str = "change") -> Arm:
    measure = OfProbe(f"report-{framework}-{number}", of, form, "the report's program, smaller")
    return Arm(f"{framework} {name}", measure, target)


def scan_plan(release: str, change: str, name: str, target: Target) -> Arm:
    """The program of jax 27748 at the report's size, as a release plans it for a card."""
    return Arm(f"{name} planned", PlannedReport(release, "jax 27748", change, "nothing recomputed"), target)


CLAIMS = (
    Claim(
        "R1", "jax.checkpoint around a whole network saves nothing (jax 19822).", "no saving (below 5 %: ours)",
        "share of the planned bytes that checkpointing the whole network saves", True, "what must be kept follows from the mathematics",
        (Advice("Run the layers by jax.lax.scan and checkpoint its body: it saves {range} of the plan.", "more", "in lax.scan"),),
        note=f"{link('jax', 19822)}, reported on a CPU with JAX 0.4.24.",
        arms=(arm("jax", 19822, "whole network", saved("whole", "plain"), below(SAVES), "share"),),
        evidence=(
            arm("jax", 19822, "layer by layer, unrolled", saved("layers", "plain"), SAVED, "share"),
            arm("jax", 19822, "layer by layer, in lax.scan", saved("in_a_loop", "plain"), SAVED, "share"),
        ),
    ),
    Claim(
        "R2", "jax.checkpoint around blocks of a long scan saves no memory (jax 27748).", "no saving (below 5 %: ours)",
        "share of the planned bytes that checkpointing each scan saves", False, "the report blames a pass of the GPU's compiler",
        (Advice("Run the blocks by an outer jax.lax.scan and checkpoint its body: it saves {range} of the plan.", "more", "outer lax.scan"),),
        note=f"{link('jax', 27748)}: 117 GB without and 22 GB with it in JAX 0.4.13, out of memory in 0.5.3, on a GPU. Planned are the "
        "report's sizes for an H100, by the releases that can be had: that it came with 0.5 is open",
        arms=tuple(scan_plan(release, "blocks recomputed, in a Python loop", "blocks", below(SAVES)) for release in RELEASES),
        evidence=(
            *(scan_plan(release, "blocks recomputed, in lax.scan", "outer lax.scan", SAVED) for release in RELEASES),
            arm("jax", 27748, "blocks in a Python loop, smaller, on a CPU", saved("blocks", "plain"), below(SAVES), "share"),
            arm("jax", 27748, "blocks in an outer scan, smaller, on a CPU", saved("in_a_loop", "plain"), SAVED, "share"),
        ),
    ),
    Claim(
        "R3", "Ever new shapes make a jitted function's memory grow (jax 2072).", "grows",
        "bytes of resident memory for each new shape", True, "compiled programs are kept on the host",
        (Advice("Pad to a few shapes: each new one keeps {measured} bytes.", "more"),),
        note=f"{link('jax', 2072)}: from 1.5 to 2.5 GB in an hour, with JAX of January 2020",
        arms=(arm("jax", 2072, "new shapes", amount("new"), Target(1, 0.0, SHAPE), "number"),),
        evidence=(arm("jax", 2072, "the same shape", amount("same"), Target(1, 0.0, SHAPE), "number"),),
    ),
    Claim(
        "R4", "Even with its caches cleared JAX grows for every new shape (jax 19429).", "grows",
        "bytes of resident memory that each new shape keeps more than the same one, caches cleared after each", True,
        "it is the host's memory",
        (
            Advice("Clear caches, and renew a process that meets very many shapes: {measured} bytes a shape are left.", "more"),
            Advice("Look at your process's growth before you renew it."),
        ),
        note=f"{link('jax', 19429)}: from 153 to 198 MB in a thousand calls with JAX 0.4.23, on macOS: 22 kB a shape, most of it in the "
        "first calls. Its size is that system's, and is not judged",
        arms=(arm("jax", 19429, "new shapes less the same one", amount("cleared", "cleared_same"), Target(1, 0.0, SHAPE), "number"),),
        evidence=(
            arm("jax", 19429, "new shapes", amount("cleared"), Target(1, 0.0, SHAPE), "number"),
            arm("jax", 19429, "the same shape", amount("cleared_same"), Target(1, 0.0, SHAPE), "number"),
        ),
    ),
    Claim(
        "R5", "jax.scipy.sparse.linalg.cg leaks where it is not compiled (jax 9714).", "grows",
        "bytes of resident memory for each call", True, "it is the host's memory",
        (Advice("Put it inside jax.jit: each call outside keeps {measured} bytes.", "more"),),
        note=f"{link('jax', 9714)}: from 298 to 329 MB in ten calls with a matrix of 2000 x 2000 and JAX 0.3.4",
        arms=(arm("jax", 9714, "not compiled", amount("plain"), Target(1, 0.0, SHAPE), "number"),),
        evidence=(arm("jax", 9714, "compiled", amount("compiled"), Target(1, 0.0, SHAPE), "number"),),
    ),
    Claim(
        "R6", "Checkpointing without reentry saves nothing (pytorch 77284).", "no saving (below 5 %: ours)",
        "share of the allocated peak that use_reentrant=False saves", True, "the same Python code runs on every device",
        (Advice("Use use_reentrant=False: it saves {measured} of this step's peak.", "more"),),
        note=f"{link('torch', 77284)}, of May 2022; mended in PyTorch 1.12",
        arms=(arm("torch", 77284, "use_reentrant=False", saved("checkpoint", "plain"), below(SAVES), "share"),),
    ),
    Claim(
        "R7", "Compiled, a checkpointed stack of layers needs much more than eager (pytorch 120381).", "more",
        "allocated peak, compiled / eager, both checkpointed", False, SAME_GRAPH,
        (Advice("Compare the two in your model: this small stack changed by {measured}, other programs rise on a CPU (R8, R10).", "none"),
         Advice("Compare the two on your card.")),
        note=f"{link('torch', 120381)}, reported for bfloat16 on a GPU in February 2024; tried in float32",
        arms=(arm("torch", 120381, "compiled", over("compiled", "eager"), MORE),),
    ),
    Claim(
        "R8", "Blocks that a step runs twice, checkpointed and compiled, take 2.3 times the peak of eager (pytorch 193193).", "x 2.3",
        "allocated peak, compiled / eager", False, SAME_GRAPH,
        (Advice("Compile the two passes as two graphs: with a break between them (beside) it is less. In one graph: {measured}.", "more", "one graph"),),
        note=f"{link('torch', 193193)}, reported on a GPU with PyTorch 2.13.0",
        arms=(arm("torch", 193193, "one graph", over("compiled", "eager"), times(2.3)),),
        evidence=(arm("torch", 193193, "a break between", over("apart", "eager"), MORE),),
    ),
    Claim(
        "R9", "Compiled, a residual network with fewer convolutions needs more memory (pytorch 105768).", "more",
        "allocated peak, plain skips / convolved skips, both compiled", False, SAME_GRAPH,
        (Advice("Look at the compiled peak, not at the number of layers: {measured}.", "more"),),
        note=f"{link('torch', 105768)}, reported for inference on a GPU in July 2023",
        arms=(arm("torch", 105768, "compiled", over("plain", "convolved"), MORE),),
        evidence=(arm("torch", 105768, "eager", over("plain_eager", "convolved_eager"), MORE),),
    ),
    Claim(
        "R10", "On a CPU, torch.compile takes much extra memory (pytorch 167199).", "more",
        "bytes by which the process grows from three eager inferences to three compiled ones", False,
        "the compiler's own memory is the host's",
        (Advice("Count the compiler in where host memory is short: {measured} bytes.", "more"),),
        note=f"{link('torch', 167199)}, reported in November 2025. How much of it is the "
        "compiler itself, which a larger model would share, is open",
        arms=(arm("torch", 167199, "compiled less eager", amount("compiled", "eager"), Target(1, 0.0, float(2**20)), "number"),),
        evidence=(arm("torch", 167199, "compiled / eager", over("compiled", "eager"), MORE),),
    ),
    Claim(
        "R11", "Each call of a compiled function leaks (pytorch 174468).", "grows",
        "bytes that Python holds for each call more than for an eager one, in the second half of 20,000", True,
        "the same Python code runs on every device",
        (
            Advice("Watch processes of very many calls: each keeps {measured} bytes.", "more"),
            Advice("Call it as often as you like: {measured} bytes a call more than eager.", "none"),
            Advice("Count calls in your own process first."),
        ),
        note=f"{link('torch', 174468)}, reported in February 2026. The older record of xeon-2core is of a "
        "program without an eager control. All its processes kept more than a byte a call; it decides nothing",
        arms=(arm("torch", 174468, "compiled less eager", amount("later", "later_eager"), Target(1, 0.0, CALL), "number"),),
        evidence=(
            arm("torch", 174468, "compiled, second half", amount("later"), Target(1, 0.0, CALL), "number"),
            arm("torch", 174468, "eager, second half", amount("later_eager"), Target(1, 0.0, CALL), "number"),
            arm("torch", 174468, "compiled, first half", amount("first"), Target(1, 0.0, CALL), "number"),
        ),
    ),
    Claim(
        "R12", "A bfloat16 convolution of four ones is 1 on a CPU (pytorch 163347).", "1 for 4", "relative error", False,
        "it is oneDNN's kernel for CPUs", (Advice("This sum is right here: the error is {measured}. Check your own shapes.", "none"),),
        note=f"{link('torch', 163347)}, reported with PyTorch 2.5.1",
        arms=(arm("torch", 163347, "sum of ones", off_from(4.0, "found"), Target(1, 0.0, 0.02, 0.75), "share"),),
    ),
    Claim(
        "R13", "A bfloat16 3-D convolution with stride 3 and one column of output is wrong on a CPU with AMX (pytorch 169688).", "wrong",
        "relative error against float64", False, "it is oneDNN's kernel for processors with AMX",
        (Advice("Compare with float32 on your processor."),),
        note=f"{link('torch', 169688)}, reported on a processor with AMX",
        arms=(arm("torch", 169688, "stride 3", amount("relative_error"), Target(1, 0.0, 0.02), "share"),),
        needs=Needs(cpu_flag="amx_bf16"),
    ),
    Claim(
        "R14", "Memory grows with the steps of gradient accumulation (Jittor 602).", "grows",
        "bytes held, for each further micro-batch of optimizer.backward", True, "lazy execution is the same on every device",
        (
            Advice("Wait for everything (jt.sync_all) in every micro-batch: without, each keeps {measured} bytes.", "more"),
            Advice("Accumulate by optimizer.backward as it is: {measured} bytes for each micro-batch.", "none"),
            Advice("Wait for everything (jt.sync_all) in every micro-batch: then no variable is left over (shown beside)."),
        ),
        note=f"{link('jittor', 602)}. The record of xeon-2core is of an older program, which "
        "added gradients of jt.grad and waited for the sums alone (jt.sync), not for everything. It decides nothing",
        arms=(arm("jittor", 602, "nobody waits", amount("bytes"), Target(1, 0.0, 0.5), "number"),),
        evidence=(
            arm("jittor", 602, "jt.sync_all waits", amount("bytes_waited"), Target(1, 0.0, 0.5), "number"),
            arm("jittor", 602, "variables alive, nobody waits", of_all("backward"), Target(1, 0.0, 0.5), "number"),
            arm("jittor", 602, "variables alive, waited for", of_all("backward_waited"), Target(1, 0.0, 0.5), "number"),
        ),
    ),
    Claim(
        "R15", "Adam with 8-bit states needs as much memory as Adam (bitsandbytes 22).", "the same memory (less by at most 5 %: ours)",
        "peak, AdamW with 8-bit states / AdamW", True, "an optimizer's states lie where the weights do",
        (Advice("Take 8-bit states where the moments are what a step holds most of: {range}.", "less"), Advice("Count the moments first.")),
        note="https://github.com/facebookresearch/bitsandbytes/issues/22, by nvidia-smi, in December 2021",
        arms=(
            *planned("train/adamw_8bit_bnb", "train/fp32", AS_MUCH, GPT, TORCH, "bitsandbytes"),
            *ratios("train/adamw_8bit_bnb", "train/fp32", AS_MUCH, GPT, TORCH, "bitsandbytes"),
        ),
        evidence=ratios("train/adamw_8bit", "train/fp32", AS_MUCH, GPT, TORCH, "torchao"),
    ),
    Claim(
        "R16", "Under a memory budget, compiled gradients of a model with dropout are silently wrong (pytorch 190758).", "wrong",
        "relative error of a gradient's length against the slope of the loss along it", True,
        "the partitioner that recomputes is the same for every device",
        (
            Advice("Turn dropout off under a memory budget, or checkpoint blocks: gradients are off by {measured}.", "more"),
            Advice("Keep dropout as it is: gradients are off by {measured}.", "none"),
        ),
        note=f"{link('torch', 190758)}, of July 2026. `framebench try` found it before the report was known: it called `memory_budget` "
        "wrong for GPT-2, BERT and a diffusion model",
        arms=(arm("torch", 190758, "a half kept", amount("half"), Target(1, 0.0, WRONG), "share"),),
        evidence=(
            arm("torch", 190758, "nothing kept", amount("nothing"), Target(1, 0.0, WRONG), "share"),
            arm("torch", 190758, "all kept", amount("whole"), Target(1, 0.0, WRONG), "share"),
        ),
    ),
)  # fmt: skip
