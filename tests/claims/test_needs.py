"""Preconditions of claims: what is not met is named, and nothing else is."""

from __future__ import annotations

import pytest

from framebench.claims.needs import ANYWHERE, Conditions, Needs

CPU = Conditions("cpu", "cpu", frozenset({"avx512_bf16"}), {"jax": "0.10.2", "torch": "2.13.0"})
CARD = Conditions("full", "gpu", frozenset(), {"jax": "0.10.2"})


@pytest.mark.parametrize(
    ("needs", "here", "words"),
    [
        (ANYWHERE, CPU, ()),
        (ANYWHERE, CARD, ()),
        (Needs(size="full", device="gpu"), CARD, ()),
        (Needs(size="full", device="gpu"), CPU, ("needs a GPU", "needs size full: this is cpu")),
        (Needs(device="gpu"), CARD, ()),
        (Needs(cpu_flag="avx512_bf16"), CPU, ()),
        (Needs(cpu_flag="amx_bf16"), CPU, ("needs a processor with amx_bf16: here: avx512_bf16",)),
        (Needs(cpu_flag="amx_bf16"), Conditions(cpu_flags=None), ("needs a processor with amx_bf16: the records do not tell",)),
        (Needs(version="jax>=0.5"), CPU, ()),
        (Needs(version="jax <0.5"), CPU, ("needs jax <0.5: this is 0.10.2",)),
        (Needs(version="jittor>=1"), CPU, ("needs jittor>=1: this is unknown",)),
        (Needs(language="Julia"), CPU, ("needs Julia: this suite runs Python",)),
        (Needs(language="Python"), CPU, ()),
    ],
)
def test_unmet_preconditions_are_named(needs: Needs, here: Conditions, words: tuple[str, ...]) -> None:
    assert needs.unmet(here) == "; ".join(words)


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(workload="efficientnet"), "needs a workload efficientnet: the suite has none"),
        (Needs(workload="unet3d"), ""),
        (Needs(instrument="taste"), "needs taste: no instrument of the suite reads it"),
        (Needs(instrument="host.rss"), ""),
        (Needs(listing="torch_nothing"), "needs the listing torch_nothing: it is not kept"),
        (Needs(listing="torch_jit"), ""),
        (Needs(release="torch 1.13"), "needs torch 1.13: the suite has no environment with it"),
    ],
)
def test_what_the_suite_lacks_is_not_a_precondition(needs: Needs, words: str) -> None:
    assert (needs.lacking(), needs.unmet(CPU)) == (words, "")
