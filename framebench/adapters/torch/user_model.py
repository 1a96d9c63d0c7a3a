"""The user's file in PyTorch: `model()`, `batch(n)`, `loss(output, target)`, and if it has them `optimizer(parameters)` and
`blocks`, a class or classes of what checkpointing recomputes, or a function of the model that lists it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils._python_dispatch import _disable_current_modes

from framebench.adapters import user_blocks
from framebench.adapters.torch.observe import asks_for_closure
from framebench.adapters.torch.user_faults import explain_wrong_gradients as explain_wrong_gradients
from framebench.adapters.user_functions import UserFile, describe_type
from framebench.models.spec import OWN, workload
from framebench.suite.trees import called, leaves, mapped
from framebench.suite.user_file import DoesNotApply, Fault

KIND = user_blocks.ModuleAccess(
    modules=lambda module: [m for m in module.modules() if not isinstance(m, ParametrizationList)],
    size=lambda module: sum(p.numel() for p in module.parameters()),
    containers=(nn.Sequential, nn.ModuleList, nn.ModuleDict),
)
NORMS = nn.modules.batchnorm._BatchNorm


@cache
def user() -> UserFile:
    """Raises Fault."""
    facts: dict[str, Any] = workload(OWN).facts  # type: ignore[attr-defined]
    return UserFile(facts["file"], torch.manual_seed)


class Body(nn.Module):
    """A block as it computes. The block itself, where the model calls it, asks `remat` how to run this."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block, self.plain = block, block.forward

    def forward(self, *args: Any, **named: Any) -> Any:
        return self.plain(*args, **named)


def build(config: Any) -> nn.Module:
    """The file's model, whose blocks are run by way of `remat`. Raises Fault."""
    model: Any = plain()
    model.remat = lambda block, *args, **named: block(*args, **named)
    model.bodies = tuple(route(model, block) for block in find_blocks(model))  # which a module does not take for its own
    return model


def route(model: Any, block: nn.Module) -> Body:
    body = Body(block)
    block.forward = lambda *args, **named: model.remat(body, *args, **named)
    return body


def plain() -> nn.Module:
    model = user().make_model(nn.Module)
    if not isinstance(model, nn.Module):
        raise Fault(f"{user().locate('model')}: model() must return a torch.nn.Module, and it returned {describe_type(model)}")
    if lazy := next((name for name, p in model.named_parameters() if nn.parameter.is_lazy(p)), None):
        raise Fault(f"{user().locate('model')}: {lazy} has no shape yet: call the model once in model(), as on `batch(1)[0]`")
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, nn.Parameter) and tensor.dtype == torch.float64:
            raise Fault(
                f"{user().locate('model')}: {name} is float64, and the baseline computes in float32: return model.float()"
            )
        if isinstance(tensor, Tensor) and tensor.layout != torch.strided:
            raise Fault(
                f"{user().locate('model')}: {name} is sparse, and cannot be compared: keep it as an attribute, not as a buffer"
            )
    return model


def blocks_of(model: Any) -> list[nn.Module]:
    """The units of checkpointing."""
    return list(model.bodies)


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Raises Fault."""
    return user_blocks.find_blocks(model, user(), KIND)


def loss(output: Any, target: Any) -> Tensor:
    """Raises Fault."""
    loss_tensor: Tensor = user().compute_loss(Tensor, "a tensor", output, target)
    return loss_tensor.reshape(())


def optimizer(parameters: Iterable[nn.Parameter], **options: Any) -> torch.optim.Optimizer:
    """The file's own, with these options in place of its own. Raises Fault."""
    returned = user().get("optimizer")(list(parameters))
    if not (every := optimizers_in(returned)):
        where = user().locate("optimizer")
        raise Fault(
            f"{where}: optimizer(parameters) must return a torch.optim.Optimizer, and it returned {describe_type(returned)}"
        )
    for one in every:
        _at_full_rate(one)
    every = [_with(one, options) for one in every] if options else every
    return every[0] if len(every) == 1 else together(every)


def optimizers_in(returned: Any) -> list[torch.optim.Optimizer]:
    """Those that `optimizer` returned, each once: one, several, or beside schedules in tuples, lists and dictionaries."""
    found = list[Any]()
    mapped(found.append, returned)
    return list({id(one): one for one in found if isinstance(one, torch.optim.Optimizer)}.values())


def _with(made: torch.optim.Optimizer, options: dict[str, Any]) -> torch.optim.Optimizer:
    """The same optimizer with these options. Raises DoesNotApply."""
    groups = [{name: value for name, value in group.items() if name not in options} for group in made.param_groups]
    try:
        return type(made)(groups, **options)
    except TypeError as error:
        raise DoesNotApply(f"your optimizer, {type(made).__name__}, has no option {', '.join(options)}") from error


def together(every: list[torch.optim.Optimizer]) -> Together:
    """Raises Fault."""
    weights = [p for one in every for group in one.param_groups for p in group["params"]]
    if len({id(p) for p in weights}) < len(weights) or any(map(asks_for_closure, every)):
        where = user().locate("optimizer")
        raise Fault(f"{where}: several optimizers must share no weight, and none of them may compute the loss itself")
    return Together(every)


class Together(torch.optim.Optimizer):
    """Several optimizers, which step one after the other when the backward pass is done."""

    def __init__(self, every: list[torch.optim.Optimizer]) -> None:
        super().__init__([group for one in every for group in one.param_groups], {})
        self.every = every

    @property
    def state(self) -> defaultdict[Tensor, Any]:  # type: ignore[override]
        return defaultdict(dict, {p: state for one in self.every for p, state in one.state.items()})

    @state.setter
    def state(self, _: Any) -> None:
        """What the base class begins with is nobody's."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for one in self.every:
            one.step()


def _at_full_rate(made: torch.optim.Optimizer) -> None:
    """A schedule may begin at a rate of 0, which moves nothing: then no update could be verified."""
    for group in made.param_groups:
        if "initial_lr" in group:
            group["lr"] = full_rate(group)


def full_rate(group: dict[str, Any]) -> Any:
    """What a schedule leaves in a group: the rate that it multiplies, or that of one cycle at its height."""
    return group.get("max_lr", group["initial_lr"])


def weights() -> dict[str, np.ndarray]:
    """Weights and buffers as the model begins. NumPy has no bfloat16."""
    return {name: array(tensor) for name, tensor in state_of(plain())}


def state_of(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Its weights and buffers; packages keep descriptions beside them."""
    return [(name, tensor) for name, tensor in model.state_dict().items() if isinstance(tensor, Tensor)]


def array(tensor: Tensor) -> np.ndarray:
    wide = tensor.float() if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor
    return wide.detach().cpu().numpy()


def batch(size: int) -> tuple[Any, Any]:
    """Inputs and targets, with numbers wherever they are asked for. Raises Fault."""
    with _disable_current_modes():
        x, y = (mapped(array, tree) for tree in user().make_batch(size, Tensor, "tensor"))
    return x, y


def facts(size: int) -> dict[str, Any]:
    """What the harness must know of the model without PyTorch. Raises Fault."""
    model, (inputs, y) = plain(), user().make_batch(size, Tensor, "tensor")
    x = next(leaves(inputs))
    names_of_all = dict(model.named_parameters(remove_duplicate=False))
    trained = {name for name, p in names_of_all.items() if p.requires_grad}
    floats = [(name, list(t.shape), name in trained) for name, t in state_of(model) if t.is_floating_point() or t.is_complex()]
    if not trained:
        raise Fault(f"{user().locate('model')}: no weight of the model asks for a gradient")
    block_modules = find_blocks(model)
    names = {module: name for name, module in model.named_modules()}
    return {
        "params": floats,
        "tied": sorted(names_of_all.keys() - dict(model.named_parameters()).keys()),
        "parameters": sum(p.numel() for p in model.parameters()),
        "blocks": [names[block] for block in block_modules],
        "block": ", ".join(sorted({type(block).__name__ for block in block_modules})),
        "couples": [name for name, m in model.named_modules() if isinstance(m, NORMS)][:1],
        "images": x.ndim == 4 and any(isinstance(m, nn.Conv2d) for m in model.modules()),
        "input": list(x.shape),
        "target": next((list(t.shape) for t in leaves(y)), []),
        **_of_optimizer(model),
        "complex": [name for name, p in model.named_parameters() if p.is_complex()][:1],
        "compiled": any(hasattr(m, "_orig_mod") or m._compiled_call_impl is not None for m in model.modules()),
        "sparse": [name for name, m in model.named_modules() if getattr(m, "sparse", False) is True][:1],
    }


def _of_optimizer(model: nn.Module) -> dict[str, Any]:
    if "optimizer" not in user():
        return {"optimizer": "SGD"}
    made = optimizer(model.parameters())
    rates = {full_rate(group) for group in made.param_groups if "initial_lr" in group}
    at = f" at its full rate of {', '.join(map(str, sorted(rates)))}, without its schedule" if rates else ""
    every = getattr(made, "every", [made])
    names = " and ".join(type(one).__name__ for one in every) + ", which step together" * (len(every) > 1)
    return {"optimizer": names + at, "closure": asks_for_closure(made)}


def gradient_of(adapter: Any) -> tuple[float, list[tuple[str, np.ndarray]]]:
    """The loss of the adapter's inputs, and the gradients as the backward pass leaves them."""
    adapter.seed()
    loss_value = adapter.backward_pass().item()
    given = [(name, p.grad) for name, p in adapter.model.named_parameters() if p.grad is not None]
    return loss_value, [(name, array(grad.to_dense() if grad.is_sparse else grad)) for name, grad in given]


def changed_by_blocks(adapter: Any) -> bool:
    """Whether the forward pass of a block changes a buffer in it. Batch norm's statistics change once, recomputed or not."""
    seen = dict[nn.Module, list[Tensor]]()
    changed = list[bool]()

    def buffers(block: nn.Module) -> list[Tensor]:
        return [b.clone() for m in block.modules() if not isinstance(m, NORMS) for b in m.buffers(recurse=False)]

    def after(block: nn.Module, *_: Any) -> None:
        changed.append(any(not torch.equal(a, b) for a, b in zip(seen[block], buffers(block))))

    handles = [b.register_forward_pre_hook(lambda b, *_: seen.update({b: buffers(b)})) for b in adapter.blocks()]
    handles += [block.register_forward_hook(after) for block in adapter.blocks()]
    gradient_of(adapter)
    for handle in handles:
        handle.remove()
    return any(changed)


def watched(model: nn.Module, run: Callable[[], object]) -> list[tuple[str, Tensor]]:
    """The first tensor that each module without modules in it returned, in order."""
    outputs: list[tuple[str, Tensor]] = []

    def seen(name: str) -> Callable[[Any, Any, Any], None]:
        return lambda module, args, output: outputs.extend((name, t.detach().clone()) for t in [*leaves(output)][:1])

    named = [(f"{name} ({type(m).__name__})", m) for name, m in model.named_modules() if not [*m.children()]]
    handles = [module.register_forward_hook(seen(name)) for name, module in named]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def first_random(adapter: Any) -> str:
    """The first module that gives another output when all is done once more; empty if there is none."""
    model, (x, _) = adapter.model, adapter.inputs
    with torch.no_grad():
        pairs = zip(*(watched(model, lambda: called(model, x)) for _ in range(2)))
    return next((f"first in the output of {name}" for (name, a), (_, b) in pairs if not torch.equal(a, b)), "")


def first_infinite(adapter: Any) -> str:
    """The first module that gives infinity, or what is no number; empty if there is none."""
    model, (x, _) = adapter.model, adapter.inputs
    with torch.no_grad():
        outputs = watched(model, lambda: called(model, x))
    return next((f"first in the output of {name}" for name, a in outputs if not a.isfinite().all()), "")
