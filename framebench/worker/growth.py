"""Does memory grow from step to step, and what grows? `python -m framebench.worker.growth CASE STEPS [FILE]`. Linux.

FILE has a function `step(adapter)`, which is called in place of the case's own step. First each step is followed by readings of
every meter, with nothing else in the process; then some more steps are watched, which names what they leave behind. Prints one
JSON object; `records.growth.Growth` says what is in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import re
import sys
import sysconfig
import tracemalloc
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from framebench import adapters
from framebench.adapters.base import Adapter
from framebench.instruments.host import status_bytes
from framebench.suite.hypothetical import named
from framebench.worker.worker import own_stdout

WARM_UP = 20  # steps before the first reading: compilers, pools and caches settle
HALF = 12  # of the steps that are watched: what the second half leaves behind is named
REGULAR = 0.75  # of these steps must have left one, else it is no growth
MOST = 8  # rows of each kind
FRAMES = 12  # of a traceback
Meter = Callable[[], int]
Kept = dict[str, Any]  # a row of the answer: records.growth.Kept
PLAIN = (int, float, complex, str, bool, type(None), CodeType, type)  # too many, too small, or made by looking


class Fault(Exception):
    """The user's file is at fault; the message says where."""


class Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2 (mallinfo(3))."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
    ]


def malloc_meter() -> Meter | None:
    """Bytes that malloc has given out and not taken back, in the whole process; None without glibc 2.33 or later."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        return None
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Mallinfo

    def read() -> int:
        found = ask()
        return int(found.uordblks + found.hblkhd)

    return read


def private() -> int:
    """Bytes of memory that is resident and no file's, once malloc has returned what it can: RssAnon of proc(5)."""
    ctypes.CDLL(None).malloc_trim(0)
    return status_bytes("RssAnon")


def bytes_meters(adapter: Adapter) -> dict[str, Meter]:
    """By instrument. Of PyTorch's tensors only a GPU's allocator keeps count; on the CPU they are malloc's."""
    found: dict[str, Meter | None] = {
        "allocator.live": adapter.live_bytes,
        "host.malloc": malloc_meter(),
        "host.private": private,
    }
    if adapter.case.framework == "torch":
        statistics: Callable[[], dict[str, int]] = adapter.statistics  # type: ignore[attr-defined]
        found["allocator.live"] = (lambda: statistics()["allocated_bytes.all.current"]) if statistics() else None
    return {name: meter for name, meter in found.items() if meter}


def counters(adapter: Adapter, programs: list[tuple[str, str]]) -> dict[str, Meter]:
    """What else can pile up, by name."""
    framework = importlib.import_module(adapter.case.framework)
    found: dict[str, Meter] = {}
    if adapter.case.framework == "jax":
        found |= {"arrays": lambda: len(framework.live_arrays()), "compiled programs": lambda: len(programs)}
    if adapter.case.framework == "jittor":
        found |= {"variables": framework.number_of_lived_vars, "operations": framework.number_of_lived_ops}
    if adapter.case.framework == "torch" and any(part.how == "compile" for part in adapter.case.parts):
        counted = importlib.import_module("torch._dynamo.utils").counters
        found["compiled programs"] = lambda: int(counted["stats"]["unique_graphs"])
    return found


def watch_compilations(framework: str) -> list[tuple[str, str]]:
    """Grows by the function's name and where it was called from, whenever JAX compiles."""
    found: list[tuple[str, str]] = []

    def listen(event: str, seconds: float, **more: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            found.append((str(more.get("fun_name", "")), caller(sys._getframe(1))))

    if framework == "jax":
        importlib.import_module("jax.monitoring").register_event_duration_secs_listener(listen)
    return found


FOREIGN = tuple(str(Path(sysconfig.get_paths()[name]).resolve()) for name in ("stdlib", "purelib", "platlib"))
SELF = str(Path(__file__).resolve())
ROOT = Path(SELF).parents[2]
FRAMEBENCH = str(ROOT / "framebench")


def place(lines: Iterable[tuple[str, int]]) -> str:
    """`file:line` of the innermost call that is no library's, and no adapter's if there is another; else of the innermost."""
    every = list(lines)
    own = [at for at in every if not at[0].startswith((*FOREIGN, "<", SELF))]
    named = next((at for at in own if not at[0].startswith(FRAMEBENCH)), own[0] if own else every[0] if every else None)
    if named is None:
        return ""
    file, line = named
    return f"{os.path.relpath(file, ROOT) if file.startswith(str(ROOT)) else file}:{line}"


def caller(frame: FrameType | None) -> str:
    found: list[tuple[str, int]] = []
    while frame is not None and len(found) < 200:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return place(found)


def whole_step(adapter: Adapter) -> None:
    """After which everything that was asked for is done."""
    adapter.step()
    adapter.synchronize()


def called(function: Callable[[Adapter], object], adapter: Adapter, file: str) -> None:
    """The file's step, which waits for what it likes. Raises Fault."""
    try:
        function(adapter)
    except Exception as error:
        raise Fault(blamed(error, file)) from error


def loaded(file: str) -> Callable[[Adapter], object]:
    """The function `step` of a Python file. Raises Fault."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Fault(blamed(error, file)) from error
    if not callable(step := getattr(module, "step", None)):
        raise Fault(f"{file} has no function `step(adapter)`, which is called in place of the case's step")
    return step


def blamed(error: Exception, file: str) -> str:
    """Where in the file it happened, and what."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return f"{file}:{line}: {type(error).__name__}: {str(error)[:500]}"


def read(step: Callable[[], None], meters: dict[str, Meter], steps: int) -> dict[str, list[int]]:
    """What each meter says after each step. Garbage in cycles is no growth, unless the strategy keeps the collector off."""
    found = {name: np.zeros(steps, np.int64) for name in meters}
    gc.freeze()  # what is there already is not looked through after every step
    for i in range(steps):
        step()
        if gc.isenabled():
            gc.collect()
        for name, meter in meters.items():
            found[name][i] = meter()
    gc.unfreeze()
    return {name: line.tolist() for name, line in found.items()}


def leavings(adapter: Adapter, step: Callable[[], None], programs: list[tuple[str, str]]) -> list[Kept]:
    """What there is more of after the watched steps than there was halfway: programs, objects, storages."""
    tracemalloc.start(FRAMES)
    with Storages(adapter) as storages:
        for _ in range(HALF):
            step()
        halfway = {key: len(things) for key, things in there(programs, storages).items()}
        for _ in range(HALF):
            step()
        after = there(programs, storages)
    more = {key: things[halfway.get(key, 0) :] for key, things in after.items()}
    after.clear()
    rows = [row(key, things) for key, things in more.items() if len(things) >= REGULAR * HALF]
    return [kept for kind in ("compilation", "object", "storage") for kept in most(r for r in rows if r["kind"] == kind)]


def most(rows: Iterable[Kept]) -> list[Kept]:
    """Those with most bytes."""
    return sorted(rows, key=lambda row: (-(row["bytes_per_step"] or 0), -row["per_step"]))[:MOST]


def there(programs: list[tuple[str, str]], storages: Storages) -> dict[tuple[str, str, str], list[Any]]:
    """By kind, what it is and place: programs, objects, and the bytes of storages, in the order in which they were made."""
    found: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for what, where in programs:
        found["compilation", what, where].append(None)
    for thing in recent():
        found["object", f"{name_of(type(thing))} {detail(thing)}".strip(), made_at(thing)].append(thing)
    for what, where, total in storages.alive():
        found["storage", what, where].append(total)
    return found


def row(key: tuple[str, str, str], things: list[Any]) -> Kept:
    (kind, what, where), total, note = key, None, ""
    if kind == "object":
        total, note = size(things), held_by(things)
    elif kind == "storage":
        total = sum(things)
    per_step = None if total is None else round(total / HALF)
    return {
        "kind": kind,
        "what": what,
        "made_at": where,
        "per_step": len(things) / HALF,
        "bytes_per_step": per_step,
        "note": note,
    }


def recent() -> list[Any]:
    """What was made since it is traced, and every tensor of PyTorch, whose traces Python 3.11 does not find, but not those that
    only a graph refers to: they became objects by being watched. Python's collector knows neither arrays of other frameworks
    nor dictionaries and tuples of them: it is asked what the others refer to."""
    gc.collect()
    tracked = gc.get_objects()
    inside = gc.get_referents(*tracked)
    untracked = [thing for thing in inside if type(thing) in (dict, tuple) and not gc.is_tracked(thing)]
    found, tensors = {}, []
    for thing in chain(tracked, inside, gc.get_referents(*untracked)):
        if has_storage(type(thing)):
            tensors.append(thing)
        elif type(thing) not in PLAIN and ours(tracemalloc.get_object_traceback(thing)):
            found[id(thing)] = thing
    alone = list({id(tensor): tensor for tensor in tensors}.values())
    del tracked, inside, untracked, tensors  # they would be holders too
    return [*found.values(), *held(alone)]


def ours(trace: tracemalloc.Traceback | None) -> bool:
    """Whether the steps made it, and not what watches them."""
    return trace is not None and trace[-1].filename != SELF


def held(tensors: list[Any]) -> list[Any]:
    """Those that an object of Python refers to, beside this list."""
    holders = [h for h in gc.get_referrers(*tensors) if h is not tensors and not isinstance(h, FrameType)]
    inside = set(map(id, gc.get_referents(*holders)))
    return [tensor for tensor in tensors if id(tensor) in inside]


def has_storage(kind: type, known: dict[type, bool] = {}) -> bool:  # noqa: B006  # asked a million times
    """Whether it is a class of PyTorch's tensors."""
    if kind not in known:
        known[kind] = hasattr(kind, "untyped_storage")
    return known[kind]


def made_at(thing: Any) -> str:
    trace = tracemalloc.get_object_traceback(thing)
    return place((frame.filename, frame.lineno) for frame in reversed(trace)) if trace else ""


def name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__qualname__}"


def detail(thing: Any) -> str:
    """`float32[4, 8]` of an array."""
    if not is_array(thing):
        return ""
    return f"{re.sub(r'^torch[.]', '', str(thing.dtype))}{list(thing.shape)}"


def is_array(thing: Any) -> bool:
    return all(hasattr(type(thing), name) for name in ("shape", "dtype", "nbytes"))


def size(things: list[Any]) -> int | None:
    """Bytes, of arrays those of their elements; of PyTorch's tensors none, as storages have them."""
    if has_storage(type(things[0])):
        return None
    return sum(int(thing.nbytes) if is_array(thing) else sys.getsizeof(thing) for thing in things)


def held_by(things: list[Any]) -> str:
    """What refers to the last one: `held by `kept`, list of 36, in leak`; of a tensor with a graph also how large that is."""
    last = things[-1]
    holder = next((h for h in gc.get_referrers(last) if h is not things and not isinstance(h, FrameType)), None)
    said = [] if holder is None else [container(holder)]
    if getattr(last, "grad_fn", None) is not None:
        nodes = importlib.import_module("framebench.adapters.torch.observe").graph_nodes(last)
        said.append(f"with a graph of {nodes} operations")
    return "; ".join(said)


def container(holder: Any) -> str:
    """Its type and length, and the name that a module or an object has for it."""
    said = name_of(type(holder)) + (f" of {len(holder)}" if hasattr(holder, "__len__") else "")
    for names in gc.get_referrers(holder):
        if isinstance(names, dict):
            name = next((n for n, value in names.items() if value is holder), None)
            if isinstance(name, str):
                return f"held by `{name}`, {said}" + (f", in {names['__name__']}" if "__name__" in names else "")
    return f"held by {said}"


class Storages:
    """PyTorch's storages that were made inside the `with` and are alive when it is asked; nothing in other frameworks."""

    def __init__(self, adapter: Adapter) -> None:
        self.made: dict[int, tuple[weakref.ref[Any], str, str, int]] = {}  # itself, operator, place, bytes; by address
        self.mode: Any = contextlib.nullcontext()
        if adapter.case.framework == "torch":
            self.mode = self.births(importlib.import_module("torch"))

    def births(self, torch: Any) -> Any:
        """A mode that notes every storage when an operator first returns it."""
        made, leaves = self.made, importlib.import_module("torch.utils._pytree").tree_leaves
        before = {t.untyped_storage()._cdata for t in gc.get_objects() if has_storage(type(t))}

        class Births(importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                for tensor in leaves(out):
                    if isinstance(tensor, torch.Tensor):
                        born(tensor.untyped_storage(), func._schema.name.removeprefix("aten::"))
                return out

        def born(storage: Any, operator: str) -> None:
            known = made.get(key := storage._cdata)
            if key not in before and (known is None or known[0]() is None):
                made[key] = weakref.ref(storage), operator, caller(sys._getframe(2)), storage.nbytes()

        return Births()

    def __enter__(self) -> Storages:
        self.mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.mode.__exit__(*error)

    def alive(self) -> list[tuple[str, str, int]]:
        """Operator, place and bytes of each."""
        return [(what, where, total) for storage, what, where, total in self.made.values() if storage() is not None]


def growth(case_id: str, steps: int, file: str | None) -> dict[str, Any]:
    """Raises Fault."""
    function = loaded(file) if file else None
    case = named(case_id)
    adapter = adapters.load(case)
    programs = watch_compilations(case.framework)
    adapter.build()
    adapter.synchronize()
    step = partial(called, function, adapter, file) if function and file else partial(whole_step, adapter)
    for _ in range(WARM_UP):
        step()
    meters, counted = bytes_meters(adapter), counters(adapter, programs)
    found = read(step, meters | counted, steps)
    answer: dict[str, Any] = {
        "case": case.id,
        "file": file,
        "warm_up": WARM_UP,
        "bytes": {name: found[name] for name in meters},
        "counts": {name: found[name] for name in counted},
        "watched": HALF,
        "kept": leavings(adapter, step, programs),
    }
    return answer | {"versions": adapter.versions(), "device": adapter.device()}


if __name__ == "__main__":
    out = own_stdout()
    try:
        said = growth(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
    except Fault as fault:
        said = {"fault": str(fault)}
    print(json.dumps(said), file=out)
    out.flush()
    os._exit(0)
