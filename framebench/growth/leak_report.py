"""Name what steps leave behind: programs, objects and storages.

Each comes with the line that made it and with what holds it.
"""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
import tracemalloc
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, NamedTuple

from framebench.growth.additions import find_additions
from framebench.growth.progress import STEPS_PER_HALF
from framebench.suite.sequences import drop_duplicates

# A leak comes with the steps: so many of the second half's leave something behind.
FEWEST_LEFTOVERS = 0.75 * STEPS_PER_HALF
# A leak in every 6th step, or more often, leaves at least as many things behind in each half.
FEWEST_RARE_LEFTOVERS = STEPS_PER_HALF // 6
MOST_ROWS = 8  # of each kind
KINDS = ("graph", "compilation", "object", "storage")  # in the order of the report
FRAMES = 12  # of a traceback
MOST_CALLERS = 200  # that are looked through for a line of the user's
MOST_ADDITIONS = 3  # lines of a file that add to one container
CONTAINERS = {dict, tuple}  # types of containers that Python's collector may not track
# types that are left out: there are too many of them, they are small, or made by looking
PLAIN = {
    int,
    float,
    complex,
    str,
    bool,
    type(None),
    CodeType,
    type,
}

LIBRARIES = [sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")]
# as Python knows them, and without links: a virtual environment may be reached by a link
FOREIGN = (*LIBRARIES, *(str(Path(folder).resolve()) for folder in LIBRARIES))
THIS_FILE = Path(__file__)
CALLER = "step_marks.py"  # calls the script's own function: what is made below it is the script's
# what these files make while they watch is no leak
WATCHERS = tuple(str(file) for file in THIS_FILE.parent.glob("*.py") if file.name != CALLER)
GENERATED = "<string>"  # the file of code that Python's library generates
LIBRARY, SUITE, USER_CODE = 0, 1, 2  # ranks of files, by how telling a line in them is
ROOT = THIS_FILE.parents[2]
FRAMEBENCH = str(ROOT / "framebench")


class LiveStorage(NamedTuple):
    """Describe the memory of a tensor that is alive."""

    what: str
    made_at: str  # file:line, or what holds it
    bytes: int


class Source(NamedTuple):
    """Name what leaked things have in common: kind, description, and the line that made them."""

    kind: str
    what: str
    made_at: str


class GrowingName(NamedTuple):
    """Describe a variable that holds a graph of operations."""

    variable: str
    written_at: str  # file:line, where it got its last value


class StorageTracker:
    """Context that knows the memory of tensors made inside it; this base class knows none.

    `TorchStorages` and `GraphArrays` are for frameworks in which a tensor's memory is an object of
    its own.
    """

    def __enter__(self) -> StorageTracker:
        """Watch nothing."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let errors pass."""

    def list_alive(self) -> list[LiveStorage]:
        """Return the storages that are alive now, in the order in which they were made."""
        return []

    def list_graphs(self) -> dict[GrowingName, int]:
        """Return the operations in the graph that each of the user's variables holds."""
        return {}

    def find_line(self, thing: Any) -> str:
        """Return the line that made an object's memory; empty if it is not known."""
        return ""

    def describe(self, thing: Any) -> str:
        """Return what else an object keeps alive; empty if nothing is known."""
        return ""


class LeakWatch:
    """Watches two halves of some steps, whoever makes them: what the first one sets up is no leak.

    `tracker` knows the memory of tensors, and `programs` grows whenever the framework compiles.
    """

    def __init__(self, tracker: StorageTracker, programs: list[Source]) -> None:
        """Start to trace what Python and the framework allocate."""
        self.tracker = tracker
        self.programs = programs
        self.counted: Counter[Source] = Counter()  # things after the first half
        tracemalloc.start(FRAMES)
        tracker.__enter__()

    def begin_second_half(self) -> None:
        """Count what is there after the first half."""
        for source, things in group_things(self.programs, self.tracker).items():
            self.counted[source] = len(things)
        self.graphs = self.tracker.list_graphs()

    def finish(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Stop watching, and return what the steps of the second half have left behind.

        What only a few of them left behind is in the second list. Each row has the fields of
        `framebench.growth.record.Leftover`.
        """
        groups = group_things(self.programs, self.tracker)  # each a list, the oldest first
        rows = list_grown_graphs(self.graphs, self.tracker.list_graphs())
        self.tracker.__exit__(None, None, None)
        # made after the first half
        new_things = {source: things[self.counted[source] :] for source, things in groups.items()}
        groups.clear()  # its lists would be taken for holders of what is in them
        rare_rows = []
        for source, things in new_things.items():
            if len(things) >= FEWEST_LEFTOVERS:
                rows.append(make_row(source, things, self.tracker))
            elif min(self.counted[source], len(things)) >= FEWEST_RARE_LEFTOVERS:
                rare_rows.append(make_row(source, things, self.tracker))
        return select_largest(rows), select_largest(rare_rows)


def select_largest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return MOST_ROWS rows of each kind, in the order of KINDS; the most bytes come first."""
    report = []
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        # the most bytes, then the most things
        of_kind.sort(key=lambda row: (row["bytes_per_step"] or 0, row["per_step"]), reverse=True)
        report += of_kind[:MOST_ROWS]
    return report


def list_grown_graphs(
    before: dict[GrowingName, int], after: dict[GrowingName, int]
) -> list[dict[str, Any]]:
    """Return a row of the report for each variable whose graph grew with the steps.

    A running sum of losses is one: each step hangs its own graph on it.
    """
    rows = []
    for name, size in after.items():
        grown = size - before.get(name, size)
        if grown >= FEWEST_LEFTOVERS:
            row = {
                "kind": "graph",
                "what": f"graph of {size} operations",
                "made_at": name.written_at,
                "per_step": grown / STEPS_PER_HALF,
                "bytes_per_step": None,  # nodes are the framework's, and tell no size
                "note": f"hangs on {name.variable}: add a number to it, as of .item()",
            }
            rows.append(row)
    return rows


def group_things(programs: list[Source], tracker: StorageTracker) -> dict[Source, list[Any]]:
    """Return what the process made and still has, by the line or function that made it.

    The list of a source has None for a compiled program, an object itself, and the bytes of a
    storage, in the order in which they were made.
    """
    groups: dict[Source, list[Any]] = defaultdict(list)
    for program in programs:
        groups[program].append(None)
    for thing in list_recent_objects():
        what = f"{name_type(type(thing))} {describe_array(thing)}".strip()
        made_at = find_origin(thing) or tracker.find_line(thing)
        groups[Source("object", what, made_at)].append(thing)
    for storage in tracker.list_alive():
        groups[Source("storage", storage.what, storage.made_at)].append(storage.bytes)
    return groups


def make_row(source: Source, things: list[Any], tracker: StorageTracker) -> dict[str, Any]:
    """Return a row of the report on all things of one source."""
    size: int | None = None  # of programs nothing is known
    note = ""
    if source.kind == "object":
        size = measure_size(things)
        note = describe_holder(things, tracker)
    elif source.kind == "storage":
        size = sum(things)
    return {
        "kind": source.kind,
        "what": source.what,
        "made_at": source.made_at,
        "per_step": len(things) / STEPS_PER_HALF,
        "bytes_per_step": None if size is None else round(size / STEPS_PER_HALF),
        "note": note,
    }


def list_recent_objects() -> list[Any]:
    """Return the objects made since tracing began, and all tensors of PyTorch that Python holds.

    Python 3.11 has no traces of PyTorch's tensors. One that only a graph refers to became an object
    by being watched.
    """
    things = list_all_objects()
    # there are millions, and many of them several times: only their types are looked at
    types = set(map(type, things))
    tensor_types = {kind for kind in types if has_storage(kind)}
    # of a graph, which `list_graphs` measures: the count itself makes objects of its nodes
    node_types = {kind for kind in types if hasattr(kind, "next_functions")}
    traced_types = types - tensor_types - node_types - PLAIN
    recent: dict[int, Any] = {}  # by identity
    tensors: dict[int, Any] = {}
    for thing in things:
        if type(thing) in tensor_types:
            tensors[id(thing)] = thing
        elif type(thing) in traced_types and is_of_steps(thing):
            recent[id(thing)] = thing
    all_tensors = list(tensors.values())
    del things, tensors, thing  # they would be taken for holders of tensors
    return [*recent.values(), *select_held(all_tensors)]


def list_all_objects() -> list[Any]:
    """Return the objects that Python's collector reaches, many of them several times.

    The collector knows neither arrays of other frameworks nor dictionaries and tuples of them: the
    objects that refer to these are in its list.
    """
    gc.collect()
    tracked = gc.get_objects()
    referents = gc.get_referents(*tracked)
    untracked = []
    for thing in referents:
        if type(thing) in CONTAINERS and not gc.is_tracked(thing):
            untracked.append(thing)
    return [*tracked, *referents, *gc.get_referents(*untracked)]


def is_of_steps(thing: Any) -> bool:
    """Return whether the steps made this object, and not what watches them.

    A named tuple is made by code that has no file: the code that called it decides.
    """
    trace = tracemalloc.get_object_traceback(thing)
    if trace is None:
        return False
    files = [frame.filename for frame in trace if frame.filename != GENERATED]
    return not files or files[-1] not in WATCHERS


def select_held(tensors: list[Any]) -> list[Any]:
    """Return the tensors that an object of Python refers to other than this list."""
    holders = []
    for holder in gc.get_referrers(*tensors):
        if holder is not tensors and not isinstance(holder, FrameType):
            holders.append(holder)
    referents = set(map(id, gc.get_referents(*holders)))
    return [tensor for tensor in tensors if id(tensor) in referents]


def has_storage(kind: type) -> bool:
    """Return whether a type is a class of PyTorch's tensors."""
    return hasattr(kind, "untyped_storage")


def find_origin(thing: Any) -> str:
    """Return the line that made an object; empty if that was not traced."""
    trace = tracemalloc.get_object_traceback(thing)
    if trace is None:
        return ""
    return choose_line((frame.filename, frame.lineno) for frame in reversed(trace))


def find_caller(frame: FrameType) -> str:
    """Return the most telling line of this frame and of those that called it.

    `choose_line` says which that is. At most MOST_CALLERS frames are looked at.
    """
    callers = islice(walk_stack(frame), MOST_CALLERS)
    return choose_line((caller.f_code.co_filename, line) for caller, line in callers)


def choose_line(lines: Iterable[tuple[str, int]]) -> str:
    """Return `file:line` of the innermost call in the user's files.

    Without one it is in the suite, else in a library. `lines` are file and line of each call, the
    innermost first. Without any the answer is empty.
    """
    # the first of the highest rank
    file, line = max(lines, key=lambda call: rank_file(call[0]), default=("", 0))
    return f"{shorten_path(file)}:{line}" if file else ""


@cache  # called for every frame of every operator
def rank_file(file: str) -> int:
    """Return how telling a line in this file is: LIBRARY, SUITE or USER_CODE."""
    if file.startswith((*FOREIGN, "<", *WATCHERS)):
        return LIBRARY
    return SUITE if file.startswith(FRAMEBENCH) else USER_CODE


@cache
def shorten_path(file: str) -> str:
    """Return the path relative to the repository for a file inside it."""
    return os.path.relpath(file, ROOT) if file.startswith(str(ROOT)) else file


def name_type(kind: type) -> str:
    """Return `list`, or with its package `numpy.ndarray`."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    package = kind.__module__.split(".")[0]
    return f"{package}.{kind.__qualname__}"


def describe_array(thing: Any) -> str:
    """Return type and shape of an array, such as `float32[4, 8]`; empty for anything else."""
    if not has_array_class(thing):
        return ""
    dtype = str(thing.dtype).removeprefix("torch.")
    return f"{dtype}{list(thing.shape)}"


def has_array_class(thing: Any) -> bool:
    """Return whether an object is an array or a tensor of any framework.

    Only its class is looked at: to read an attribute of an object may run the user's code.
    """
    return all(hasattr(type(thing), name) for name in ("shape", "dtype", "nbytes"))


def measure_size(things: list[Any]) -> int | None:
    """Return the bytes of objects, of arrays with their elements.

    None for PyTorch's tensors, whose storages have the bytes.
    """
    if has_storage(type(things[0])):
        return None
    size = 0
    for thing in things:
        size += int(thing.nbytes) if has_array_class(thing) else sys.getsizeof(thing)
    return size


def describe_holder(things: list[Any], tracker: StorageTracker) -> str:
    """Return what refers to leaked objects, such as ``held by `outputs`, list of 36, in leak``.

    Only the object in the middle of `things` is looked at: the last may still be in use by a step.
    One of its holders is described, if possible one that has a name. What the object keeps alive
    follows, if anything is known. Returns an empty text if nothing is found.
    """
    middle = things[len(things) // 2]
    holders = []
    for holder in gc.get_referrers(middle):
        if holder is not things and not isinstance(holder, FrameType):
            holders.append(describe_container(holder))
    named = [holder for holder in holders if "`" in holder]
    texts = (named or holders)[:1]
    kept_alive = tracker.describe(middle)
    if kept_alive:
        texts.append(kept_alive)
    return "; ".join(texts)


def describe_container(holder: Any) -> str:
    """Return type and length of a holder, and the name that a module or an object has for it.

    The lines of the user's files follow that add to this name.
    """
    description = name_type(type(holder))
    if hasattr(holder, "__len__"):
        description += f" of {len(holder)}"
    if isinstance(holder, deque) and holder.maxlen:
        description += f", full at {holder.maxlen:,}"
    for names in gc.get_referrers(holder):
        if not isinstance(names, dict):
            continue
        for name, value in names.items():
            if value is holder and isinstance(name, str):
                module = f", in {names['__name__']}" if "__name__" in names else ""
                additions = describe_additions(name, names.get("__file__"))
                return f"held by `{name}`, {description}{module}{additions}"
    return f"held by {description}"


def describe_additions(name: str, file: str | None) -> str:
    """Return the lines that add to a variable: in a module's file, or in all files that run."""
    paths = [file] if file else list_running_files()
    texts = []
    for path in paths:
        if rank_file(path) != USER_CODE:
            continue
        lines = find_additions(path, name)
        if lines:
            listed = ", ".join(map(str, lines[:MOST_ADDITIONS]))
            if len(lines) > MOST_ADDITIONS:
                listed += " and more"
            texts.append(f"{shorten_path(path)}:{listed}")
    if not texts:
        return ""
    return f", added to at {' and '.join(texts)}"


def list_running_files() -> list[str]:
    """Return the files whose functions run now, each once."""
    callers = islice(walk_stack(sys._getframe(1)), MOST_CALLERS)
    return drop_duplicates(caller.f_code.co_filename for caller, _ in callers)
