"""Records as nobody should have written them, as JSON and as bytes, whatever file holds them."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st

Json = Any  # what json.loads returns
Path = tuple[str | int, ...]  # of keys and indices, from the outside in

# What a field may hold that is not what it should: other types, and what computing, printing, or
# using it as a name or a path may trip over.
ODD: list[Json] = [
    None,
    True,
    [],
    {},
    [[[[]]]],
    {"a": {"b": {}}},
    [None],
    "",
    " ",
    "0",
    "-1",
    "nan",
    "../../../x",
    "/etc/passwd",
    "a/b/c/d/b1/e",
    "\x00",
    "\x1b[2J\x1b]0;title\x07",
    "\u202e",
    "\ud800",
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "[bold]x[/]",
    "%s%n",
    "é" * 300,
    "9" * 5000,
    0,
    1,
    -1,
    2,
    10**9,
    2**53,
    2**63,
    2**70,
    10**400,
    0.5,
    -0.0,
    5e-324,
    1e-9,
    1e9,
    1e300,
    -1e308,
    "2026-02-30T00:00:00Z",
    "9998-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
]
CASES = [
    "transformer/torch/train/fp32/b9999999/cpu",
    "transformer/torch/train/nothing/b4/cpu",
    "nothing/torch/train/fp32/b4/cpu",
    "transformer/torch/eval/fp32/b4/cpu",
    "resnet50/torch/varlen/padded/b4/cpu",
    "transformer/torch/train/fp32/b0/cpu",
    "transformer/torch/train/fp32/b4x2/cpu",
    "transformer/torch/train/fp32+fp32/b4/cpu",
    "transformer/torch/train/fp32/b04/cpu",
    "transformer//train/fp32/b4/cpu",
]


# an odd value replaces another one most often
CHANGES = ("replace", "replace", "case", "remove", "repeat", "add")


KEYS = ("", "x", "\x1b[2J", "__class__")


@dataclass(frozen=True)
class Malformed:
    """What lies where a record should."""

    what: str  # is wrong with it
    content: bytes = field(repr=False)


def change_value(draw: st.DrawFn, content: dict[str, Json]) -> str:
    """Change a value in a record, and return what was changed."""
    place = draw(st.sampled_from(list_places(content)[1:]))
    key = place[-1]
    parent = look_up(content, place[:-1])
    odd = copy.deepcopy(draw(st.sampled_from(ODD)))
    change = draw(st.sampled_from(CHANGES))
    if change == "case":
        content["case"] = draw(st.sampled_from(CASES))
    elif change == "repeat" and isinstance(parent[key], list):
        parent[key] = parent[key] * draw(st.integers(0, 3))
    elif change == "add" and isinstance(parent, dict):
        parent[draw(st.sampled_from(KEYS))] = odd
    elif change == "remove" and len(content) > 1:
        del parent[key]
    else:
        parent[key] = odd
    return f"{change} {place} {str(odd)[:20]!r}"


@dataclass(frozen=True)
class Odd:
    """A record with values that it should not have."""

    what: str
    record: dict[str, Json] = field(repr=False)


def list_places(content: Json, place: Path = ()) -> list[Path]:
    """Return the places of all values in a JSON value, itself first."""
    places = [place]
    children = []
    if isinstance(content, dict):
        children = list(content.items())
    elif isinstance(content, list):
        children = list(enumerate(content))[:3]  # the others are like these
    for key, child in children:
        places += list_places(child, (*place, key))
    return places


def look_up(content: Json, place: Path) -> Json:
    """Return the value in a place."""
    for key in place:
        content = content[key]
    return content


def generate(examples: int) -> settings:
    """Return the settings of a test of so many examples.

    Examples are not shrunk, which takes minutes, and a failure shows neither the example nor how to
    draw it again: it has dozens of records, and would hide the fault in a list of failures.
    """
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        print_blob=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
    )


@st.composite
def draw_odd(draw: st.DrawFn, good: dict[str, Json]) -> Odd:
    """Draw a record in which some values of a good one are replaced, removed, repeated or added."""
    content = copy.deepcopy(good)
    count = draw(st.integers(1, 3))
    changes = [change_value(draw, content) for _ in range(count)]
    return Odd(f"{content.get('case')}: {'; '.join(changes)}", content)


@st.composite
def draw_malformed(draw: st.DrawFn, good: dict[str, Json]) -> Malformed:
    """Draw what lies where a record should: one that is odd, or bytes that are none."""
    kinds = ["record"] * 8 + ["another", "cut off", "bytes", "other text", "deep"]
    kind = draw(st.sampled_from(kinds))
    odd = draw(draw_odd(good))
    # a lone surrogate is escaped, as every writer of JSON in ASCII does
    whole = json.dumps(odd.record).encode()
    if kind == "record":
        return Malformed(odd.what, whole)
    if kind == "another":
        content = json.dumps(draw(st.sampled_from(ODD))).encode()
    elif kind == "cut off":
        content = whole[: draw(st.integers(0, len(whole) - 1))]
    elif kind == "bytes":
        content = draw(st.binary(max_size=100))
    elif kind == "deep":
        content = b'{"peaks":' * draw(st.sampled_from([100, 1000, 100_000]))
    else:
        before = draw(st.sampled_from([b"\xef\xbb\xbf", b" ", b"\t\t", b"NaN ", b"\x1f\x8b"]))
        content = before + whole
    return Malformed(kind, content)
