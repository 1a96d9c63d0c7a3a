"""The parts of an adapter that strategies set, and a ledger of who has set which.

A framework's parts are dataclasses of `Parts`. While a strategy's switch runs, or a hook that it
left (`Hooks`), setting a part makes it that strategy's own. Another strategy that sets it raises
IncompatibleStrategies. To build on what is there, a switch calls `wrap`: its function gets the part
as it is once all switches have run, so no order of strategies loses a wrapper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Self

from framebench.strategies.strategy import IncompatibleStrategies

P = ParamSpec("P")


class Ledger:
    """Which strategies have set, wrapped or claimed which part.

    While no strategy acts, as in a proof or a test, everything may be set.
    """

    def __init__(self) -> None:
        self.acting = ""  # the strategy whose switch or hook runs
        self.setters: defaultdict[str, list[str]] = defaultdict(list)
        self.wrappers: defaultdict[str, list[str]] = defaultdict(list)
        self.claims: defaultdict[str, list[str]] = defaultdict(list)
        # wrappers that wait until all switches have run; None from then on
        self.pending: list[Callable[[], None]] | None = []

    @contextmanager
    def acting_as(self, strategy: str) -> Iterator[None]:
        """Record the parts that are set in this context as changed by a strategy."""
        before = self.acting
        self.acting = strategy
        try:
            yield
        finally:
            self.acting = before

    def set(self, part: str, is_same: bool = False) -> None:
        """Enter that the acting strategy sets a part. Raises IncompatibleStrategies.

        `is_same`: the part is set to the very object that is there, which is no conflict.
        """
        if not self.acting:
            return
        if not is_same:
            self.refuse_others(part, self.setters[part])
            if self.pending is None:  # a wrapper that is already put on would be lost
                self.refuse_others(part, self.wrappers[part])
            self.refuse_others(part, self.claims[part])
        self.setters[part].append(self.acting)

    def claim(self, part: str) -> None:
        """Enter that a part is for the acting strategy alone. Raises IncompatibleStrategies."""
        self.refuse_others(part, self.setters[part])
        self.refuse_others(part, self.wrappers[part])
        self.refuse_others(part, self.claims[part])
        self.claims[part].append(self.acting)

    def wrap(self, part: str, apply: Callable[[], None]) -> None:
        """Wrap a part once all switches have run, or at once if they have.

        Raises IncompatibleStrategies if another strategy has claimed the part.
        """
        self.refuse_others(part, self.claims[part])
        self.wrappers[part].append(self.acting)
        if self.pending is None:
            apply()
        else:
            self.pending.append(apply)

    def refuse_others(self, part: str, strategies: list[str]) -> None:
        """Raise IncompatibleStrategies if another strategy than the acting one changes the part."""
        for other in strategies:
            if other != self.acting:
                what = part.replace("_", " ")
                raise IncompatibleStrategies(
                    f"{other} and {self.acting} do not combine: both change the {what}"
                )

    def finish(self) -> None:
        """Put the waiting wrappers on, in the order of the strategies: all switches have run."""
        pending = self.pending or []
        self.pending = None
        for apply in pending:
            apply()


@dataclass
class Parts:
    """The base of a framework's parts, which have a typed field each."""

    ledger: Ledger

    def __setattr__(self, part: str, value: Any) -> None:
        is_first = part not in vars(self)  # __init__ sets it
        if not is_first:
            self.ledger.set(part, is_same=value is getattr(self, part))
        super().__setattr__(part, value)

    def claim(self, *parts: str) -> None:
        """Keep parts for the acting strategy alone, which sets them later or does without them.

        Raises IncompatibleStrategies, and AttributeError if there is no such part.
        """
        for part in parts:
            getattr(self, part)
            self.ledger.claim(part)

    def wrap(self, part: str, function: Callable[[Any], Any]) -> None:
        """Replace a part by `function` of it.

        Raises IncompatibleStrategies, and AttributeError if there is no such part.
        """
        getattr(self, part)

        def apply() -> None:
            object.__setattr__(self, part, function(getattr(self, part)))

        self.ledger.wrap(part, apply)


class Options(dict[str, Any]):
    """Named arguments, each a part of its own."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        super().__init__()
        self.ledger = ledger
        self.name = name

    def __setitem__(self, key: str, value: Any) -> None:
        self.ledger.set(f"{self.name} {key!r}")
        super().__setitem__(key, value)

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc, override]
        for key, value in dict(other).items():
            self[key] = value
        return self

    def wrap(self, key: str, function: Callable[[Any], Any], default: Any = None) -> None:
        """Replace an option, or its default, by `function` of it. Raises IncompatibleStrategies."""

        def apply() -> None:
            dict.__setitem__(self, key, function(self.get(key, default)))

        self.ledger.wrap(f"{self.name} {key!r}", apply)


class Hooks(Generic[P]):
    """Functions that strategies leave for one moment of the build, called in their order.

    What a hook sets is its strategy's.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.hooks: list[tuple[str, Callable[P, object]]] = []

    def append(self, hook: Callable[P, object]) -> None:
        """Add a function of the acting strategy."""
        self.hooks.append((self.ledger.acting, hook))

    def __call__(self, *args: P.args, **named: P.kwargs) -> None:
        for strategy, hook in self.hooks:
            with self.ledger.acting_as(strategy):
                hook(*args, **named)
