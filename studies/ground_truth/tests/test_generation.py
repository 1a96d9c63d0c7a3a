"""The table of what a cache of keys and values takes."""

from __future__ import annotations

from dataclasses import replace

from framebench.suite.case import Case
from framebench.suite.result import StrategyEffect
from framebench.suite.selectors import parse
from studies.ground_truth.generation import bytes_of_a_token, comparison
from tests.fake_records import RIGHT, record

CASE = parse("transformer/torch/generate/static_cache/b4/cpu")


def test_bytes_of_a_token_are_those_of_the_arrays() -> None:
    """GPT-2's smallest: 12 layers of width 768, 72 KiB a token in float32."""
    assert bytes_of_a_token(replace(CASE, size="full")) == 72 * 1024


def made(case: Case, size: int) -> list[list[str]]:
    evidence = StrategyEffect(proven=True, evidence={"cache_bytes": size})
    found = record(
        case, peaks={"host.rss": 3 << 20}, step_s=[1.0], **(RIGHT | {"effect": evidence})
    )
    return [list(row) for row in comparison([found]).rows]


def test_a_row_divides_by_batch_and_length() -> None:
    assert made(CASE, 4 * 256 * bytes_of_a_token(CASE)) == [
        ["m", CASE.id, "16.0", "16,384", "16,384", "3.0", "host.rss"],
    ]
    assert made(parse("transformer/torch/eval/no_grad/b4/cpu"), 1) == []
