"""Define the parts of an adapter that strategies set, and a ledger of who has set which.

A framework's parts are dataclasses of `AdapterParts`. While a strategy's switch runs, or a hook
that it left (`Hooks`), setting a part makes it that strategy's own. If another strategy sets it
too, IncompatibleStrategies is raised. To build on what is there, a switch calls `wrap`: its
function gets the part after all switches have run, so no order of strategies loses a wrapper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec

from framebench.strategies.strategy import IncompatibleStrategies

P = ParamSpec("P")
Change = Literal["set", "wrapped", "claimed"]


class Ledger:
    """Record which strategy has set, wrapped or claimed which part.

    While no strategy acts, as in a proof or a test, everything may be set.
    """

    def __init__(self) -> None:
        """Begin without a change."""
        self.acting = ""  # the strategy whose switch or hook runs
        # how each part was changed, and by which strategy
        self.changes: defaultdict[str, list[tuple[Change, str]]] = defaultdict(list)
        self.switches_have_run = False  # whether `finish` was called
        self.pending: list[Callable[[], None]] = []  # wrappers that wait for that

    @contextmanager
    def acting_as(self, strategy: str) -> Iterator[None]:
        """Record the parts that are set in this context as changed by a strategy."""
        acting_before = self.acting
        self.acting = strategy
        try:
            yield
        finally:
            self.acting = acting_before

    def set(self, part: str, is_same: bool = False) -> None:
        """Enter that the acting strategy sets a part. Raises IncompatibleStrategies.

        `is_same` says that the part is set to the object it already has, which is no conflict.
        """
        if not self.acting:
            return
        if is_same:
            self.enter(part, "set", refused_after=set())
        elif self.switches_have_run:  # wrappers are applied already, and would be lost
            self.enter(part, "set", refused_after={"set", "wrapped", "claimed"})
        else:
            self.enter(part, "set", refused_after={"set", "claimed"})

    def claim(self, part: str) -> None:
        """Enter that only the acting strategy may change a part. Raises IncompatibleStrategies."""
        self.enter(part, "claimed", refused_after={"set", "wrapped", "claimed"})

    def wrap(self, part: str, apply: Callable[[], None]) -> None:
        """Wrap a part once all switches have run, or at once if they have.

        Raises IncompatibleStrategies if another strategy has claimed the part.
        """
        self.enter(part, "wrapped", refused_after={"claimed"})
        if self.switches_have_run:
            apply()
        else:
            self.pending.append(apply)

    def enter(self, part: str, change: Change, refused_after: Set[Change]) -> None:
        """Enter a change of the acting strategy.

        Raises IncompatibleStrategies after another strategy's change of a kind in `refused_after`.
        """
        for earlier_change, earlier_strategy in self.changes[part]:
            if earlier_change in refused_after and earlier_strategy != self.acting:
                what = part.replace("_", " ")
                raise IncompatibleStrategies(
                    f"{earlier_strategy} and {self.acting} do not combine: both change the {what}"
                )
        self.changes[part].append((change, self.acting))

    def finish(self) -> None:
        """Apply the recorded wrappers in the order of the strategies: all switches have run."""
        self.switches_have_run = True
        for apply in self.pending:
            apply()
        self.pending.clear()


def refuse_unset(*_: Any) -> Any:
    """Raise LookupError: the default of a part that only some scenarios or strategies set."""
    raise LookupError("no strategy of the case has set this part")


@dataclass
class AdapterParts:
    """Base class of a framework's parts, which are its typed fields."""

    ledger: Ledger

    def __setattr__(self, part: str, value: Any) -> None:
        is_first = part not in vars(self)  # __init__ sets it
        if not is_first:
            self.ledger.set(part, is_same=value is getattr(self, part))
        super().__setattr__(part, value)

    def claim(self, *parts: str) -> None:
        """Keep parts for the acting strategy, which sets them later or does without them.

        Raises IncompatibleStrategies, and AttributeError if there is no such part.
        """
        for part in parts:
            getattr(self, part)
            self.ledger.claim(part)

    def wrap(self, part: str, function: Callable[[Any], Any]) -> None:
        """Replace a part by the result of `function` for it.

        Raises IncompatibleStrategies, and AttributeError if there is no such part.
        """
        getattr(self, part)

        def apply() -> None:
            wrapped = function(getattr(self, part))
            # not `setattr`, which would enter in the ledger that the part is set
            object.__setattr__(self, part, wrapped)

        self.ledger.wrap(part, apply)


class PartOptions(dict[str, Any]):
    """Named arguments, each a part of its own."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        """Begin empty; `name` begins the name of each part in the ledger."""
        super().__init__()
        self.ledger = ledger
        self.name = name

    def __setitem__(self, key: str, value: Any) -> None:
        self.ledger.set(f"{self.name} {key!r}")  # refuses an option that another strategy has set
        super().__setitem__(key, value)

    def wrap(self, key: str, function: Callable[[Any], Any]) -> None:
        """Replace an option by the result of `function` for it, or for None if it is unset.

        Raises IncompatibleStrategies.
        """

        def apply() -> None:
            wrapped = function(self.get(key))
            dict.__setitem__(self, key, wrapped)  # without an entry in the ledger, as above

        self.ledger.wrap(f"{self.name} {key!r}", apply)


class Hooks(Generic[P]):
    """Functions that strategies add to one moment of the build, called in their order.

    A part that such a function sets counts as set by its strategy.
    """

    def __init__(self, ledger: Ledger) -> None:
        """Begin without a function."""
        self.ledger = ledger
        self.hooks: list[tuple[str, Callable[P, object]]] = []

    def append(self, hook: Callable[P, object]) -> None:
        """Add a function of the acting strategy."""
        self.hooks.append((self.ledger.acting, hook))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the functions in their order, each as its strategy."""
        for strategy, hook in self.hooks:
            with self.ledger.acting_as(strategy):
                hook(*args, **kwargs)
