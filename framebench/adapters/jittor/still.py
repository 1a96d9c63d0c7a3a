"""A step of Jittor's without chance: dropout does nothing, and what is drawn otherwise is what it is on average.

Everything that Jittor draws comes by way of `jt.random`. Kernels draw in the order in which operators are fused, so that two
strategies would not draw the same numbers from the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import jittor as jt
from jittor import Var, nn

DROPS = (nn.Dropout, nn.Dropout2d, nn.DropPath)
AVERAGE = {"uniform": 0.5, "normal": 0.0}


@contextmanager
def still() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(jt, "random", average))
        for drop in DROPS:
            stack.enter_context(mock.patch.object(drop, "execute", lambda self, x: x))
        yield


def average(shape: Any, dtype: str = "float32", type: str = "uniform") -> Var:
    return jt.full(shape, AVERAGE[type], dtype)


def draws(step: Callable[[], object]) -> bool:
    """Whether random numbers are drawn in a step."""
    with mock.patch.object(jt, "random", wraps=jt.random) as random:
        step()
    return bool(random.called)
