"""Source C: why PyTorch runs out of memory in the test phase."""

from __future__ import annotations

from framebench.features.claims import probed
from framebench.features.claims.arms import (
    BYTES,
    GPT,
    JAX,
    JITTOR,
    LESS,
    MORE,
    NONE,
    POINTS,
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
from framebench.features.claims.claim import Arm, Claim
from framebench.features.claims.measures import Difference, OfProbe, Value
from framebench.features.claims.rule import Target
from framebench.features.claims.samples import ADDED, FRAGMENTATION, HOST, RESERVED, TIME, evidence
from framebench.suite.strategy import FRAMEWORKS

DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
AUTOGRAD = "the graph is recorded by the same code on every device"
OTHERS = (*JAX, *JITTOR)
FASTER_THAN_BATCH = Target(1, 1.0, 0.05)  # an exponent above 1 by more than a twentieth
FRAGMENTS = Target(1, 0.0, POINTS)
HELD = evidence("bytes_held_before_evaluation")

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
        "C3", "Inputs of varying length fragment the allocator.", "more", "free share of the pool, raw less padded",
        False, "PyTorch's caching allocator exists on a GPU only; Jittor's pool is the one that a CPU can show",
        "Look at the pool's free share before you sort by length: it changed by {range}. Padding to a few lengths is in the rows.",
        if_so="Sort by length and pad to a few lengths (the bucketed rows): for raw lengths the free share changed by {range}.",
        note="The pool grows by blocks of 1 MiB, and one block more was all that an earlier comparison of Jittor's pools had found: "
        "the interval allows for a block",
        arms=(
            *each(lambda w, f: Difference(FRAGMENTATION, ref(w, f, "varlen/raw"), ref(w, f, "varlen/padded")), FRAGMENTS, GPT, JITTOR),
        ),
        evidence=(
            *ratios("varlen/raw", "varlen/padded", MORE, GPT, label="peak"),
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
        "C5", "Evaluation's memory grows faster than the batch.", "exponent > 1",
        "largest exponent of the peak between successive batches", False, "kernels and their workspaces are chosen by size on a GPU",
        "Measure the batch that you want: a straight line through two others misses the steps at which a library takes another "
        "algorithm. Largest exponents: {range}.",
        note="Between successive batches, since growth is no power law: the ends of a sweep hide a jump such as the Transformer's in "
        "JAX from batch 8 to 16",
        arms=sweeps("steepest", "eval/no_grad", FASTER_THAN_BATCH),
        evidence=(
            *sweeps("exponent", "eval/no_grad", FASTER_THAN_BATCH, label="whole sweep"),
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
        "C7", "torch.jit lets models share parameters, and saves memory.", "less", "peak, scripted / plain modules", True,
        "shared tensors are shared on every device",
        "Share the trunk, for which plain modules do (their row stands beside): TorchScript changed the peak by {range}.",
        if_so="Script the models: {range}, beside what sharing saves.",
        note="Scripting and sharing are told apart: both arms of each comparison share, or neither does",
        arms=(
            *ratios("pair/scripted", "pair/together", LESS, RESNET, TORCH, "two models"),
            *ratios("pair/scripted_shared_trunk", "pair/shared_trunk", LESS, RESNET, TORCH, "one trunk"),
        ),
        evidence=ratios("pair/shared_trunk", "pair/together", LESS, RESNET, label="sharing without jit"),
    ),
    Claim(
        "C8", "In the test phase a differentiation rule of one's own that saves too much costs memory.", "more",
        "peak, wasteful / lean rule, eval", True, AUTOGRAD,
        "Under no_grad nothing is saved, and the rule changed the peak by {range}; in training, where it does, save the inputs and "
        "compute the rest again.",
        if_so="Save the inputs and compute the rest again, in the test phase too: saving everything changed the peak by {range}.",
        note="Decided in evaluation, which the article is about; training stands beside",
        arms=ratios("eval/wasteful_rule", "eval/lean_rule", MORE, GPT, TORCH),
        evidence=(
            *ratios("eval/wasteful_rule", "eval/lean_rule", MORE, GPT, JITTOR),
            *ratios("custom_op/wasteful", "custom_op/lean", MORE, GPT, label="training"),
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
        "private memory that reading a data set adds, memory-mapped / list", True, "host memory is the host's",
        "Measure it on your system first: {range}.",
        if_so="Map what is larger than memory ({range}), and watch private memory: resident pages of a file look like growth, until "
        "the kernel takes them back.",
        note="Private memory (RssAnon) is what a limit counts and the kernel cannot take back; resident memory, which contains "
        "pages of the file, stands beside, and how much of the data set could be read under a limit of half its size",
        arms=(Arm("numpy, private memory", OfProbe("inputs", probed.private_memory, "change", "256 MiB"), LESS),),
        evidence=(
            Arm("numpy, resident memory", OfProbe("inputs", probed.resident_memory, "change", "256 MiB"), LESS),
            Arm("numpy, batches read within RLIMIT_DATA", OfProbe("inputs", probed.batches_read, "change", "128 of 256 MiB"), MORE),
            *ratios("pipeline/memmap", "pipeline/iterator", LESS, RESNET, label="pipeline, step's peak", quantity=HOST),
        ),
    ),
    Claim(
        "C13", "gc.collect() and empty_cache() before the test phase help.", "less", "reserved at the evaluation's peak, cleared / not",
        False, "PyTorch's cache exists on a GPU only; JAX holds arrays, Jittor a pool, on either",
        "Drop the last references to the trainer; collecting and emptying only return what nobody holds. Changed by {range}.",
        note="Nothing refers to what has trained, in either arm: arrays that JAX deleted by hand had made the difference before",
        arms=ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=TORCH, quantity=RESERVED),
        evidence=(
            *ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=JITTOR, label="reserved", quantity=RESERVED),
            *ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=OTHERS, label="held", quantity=HELD),
        ),
    ),
    Claim(
        "C14", "Halving the batch when memory runs out keeps the test running.", "0 samples lost",
        "samples lost in an evaluation whose first batch does not fit", True,
        "the frameworks raise on either device, but what a failed allocation leaves behind may differ",
        "`framebench evaluate` does it, and goes on at the first sample that is not done: {measured} samples lost.",
        definition="A program that repeats what failed with half the batch loses no sample: ours does, and is tested for it",
        arms=tuple(
            Arm(f"transformer/{f} lost", OfProbe(f"halving-{f}", probed.lost, "count", "b64"), NONE) for f in FRAMEWORKS
        ),
        evidence=tuple(
            Arm(f"transformer/{f} halvings", OfProbe(f"halving-{f}", probed.halvings, "count", "b64"), SOME) for f in FRAMEWORKS
        ),
    ),
    Claim(
        "C15", "A monitoring thread shows memory continuously.", "at no cost", "step time, monitor on / off, less 1", True,
        "the thread runs on the host, beside any device",
        "Use one to watch; for a peak read the high-water mark, which is exact and free. A thread that looks every 10 ms changed "
        "the step by {measured}; what it saw of the peak stands beside.",
        note="Watched and unwatched steps in random order, in several processes",
        arms=(Arm("transformer/torch time", OfProbe("monitor", probed.overhead, "error", "b4"), below(0.05)),),
        evidence=(
            Arm("transformer/torch peak seen / peak", OfProbe("monitor", probed.seen, "change", "b4"), Target(-1, 1.0, BYTES)),
        ),
    ),
)  # fmt: skip
