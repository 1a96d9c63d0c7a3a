"""Name what is known of a user's model."""

from __future__ import annotations

from typing import TypedDict


class MissingGradients(TypedDict):
    """The weights of a user's model that get no gradient, or one of zeros."""

    first: int  # how many in the first step
    ever: list[str]  # those that get none in any step
    weights: int  # of so many weights


class LossTermFacts(TypedDict):
    """The numbers in a dictionary of losses without a total, by their keys."""

    counted: list[str]  # those that are added up; empty if the loss is no such sum
    logged: list[str]  # those that no backward pass reaches
    unclear: list[str]


class ModelFacts(TypedDict, total=False):
    """What `own.json` holds of a user's model. By it strategies are refused that do not apply.

    `framebench try` knows the first ones before the file is imported, the adapter's
    `user_model.facts` returns those of every framework and of its own, and the steps of the
    baseline tell the last ones.
    """

    # of the call of `framebench try`
    file: str  # the path of the user's file
    framework: str
    batch: int
    scenario: str
    defined: list[str]  # the functions that the file has, such as `optimizer`
    budget: int | None  # bytes that it may take
    limit: int | None  # bytes that the machine has to spare

    # of every framework
    params: list[tuple[str, list[int], bool]]  # name, shape, is trained: weights and buffers
    parameters: int  # how many numbers the weights have, in PyTorch with the frozen ones
    input: list[int]  # the shape of the first input
    target: list[int]  # the shape of the first target; empty without targets
    blocks: list[str]  # the names of the modules that checkpointing recomputes
    block: str  # the classes of these modules, in words
    couples: list[str]  # the first layer that normalises over the batch, if there is one
    uncut: str  # why a batch cannot be cut into micro-batches; empty if it can be
    images: bool  # whether the first input has four axes, and the model 2-D convolutions
    optimizer: str  # the classes of the file's optimizers, in words
    own_step: bool  # whether the file has a `step`, which makes its own passes and updates

    # of JAX
    linen: bool  # whether it is a Linen module or a function, which cannot be changed inside

    # of PyTorch
    tied: list[str]  # further names of weights that have several
    types: dict[str, int]  # how many numbers the weights have of each type
    complex: list[str]  # the names of complex weights
    levels: list[str]  # the classes of modules that repeat, in words, by level
    convolutions: bool  # whether the model has convolutions of any kind
    compiled: bool  # whether the file has compiled a module
    sparse: list[str]  # the first layer with sparse gradients, if there is one
    configures_optimizer: bool  # whether the model makes the optimizer, as Lightning's does
    closure: bool  # whether the optimizer computes the loss itself, as L-BFGS does
    passes: bool  # whether its step may make a second pass
    hooks: bool  # whether it has hooks, which get all weights at once
    inner: list[str]  # the classes of optimizers inside wrappers

    # of the baseline's steps
    loss_terms: LossTermFacts
    update_period: int  # how many steps a whole update takes
    random: bool  # whether a step draws random numbers
    draws_by_layout: bool  # whether another memory format would change these numbers
    undetermined: list[str]  # tensors whose gradient is nothing but rounding
    skipped: dict[str, list[str]]  # by the key of references, tensors that are not compared
    narrow: bool  # whether the file casts to a type of 16 bits by itself
    attention: bool  # whether it has products of matrices in batches
    sources: str  # a digest of the file and of what it imports from its folder
    without_gradient: MissingGradients
    accumulation: str  # why micro-batches do not add up to the batch; empty if they do
    remembers: str  # tensors that each forward pass changes though no gradient trains them
    blocks_change: bool  # whether such a tensor lies in a block
