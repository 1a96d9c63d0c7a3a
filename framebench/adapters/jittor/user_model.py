"""The user's file in Jittor.

The file has `model()`, `batch(n)` and `loss(output, target)`. It may have `optimizer(parameters)`,
and `blocks`: the class or classes of the modules that checkpointing recomputes, or a function that
lists these modules of a model.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters import user_blocks
from framebench.adapters.jittor.adapter import JittorAdapter, copy_weights
from framebench.adapters.user_functions import (
    UserFile,
    describe_type,
    leave_operation_unknown,
    select_returned,
)
from framebench.models.spec import USER_MODEL, load_workload
from framebench.models.user_facts import ModelFacts
from framebench.suite.trees import map_tree


def count_weights(module: Module) -> int:
    """Return how many numbers the parameters of a module have."""
    return sum(p.numel() for p in module.parameters())


ACCESS = user_blocks.ModuleAccess(
    modules=Module.modules,
    size=count_weights,
    containers=(nn.Sequential, nn.ModuleList),
)


@cache
def user() -> UserFile:
    """Return the user's file, imported. Raises Fault."""
    file = load_workload(USER_MODEL).facts["file"]
    return UserFile(file, jt.set_global_seed, "Var", batch_types=Var, loss_types=Var)


class BlockBody(Module):
    """Compute what a block computes.

    When the model calls the block, the block passes this module to the model's `block_runner`.
    """

    def __init__(self, block: Module) -> None:
        """Keep the block and its own `execute`, which is to be replaced."""
        self.block = block
        self.own_execute = block.execute

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run the block."""
        return self.own_execute(*args, **kwargs)


def build(config: Any) -> Module:
    """Return the file's model, whose blocks are run by its `block_runner`. Raises Fault."""
    model = make_plain_model()
    user_blocks.route_blocks(model, find_blocks(model), BlockBody, "execute")
    return model


def make_plain_model() -> Module:
    """Return the file's model in training mode. Raises Fault."""
    model = user().make_model(Module)
    if not isinstance(model, Module):
        class_name = describe_type(model)
        raise user().fault(
            "model", f"model() must return a jittor.Module, and it returned {class_name}"
        )
    return model.train()  # Jittor's dropout begins in evaluation mode


def blocks_of(model: Module) -> list[Module]:
    """Return the bodies of the model's blocks, which checkpointing recomputes."""
    return list(model.bodies)


def find_blocks(model: Module) -> list[Module]:
    """Return the blocks, which checkpointing recomputes: named by the file, or repeated modules.

    Raises Fault.
    """
    return user_blocks.find_named_or_repeated(model, user(), ACCESS)


def loss(output: Any, target: Any) -> Var:
    """Return the file's loss. Raises Fault."""
    return user().compute_loss(output, target).reshape((1,))


def optimizer(parameters: list[Var], model: Module) -> Any:
    """Return the result of the file's `optimizer` for the model or its parameters.

    It must be a Jittor optimizer, unless the file has a `step` of its own. Raises Fault.
    """
    returned_optimizer = user().get("optimizer")(model if user().takes_model() else parameters)
    if user().has_step():
        return returned_optimizer
    if isinstance(returned_optimizer, jt.optim.Optimizer):
        return returned_optimizer
    count = len(select_returned(returned_optimizer, jt.optim.Optimizer))
    if count > 1:
        problem = f"{count} optimizers are stepped by step(model, batch, optimizer) of the file"
    else:
        returned = describe_type(returned_optimizer)
        problem = f"optimizer(parameters) must return a jittor.optim.Optimizer, not {returned}"
    raise user().fault("optimizer", problem)


def run_step(model: Module, batch: tuple[Any, Any], optimizer: Any) -> Var:
    """Make the file's own training step, and return its loss. Raises Fault."""
    step_loss: Var = jt.array(user().make_step(model, batch, optimizer))
    return step_loss.detach()


def weights() -> dict[str, np.ndarray]:
    """Return the model's initial weights and buffers."""
    jt.sync_all(True)  # random numbers are drawn when the graph runs: it must be empty before
    return copy_weights(make_plain_model())


def batch(size: int) -> tuple[Any, Any]:
    """Return inputs and targets in NumPy arrays. Raises Fault."""
    jt.sync_all(True)
    x, y = user().make_batch(size)
    return map_tree(Var.numpy, x), map_tree(Var.numpy, y)


def facts(size: int) -> ModelFacts:
    """Return the facts of the file's model for the parent, which does not import Jittor.

    `size` is the number of samples in a batch. Raises Fault.
    """
    model = make_plain_model()
    inputs, targets = batch(size)
    trained = []
    params = []
    for name, param in model.named_parameters():
        if param.dtype.is_float():
            is_trained = not param.is_stop_grad()
            params.append((name, list(param.shape), is_trained))
            if is_trained:
                trained.append(param)
    if not trained:
        raise user().fault("model", "no weight of the model asks for a gradient")
    modules = dict(model.named_modules())
    described = user_blocks.describe_model(
        modules,
        find_blocks(model),
        inputs,
        targets,
        batch_norms=[name for name, module in modules.items() if isinstance(module, nn.BatchNorm)],
        has_convolutions=any(isinstance(module, nn.Conv) for module in modules.values()),
    )
    return {
        **described,
        "uncut": user().explain_uncut(inputs, size),
        "params": params,
        "parameters": sum(param.numel() for param in trained),
        "optimizer": name_optimizer(trained, model),
        "own_step": user().has_step(),
    }


def name_optimizer(trained: list[Var], model: Module) -> str:
    """Return the classes of the file's optimizers, or that of the default one. Raises Fault."""
    if "optimizer" not in user():
        return "SGD"
    optimizers = select_returned(optimizer(trained, model), jt.optim.Optimizer)
    names = [type(each).__name__ for each in optimizers]
    return " and ".join(names) or "of the file"


def compute_gradient(adapter: JittorAdapter) -> tuple[float, list[tuple[str, np.ndarray]]]:
    """Return the loss of the adapter's inputs, and the gradients as they enter an optimizer."""
    params = {name: p for name, p in adapter.model.named_parameters() if not p.is_stop_grad()}
    loss_var = adapter.recipe.loss(*adapter.inputs)
    grads = jt.grad(loss_var, list(params.values()))
    value = loss_var.item()
    named_grads = [(name, grad.numpy()) for name, grad in zip(params, grads)]
    return value, named_grads


# nothing is known that Jittor computes wrong, and no variable has a value while modules are called
explain_wrong_gradients = leave_operation_unknown
find_first_random = leave_operation_unknown
find_first_infinite = leave_operation_unknown
