"""Name the facts of a user's model that its worker finds, and that the parent reads."""

from __future__ import annotations

from typing import TypedDict


class ModelFacts(TypedDict, total=False):
    """What a framework's `user_model.facts` returns.

    The worker writes it into `own.json`, next to what the parent knew before and what the
    baseline's steps tell. By it `models/user_model.py` refuses strategies that do not apply.
    """

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
    draws: bool  # whether the model draws random numbers
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
