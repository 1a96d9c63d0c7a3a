"""Source B: memory saving in PyTorch and Jittor."""

from __future__ import annotations

from framebench.features.claims import probed
from framebench.features.claims.arms import (
    FASTER,
    GPT,
    JAX,
    JITTOR,
    LESS,
    POINTS,
    RESNET,
    SECONDS,
    SLOWER,
    TORCH,
    UNET,
    below,
    each,
    ratios,
    ratios_at_224,
    ref,
    times,
)
from framebench.features.claims.claim import Arm, Claim
from framebench.features.claims.measures import Apart, Difference, OfProbe, OfTheWay, Predicted, Ratio, Value
from framebench.features.claims.rule import Target
from framebench.features.claims.samples import (
    ADDED,
    ALIVE,
    HOST,
    PEAK,
    PLAN,
    RESERVED,
    TIME,
    Quantity,
    evidence,
    fullest,
    observed,
    share,
)

DATA_FLOW = "what must be kept follows from the mathematics; only workspaces differ on a GPU"
CPU_HALF = "bytes hold, where the CPU's kernels take bfloat16; speed does not, and XLA:CPU widens to float32"
ONE_MORE_FORWARD = times(4 / 3, SECONDS)  # a step is a forward and a backward of two forwards' work
SEVENTY_OR_MORE = times(0.3, or_more=True)
AT_224 = "Also at 224 pixels in batches of 8 and 16, where activations dominate, as the article means it; at 64 pixels weights and states do"
COUNTED = "bytes of tensors, counted from their storages, are the same on a GPU"
HELD, STATES = fullest("bytes that the fullest rank holds"), fullest("bytes of states in the fullest rank", "optimizer states")
GRADIENT = observed("grad_norm")
LATER_LOSS = observed("loss_1")  # after one update
POOL = evidence("pool_bytes")
SAME_GRADIENT, SAME_LOSS = below(1e-3), below(1e-2)  # relative
ALL_OF_IT = Target(1, 0.0, 0.05, 1.0)  # of the difference between the large batch's peak and the small one's

COMPILE = "torch.compile came with PyTorch 2.0 of March 2023 (its release notes); 1.13 does not have it."
VOLUME = "unet3d/torch/train/{}/b16/full"  # 16 patches of 128^3: the voxels of 512x512x128


def across(quantity: str, change: str, base: str, target: Target) -> Arm:
    """Two frameworks on the U-Net, by the one instrument that they share."""
    (one, what), (other, plain) = (side.split(" ") for side in (change, base))
    measure = Ratio(HOST if quantity == "peak" else TIME, ref("unet3d", one, what), ref("unet3d", other, plain))
    return Arm(f"unet3d: {change} / {base} {quantity}", measure, target)


def zero(stage: int, target: Target, quantity: Quantity) -> tuple[Arm, ...]:
    """DeepSpeed's stage against its stage 0, which divides nothing."""
    change, base = f"train/deepspeed_zero{stage}@x2", "train/deepspeed_zero0@x2"
    return ratios(change, base, target, GPT, TORCH, f"DeepSpeed's ZeRO-{stage}", quantity)


CLAIMS = (
    Claim(
        "B1", "Mixed precision takes 40 % off the memory of training ResNet-50.", "-40 %", "peak, amp / float32", False, CPU_HALF,
        "Expect less than the activations' half, since weights, gradients and momentum stay float32: {range} here.",
        part="memory", note=AT_224,
        arms=(
            *ratios("train/amp_bf16", "train/fp32", times(0.6), RESNET, TORCH),
            *ratios_at_224("train/amp_bf16", "train/fp32", times(0.6), TORCH),
        ),
        evidence=(
            *ratios("train/amp_bf16", "train/fp32", times(0.6), RESNET, JAX),
            *ratios_at_224("train/amp_bf16", "train/fp32", times(0.6), JAX),
            *ratios("train/amp_bf16", "train/fp32", times(0.6), workloads=("unet3d", "transformer")),
            *ratios("train/amp_fp16", "train/fp32", times(0.6), workloads=RESNET, label="float16"),
            *ratios("train/amp_bf16", "train/fp32", FASTER, RESNET, label="time", quantity=TIME),
        ),
    ),
    Claim(
        "B1", "Mixed precision trains ResNet-50 with the same result.", "same loss", "relative difference of the loss after the first updates",
        False, CPU_HALF, "Compare your own loss curves: three steps show gross errors only.", part="result",
        arms=each(lambda w, f: Apart(LATER_LOSS, ref(w, f, "train/amp_bf16"), ref(w, f, "train/fp32")), SAME_LOSS,
                  RESNET, TORCH),
        evidence=each(lambda w, f: Apart(LATER_LOSS, ref(w, f, "train/amp_bf16"), ref(w, f, "train/fp32")), SAME_LOSS,
                      RESNET, JAX),
    ),
    Claim(
        "B2", "Checkpointing saves about 65 % of the memory.", "-65 %", "peak, checkpoint / plain", True, DATA_FLOW,
        "Count on the saving only where activations dominate ({most_arm}: {most}); where weights and optimizer do "
        "({least_arm}: {least}), save those first.",
        part="memory", note=AT_224,
        arms=(
            *ratios("train/checkpoint", "train/fp32", times(0.35)),
            *ratios_at_224("train/checkpoint", "train/fp32", times(0.35)),
        ),
        evidence=(
            *ratios("train/checkpoint_every_2", "train/fp32", times(0.35), label="every second block"),
            *ratios("train/checkpoint_dots", "train/fp32", times(0.35), label="all but products"),
        ),
    ),
    Claim(
        "B2", "Checkpointing costs one more forward pass.", "+33 % time", "step time, checkpoint / plain", False,
        "the ratio of forward to backward is that of the device's kernels",
        "Count on {range} of time; where the backward pass is slow, less.", part="speed",
        arms=(
            *ratios("train/checkpoint", "train/fp32", ONE_MORE_FORWARD, quantity=TIME),
            *ratios_at_224("train/checkpoint", "train/fp32", ONE_MORE_FORWARD, quantity=TIME),
        ),
        evidence=ratios("train/checkpoint_every_2", "train/fp32", ONE_MORE_FORWARD, label="every second block", quantity=TIME),
    ),
    Claim(
        "B3", "Checkpointing saves 70 % or more of a deep Transformer's activations.", "-70 % or more",
        "what a step adds to the live bytes, checkpoint / plain, 16 layers", True, DATA_FLOW,
        "Deeper models gain more: {range} of what a step adds, gradients included; compare the depths' rows.",
        arms=ratios("train/checkpoint+depth_16", "train/depth_16", SEVENTY_OR_MORE, workloads=GPT, quantity=ADDED),
        evidence=(
            *ratios("train/checkpoint", "train/fp32", SEVENTY_OR_MORE, GPT, label="8 layers", quantity=ADDED),
            *ratios("train/checkpoint+depth_4", "train/depth_4", SEVENTY_OR_MORE, GPT, label="4 layers", quantity=ADDED),
            *ratios("train/checkpoint+depth_16", "train/depth_16", SEVENTY_OR_MORE, GPT, TORCH, "saved for backward",
                    evidence("saved_bytes")),
        ),
    ),
    Claim(
        "B4", "Grouped and depthwise convolutions cut memory and parameters.", "less of both",
        "peak, grouped / dense", False, "kernels for grouped convolutions and their workspaces are others on a GPU",
        "They cut parameters, and so gradients and optimizer states; the whole peak changed by {range}. Check the speed beside it.",
        definition="A convolution in g groups has a g-th of the weights, and so of gradients and states",
        arms=(
            *ratios("train/grouped", "train/fp32", workloads=RESNET, label="grouped"),
            *ratios("train/depthwise", "train/fp32", workloads=RESNET, label="depthwise"),
        ),
        evidence=(
            *ratios("train/grouped", "train/fp32", FASTER, RESNET, label="grouped, time", quantity=TIME),
            *ratios("train/depthwise", "train/fp32", FASTER, RESNET, label="depthwise, time", quantity=TIME),
            *ratios("eval/grouped", "eval/no_grad", workloads=RESNET, label="grouped, eval"),
        ),
    ),
    Claim(
        "B5", "Pruned channels cut memory.", "less", "peak, half the channels / all", True, DATA_FLOW,
        "Remove the channels for real and rebuild the model: {range}. Masks alone free nothing.",
        definition="A model with half the channels has fewer weights and smaller activations",
        arms=ratios("train/width_half", "train/fp32", workloads=RESNET),
        evidence=(
            *ratios("train/width_half", "train/fp32", workloads=("unet3d", "transformer")),
            *ratios("eval/width_half", "eval/no_grad", workloads=RESNET, label="eval"),
        ),
    ),
    Claim(
        "B6", "A distilled, smaller student replaces the model at less memory.", "less", "peak, student / full model, eval",
        True, DATA_FLOW,
        "For serving, yes ({range}); the distillation step itself holds the teacher too: see its rows.",
        definition="A smaller model has fewer weights and smaller activations; whether it answers as well is not a question of memory",
        arms=ratios("eval/student", "eval/no_grad"),
        evidence=(
            *ratios("train/distill", "train/fp32", workloads=("resnet50", "transformer"), label="distillation step"),
            *ratios("train/student", "train/fp32", label="student alone, train"),
        ),
    ),
    Claim(
        "B7", "Jittor's fusion makes a U-Net need 15 % less than PyTorch.", "-15 %", "peak by host.rss, Jittor / PyTorch",
        False, "both run other kernels on a GPU",
        "Compare the two on your card before you change the framework; on this machine's processor: {measured}.",
        about_gpus="The claim is of GPUs, on which both frameworks run other kernels; a CPU's peaks are shown beside",
        arms=(across("peak", "jittor train/fp32", "torch train/fp32", times(0.85)),),
        evidence=(
            across("peak", "jittor train/rewrite", "torch train/fp32", times(0.85)),
            across("time", "jittor train/fp32", "torch train/fp32", FASTER),
            *ratios("train/fp32", "train/no_fuse", workloads=UNET, frameworks=JITTOR, label="fused / not fused"),
        ),
    ),
    Claim(
        "B8", "Reusing a pool's memory avoids repeated allocation.", "emptying it costs time",
        "step time, pool emptied after every step / kept", False,
        "on a GPU an allocation synchronises the device: without a pool far more is lost",
        "Leave the pool alone. Emptied after every step, the step time changed by {range}.",
        arms=(
            *ratios("train/empty_cache", "train/fp32", SLOWER, frameworks=JITTOR, quantity=TIME),
            *ratios("train/pool_off", "train/fp32", SLOWER, frameworks=(*TORCH, *JAX), label="no pool", quantity=TIME),
        ),
        evidence=ratios("eval/empty_cache", "eval/no_grad", SLOWER, frameworks=JITTOR, label="eval", quantity=TIME),
    ),
    Claim(
        "B9", "Accumulation gives the large batch's gradient at the small batch's memory.", "all of the difference; same gradient",
        "share of the way from the large batch's peak to the small one's; relative difference of the gradient's norm",
        True, f"{DATA_FLOW}; batch norm sees micro-batches everywhere",
        "Accumulate where samples do not influence each other; batch norm does not see the large batch. It went {range} "
        "of the way: the sum of the gradients is paid beside them.",
        arms=(
            *each(lambda w, f: OfTheWay(PEAK, ref(w, f, "train/accumulate"), ref(w, f, "train/fp32"), ref(w, f, "train/fp32@-2")),
                  ALL_OF_IT, GPT),
            *each(lambda w, f: OfTheWay(PEAK, ref(w, f, "train/accumulate@1"), ref(w, f, "train/fp32@1"), ref(w, f, "train/fp32@-1")),
                  ALL_OF_IT, UNET),
            *each(lambda w, f: OfTheWay(PEAK, ref(w, f, "train/accumulate@2"), ref(w, f, "train/fp32@2"), ref(w, f, "train/fp32")),
                  ALL_OF_IT, RESNET),
            *each(lambda w, f: Apart(GRADIENT, ref(w, f, "train/accumulate"), ref(w, f, "train/fp32")), SAME_GRADIENT,
                  label="gradient"),
        ),
    ),
    Claim(
        "B10", "Micro-batches do the same for long sequences.", "less", "peak, 4 micro-batches / none, sequences of 4 x 256",
        True, DATA_FLOW,
        "Split the batch, not the sequence: {range}; with checkpointing together it saves more.",
        definition="A quarter of the batch has a quarter of the activations, whatever the length of its sequences",
        arms=ratios("train/accumulate+long", "train/long", workloads=GPT),
        evidence=(
            *ratios("train/checkpoint+long", "train/long", workloads=GPT, label="checkpoint"),
            *ratios("train/accumulate+long", "train/long", SLOWER, GPT, label="time", quantity=TIME),
        ),
    ),
    Claim(
        "B11", "Data parallelism spreads memory over devices: the peak.", "less per rank", "peak per rank, 2 ranks / 1, the same batch",
        True, DATA_FLOW, "Each rank has its part of the batch and so of the activations: {range}. Weights and states stay whole.",
        part="peak", note="At the same batch of all ranks together; JAX's ranks are devices of one process, whose plan is compared",
        arms=(
            *ratios("train/ddp@x2", "train/fp32", LESS, GPT, TORCH),
            *ratios("train/replicated@x2", "train/fp32", LESS, GPT, JAX, quantity=PLAN),
        ),
        evidence=(
            *ratios("train/fsdp@x2", "train/fp32", LESS, GPT, TORCH, "fully sharded"),
            *ratios("train/fully_sharded@x2", "train/fp32", LESS, GPT, JAX, "fully sharded", PLAN),
        ),
    ),
    Claim(
        "B11", "Data parallelism spreads memory over devices: what stays between two steps.", "less per rank",
        "bytes alive per rank, 2 ranks / 1", True, COUNTED,
        "Plain data parallelism copies weights and states to every rank ({range}), and PyTorch's buckets hold gradients once more: "
        "shard them.", part="states",
        arms=(
            *ratios("train/ddp@x2", "train/fp32", LESS, GPT, TORCH, quantity=ALIVE),
            *ratios("train/replicated@x2", "train/fp32", LESS, GPT, JAX, quantity=ALIVE),
        ),
        evidence=(
            *ratios("train/fsdp@x2", "train/fp32", LESS, GPT, TORCH, "fully sharded", ALIVE),
            *ratios("train/fully_sharded@x2", "train/fp32", LESS, GPT, JAX, "fully sharded", ALIVE),
        ),
    ),
    Claim(
        "B12", "torch.cuda.empty_cache() frees memory.", "less reserved", "reserved, emptied / kept", False,
        "PyTorch has no caching allocator on a CPU; Jittor's pool is shown beside it",
        "Call it between programs' phases, if another process needs the card; never in the loop.", part="memory",
        note="Jittor's pool is taken as the timed steps have left it: memory workers empty it before each step, in both arms",
        arms=ratios("train/empty_cache", "train/fp32", LESS, frameworks=TORCH, quantity=RESERVED),
        evidence=ratios("train/empty_cache", "train/fp32", LESS, frameworks=JITTOR, label="pool, jt.gc()", quantity=POOL),
    ),
    Claim(
        "B12", "torch.cuda.empty_cache() costs time.", "slower", "step time, emptied / kept", False,
        "PyTorch has no caching allocator on a CPU; Jittor's pool is shown beside it",
        "Never call it in the loop before you know its price.", part="speed",
        arms=ratios("train/empty_cache", "train/fp32", SLOWER, frameworks=TORCH, quantity=TIME),
        evidence=ratios("train/empty_cache", "train/fp32", SLOWER, frameworks=JITTOR, label="jt.gc()", quantity=TIME),
    ),
    Claim(
        "B13", "jittor.misc.set_memory_limit() caps memory.", "a cap", "reserved, JT_SAVE_MEM's limit / none", False,
        "on a CPU it swaps to a disk, on a GPU to host memory",
        "There is no such function. Build Jittor with JT_SAVE_MEM for device_mem_limit, which swaps and may exceed its limit.",
        absent=("jittor.misc.set_memory_limit",),
        evidence=ratios("train/mem_limit", "train/fp32", LESS, frameworks=JITTOR, label="JT_SAVE_MEM", quantity=RESERVED),
    ),
    Claim(
        "B14", "TF32 and float16 tensor cores speed training up.", "faster", "step time, tf32 or amp / float32", False,
        "a CPU has no tensor cores", "Measure on your card: `framebench claims B14 --run`.",
        arms=(
            *ratios("train/tf32", "train/fp32", FASTER, label="TF32", quantity=TIME),
            *ratios("train/amp_fp16", "train/fp32", FASTER, label="float16", quantity=TIME),
        ),
        evidence=ratios("train/amp_bf16", "train/fp32", FASTER, label="bfloat16 on this device", quantity=TIME),
    ),
    Claim(
        "B15", "Preparing input beside the step shortens the wait.", "less waiting", "waiting's share of the step, prefetched less in turn",
        False, "the faster the step, the larger the share of the wait",
        "Look at the share first, which stands beside: prefetching gains no more than it. It changed by {range}.",
        note="In points of the step: of a share of half a per cent, even nine tenths are nothing",
        arms=each(lambda w, f: Difference(share("wait"), ref(w, f, "pipeline/prefetch"), ref(w, f, "pipeline/memmap")),
                  Target(-1, 0.0, POINTS), RESNET),
        evidence=(
            *each(lambda w, f: Value(share("wait"), ref(w, f, "pipeline/memmap"), "share"), Target(1, 0.0, POINTS), RESNET,
                  label="waiting's share, in turn"),
            *ratios("pipeline/prefetch", "pipeline/memmap", FASTER, RESNET, label="time", quantity=TIME),
        ),
    ),
    Claim(
        "B16", "nn.VolumeBatchNorm3d saves 20 %.", "-20 %", "bytes that a step adds, with nn.BatchNorm3d / without it", False,
        "there is nothing to measure",
        "There is no such class. nn.BatchNorm3d exists in Jittor and PyTorch, and adds memory, as any normalisation: its rows say how "
        "much to four 3-D convolutions.",
        absent=("jittor.nn.VolumeBatchNorm3d",),
        evidence=tuple(
            Arm(f"nn.BatchNorm3d/{f}", OfProbe(f"norm3d-{f}", probed.batch_norm, "change", "2 x 16 x 32^3"), times(0.8))
            for f in ("torch", "jittor")
        ),
    ),
    Claim(
        "B17", "Checkpointing a 3-D U-Net takes its activations from 12 to 4 GB.", "-67 %",
        "what a step adds to the live bytes, checkpoint / plain", True, DATA_FLOW,
        "What a step adds changed by {range}; the full resolution's skip connections are kept whatever is recomputed. "
        "The row marked predicted counts 512x512x128 voxels.",
        arms=ratios("train/checkpoint", "train/fp32", times(1 / 3), workloads=UNET, quantity=ADDED),
        evidence=(
            *ratios("train/checkpoint", "train/fp32", times(1 / 3), workloads=UNET, label="whole peak"),
            Arm("512x512x128 voxels (predicted)", Predicted(VOLUME.format("checkpoint"), VOLUME.format("fp32")), times(1 / 3)),
        ),
    ),
    Claim(
        "B18", "On a 3-D U-Net mixed precision takes 30 % more off a checkpointed step.", "-30 %", "peak, checkpoint+amp / checkpoint",
        False, CPU_HALF, "Take bfloat16 if your device has it in hardware: {range}.", part="memory",
        note="Judged apart from the speed, which had made a larger saving than claimed look like a smaller one",
        arms=ratios("train/amp_bf16+checkpoint", "train/checkpoint", times(0.7), UNET, TORCH),
        evidence=ratios("train/amp_bf16+checkpoint", "train/checkpoint", times(0.7), UNET, JAX),
    ),
    Claim(
        "B18", "On a 3-D U-Net checkpointing and mixed precision together are 1.8 times faster.", "1.8 x faster",
        "step time, checkpoint+amp / float32", False, CPU_HALF,
        "Measure it on your device: without units for bfloat16 it is slower. Here the step time changed by {range}.", part="speed",
        arms=ratios("train/amp_bf16+checkpoint", "train/fp32", times(1 / 1.8, SECONDS), UNET, TORCH, quantity=TIME),
        evidence=ratios("train/amp_bf16+checkpoint", "train/fp32", times(1 / 1.8, SECONDS), UNET, JAX, quantity=TIME),
    ),
    Claim(
        "B19", "torch.compile of version 1.13 and later fuses kernels, and saves memory.", "less", "peak, compiled / eager", False,
        "another back end generates the GPU's kernels", "Measure before you compile: the peak changed by {range}.", part="memory",
        arms=ratios("train/compile", "train/fp32", workloads=GPT),
        evidence=ratios("train/compile", "train/fp32", workloads=("resnet50", "unet3d")),
        note=COMPILE,
    ),
    Claim(
        "B19", "torch.compile of version 1.13 and later fuses kernels, and saves time.", "faster", "step time, compiled / eager", False,
        "another back end generates the GPU's kernels",
        "Measure before you compile, and count the first step, which pays for it: the step time changed by {range}.", part="speed",
        arms=ratios("train/compile", "train/fp32", FASTER, GPT, quantity=TIME),
        evidence=ratios("train/compile", "train/fp32", FASTER, ("resnet50", "unet3d"), quantity=TIME),
        note=COMPILE,
    ),
    Claim(
        "B20", "jittor.ops.optimized_attention replaces attention.", "less", "peak, fused attention / plain", False,
        "fused kernels on a GPU are others",
        "There is no such function in Jittor. PyTorch's scaled_dot_product_attention is fused: see its rows.",
        absent=("jittor.ops.optimized_attention",),
        evidence=(
            *ratios("train/fp32", "train/attention_plain", workloads=GPT, frameworks=TORCH, label="train"),
            *ratios("eval/no_grad", "eval/attention_plain", workloads=GPT, frameworks=TORCH, label="eval"),
        ),
    ),
    Claim(
        "B21", "ZeRO shards the optimizer's states.", "1 / N", "bytes of states in the fullest rank, sharded / copied, 2 ranks", True,
        COUNTED, "The states are divided as announced where tensors are cut ({range}); what hands out whole tensors divides less "
        "evenly with more ranks.", part="states",
        arms=(
            *(arm for stage in (1, 2, 3) for arm in zero(stage, times(1 / 2), STATES)),
            *ratios("train/zero_optimizer@x2", "train/ddp@x2", times(1 / 2), GPT, TORCH, "ZeroRedundancyOptimizer", STATES),
            *ratios("train/fsdp@x2", "train/ddp@x2", times(1 / 2), GPT, TORCH, "FSDP", STATES),
            *ratios("train/sharded_states@x2", "train/replicated@x2", times(1 / 2), GPT, JAX, quantity=STATES),
        ),
    ),
    Claim(
        "B21", "With ZeRO memory is used 45 % better.", "/ 1.45", "bytes in the fullest rank, sharded / copied, 2 ranks", True,
        COUNTED, "Count before you buy, for your stage and number of ranks: {range} at two. Adam in mixed precision holds 16 bytes for each "
        "parameter, of which each stage divides more by the ranks.", part="memory",
        note="The article's case has several measures together; this is ZeRO's part: weights, copies, gradients, buckets and states "
        "as counted, in float32. A copy of the weights that DeepSpeed keeps in float32 too is among them",
        arms=tuple(arm for stage in (1, 2, 3) for arm in zero(stage, times(1 / 1.45), HELD)),
        evidence=(
            *ratios("train/zero_optimizer@x2", "train/ddp@x2", times(1 / 1.45), GPT, TORCH, "ZeroRedundancyOptimizer", HELD),
            *ratios("train/fsdp@x2", "train/ddp@x2", times(1 / 1.45), GPT, TORCH, "FSDP", HELD),
        ),
    ),
    Claim(
        "B21", "With ZeRO throughput rises by 30 %.", "+30 %", "step time", False, "ranks on one processor share its cores",
        "Measure on your cards: dividing states costs collectives, and gains time only by the larger batch that then fits.",
        part="speed", reason="ranks that share a processor's cores have no step times",
    ),
)  # fmt: skip
