"""Duplicates are dropped, and items grouped, without changing their order."""

from __future__ import annotations

from framebench.suite.sequences import drop_duplicates, group_by


def test_the_first_of_equal_items_stays_in_its_place():
    assert drop_duplicates(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]


def test_items_of_one_key_that_are_not_adjacent_are_in_one_group():
    groups = group_by(["bus", "ant", "bee", "ape"], key=lambda word: word[0])

    assert list(groups.items()) == [("b", ["bus", "bee"]), ("a", ["ant", "ape"])]
