"""Workspaces of convolutions that cuDNN chose on a card, beside what its heuristics answer without
one (`torch_asked.py`).

A card's history has sizes and no names. So one step's requests, without those that are given back
at once, are aligned with the requests of the simulated step. What a card asks for right after a
convolution's result, and gives back at once, is its workspace.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from framebench.analysis.rendering import Table, format_mib
from studies.gpu_allocator.replay import DATA, FOLDER, History, read, replay

ANSWERS = "workspaces"  # beside the folder of histories, with the same names inside
SHARES = (
    "case",
    "cuDNN",
    "convolutions",
    "compared",
    "same to the byte",
    "of those with a workspace",
    "workspaces",
    "asked",
    "reserved",
    "with the answers",
    "without",
)
LAYERS = (
    "case",
    "pass",
    "input",
    "weight",
    "stride",
    "convolutions",
    "on the card",
    "asked",
    "same",
)
PASSES = {"forward": "forward", "data": "gradient of input", "filter": "gradient of weight"}


class Choice(NamedTuple):
    """One convolution of a step."""

    kind: str  # of PASSES
    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    asked: int  # bytes
    recorded: int | None  # None: its result was not found in the history

    @property
    def same(self) -> bool:
        return self.asked == self.recorded


@dataclass(frozen=True)
class Answers:
    """What `torch_asked.py` wrote.

    `requests`: bytes; `convolutions`: place of the result, kind, shapes, stride and bytes.
    """

    case: str
    device: str
    torch: str
    cudnn: str
    reserved: int  # by the simulation with these workspaces
    requests: list[int]
    convolutions: list[tuple[int, str, list[int], list[int], list[int], int]]


class OtherRelease(ValueError):
    """Answers of one release beside a history of another."""


def answered(root: Path = DATA) -> Iterator[tuple[History, Answers]]:
    """Histories whose releases were asked. Raises OtherRelease."""
    for file in sorted((root / ANSWERS).glob("*/*.json.gz")):
        told: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        yield paired(read(root / FOLDER / file.parent.name / file.name), Answers(**told))


def paired(history: History, answers: Answers) -> tuple[History, Answers]:
    ours, theirs = (answers.torch, number(answers.cudnn)), (history.torch, history.cudnn)
    if ours != theirs:
        raise OtherRelease(
            f"{answers.case}: PyTorch and cuDNN are {ours} of the answers and {theirs} of the "
            "history"
        )
    return history, answers


def number(version: str) -> int:
    """As `torch.backends.cudnn.version` prints it."""
    major, minor, patch = map(int, version.split("."))
    return 10000 * major + 100 * minor + patch


def choices(history: History, answers: Answers) -> list[Choice]:
    requests, workspaces = last_step(history)
    places: dict[int, int] = {}
    for ours, theirs, length in SequenceMatcher(
        None, answers.requests, requests, autojunk=False
    ).get_matching_blocks():
        places |= {ours + n: theirs + n for n in range(length)}
    return [
        Choice(
            kind,
            tuple(x),
            tuple(weight),
            tuple(stride),
            asked,
            workspaces[places[at]] if at in places else None,
        )
        for at, kind, x, weight, stride, asked in answers.convolutions
    ]


def last_step(history: History) -> tuple[list[int], list[int]]:
    """Bytes of each request that stays for a while; and of the largest one after it that is given
    back at once.
    """
    began, ended = (count for *_, count in history.steps[-2:])
    events = [
        event for event in history.events[began:ended] if event[0] in ("alloc", "free_requested")
    ]
    requests: list[int] = []
    passing: list[int] = []
    for (action, size, address), (then, _, of) in pairwise(events):
        if action != "alloc":
            continue
        if (then, of) != ("free_requested", address):
            requests.append(size)
            passing.append(0)
        elif passing:
            passing[-1] = max(passing[-1], size)
    return requests, passing


def tables(root: Path = DATA) -> list[Table]:
    """Of each case how many answers are the card's choices, then each convolution; none where
    nothing was asked.
    """
    found = [(history, answers, choices(history, answers)) for history, answers in answered(root)]
    if not found:
        return []
    by_case = (
        "compared: convolutions of one step whose result was found in the card's history; of those "
        "with a workspace: where the card takes one. workspaces, asked: the sum over the step, on "
        "the card and in the answers. reserved: on the card; simulated with the answers; and "
        "replayed without workspaces. Sizes in MiB."
    )
    by_layer = (
        "Bytes of each workspace. Convolutions that take none on the card and in the "
        "answer are left out."
    )
    return [
        Table.of_text(
            "cuDNN asked without a card", by_case, SHARES, [_share(*one) for one in found], left=2
        ),
        Table.of_text(
            "Workspaces, recorded and asked",
            by_layer,
            LAYERS,
            [row for one in found for row in _layers(one[0].case, one[2])],
            left=5,
        ),
    ]


def _share(history: History, answers: Answers, found: list[Choice]) -> tuple[str, ...]:
    compared = [one for one in found if one.recorded is not None]
    return (
        history.case,
        answers.cudnn,
        str(len(found)),
        str(len(compared)),
        _same(compared),
        _same([one for one in compared if one.recorded]),
        format_mib(sum(one.recorded or 0 for one in compared)),
        format_mib(sum(one.asked for one in compared)),
        format_mib(history.reserved),
        format_mib(answers.reserved),
        format_mib(replay(history, history.workspaces()).stats.reserved_peak),
    )


def _same(some: list[Choice]) -> str:
    same = sum(one.same for one in some)
    return f"{same} of {len(some)} ({same / len(some):.0%})" if some else "-"


def _layers(case: str, found: list[Choice]) -> Iterator[tuple[str, ...]]:
    """Equal ones share a row."""
    for one, count in Counter(one for one in found if one.asked or one.recorded).items():
        recorded = "not found" if one.recorded is None else f"{one.recorded:,}"
        shapes = ("x".join(map(str, sizes)) for sizes in (one.x, one.weight, one.stride))
        yield (
            case,
            PASSES[one.kind],
            *shapes,
            str(count),
            recorded,
            f"{one.asked:,}",
            "yes" if one.same else "no",
        )
