"""Proofs that a strategy was on: what was counted, what was expected, and the verdict.

A switch returns a proof, which is built by plain calls:

    expect(graph_nodes=0, saved_tensors=0)        counts of the observed step, by key
    expect(kernels=above(0))                      a relation in the place of a value
    expect(residuals=(above(0), below("blocks"))) several of them; a string names another count
    expect({"operators.cat": 0})                  an entry of a dictionary of counts
    check(is_faster, "the second is faster")      a function of the evidence
    expect(weights_moved=4).counting(count)       adds what `count` returns to the evidence first
    expect(recomputed=4).counting_from(count)     the same, where `count` reads the evidence so far
    one & other                                   both

Whatever a proof looks at is in the evidence, and so in the record, where a reader can judge too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from framebench.suite.result import StrategyEffect

# What was counted, by name: numbers, texts, and lists and dictionaries of them, as JSON takes them.
Evidence = dict[str, Any]
Count = Callable[[], Evidence]
CountFromEvidence = Callable[[Evidence], Evidence]
Condition = Callable[[Evidence], str]  # returns why it does not hold, or ""


def read(evidence: Evidence, key: str) -> Any:
    """Return the value of a key, or of an entry of its dictionary (`key.entry`). Raises KeyError.

    An entry that a dictionary of counts lacks never occurred, so its count is 0.
    """
    name, _, entry = key.partition(".")
    if name not in evidence:
        raise KeyError(f"nothing counts {name}; what is counted: {', '.join(sorted(evidence))}")
    value = evidence[name]
    return value.get(entry, 0) if entry else value


@dataclass(frozen=True)
class Relation:
    """A condition on an observed value and an expected one."""

    words: str  # between "expected" and the expected value
    holds: Callable[[Any, Any], bool]
    expected: Any  # a value, or the name of another count
    times: float = 0  # a factor of the other count; 0: `expected` is a value

    def find_expected(self, evidence: Evidence) -> Any:
        """Return the expected value, or None if it was not counted. Raises KeyError."""
        if not self.times:
            return self.expected
        value = read(evidence, self.expected)
        if value is None or self.times == 1:
            return value
        return self.times * value

    def describe(self, evidence: Evidence) -> str:
        """Return the expectation in words, such as `at least 2`, with another count's number."""
        value = self.find_expected(evidence)
        if self.times:
            factor = "" if self.times == 1 else f"{self.times:g} * "
            text = f"{factor}{self.expected} ({value})"
        else:
            text = ", ".join(sorted(value)) if isinstance(value, set) else quote(value)
        return f"{self.words} {text}".strip()


def quote(value: Any) -> str:
    """Return a value as text; a string in quotes, so that an empty one is visible."""
    return repr(value) if isinstance(value, str) else str(value)


def compare_with(
    words: str, holds: Callable[[Any, Any], bool], bound: float | str, times: float = 1
) -> Relation:
    """Return a relation to a number, or to `times` the count whose name is `bound`."""

    def holds_if_counted(observed: Any, expected: Any) -> bool:
        return observed is not None and expected is not None and holds(observed, expected)

    return Relation(words, holds_if_counted, bound, times if isinstance(bound, str) else 0)


# to be called with a bound, and maybe `times`
above = partial(compare_with, "more than", operator.gt)
at_least = partial(compare_with, "at least", operator.ge)
below = partial(compare_with, "less than", operator.lt)
at_most = partial(compare_with, "at most", operator.le)


def equal_to(key: str, times: float = 1) -> Relation:
    """Expect the value of another count, or `times` that value."""
    return Relation("", operator.eq, key, times)


def other_than(value: Any) -> Relation:
    """Expect any value but this one."""
    return Relation("other than", operator.ne, value)


def only(*names: str, ignoring: Iterable[str] = ()) -> Relation:
    """Expect a dictionary of counts that has these entries and no others."""
    return Relation("only", lambda counts, names: set(counts) - set(ignoring) == names, set(names))


def none_but(*names: str, ignoring: Iterable[str] = ()) -> Relation:
    """Expect a dictionary of counts that has no entries but these, or none at all."""
    allowed = {*names, *ignoring}
    return Relation("none but", lambda counts, _: set(counts) <= allowed, set(names))


def including(*names: str) -> Relation:
    """Expect a dictionary of counts that has these entries, and maybe others."""
    return Relation("entries for", lambda counts, names: set(counts) >= names, set(names))


def if_counted(expected: Any) -> Relation:
    """Return a relation that also accepts None, which stands for what a step does not show.

    A compiled step, for instance, shows no saved tensors.
    """
    relation = as_relation(expected)

    def is_unknown_or_holds(observed: Any, value: Any) -> bool:
        return observed is None or relation.holds(observed, value)

    return replace(relation, holds=is_unknown_or_holds)


def as_relation(expected: Any) -> Relation:
    """Return a relation unchanged, and a value as equality with it."""
    return expected if isinstance(expected, Relation) else Relation("", operator.eq, expected)


def compare_count(key: str, relation: Relation, evidence: Evidence) -> str:
    """Return the expected and the observed count, or "" if the relation holds. Raises KeyError."""
    observed = read(evidence, key)
    if relation.holds(observed, relation.find_expected(evidence)):
        return ""
    value = "nothing that can be counted" if observed is None else quote(observed)
    return f"{key}: expected {relation.describe(evidence)}, observed {value}"


@dataclass(frozen=True)
class Proof:
    """The conditions on the evidence that hold if a strategy was on."""

    conditions: tuple[Condition, ...]
    counts: tuple[CountFromEvidence, ...] = ()  # called in this order before the verdict

    def counting(self, count: Count) -> Proof:
        """Return a proof that first adds to the evidence what `count` returns.

        `count` may make steps of its own.
        """
        return self.counting_from(lambda evidence: count())

    def counting_from(self, count: CountFromEvidence) -> Proof:
        """Return a proof that first calls `count` with the evidence, and adds the result to it."""
        return Proof(self.conditions, (*self.counts, count))

    def __and__(self, other: Proof) -> Proof:
        return Proof(self.conditions + other.conditions, self.counts + other.counts)

    def judge(self, evidence: Evidence) -> StrategyEffect:
        """Return the verdict, all evidence, and why conditions do not hold."""
        complete = dict(evidence)
        for count in self.counts:
            complete |= count(complete)
        failures = [explain_failure(complete) for explain_failure in self.conditions]
        reason = "; ".join(filter(None, failures))
        return StrategyEffect(proven=not reason, evidence=complete, reason=reason or None)


def expect(counts: Mapping[str, Any] | None = None, /, **more: Any) -> Proof:
    """Return a proof that each key of the evidence has this value, or meets these relations.

    `counts` takes keys that are no Python names, such as entries of dictionaries.
    """
    conditions: list[Condition] = []
    for key, expected in {**(counts or {}), **more}.items():
        for relation in expected if isinstance(expected, tuple) else (expected,):
            conditions.append(partial(compare_count, key, as_relation(relation)))
    return Proof(tuple(conditions))


def check(function: Callable[[Evidence], bool], reason: str) -> Proof:
    """Return a proof that a function of the evidence returns True.

    `reason` is a sentence that is true if the function returns True.
    """

    def explain_failure(evidence: Evidence) -> str:
        return "" if function(evidence) else f"it does not hold that {reason}"

    return Proof((explain_failure,))


def judge_parts(proofs: Mapping[str, Proof], evidence: Evidence) -> StrategyEffect:
    """Judge every part of a strategy: the whole was on if each part was.

    The evidence that an earlier part's proof has added can be read by later ones.
    """
    is_combined = len(proofs) > 1
    proven = {}
    reasons = []
    for name, proof in proofs.items():
        effect = proof.judge(evidence)
        evidence = effect.evidence
        proven[name] = effect.proven
        if effect.reason:
            reasons.append(f"{name}: {effect.reason}" if is_combined else effect.reason)
    if is_combined:
        evidence = evidence | {"proven": proven}
    return StrategyEffect(
        proven=all(proven.values()), evidence=evidence, reason="; ".join(reasons) or None
    )
