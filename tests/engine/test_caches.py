"""What framebench keeps for itself may be damaged: it is made again, and nothing is waited for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from framebench.engine import environments, mathematics
from framebench.engine.environments import Environment
from framebench.references import golden
from tests.records.test_strangers_folder import HOSTILE

STRATEGY = "transformer/train/fp32"


def read_warm(file: Path) -> set[str]:
    """Return the strategy, if its kernels count as compiled."""
    environment = Environment("jittor", "1.3", file.parent / "bin" / "python")
    return {STRATEGY} & set(environments.read_warm(environment))


READERS: dict[str, Callable[[Path], Collection[object]]] = {
    "outcomes in float64": mathematics.read_lines,
    "reference values": golden.read_cached,
    "compiled kernels": read_warm,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [*HOSTILE, "nothing"])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_cannot_be_read_counts_as_not_there(read, kind, tmp_path):
    file = tmp_path / environments.WARM
    if kind != "nothing":
        HOSTILE[kind](file)
    assert not read(file)
