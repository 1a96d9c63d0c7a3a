"""Batches in the forms that people have them in: walked, copied with other arrays, and cut."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from framebench.suite.trees import (
    call_with,
    can_split,
    is_list_of_samples,
    list_arrays,
    map_tree,
    split,
)

N = 8


class Graph(NamedTuple):
    nodes: np.ndarray
    senders: np.ndarray
    count: int


@dataclass(frozen=True)
class Sample:
    pixels: np.ndarray
    name: str = "photo"


class Encoding(UserDict):
    """Behaves like a dictionary but is no `dict`, as what tokenizers return."""


class GraphObject:
    """Has attributes, some of them in a dictionary, and a method `to`, as in graph libraries."""

    def __init__(self) -> None:
        self.x = np.ones((5, 2))
        self.store = {"edge_index": np.ones((2, 9), int)}
        self.same = self.x

    def to(self, device: str) -> GraphObject:
        return self


def add_one(array: np.ndarray) -> np.ndarray:
    return array + 1


@pytest.mark.parametrize(
    "tree",
    [
        Graph(np.zeros(3), np.zeros(2), 4),
        Sample(np.zeros(3)),
        Encoding(ids=np.zeros(3)),
        [np.zeros(2), {"a": (np.zeros(1), "text")}],
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_containers_keep_their_class_and_their_original_keeps_its_arrays(tree):
    mapped = map_tree(add_one, tree)
    assert type(mapped) is type(tree)
    arrays, mapped_arrays = list_arrays(tree), list_arrays(mapped)
    assert len(arrays) == len(mapped_arrays)
    assert len(mapped_arrays) > 0
    for array, mapped_array in zip(arrays, mapped_arrays):
        assert (array == 0).all()
        assert (mapped_array == 1).all()


def test_an_object_of_a_package_is_copied_with_its_arrays_mapped():
    graph = GraphObject()
    mapped = map_tree(add_one, graph)
    assert (mapped.x == 2).all()
    assert (mapped.store["edge_index"] == 2).all()
    assert mapped.same is mapped.x, "what is shared stays shared"
    assert (graph.x == 1).all()
    assert len(list_arrays(graph)) == 2


def test_a_named_tuple_is_one_argument_and_a_tuple_several():
    def count_arguments(*arguments):
        return len(arguments)

    assert call_with(count_arguments, Graph(np.zeros(3), np.zeros(2), 4)) == 1
    assert call_with(count_arguments, (1, 2)) == 2


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ([{"boxes": np.zeros((k, 4))} for k in range(N)], True),
        ([np.zeros((3, 5, 5 + k)) for k in range(N)], True),
        (["text"] * N, True),
        ([np.zeros((N, 4))] * N, False),
        ((np.zeros(N), np.zeros((N, 2))), False),
    ],
)
def test_a_list_of_samples_is_told_from_a_list_of_batches(node, expected):
    assert is_list_of_samples(node, N) == expected


def test_a_detection_batch_is_cut_between_images():
    images = np.arange(N)[:, None] * np.ones(3)
    targets = [{"boxes": np.full((k, 4), k)} for k in range(N)]  # image k has k boxes
    parts = split((images, targets), 4, N)
    boxes_of_images = []
    for part_images, part_targets in parts:
        assert len(part_images) == len(part_targets) == N // 4
        for target in part_targets:
            boxes_of_images.append(len(target["boxes"]))
    assert boxes_of_images == list(range(N))


def test_arrays_without_an_axis_of_samples_go_with_each_part():
    mask = np.ones((7, 7))
    table = np.ones((4 * N, 2))
    batch = {"x": np.zeros((N, 2)), "mask": mask, "table": table}
    parts = split(batch, 2, N)
    assert len(parts) == 2
    for part in parts:
        assert len(part["x"]) == N // 2
        assert part["mask"] is mask
        assert part["table"] is table


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (np.zeros((N, 3)), True),
        ({"x": np.zeros((N * 60, 3)), "edge_index": np.zeros((2, 9))}, False),
        (GraphObject(), False),
        (Sample(np.zeros((N, 3))), True),
    ],
)
def test_a_batch_can_be_cut_along_its_samples(inputs, expected):
    assert can_split(inputs, N) == expected
