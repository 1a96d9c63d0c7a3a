"""Source C: why PyTorch runs out of memory in the test phase."""

from __future__ import annotations

from analysis.claims import probed
from analysis.claims.arms import (
    BYTES,
    GPT,
    JAX,
    JITTOR,
    LESS,
    MORE,
    RESNET,
    SLOWER,
    SOME,
    TORCH,
    below,
    each,
    ratios,
    ref,
    sweeps,
    times,
)
from analysis.claims.claim import Arm, Claim
from analysis.claims.measures import OfProbe, Ratio, Value
from analysis.claims.rule import Target
from analysis.claims.samples import ADDED, FRAGMENTATION, HOST, RESERVED, TIME, evidence

DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
AUTOGRAD = "the graph is recorded by the same code on every device"
OTHERS = ("jax", "jittor")
FASTER_THAN_BATCH = Target(1, 1.0, 0.05)  # an exponent above 1 by more than a twentieth
FRAGMENTS = Target(1, 1.0, 0.02)
BYTES_OF_WEIGHTS = evidence("parameter_bytes")

CLAIMS = (
    Claim(
        "C1", "Evaluation without no_grad keeps the graph.", "more", "peak, grad / no_grad", True, AUTOGRAD,
        "Evaluate under torch.no_grad() or torch.inference_mode(): forgetting it changed the peak by {range}.",
        arms=ratios("eval/grad", "eval/no_grad", MORE, frameworks=TORCH),
        evidence=(
            *ratios("eval/grad", "eval/no_grad", MORE, frameworks=OTHERS),
            *ratios("eval/inference_mode", "eval/no_grad", LESS, frameworks=TORCH, label="inference_mode / no_grad"),
        ),
    ),
    Claim(
        "C2", "Under no_grad a weight with requires_grad may still build a graph.", "> 0 nodes", "graph nodes under no_grad",
        True, AUTOGRAD,
        "no_grad is enough: {measured} nodes and as many saved tensors; weights need not be frozen for it.",
        if_so="Freeze the weights as well: {measured} graph nodes were there under no_grad.",
        arms=each(lambda w, f: Value(evidence("graph_nodes"), ref(w, f, "eval/no_grad")), SOME, frameworks=TORCH),
        evidence=(
            *each(lambda w, f: Value(evidence("saved_tensors"), ref(w, f, "eval/no_grad")), SOME, frameworks=TORCH,
                  label="saved tensors"),
            *each(lambda w, f: Value(evidence("operations_kept"), ref(w, f, "eval/no_grad")), SOME, frameworks=JITTOR,
                  label="operations kept"),
            *ratios("eval/frozen_weights", "eval/no_grad", LESS, frameworks=TORCH, label="frozen weights / no_grad"),
        ),
    ),
    Claim(
        "C3", "Inputs of varying length fragment the allocator.", "more", "free share of the pool, and peak, raw / padded",
        False, "PyTorch's caching allocator exists on a GPU only; Jittor's pool is the one that a CPU can show",
        "Sort by length and pad to a few lengths (the bucketed rows). Measured for raw lengths: {range}.",
        arms=(
            *each(lambda w, f: Ratio(FRAGMENTATION, ref(w, f, "varlen/raw"), ref(w, f, "varlen/padded")), FRAGMENTS, GPT, JITTOR,
                  "free share"),
            *ratios("varlen/raw", "varlen/padded", MORE, GPT),
        ),
        evidence=(
            *ratios("varlen/bucketed", "varlen/padded", MORE, GPT, label="bucketed"),
            *ratios("varlen/raw", "varlen/padded", MORE, GPT, JITTOR, "reserved", RESERVED),
            *ratios("varlen/bucketed", "varlen/padded", SLOWER, GPT, label="bucketed, time", quantity=TIME),
        ),
    ),
    Claim(
        "C4", "eval() alone still updates batch norm's statistics at every batch.", "> 0 buffers",
        "buffers changed by a forward pass after eval()", True, "the same module code on every device",
        "eval() is what stops the updates: {measured} buffers changed. Without it, under no_grad too, they all do.",
        if_so="Freeze batch norm by hand: {measured} buffers changed after eval().",
        arms=each(lambda w, f: Value(evidence("buffers_changed"), ref(w, f, "eval/grad")), SOME, RESNET, label="eval()"),
        evidence=each(lambda w, f: Value(evidence("buffers_changed"), ref(w, f, "eval/batch_stats")), SOME, RESNET,
                      label="without eval()"),
    ),
    Claim(
        "C5", "Evaluation's memory grows faster than the batch.", "exponent > 1", "exponent of the peak over the batch", True,
        DATA_FLOW,
        "Plan with a straight line through two batches (`framebench predict`): exponents {range}.",
        if_so="Choose the evaluation batch by measuring, not by a straight line: exponents {range}.",
        arms=sweeps("exponent", "eval/no_grad", FASTER_THAN_BATCH, frameworks=TORCH),
        evidence=(
            *sweeps("exponent", "eval/no_grad", FASTER_THAN_BATCH, frameworks=OTHERS),
            *sweeps("exponent", "eval/no_grad", FASTER_THAN_BATCH, frameworks=TORCH, label="added by the step", quantity=ADDED),
        ),
    ),
    Claim(
        "C6", "Two models at once double the memory; one at a time does not.", "x 2", "peak, together / in turn", True, DATA_FLOW,
        "One at a time, if both need not answer at once: together they take {range}; the activations are shared in time.",
        arms=ratios("pair/together", "pair/in_turn", times(2), RESNET),
        evidence=(
            *ratios("pair/in_turn_cleared", "pair/in_turn", LESS, RESNET, label="caches emptied / in turn"),
            *ratios("pair/in_turn", "pair/together", SLOWER, RESNET, label="in turn / together, time", quantity=TIME),
        ),
    ),
    Claim(
        "C7", "torch.jit lets models share parameters, and saves memory.", "less", "peak, scripted with a shared trunk / without",
        True, "shared tensors are shared on every device",
        "Share the trunk ({range}); TorchScript is not needed for it: plain modules share as well.",
        arms=(
            *ratios("pair/scripted_shared_trunk", "pair/scripted", LESS, RESNET, TORCH),
            *ratios("pair/scripted_shared_trunk", "pair/scripted", LESS, RESNET, TORCH, "weights", BYTES_OF_WEIGHTS),
        ),
        evidence=(
            *ratios("pair/scripted", "pair/together", LESS, RESNET, TORCH, "scripted / plain"),
            *ratios("pair/shared_trunk", "pair/together", LESS, RESNET, label="shared trunk without jit"),
        ),
    ),
    Claim(
        "C8", "A differentiation rule of one's own that saves too much costs memory.", "more", "peak, wasteful / lean rule", True,
        AUTOGRAD,
        "Save the inputs and compute the rest again: saving everything changed the peak by {range}.",
        arms=ratios("custom_op/wasteful", "custom_op/lean", MORE, GPT, TORCH),
        evidence=(
            *ratios("custom_op/wasteful", "custom_op/lean", MORE, GPT, OTHERS),
            *ratios("custom_op/lean", "custom_op/built_in", LESS, GPT, label="lean / built in"),
        ),
    ),
    Claim(
        "C9", "set_per_process_memory_fraction(0.8) caps the process.", "out of memory above 80 %", "peak reserved, capped / not",
        False, "the cap is the CUDA allocator's", "Where a card is shared, set it and catch the exception.",
        arms=ratios("train/memory_fraction", "train/fp32", LESS, frameworks=TORCH, quantity=RESERVED),
        evidence=ratios("train/memory_fraction", "train/fp32", LESS, frameworks=JAX, quantity=RESERVED),
    ),
    Claim(
        "C10", "half() halves the memory of inference.", "-50 %", "peak, half precision / float32, eval", False,
        "kernels that compute in half precision and their workspaces are others on a GPU",
        "Take bfloat16 and check the outputs: {range} of the peak; a CPU's kernels may widen to float32 inside.",
        arms=(
            *ratios("eval/fp16", "eval/no_grad", times(0.5), frameworks=TORCH, label="float16"),
            *ratios("eval/bf16", "eval/no_grad", times(0.5), frameworks=TORCH, label="bfloat16"),
        ),
        evidence=(
            *ratios("eval/fp16", "eval/no_grad", times(0.5), frameworks=JAX, label="float16"),
            *ratios("eval/bf16", "eval/no_grad", times(0.5), frameworks=JAX, label="bfloat16"),
            *ratios("eval/fp16", "eval/no_grad", SLOWER, frameworks=TORCH, label="float16, time", quantity=TIME),
        ),
    ),
    Claim(
        "C11", "Checkpointing lowers the peak of fine-tuning.", "less", "peak, checkpoint / plain, upper half trained", True,
        DATA_FLOW,
        "Freezing alone drops what lies below the trained part; recomputing the rest changed the peak by {range}.",
        arms=ratios("finetune/checkpoint", "finetune/half"),
        evidence=ratios("finetune/head", "finetune/half", label="head only / half"),
    ),
    Claim(
        "C12", "Memory-mapped inputs keep host memory flat.", "less",
        "resident memory that reading a data set adds, memory-mapped / list", True, "host memory is the host's",
        "Map what is larger than memory, but do not expect a flat curve ({range}): pages that were read stay resident until the "
        "kernel needs them. Watch private memory instead, which stands beside.",
        if_so="Map what is larger than memory: {range}.",
        arms=(Arm("numpy, resident memory", OfProbe("inputs", probed.resident_memory, "change"), LESS),),
        evidence=(
            Arm("numpy, private memory", OfProbe("inputs", probed.private_memory, "change"), LESS),
            *ratios("pipeline/memmap", "pipeline/iterator", LESS, RESNET, label="pipeline, step's peak", quantity=HOST),
        ),
    ),
    Claim(
        "C13", "gc.collect() and empty_cache() before the test phase help.", "less", "peak of the evaluation, cleared / not",
        False, "PyTorch's cache exists on a GPU only; JAX holds arrays, Jittor a pool, on either",
        "Drop the last references to the trainer; collecting and emptying only return what nobody holds: {range}.",
        arms=(
            *ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=TORCH, quantity=RESERVED),
            *ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=JAX),
            *ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=JITTOR, label="reserved", quantity=RESERVED),
        ),
        evidence=ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=JITTOR, label="in use"),
    ),
    Claim(
        "C14", "Halving the batch when memory runs out keeps the test running.", "0 samples lost",
        "samples lost in an evaluation whose first batch does not fit", True,
        "the frameworks raise on either device, but what a failed allocation leaves behind may differ",
        "`framebench evaluate` does it, and goes on at the first sample that is not done: {measured} samples lost.",
        arms=tuple(
            Arm(f"transformer/{f} lost", OfProbe(f"halving-{f}", probed.lost, "count"), below(1)) for f in ("torch", "jax", "jittor")
        ),
        evidence=tuple(
            Arm(f"transformer/{f} halvings", OfProbe(f"halving-{f}", probed.halvings, "count"), SOME)
            for f in ("torch", "jax", "jittor")
        ),
    ),
    Claim(
        "C15", "A monitoring thread shows memory continuously.", "at no cost", "step time, monitor on / off, less 1", True,
        "the thread runs on the host, beside any device",
        "A thread that looks every 10 ms changed the step by {measured}; it misses what lives shorter: read high-water marks "
        "instead.",
        arms=(Arm("transformer/torch time", OfProbe("monitor", probed.overhead, "error"), below(0.05)),),
        evidence=(Arm("transformer/torch peak seen / peak", OfProbe("monitor", probed.seen, "change"), Target(-1, 1.0, BYTES)),),
    ),
)  # fmt: skip
