"""Compute the least memory of a case, which every implementation of the same mathematics needs.

All numbers derive from `case.config` by arithmetic, so variants and any batch work, and no
framework is needed. Not counted are workspaces, gradients of activations, weights that autocast
copies, statistics of norms, masks of a bit per element, and whatever a framework keeps for
convenience. Activations are counted only for workloads that declare `layers`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from framebench.models.layer import Layer
from framebench.models.spec import STREAM_BATCHES, Param
from framebench.strategies.quantized import count_moment_bytes
from framebench.suite.sequences import drop_duplicates

if TYPE_CHECKING:
    from framebench.suite.case import Case

# Switches that put activations or optimizer states into host memory or on disk; a limit of memory
# may put anything there.
ACTIVATIONS_OFFLOADED = {"offload", "offload_streamed", "mem_limit"}
STATES_OFFLOADED = {"optimizer_offload", "mem_limit"}
FLOAT32_BYTES, FLOAT16_BYTES = 4, 2  # bytes of float32; of bfloat16 and float16
# bytes of a label or token: JAX and Jittor hold them in 32 bits
INTEGER = {"torch": 8, "jax": 4, "jittor": 4}


@dataclass(frozen=True)
class LowerBound:
    """The bytes at the moment of a step when their sum is largest. No step peaks below this sum."""

    parameters: int
    buffers: int
    optimizer: int
    inputs: int
    gradients: int
    activations: int

    @property
    def total(self) -> int:
        """Return the sum."""
        return sum(vars(self).values())


@cache
def compute_lower_bound(case: Case) -> LowerBound:
    """Return the least peak of one step of this case, by its parts."""
    gradients = 0
    optimizer = 0
    if case.scenario_spec.trains:
        gradients, activations = count_backward_bytes(case)
        if not get_options(case).keys() & STATES_OFFLOADED:
            optimizer = count_optimizer_bytes(case)
    else:
        activations = count_forward_bytes(case)
    return LowerBound(
        parameters=count_stored_bytes(case, trainable=True),
        buffers=count_stored_bytes(case, trainable=False),
        optimizer=optimizer,
        inputs=count_input_bytes(case, targets=case.scenario != "eval"),
        gradients=gradients,
        activations=activations,
    )


def get_options(case: Case) -> dict[str, Any]:
    """Return the options of the strategy's parts, by the name of the switch."""
    return {part.switch: part.options for part in case.parts}


def get_activation_width(case: Case) -> int:
    """Return the bytes of an element of an activation.

    Under automatic mixed precision all activations are taken to be narrow, as the least.
    """
    return FLOAT16_BYTES if case.strategy_spec.precision in ("bf16", "fp16") else FLOAT32_BYTES


def get_storage_width(case: Case) -> int:
    """Return the bytes of an element of a parameter, of its gradient and of each of its states.

    Gradients and states are narrow only where the weights are.
    """
    if {"half", "amp_level"} & get_options(case).keys():
        return get_activation_width(case)
    return FLOAT32_BYTES


def get_micro_batch(case: Case) -> int:
    """Return the samples that are in the model at once."""
    return case.batch // case.strategy_spec.micro_batches


def list_trained_prefixes(case: Case) -> tuple[str, ...]:
    """Return the prefixes of the names of trained parameters: ("",) for all, () for none."""
    if case.scenario != "finetune":
        return ("",) if case.scenario_spec.trains else ()
    assert case.workload_spec.trained
    # what remains trained while the rest is frozen: half of the layers, the head, or LoRA's weights
    part = get_options(case)["frozen"].get("part", "half")
    return case.workload_spec.trained(case.config, part)


def list_trained_params(case: Case) -> list[Param]:
    """Return the parameters that a step changes."""
    prefixes = list_trained_prefixes(case)
    params = case.workload_spec.params(case.config)
    return [param for param in params if param.trainable and param.name.startswith(prefixes)]


def count_stored_bytes(case: Case, trainable: bool) -> int:
    """Return the bytes of the parameters of all models in memory, or of their buffers.

    Besides the case's model there may be the second one of a pair, or the teacher of a student.
    """
    spec = case.workload_spec
    params = list(spec.params(case.config))
    if case.strategy_spec.mathematics == "distill":
        params += spec.params(spec.config(case.size))  # the teacher is the workload's own model
    if case.scenario == "pair":
        params += list_second_params(case)
    total = 0
    for param in params:
        if param.trainable == trainable:
            total += count_param_bytes(case, param)
    return total


def list_second_params(case: Case) -> list[Param]:
    """Return the parameters that the second model of a pair adds to those of the first."""
    options = get_options(case)
    if "in_turn" in options:  # the first model is deleted before
        return []
    params = list(case.workload_spec.params(case.config))
    if any(option.get("shared_trunk") for option in options.values()):
        # both have one trunk, and the second has only a head of its own
        return [param for param in params if param.name.startswith(case.workload_spec.head)]
    return params


def count_param_bytes(case: Case, param: Param) -> int:
    """Return the bytes of a parameter.

    The scales that come with the int8 weight of a linear layer are not counted.
    """
    is_linear = len(param.shape) == 2 and param.name.startswith("blocks.")
    if is_linear and "int8" in get_options(case):
        return prod(param.shape)
    return prod(param.shape) * get_storage_width(case)


@cache
def count_gradient_bytes(case: Case) -> dict[str, int]:
    """Return the bytes of all gradients by layer, as they are when the backward pass ends."""
    bytes_by_layer: dict[str, int] = defaultdict(int)
    for param in list_trained_params(case):
        layer = param.name.rpartition(".")[0]
        bytes_by_layer[layer] += get_storage_width(case) * prod(param.shape)
    return dict(bytes_by_layer)


def count_optimizer_bytes(case: Case) -> int:
    """Return the bytes of the optimizer's states.

    SGD keeps its momentum, AdamW two moments: 4 and 8 bytes per trained parameter; 6 with the first
    one in bfloat16, little more than 2 in 8 bits. Adafactor keeps a number for each row and each
    column of a matrix.
    """
    optimizer = case.optimizer
    precisions = {part.precision for part in case.strategy_spec.parts}
    if "8-bit moments" in precisions:
        moment_bytes = 0
        for param in list_trained_params(case):
            moment_bytes += count_moment_bytes(prod(param.shape))
        return len(optimizer.states) * moment_bytes
    numbers = 0
    for param in list_trained_params(case):
        numbers += optimizer.count_state_numbers(param.shape)
    state_bytes = get_storage_width(case) * numbers
    if "mu_bf16" in get_options(case):
        # one moment has half its width, and a moment in full width is as large as the gradients
        state_bytes -= sum(count_gradient_bytes(case).values()) // 2
    return state_bytes


def count_korthikanti_bytes(case: Case) -> int:
    """Return the bytes of activations of a Transformer's blocks, by Korthikanti et al. 2022.

    The formula is their equation 1 without dropout (its masks: 2 s h, and of the scores a s^2; its
    output next to them 2 a s^2) and in float32, where every tensor is twice as wide: 2 s b h (32 +
    2 a s / h) bytes.
    """
    config = case.config
    s, b, h, a = config.length, case.batch, config.width, config.heads  # as the paper names them
    block = 2 * s * b * h * (32 + 2 * a * s / h)
    return config.layers * round(block)


def count_input_bytes(case: Case, targets: bool = True) -> int:
    """Return the bytes of one batch, or of all if the scenario or the strategy holds them."""
    integer_width = INTEGER[case.framework]
    if case.scenario == "varlen":
        tokens = 0
        for inputs, labels in case.make_stream():
            tokens += inputs.size + labels.size
        return integer_width * tokens
    floats, integers, targets_of_sample = case.workload_spec.count_sample(case.config)
    if targets:
        integers += targets_of_sample  # labels are integers of the same width
    sample_bytes = get_storage_width(case) * floats + integer_width * integers
    batch_bytes = case.batch * sample_bytes
    loading = get_options(case).get("loading", {})
    if loading.get("mode") == "whole":
        return STREAM_BATCHES * batch_bytes
    return batch_bytes


def list_layers(case: Case) -> list[Layer]:
    """Return the layers from the input to the loss, of a stream's longest batch.

    A workload may declare none.
    """
    if case.workload_spec.layers is None:
        return []
    config = case.config
    if case.scenario == "varlen":
        longest = max(x.shape[1] for x, _ in case.make_stream())
        config = replace(config, length=longest)
    return list(case.workload_spec.layers(config, get_options(case)))


def list_backward_layers(case: Case) -> list[Layer]:
    """Return the layers that a backward pass goes through, from the first trained one on.

    A frozen layer keeps no input if it is a matmul.
    """
    prefixes = list_trained_prefixes(case) or ("",)
    reached: list[Layer] = []
    for layer in list_layers(case):
        is_trained = f"{layer.name}.".startswith(prefixes)
        if is_trained or (reached and not layer.output):
            reached.append(layer)
        elif reached:
            reached.append(replace(layer, elements=0))
    return reached


def find_recomputed_blocks(case: Case) -> set[str]:
    """Return the blocks that run again in the backward pass.

    The bound is the same for policies that save more, for those that save on another device, and
    for a compiler that chooses by itself.
    """
    strides = []
    for part in case.parts:
        if part.axis == "recomputation" or "budget" in part.options:
            strides.append(part.options.get("every", 1))
    if not strides:
        return set()
    blocks = drop_duplicates(layer.block for layer in list_layers(case) if layer.block)
    return set(blocks[:: strides[0]])


def count_backward_bytes(case: Case) -> tuple[int, int]:
    """Return the bytes of gradients and of saved activations when their sum is largest.

    At each layer of the backward pass the activations that this layer and those below it have saved
    are alive, and the gradients of this layer and those above it. There are three exceptions:

    - All gradients are alive all the time in micro-batches after the first, and in a step that
      zeroes gradients instead of freeing them.
    - The gradients of one layer are alive at a time if the optimizer updates weights in the
      backward pass, or a compiler updates them in place.
    - Of a recomputed block only the input is saved until its own backward pass.

    Offloaded activations do not count.
    """
    options = get_options(case)
    gradients = count_gradient_bytes(case)
    keeps_all = case.strategy_spec.micro_batches > 1 or "keep_grads" in options
    in_place = case.framework == "jax" and "no_donate" not in options
    one_by_one = ("optimizer_in_backward" in options or in_place) and not keeps_all
    layers = list_backward_layers(case)
    if not layers:  # no activation is counted, so the sum is largest at the end
        return max(gradients.values()) if one_by_one else sum(gradients.values()), 0

    per_element = get_activation_width(case) * get_micro_batch(case)
    if options.keys() & ACTIVATIONS_OFFLOADED:
        per_element = 0
    all_gradients = sum(gradients.get(layer.name, 0) for layer in layers)
    gradients_from_here = all_gradients  # of this layer and those above it
    saved = 0  # elements up to this layer, without those inside of recomputed blocks
    recomputed = dict.fromkeys(find_recomputed_blocks(case), 0)  # elements by block, up to here
    moments = []
    for layer in layers:
        gradient = gradients.get(layer.name, 0)
        if layer.is_block_input or layer.block not in recomputed:
            saved += layer.elements
        else:
            recomputed[layer.block] += layer.elements
        if keeps_all:
            alive_gradients = all_gradients
        elif one_by_one:
            alive_gradients = gradient
        else:
            alive_gradients = gradients_from_here
        elements = saved + recomputed.get(layer.block, 0)
        moments.append((alive_gradients, per_element * elements))
        gradients_from_here -= gradient
    return max(moments, key=sum)


def count_forward_bytes(case: Case) -> int:
    """Return the least bytes of activations of a forward pass without a backward pass.

    These are the input and the result of one layer, where both together are largest; with the
    switch `grad`, which saves the graph, the inputs of all layers; in generation, the keys and
    values of all tokens, and a layer's input and result for one token.
    """
    options = get_options(case)
    layers = list_layers(case)
    largest = 0
    for layer in layers:
        largest = max(largest, layer.elements + layer.output)
    if {"static_cache", "growing_cache"} & options.keys():
        config = case.config
        # a key and a value of each token, in each layer
        cached = 2 * config.layers * config.width * config.length
        for_one_token = largest // config.length
        return get_activation_width(case) * case.batch * (cached + for_one_token)
    elements = largest
    if "grad" in options:
        elements = sum(layer.elements for layer in layers)
    return get_activation_width(case) * get_micro_batch(case) * elements
