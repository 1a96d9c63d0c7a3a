"""Source C: why PyTorch runs out of memory in the test phase."""

from __future__ import annotations

from framebench.claims import probed
from framebench.claims.arms import (
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
    planned,
    ratios,
    ref,
    snippet,
    sweeps,
    times,
)
from framebench.claims.claim import Advice, Arm, Claim
from framebench.claims.measures import Difference, OfProbe, Value
from framebench.claims.needs import CARD, FULL, Needs
from framebench.claims.planned_measures import Planned
from framebench.claims.probed import counts_over, of_all
from framebench.claims.rule import Target
from framebench.claims.samples import FRAGMENTATION, HOST, REFUSED, RESERVED, TIME, evidence
from framebench.strategies.strategy import FRAMEWORKS

DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
AUTOGRAD = "the graph is recorded by the same code on every device"
ALLOCATOR = "PyTorch's caching allocator exists on a GPU only"
OTHERS = (*JAX, *JITTOR)
FASTER_THAN_BATCH = Target(1, 1.0, 0.05)  # an exponent above 1 by more than a twentieth
FRAGMENTS = Target(1, 0.0, POINTS)
HELD = evidence("bytes_held_before_evaluation")
HALF = times(0.5)
GPU_FIRST = Advice("Measure it on your card first.")
COMPARE = Advice("Compare it in your model first.")


def from_32_to_128(framework: str) -> Arm:
    """At full size, as planned: batches 32 and 128 are its smallest and the second above it."""
    base, change = (ref("resnet50", framework, f"eval/no_grad@{shift}") for shift in (-1, 1))
    return Arm(f"resnet50/{framework} planned", Planned("peak", change, base, "number", batches=4.0), FASTER_THAN_BATCH)


def halved(*frameworks: str) -> tuple[Arm, ...]:
    return tuple(Arm(f"transformer/{f} lost", OfProbe(f"halving-{f}", probed.lost, "count", "b64"), NONE) for f in frameworks)


CLAIMS = (
    Claim(
        "C1", "Evaluation without no_grad keeps the graph.", "more", "peak, grad / no_grad", True, AUTOGRAD,
        (Advice("Evaluate under torch.no_grad() or torch.inference_mode(): forgetting it changed the peak by {range}.", "more"),),
        arms=(
            *ratios("eval/grad", "eval/no_grad", MORE, frameworks=TORCH),
            *planned("eval/grad", "eval/no_grad", MORE, frameworks=TORCH),
        ),
        evidence=(
            *ratios("eval/grad", "eval/no_grad", MORE, frameworks=OTHERS),
            *ratios("eval/inference_mode", "eval/no_grad", LESS, frameworks=TORCH, label="inference_mode / no_grad"),
        ),
    ),
    Claim(
        "C2", "Under no_grad a weight with requires_grad may still build a graph.", "> 0 nodes", "graph nodes under no_grad",
        True, AUTOGRAD,
        (Advice("Leave requires_grad as it is under no_grad ({measured} nodes); look for layers that call enable_grad, which do build one.",
                "less"),),
        arms=(
            *each(lambda w, f: Value(evidence("graph_nodes"), ref(w, f, "eval/no_grad")), SOME, frameworks=TORCH),
            snippet("torch_enable_grad", "torch, one layer", of_all("graphs_of_a_weight"), SOME),
        ),
        evidence=(
            snippet("torch_enable_grad", "torch, a layer that calls enable_grad", of_all("graphs_of_enable_grad"), SOME),
            *each(lambda w, f: Value(evidence("saved_tensors"), ref(w, f, "eval/no_grad")), SOME, frameworks=TORCH,
                  label="saved tensors"),
            *each(lambda w, f: Value(evidence("operations_kept"), ref(w, f, "eval/no_grad")), SOME, frameworks=JITTOR,
                  label="operations kept"),
        ),
    ),
    Claim(
        "C3", "Inputs of varying length fragment PyTorch's caching allocator.", "more", "the most that is reserved, raw lengths / padded",
        False, ALLOCATOR, (GPU_FIRST,),
        arms=ratios("varlen/raw", "varlen/padded", MORE, GPT, TORCH, quantity=RESERVED),
        evidence=(
            *each(lambda w, f: Difference(FRAGMENTATION, ref(w, f, "varlen/raw"), ref(w, f, "varlen/padded")), FRAGMENTS, GPT, JITTOR,
                  label="free share of the pool"),
            *ratios("varlen/raw", "varlen/padded", MORE, GPT, label="peak"),
            *ratios("varlen/bucketed", "varlen/padded", MORE, GPT, label="bucketed"),
            *ratios("varlen/raw", "varlen/padded", MORE, GPT, JITTOR, "reserved", RESERVED),
        ),
        needs=CARD,
        note="Raw inputs are shorter: what they reserve more is fragments. Jittor's pool is another allocator",
    ),
    Claim(
        "C4", "eval() alone still updates batch norm's statistics at every batch.", "> 0 buffers",
        "buffers changed by a forward pass after eval()", True, "the same module code on every device",
        (Advice("Call eval(): then {measured} buffers change; without it, under no_grad too, they do (shown beside).", "less"),),
        arms=each(lambda w, f: Value(evidence("buffers_changed"), ref(w, f, "eval/grad")), SOME, RESNET, TORCH, "eval()"),
        evidence=each(lambda w, f: Value(evidence("buffers_changed"), ref(w, f, "eval/grad")), SOME, RESNET, OTHERS, "eval()")
        + each(lambda w, f: Value(evidence("buffers_changed"), ref(w, f, "eval/batch_stats")), SOME, RESNET,
                      label="without eval()"),
    ),
    Claim(
        "C5", "From batch 32 to 128 evaluation's memory grows faster than the batch.", "exponent > 1", "exponent of the peak, batch 32 to 128",
        False, "kernels and their workspaces are chosen by size on a GPU",
        (Advice("Do not fear more than proportion: the exponents are {range}.", "less"),
         Advice("Take a larger batch's peak as in proportion at the most, and measure the one that you want.")),
        arms=(from_32_to_128("torch"),),
        evidence=(from_32_to_128("jax"), *sweeps("steepest", "eval/no_grad", FASTER_THAN_BATCH, label="largest exponent, eval")),
        needs=FULL,
        note="ResNet-50's full size has these batches. What plans leave out, such as workspaces of convolutions, is in their error",
    ),
    Claim(
        "C6", "Two models at once double the memory; one at a time does not.", "x 2", "peak, together / in turn", True, DATA_FLOW,
        (Advice("Hold one at a time where both need not answer at once: together they take {range}.", "more", "two models"), COMPARE),
        arms=(
            *planned("pair/together", "pair/in_turn", times(2), RESNET, TORCH, "two models,"),
            *ratios("pair/together", "pair/in_turn", times(2), RESNET, TORCH, "two models"),
        ),
        evidence=(
            *ratios("pair/together", "pair/in_turn", times(2), RESNET, OTHERS, "two models"),
            *ratios("pair/in_turn_cleared", "pair/in_turn", LESS, RESNET, label="caches emptied / in turn"),
        ),
        note="Both models' weights are there at once, their activations need not be",
    ),
    Claim(
        "C7", "torch.jit lets models share parameters, and saves memory.", "less", "bytes of weights held, scripted / plain modules", True,
        "shared tensors are shared on every device",
        (Advice("Share the trunk in plain modules, which hold as much ({measured}).", "none"),),
        arms=(snippet("torch_jit", "torch.jit.script", counts_over("scripted", "plain"), LESS, "change"),),
        evidence=(
            snippet("torch_jit", "scripted, shared / apart", counts_over("scripted", "scripted_apart"), LESS, "change"),
            *ratios("pair/scripted", "pair/together", LESS, RESNET, TORCH, "traced, two models, peak"),
            *ratios("pair/scripted_shared_trunk", "pair/shared_trunk", LESS, RESNET, TORCH, "traced, one trunk, peak"),
            *ratios("pair/shared_trunk", "pair/together", LESS, RESNET, label="sharing without jit, peak"),
        ),
        note="Both sides of the deciding arm share a trunk: scripting is what differs",
    ),
    Claim(
        "C8", "In the test phase a differentiation rule of one's own that saves too much costs memory.", "more",
        "bytes kept by a call under no_grad, the rule / the same computation that saves nothing", True, AUTOGRAD,
        (Advice("Save little for training's sake (C8 training): under no_grad nothing is saved ({measured}).", "none"),), part="evaluation",
        arms=(snippet("torch_custom_function", "as printed", counts_over("wasteful_kept_eval", "placebo_kept_eval"), MORE, "change"),),
        evidence=(
            snippet("torch_custom_function", "tensors saved under no_grad", of_all("wasteful_saved_eval"), SOME),
            snippet("torch_custom_function", "at the most, under no_grad", counts_over("wasteful_most_eval", "placebo_most_eval"),
                    MORE, "change"),
            *ratios("eval/wasteful_rule", "eval/lean_rule", MORE, GPT, label="eval, more temporaries / fewer"),
        ),
        note="The placebo computes the same and saves nothing. The cases beside compare a longer forward pass with a shorter one: "
        "temporaries, not what is saved",
    ),
    Claim(
        "C8", "In training a differentiation rule of one's own that saves too much costs memory.", "more",
        "bytes kept by a call, the rule / the same computation that saves nothing", True, AUTOGRAD,
        (Advice("Save no more than the backward pass reads: {measured} in this listing.", "more"),), part="training",
        arms=(snippet("torch_custom_function", "as printed", counts_over("wasteful_kept_training", "placebo_kept_training"), MORE, "change"),),
        evidence=(
            snippet("torch_custom_function", "at the most, in training", counts_over("wasteful_most_training", "placebo_most_training"),
                    MORE, "change"),
            *ratios("custom_op/wasteful", "custom_op/lean", MORE, GPT, label="training, saved and temporaries"),
        ),
        note="The placebo computes the same and saves nothing. What a call keeps is for its backward pass; whether that releases it is not measured. The "
        "cases beside differ in temporaries too",
    ),
    Claim(
        "C9", "set_per_process_memory_fraction(0.8) caps the process.", "out of memory above 80 %", "allocations above the cap that are refused",
        False, "the cap is the CUDA allocator's",
        (Advice("Set it where processes share a card: an allocation beyond the share fails.", "more"), GPU_FIRST),
        arms=each(lambda w, f: Value(REFUSED, ref(w, f, "train/memory_fraction")), SOME, frameworks=TORCH),
        needs=CARD,
        note="What is asked for would bring the process two points above its share; with the share lifted it must be granted",
    ),
    Claim(
        "C10", "half() halves the memory of inference.", "-50 %", "peak, half precision / float32, eval", False,
        "kernels that compute in half precision and their workspaces are others on a GPU",
        (Advice("Use half precision and check the outputs: {range} of the peak.", "less"), COMPARE),
        arms=(
            *ratios("eval/fp16", "eval/no_grad", HALF, frameworks=TORCH, label="float16"),
            *planned("eval/fp16", "eval/no_grad", HALF, frameworks=TORCH, label="float16"),
        ),
        evidence=(
            *ratios("eval/bf16", "eval/no_grad", HALF, frameworks=TORCH, label="bfloat16"),
            *planned("eval/bf16", "eval/no_grad", HALF, frameworks=TORCH, label="bfloat16"),
            snippet("torch_half_autocast", "weights, with autocast", counts_over("weights", "weights_float32"), HALF, "change"),
            snippet("torch_half_autocast", "outputs are finite, with autocast", of_all("finite"), SOME),
            *ratios("eval/fp16", "eval/no_grad", HALF, frameworks=JAX, label="float16"),
            *ratios("eval/fp16", "eval/no_grad", SLOWER, frameworks=TORCH, label="float16, time", quantity=TIME),
        ),
        note="half() is PyTorch's",
    ),
    Claim(
        "C11", "Checkpointing lowers the peak of fine-tuning.", "less", "peak, checkpoint / plain, upper half trained", True,
        DATA_FLOW, (Advice("Recompute: {range}.", "less"), COMPARE),
        arms=(
            *ratios("finetune/checkpoint", "finetune/half", frameworks=TORCH),
            *planned("finetune/checkpoint", "finetune/half", frameworks=TORCH),
        ),
        evidence=(
            *ratios("finetune/checkpoint", "finetune/half", frameworks=OTHERS),
            *ratios("finetune/head", "finetune/half", label="head only / half"),
        ),
        note="Jittor has no checkpointing of its own: its arms are this suite's. Where the head alone is trained, as the article has it, "
        "hardly any activations are kept that could be recomputed (shown beside): so the upper half is trained",
    ),
    Claim(
        "C12", "Memory-mapped inputs keep resident memory flat.", "less", "resident memory after a data set was read, memory-mapped / list",
        True, "host memory is the host's",
        (Advice("Do not judge it by resident memory while there is room: it changed by {measured}.", "none"),), part="resident",
        arms=(Arm("numpy, before anything is taken back", OfProbe("inputs", probed.resident_memory, "change", "256 MiB"), LESS),),
        evidence=ratios("pipeline/memmap", "pipeline/iterator", LESS, RESNET, label="pipeline, step's peak", quantity=HOST),
        note="Pages of a mapped file count as resident until the kernel takes them back",
    ),
    Claim(
        "C12", "Where host memory is short, the kernel can take memory-mapped inputs back.", "less", "resident memory that is left of "
        "reading a data set when the kernel takes back what it can, memory-mapped / list", True, "host memory is the host's",
        (Advice("Map data that does not fit: where memory is short the kernel takes it back, {measured} against a list.", "less"),), part="short",
        arms=(Arm("numpy, taken back", OfProbe("inputs", probed.left_memory, "change", "256 MiB"), LESS),),
        evidence=(
            Arm("numpy, batches read under a limit", OfProbe("inputs", counts_over("mapped_batches", "listed_batches"), "change", "256 MiB"),
                MORE),
            Arm("numpy, memory of the process alone", OfProbe("inputs", probed.private_memory, "change", "256 MiB"), LESS),
        ),
        note="Without swap a list cannot be taken back. Asked is by madvise(MADV_PAGEOUT). The limit is half of the data's bytes "
        "(RLIMIT_DATA), which does not count mapped pages",
    ),
    Claim(
        "C13", "gc.collect() and empty_cache() before the test phase help.", "less", "reserved at the evaluation's peak, cleared / not",
        False, ALLOCATOR, (GPU_FIRST,),
        arms=ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=TORCH, quantity=RESERVED),
        evidence=(
            *planned("eval/after_training_cleared", "eval/after_training", LESS, GPT, TORCH, "whole run"),
            *ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=JITTOR, label="reserved", quantity=RESERVED),
            *ratios("eval/after_training_cleared", "eval/after_training", LESS, frameworks=OTHERS, label="held", quantity=HELD),
        ),
        needs=CARD,
        note="The plan beside is of the whole run, whose peak is the training's: it cannot tell. Jittor's pool stands beside",
    ),
    Claim(
        "C14", "Halving the batch when memory runs out keeps the test running.", "0 samples lost",
        "samples lost in an evaluation whose first batch does not fit", False,
        "the frameworks raise on either device, but what a failed allocation leaves behind may differ",
        (Advice("Let `framebench evaluate` show it: it repeats what failed with half the batch ({measured} samples lost).", "less"),),
        arms=halved(*TORCH),
        evidence=(
            *halved(*OTHERS),
            *(Arm(f"transformer/{f} halvings", OfProbe(f"halving-{f}", probed.halvings, "count", "b64"), SOME) for f in FRAMEWORKS),
            snippet("torch_halve_batch", "as printed, lost", of_all("lost"), NONE),
        ),
        note="Under a limit that the kernel enforces; the listing's model only pretends to run out of memory",
    ),
    Claim(
        "C15", "A monitoring thread shows memory continuously: the peak.", "95 % or more of it: ours",
        "the most that the thread saw / the peak, median over steps", False, "a card's memory is another, and its steps are shorter",
        (Advice("Read the kernel's high-water mark for a peak: a thread can miss what is shorter than its 10 ms."),), part="peak",
        arms=(Arm("transformer/torch peak seen / peak", OfProbe("monitor", probed.seen, "change", "b4"), Target(1, 0.95)),),
        note="The thread reads the process's resident memory. The kernel adds up its counters with some pages' delay, so that it may "
        "see a little more than the high-water mark",
    ),
    Claim(
        "C15", "A monitoring thread shows memory continuously: its cost.", "none (below 5 %: ours)", "by how much the monitored step is slower",
        True, "the thread runs on the host, beside any device",
        (Advice("Let it run: a step was slower by {measured}.", "less"), Advice("Time a step with it and without.")), part="cost",
        arms=(Arm("transformer/torch time", OfProbe("monitor", probed.overhead, "error", "b4"), below(0.05)),),
        note="Pairs of steps with and without the thread, in random order, in five processes",
    ),
    Claim(
        "C16", "PyTorch's caching allocator takes the best fit.", "best fit", "the block that is taken", False, ALLOCATOR,
        (Advice("Look at torch.cuda.memory_snapshot() before and after an allocation."),),
        needs=Needs(device="gpu", case="free blocks of several sizes, and an allocation that fits some"),
    ),
    Claim(
        "C17", "A cache cannot be used again when the batch changes.", "it cannot", "reserved after another batch", False, ALLOCATOR,
        (GPU_FIRST,), needs=Needs(device="gpu", case="two batches in one process"),
    ),
    Claim(
        "C18", "Batch norm's statistics cost memory in the test phase.", "more", "peak, batch statistics / running statistics, eval", True,
        DATA_FLOW,
        (
            Advice("Call eval() for the results' sake: without it the peak changed by {range}.", "none"),
            Advice("Call eval() for the results' sake."),
        ),
        arms=ratios("eval/batch_stats", "eval/no_grad", MORE, RESNET, TORCH),
        evidence=ratios("eval/batch_stats", "eval/no_grad", MORE, RESNET, OTHERS),
    ),
    Claim(
        "C19", "nvidia-smi cannot see inside a process's memory.", "it cannot", "what it shows", False, "it shows a card's", (GPU_FIRST,),
        needs=Needs(device="gpu", case="what nvidia-smi itself shows beside the allocator's own counters"),
    ),
    Claim(
        "C20", "A model with half() runs under autocast.", "it runs", "outputs that are finite", False, "a GPU's autocast has other rules",
        (
            Advice("Leave autocast out: with it the most that is allocated is {measured}, the weights the same.", "more", "autocast / alone"),
            Advice("Leave autocast out: the most that is allocated is the same ({measured}).", "none", "autocast / alone"),
            Advice("Check the outputs, and compare with half() alone."),
        ),
        arms=(snippet("torch_half_autocast", "as printed", of_all("finite"), SOME),),
        evidence=(
            snippet("torch_half_autocast", "most allocated, with autocast / alone", counts_over("most", "most_alone"), MORE, "change"),
            snippet("torch_half_autocast", "outputs of half() alone are finite", of_all("finite_alone"), SOME),
        ),
    ),
    Claim(
        "C21", "With each layer's train() replaced, batch norm stays frozen after model.train().", "no buffer changes", "buffers changed after model.train()",
        True, AUTOGRAD, (Advice("Keep it to model.train(), after which {measured} buffers change: a layer's own train() raises.", "less"),),
        arms=(snippet("torch_freeze_bn", "as printed", of_all("buffers_changed"), NONE),),
        evidence=(snippet("torch_freeze_bn", "the layer's own train() raises", of_all("layer_train_raises"), SOME),),
    ),
    Claim(
        "C22", "The listing of MMapDataset reads a mapped file.", "it runs", "the listing's run", True, "host memory is the host's",
        (Advice("Use numpy.memmap, and see C12."),), needs=Needs(listing="torch_mmap_dataset"),
    ),
    Claim(
        "C23", "The listing of a hook shows each layer's memory.", "it runs", "the listing's run", True, AUTOGRAD,
        (Advice("Ask `framebench explain CASE`: it tells the peak by layer."),), needs=Needs(listing="torch_layer_hook"),
    ),
    Claim(
        "C24", "The listing of a thread that reads torch.cuda.memory_allocated() shows memory.", "more than 0", "bytes that it saw at the most",
        False, ALLOCATOR, (GPU_FIRST,),
        arms=(snippet("torch_monitor", "as printed", of_all("most"), SOME),),
        needs=CARD,
    ),
)  # fmt: skip
