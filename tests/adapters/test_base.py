"""What all adapters share, without a framework."""

from __future__ import annotations

import pytest

from framebench.adapters.base import Adapter
from framebench.models.spec import Workload
from framebench.suite.case import Case

CASE = Case("transformer", "torch", "train", "fp32", 4, "tiny")


def test_a_row_whose_function_is_missing_says_where_to_add_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Workload, "import_model", lambda workload, framework: None)

    class Bare(Adapter):
        """With no method of its own."""

    Bare.__abstractmethods__ = frozenset()
    with pytest.raises(LookupError, match=r"'fp32', and no function in framebench/adapters/torch"):
        Bare(CASE, {}).build()  # type: ignore[abstract]
