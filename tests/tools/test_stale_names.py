"""Names that the package no longer has are found without running the tests that use them."""

import ast

import pytest

from tools.stale_names import find_stale_names


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("from framebench.cli import gone", "framebench.cli has no gone"),
        ("from framebench.nowhere import x", "no module framebench.nowhere"),
        ("import framebench.nowhere", "no module framebench.nowhere"),
        (
            "from framebench.records import store\nstore.gone()",
            "framebench.records.store has no gone",
        ),
        (
            "from framebench.records import store\nmonkeypatch.setattr(store, 'gone', 1)",
            "framebench.records.store has no gone",
        ),
        (
            "monkeypatch.setattr('framebench.records.store.gone', 1)",
            "framebench.records.store has no gone",
        ),
    ],
)
def test_a_name_that_is_gone_is_found(source, fault):
    assert [message for _, message in find_stale_names(ast.parse(source))] == [fault]


@pytest.mark.parametrize(
    "source",
    [
        "from framebench.records import store\nstore.__name__",
        "from framebench.records import store\ndef f(store): store.anything()",
        "import numpy\nnumpy.gone",
        "from framebench import load",
    ],
)
def test_names_that_exist_or_are_not_ours_pass(source):
    assert list(find_stale_names(ast.parse(source))) == []
