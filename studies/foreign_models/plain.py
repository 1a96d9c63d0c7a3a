"""What a plain loop of a file takes, as the kernel counts it:

`python plain.py FRAMEWORK FILE SCENARIO BATCH`, a fresh process.

The other instrument of `python -m studies.foreign_models`. It imports nothing of framebench, so
that nothing is shared but the user's file. It prints a line of JSON.

The process's rest is read after the whole loop was once run and thrown away: code, kernels and what
compilers keep are in memory then; weights, gradients, states and batches are not. In later steps
the kernel's high-water mark less that rest is the peak. Jittor's is counted by malloc_count.c
instead: the graph of a step is in tens of thousands of small blocks, and pages of which one is
still in use are in the rest.
"""

from __future__ import annotations

import ast
import ctypes
import gc
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

STEPS = 8  # a model that leaves layers out at random needs its most in few of them
SEED = 0
IMPORTS = ast.Import | ast.ImportFrom
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def bytes_of(field: str) -> int:
    return int(STATUS.read_text().split(field + ":")[1].split()[0]) * 1024


def own() -> int:
    """Bytes of this process alone, without the code that is mapped from files."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return bytes_of("RssAnon") + bytes_of("RssShmem")


def risen(step: Callable[[], object]) -> int:
    """Bytes by which the process rose in a step, and what it had before it."""
    before, resident = own(), bytes_of("VmRSS")
    CLEAR.write_text("5")
    step()
    return before + bytes_of("VmHWM") - resident


def counter(name: str) -> int:
    function = getattr(ctypes.CDLL(None), name)
    function.restype = ctypes.c_long
    return int(function())


def handed_out() -> int:
    """Bytes that malloc has given out."""
    gc.collect()
    return counter("counted_bytes")


def most_handed_out(step: Callable[[], object]) -> int:
    """Of a step."""
    counter("count_peak_anew")
    step()
    return counter("counted_peak")


def loaded(file: str) -> Any:
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location("mine", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(ready: Callable[[], Callable[[], object]], count: bool) -> dict[str, int]:
    """`ready` makes the model, and gives its step.

    `count`: what malloc gives out, in the place of pages.
    """
    now, highest = (handed_out, most_handed_out) if count else (own, risen)
    imported = now()
    step = ready()
    for _ in range(2):
        step()
    del step
    rest = now()
    step = ready()
    step()
    return {"peak": max(highest(step) for _ in range(STEPS)) - rest, "kept": rest - imported}


def torch_loop(mine: Any, scenario: str, size: int) -> Callable[[], Callable[[], object]]:
    import torch

    def called(model: Any, inputs: Any) -> Any:
        return (
            model(**inputs)
            if isinstance(inputs, dict)
            else model(*inputs)
            if isinstance(inputs, tuple)
            else model(inputs)
        )

    def ready() -> Callable[[], object]:
        torch.manual_seed(SEED)
        model, pair = mine.model(), mine.batch(size)
        inputs, target = (pair, None) if isinstance(pair, dict) else pair
        if scenario == "eval":
            model.eval()

            def evaluated() -> None:
                with torch.no_grad():
                    called(model, inputs)

            return evaluated
        model.train()
        weights = [p for p in model.parameters() if p.requires_grad]
        made: Any = (
            mine.optimizer(weights)
            if hasattr(mine, "optimizer")
            else torch.optim.SGD(weights, 0.01, 0.9)
        )
        optimizer = made[0] if isinstance(made, tuple) else made

        def objective() -> Any:
            """As the Trainer computes it: the output is let go before the backward pass."""
            output = called(model, inputs)
            return mine.loss(output, target) if hasattr(mine, "loss") else output.loss

        def trained() -> None:
            optimizer.zero_grad()
            objective().backward()
            optimizer.step()

        return trained

    return ready


def flax_loop(mine: Any, scenario: str, size: int) -> Callable[[], Callable[[], object]]:
    """Of a Linen module, its arrays given up to the step as Flax's own examples do."""
    import jax
    import optax

    module: Any = mine.model()
    optimizer = mine.optimizer() if hasattr(mine, "optimizer") else optax.sgd(0.01, 0.9)

    def objective(weights: Any, others: Any, x: Any, y: Any) -> Any:
        output, others = module.apply({"params": weights, **others}, x, mutable=["batch_stats"])
        return mine.loss(output, y), others

    def trained(state: Any, x: Any, y: Any) -> Any:
        weights, others, moments = state
        (loss, others), gradients = jax.value_and_grad(objective, has_aux=True)(
            weights, others, x, y
        )
        updates, moments = optimizer.update(gradients, moments, weights)
        return (optax.apply_updates(weights, updates), others, moments), loss

    compiled = jax.jit(trained, donate_argnums=0)
    forward = jax.jit(lambda variables, x: module.apply(variables, x, train=False))

    def ready() -> Callable[[], object]:
        x, y = mine.batch(size)
        variables = dict(jax.jit(module.init)(jax.random.key(SEED), x[:1]))
        if scenario == "eval":
            return lambda: forward(variables, x).block_until_ready()
        weights = variables.pop("params")
        held = [(weights, variables, optimizer.init(weights))]
        del weights

        def step() -> None:
            held[0], loss = compiled(held[0], x, y)
            jax.block_until_ready((held[0], loss))

        return step

    return ready


def jittor_loop(mine: Any, scenario: str, size: int) -> Callable[[], Callable[[], object]]:
    """Of a model whose file has an optimizer.

    Without Jittor's pool, whose blocks malloc would count whole; what is computed is wrong then,
    and takes the same memory.
    """
    import jittor as jt

    jt.flags.use_sfrl_allocator = 0

    def ready() -> Callable[[], object]:
        jt.set_global_seed(SEED)
        model, (inputs, target) = mine.model(), mine.batch(size)
        model.train() if scenario == "train" else model.eval()
        made = mine.optimizer(model.parameters()) if scenario == "train" else None

        def step() -> None:
            if made is not None:
                made.step(mine.loss(model(inputs), target))
            else:
                with jt.no_grad():
                    model(inputs).sync()
            jt.sync_all(True)

        return step

    return ready


LOOPS = {"torch": torch_loop, "jax": flax_loop, "jittor": jittor_loop}


def versions(file: str) -> dict[str, str]:
    """Of the packages that the file imports."""
    nodes = ast.walk(ast.parse(Path(file).read_text()))
    named = [
        (n.module if isinstance(n, ast.ImportFrom) else n.names[0].name)
        for n in nodes
        if isinstance(n, IMPORTS)
    ]
    every = metadata.packages_distributions()
    distributions = {every[name][0] for one in named if (name := str(one).split(".")[0]) in every}
    return {name: metadata.version(name) for name in sorted(distributions)}


def main(framework: str, file: str, scenario: str, size: str) -> None:
    if count := framework == "jittor":
        # with which Jittor's libraries would call malloc itself, and not what counts
        vars(os)["RTLD_DEEPBIND"] = 0
    mine = loaded(file)
    found = read(LOOPS[framework](mine, scenario, int(size)), count)
    print(json.dumps({**found, "packages": versions(file)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
