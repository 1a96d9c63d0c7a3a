"""What the strategies of a combination share: the parts of an adapter that their switches set, and who has set which.

A framework's parts are dataclasses of `Parts`. While a strategy's switch runs, or a hook that it left (`Hooks`), plain setting
makes a part that strategy's own; another strategy that sets it too raises IncompatibleStrategies. To build on what is there, a
switch calls `wrap`: its function gets the part as it is once all switches have run, so no order of strategies loses a wrapper.
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
    """Which strategies have set or wrapped which part. Where none acts, as in a proof or a test, everything may be set."""

    def __init__(self) -> None:
        self.acting = ""  # the strategy whose switch or hook runs
        self.setters: defaultdict[str, list[str]] = defaultdict(list)
        self.wrappers: defaultdict[str, list[str]] = defaultdict(list)
        self.claims: defaultdict[str, list[str]] = defaultdict(list)
        self.pending: list[Callable[[], None]] | None = []  # wrappers, until all switches have run

    @contextmanager
    def acting_as(self, strategy: str) -> Iterator[None]:
        """What is set in here is this strategy's."""
        before, self.acting = self.acting, strategy
        try:
            yield
        finally:
            self.acting = before

    def set(self, part: str, same: bool = False) -> None:
        """`same`: to the very thing that is there, which is no conflict. Raises IncompatibleStrategies."""
        if not self.acting:
            return
        wrappers = self.wrappers[part] if self.pending is None else []  # they would be lost
        if not same:
            self.refuse_others(part, [*self.setters[part], *wrappers, *self.claims[part]])
        self.setters[part].append(self.acting)

    def claim(self, part: str) -> None:
        """Raises IncompatibleStrategies."""
        self.refuse_others(part, [*self.setters[part], *self.wrappers[part], *self.claims[part]])
        self.claims[part].append(self.acting)

    def refuse_others(self, part: str, strategies: list[str]) -> None:
        for other in strategies:
            if other != self.acting:
                what = part.replace("_", " ")
                raise IncompatibleStrategies(f"{other} and {self.acting} do not combine: both change the {what}")

    def wrap(self, part: str, apply: Callable[[], None]) -> None:
        """Raises IncompatibleStrategies."""
        self.refuse_others(part, self.claims[part])
        self.wrappers[part].append(self.acting)
        if self.pending is None:
            apply()
        else:
            self.pending.append(apply)

    def finish(self) -> None:
        """All switches have run: put the wrappers on, in the order of the strategies."""
        pending, self.pending = self.pending or [], None
        for apply in pending:
            apply()


@dataclass
class Parts:
    """A framework's subclass has a typed field for each part."""

    ledger: Ledger

    def __setattr__(self, part: str, value: Any) -> None:
        if part in vars(self):  # not in __init__
            self.ledger.set(part, same=value is getattr(self, part))
        super().__setattr__(part, value)

    def claim(self, *parts: str) -> None:
        """These are for the acting strategy alone: it sets them later, or does without them. Raises IncompatibleStrategies."""
        for part in parts:
            getattr(self, part)
            self.ledger.claim(part)

    def wrap(self, part: str, function: Callable[[Any], Any]) -> None:
        """Put `function` of the part in its place. Raises AttributeError."""
        getattr(self, part)

        def apply() -> None:
            object.__setattr__(self, part, function(getattr(self, part)))

        self.ledger.wrap(part, apply)


class Options(dict[str, Any]):
    """Named arguments, each a part of its own."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        super().__init__()
        self.ledger, self.name = ledger, name

    def __setitem__(self, key: str, value: Any) -> None:
        self.ledger.set(f"{self.name} {key!r}")
        super().__setitem__(key, value)

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc, override]
        for key, value in dict(other).items():
            self[key] = value
        return self

    def wrap(self, key: str, function: Callable[[Any], Any], default: Any = None) -> None:
        """Put `function` of the option, or of its default, in its place."""

        def apply() -> None:
            dict.__setitem__(self, key, function(self.get(key, default)))

        self.ledger.wrap(f"{self.name} {key!r}", apply)


class Hooks(Generic[P]):
    """What strategies do at one moment of the build, one after the other; each sets parts in its own name."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.hooks: list[tuple[str, Callable[P, object]]] = []

    def append(self, hook: Callable[P, object]) -> None:
        self.hooks.append((self.ledger.acting, hook))

    def __call__(self, *args: P.args, **named: P.kwargs) -> None:
        for strategy, hook in self.hooks:
            with self.ledger.acting_as(strategy):
                hook(*args, **named)
