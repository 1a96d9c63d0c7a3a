"""The user's file in Jittor: `model()`, `batch(n)`, `loss(output, target)`, and if it has them `optimizer(parameters)` and
`blocks`, a class or classes of what checkpointing recomputes, or a function of the model that lists it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters import user_blocks
from framebench.adapters.user_functions import UserFile, describe_type
from framebench.models.spec import OWN, workload
from framebench.suite.trees import leaves, mapped
from framebench.suite.user_file import Fault

KIND = user_blocks.ModuleAccess(
    modules=lambda module: module.modules(),
    size=lambda module: sum(p.numel() for p in module.parameters()),
    containers=(nn.Sequential, nn.ModuleList),
)


@cache
def user() -> UserFile:
    """Raises Fault."""
    facts: dict[str, Any] = workload(OWN).facts  # type: ignore[attr-defined]
    return UserFile(facts["file"], jt.set_global_seed)


class Body(Module):
    """A block as it computes. The block itself, where the model calls it, asks `remat` how to run this."""

    def __init__(self, block: Module) -> None:
        self.block, self.plain = block, block.execute

    def execute(self, *args: Any, **named: Any) -> Any:
        return self.plain(*args, **named)


def build(config: Any) -> Module:
    """The file's model, whose blocks are run by way of `remat`. Raises Fault."""
    model = plain()
    model.remat = lambda block, *args, **named: block(*args, **named)
    model.bodies = tuple(route(model, block) for block in find_blocks(model))  # which a module does not take for its own
    return model


def route(model: Module, block: Module) -> Body:
    body = Body(block)
    block.execute = lambda *args, **named: model.remat(body, *args, **named)
    return body


def plain() -> Module:
    model = user().make_model(Module)
    if not isinstance(model, Module):
        raise Fault(f"{user().locate('model')}: model() must return a jittor.Module, and it returned {describe_type(model)}")
    return model.train()  # Jittor's dropout begins in evaluation mode


def blocks_of(model: Module) -> list[Module]:
    """The units of checkpointing."""
    return list(model.bodies)


def find_blocks(model: Module) -> list[Module]:
    """Raises Fault."""
    return user_blocks.find_blocks(model, user(), KIND)


def loss(output: Any, target: Any) -> Var:
    """Raises Fault."""
    return user().compute_loss(Var, "a Var", output, target).reshape((1,))


def optimizer(parameters: list[Var]) -> jt.optim.Optimizer:
    """The file's own. Raises Fault."""
    made, where = user().get("optimizer")(parameters), user().locate("optimizer")
    if not isinstance(made, jt.optim.Optimizer):
        raise Fault(
            f"{where}: optimizer(parameters) must return a jittor.optim.Optimizer, and it returned {describe_type(made)}"
        )
    if [id(p) for group in made.param_groups for p in group["params"]] != [id(p) for p in parameters]:
        raise Fault(f"{where}: the optimizer must have all parameters, in the order in which it was given them")
    if len(made.param_groups) > 1:
        raise Fault(f"{where}: an optimizer with several groups of parameters is not supported in Jittor")
    return made


def weights() -> dict[str, np.ndarray]:
    """Weights and buffers as the model begins. Random numbers are drawn when the graph runs: nothing else may be in it."""
    jt.sync_all(True)
    return {name: p.numpy().copy() for name, p in plain().named_parameters()}


def batch(size: int) -> tuple[Any, Any]:
    """Inputs and targets. Raises Fault."""
    jt.sync_all(True)
    x, y = (mapped(lambda var: var.numpy(), tree) for tree in user().make_batch(size, Var, "Var"))
    return x, y


def facts(size: int) -> dict[str, Any]:
    """What the harness must know of the model without Jittor. Raises Fault."""
    model, (inputs, y) = plain(), batch(size)
    x = next(leaves(inputs))
    every = [(name, p) for name, p in model.named_parameters() if p.dtype.is_float()]
    trained = [p for _, p in every if not p.is_stop_grad()]
    if not trained:
        raise Fault(f"{user().locate('model')}: no weight of the model asks for a gradient")
    block_modules = find_blocks(model)
    names = {id(module): name for name, module in model.named_modules()}
    return {
        "params": [(name, list(p.shape), not p.is_stop_grad()) for name, p in every],
        "parameters": sum(p.numel() for p in trained),
        "blocks": [names[id(block)] for block in block_modules],
        "block": ", ".join(sorted({type(block).__name__ for block in block_modules})),
        "couples": [name for name, m in model.named_modules() if isinstance(m, nn.BatchNorm)][:1],
        "images": x.ndim == 4 and any(isinstance(m, nn.Conv) for m in model.modules()),
        "input": list(x.shape),
        "target": next((list(array.shape) for array in leaves(y)), []),
        "optimizer": type(optimizer(trained)).__name__ if "optimizer" in user() else "SGD",
    }


def gradient_of(adapter: Any) -> tuple[float, list[tuple[str, np.ndarray]]]:
    """The loss of the adapter's inputs, and the gradients as no optimizer has had them."""
    weights = [(name, p) for name, p in adapter.model.named_parameters() if not p.is_stop_grad()]
    loss_var = adapter.recipe.loss(*adapter.inputs)
    found = jt.grad(loss_var, [p for _, p in weights])
    return loss_var.item(), [(name, gradient.numpy()) for (name, _), gradient in zip(weights, found)]


def explain_wrong_gradients(adapter: Any, wrong: list[str]) -> str | None:
    """Of Jittor nothing is known that it computes wrong."""
    return None


def first_random(adapter: Any) -> str:
    """Nothing has a value yet while the modules are called."""
    return ""


def first_infinite(adapter: Any) -> str:
    return ""
