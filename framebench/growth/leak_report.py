"""What steps leave behind, named: programs, objects and storages, with the line that made them and what holds them."""

from __future__ import annotations

import gc
import os
import re
import sys
import sysconfig
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HALF = 12  # of the steps that are watched: what the second half leaves behind is named
REGULAR = 0.75  # of these steps must have left one, else it is no growth
MOST = 8  # rows of each kind
FRAMES = 12  # of a traceback
Program = tuple[str, str]  # what was compiled: the function's name, and where it was called from
Kept = dict[str, Any]  # a row of the answer: records.growth.Kept
CONTAINERS = {dict, tuple}  # those that the collector may not know
PLAIN = {int, float, complex, str, bool, type(None), CodeType, type}  # too many, too small, or made by looking

FOREIGN = tuple(str(Path(sysconfig.get_paths()[name]).resolve()) for name in ("stdlib", "purelib", "platlib"))
THIS_FILE = Path(__file__)
WATCHERS = tuple(str(file) for file in THIS_FILE.parent.glob("*.py"))  # what looks on is no leak
ROOT = THIS_FILE.parents[2]
FRAMEBENCH = str(ROOT / "framebench")


def place(lines: Iterable[tuple[str, int]]) -> str:
    """`file:line` of the innermost call that is no library's, and no adapter's if there is another; else of the innermost."""
    file, line = max(lines, key=lambda at: _rank(at[0]), default=("", 0))  # the first of the highest rank
    return f"{_shown(file)}:{line}" if file else ""


@cache  # asked for every frame of every operator
def _rank(file: str) -> int:
    """How much a place in this file says: nothing in a library, most in neither a library nor the suite."""
    return 0 if file.startswith((*FOREIGN, "<", *WATCHERS)) else 1 if file.startswith(FRAMEBENCH) else 2


@cache
def _shown(file: str) -> str:
    return os.path.relpath(file, ROOT) if file.startswith(str(ROOT)) else file


def caller(frame: FrameType | None) -> str:
    lines: list[tuple[str, int]] = []
    while frame is not None and len(lines) < 200:
        lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return place(lines)


def leak_report(storages: Storages, step: Callable[[], None], programs: list[Program]) -> list[Kept]:
    """What there is more of after the watched steps than there was halfway: programs, objects, storages."""
    watch = Watch(storages, programs)
    for _ in range(HALF):
        step()
    watch.halfway()
    for _ in range(HALF):
        step()
    return watch.end()


class Watch:
    """Over two halves of some steps, whoever makes them."""

    def __init__(self, storages: Storages, programs: list[Program]) -> None:
        self.storages, self.programs = storages, programs
        tracemalloc.start(FRAMES)
        storages.__enter__()
        self.counted: dict[tuple[str, str, str], int] = {}

    def halfway(self) -> None:
        self.counted = {key: len(things) for key, things in there(self.programs, self.storages).items()}

    def end(self) -> list[Kept]:
        after = there(self.programs, self.storages)
        self.storages.__exit__(None, None, None)
        more = {key: things[self.counted.get(key, 0) :] for key, things in after.items()}
        after.clear()
        rows = [row(key, things, self.storages.about) for key, things in more.items() if len(things) >= REGULAR * HALF]
        return [kept for kind in ("compilation", "object", "storage") for kept in most(r for r in rows if r["kind"] == kind)]


def most(rows: Iterable[Kept]) -> list[Kept]:
    """Those with most bytes."""
    return sorted(rows, key=lambda row: (-(row["bytes_per_step"] or 0), -row["per_step"]))[:MOST]


def there(programs: list[Program], storages: Storages) -> dict[tuple[str, str, str], list[Any]]:
    """By kind, what it is and place: programs, objects, and the bytes of storages, in the order in which they were made."""
    things_by_place: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for what, where in programs:
        things_by_place["compilation", what, where].append(None)
    for thing in _recent():
        things_by_place["object", f"{_name_of(type(thing))} {_detail(thing)}".strip(), made_at(thing)].append(thing)
    for what, where, total in storages.alive():
        things_by_place["storage", what, where].append(total)
    return things_by_place


def row(key: tuple[str, str, str], things: list[Any], about: Callable[[Any], str]) -> Kept:
    (kind, what, where), total, note = key, None, ""
    if kind == "object":
        total, note = size(things), _held_by(things, about)
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


def _recent() -> list[Any]:
    """What was made since it is traced, and every tensor of PyTorch, whose traces Python 3.11 does not find, but not those that
    only a graph refers to: they became objects by being watched. Python's collector knows neither arrays of other frameworks
    nor dictionaries and tuples of them: it is asked what the others refer to."""
    gc.collect()
    tracked = gc.get_objects()
    inside = gc.get_referents(*tracked)
    untracked = [thing for thing in inside if type(thing) in CONTAINERS and not gc.is_tracked(thing)]
    met = [*tracked, *inside, *gc.get_referents(*untracked)]  # millions, and many of them often: told apart by their kinds
    kinds = set(map(type, met))
    with_storage = set(filter(has_storage, kinds))
    looked_at = kinds - with_storage - PLAIN
    made = {id(it): it for it in met if type(it) in looked_at and ours(tracemalloc.get_object_traceback(it))}
    tensors = list({id(it): it for it in met if type(it) in with_storage}.values())
    del tracked, inside, untracked, met  # they would be holders too
    return [*made.values(), *held(tensors)]


def ours(trace: tracemalloc.Traceback | None) -> bool:
    """Whether the steps made it, and not what watches them."""
    return trace is not None and trace[-1].filename not in WATCHERS


def held(tensors: list[Any]) -> list[Any]:
    """Those that an object of Python refers to, beside this list."""
    holders = [h for h in gc.get_referrers(*tensors) if h is not tensors and not isinstance(h, FrameType)]
    inside = set(map(id, gc.get_referents(*holders)))
    return [tensor for tensor in tensors if id(tensor) in inside]


def has_storage(kind: type) -> bool:
    """Whether it is a class of PyTorch's tensors."""
    return hasattr(kind, "untyped_storage")


def made_at(thing: Any) -> str:
    trace = tracemalloc.get_object_traceback(thing)
    return place((frame.filename, frame.lineno) for frame in reversed(trace)) if trace else ""


def _name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__qualname__}"


def _detail(thing: Any) -> str:
    """`float32[4, 8]` of an array."""
    if not _is_array(thing):
        return ""
    return f"{re.sub(r'^torch[.]', '', str(thing.dtype))}{list(thing.shape)}"


def _is_array(thing: Any) -> bool:
    return all(hasattr(type(thing), name) for name in ("shape", "dtype", "nbytes"))


def size(things: list[Any]) -> int | None:
    """Bytes, of arrays those of their elements; of PyTorch's tensors none, as storages have them."""
    if has_storage(type(things[0])):
        return None
    return sum(int(thing.nbytes) if _is_array(thing) else sys.getsizeof(thing) for thing in things)


def _held_by(things: list[Any], about: Callable[[Any], str]) -> str:
    """What refers to the middle one, as the last may be a step's: `held by `kept`, list of 36, in leak`; of a tensor with a
    graph also how large that is."""
    one_of_many = things[len(things) // 2]
    holders = [_container(h) for h in gc.get_referrers(one_of_many) if h is not things and not isinstance(h, FrameType)]
    holder_texts = [one for one in holders if "`" in one][:1] or holders[:1]  # one that has a name, if there is one
    return "; ".join(filter(None, [*holder_texts, about(one_of_many)]))


def _container(holder: Any) -> str:
    """Its type and length, and the name that a module or an object has for it."""
    description = _name_of(type(holder)) + (f" of {len(holder)}" if hasattr(holder, "__len__") else "")
    for names in gc.get_referrers(holder):
        if isinstance(names, dict):
            name = next((n for n, value in names.items() if value is holder), None)
            if isinstance(name, str):
                return f"held by `{name}`, {description}" + (f", in {names['__name__']}" if "__name__" in names else "")
    return f"held by {description}"


class Storages:
    """Memory of tensors that was made inside the `with` and is alive when it is asked, where a framework tells it apart from
    its tensors: nothing here, and PyTorch's storages in `torch_counters`."""

    def __enter__(self) -> Storages:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def alive(self) -> list[tuple[str, str, int]]:
        """Operator, place and bytes of each."""
        return []

    def about(self, thing: Any) -> str:
        """What else an object holds; empty if nothing is known."""
        return ""
