"""Give objects other attributes for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def replace_attributes(owner: Any, **values: Any) -> Iterator[None]:
    """Give a module, a class or an object these attributes in this context."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def freeze_statistics(norms: Sequence[Any]) -> Iterator[None]:
    """Freeze the running statistics of batch norms in this context; they still use the batch's.

    The first forward pass of a block that is computed a second time has updated them already.
    """
    with ExitStack() as stack:
        for norm in norms:
            stack.enter_context(replace_attributes(norm, momentum=0.0))
        yield
