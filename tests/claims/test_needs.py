"""Preconditions of claims: what is not met is named, and nothing else is."""

from __future__ import annotations

import pytest

from framebench.claims.needs import Conditions, Needs

CPU = Conditions("cpu", "cpu", frozenset({"avx512_bf16"}))
GPU = Conditions("full", "gpu")


@pytest.mark.parametrize(
    ("needs", "here", "words"),
    [
        (Needs(), CPU, ()),
        (Needs(), GPU, ()),
        (Needs(size="full", device="gpu"), GPU, ()),
        (Needs(size="full", device="gpu"), CPU, ("needs a GPU", "needs size full: this is cpu")),
        (Needs(device="gpu"), GPU, ()),
        (Needs(cpu_flag="avx512_bf16"), CPU, ()),
        (Needs(cpu_flag="amx_bf16"), CPU, ("needs a processor with amx_bf16: here: avx512_bf16",)),
        (
            Needs(cpu_flag="amx_bf16"),
            Conditions(cpu_flags=None),
            ("needs a processor with amx_bf16: the records do not tell",),
        ),
        (Needs(language="Julia"), CPU, ("needs Julia: this suite runs Python",)),
        (Needs(language="Python"), CPU, ()),
    ],
)
def test_unmet_preconditions_are_named(
    needs: Needs, here: Conditions, words: tuple[str, ...]
) -> None:
    assert needs.describe_unmet(here) == "; ".join(words)
